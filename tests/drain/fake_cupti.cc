// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/drain/fake_cupti.h"

#include <cupti.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>

#include "tests/cupti/size_walk.h"

namespace gpuprobe::drain_test {
namespace {

constexpr size_t kKernelBytes = 216;  // CUpti_ActivityKernel10 in 13.0
static_assert(sizeof(CUpti_ActivityKernel10) >= kKernelBytes);
constexpr char kKernelName[] = "_Z5blurrPfi";

thread_local bool t_is_other_client = false;

// What all records of a kind have beside times and correlation.
CUpti_ActivityKernel10 KernelOnStream(uint32_t stream) {
  CUpti_ActivityKernel10 kernel;
  std::memset(&kernel, 0, sizeof kernel);
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.contextId = 1;
  kernel.streamId = stream;
  kernel.gridX = kernel.gridY = kernel.gridZ = 1;
  kernel.blockX = 256;
  kernel.blockY = kernel.blockZ = 1;
  kernel.name = kKernelName;
  return kernel;
}

CUpti_ActivityAPI LaunchCall() {
  CUpti_ActivityAPI call;
  std::memset(&call, 0, sizeof call);
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  call.processId = static_cast<uint32_t>(getpid());
  call.threadId = static_cast<uint32_t>(syscall(SYS_gettid));
  return call;
}

}  // namespace

FakeCupti& FakeCupti::Get() {
  static FakeCupti* const fake = new FakeCupti;
  return *fake;
}

void FakeCupti::BecomeOtherClient() { t_is_other_client = true; }

uint32_t FakeCupti::kinds_enabled() const {
  return static_cast<uint32_t>(
      std::count_if(enabled_.begin(), enabled_.end(), [](const auto& on) { return on.load(); }));
}

uint64_t FakeCupti::Now() const {
  if (const cupti::TimestampFn callback = timestamp_.load()) return callback();
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Every call of a client passes here.
cupti::Result FakeCupti::Call() {
  if (!t_is_other_client && finalized_.load()) forbidden_calls_.fetch_add(1);
  return CUPTI_SUCCESS;
}

void FakeCupti::Complete(Slot* slot) {
  completed_.load()(nullptr, 0, slot->data, slot->size, slot->used);
  slot->data = nullptr;
}

bool FakeCupti::HaveRoom(Slot* slot, size_t bytes) {
  if (slot->data != nullptr && slot->size - slot->used < bytes) Complete(slot);
  if (slot->data != nullptr) return true;
  size_t max_records = 0;
  requested_.load()(&slot->data, &slot->size, &max_records);
  slot->used = 0;
  if (slot->data == nullptr) refused_requests_.fetch_add(1);
  return slot->data != nullptr;
}

bool FakeCupti::Launch(size_t index, uint32_t correlation) {
  Slot& slot = slots_[index];
  const std::lock_guard<std::mutex> lock(slot.mutex);
  // Read under the lock that a flush takes: a client that disabled its kinds and flushed then has
  // all.
  if (!enabled_[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL].load()) return false;
  CUpti_ActivityAPI call = LaunchCall();
  CUpti_ActivityKernel10 kernel = KernelOnStream(static_cast<uint32_t>(index) + 1);
  if (!HaveRoom(&slot, sizeof call + kKernelBytes)) {
    dropped_records_.fetch_add(2);
    dropped_untold_.fetch_add(2);
    return false;
  }
  const cupti::TimestampFn timestamp = timestamp_.load();
  if (timestamp != slot.last_timestamp) slot.last_end = 0;
  slot.last_timestamp = timestamp;
  call.start = call.end = std::max(Now(), slot.last_end);
  kernel.start = call.end;
  kernel.end = slot.last_end = kernel.start + 1;
  call.correlationId = kernel.correlationId = correlation;
  std::memcpy(slot.data + slot.used, &call, sizeof call);
  std::memcpy(slot.data + slot.used + sizeof call, &kernel, kKernelBytes);
  slot.used += sizeof call + kKernelBytes;
  return true;
}

cupti::Result FakeCupti::FlushAll(uint32_t flag) {
  if (!t_is_other_client) {
    flushes_.fetch_add(1);
    if (other_has_it_.load()) forbidden_calls_.fetch_add(1);
    if (hold_flushes_.load()) {
      held_flushes_.fetch_add(1);
      while (hold_flushes_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      held_flushes_.fetch_sub(1);
    }
  }
  for (Slot& slot : slots_) {
    const std::lock_guard<std::mutex> lock(slot.mutex);
    const bool wanted = slot.used != 0 || (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
    if (slot.data != nullptr && wanted) Complete(&slot);
  }
  return CUPTI_SUCCESS;
}

cupti::CuptiApi FakeCupti::Api() {
  cupti::CuptiApi api;
  api.GetVersion = [](uint32_t* version) { return *version = Get().version_, Get().Call(); };
  api.GetTimestamp = [](uint64_t* ns) { return *ns = Get().Now(), Get().Call(); };
  api.GetResultString = [](cupti::Result, const char** text) { return *text = "", Get().Call(); };
  api.ActivityRegisterCallbacks = [](cupti::BufferRequestedFn requested,
                                     cupti::BufferCompletedFn completed) {
    Get().requested_.store(requested);
    Get().completed_.store(completed);
    Get().registrations_.fetch_add(1);
    return Get().Call();
  };
  api.ActivityEnable = [](int32_t kind) {
    return Get().enabled_.at(static_cast<size_t>(kind)).store(true), Get().Call();
  };
  api.ActivityDisable = [](int32_t kind) {
    return Get().enabled_.at(static_cast<size_t>(kind)).store(false), Get().Call();
  };
  api.ActivityFlushAll = [](uint32_t flag) {
    Get().Call();
    return Get().FlushAll(flag);
  };
  api.ActivityGetNextRecord = &cupti::SizeWalk;
  api.ActivityGetNumDroppedRecords = [](void*, uint32_t, size_t* dropped) {
    return *dropped = Get().dropped_untold_.exchange(0), Get().Call();
  };
  api.Subscribe = [](void**, void*, void*) { return Get().Call(), Get().subscribe_result_; };
  api.Unsubscribe = [](void*) { return Get().Call(); };
  api.handle = this;  // only compared with nullptr
  std::snprintf(api.path, sizeof api.path, "fake_cupti");
  api.version = version_;
  return api;
}

}  // namespace gpuprobe::drain_test

namespace gpuprobe::cupti {

bool LoadCupti(CuptiApi* api, const char*, char* why, size_t why_size) {
  auto& fake = drain_test::FakeCupti::Get();
  if (fake.missing()) {
    std::snprintf(why, why_size, "no libcupti was found");
    return false;
  }
  RecordLayout layout;
  if (KnownLayout(130001, &layout))
    std::memcpy(g_walk_sizes, layout.size_bytes, sizeof g_walk_sizes);
  *api = fake.Api();
  return true;
}

const char* ResultName(Result) { return "a result"; }

}  // namespace gpuprobe::cupti

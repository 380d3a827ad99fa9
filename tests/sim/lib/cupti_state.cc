// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/cupti_state.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/faults.h"
#include "tests/sim/lib/replay.h"

namespace gpuprobe::sim {
namespace {

thread_local int t_callbacks[3] = {};  // by CallbackKind
thread_local int t_global_lock_depth = 0;
pid_t g_attached_pid = 0;

const DriverLink* Connect() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return nullptr;
  auto* link = new DriverLink{};
  bool complete = true;
  const auto resolve = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(driver, name));
    complete = complete && field != nullptr;
  };
  resolve(link->attach, "gpusim_internal_attach");
  resolve(link->callback, "gpusim_internal_callback");
  resolve(link->violation, "gpusim_internal_violation");
  resolve(link->cupti_call, "gpusim_internal_cupti_call");
  resolve(link->tally, "gpusim_internal_tally");
  resolve(link->devices, "gpusim_internal_devices");
  resolve(link->contexts, "gpusim_internal_contexts");
  resolve(link->initialised, "gpusim_internal_initialised");
  resolve(link->now, "gpusim_now");
  resolve(link->advance, "gpusim_advance");
  if (!complete) return nullptr;  // another driver than the stand-in
  g_attached_pid = getpid();
  link->attach(&kHooks);
  return link;
}

std::shared_mutex* GlobalMutex() {
  static std::shared_mutex* mu = []() -> std::shared_mutex* {
    const char* mode = getenv("GPUSIM_CUPTI_LOCK");
    return mode != nullptr && strcmp(mode, "global") == 0 ? new std::shared_mutex : nullptr;
  }();
  return mu;
}

}  // namespace

const DriverLink* DriverLink::Get() {
  static const DriverLink* link = Connect();
  return link;
}

CuptiState& CuptiState::Get() {
  static CuptiState* state =
      new CuptiState;  // never destroyed: records come from static destructors too
  return *state;
}

CuptiState::CuptiState() {
  for (auto& attribute : attributes) attribute = 0;
  attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = 3'200'000;
  attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = 250;
  attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = 3;
  attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] = CurrentLayout().per_thread_buffers;
}

bool CuptiState::AnyKindEnabled() const {
  for (const auto& enabled : kind_enabled) {
    if (enabled.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

uint64_t CuptiState::Timestamp() const {
  // Acquire: with the release in cuptiActivityRegisterTimestampCallback, for the pair taken there.
  if (const auto callback = timestamp.load(std::memory_order_acquire)) return callback();
  int64_t replay_ns = 0;
  if (Replay::Get().Now(&replay_ns)) return static_cast<uint64_t>(replay_ns);
  return static_cast<uint64_t>(DriverLink::Get()->now());
}

CallbackSection::CallbackSection(CallbackKind kind, const char* what) : kind_(kind) {
  ++t_callbacks[static_cast<size_t>(kind)];
  DriverLink::Get()->callback(+1, what);
}

CallbackSection::~CallbackSection() {
  DriverLink::Get()->callback(-1, "");
  --t_callbacks[static_cast<size_t>(kind_)];
}

bool CallbackSection::Inside(CallbackKind kind) {
  return t_callbacks[static_cast<size_t>(kind)] > 0;
}

GlobalLock::GlobalLock(bool exclusive) {
  std::shared_mutex* mu = GlobalMutex();
  if (mu == nullptr || t_global_lock_depth++ > 0) return;
  held_ = exclusive ? Held::kExclusive : Held::kShared;
  if (exclusive) {
    mu->lock();
  } else {
    mu->lock_shared();
  }
}

GlobalLock::~GlobalLock() {
  std::shared_mutex* mu = GlobalMutex();
  if (mu == nullptr) return;
  --t_global_lock_depth;
  if (held_ == Held::kExclusive) mu->unlock();
  if (held_ == Held::kShared) mu->unlock_shared();
}

CuptiCall::CuptiCall(const char* name, int64_t argument) : name_(name), argument_(argument) {
  const DriverLink* link = DriverLink::Get();
  if (link == nullptr) {
    over_ = true;
    result_ = CUPTI_ERROR_NOT_INITIALIZED;
    return;
  }
  if (g_attached_pid != getpid()) {
    link->violation((std::string(name) + " called in a forked child").c_str());
    over_ = true;
    result_ = CUPTI_ERROR_NOT_INITIALIZED;
    return;
  }
  const int fault = Faults::Get().OnCall(name, argument);
  null_handle_ = fault == Faults::kNull;
  if (fault == 0 || null_handle_) return;
  over_ = true;
  result_ = fault == Faults::kSilent ? CUPTI_SUCCESS : static_cast<CUptiResult>(fault);
}

CuptiCall::~CuptiCall() {
  if (const DriverLink* link = DriverLink::Get(); link != nullptr && g_attached_pid == getpid()) {
    link->cupti_call(name_, argument_, result_);
  }
}

void Violation(const char* text) {
  if (const DriverLink* link = DriverLink::Get()) link->violation(text);
}

void Count(Tally tally, uint32_t kind, uint64_t n) {
  DriverLink::Get()->tally(static_cast<uint32_t>(tally), kind, n);
}

}  // namespace gpuprobe::sim

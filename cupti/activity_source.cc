// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/activity_source.h"

#include <cupti.h>
#include <stdio.h>

#include <cstddef>
#include <cstdint>

#include "cupti/api_calls.h"
#include "ringbuf/records.h"

namespace gpuprobe::cupti {
namespace {

constexpr uint32_t kFlushForced = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;

// A function that this libcupti may lack.
template <class... Parameters, class... Arguments>
Result CallIfThere(Result (*function)(Parameters...), Arguments... arguments) {
  return function == nullptr ? kNoSuchFunction : function(arguments...);
}

// Never called: the probing subscription is undone before any callback is enabled.
void IgnoreCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

bool IsMissingPrivilege(Result result) {
  return result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ||
         result == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES;
}

bool SaysThatTheSlotIsTaken(Result result) {
  return result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ||
         result == CUPTI_ERROR_MAX_LIMIT_REACHED;
}

void Explain(char* why, size_t why_size, const char* call, Result result) {
  const char* remedy = "";
  if (IsMissingPrivilege(result)) {
    remedy =
        "; run as root (or with CAP_SYS_ADMIN), or load the nvidia kernel module with "
        "NVreg_RestrictProfilingToAdminUsers=0";
  } else if (SaysThatTheSlotIsTaken(result)) {
    remedy =
        "; another profiler (nsys, ncu, compute-sanitizer, cuda-gdb, ...) has CUPTI, gpuprobe "
        "leaves it alone";
  }
  snprintf(why, why_size, "%s returned %d (%s)%s", call, result, ResultName(result), remedy);
}

bool IsGpuWork(int32_t kind) {
  return kind == CUPTI_ACTIVITY_KIND_MEMCPY || kind == CUPTI_ACTIVITY_KIND_MEMSET ||
         kind == CUPTI_ACTIVITY_KIND_MEMCPY2 || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
         kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
}

// Switches off the calls that the table lists as chatter; calls that are newer than the table stay
// on. Returns the number of calls that are off, and the first refusal where there is none: each
// libcupti refuses the few calls of other versions (13.0: 10 of 830).
Result SwitchOffChatterOf(ApiDomain domain, Result (*enable_call)(uint32_t, uint8_t),
                          int32_t* off) {
  *off = 0;
  if (enable_call == nullptr) return kNoSuchFunction;
  Result first_refusal = kSuccess;
  size_t count = 0;
  const ApiCall* calls = ApiCalls(domain, &count);
  for (size_t i = 0; i < count; ++i) {
    if (calls[i].recorded) continue;
    const Result result = enable_call(calls[i].cbid, 0);
    if (result == kSuccess) {
      ++*off;
    } else if (first_refusal == kSuccess) {
      first_refusal = result;  // an older libcupti does not know the newest calls
    }
  }
  return *off > 0 ? kSuccess : first_refusal;
}

}  // namespace

bool ActivitySource::Start(const CuptiApi* api, const ActivityOptions& options,
                           BufferRequestedFn requested, BufferCompletedFn completed, char* why,
                           size_t why_size) {
  if (active()) return true;
  api_ = api;
  options_ = options;
  requested_ = requested;
  completed_ = completed;
  kind_count_ = attribute_count_ = 0;
  if (why_size > 0) why[0] = '\0';

  if (!SubscriberSlotIsFree()) {
    Explain(why, why_size, "cuptiSubscribe", attributes_[0].result);
    return false;
  }
  SetLatencyTimestamps();
  SetHwTrace();
  const Refusal refusal = Attach();
  if (refusal.result != kSuccess) {
    if (latency_changed_) api_->ActivityEnableLatencyTimestamps(0);
    Explain(why, why_size, refusal.call, refusal.result);
    return false;
  }
  started_ = true;
  return true;
}

// What Start and Resume have in common: from the attributes to the call filters, undone on a
// refusal.
ActivitySource::Refusal ActivitySource::Attach() {
  SetAttributes();
  const Result registered = api_->ActivityRegisterCallbacks(requested_, completed_);
  NoteAttribute("REGISTER_CALLBACKS", 0, registered);
  if (registered != kSuccess) {
    RestoreAttributes();
    return {"cuptiActivityRegisterCallbacks", registered};
  }
  EnableKinds();
  const Result refusal = UsefulKindsRefused();
  if (refusal != kSuccess) {
    DisableKinds();
    RestoreAttributes();
    return {"cuptiActivityEnable", refusal};
  }
  SwitchOffChatter();
  active_.store(true, std::memory_order_relaxed);
  return {nullptr, kSuccess};
}

// Subscribes and unsubscribes at once, to learn whether another client is there. Holding the slot
// would take it from the application's own profiler.
bool ActivitySource::SubscriberSlotIsFree() {
  void* subscriber = nullptr;
  const Result result =
      api_->Subscribe(&subscriber, reinterpret_cast<void*>(&IgnoreCallback), nullptr);
  NoteAttribute("SUBSCRIBE_PROBE", 0, result);
  if (result != kSuccess) return IsMissingPrivilege(result);
  const Result undone = api_->Unsubscribe(subscriber);
  if (undone != kSuccess) NoteAttribute("UNSUBSCRIBE_PROBE", 0, undone);
  return true;
}

void ActivitySource::SetAttributes() {
  if (options_.zeroed_buffers) {
    size_t size = sizeof(zeroed_before_);
    zeroed_before_ = 0;
    if (CallIfThere(api_->ActivityGetAttribute, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
                    &size, &zeroed_before_) != kSuccess) {
      zeroed_before_ = 0;  // CUPTI's default
    }
    uint8_t zeroed = 1;
    size = sizeof(zeroed);
    const Result result = CallIfThere(
        api_->ActivitySetAttribute, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
    zeroed_changed_ = result == kSuccess;
    NoteAttribute("ATTR_ZEROED_OUT_ACTIVITY_BUFFER", CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
                  result);
  }
  if (options_.device_buffers_preallocated != 0) {
    size_t count = options_.device_buffers_preallocated;
    size_t size = sizeof(count);
    NoteAttribute("ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE",
                  CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE,
                  CallIfThere(api_->ActivitySetAttribute,
                              CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &size, &count));
  }
  if (CallIfThere(api_->GetThreadIdType, &thread_id_before_) != kSuccess) {
    thread_id_before_ = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  }
  const Result thread_ids =
      CallIfThere(api_->SetThreadIdType, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  thread_id_changed_ = thread_ids == kSuccess;
  NoteAttribute("THREAD_ID_TYPE_SYSTEM", CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, thread_ids);
}

// Only before CUDA is initialised, so once and not on every return from a pause.
void ActivitySource::SetLatencyTimestamps() {
  if (!options_.latency_timestamps) return;
  const Result result = CallIfThere(api_->ActivityEnableLatencyTimestamps, uint8_t{1});
  latency_changed_ = result == kSuccess;
  NoteAttribute("LATENCY_TIMESTAMPS", 1, result);
}

// Before the first context, and for good: CUPTI cannot take it back, so it stays on while we step
// aside. A refusal (any GPU before Blackwell, no libnvperf_host.so) leaves the other way of timing.
void ActivitySource::SetHwTrace() {
  if (!options_.hw_trace) return;
  NoteAttribute("HW_TRACE", 1, CallIfThere(api_->ActivityEnableHwTrace, uint8_t{1}));
}

void ActivitySource::RestoreAttributes() {
  if (zeroed_changed_) {
    size_t size = sizeof(zeroed_before_);
    CallIfThere(api_->ActivitySetAttribute, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
                &zeroed_before_);
    zeroed_changed_ = false;
  }
  if (thread_id_changed_) {
    CallIfThere(api_->SetThreadIdType, thread_id_before_);
    thread_id_changed_ = false;
  }
}

void ActivitySource::EnableKind(int32_t kind, const char* name) {
  if (kind_count_ == kMaxKinds) return;
  kinds_[kind_count_++] = {name, kind, api_->ActivityEnable(kind)};
}

// One by one: some devices and versions refuse some kinds. Never CUPTI_ACTIVITY_KIND_KERNEL, which
// serialises all kernels.
void ActivitySource::EnableKinds() {
  kind_count_ = 0;
  if (options_.gpu_work) {
    EnableKind(CUPTI_ACTIVITY_KIND_MEMCPY, "MEMCPY");
    EnableKind(CUPTI_ACTIVITY_KIND_MEMSET, "MEMSET");
    if (options_.peer_copies) EnableKind(CUPTI_ACTIVITY_KIND_MEMCPY2, "MEMCPY2");
    EnableKind(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL");
  }
  if (options_.runtime_api) EnableKind(CUPTI_ACTIVITY_KIND_RUNTIME, "RUNTIME");
  if (options_.driver_api) EnableKind(CUPTI_ACTIVITY_KIND_DRIVER, "DRIVER");
  if (options_.synchronization) EnableKind(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "SYNCHRONIZATION");
  EnableKind(CUPTI_ACTIVITY_KIND_DEVICE, "DEVICE");
  EnableKind(CUPTI_ACTIVITY_KIND_CONTEXT, "CONTEXT");
  EnableKind(CUPTI_ACTIVITY_KIND_STREAM, "STREAM");
  if (options_.synchronization) EnableKind(CUPTI_ACTIVITY_KIND_CUDA_EVENT, "CUDA_EVENT");
  if (options_.overhead) EnableKind(CUPTI_ACTIVITY_KIND_OVERHEAD, "OVERHEAD");
  if (options_.markers) EnableKind(CUPTI_ACTIVITY_KIND_MARKER, "MARKER");
  // Graph level and node level exclude each other: with GRAPH_TRACE no kernel inside a graph is
  // seen.
  if (options_.gpu_work && !options_.graph_nodes && !graph_level_given_up()) {
    EnableKind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "GRAPH_TRACE");
  }
}

void ActivitySource::DisableKinds() {
  for (size_t i = 0; i < kind_count_; ++i) {
    if (kinds_[i].result != kSuccess) continue;
    api_->ActivityDisable(kinds_[i].id);
    if (kinds_[i].id == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
      graph_level_given_up_.store(true, std::memory_order_relaxed);  // publishes nothing
    }
  }
}

// kSuccess if a kind was enabled without which there is nothing to record, else the first refusal.
Result ActivitySource::UsefulKindsRefused() const {
  Result refusal = CUPTI_ERROR_INVALID_KIND;  // nothing was asked for
  bool refused = false;
  for (size_t i = 0; i < kind_count_; ++i) {
    if (options_.gpu_work && !IsGpuWork(kinds_[i].id)) continue;
    if (kinds_[i].result == kSuccess) return kSuccess;
    if (!refused) refusal = kinds_[i].result;
    refused = true;
  }
  return refusal;
}

// Must come after the kinds: enabling a kind switches all its calls on again.
void ActivitySource::SwitchOffChatter() {
  if (options_.all_api_calls) return;
  for (size_t i = 0; i < kind_count_; ++i) {
    if (kinds_[i].result != kSuccess) continue;
    int32_t off = 0;
    if (kinds_[i].id == CUPTI_ACTIVITY_KIND_RUNTIME) {
      const Result result =
          SwitchOffChatterOf(ApiDomain::kRuntime, api_->ActivityEnableRuntimeApi, &off);
      NoteAttribute("RUNTIME_API_FILTER", off, result);
    } else if (kinds_[i].id == CUPTI_ACTIVITY_KIND_DRIVER) {
      const Result result =
          SwitchOffChatterOf(ApiDomain::kDriver, api_->ActivityEnableDriverApi, &off);
      NoteAttribute("DRIVER_API_FILTER", off, result);
    }
  }
}

void ActivitySource::Pause() {
  if (!active()) return;
  // Before disabling, or CUPTI drops what is pending; and after it, for records made meanwhile.
  Flush(true);
  DisableKinds();
  Flush(true);
  RestoreAttributes();
  active_.store(false, std::memory_order_relaxed);
}

bool ActivitySource::Resume() {
  if (active()) return true;
  if (!started_) return false;
  attribute_count_ = 0;
  return Attach().result == kSuccess;
}

Result ActivitySource::Flush(bool forced) {
  if (api_ == nullptr) return kNoSuchFunction;
  return api_->ActivityFlushAll(forced ? kFlushForced : 0);
}

uint64_t ActivitySource::TakeDropped() {
  if (api_ == nullptr) return 0;
  size_t dropped = 0;
  dropped_result_ = api_->ActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  return dropped_result_ == kSuccess ? dropped : 0;
}

void ActivitySource::NoteAttribute(const char* name, int32_t id, Result result) {
  if (attribute_count_ == kMaxAttributes) return;
  attributes_[attribute_count_++] = {name, id, result};
}

const Outcome* ActivitySource::outcomes(size_t* count) const {
  *count = kind_count_;
  return kinds_;
}

const Outcome* ActivitySource::attributes(size_t* count) const {
  *count = attribute_count_;
  return attributes_;
}

}  // namespace gpuprobe::cupti

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The exported activity API.
#include <cupti.h>

#include <cstring>
#include <vector>

#include "tests/sim/lib/cupti_buffers.h"
#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_side_records.h"
#include "tests/sim/lib/cupti_state.h"
#include "tests/sim/lib/replay.h"

namespace gpuprobe::sim {
namespace {

thread_local std::vector<uint64_t> t_external[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

bool IsKnownKind(uint32_t kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT;
}

void SetApi(Domain domain, bool enabled) {
  for (auto& recorded : CuptiState::Get().api_recorded[static_cast<size_t>(domain)])
    recorded = enabled;
}

// Enabling the RUNTIME or DRIVER kind overrides the per-call filters set before it.
void SwitchKind(uint32_t kind, bool on) {
  CuptiState::Get().kind_enabled[kind] = on;
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) SetApi(Domain::kRuntime, on);
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER) SetApi(Domain::kDriver, on);
}

void ReportExisting(uint32_t kind) {
  if (kind != CUPTI_ACTIVITY_KIND_DEVICE && kind != CUPTI_ACTIVITY_KIND_CONTEXT) return;
  ContextInfo contexts[64];
  const int n = DriverLink::Get()->contexts(contexts, 64);
  for (int i = 0; i < n; ++i) {
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE) EmitDevice(contexts[i].device);
    if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) EmitContext(contexts[i]);
  }
}

size_t AttributeBytes(CUpti_ActivityAttribute attribute) {
  switch (attribute) {
    case CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER:
    case CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED:
    case CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER:
      return sizeof(uint8_t);
    default:
      return sizeof(size_t);
  }
}

bool IsKnownAttribute(CUpti_ActivityAttribute attribute) {
  // The per-thread attribute came with CUDA 12.3.
  constexpr uint32_t kPerThreadSince = 21;
  if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) {
    return CurrentLayout().version >= kPerThreadSince;
  }
  return attribute >= 0 && attribute <= CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS;
}

}  // namespace

void PushExternalCorrelation(uint32_t kind, uint64_t id) { t_external[kind].push_back(id); }

bool PopExternalCorrelation(uint32_t kind, uint64_t* id) {
  if (t_external[kind].empty()) return false;
  *id = t_external[kind].back();
  t_external[kind].pop_back();
  return true;
}

void EmitExternalCorrelation(uint32_t correlation) {
  if (!CuptiState::Get().kind_enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) return;
  for (uint32_t kind = 0; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind) {
    if (t_external[kind].empty()) continue;
    CUpti_ActivityExternalCorrelation r{};
    r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    r.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    r.externalId = t_external[kind].back();
    r.correlationId = correlation;
    Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0);
  }
}

}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

// ---- switching ----

GPUSIM_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  CUPTI_ENTRY(kind);
  if (!IsKnownKind(kind)) return call.Done(CUPTI_ERROR_INVALID_KIND);
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL)
    Violation("CUPTI_ACTIVITY_KIND_KERNEL enabled: it serialises kernels");
  SwitchKind(kind, true);
  ReportExisting(kind);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  CUPTI_ENTRY(kind);
  if (!IsKnownKind(kind)) return call.Done(CUPTI_ERROR_INVALID_KIND);
  SwitchKind(kind, false);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  CUPTI_ENTRY(kind);
  if (context == nullptr || !IsKnownKind(kind)) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  SwitchKind(kind, true);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  CUPTI_ENTRY(cbid);
  if (cbid == 0 || cbid >= kMaxCbid) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  CuptiState::Get().api_recorded[static_cast<size_t>(Domain::kRuntime)][cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  CUPTI_ENTRY(cbid);
  if (cbid == 0 || cbid >= kMaxCbid) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  CuptiState::Get().api_recorded[static_cast<size_t>(Domain::kDriver)][cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
  CUPTI_ENTRY(enable);
  CuptiState::Get().latency_timestamps = enable != 0;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityEnableHWTrace(uint8_t enable) {
  CUPTI_ENTRY(enable);
  return call.Done(CUPTI_ERROR_NOT_SUPPORTED);  // Blackwell only; we play a Hopper
}

// Accepted, without effect on what the stand-in records.
#define ACCEPTED(name, type)                   \
  GPUSIM_EXPORT CUptiResult name(type value) { \
    CUPTI_ENTRY(value);                        \
    return CUPTI_SUCCESS;                      \
  }
ACCEPTED(cuptiActivityFlushPeriod, uint32_t)
ACCEPTED(cuptiActivityEnableLaunchAttributes, uint8_t)
ACCEPTED(cuptiActivityEnableDeviceGraph, uint8_t)
ACCEPTED(cuptiActivityEnableAllocationSource, uint8_t)
ACCEPTED(cuptiActivityEnableAllSyncRecords, uint8_t)
ACCEPTED(cuptiActivityEnableCudaEventDeviceTimestamps, uint8_t)

// ---- buffers ----

GPUSIM_EXPORT CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
  CUPTI_ENTRY(0);
  if (request == nullptr || complete == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  CuptiState& state = CuptiState::Get();
  state.request.store(request,
                      std::memory_order_release);  // with Request: the client's data before it
  state.complete.store(complete, std::memory_order_release);  // with delivery, likewise
  return CUPTI_SUCCESS;
}

namespace {

// The documentation allows a flush from application and control threads and from runtime and driver
// API callbacks, never from buffer or resource callbacks.
bool FlushAllowed() {
  const char* where = CallbackSection::Inside(CallbackKind::kBuffer)     ? "a buffer callback"
                      : CallbackSection::Inside(CallbackKind::kResource) ? "a resource callback"
                                                                         : nullptr;
  if (where == nullptr) return true;
  Violation((std::string("cuptiActivityFlushAll called from ") + where).c_str());
  return false;
}

CUptiResult Flush(uint32_t flag) {
  if (!FlushAllowed() || CuptiState::Get().complete == nullptr)
    return CUPTI_ERROR_INVALID_OPERATION;
  GlobalLock global(true);
  Buffers::Get().Flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}

}  // namespace

GPUSIM_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  CUPTI_ENTRY(flag);
  return call.Done(Flush(flag));
}

GPUSIM_EXPORT CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  CUPTI_ENTRY(flag);
  return call.Done(Flush(flag));
}

GPUSIM_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  CUPTI_ENTRY(0);
  if (dropped == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  GlobalLock global(true);
  *dropped = Buffers::Get().TakeDropped();
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                                     CUpti_Activity** record) {
  // No entry macro: called once a record, and it works without a driver, on recorded buffers too.
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  size_t at = 0;
  uint32_t kind;
  if (*record != nullptr) {
    memcpy(&kind, *record, sizeof kind);
    at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + RecordBytes(kind);
  }
  if (at >= valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (at + sizeof kind > valid_bytes) return CUPTI_ERROR_INVALID_KIND;
  memcpy(&kind, buffer + at, sizeof kind);
  const size_t bytes = RecordBytes(kind);
  if (bytes == 0 || at + bytes > valid_bytes) return CUPTI_ERROR_INVALID_KIND;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + at);
  return CUPTI_SUCCESS;
}

// ---- attributes, clock, threads ----

GPUSIM_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                                    void* value) {
  CUPTI_ENTRY(attribute);
  if (size == nullptr || value == nullptr || !IsKnownAttribute(attribute)) {
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  }
  const size_t bytes = AttributeBytes(attribute);
  if (*size < bytes) return call.Done(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  CuptiState& state = CuptiState::Get();
  uint64_t wanted = 0;
  memcpy(&wanted, value, bytes);
  if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER && state.AnyKindEnabled() &&
      state.attributes[attribute] != wanted) {
    Violation("per-thread buffers switched while kinds are enabled: undefined behaviour");
  }
  state.attributes[attribute] = wanted;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                                    void* value) {
  CUPTI_ENTRY(attribute);
  if (size == nullptr || value == nullptr || !IsKnownAttribute(attribute)) {
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  }
  const size_t bytes = AttributeBytes(attribute);
  if (*size < bytes) return call.Done(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  const uint64_t current = CuptiState::Get().attributes[attribute];
  memcpy(value, &current, bytes);
  *size = bytes;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  CUPTI_ENTRY(0);
  CuptiState& state = CuptiState::Get();
  if (callback != nullptr) {
    state.timestamp_first_sim = DriverLink::Get()->now();
    state.timestamp_first_client = callback();
  }
  state.timestamp.store(callback,
                        std::memory_order_release);  // with every reader: the pair is set before
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  CUPTI_ENTRY(0);
  if (timestamp == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  GlobalLock global(true);
  *timestamp = CuptiState::Get().Timestamp();
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  CUPTI_ENTRY(type);
  if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT &&
      type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) {
    return call.Done(CUPTI_ERROR_NOT_SUPPORTED);
  }
  CuptiState::Get().thread_id_type = type;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  CUPTI_ENTRY(0);
  if (type == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  *type = static_cast<CUpti_ActivityThreadIdType>(CuptiState::Get().thread_id_type.load());
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                 uint64_t id) {
  CUPTI_ENTRY(kind);
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  PushExternalCorrelation(kind, id);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                uint64_t* last) {
  CUPTI_ENTRY(kind);
  if (kind <= 0 || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  uint64_t id = 0;
  if (!PopExternalCorrelation(kind, &id)) return call.Done(CUPTI_ERROR_QUEUE_EMPTY);
  if (last != nullptr) *last = id;
  return CUPTI_SUCCESS;
}

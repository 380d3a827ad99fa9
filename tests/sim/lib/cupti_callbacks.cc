// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The exported callback API (one subscriber a process) and the small rest: version, results,
// identifiers.
#include <cupti.h>

#include <cstdio>

#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_state.h"

namespace gpuprobe::sim {
namespace {

CUpti_SubscriberHandle OurHandle() {
  return reinterpret_cast<CUpti_SubscriberHandle>(&CuptiState::Get());
}

bool IsDomain(CUpti_CallbackDomain domain) {
  return domain > CUPTI_CB_DOMAIN_INVALID && domain < CUPTI_CB_DOMAIN_SIZE;
}

void SetDomain(uint32_t domain, bool enabled) {
  for (auto& callback : CuptiState::Get().callback_enabled[domain]) callback = enabled;
}

CUptiResult Subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data,
                      bool null_handle) {
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  CuptiState& state = CuptiState::Get();
  if (state.subscribed.exchange(true)) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  state.subscriber_data = data;
  state.subscriber_callback.store(callback,
                                  std::memory_order_release);  // with readers: data is set before
  *subscriber = null_handle ? nullptr : OurHandle();
  return CUPTI_SUCCESS;
}

void Unsubscribe() {
  CuptiState& state = CuptiState::Get();
  for (uint32_t domain = 0; domain < CUPTI_CB_DOMAIN_SIZE; ++domain) SetDomain(domain, false);
  state.subscriber_callback = nullptr;
  state.subscribed = false;
}

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

// ---- subscriber ----

GPUSIM_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                         CUpti_CallbackFunc callback, void* userdata) {
  CUPTI_ENTRY(0);
  return call.Done(Subscribe(subscriber, callback, userdata, call.null_handle()));
}

GPUSIM_EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber,
                                            CUpti_CallbackFunc callback, void* userdata,
                                            CUpti_SubscriberParams*) {
  CUPTI_ENTRY(0);
  return call.Done(Subscribe(subscriber, callback, userdata, call.null_handle()));
}

GPUSIM_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  CUPTI_ENTRY(0);
  if (subscriber != OurHandle()) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  Unsubscribe();
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                              CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  CUPTI_ENTRY(cbid);
  if (subscriber != OurHandle() || !IsDomain(domain) || cbid >= kMaxCbid) {
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  }
  CuptiState::Get().callback_enabled[domain][cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                            CUpti_CallbackDomain domain) {
  CUPTI_ENTRY(domain);
  if (subscriber != OurHandle() || !IsDomain(domain))
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  SetDomain(domain, enable != 0);
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable,
                                                CUpti_SubscriberHandle subscriber) {
  CUPTI_ENTRY(enable);
  if (subscriber != OurHandle()) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  for (uint32_t domain = CUPTI_CB_DOMAIN_DRIVER_API; domain < CUPTI_CB_DOMAIN_SIZE; ++domain) {
    SetDomain(domain, enable != 0);
  }
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                                CUpti_CallbackDomain domain,
                                                CUpti_CallbackId cbid) {
  CUPTI_ENTRY(cbid);
  if (subscriber != OurHandle() || !IsDomain(domain) || cbid >= kMaxCbid || enable == nullptr) {
    return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  }
  *enable = CuptiState::Get().callback_enabled[domain][cbid];
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                               const char** name) {
  CUPTI_ENTRY(cbid);
  if (name == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  *name = CallbackName(domain, cbid);
  return call.Done(*name != nullptr ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

GPUSIM_EXPORT CUptiResult cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  CUPTI_ENTRY(0);
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                           CUPTI_CB_DOMAIN_RESOURCE};
  if (count == nullptr || table == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  *count = 3;
  *table = domains;
  return CUPTI_SUCCESS;
}

// ---- the rest ----

GPUSIM_EXPORT CUptiResult cuptiFinalize() {
  CUPTI_ENTRY(0);
  CuptiState& state = CuptiState::Get();
  state.finalized = true;
  for (auto& enabled : state.kind_enabled) enabled = false;
  for (auto& domain : state.api_recorded) {
    for (auto& recorded : domain) recorded = false;
  }
  Unsubscribe();
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  CUPTI_ENTRY(0);
  if (version == nullptr) return call.Done(CUPTI_ERROR_INVALID_PARAMETER);
  *version = CurrentLayout().version;
  return CUPTI_SUCCESS;
}

GPUSIM_EXPORT CUptiResult cuptiGetLastError() {
  CUPTI_ENTRY(0);
  return CUPTI_SUCCESS;
}

// clang-format off
#define RESULT_NAMES(X) \
  X(CUPTI_SUCCESS) \
  X(CUPTI_ERROR_INVALID_PARAMETER) \
  X(CUPTI_ERROR_INVALID_DEVICE) \
  X(CUPTI_ERROR_INVALID_CONTEXT) \
  X(CUPTI_ERROR_INVALID_OPERATION) \
  X(CUPTI_ERROR_OUT_OF_MEMORY) \
  X(CUPTI_ERROR_HARDWARE) \
  X(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT) \
  X(CUPTI_ERROR_API_NOT_IMPLEMENTED) \
  X(CUPTI_ERROR_MAX_LIMIT_REACHED) \
  X(CUPTI_ERROR_NOT_READY) \
  X(CUPTI_ERROR_NOT_COMPATIBLE) \
  X(CUPTI_ERROR_NOT_INITIALIZED) \
  X(CUPTI_ERROR_QUEUE_EMPTY) \
  X(CUPTI_ERROR_INVALID_KIND) \
  X(CUPTI_ERROR_DISABLED) \
  X(CUPTI_ERROR_NOT_SUPPORTED) \
  X(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED) \
  X(CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE) \
  X(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) \
  X(CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED) \
  X(CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED) \
  X(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) \
  X(CUPTI_ERROR_UNKNOWN)
// clang-format on

GPUSIM_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  // Not counted as a call of the API: clients ask for the text of a failure, whatever state CUPTI
  // is in.
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define RESULT_CASE(name) \
  case name:              \
    *text = #name;        \
    return CUPTI_SUCCESS;
    RESULT_NAMES(RESULT_CASE)
#undef RESULT_CASE
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

GPUSIM_EXPORT CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return cuptiGetResultString(result, text);
}

GPUSIM_EXPORT CUptiResult cuptiGetContextId(CUcontext context, uint32_t* id) {
  CUPTI_ENTRY(0);
  ContextInfo contexts[64];
  const int n = DriverLink::Get()->contexts(contexts, 64);
  for (int i = 0; i < n; ++i) {
    if (contexts[i].handle != context || id == nullptr) continue;
    *id = contexts[i].context;
    return CUPTI_SUCCESS;
  }
  return call.Done(CUPTI_ERROR_INVALID_CONTEXT);
}

GPUSIM_EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* id) {
  CUPTI_ENTRY(0);
  ContextInfo contexts[64];
  const int n = DriverLink::Get()->contexts(contexts, 64);
  for (int i = 0; i < n; ++i) {
    if (contexts[i].handle != context || id == nullptr) continue;
    *id = contexts[i].device;
    return CUPTI_SUCCESS;
  }
  return call.Done(CUPTI_ERROR_INVALID_CONTEXT);
}

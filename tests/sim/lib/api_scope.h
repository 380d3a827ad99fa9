// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One API call from entry to exit: correlation id, scripted host cost, callbacks, records and
// truth. Used by libcuda and libcudart through the macros below, which name the call, its callback
// id and its parameter structure once.
#ifndef GPUPROBE_TESTS_SIM_LIB_API_SCOPE_H_
#define GPUPROBE_TESTS_SIM_LIB_API_SCOPE_H_

#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {

class ApiScope {
 public:
  ApiScope(Domain domain, uint32_t cbid, const char* name, const void* params,
           bool works_before_init = false, const char* symbol = nullptr) {
    call_ = ApiCall{};
    call_.domain = domain;
    call_.cbid = cbid;
    call_.name = name;
    call_.params = params;
    call_.symbol = symbol;
    refusal_ = gpusim_internal_api_enter(&call_, works_before_init);
  }
  ~ApiScope() { gpusim_internal_api_exit(&call_); }
  ApiScope(const ApiScope&) = delete;
  ApiScope& operator=(const ApiScope&) = delete;

  bool refused() const { return refusal_ != 0; }
  int refusal() const { return refusal_; }
  template <class Result>
  Result Done(Result result) {
    call_.result = static_cast<int32_t>(result);
    return result;
  }
  const ApiCall& call() const { return call_; }

 private:
  ApiCall call_;
  int refusal_;
};

}  // namespace gpuprobe::sim

// DRIVER_CALL(cuStreamQuery, hStream): declares `scope` and returns if the call is refused.
#define DRIVER_CALL(fn, ...)                                                                      \
  const fn##_params api_params{__VA_ARGS__};                                                      \
  ::gpuprobe::sim::ApiScope scope(::gpuprobe::sim::Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_##fn, \
                                  #fn, &api_params);                                              \
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()))

// RUNTIME_CALL(cudaMalloc, _v3020, devPtr, size)
#define RUNTIME_CALL(fn, version, ...)                                                             \
  const fn##version##_params api_params{__VA_ARGS__};                                              \
  ::gpuprobe::sim::ApiScope scope(::gpuprobe::sim::Domain::kRuntime,                               \
                                  CUPTI_RUNTIME_TRACE_CBID_##fn##version, #fn, &api_params, true); \
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()))

#endif  // GPUPROBE_TESTS_SIM_LIB_API_SCOPE_H_

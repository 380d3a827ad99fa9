// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Runtime API: memory, copies, sets, launches, graphs.
#include <cupti.h>

#include <mutex>
#include <unordered_map>

#include "tests/sim/lib/api_scope.h"
#include "tests/sim/lib/runtime_core.h"

namespace gpuprobe::sim {
namespace {

// The driver function behind a host function pointer, loaded on first use as with lazy loading.
CUfunction FunctionOf(const void* func) {
  static std::mutex* mu = new std::mutex;
  static auto* functions = new std::unordered_map<const void*, CUfunction>;
  static CUmodule module = nullptr;
  std::lock_guard<std::mutex> lock(*mu);
  const auto it = functions->find(func);
  if (it != functions->end()) return it->second;
  if (module == nullptr) cuModuleLoadData(&module, "simulated");
  CUfunction function = nullptr;
  cuModuleGetFunction(&function, module, gpusim_internal_kernel_name(func));
  functions->emplace(func, function);
  return function;
}

CUdeviceptr Address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

CUresult CopyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                   cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoDAsync_v2(Address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync_v2(dst, Address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync_v2(Address(dst), Address(src), count, stream);
    default:
      return cuMemcpyAsync(Address(dst), Address(src), count, stream);
  }
}

CUresult CopyBlocking(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoD_v2(Address(dst), src, count);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoH_v2(dst, Address(src), count);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoD_v2(Address(dst), Address(src), count);
    default:
      return cuMemcpy(Address(dst), Address(src), count);
  }
}

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

#define NEED_CONTEXT()                                                         \
  if (const cudaError_t not_ready = EnsureContext(); not_ready != cudaSuccess) \
  return scope.Done(not_ready)

// ---- memory ----

GPUSIM_EXPORT cudaError_t cudaMalloc(void** devPtr, size_t size) {
  RUNTIME_CALL(cudaMalloc, _v3020, devPtr, size);
  NEED_CONTEXT();
  CUdeviceptr address = 0;
  const CUresult result = cuMemAlloc_v2(&address, size);
  *devPtr = reinterpret_cast<void*>(address);
  return scope.Done(Remember(result));
}

GPUSIM_EXPORT cudaError_t cudaFree(void* devPtr) {
  RUNTIME_CALL(cudaFree, _v3020, devPtr);
  NEED_CONTEXT();
  if (devPtr == nullptr) return cudaSuccess;  // the well-known way to initialise the runtime
  return scope.Done(Remember(cuMemFree_v2(Address(devPtr))));
}

GPUSIM_EXPORT cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  RUNTIME_CALL(cudaMallocAsync, _v11020, devPtr, size, hStream);
  NEED_CONTEXT();
  CUdeviceptr address = 0;
  const CUresult result = cuMemAllocAsync(&address, size, hStream);
  *devPtr = reinterpret_cast<void*>(address);
  return scope.Done(Remember(result));
}

GPUSIM_EXPORT cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  RUNTIME_CALL(cudaFreeAsync, _v11020, devPtr, hStream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemFreeAsync(Address(devPtr), hStream)));
}

GPUSIM_EXPORT cudaError_t cudaMallocHost(void** ptr, size_t size) {
  RUNTIME_CALL(cudaMallocHost, _v3020, ptr, size);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemAllocHost_v2(ptr, size)));
}

GPUSIM_EXPORT cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  RUNTIME_CALL(cudaHostAlloc, _v3020, pHost, size, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemHostAlloc(pHost, size, flags)));
}

GPUSIM_EXPORT cudaError_t cudaFreeHost(void* ptr) {
  RUNTIME_CALL(cudaFreeHost, _v3020, ptr);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemFreeHost(ptr)));
}

GPUSIM_EXPORT cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  RUNTIME_CALL(cudaHostRegister, _v4000, ptr, size, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemHostRegister_v2(ptr, size, flags)));
}

GPUSIM_EXPORT cudaError_t cudaHostUnregister(void* ptr) {
  RUNTIME_CALL(cudaHostUnregister, _v4000, ptr);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemHostUnregister(ptr)));
}

GPUSIM_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  RUNTIME_CALL(cudaMemGetInfo, _v3020, free, total);
  NEED_CONTEXT();
  return scope.Done(Remember(cuMemGetInfo_v2(free, total)));
}

// ---- copies and sets ----

GPUSIM_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t count,
                                     cudaMemcpyKind kind) {
  RUNTIME_CALL(cudaMemcpy, _v3020, dst, src, count, kind);
  NEED_CONTEXT();
  return scope.Done(Remember(CopyBlocking(dst, src, count, kind)));
}

GPUSIM_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count,
                                          cudaMemcpyKind kind, cudaStream_t stream) {
  RUNTIME_CALL(cudaMemcpyAsync, _v3020, dst, src, count, kind, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(CopyAsync(dst, src, count, kind, stream)));
}

GPUSIM_EXPORT cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src,
                                              int srcDevice, size_t count, cudaStream_t stream) {
  RUNTIME_CALL(cudaMemcpyPeerAsync, _v4000, dst, dstDevice, src, srcDevice, count, stream);
  NEED_CONTEXT();
  CUcontext to = nullptr, from = nullptr;
  CUresult result = cuDevicePrimaryCtxRetain(&to, dstDevice);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&from, srcDevice);
  if (result == CUDA_SUCCESS) {
    result = cuMemcpyPeerAsync(Address(dst), to, Address(src), from, count, stream);
  }
  return scope.Done(Remember(result));
}

GPUSIM_EXPORT cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  RUNTIME_CALL(cudaMemset, _v3020, devPtr, value, count);
  NEED_CONTEXT();
  return scope.Done(
      Remember(cuMemsetD8_v2(Address(devPtr), static_cast<unsigned char>(value), count)));
}

GPUSIM_EXPORT cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count,
                                          cudaStream_t stream) {
  RUNTIME_CALL(cudaMemsetAsync, _v3020, devPtr, value, count, stream);
  NEED_CONTEXT();
  return scope.Done(
      Remember(cuMemsetD8Async(Address(devPtr), static_cast<unsigned char>(value), count, stream)));
}

// ---- launches ----

GPUSIM_EXPORT cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim,
                                           void** args, size_t sharedMem, cudaStream_t stream) {
  const cudaLaunchKernel_v7000_params api_params{func, gridDim, blockDim, args, sharedMem, stream};
  ApiScope scope(Domain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                 "cudaLaunchKernel", &api_params, true, gpusim_internal_kernel_name(func));
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()));
  NEED_CONTEXT();
  return scope.Done(Remember(
      cuLaunchKernel(FunctionOf(func), gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y,
                     blockDim.z, static_cast<unsigned int>(sharedMem), stream, args, nullptr)));
}

GPUSIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  RUNTIME_CALL(cudaLaunchHostFunc, _v10000, stream, fn, userData);
  NEED_CONTEXT();
  return scope.Done(Remember(cuLaunchHostFunc(stream, fn, userData)));
}

// ---- graphs ----

GPUSIM_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  RUNTIME_CALL(cudaStreamBeginCapture, _v10000, stream, mode);
  NEED_CONTEXT();
  return scope.Done(
      Remember(cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode))));
}

GPUSIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  RUNTIME_CALL(cudaStreamEndCapture, _v10000, stream, pGraph);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamEndCapture(stream, pGraph)));
}

GPUSIM_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                               unsigned long long flags) {
  RUNTIME_CALL(cudaGraphInstantiate, _v12000, pGraphExec, graph, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuGraphInstantiateWithFlags(pGraphExec, graph, flags)));
}

GPUSIM_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  RUNTIME_CALL(cudaGraphLaunch, _v10000, graphExec, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuGraphLaunch(graphExec, stream)));
}

GPUSIM_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  RUNTIME_CALL(cudaGraphExecDestroy, _v10000, graphExec);
  NEED_CONTEXT();
  return scope.Done(Remember(cuGraphExecDestroy(graphExec)));
}

GPUSIM_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  RUNTIME_CALL(cudaGraphDestroy, _v10000, graph);
  NEED_CONTEXT();
  return scope.Done(Remember(cuGraphDestroy(graph)));
}

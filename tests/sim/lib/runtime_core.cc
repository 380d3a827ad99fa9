// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Runtime API: initialisation, devices, errors, streams, events.
#include "tests/sim/lib/runtime_core.h"

#include <cupti.h>

#include <atomic>

#include "tests/sim/lib/api_scope.h"

namespace gpuprobe::sim {
namespace {

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local int t_device = 0;
thread_local CUcontext t_context = nullptr;  // what EnsureContext made current, of t_device
std::atomic<bool> g_driver_ready{false};

}  // namespace

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
  return error;
}

// The two enumerations share their numbers by design (cudaErrorInvalidValue ==
// CUDA_ERROR_INVALID_VALUE ...).
cudaError_t Remember(CUresult result) { return Remember(static_cast<cudaError_t>(result)); }

cudaError_t EnsureDriver() {
  if (g_driver_ready.load(std::memory_order_relaxed))
    return cudaSuccess;  // cuInit is idempotent anyway
  const CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) g_driver_ready.store(true, std::memory_order_relaxed);
  return Remember(result);
}

cudaError_t EnsureContext() {
  if (t_context != nullptr) return cudaSuccess;
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  CUresult result = cuDevicePrimaryCtxRetain(&context, t_device);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) t_context = context;
  return Remember(result);
}

}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

#define NEED_CONTEXT()                                                         \
  if (const cudaError_t not_ready = EnsureContext(); not_ready != cudaSuccess) \
  return scope.Done(not_ready)

// ---- devices and errors ----

GPUSIM_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  RUNTIME_CALL(cudaGetDeviceCount, _v3020, count);
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return scope.Done(error);
  return scope.Done(Remember(cuDeviceGetCount(count)));
}

GPUSIM_EXPORT cudaError_t cudaGetDevice(int* device) {
  RUNTIME_CALL(cudaGetDevice, _v3020, device);
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return scope.Done(error);
  *device = t_device;
  return cudaSuccess;
}

GPUSIM_EXPORT cudaError_t cudaSetDevice(int device) {
  RUNTIME_CALL(cudaSetDevice, _v3020, device);
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return scope.Done(error);
  int count = 0;
  cuDeviceGetCount(&count);
  if (device < 0 || device >= count) return scope.Done(Remember(cudaErrorInvalidDevice));
  if (device != t_device) t_context = nullptr;
  t_device = device;
  NEED_CONTEXT();  // since CUDA 12 the call initialises the device's context
  return cudaSuccess;
}

GPUSIM_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  RUNTIME_CALL(cudaDeviceGetAttribute, _v5000, value, attr, device);
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return scope.Done(error);
  return scope.Done(
      Remember(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device)));
}

GPUSIM_EXPORT cudaError_t cudaDeviceSynchronize() {
  ApiScope scope(Domain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
                 "cudaDeviceSynchronize", nullptr, true);
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()));
  NEED_CONTEXT();
  return scope.Done(Remember(cuCtxSynchronize()));
}

GPUSIM_EXPORT cudaError_t cudaDeviceReset() {
  ApiScope scope(Domain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020,
                 "cudaDeviceReset", nullptr, true);
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()));
  if (const cudaError_t error = EnsureDriver(); error != cudaSuccess) return scope.Done(error);
  t_context = nullptr;
  return scope.Done(Remember(cuDevicePrimaryCtxReset_v2(t_device)));
}

GPUSIM_EXPORT cudaError_t cudaDriverGetVersion(int* driverVersion) {
  RUNTIME_CALL(cudaDriverGetVersion, _v3020, driverVersion);
  return scope.Done(Remember(cuDriverGetVersion(driverVersion)));
}

GPUSIM_EXPORT cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  RUNTIME_CALL(cudaRuntimeGetVersion, _v3020, runtimeVersion);
  *runtimeVersion = 13000;
  return cudaSuccess;
}

GPUSIM_EXPORT cudaError_t cudaGetLastError() {
  ApiScope scope(Domain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
                 "cudaGetLastError", nullptr, true);
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()));
  const cudaError_t error = t_last_error;
  t_last_error = cudaSuccess;
  return scope.Done(error);
}

GPUSIM_EXPORT cudaError_t cudaPeekAtLastError() {
  ApiScope scope(Domain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
                 "cudaPeekAtLastError", nullptr, true);
  if (scope.refused()) return scope.Done(static_cast<cudaError_t>(scope.refusal()));
  return scope.Done(t_last_error);
}

// ---- streams ----

GPUSIM_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  RUNTIME_CALL(cudaStreamCreate, _v3020, pStream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamCreate(pStream, CU_STREAM_DEFAULT)));
}

GPUSIM_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  RUNTIME_CALL(cudaStreamCreateWithFlags, _v5000, pStream, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamCreate(pStream, flags)));
}

GPUSIM_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags,
                                                       int priority) {
  RUNTIME_CALL(cudaStreamCreateWithPriority, _v5050, pStream, flags, priority);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamCreateWithPriority(pStream, flags, priority)));
}

GPUSIM_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_CALL(cudaStreamDestroy, _v5050, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamDestroy_v2(stream)));
}

GPUSIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  RUNTIME_CALL(cudaStreamSynchronize, _v3020, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamSynchronize(stream)));
}

GPUSIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  RUNTIME_CALL(cudaStreamQuery, _v3020, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamQuery(stream)));
}

GPUSIM_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                              unsigned int flags) {
  RUNTIME_CALL(cudaStreamWaitEvent, _v3020, stream, event, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuStreamWaitEvent(stream, event, flags)));
}

GPUSIM_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                cudaStreamCaptureStatus* pCaptureStatus) {
  RUNTIME_CALL(cudaStreamIsCapturing, _v10000, stream, pCaptureStatus);
  NEED_CONTEXT();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = cuStreamIsCapturing(stream, &status);
  *pCaptureStatus = static_cast<cudaStreamCaptureStatus>(status);
  return scope.Done(Remember(result));
}

// ---- events ----

GPUSIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  RUNTIME_CALL(cudaEventCreate, _v3020, event);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventCreate(event, CU_EVENT_DEFAULT)));
}

GPUSIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  RUNTIME_CALL(cudaEventCreateWithFlags, _v3020, event, flags);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventCreate(event, flags)));
}

GPUSIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RUNTIME_CALL(cudaEventDestroy, _v3020, event);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventDestroy_v2(event)));
}

GPUSIM_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CALL(cudaEventRecord, _v3020, event, stream);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventRecord(event, stream)));
}

GPUSIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  RUNTIME_CALL(cudaEventQuery, _v3020, event);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventQuery(event)));
}

GPUSIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_CALL(cudaEventSynchronize, _v3020, event);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventSynchronize(event)));
}

GPUSIM_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  RUNTIME_CALL(cudaEventElapsedTime, _v12080, ms, start, end);
  NEED_CONTEXT();
  return scope.Done(Remember(cuEventElapsedTime_v2(ms, start, end)));
}

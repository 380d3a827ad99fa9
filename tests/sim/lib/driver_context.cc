// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Driver API: initialisation, devices, contexts.
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/sim/lib/api_scope.h"
#include "tests/sim/lib/engine.h"
#include "tests/sim/lib/settings.h"
#include "tests/sim/lib/truth.h"

namespace gpuprobe::sim {
namespace {

constexpr int kDriverVersion = 13000;  // CUDA 13.0

// The driver's door for tools: at the first cuInit of the process, before it returns. A library
// that cannot be opened, or lacks the function, is passed over without a word, as the driver does.
void OpenInjectionDoor() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW);
  if (library == nullptr) return;
  auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize == nullptr) return;
  gpusim_internal_callback(+1, "InitializeInjection");
  initialize();
  gpusim_internal_callback(-1, "InitializeInjection");
}

CUresult InitialiseOnce() {
  static std::recursive_mutex* mu =
      new std::recursive_mutex;  // recursive: a tool that calls cuInit
  static bool begun = false;     // from its door has broken a rule, not hung us
  std::lock_guard<std::recursive_mutex> lock(*mu);
  if (begun) return CUDA_SUCCESS;
  if (Settings::Get()[Setting::kDeviceCount] <= 0) return CUDA_ERROR_NO_DEVICE;
  begun = true;
  EngineState::Get().Initialise();
  Truth::Get().Own();
  OpenInjectionDoor();
  ForEachClient([](const Hooks& hooks) {
    hooks.resource(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, nullptr, nullptr);
  });
  return CUDA_SUCCESS;
}

ContextInfo Info(Context* c) {
  return {c->id, static_cast<uint32_t>(c->device->index), c->null_stream.id, c};
}

Context* Create(Device* device, bool primary) {
  Context* context = EngineState::Get().model().CreateContext(device, primary);
  const ContextInfo info = Info(context);
  ForEachClient([&info](const Hooks& hooks) { hooks.context_created(&info); });
  return context;
}

void Destroy(Context* context) {
  const ContextInfo info = Info(context);
  ForEachClient([&info](const Hooks& hooks) { hooks.context_destroyed(&info); });
  EngineState& engine = EngineState::Get();
  engine.Wait(engine.model().ContextEnd(context), "context", 0, context, nullptr, nullptr);
  engine.model().DestroyContext(context);
  if (EngineState::current() == context) EngineState::set_current(nullptr);
}

Device* FindDevice(CUdevice ordinal) {
  DeviceModel& model = EngineState::Get().model();
  return ordinal >= 0 && ordinal < model.device_count() ? model.device(ordinal) : nullptr;
}

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

GPUSIM_EXPORT CUresult cuInit(unsigned int Flags) {
  const cuInit_params api_params{Flags};
  ApiScope scope(Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuInit, "cuInit", &api_params, true);
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()));
  return scope.Done(InitialiseOnce());
}

GPUSIM_EXPORT CUresult cuDriverGetVersion(int* driverVersion) {
  const cuDriverGetVersion_params api_params{driverVersion};
  ApiScope scope(Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion, "cuDriverGetVersion",
                 &api_params, true);
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()));
  if (driverVersion == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  *driverVersion = kDriverVersion;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  DRIVER_CALL(cuDeviceGetCount, count);
  *count = EngineState::Get().model().device_count();
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  DRIVER_CALL(cuDeviceGet, device, ordinal);
  if (FindDevice(ordinal) == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  DRIVER_CALL(cuDeviceGetName, name, len, dev);
  const Device* device = FindDevice(dev);
  if (device == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  snprintf(name, static_cast<size_t>(std::max(len, 0)), "%s", device->name.c_str());
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  DRIVER_CALL(cuDeviceGetUuid_v2, uuid, dev);
  const Device* device = FindDevice(dev);
  if (device == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  memcpy(uuid->bytes, device->uuid.data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  DRIVER_CALL(cuDeviceGetAttribute, pi, attrib, dev);
  if (FindDevice(dev) == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  switch (attrib) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *pi = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *pi = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *pi = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *pi = 1024;
      break;
    default:
      *pi = 0;
      break;
  }
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  DRIVER_CALL(cuDeviceTotalMem_v2, bytes, dev);
  if (FindDevice(dev) == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  *bytes = static_cast<size_t>(Settings::Get()[Setting::kDeviceMemoryBytes]);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                      unsigned int flags, CUdevice dev) {
  DRIVER_CALL(cuCtxCreate_v4, pctx, ctxCreateParams, flags, dev);
  Device* device = FindDevice(dev);
  if (device == nullptr || pctx == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  Context* context = Create(device, false);
  EngineState::set_current(context);
  *pctx = Handle(context);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  DRIVER_CALL(cuCtxCreate_v2, pctx, flags, dev);
  Device* device = FindDevice(dev);
  if (device == nullptr || pctx == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  Context* context = Create(device, false);
  EngineState::set_current(context);
  *pctx = Handle(context);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx) {
  DRIVER_CALL(cuCtxDestroy_v2, ctx);
  Context* context = EngineState::ResolveContext(ctx);
  if (context == nullptr || context->is_primary) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  Destroy(context);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  DRIVER_CALL(cuDevicePrimaryCtxRetain, pctx, dev);
  Device* device = FindDevice(dev);
  if (device == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  static std::mutex* mu =
      new std::mutex;  // two threads may come at once: one primary context a device
  std::lock_guard<std::mutex> lock(*mu);
  Context* context = device->primary != nullptr ? device->primary : Create(device, true);
  ++context->primary_refs;
  *pctx = Handle(context);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  DRIVER_CALL(cuDevicePrimaryCtxRelease_v2, dev);
  Device* device = FindDevice(dev);
  if (device == nullptr || device->primary == nullptr)
    return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  if (--device->primary->primary_refs == 0) Destroy(device->primary);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  DRIVER_CALL(cuDevicePrimaryCtxReset_v2, dev);
  Device* device = FindDevice(dev);
  if (device == nullptr) return scope.Done(CUDA_ERROR_INVALID_DEVICE);
  if (device->primary != nullptr) Destroy(device->primary);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx) {
  DRIVER_CALL(cuCtxSetCurrent, ctx);
  Context* context = EngineState::ResolveContext(ctx);
  if (ctx != nullptr && context == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  EngineState::set_current(context);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* pctx) {
  DRIVER_CALL(cuCtxGetCurrent, pctx);
  *pctx = Handle(EngineState::current());
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  DRIVER_CALL(cuCtxGetDevice, device);
  const Context* context = EngineState::current();
  if (context == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  *device = context->device->index;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuCtxSynchronize() {
  ApiScope scope(Domain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, "cuCtxSynchronize",
                 nullptr);
  if (scope.refused()) return scope.Done(static_cast<CUresult>(scope.refusal()));
  Context* context = EngineState::current();
  if (context == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  EngineState& engine = EngineState::Get();
  engine.WaitContextHostFunctions(context);
  engine.Wait(engine.model().ContextEnd(context), "context",
              CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, context, nullptr, nullptr);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuGetErrorName(CUresult error, const char** pStr) {
  const bool known = error == CUDA_SUCCESS || error == CUDA_ERROR_NOT_READY;
  *pStr = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : known ? "CUDA_ERROR_NOT_READY" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}

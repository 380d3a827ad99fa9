// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Driver API: allocation, copies, sets. Who blocks:
//   * copy from pageable host memory: the caller, for the staging (bytes / staging_bytes_per_us); a
//     blocking copy first waits for its stream, as the driver does
//   * copy to pageable host memory, also "async": the caller, until it is done
//   * blocking copy between pinned and device memory: the caller, until it is done
//   * set, device-to-device and pinned async copy: nobody
#include <cupti.h>

#include <algorithm>

#include "tests/sim/lib/api_scope.h"
#include "tests/sim/lib/clock.h"
#include "tests/sim/lib/engine.h"
#include "tests/sim/lib/settings.h"

namespace gpuprobe::sim {
namespace {

using Memory = EngineState::Memory;

int64_t TransferNs(size_t bytes, Setting bytes_per_us) {
  const int64_t rate = std::max<int64_t>(Settings::Get()[bytes_per_us], 1);
  return static_cast<int64_t>(bytes) * 1000 / rate;
}

uint8_t MemoryKind(Memory kind) { return static_cast<uint8_t>(kind); }

void WaitForContext(const char* type) {
  Context* context = EngineState::current();
  if (context == nullptr) return;
  EngineState& engine = EngineState::Get();
  engine.Wait(engine.model().ContextEnd(context), type, 0, context, nullptr, nullptr);
}

struct Direction {
  uint8_t kind;  // CUpti_ActivityMemcpyKind
  Engine engine;
  Setting rate;
};

Direction DirectionOf(Memory to, Memory from) {
  const bool to_device = to == Memory::kDevice, from_device = from == Memory::kDevice;
  if (to_device && from_device) {
    return {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, Engine::kCompute, Setting::kDtoDBytesPerUs};
  }
  if (to_device) return {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, Engine::kHtoD, Setting::kHtoDBytesPerUs};
  if (from_device)
    return {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, Engine::kDtoH, Setting::kDtoHBytesPerUs};
  return {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, Engine::kCompute, Setting::kHtoDBytesPerUs};
}

CUresult Copy(uintptr_t to, uintptr_t from, size_t bytes, Memory to_kind, Memory from_kind,
              CUstream handle, bool asynchronous) {
  EngineState& engine = EngineState::Get();
  Stream* stream = engine.ResolveStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Direction direction = DirectionOf(to_kind, from_kind);
  const bool stages =
      direction.kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD && from_kind == Memory::kPageable;
  const bool waits =
      direction.kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH && to_kind == Memory::kPageable;
  const bool captured = stream->capture != nullptr;
  if (stages && !captured) {
    if (!asynchronous) {
      engine.Wait(engine.model().StreamEnd(stream), "copy", 0, stream->context, stream, nullptr);
    }
    const int64_t staged = Clock::Get().Now() + TransferNs(bytes, Setting::kStagingBytesPerUs);
    engine.Wait(staged, "staging", 0, stream->context, stream, nullptr);
  }
  GpuOp op;
  op.kind = OpKind::kCopy;
  op.copy_kind = direction.kind;
  op.src_kind = MemoryKind(from_kind);
  op.dst_kind = MemoryKind(to_kind);
  op.bytes = bytes;
  op.asynchronous = asynchronous;
  const int64_t duration = EngineState::TakeDuration(Settings::Get()[Setting::kCopyBaseNs] +
                                                     TransferNs(bytes, direction.rate));
  EngineState::MoveData(to, from, bytes);
  const CUresult result = engine.Submit(stream, direction.engine, op, duration);
  const bool device_only = direction.kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  if (!captured && (waits || (!asynchronous && !stages && !device_only))) {
    engine.Wait(engine.model().StreamEnd(stream), "copy", 0, stream->context, stream, nullptr);
  }
  return result;
}

CUresult CopyByAddress(uintptr_t to, uintptr_t from, size_t bytes, CUstream stream,
                       bool asynchronous) {
  EngineState& engine = EngineState::Get();
  return Copy(to, from, bytes, engine.KindOf(to), engine.KindOf(from), stream, asynchronous);
}

Memory HostKind(const void* p) {
  const Memory kind = EngineState::Get().KindOf(reinterpret_cast<uintptr_t>(p));
  return kind == Memory::kDevice ? Memory::kPageable : kind;
}

CUresult ToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream stream,
                  bool asynchronous) {
  return Copy(to, reinterpret_cast<uintptr_t>(from), bytes, Memory::kDevice, HostKind(from), stream,
              asynchronous);
}

CUresult FromDevice(void* to, CUdeviceptr from, size_t bytes, CUstream stream, bool asynchronous) {
  return Copy(reinterpret_cast<uintptr_t>(to), from, bytes, HostKind(to), Memory::kDevice, stream,
              asynchronous);
}

template <class Value>
CUresult Set(CUdeviceptr to, Value value, size_t count, CUstream handle, bool asynchronous) {
  EngineState& engine = EngineState::Get();
  Stream* stream = engine.ResolveStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  GpuOp op;
  op.kind = OpKind::kSet;
  op.dst_kind = MemoryKind(Memory::kDevice);
  op.bytes = count * sizeof(Value);
  op.value = value;
  op.asynchronous = asynchronous;
  EngineState::FillData(to, &value, sizeof value, count);
  return engine.Submit(stream, Engine::kCompute, op,
                       EngineState::TakeDuration(Settings::Get()[Setting::kCopyBaseNs] +
                                                 TransferNs(op.bytes, Setting::kSetBytesPerUs)));
}

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

// ---- allocation ----

GPUSIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  DRIVER_CALL(cuMemAlloc_v2, dptr, bytesize);
  if (EngineState::current() == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  if (Settings::Get()[Setting::kAllocSyncs] != 0) WaitForContext("alloc");
  uintptr_t address = 0;
  const CUresult result = EngineState::Get().Allocate(Memory::kDevice, bytesize, &address);
  *dptr = address;
  return scope.Done(result);
}

GPUSIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) {
  DRIVER_CALL(cuMemFree_v2, dptr);
  if (dptr == 0) return CUDA_SUCCESS;
  if (Settings::Get()[Setting::kFreeSyncs] != 0) WaitForContext("free");
  return scope.Done(EngineState::Get().Free(dptr, Memory::kDevice));
}

GPUSIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  DRIVER_CALL(cuMemAllocAsync, dptr, bytesize, hStream);
  uintptr_t address = 0;
  const CUresult result = EngineState::Get().Allocate(Memory::kDevice, bytesize, &address);
  *dptr = address;
  return scope.Done(result);
}

GPUSIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  DRIVER_CALL(cuMemFreeAsync, dptr, hStream);
  return scope.Done(EngineState::Get().Free(dptr, Memory::kDevice));
}

GPUSIM_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  DRIVER_CALL(cuMemGetInfo_v2, free_bytes, total);
  *total = static_cast<size_t>(Settings::Get()[Setting::kDeviceMemoryBytes]);
  *free_bytes = *total - EngineState::Get().allocated_bytes();
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
  DRIVER_CALL(cuMemAllocHost_v2, pp, bytesize);
  uintptr_t address = 0;
  const CUresult result = EngineState::Get().Allocate(Memory::kPinned, bytesize, &address);
  *pp = reinterpret_cast<void*>(address);
  return scope.Done(result);
}

GPUSIM_EXPORT CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  DRIVER_CALL(cuMemHostAlloc, pp, bytesize, Flags);
  uintptr_t address = 0;
  const CUresult result = EngineState::Get().Allocate(Memory::kPinned, bytesize, &address);
  *pp = reinterpret_cast<void*>(address);
  return scope.Done(result);
}

GPUSIM_EXPORT CUresult cuMemFreeHost(void* p) {
  DRIVER_CALL(cuMemFreeHost, p);
  return scope.Done(EngineState::Get().Free(reinterpret_cast<uintptr_t>(p), Memory::kPinned));
}

GPUSIM_EXPORT CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  DRIVER_CALL(cuMemHostRegister_v2, p, bytesize, Flags);
  return scope.Done(EngineState::Get().Register(reinterpret_cast<uintptr_t>(p), bytesize));
}

GPUSIM_EXPORT CUresult cuMemHostUnregister(void* p) {
  DRIVER_CALL(cuMemHostUnregister, p);
  return scope.Done(EngineState::Get().Unregister(reinterpret_cast<uintptr_t>(p)));
}

// ---- copies ----

GPUSIM_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  DRIVER_CALL(cuMemcpy, dst, src, ByteCount);
  return scope.Done(CopyByAddress(dst, src, ByteCount, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                     CUstream hStream) {
  DRIVER_CALL(cuMemcpyAsync, dst, src, ByteCount, hStream);
  return scope.Done(CopyByAddress(dst, src, ByteCount, hStream, true));
}

GPUSIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost,
                                       size_t ByteCount) {
  DRIVER_CALL(cuMemcpyHtoD_v2, dstDevice, srcHost, ByteCount);
  return scope.Done(ToDevice(dstDevice, srcHost, ByteCount, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost,
                                            size_t ByteCount, CUstream hStream) {
  DRIVER_CALL(cuMemcpyHtoDAsync_v2, dstDevice, srcHost, ByteCount, hStream);
  return scope.Done(ToDevice(dstDevice, srcHost, ByteCount, hStream, true));
}

GPUSIM_EXPORT CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  DRIVER_CALL(cuMemcpyDtoH_v2, dstHost, srcDevice, ByteCount);
  return scope.Done(FromDevice(dstHost, srcDevice, ByteCount, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                            CUstream hStream) {
  DRIVER_CALL(cuMemcpyDtoHAsync_v2, dstHost, srcDevice, ByteCount, hStream);
  return scope.Done(FromDevice(dstHost, srcDevice, ByteCount, hStream, true));
}

GPUSIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                       size_t ByteCount) {
  DRIVER_CALL(cuMemcpyDtoD_v2, dstDevice, srcDevice, ByteCount);
  return scope.Done(
      Copy(dstDevice, srcDevice, ByteCount, Memory::kDevice, Memory::kDevice, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                            size_t ByteCount, CUstream hStream) {
  DRIVER_CALL(cuMemcpyDtoDAsync_v2, dstDevice, srcDevice, ByteCount, hStream);
  return scope.Done(
      Copy(dstDevice, srcDevice, ByteCount, Memory::kDevice, Memory::kDevice, hStream, true));
}

GPUSIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                         CUdeviceptr srcDevice, CUcontext srcContext,
                                         size_t ByteCount, CUstream hStream) {
  DRIVER_CALL(cuMemcpyPeerAsync, dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  const Context* to = EngineState::ResolveContext(dstContext);
  const Context* from = EngineState::ResolveContext(srcContext);
  if (stream == nullptr || to == nullptr || from == nullptr)
    return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  GpuOp op;
  op.kind = OpKind::kPeerCopy;
  op.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  op.src_kind = op.dst_kind = MemoryKind(Memory::kDevice);
  op.bytes = ByteCount;
  op.asynchronous = true;
  op.src_device = static_cast<uint32_t>(from->device->index);
  op.src_context = from->id;
  op.dst_device = static_cast<uint32_t>(to->device->index);
  op.dst_context = to->id;
  EngineState::MoveData(dstDevice, srcDevice, ByteCount);
  return scope.Done(EngineState::Get().Submit(
      stream, Engine::kPeer, op,
      EngineState::TakeDuration(Settings::Get()[Setting::kCopyBaseNs] +
                                TransferNs(ByteCount, Setting::kPeerBytesPerUs))));
}

// ---- sets ----

GPUSIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  DRIVER_CALL(cuMemsetD8_v2, dstDevice, uc, N);
  return scope.Done(Set(dstDevice, uc, N, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                       CUstream hStream) {
  DRIVER_CALL(cuMemsetD8Async, dstDevice, uc, N, hStream);
  return scope.Done(Set(dstDevice, uc, N, hStream, true));
}

GPUSIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  DRIVER_CALL(cuMemsetD32_v2, dstDevice, ui, N);
  return scope.Done(Set(dstDevice, ui, N, nullptr, false));
}

GPUSIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                        CUstream hStream) {
  DRIVER_CALL(cuMemsetD32Async, dstDevice, ui, N, hStream);
  return scope.Done(Set(dstDevice, ui, N, hStream, true));
}

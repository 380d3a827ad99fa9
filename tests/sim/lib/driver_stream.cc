// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Driver API: streams, events, host functions, stream capture.
#include <cupti.h>

#include "tests/sim/lib/api_scope.h"
#include "tests/sim/lib/clock.h"
#include "tests/sim/lib/engine.h"

namespace gpuprobe::sim {
namespace {

DeviceModel& Model() { return EngineState::Get().model(); }

StreamInfo Info(const Stream* stream, uint32_t correlation) {
  StreamInfo info{};
  info.context = stream->context->id;
  info.stream = stream->id;
  info.priority = static_cast<uint32_t>(stream->priority);
  info.flag = stream->blocking ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT
                               : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  info.correlation = correlation;
  info.context_handle = stream->context;
  info.stream_handle = const_cast<Stream*>(stream);
  return info;
}

CUresult Create(CUstream* out, unsigned int flags, int priority, uint32_t correlation) {
  Context* context = EngineState::current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Stream* stream = Model().CreateStream(context, (flags & CU_STREAM_NON_BLOCKING) == 0, priority);
  const StreamInfo info = Info(stream, correlation);
  ForEachClient([&info](const Hooks& hooks) { hooks.stream_created(&info); });
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace gpuprobe::sim

using namespace gpuprobe::sim;  // NOLINT: this file is the API's implementation

GPUSIM_EXPORT CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  DRIVER_CALL(cuStreamCreate, phStream, Flags);
  return scope.Done(Create(phStream, Flags, 0, scope.call().correlation));
}

GPUSIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags,
                                                  int priority) {
  DRIVER_CALL(cuStreamCreateWithPriority, phStream, flags, priority);
  return scope.Done(Create(phStream, flags, priority, scope.call().correlation));
}

GPUSIM_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) {
  DRIVER_CALL(cuStreamDestroy_v2, hStream);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr || stream->is_null) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const StreamInfo info = Info(stream, scope.call().correlation);
  ForEachClient([&info](const Hooks& hooks) { hooks.stream_destroyed(&info); });
  Model().DestroyStream(stream);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuStreamSynchronize(CUstream hStream) {
  DRIVER_CALL(cuStreamSynchronize, hStream);
  EngineState& engine = EngineState::Get();
  Stream* stream = engine.ResolveStream(hStream);
  if (stream == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  if (stream->capture != nullptr) return scope.Done(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  engine.WaitHostFunctions(stream, UINT64_MAX);
  engine.Wait(Model().StreamEnd(stream), "stream",
              CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, stream->context, stream,
              nullptr);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuStreamQuery(CUstream hStream) {
  DRIVER_CALL(cuStreamQuery, hStream);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const bool done = Model().HostFunctionsDone(stream, UINT64_MAX) &&
                    Model().StreamEnd(stream) <= Clock::Get().Now();
  return scope.Done(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

GPUSIM_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  DRIVER_CALL(cuStreamWaitEvent, hStream, hEvent, Flags);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  Event* event = EngineState::ResolveEvent(hEvent);
  if (stream == nullptr || event == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  Model().WaitEvent(stream, event);
  const uint64_t sync_id = Model().Snapshot(event).sync_id;
  const int64_t now = Clock::Get().Now();
  const SyncOp sync{CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT,
                    stream->context->id,
                    stream->id,
                    event->id,
                    sync_id,
                    scope.call().correlation,
                    now,
                    now};
  ForEachClient([&sync](const Hooks& hooks) { hooks.sync(&sync); });
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  DRIVER_CALL(cuEventCreate, phEvent, Flags);
  if (EngineState::current() == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  *phEvent = reinterpret_cast<CUevent>(Model().CreateEvent((Flags & CU_EVENT_DISABLE_TIMING) == 0));
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent) {
  DRIVER_CALL(cuEventDestroy_v2, hEvent);
  Event* event = EngineState::ResolveEvent(hEvent);
  if (event == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  event->destroyed = true;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
  DRIVER_CALL(cuEventRecord, hEvent, hStream);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  Event* event = EngineState::ResolveEvent(hEvent);
  if (stream == nullptr || event == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  Model().RecordEvent(event, stream, Clock::Get().Now());
  const EventOp op{static_cast<uint32_t>(stream->context->device->index),
                   stream->context->id,
                   stream->id,
                   event->id,
                   scope.call().correlation,
                   Model().Snapshot(event).sync_id};
  ForEachClient([&op](const Hooks& hooks) { hooks.event_record(&op); });
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuEventSynchronize(CUevent hEvent) {
  DRIVER_CALL(cuEventSynchronize, hEvent);
  const Event* handle = EngineState::ResolveEvent(hEvent);
  if (handle == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const Event event = Model().Snapshot(handle);
  Context* context = event.recorded ? event.stream->context : EngineState::current();
  if (context == nullptr) return scope.Done(CUDA_ERROR_INVALID_CONTEXT);
  if (event.recorded) EngineState::Get().WaitHostFunctions(event.stream, event.host_functions);
  // streamId of such a record is "not applicable": seen so in recordings of CUPTI 13.0.
  EngineState::Get().Wait(event.recorded ? event.time_ns : 0, "event",
                          CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, context, nullptr,
                          &event);
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuEventQuery(CUevent hEvent) {
  DRIVER_CALL(cuEventQuery, hEvent);
  const Event* handle = EngineState::ResolveEvent(hEvent);
  if (handle == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const Event event = Model().Snapshot(handle);
  if (!event.recorded) return CUDA_SUCCESS;
  const bool done = event.time_ns <= Clock::Get().Now() &&
                    Model().HostFunctionsDone(event.stream, event.host_functions);
  return scope.Done(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

GPUSIM_EXPORT CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  DRIVER_CALL(cuEventElapsedTime_v2, pMilliseconds, hStart, hEnd);
  const Event* start_handle = EngineState::ResolveEvent(hStart);
  const Event* end_handle = EngineState::ResolveEvent(hEnd);
  if (start_handle == nullptr || end_handle == nullptr)
    return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  const Event start = Model().Snapshot(start_handle), end = Model().Snapshot(end_handle);
  if (!start.timing || !end.timing || !start.recorded || !end.recorded) {
    return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  }
  const int64_t now = Clock::Get().Now();
  if (start.time_ns > now || end.time_ns > now) return scope.Done(CUDA_ERROR_NOT_READY);
  *pMilliseconds = static_cast<float>(end.time_ns - start.time_ns) / 1e6f;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  DRIVER_CALL(cuLaunchHostFunc, hStream, fn, userData);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr || fn == nullptr) return scope.Done(CUDA_ERROR_INVALID_VALUE);
  return scope.Done(EngineState::Get().LaunchHostFunction(stream, fn, userData));
}

GPUSIM_EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  DRIVER_CALL(cuStreamIsCapturing, hStream, captureStatus);
  const Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr) return scope.Done(CUDA_ERROR_INVALID_HANDLE);
  *captureStatus =
      stream->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  DRIVER_CALL(cuStreamBeginCapture_v2, hStream, mode);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr || stream->is_null)
    return scope.Done(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (stream->capture != nullptr) return scope.Done(CUDA_ERROR_ILLEGAL_STATE);
  stream->capture = new Graph{EngineState::Get().NextGraphId(), {}};
  return CUDA_SUCCESS;
}

GPUSIM_EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  DRIVER_CALL(cuStreamEndCapture, hStream, phGraph);
  Stream* stream = EngineState::Get().ResolveStream(hStream);
  if (stream == nullptr || stream->capture == nullptr) return scope.Done(CUDA_ERROR_ILLEGAL_STATE);
  *phGraph = reinterpret_cast<CUgraph>(stream->capture);
  stream->capture = nullptr;
  return CUDA_SUCCESS;
}

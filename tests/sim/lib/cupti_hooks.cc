// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the engine tells us becomes records (in NVIDIA's structures of CUPTI 13.0, cut to the size
// of the version we pretend to be) and callbacks of a subscriber.
#include <cupti.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "tests/sim/lib/cupti_buffers.h"
#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_side_records.h"
#include "tests/sim/lib/cupti_state.h"
#include "tests/sim/lib/faults.h"
#include "tests/sim/lib/replay.h"

namespace gpuprobe::sim {
namespace {

CuptiState& State() { return CuptiState::Get(); }

// ---- GPU work ----

void EmitKernel(const GpuOp& op) {
  const uint32_t kind = Enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
                            ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                            : CUPTI_ACTIVITY_KIND_KERNEL;
  if (!Enabled(kind)) return;
  if (const Fault* f = Faults::Get().Find("records", "missing")) {
    static std::atomic<int64_t> kernels{0};
    if ((kernels.fetch_add(1, std::memory_order_relaxed) + 1) % f->Arg(0, 1) == 0) return;
  }
  CUpti_ActivityKernel10 r{};
  r.kind = static_cast<CUpti_ActivityKind>(kind);
  r.registersPerThread = static_cast<uint16_t>(op.registers);
  r.start = op.start_ns;
  r.end = r.completed = op.end_ns;
  r.deviceId = op.device;
  r.contextId = op.context;
  r.streamId = op.stream;
  r.gridX = static_cast<int32_t>(op.grid[0]);
  r.gridY = static_cast<int32_t>(op.grid[1]);
  r.gridZ = static_cast<int32_t>(op.grid[2]);
  r.blockX = static_cast<int32_t>(op.block[0]);
  r.blockY = static_cast<int32_t>(op.block[1]);
  r.blockZ = static_cast<int32_t>(op.block[2]);
  r.staticSharedMemory = static_cast<int32_t>(op.static_shared_bytes);
  r.dynamicSharedMemory = static_cast<int32_t>(op.dynamic_shared_bytes);
  r.correlationId = op.correlation;
  r.gridId = op.grid_id;
  r.name = op.name;
  if (State().latency_timestamps) {
    r.queued = op.queued_ns;
    r.submitted = op.submitted_ns;
  }
  r.launchType = CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  r.sharedMemoryExecuted = 32 * 1024;
  r.graphNodeId = op.graph_node_id;
  r.graphId = op.graph_id;
  r.channelID = 2;
  r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  Buffers::Get().Emit(&r, kind, op.end_ns);
}

void EmitCopy(const GpuOp& op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
  CUpti_ActivityMemcpy6 r{};
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  r.copyKind = op.copy_kind;
  r.srcKind = op.src_kind;
  r.dstKind = op.dst_kind;
  r.flags = op.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
  r.bytes = op.bytes;
  r.start = op.start_ns;
  r.end = op.end_ns;
  r.deviceId = op.device;
  r.contextId = op.context;
  r.streamId = op.stream;
  r.correlationId = op.correlation;
  r.graphNodeId = op.graph_node_id;
  r.graphId = op.graph_id;
  r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  r.copyCount = 1;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_MEMCPY, op.end_ns);
}

void EmitPeerCopy(const GpuOp& op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_MEMCPY2)) return;
  CUpti_ActivityMemcpyPtoP4 r{};
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  r.copyKind = op.copy_kind;
  r.srcKind = op.src_kind;
  r.dstKind = op.dst_kind;
  r.flags = op.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
  r.bytes = op.bytes;
  r.start = op.start_ns;
  r.end = op.end_ns;
  r.deviceId = op.device;
  r.contextId = op.context;
  r.streamId = op.stream;
  r.srcDeviceId = op.src_device;
  r.srcContextId = op.src_context;
  r.dstDeviceId = op.dst_device;
  r.dstContextId = op.dst_context;
  r.correlationId = op.correlation;
  r.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_MEMCPY2, op.end_ns);
}

void EmitSet(const GpuOp& op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_MEMSET)) return;
  CUpti_ActivityMemset4 r{};
  r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  r.value = op.value;
  r.bytes = op.bytes;
  r.start = op.start_ns;
  r.end = op.end_ns;
  r.deviceId = op.device;
  r.contextId = op.context;
  r.streamId = op.stream;
  r.correlationId = op.correlation;
  r.flags = op.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
  r.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  r.graphNodeId = op.graph_node_id;
  r.graphId = op.graph_id;
  r.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_MEMSET, op.end_ns);
}

// Executable graphs that were made under GRAPH_TRACE.
struct TracedGraphs {
  std::mutex mutex;
  std::set<uint32_t> ids;
  static TracedGraphs& Get() {
    static auto* graphs = new TracedGraphs;  // process lifetime: work comes until exit
    return *graphs;
  }
};

void OnGraphInstantiated(uint32_t graph_id) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) return;
  const std::lock_guard<std::mutex> lock(TracedGraphs::Get().mutex);
  TracedGraphs::Get().ids.insert(graph_id);
}

// As NVIDIA's CUPTI 13.0 does (H200): a graph that was made without GRAPH_TRACE and is launched
// with it ends the process.
void CrashUnlessTraced(uint32_t graph_id) {
  const std::lock_guard<std::mutex> lock(TracedGraphs::Get().mutex);
  if (TracedGraphs::Get().ids.count(graph_id) == 0) raise(SIGSEGV);
}

void EmitGraph(const GpuOp& op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) return;
  CrashUnlessTraced(op.graph_id);
  CUpti_ActivityGraphTrace2 r{};
  r.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  r.correlationId = op.correlation;
  r.start = op.start_ns;
  r.end = op.end_ns;
  r.deviceId = r.endDeviceId = op.device;
  r.graphId = op.graph_id;
  r.contextId = r.endContextId = op.context;
  r.streamId = op.stream;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, op.end_ns);
}

void OnGpuOp(const GpuOp* op) {
  // Graph level hides the nodes.
  if (op->graph_node_id != 0 && Enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) return;
  switch (op->kind) {
    case OpKind::kKernel:
      return EmitKernel(*op);
    case OpKind::kCopy:
      return EmitCopy(*op);
    case OpKind::kPeerCopy:
      return EmitPeerCopy(*op);
    case OpKind::kSet:
      return EmitSet(*op);
    case OpKind::kGraph:
      return EmitGraph(*op);
    case OpKind::kHostFunction:
      return;
  }
}

// ---- API calls ----

CUpti_CallbackDomain CallbackDomain(Domain domain) {
  return domain == Domain::kRuntime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
}

void CallSubscriber(ApiCall* call, CUpti_ApiCallbackSite site) {
  CuptiState& state = State();
  const auto callback =
      state.subscriber_callback.load(std::memory_order_acquire);  // with cuptiSubscribe
  const CUpti_CallbackDomain domain = CallbackDomain(call->domain);
  if (callback == nullptr || !state.callback_enabled[domain][call->cbid % kMaxCbid]) return;
  static std::atomic<int64_t> calls[2] = {};  // enters, exits
  const bool enter = site == CUPTI_API_ENTER;
  const int64_t n = calls[enter ? 0 : 1].fetch_add(1, std::memory_order_relaxed) + 1;
  const Fault* skipped = Faults::Get().Find("callbacks", enter ? "exit_first" : "enter_only");
  if (skipped != nullptr && n % skipped->Arg(0, 1) == 0) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = call->name;
  data.functionParams = call->params;
  data.functionReturnValue = enter ? nullptr : &call->result;
  data.symbolName = call->symbol;
  data.context = static_cast<CUcontext>(call->context);
  data.contextUid = call->context_id;
  data.correlationData = &call->correlation_data;
  data.correlationId = call->correlation;
  GlobalLock global(false);
  CallbackSection section(CallbackKind::kApi, "an API callback");
  callback(state.subscriber_data, domain, call->cbid, &data);
}

uint64_t RecordTime(int64_t sim_ns) {
  const auto callback = State().timestamp.load(std::memory_order_acquire);  // with its registration
  return callback != nullptr ? callback() : static_cast<uint64_t>(sim_ns);
}

void OnApiEnter(ApiCall* call) {
  CallSubscriber(call, CUPTI_API_ENTER);
  call->record_wanted =
      State().api_recorded[static_cast<size_t>(call->domain)][call->cbid % kMaxCbid];
  if (call->record_wanted) call->record_start = RecordTime(call->start_ns);
}

void OnApiExit(ApiCall* call) {
  if (call->record_wanted) {
    EmitExternalCorrelation(call->correlation);
    CUpti_ActivityAPI r{};
    r.kind =
        call->domain == Domain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    r.cbid = call->cbid;
    r.start = call->record_start;
    r.end = RecordTime(call->end_ns);
    r.processId = static_cast<uint32_t>(getpid());
    r.threadId = RecordThreadId();
    r.correlationId = call->correlation;
    r.returnValue = static_cast<uint32_t>(call->result);
    Buffers::Get().Emit(&r, r.kind, 0);
  }
  CallSubscriber(call, CUPTI_API_EXIT);
}

// ---- the rest ----

void OnSync(const SyncOp* op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  CUpti_ActivitySynchronization2 r{};
  r.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  r.type = static_cast<CUpti_ActivitySynchronizationType>(op->type);
  r.start = op->start_ns;
  r.end = op->end_ns;
  r.correlationId = op->correlation;
  r.contextId = op->context;
  r.streamId = op->stream;
  r.cudaEventId = op->event;
  r.cudaEventSyncId = op->event_sync_id;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, op->end_ns);
}

void OnEventRecord(const EventOp* op) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_CUDA_EVENT)) return;
  CUpti_ActivityCudaEvent2 r{};
  r.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  r.correlationId = op->correlation;
  r.contextId = op->context;
  r.streamId = op->stream;
  r.eventId = op->event;
  r.deviceId = op->device;
  r.cudaEventSyncId = op->sync_id;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_CUDA_EVENT, 0);
}

void CallResource(uint32_t cbid, void* context, void* stream, void* descriptor) {
  CuptiState& state = State();
  const auto callback =
      state.subscriber_callback.load(std::memory_order_acquire);  // with cuptiSubscribe
  if (callback == nullptr || !state.callback_enabled[CUPTI_CB_DOMAIN_RESOURCE][cbid]) return;
  CUpti_ResourceData data{};
  data.context = static_cast<CUcontext>(context);
  data.resourceHandle.stream = static_cast<CUstream>(stream);
  data.resourceDescriptor = descriptor;
  GlobalLock global(false);
  CallbackSection section(CallbackKind::kResource, "a resource callback");
  callback(state.subscriber_data, CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

void OnContextCreated(const ContextInfo* info) {
  EmitDevice(info->device);
  EmitContext(*info);
  CallResource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, info->handle, nullptr, nullptr);
}

void OnContextDestroyed(const ContextInfo* info) {
  CallResource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, info->handle, nullptr, nullptr);
}

void OnStreamCreated(const StreamInfo* info) {
  if (Enabled(CUPTI_ACTIVITY_KIND_STREAM)) {
    CUpti_ActivityStream r{};
    r.kind = CUPTI_ACTIVITY_KIND_STREAM;
    r.contextId = info->context;
    r.streamId = info->stream;
    r.priority = info->priority;
    r.flag = static_cast<CUpti_ActivityStreamFlag>(info->flag);
    r.correlationId = info->correlation;
    Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_STREAM, 0);
  }
  CallResource(CUPTI_CBID_RESOURCE_STREAM_CREATED, info->context_handle, info->stream_handle,
               nullptr);
}

void OnStreamDestroyed(const StreamInfo* info) {
  CallResource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, info->context_handle,
               info->stream_handle, nullptr);
}

void OnResource(uint32_t cbid, void* context, void* descriptor) {
  CallResource(cbid, context, nullptr, descriptor);
}

void OnOverhead(uint32_t overhead_kind, int64_t start_ns, int64_t end_ns) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  CUpti_ActivityOverhead3 r{};
  r.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  r.overheadKind = static_cast<CUpti_ActivityOverheadKind>(overhead_kind);
  r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  r.objectId.pt.processId = static_cast<uint32_t>(getpid());
  r.objectId.pt.threadId = RecordThreadId();
  r.start = start_ns;
  r.end = end_ns;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_OVERHEAD, 0);
}

void OnExit() { DeliverHeld("early"); }

}  // namespace

bool Enabled(uint32_t kind) {
  return State().kind_enabled[kind].load(std::memory_order_relaxed);  // a switch, publishes nothing
}

uint32_t RecordThreadId() {
  return State().thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
             ? static_cast<uint32_t>(gettid())
             : static_cast<uint32_t>(pthread_self());  // CUPTI's default: the low 32 bits
}

void EmitDevice(uint32_t device) {
  static std::atomic<uint64_t> known{0};  // bit mask: CUPTI reports a device once
  if (!Enabled(CUPTI_ACTIVITY_KIND_DEVICE) ||
      (known.fetch_or(uint64_t{1} << device) >> device & 1) != 0) {
    return;
  }
  DeviceInfo infos[64];
  const int n = DriverLink::Get()->devices(infos, 64);
  if (static_cast<int>(device) >= n) return;
  CUpti_ActivityDevice5 r{};
  r.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  r.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  r.globalMemoryBandwidth = 4'800'000'000;  // kBytes/s
  r.globalMemorySize = infos[device].memory_bytes;
  r.l2CacheSize = 60 << 20;
  r.numThreadsPerWarp = 32;
  r.coreClockRate = 1'980'000;  // kHz
  r.numMemcpyEngines = 3;
  r.numMultiprocessors = 132;
  r.maxThreadsPerBlock = 1024;
  r.computeCapabilityMajor = 9;
  r.id = device;
  memcpy(r.uuid.bytes, infos[device].uuid, sizeof r.uuid.bytes);
  r.name = infos[device].name;
  r.isCudaVisible = 1;
  r.gpuInstanceId = r.computeInstanceId = kNoId;
  r.numaId = kNoId;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_DEVICE, 0);
}

void EmitContext(const ContextInfo& info) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_CONTEXT)) return;
  CUpti_ActivityContext3 r{};
  r.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  r.contextId = info.context;
  r.deviceId = info.device;
  r.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  r.nullStreamId = static_cast<uint16_t>(info.null_stream);
  r.numMultiprocessors = 132;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_CONTEXT, 0);
}

const Hooks kHooks = {
    OnApiEnter,
    OnApiExit,
    OnGpuOp,
    OnSync,
    OnEventRecord,
    OnGraphInstantiated,
    OnContextCreated,
    OnContextDestroyed,
    OnStreamCreated,
    OnStreamDestroyed,
    OnResource,
    OnOverhead,
    [] { return Replay::Get().Deliver(); },
    OnExit,
};

}  // namespace gpuprobe::sim

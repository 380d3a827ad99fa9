// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The seam between the three stand-in libraries of the simulated GPU. libcuda owns the engine, the
// clock and the truth; libcudart is linked to it; libcupti finds it with dlopen, as NVIDIA's does,
// and attaches a table of hooks. Structures are shared in memory: the three libraries are always
// built together.
#ifndef GPUPROBE_TESTS_SIM_LIB_SEAM_H_
#define GPUPROBE_TESTS_SIM_LIB_SEAM_H_

#include <cstddef>
#include <cstdint>

#define GPUSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuprobe::sim {

inline constexpr uint32_t kNoId = 0xffffffffu;  // CUPTI's "not applicable"

enum class Domain : uint8_t { kRuntime = 0, kDriver = 1 };

// One API call in flight. Lives on the caller's stack from enter to exit.
struct ApiCall {
  Domain domain;
  uint32_t cbid;
  const char* name;      // with version suffix where the symbol has one, e.g. cuMemAlloc_v2
  const void* params;    // CUPTI's generated parameter structure
  const char* symbol;    // kernel name of launches, else nullptr
  uint32_t correlation;  // a driver call below a runtime call carries the runtime call's
  uint32_t context_id;   // 0: no current context
  void* context;
  int64_t start_ns, end_ns;
  int32_t result;
  ApiCall* outer;  // the call of the same thread that makes this one
  bool ended;
  // Owned by the CUPTI stand-in.
  bool record_wanted;
  uint64_t record_start;  // on CUPTI's record clock
  uint64_t correlation_data;
};

enum class OpKind : uint8_t { kKernel, kCopy, kPeerCopy, kSet, kGraph, kHostFunction };

// A piece of GPU work with its final times: the engine computes them at submission.
struct GpuOp {
  OpKind kind = OpKind::kKernel;
  uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  int64_t queued_ns = 0, submitted_ns = 0, start_ns = 0, end_ns = 0;
  const char* name = nullptr;  // kernels; process lifetime
  uint64_t bytes = 0;
  uint8_t copy_kind = 0, src_kind = 0, dst_kind = 0;  // CUpti_ActivityMemcpyKind, MemoryKind
  bool asynchronous = false;
  uint32_t value = 0;  // sets
  uint32_t src_device = kNoId, src_context = kNoId, dst_device = kNoId,
           dst_context = kNoId;  // peer
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  uint32_t registers = 32, static_shared_bytes = 0;
  int64_t grid_id = 0;
  uint32_t graph_id = 0;
  uint64_t graph_node_id = 0;  // 0: launched directly
  uint32_t thread = 0;         // of the submitting call
};

struct SyncOp {
  uint32_t type;                    // CUpti_ActivitySynchronizationType
  uint32_t context, stream, event;  // kNoId where not applicable
  uint64_t event_sync_id;
  uint32_t correlation;
  int64_t start_ns, end_ns;
};

struct EventOp {
  uint32_t device, context, stream, event, correlation;
  uint64_t sync_id;
};

struct StreamInfo {
  uint32_t context, stream, priority, flag, correlation;  // flag: CUpti_ActivityStreamFlag
  void *context_handle, *stream_handle;
};

struct ContextInfo {
  uint32_t context, device, null_stream;
  void* handle;
};

struct DeviceInfo {
  uint32_t device;
  uint8_t uuid[16];
  const char* name;
  uint64_t memory_bytes;
};

// What the CUPTI stand-in wants to know. Called without any lock of the engine held, on the thread
// that makes the CUDA call.
struct Hooks {
  void (*api_enter)(ApiCall*);
  void (*api_exit)(ApiCall*);
  void (*gpu_op)(const GpuOp*);  // kGraph comes before the operations of its nodes
  void (*sync)(const SyncOp*);
  void (*event_record)(const EventOp*);
  void (*graph_instantiated)(uint32_t graph_id);
  void (*context_created)(const ContextInfo*);
  void (*context_destroyed)(const ContextInfo*);
  void (*stream_created)(const StreamInfo*);
  void (*stream_destroyed)(const StreamInfo*);
  void (*resource)(uint32_t cbid, void* context, void* descriptor);
  void (*overhead)(uint32_t kind, int64_t start_ns, int64_t end_ns);
  int (*replay)();
  void (*at_exit)();  // from a handler that libcuda registered when it was loaded
};

enum class Tally : uint32_t {  // what the CUPTI stand-in reports to the truth
  kRecordEmitted,
  kRecordDelivered,
  kRecordDropped,
  kRecordUnfinished,
  kBufferRequested,
  kBufferRefused,
  kBufferCompleted,
};

}  // namespace gpuprobe::sim

// Exported by libcuda for its two siblings.
GPUSIM_EXPORT void gpusim_internal_attach(const gpuprobe::sim::Hooks* hooks);
// 0: go on. Else the CUresult with which the call has to end (through gpusim_internal_api_exit).
GPUSIM_EXPORT int gpusim_internal_api_enter(gpuprobe::sim::ApiCall* call, int works_before_init);
GPUSIM_EXPORT void gpusim_internal_api_exit(gpuprobe::sim::ApiCall* call);
// +1, -1: the calling thread enters, leaves a callback of a CUPTI client. `what` names it in
// violations.
GPUSIM_EXPORT void gpusim_internal_callback(int delta, const char* what);
GPUSIM_EXPORT void gpusim_internal_violation(const char* text);
GPUSIM_EXPORT void gpusim_internal_cupti_call(const char* name, int64_t argument, int result);
GPUSIM_EXPORT void gpusim_internal_tally(uint32_t tally, uint32_t record_kind, uint64_t n);
// Devices and contexts that exist already, for a client that enables their kinds late.
GPUSIM_EXPORT int gpusim_internal_devices(gpuprobe::sim::DeviceInfo* out, int capacity);
GPUSIM_EXPORT int gpusim_internal_contexts(gpuprobe::sim::ContextInfo* out, int capacity);
GPUSIM_EXPORT int gpusim_internal_initialised();
GPUSIM_EXPORT const char* gpusim_internal_kernel_name(const void* func);

#endif  // GPUPROBE_TESTS_SIM_LIB_SEAM_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The normalised records: what cupti/ decodes CUPTI's versioned structures into and what the write
// side of proto/ encodes. Plain data, no ownership.
//
// Units: times are nanoseconds on CUPTI's record clock (see ConvertTime in cupti/clock.h for the
// trace clock), sizes are bytes. Identifiers are CUPTI's own. `name` pointers belong to CUPTI or to
// the recorded process: they may be read only through proto::NameReader (they can be dangling), and
// only on the drain thread.
#ifndef GPUPROBE_RINGBUF_RECORDS_H_
#define GPUPROBE_RINGBUF_RECORDS_H_

#include <cstdint>

namespace gpuprobe {

// CUPTI's "no such stream/event/context" is UINT32_MAX (CUPTI_SYNCHRONIZATION_INVALID_VALUE).
inline constexpr uint32_t kInvalidId = 0xffffffffu;

// Whether a GPU record's times can be used. CUPTI documents start == end == 0 as "could not be
// collected" (HAZARD: such kernels must be counted but take no part in busy/idle arithmetic).
enum class Timing : uint8_t {
  kValid = 0,       // start <= end, both plausible
  kMissing = 1,     // start == 0 && end == 0
  kUnfinished = 2,  // start != 0, end == 0: returned by a forced flush while still running
  kInvalid = 3,     // sentinel or end < start
};

struct KernelRecord {
  int64_t start_ns, end_ns;  // meaningful as `timing` says
  Timing timing;
  uint8_t launch_type;  // CUpti_ActivityLaunchType
  bool device_launched;
  uint32_t device, context, stream, correlation;
  uint32_t graph_id;
  uint64_t graph_node_id;  // 0: not part of a graph
  int64_t grid_id;
  const char* name;  // mangled
  uint32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  uint32_t cluster_x, cluster_y, cluster_z;  // 0: no cluster
  uint32_t static_shared_bytes, dynamic_shared_bytes, shared_executed_bytes;
  uint32_t local_bytes_per_thread;
  uint32_t registers_per_thread;
  int64_t queued_ns, submitted_ns;  // latency timestamps; 0 unless enabled
};

struct CopyRecord {  // MEMCPY and MEMCPY2 (peer)
  int64_t start_ns, end_ns;
  Timing timing;
  bool peer;  // from CUpti_ActivityMemcpyPtoP*
  bool device_launched;
  uint8_t copy_kind;  // CUpti_ActivityMemcpyKind: 1 HtoD, 2 DtoH, 8 DtoD, 10 PtoP ...
  // CUpti_ActivityMemoryKind: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed
  uint8_t src_kind, dst_kind;
  uint8_t flags;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC = 1
  uint32_t device, context, stream, correlation;
  uint32_t graph_id;
  uint64_t graph_node_id;
  uint64_t bytes;
  uint32_t src_device, src_context, dst_device, dst_context;  // peer only, else kInvalidId
};

struct SetRecord {
  int64_t start_ns, end_ns;
  Timing timing;
  bool device_launched;
  uint8_t memory_kind;
  uint8_t flags;  // CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC = 1
  uint32_t device, context, stream, correlation;
  uint32_t graph_id;
  uint64_t graph_node_id;
  uint64_t bytes;
  uint32_t value;
};

// One execution of a whole graph (graph-level tracing). Its interval counts as GPU work.
struct GraphRecord {
  int64_t start_ns, end_ns;
  Timing timing;
  uint32_t device, context, stream, correlation, graph_id;
  uint32_t end_device;  // kInvalidId where the CUPTI version does not tell
};

enum class ApiDomain : uint8_t { kRuntime = 0, kDriver = 1 };

struct ApiRecord {
  int64_t start_ns, end_ns;
  ApiDomain domain;
  uint32_t cbid;
  uint32_t process, thread;  // thread: Linux tid (CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
  uint32_t correlation;
  int32_t result;  // cudaError_t / CUresult, 0: success
};

struct SyncRecord {
  int64_t start_ns, end_ns;
  // CUpti_ActivitySynchronizationType: 1 event, 2 stream-wait-event, 3 stream, 4 context
  uint8_t type;
  uint32_t context, stream, event, correlation;  // kInvalidId where not applicable
  uint64_t event_sync_id;                        // 0 where the CUPTI version does not tell
  int32_t result;
};

struct CudaEventRecord {  // cudaEventRecord: what a later stream-wait waits for
  uint32_t context, stream, event, correlation;
  uint64_t event_sync_id;
};

struct OverheadRecord {
  int64_t start_ns, end_ns;
  uint32_t kind;  // CUpti_ActivityOverheadKind, e.g. 1 << 16: buffer flush
  // CUpti_ActivityObjectKind: 1 process, 2 thread, 3 device, 4 context, 5 stream
  uint8_t object_kind;
  uint32_t process, thread;          // object_kind 1, 2; else 0
  uint32_t device, context, stream;  // object_kind 3..5; else kInvalidId
  uint32_t correlation;
};

// One end of an NVTX range, or a mark. `name` is that of the begin alone; ends are told by `id`.
struct MarkerRecord {
  int64_t time_ns;
  uint32_t id;      // the same at both ends, unique in the process
  uint8_t flags;    // CUPTI_ACTIVITY_FLAG_MARKER_*: 1 mark, 2 begin, 4 end
  uint32_t thread;  // 0: not told
  const char* name;
  const char* domain;  // nullptr: the default one
};

struct DeviceRecord {
  uint32_t device;
  uint8_t uuid[16];
  const char* name;
  uint64_t memory_bytes;
  uint32_t sm_count, compute_major, compute_minor;
  uint64_t memory_bandwidth_kb_s;  // kBytes/s, CUPTI's unit
  uint32_t core_clock_khz;
  bool mig;
};

struct ContextRecord {
  uint32_t context, device;
  uint32_t null_stream;
};

struct StreamRecord {
  uint32_t context, stream, priority;
  uint8_t flag;  // CUpti_ActivityStreamFlag
};

// Why records are missing. Stored in the trace: append only, never renumber.
enum class LossCause : uint8_t {
  kNone = 0,
  kCuptiDropped = 1,    // cuptiActivityGetNumDroppedRecords
  kPoolExhausted = 2,   // no free buffer: requests refused; count = refused requests
  kQueueFull = 3,       // records that an application thread could not hand over
  kUndecodable = 4,     // bytes of a buffer that no known layout explains; count = bytes
  kUnknownKind = 5,     // records of a kind that we do not store; count = records
  kWriterFull = 6,      // staging full within one flush period
  kWriteFailed = 7,     // a frame that could not be written (errno in `detail`)
  kSizeCap = 8,         // the trace reached its size limit
  kNameTableFull = 9,   // records kept, names replaced; count = records
  kDiscarded = 10,      // scratch buffer handed out below CUPTI API 27, contents discarded; bytes
  kUntimed = 12,        // calls, waits, overheads whose times are unusable; count = records
  kForeignBuffer = 11,  // buffers lost to another CUPTI client
};

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_RECORDS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The records of the frame being filled, in compact form and in the order of their arrival, with
// the lane that each belongs to. A lane is what one batch holds: (class, device, context, stream,
// timing) of GPU work, a host thread for API calls. Synchronisations, CUDA events and overheads
// have no lanes.
//
// Times are on the trace clock. Thread: the drain thread.
#ifndef GPUPROBE_PROTO_STAGING_H_
#define GPUPROBE_PROTO_STAGING_H_

#include <cstddef>
#include <cstdint>

#include "proto/arena.h"
#include "proto/frame_map.h"
#include "ringbuf/records.h"

namespace gpuprobe::proto {

enum class LaneClass : uint8_t { kKernel, kApi, kCopy, kSet, kGraph };
inline constexpr size_t kLaneClassCount = 5;

struct Lane {
  LaneClass lane_class;
  Timing timing;
  uint32_t device, context;
  uint32_t stream;  // LaneClass::kApi: the thread
  uint32_t count;   // records in this frame
};

// Staged records. What hardly any record has stands in arrays of its own (KernelGraph,
// KernelLatency, results of API calls), read only where the record's flag says so.
inline constexpr uint16_t kHasGraph = 1, kHasLatency = 2;  // kernels
inline constexpr uint16_t kHasFailed = 1;                  // calls: the result is not 0

struct StagedKernel {
  int64_t start_ns, end_ns;
  uint32_t correlation;
  uint16_t id;              // of its launch shape
  uint16_t lane_and_flags;  // lane << 2 | kHasGraph | kHasLatency
  uint32_t lane() const { return lane_and_flags >> 2; }
};
struct KernelGraph {
  uint64_t node_id;
  uint32_t graph_id;
};
struct KernelLatency {
  int64_t queued_before_ns, submitted_before_ns;
};
struct StagedApi {
  int64_t start_ns, end_ns;
  uint32_t correlation;
  uint16_t id;              // of its symbol
  uint16_t lane_and_flags;  // lane << 2 | kHasFailed
  uint32_t lane() const { return lane_and_flags >> 2; }
};
struct StagedCopy {
  int64_t start_ns, end_ns;
  uint64_t bytes, graph_node_id;
  uint32_t correlation, graph_id;
  uint16_t shape, lane_index;
  uint32_t lane() const { return lane_index; }
};
struct StagedSet {
  int64_t start_ns, end_ns;
  uint64_t bytes, graph_node_id;
  uint32_t correlation, graph_id, value;
  uint16_t lane_index;
  uint8_t memory_kind, flags;
  uint32_t lane() const { return lane_index; }
};
struct StagedGraph {
  int64_t start_ns, end_ns;
  uint32_t correlation, graph_id;
  uint32_t lane_index;
  uint32_t lane() const { return lane_index; }
};
using StagedSync = SyncRecord;
using StagedCudaEvent = CudaEventRecord;
using StagedOverhead = OverheadRecord;
struct StagedMarker {
  int64_t time_ns;
  uint32_t id, thread;
  uint16_t name, domain;  // ids of the frame's dictionary
  uint8_t flags;
};
static_assert(sizeof(StagedKernel) == 24 && sizeof(StagedApi) == 24);

template <class T>
struct StagedArray {
  T* items = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;

  void Take(Arena* arena, uint32_t count) {
    items = arena->Take<T>(count);
    capacity = count;
  }
  bool full() const { return size == capacity; }
  void Push(const T& item) { items[size++] = item; }
};

struct Staging {
  // Lane numbers have 14 bits in the staged records.
  static constexpr uint32_t kMaxLanes = 4096;

  void Take(Arena* arena, uint32_t max_records);
  void Clear();
  // The lane's index, or -1 if there are too many lanes (close the frame and ask again).
  int LaneOf(LaneClass lane_class, Timing timing, uint32_t device, uint32_t context,
             uint32_t stream);
  void ForgetQuickLanes();
  // Fills `order` with the indices of `items` by lane, in arrival order within a lane; `next`
  // becomes the end of a lane's stretch. Counting sort.
  template <class T>
  void Sort(LaneClass lane_class, const StagedArray<T>& items) const;
  // Without branches: whether a record ends later than all before it is anybody's guess.
  void NoteTimes(int64_t start_ns, int64_t end_ns) {
    first_ns = start_ns < first_ns ? start_ns : first_ns;
    last_ns = end_ns > last_ns ? end_ns : last_ns;
  }
  uint64_t records() const {
    return uint64_t{kernels.size} + api.size + copies.size + sets.size + graphs.size + syncs.size +
           cuda_events.size + overheads.size + markers.size;
  }

  StagedArray<StagedKernel> kernels;
  KernelGraph* kernel_graphs = nullptr;       // parallel to kernels
  KernelLatency* kernel_latencies = nullptr;  // parallel to kernels
  StagedArray<StagedApi> api;
  int32_t* api_results = nullptr;  // parallel to api
  StagedArray<StagedCopy> copies;
  StagedArray<StagedSet> sets;
  StagedArray<StagedGraph> graphs;
  StagedArray<StagedSync> syncs;
  StagedArray<StagedCudaEvent> cuda_events;
  StagedArray<StagedOverhead> overheads;
  StagedArray<StagedMarker> markers;

  Lane* lanes = nullptr;  // [kMaxLanes]
  uint32_t lane_count = 0;
  FrameMap<kMaxLanes> lane_index;
  int last_lane[kLaneClassCount] = {-1, -1, -1, -1, -1};
  // The lane that a stream's kernels with usable times, or a thread's calls, went to last: by the
  // low bits of its number, to be compared. kNoLane: none yet.
  static constexpr uint16_t kNoLane = 0xffff;
  static constexpr uint32_t kQuickLanes = 64;
  uint16_t quick_kernel_lane[kQuickLanes];
  uint16_t quick_api_lane[kQuickLanes];
  uint32_t* order = nullptr;  // [max_records], one class at a time
  uint32_t* next = nullptr;   // [kMaxLanes]

  int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;  // of the times noted
};

template <class T>
void Staging::Sort(LaneClass lane_class, const StagedArray<T>& items) const {
  uint32_t at = 0;
  for (uint32_t i = 0; i < lane_count; ++i) {
    if (lanes[i].lane_class != lane_class) continue;
    next[i] = at;
    at += lanes[i].count;
  }
  // Copies: `order` could be these members, as far as the compiler knows.
  const T* const begin = items.items;
  uint32_t *const out = order, *const next_of = next;
  for (uint32_t i = 0, n = items.size; i < n; ++i) out[next_of[begin[i].lane()]++] = i;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_STAGING_H_

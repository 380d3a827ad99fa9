// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Undoes the deltas of gpuprobe.proto: one batch and its FrameHeader become plain arrays. Offline
// side.
//
// Every array has exactly `count` elements, whatever the batch holds: columns that are missing or
// too short are zero from there on, surplus elements are ignored. `count` never exceeds the longest
// column or kMaxBatchRecords, so that a hostile batch costs no more than its own size. Nothing
// overflows in the C++ sense; times that wrap or end before they start become an instant and are
// counted.
//
// Times are on the trace clock. A result is overwritten by the next Decode into it and keeps its
// memory: reuse one per batch type.
#ifndef GPUPROBE_PROTO_COLUMNS_H_
#define GPUPROBE_PROTO_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/format.h"
#include "proto/gpuprobe.pb.h"

namespace gpuprobe::proto {

enum class RecordTiming : uint32_t {  // KernelBatch.timing and its like
  kValid = 0,
  kMissing = 1,     // start_ns = end_ns = 0
  kUnfinished = 2,  // end_ns = start_ns
  kInvalid = 3,     // start_ns = end_ns = 0; also what a newer version calls something else
};

struct BatchColumns {
  size_t count = 0;
  uint64_t clipped_records = 0;  // that the batch claims beyond its columns (or kMaxBatchRecords)
  uint64_t invalid_times = 0;    // records whose end was before their start, or overflowed
  std::vector<int64_t> start_ns, end_ns;  // CudaEventColumns: empty
  std::vector<uint32_t> correlation;

  // Optional columns that nearly never stand in a file.
  enum Optional : uint32_t {
    kGraphId,
    kGraphNodeId,
    kQueuedBefore,
    kSubmittedBefore,
    kResult,
    kFlags,
    kValue,
    kEventSyncId,
    kEvent,
  };
  // Bit i: optional column i is there and holds only zeros, so that an absent one costs nothing
  // again. Users may ask, to leave such a column unread.
  uint32_t zero_columns = 0;
  bool OnlyZeros(Optional column) const { return (zero_columns >> column & 1) != 0; }
};

struct GpuColumns : BatchColumns {
  uint32_t device = 0, context = 0, stream = 0;
  RecordTiming timing = RecordTiming::kValid;
  std::vector<uint32_t> graph_id;
};

struct KernelColumns : GpuColumns {
  std::vector<uint32_t> shape;  // index in Dictionary.shapes of the same frame: check the range
  std::vector<uint64_t> graph_node_id;
  std::vector<int64_t> queued_before_ns, submitted_before_ns;  // start - queued; 0: not known
};

struct CopyColumns : GpuColumns {
  std::vector<uint32_t> shape;  // index in Dictionary.copy_shapes: check the range
  std::vector<uint64_t> bytes, graph_node_id;
};

struct SetColumns : GpuColumns {
  std::vector<uint32_t> memory_kind, value, flags;
  std::vector<uint64_t> bytes, graph_node_id;
};

struct GraphColumns : GpuColumns {};

struct ApiColumns : BatchColumns {
  uint32_t thread = 0;
  std::vector<uint32_t> symbol;  // index in Dictionary.api_symbols: check the range
  std::vector<int32_t> result;
};

struct SyncColumns : BatchColumns {
  std::vector<uint32_t> type, context_plus1, stream_plus1, event_plus1;  // plus1: 0 is "none"
  std::vector<uint64_t> event_sync_id;
  std::vector<int32_t> result;
};

struct CudaEventColumns : BatchColumns {
  std::vector<uint32_t> context, stream_plus1, event;
  std::vector<uint64_t> event_sync_id;
};

struct OverheadColumns : BatchColumns {
  std::vector<uint32_t> kind, object_kind, thread, device_plus1, context_plus1, stream_plus1;
};

// start_ns and end_ns are both the record's time; `correlation` is its id.
struct MarkerColumns : BatchColumns {
  std::vector<uint32_t> flags, name, domain, thread;  // name, domain: Dictionary.marker_names
};

void Decode(const KernelBatch& batch, const FrameHeader& header, KernelColumns* out);
void Decode(const CopyBatch& batch, const FrameHeader& header, CopyColumns* out);
void Decode(const SetBatch& batch, const FrameHeader& header, SetColumns* out);
void Decode(const GraphBatch& batch, const FrameHeader& header, GraphColumns* out);
void Decode(const ApiBatch& batch, const FrameHeader& header, ApiColumns* out);
void Decode(const SyncBatch& batch, const FrameHeader& header, SyncColumns* out);
void Decode(const CudaEventBatch& batch, const FrameHeader& header, CudaEventColumns* out);
void Decode(const OverheadBatch& batch, const FrameHeader& header, OverheadColumns* out);
void Decode(const MarkerBatch& batch, const FrameHeader& header, MarkerColumns* out);

// For the decoders: makes an optional column of zeros, at no cost where it is one already.
template <class T>
void Zero(BatchColumns::Optional which, BatchColumns* columns, std::vector<T>* out) {
  const uint32_t bit = 1u << which;
  if ((columns->zero_columns & bit) != 0) {
    out->resize(columns->count);  // what it grows by is zero, too
  } else {
    out->assign(columns->count, T{0});
  }
  columns->zero_columns |= bit;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_COLUMNS_H_

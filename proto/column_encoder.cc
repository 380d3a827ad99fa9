// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/column_encoder.h"

#include <cstring>

#include "proto/format.h"
#include "proto/packed_blocks.h"

namespace gpuprobe::proto {
namespace {

constexpr uint32_t kTracePacket = 1;
// Shorter batches do not pay for two more columns.
constexpr uint32_t kMinSplitRecords = 32;
// A typical batch, to guess how long the lengths in front of it will be.
constexpr size_t kTypicalRecordBytes = 7;
constexpr size_t kTypicalTimeBytes = 1;
// Records whose numbers lie side by side before they become columns: in the first-level cache.
constexpr uint32_t kBlock = 64;
static_assert(kBlock % kPackedValues == 0);

struct OpenPacket {
  WireWriter::Mark packet, data;
};

OpenPacket OpenBatch(WireWriter* out, uint32_t packet_field, size_t records) {
  const size_t expected = records * kTypicalRecordBytes + 20;
  return {out->Open(kTracePacket, expected), out->Open(packet_field, expected)};
}

void CloseBatch(WireWriter* out, const OpenPacket& packet) {
  out->Close(packet.data);
  out->Close(packet.packet);
}

// One packed varint column of `count` values; a column of zeros is left out unless `always`.
template <class Get>
void Column(WireWriter* out, uint32_t field, uint32_t count, size_t expected_bytes, bool always,
            Get get) {
  const WireWriter::Mark mark = out->Open(field, count * expected_bytes);
  uint8_t* p = out->end();
  uint64_t any = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t value = get(i);
    any |= value;
    p = PutVarint(p, value);
  }
  if (any == 0 && !always) {
    out->CutTo(mark.start);
    return;
  }
  out->Advance(p);
  out->Close(mark);
}

template <class Get>
void Unsigned(WireWriter* out, uint32_t field, uint32_t count, size_t expected_bytes, Get get) {
  Column(out, field, count, expected_bytes, false, get);
}

// Differences of neighbours, the first from zero. Written even if all are zero: it is the column
// whose length a reader may trust as the number of records.
template <class Get>
void CorrelationDeltas(WireWriter* out, uint32_t field, uint32_t count, Get get) {
  int64_t previous = 0;
  Column(out, field, count, 1, true, [&](uint32_t i) {
    const int64_t value = get(i);
    const uint64_t delta = ZigZag(value - previous);
    previous = value;
    return delta;
  });
}

int64_t WrappingDifference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Times of records that have no lane: starts from the previous start, no split.
template <class T>
void LanelessTimes(WireWriter* out, const StagedArray<T>& items, int64_t base_ns,
                   uint32_t start_field, uint32_t duration_field) {
  int64_t previous = base_ns;
  Unsigned(out, start_field, items.size, 2, [&](uint32_t i) {
    const uint64_t delta = ZigZag(WrappingDifference(items.items[i].start_ns, previous));
    previous = items.items[i].start_ns;
    return delta;
  });
  Unsigned(out, duration_field, items.size, 2, [&](uint32_t i) {
    return static_cast<uint64_t>(
        WrappingDifference(items.items[i].end_ns, items.items[i].start_ns));
  });
}

}  // namespace

// The records of one lane: `count` indices into the staged array of the lane's class; nullptr: all
// of the array, as it stands.
struct ColumnEncoder::Batch {
  const Lane* lane;
  const uint32_t* order;
  uint32_t count;
  uint32_t operator[](uint32_t i) const { return order == nullptr ? i : order[i]; }
};

struct ColumnEncoder::TimeFields {
  uint32_t start, duration, start_low, duration_low, time_shift;
};

// The columns that every kernel and every call has.
struct ColumnEncoder::HotFields {
  TimeFields times;
  uint32_t id, correlation;
};

void ColumnEncoder::Take(Arena* arena, uint32_t max_records) {
  start_low_ = arena->Take<uint8_t>(max_records);
  duration_low_ = arena->Take<uint8_t>(max_records);
}

template <class T>
void ColumnEncoder::Times(const Batch& batch, const T* items, const TimeFields& fields) {
  const uint32_t n = batch.count;
  const Batch& order = batch;
  int64_t previous = base_ns_;
  if (batch.lane->timing == Timing::kUnfinished) {
    Unsigned(out_, fields.start, n, kTypicalTimeBytes, [&](uint32_t i) {
      const int64_t start = items[order[i]].start_ns;
      const uint64_t delta = ZigZag(WrappingDifference(start, previous));
      previous = start;
      return delta;
    });
    return;
  }
  if (batch.lane->timing != Timing::kValid) return;
  const uint32_t shift = n >= kMinSplitRecords ? kTimeShift : 0;
  Unsigned(out_, fields.start, n, kTypicalTimeBytes, [&](uint32_t i) {
    const T& item = items[order[i]];
    const int64_t delta = WrappingDifference(item.start_ns, previous);
    previous = item.end_ns;
    start_low_[i] = static_cast<uint8_t>(delta);
    return ZigZag(delta >> shift);
  });
  Unsigned(out_, fields.duration, n, kTypicalTimeBytes, [&](uint32_t i) {
    const T& item = items[order[i]];
    const uint64_t duration = static_cast<uint64_t>(WrappingDifference(item.end_ns, item.start_ns));
    duration_low_[i] = static_cast<uint8_t>(duration);
    return duration >> shift;
  });
  if (shift == 0) return;
  out_->Bytes(fields.start_low, start_low_, n);
  out_->Bytes(fields.duration_low, duration_low_, n);
  out_->Uint(fields.time_shift, shift);
}

template <class T>
uint16_t ColumnEncoder::HotColumns(const Batch& batch, const T* items, const HotFields& fields) {
  const uint32_t n = batch.count;
  if (batch.lane->timing != Timing::kValid || n < kMinSplitRecords) {
    Times(batch, items, fields.times);
    Unsigned(out_, fields.id, n, 1, [&](uint32_t i) { return items[batch[i]].id; });
    CorrelationDeltas(out_, fields.correlation, n,
                      [&](uint32_t i) { return items[batch[i]].correlation; });
    uint16_t flags = 0;
    for (uint32_t i = 0; i < n; ++i) flags |= items[batch[i]].lane_and_flags;
    return flags;
  }
  if (batch.order == nullptr) return SplitColumns(n, items, fields, [](uint32_t i) { return i; });
  return SplitColumns(n, items, fields, [order = batch.order](uint32_t i) { return order[i]; });
}

// The columns being written, each where it would stand if the ones before it were as long as they
// can be.
struct ColumnEncoder::HotCursor {
  uint8_t *start, *duration, *id, *correlation, *start_low, *duration_low;
  int64_t previous_end;
  uint32_t previous_correlation = 0;
  __m128i any_start = _mm_setzero_si128(), any_duration = any_start, any_id = any_start;
  uint16_t flags = 0;

  static void Note(__m128i* any, uint64_t value) {
    *any = _mm_or_si128(*any, _mm_set_epi64x(0, static_cast<int64_t>(value)));
  }
};

// Any number of records, one by one.
template <class T, class Index>
void ColumnEncoder::PutRecords(uint32_t from, uint32_t to, const T* items, Index index,
                               HotCursor* cursor) {
  HotCursor c = *cursor;
  for (uint32_t i = from; i < to; ++i) {
    const T& item = items[index(i)];
    const int64_t delta = WrappingDifference(item.start_ns, c.previous_end);
    const uint64_t duration = static_cast<uint64_t>(WrappingDifference(item.end_ns, item.start_ns));
    c.previous_end = item.end_ns;
    *c.start_low++ = static_cast<uint8_t>(delta);
    *c.duration_low++ = static_cast<uint8_t>(duration);
    const uint64_t start_high = ZigZag(delta >> kTimeShift);
    const uint64_t duration_high = duration >> kTimeShift;
    HotCursor::Note(&c.any_start, start_high);
    HotCursor::Note(&c.any_duration, duration_high);
    HotCursor::Note(&c.any_id, item.id);
    c.flags |= item.lane_and_flags;
    c.start = PutVarint(c.start, start_high);
    c.duration = PutVarint(c.duration, duration_high);
    c.id = PutVarint(c.id, item.id);
    const uint32_t step = item.correlation - c.previous_correlation;
    c.correlation = PutVarint(c.correlation, ZigZag(static_cast<int32_t>(step)));
    c.previous_correlation = item.correlation;
  }
  *cursor = c;
}

// kBlock records: their numbers side by side first, then each column sixteen at a time. False, and
// nothing is written, if a gap or a duration has more than 31 bits (2 s).
template <class T, class Index>
bool ColumnEncoder::PutBlock(uint32_t from, const T* items, Index index, HotCursor* cursor) {
  alignas(16) uint32_t deltas[kBlock], durations[kBlock], correlations[kBlock + 1];
  alignas(16) uint16_t ids[kBlock];
  HotCursor c = *cursor;
  uint64_t large = 0;
  correlations[0] = c.previous_correlation;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const T& item = items[index(from + i)];
    const uint64_t start = static_cast<uint64_t>(item.start_ns);
    const uint64_t delta = start - static_cast<uint64_t>(c.previous_end);
    const uint64_t duration = static_cast<uint64_t>(item.end_ns) - start;
    c.previous_end = item.end_ns;
    deltas[i] = static_cast<uint32_t>(delta);
    durations[i] = static_cast<uint32_t>(duration);
    large |= (delta + (uint64_t{1} << 30)) | duration;
    correlations[i + 1] = item.correlation;
    ids[i] = item.id;
    c.flags |= item.lane_and_flags;
  }
  if (large >> 31 != 0) return false;
  c.previous_correlation = correlations[kBlock];
  for (uint32_t i = 0; i < kBlock; i += kPackedValues) {
    const Sixteen delta = LoadSixteen(deltas + i), duration = LoadSixteen(durations + i);
    StoreLowBytes(delta, c.start_low);
    StoreLowBytes(duration, c.duration_low);
    c.start_low += kPackedValues;
    c.duration_low += kPackedValues;
    c.start = PutVarints(c.start, ZigZag(ShiftRightSigned<kTimeShift>(delta)), &c.any_start);
    c.duration = PutVarints(c.duration, ShiftRightSigned<kTimeShift>(duration), &c.any_duration);
    c.id = PutVarints(c.id, WidenSixteen(ids + i), &c.any_id);
    __m128i any_correlation = _mm_setzero_si128();  // that column is always written
    c.correlation = PutVarints(
        c.correlation,
        ZigZag(Difference(LoadSixteen(correlations + i + 1), LoadSixteen(correlations + i))),
        &any_correlation);
  }
  *cursor = c;
  return true;
}

// All hot columns in one pass over the records; then they are moved together. The moves cost a
// tenth of a nanosecond a record, reading the records again for each column several.
template <class T, class Index>
uint16_t ColumnEncoder::SplitColumns(uint32_t count, const T* items, const HotFields& fields,
                                     Index index) {
  constexpr size_t kMostTimeBytes = 8, kMostIdBytes = 3;  // 56 bits, 16 bits
  const size_t n = count;
  const WireWriter::Mark mark = out_->Open(fields.times.start, n * kTypicalTimeBytes);
  uint8_t* const starts = out_->end();
  uint8_t* const durations = starts + n * kMostTimeBytes + kMaxVarintBytes;
  uint8_t* const ids = durations + n * kMostTimeBytes + kMaxVarintBytes;
  uint8_t* const correlations = ids + n * kMostIdBytes + kMaxVarintBytes;
  HotCursor cursor = {starts, durations, ids, correlations, start_low_, duration_low_, base_ns_};
  for (uint32_t from = 0; from < count; from += kBlock) {
    if (count - from < kBlock) {
      PutRecords(from, count, items, index, &cursor);
    } else if (!PutBlock(from, items, index, &cursor)) {
      PutRecords(from, from + kBlock, items, index, &cursor);
    }
  }
  if (!IsZero(cursor.any_start)) {
    out_->Advance(cursor.start);
    out_->Close(mark);
  } else {
    out_->CutTo(mark.start);
  }
  const auto move_here = [this](uint32_t field, const uint8_t* begin, const uint8_t* end) {
    const size_t bytes = static_cast<size_t>(end - begin);
    out_->Tag(field, kWireLengthDelimited);
    out_->Varint(bytes);
    std::memmove(out_->end(), begin, bytes);
    out_->Advance(out_->end() + bytes);
  };
  if (!IsZero(cursor.any_duration)) move_here(fields.times.duration, durations, cursor.duration);
  if (!IsZero(cursor.any_id)) move_here(fields.id, ids, cursor.id);
  move_here(fields.correlation, correlations, cursor.correlation);
  out_->Bytes(fields.times.start_low, start_low_, n);
  out_->Bytes(fields.times.duration_low, duration_low_, n);
  out_->Uint(fields.times.time_shift, kTimeShift);
  return cursor.flags;
}

void ColumnEncoder::Kernels(const Staging& staging, const Batch& batch) {
  const StagedKernel* items = staging.kernels.items;
  const Batch& order = batch;
  const uint32_t n = batch.count;
  const OpenPacket packet = OpenBatch(out_, kPacketKernels, n);
  out_->Uint(1, batch.lane->device);
  out_->Uint(2, batch.lane->context);
  out_->Uint(3, batch.lane->stream);
  const uint16_t flags = HotColumns(batch, items, {{4, 5, 14, 15, 16}, 6, 7});
  if ((flags & kHasGraph) != 0) {
    const auto graph = [&](uint32_t i) {
      const bool has = (items[order[i]].lane_and_flags & kHasGraph) != 0;
      return has ? staging.kernel_graphs[order[i]] : KernelGraph{};
    };
    Unsigned(out_, 8, n, 1, [&](uint32_t i) { return graph(i).graph_id; });
    Unsigned(out_, 9, n, 2, [&](uint32_t i) { return graph(i).node_id; });
  }
  if ((flags & kHasLatency) != 0) {
    const auto latency = [&](uint32_t i) {
      const bool has = (items[order[i]].lane_and_flags & kHasLatency) != 0;
      return has ? staging.kernel_latencies[order[i]] : KernelLatency{};
    };
    Unsigned(out_, 10, n, 3, [&](uint32_t i) { return ZigZag(latency(i).queued_before_ns); });
    Unsigned(out_, 11, n, 3, [&](uint32_t i) { return ZigZag(latency(i).submitted_before_ns); });
  }
  out_->Uint(12, static_cast<uint64_t>(batch.lane->timing));
  out_->Uint(13, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Api(const Staging& staging, const Batch& batch) {
  const StagedApi* items = staging.api.items;
  const Batch& order = batch;
  const uint32_t n = batch.count;
  const OpenPacket packet = OpenBatch(out_, kPacketApi, n);
  out_->Uint(1, batch.lane->stream);
  const uint16_t flags = HotColumns(batch, items, {{2, 3, 9, 10, 11}, 4, 5});
  if ((flags & kHasFailed) != 0) {
    const auto failed = [&](uint32_t i) {
      return (items[order[i]].lane_and_flags & kHasFailed) != 0;
    };
    uint32_t failed_count = 0;
    for (uint32_t i = 0; i < n; ++i) failed_count += failed(i);
    const WireWriter::Mark index = out_->Open(6, failed_count);
    for (uint32_t i = 0; i < n; ++i) {
      if (failed(i)) out_->Varint(i);
    }
    out_->Close(index);
    const WireWriter::Mark result = out_->Open(7, failed_count);
    for (uint32_t i = 0; i < n; ++i) {
      if (failed(i)) out_->Varint(ZigZag(staging.api_results[order[i]]));
    }
    out_->Close(result);
  }
  out_->Uint(8, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Copies(const Staging& staging, const Batch& batch) {
  const StagedCopy* items = staging.copies.items;
  const Batch& order = batch;
  const uint32_t n = batch.count;
  const OpenPacket packet = OpenBatch(out_, kPacketCopies, n);
  out_->Uint(1, batch.lane->device);
  out_->Uint(2, batch.lane->context);
  out_->Uint(3, batch.lane->stream);
  Times(batch, items, {4, 5, 14, 15, 16});
  Unsigned(out_, 6, n, 1, [&](uint32_t i) { return items[order[i]].shape; });
  CorrelationDeltas(out_, 7, n, [&](uint32_t i) { return items[order[i]].correlation; });
  Unsigned(out_, 8, n, 2, [&](uint32_t i) { return items[order[i]].bytes; });
  Unsigned(out_, 9, n, 1, [&](uint32_t i) { return items[order[i]].graph_id; });
  Unsigned(out_, 10, n, 1, [&](uint32_t i) { return items[order[i]].graph_node_id; });
  out_->Uint(12, static_cast<uint64_t>(batch.lane->timing));
  out_->Uint(13, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Sets(const Staging& staging, const Batch& batch) {
  const StagedSet* items = staging.sets.items;
  const Batch& order = batch;
  const uint32_t n = batch.count;
  const OpenPacket packet = OpenBatch(out_, kPacketSets, n);
  out_->Uint(1, batch.lane->device);
  out_->Uint(2, batch.lane->context);
  out_->Uint(3, batch.lane->stream);
  Times(batch, items, {4, 5, 16, 17, 18});
  Unsigned(out_, 6, n, 1, [&](uint32_t i) { return items[order[i]].memory_kind; });
  CorrelationDeltas(out_, 7, n, [&](uint32_t i) { return items[order[i]].correlation; });
  Unsigned(out_, 8, n, 2, [&](uint32_t i) { return items[order[i]].bytes; });
  Unsigned(out_, 9, n, 1, [&](uint32_t i) { return items[order[i]].value; });
  Unsigned(out_, 10, n, 1, [&](uint32_t i) { return items[order[i]].flags; });
  out_->Uint(12, static_cast<uint64_t>(batch.lane->timing));
  out_->Uint(13, n);
  Unsigned(out_, 14, n, 1, [&](uint32_t i) { return items[order[i]].graph_id; });
  Unsigned(out_, 15, n, 1, [&](uint32_t i) { return items[order[i]].graph_node_id; });
  CloseBatch(out_, packet);
}

void ColumnEncoder::Graphs(const Staging& staging, const Batch& batch) {
  const StagedGraph* items = staging.graphs.items;
  const Batch& order = batch;
  const uint32_t n = batch.count;
  const OpenPacket packet = OpenBatch(out_, kPacketGraphs, n);
  out_->Uint(1, batch.lane->device);
  out_->Uint(2, batch.lane->context);
  out_->Uint(3, batch.lane->stream);
  Times(batch, items, {4, 5, 14, 15, 16});
  Unsigned(out_, 6, n, 1, [&](uint32_t i) { return items[order[i]].graph_id; });
  CorrelationDeltas(out_, 7, n, [&](uint32_t i) { return items[order[i]].correlation; });
  out_->Uint(12, static_cast<uint64_t>(batch.lane->timing));
  out_->Uint(13, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Syncs(const Staging& staging) {
  const StagedArray<StagedSync>& all = staging.syncs;
  const StagedSync* items = all.items;
  const uint32_t n = all.size;
  const OpenPacket packet = OpenBatch(out_, kPacketSyncs, n);
  LanelessTimes(out_, all, base_ns_, 1, 2);
  Unsigned(out_, 3, n, 1, [&](uint32_t i) { return items[i].type; });
  // kInvalidId + 1 is 0.
  Unsigned(out_, 4, n, 1, [&](uint32_t i) { return items[i].context + 1; });
  Unsigned(out_, 5, n, 1, [&](uint32_t i) { return items[i].stream + 1; });
  Unsigned(out_, 6, n, 1, [&](uint32_t i) { return items[i].event + 1; });
  CorrelationDeltas(out_, 7, n, [&](uint32_t i) { return items[i].correlation; });
  Unsigned(out_, 8, n, 1, [&](uint32_t i) { return items[i].event_sync_id; });
  out_->Uint(9, n);
  Unsigned(out_, 10, n, 1, [&](uint32_t i) { return ZigZag(items[i].result); });
  CloseBatch(out_, packet);
}

void ColumnEncoder::CudaEvents(const Staging& staging) {
  const StagedCudaEvent* items = staging.cuda_events.items;
  const uint32_t n = staging.cuda_events.size;
  const OpenPacket packet = OpenBatch(out_, kPacketCudaEvents, n);
  Unsigned(out_, 1, n, 1, [&](uint32_t i) { return items[i].context; });
  Unsigned(out_, 2, n, 1, [&](uint32_t i) { return items[i].stream + 1; });
  Unsigned(out_, 3, n, 1, [&](uint32_t i) { return items[i].event; });
  CorrelationDeltas(out_, 4, n, [&](uint32_t i) { return items[i].correlation; });
  Unsigned(out_, 5, n, 1, [&](uint32_t i) { return items[i].event_sync_id; });
  out_->Uint(6, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Overheads(const Staging& staging) {
  const StagedArray<StagedOverhead>& all = staging.overheads;
  const StagedOverhead* items = all.items;
  const uint32_t n = all.size;
  const OpenPacket packet = OpenBatch(out_, kPacketOverheads, n);
  LanelessTimes(out_, all, base_ns_, 1, 2);
  Unsigned(out_, 3, n, 2, [&](uint32_t i) { return items[i].kind; });
  Unsigned(out_, 4, n, 1, [&](uint32_t i) { return items[i].object_kind; });
  Unsigned(out_, 5, n, 2, [&](uint32_t i) { return items[i].thread; });
  Unsigned(out_, 6, n, 1, [&](uint32_t i) { return items[i].device + 1; });
  Unsigned(out_, 7, n, 1, [&](uint32_t i) { return items[i].context + 1; });
  Unsigned(out_, 8, n, 1, [&](uint32_t i) { return items[i].stream + 1; });
  CorrelationDeltas(out_, 9, n, [&](uint32_t i) { return items[i].correlation; });
  out_->Uint(10, n);
  CloseBatch(out_, packet);
}

void ColumnEncoder::Markers(const Staging& staging) {
  const StagedMarker* items = staging.markers.items;
  const uint32_t n = staging.markers.size;
  const OpenPacket packet = OpenBatch(out_, kPacketMarkers, n);
  int64_t previous = base_ns_;
  Unsigned(out_, 1, n, 3, [&](uint32_t i) {
    const uint64_t delta = ZigZag(WrappingDifference(items[i].time_ns, previous));
    previous = items[i].time_ns;
    return delta;
  });
  Unsigned(out_, 2, n, 1, [&](uint32_t i) { return items[i].flags; });
  CorrelationDeltas(out_, 3, n, [&](uint32_t i) { return items[i].id; });
  Unsigned(out_, 4, n, 1, [&](uint32_t i) { return items[i].name; });
  Unsigned(out_, 5, n, 1, [&](uint32_t i) { return items[i].domain; });
  Unsigned(out_, 6, n, 2, [&](uint32_t i) { return items[i].thread; });
  out_->Uint(7, n);
  CloseBatch(out_, packet);
}

template <class T>
void ColumnEncoder::Lanes(Staging* staging, LaneClass lane_class, const StagedArray<T>& items,
                          void (ColumnEncoder::*encode)(const Staging&, const Batch&)) {
  if (items.size == 0) return;
  const int last = staging->last_lane[static_cast<size_t>(lane_class)];
  if (staging->lanes[last].count == items.size) {  // a single lane, the usual case: nothing to sort
    (this->*encode)(*staging, {&staging->lanes[last], nullptr, items.size});
    return;
  }
  staging->Sort(lane_class, items);
  for (uint32_t i = 0; i < staging->lane_count; ++i) {
    const Lane& lane = staging->lanes[i];
    if (lane.lane_class != lane_class) continue;
    (this->*encode)(*staging, {&lane, staging->order + staging->next[i] - lane.count, lane.count});
  }
}

void ColumnEncoder::Encode(Staging* staging, int64_t base_ns, WireWriter* out) {
  out_ = out;
  base_ns_ = base_ns;
  Lanes(staging, LaneClass::kKernel, staging->kernels, &ColumnEncoder::Kernels);
  Lanes(staging, LaneClass::kApi, staging->api, &ColumnEncoder::Api);
  Lanes(staging, LaneClass::kCopy, staging->copies, &ColumnEncoder::Copies);
  Lanes(staging, LaneClass::kSet, staging->sets, &ColumnEncoder::Sets);
  Lanes(staging, LaneClass::kGraph, staging->graphs, &ColumnEncoder::Graphs);
  if (staging->syncs.size != 0) Syncs(*staging);
  if (staging->cuda_events.size != 0) CudaEvents(*staging);
  if (staging->overheads.size != 0) Overheads(*staging);
  if (staging->markers.size != 0) Markers(*staging);
}

}  // namespace gpuprobe::proto

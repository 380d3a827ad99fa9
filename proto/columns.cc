// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/columns.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>

namespace gpuprobe::proto {
namespace {

using google::protobuf::RepeatedField;

using Optional = BatchColumns::Optional;

void SetCount(uint32_t claimed, std::initializer_list<size_t> column_sizes, BatchColumns* out) {
  const size_t longest = std::max(column_sizes);
  const uint64_t wanted = claimed == 0 ? longest : claimed;
  out->count = static_cast<size_t>(std::min<uint64_t>({wanted, longest, kMaxBatchRecords}));
  out->clipped_records = wanted - out->count;
  out->invalid_times = 0;
}

template <class Out, class In>
void Copy(const RepeatedField<In>& column, size_t count, std::vector<Out>* out) {
  static_assert(sizeof(Out) == sizeof(In));
  const size_t present = std::min<size_t>(count, static_cast<size_t>(column.size()));
  out->resize(count);
  if (present != 0) std::memcpy(out->data(), column.data(), present * sizeof(Out));
  std::fill(out->begin() + static_cast<std::ptrdiff_t>(present), out->end(), Out{0});
}

template <class Out, class In>
void CopyOptional(const RepeatedField<In>& column, Optional which, BatchColumns* columns,
                  std::vector<Out>* out) {
  if (column.empty()) {
    Zero(which, columns, out);
    return;
  }
  columns->zero_columns &= ~(1u << which);
  Copy(column, columns->count, out);
}

void Correlations(const RepeatedField<int64_t>& deltas, BatchColumns* out) {
  out->correlation.resize(out->count);
  const size_t present = std::min<size_t>(out->count, static_cast<size_t>(deltas.size()));
  const int64_t* delta = deltas.data();
  uint32_t* correlation = out->correlation.data();
  uint32_t value = 0;
  for (size_t i = 0; i < present; ++i) {
    value += static_cast<uint32_t>(delta[i]);
    correlation[i] = value;
  }
  std::fill(correlation + present, correlation + out->count, value);  // deltas of zero
}

// Views of columns that may be short.
struct Differences {
  const RepeatedField<int64_t>& column;
  size_t size = static_cast<size_t>(column.size());
  uint64_t operator[](size_t i) const {
    return i < size ? static_cast<uint64_t>(column.data()[i]) : 0;
  }
};
struct Durations {
  const RepeatedField<uint64_t>& column;
  size_t size = static_cast<size_t>(column.size());
  uint64_t operator[](size_t i) const { return i < size ? column.data()[i] : 0; }
};
struct LowBytes {
  const std::string& column;
  uint64_t operator[](size_t i) const {
    return i < column.size() ? static_cast<unsigned char>(column[i]) : 0;
  }
};

struct TimeColumns {
  const RepeatedField<int64_t>& start_delta;
  const RepeatedField<uint64_t>& duration;
  const std::string& start_low;
  const std::string& duration_low;
  uint32_t shift;
};

// An end that lies before its start, or that wrapped, cannot be true; branch-free in the loop
// below.
inline int64_t CheckedEnd(uint64_t start, uint64_t end, uint64_t* invalid) {
  const bool bad = static_cast<int64_t>(end) < static_cast<int64_t>(start);
  *invalid += bad;
  return static_cast<int64_t>(bad ? start : end);
}

// Elements [first, last) with `previous` = end of the record before; columns of any length.
template <class Start, class Duration, class StartLow, class DurationLow>
uint64_t DecodeTimes(size_t first, size_t last, uint64_t previous, uint32_t shift,
                     const Start& start_delta, const Duration& duration, const StartLow& start_low,
                     const DurationLow& duration_low, BatchColumns* out) {
  int64_t* starts = out->start_ns.data();
  int64_t* ends = out->end_ns.data();
  uint64_t invalid = 0;
  for (size_t i = first; i < last; ++i) {
    const uint64_t start = previous + (start_delta[i] << shift) + start_low[i];
    const uint64_t end = start + (duration[i] << shift) + duration_low[i];
    previous = end;
    starts[i] = static_cast<int64_t>(start);
    ends[i] = CheckedEnd(start, end, &invalid);
  }
  out->invalid_times += invalid;
  return previous;
}

struct NoLowBytes {
  uint64_t operator[](size_t) const { return 0; }
};

void Times(const TimeColumns& in, const FrameHeader& header, BatchColumns* out) {
  const size_t n = out->count;
  out->start_ns.resize(n);
  out->end_ns.resize(n);
  const uint32_t shift = std::min<uint32_t>(in.shift, 63);
  uint64_t previous = static_cast<uint64_t>(header.base_ns());
  // The part for which all columns are there needs no checks.
  size_t whole = std::min(
      {n, static_cast<size_t>(in.start_delta.size()), static_cast<size_t>(in.duration.size())});
  const auto* start_low = reinterpret_cast<const uint8_t*>(in.start_low.data());
  const auto* duration_low = reinterpret_cast<const uint8_t*>(in.duration_low.data());
  const auto* start_delta = reinterpret_cast<const uint64_t*>(in.start_delta.data());
  if (in.start_low.empty() && in.duration_low.empty()) {
    previous = DecodeTimes(0, whole, previous, shift, start_delta, in.duration.data(), NoLowBytes{},
                           NoLowBytes{}, out);
  } else {
    whole = std::min({whole, in.start_low.size(), in.duration_low.size()});
    previous = DecodeTimes(0, whole, previous, shift, start_delta, in.duration.data(), start_low,
                           duration_low, out);
  }
  DecodeTimes(whole, n, previous, shift, Differences{in.start_delta}, Durations{in.duration},
              LowBytes{in.start_low}, LowBytes{in.duration_low}, out);
}

// Starts that count from the previous start: unfinished records, and records without a lane.
void TimesFromStarts(const RepeatedField<int64_t>& start_delta,
                     const RepeatedField<uint64_t>* duration, const FrameHeader& header,
                     BatchColumns* out) {
  static const RepeatedField<uint64_t> kNone;
  const Differences starts{start_delta};
  const Durations durations{duration == nullptr ? kNone : *duration};
  out->start_ns.resize(out->count);
  out->end_ns.resize(out->count);
  uint64_t start = static_cast<uint64_t>(header.base_ns());
  for (size_t i = 0; i < out->count; ++i) {
    start += starts[i];
    out->start_ns[i] = static_cast<int64_t>(start);
    out->end_ns[i] = CheckedEnd(start, start + durations[i], &out->invalid_times);
  }
}

template <class Batch>
TimeColumns TimesOf(const Batch& batch) {
  return {batch.start_delta(), batch.duration(), batch.start_low(), batch.duration_low(),
          batch.time_shift()};
}

template <class Batch>
void DecodeGpu(const Batch& batch, const FrameHeader& header, GpuColumns* out) {
  out->device = batch.device();
  out->context = batch.context();
  out->stream = batch.stream();
  out->timing =
      batch.timing() <= 3 ? static_cast<RecordTiming>(batch.timing()) : RecordTiming::kInvalid;
  switch (out->timing) {
    case RecordTiming::kValid:
      Times(TimesOf(batch), header, out);
      break;
    case RecordTiming::kUnfinished:
      TimesFromStarts(batch.start_delta(), nullptr, header, out);
      break;
    default:
      out->start_ns.assign(out->count, 0);
      out->end_ns.assign(out->count, 0);
  }
  Correlations(batch.correlation_delta(), out);
  CopyOptional(batch.graph_id(), BatchColumns::kGraphId, out, &out->graph_id);
}

template <class Field>
size_t Size(const Field& field) {
  return static_cast<size_t>(field.size());
}

}  // namespace

void Decode(const KernelBatch& batch, const FrameHeader& header, KernelColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.shape()),
            Size(batch.correlation_delta()), Size(batch.start_low()), Size(batch.duration_low())},
           out);
  DecodeGpu(batch, header, out);
  Copy(batch.shape(), out->count, &out->shape);
  CopyOptional(batch.graph_node_id(), BatchColumns::kGraphNodeId, out, &out->graph_node_id);
  CopyOptional(batch.queued_before(), BatchColumns::kQueuedBefore, out, &out->queued_before_ns);
  CopyOptional(batch.submitted_before(), BatchColumns::kSubmittedBefore, out,
               &out->submitted_before_ns);
}

void Decode(const CopyBatch& batch, const FrameHeader& header, CopyColumns* out) {
  SetCount(
      batch.count(),
      {Size(batch.start_delta()), Size(batch.duration()), Size(batch.shape()), Size(batch.bytes()),
       Size(batch.correlation_delta()), Size(batch.start_low()), Size(batch.duration_low())},
      out);
  DecodeGpu(batch, header, out);
  Copy(batch.shape(), out->count, &out->shape);
  Copy(batch.bytes(), out->count, &out->bytes);
  CopyOptional(batch.graph_node_id(), BatchColumns::kGraphNodeId, out, &out->graph_node_id);
}

void Decode(const SetBatch& batch, const FrameHeader& header, SetColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.bytes()),
            Size(batch.correlation_delta()), Size(batch.start_low()), Size(batch.duration_low())},
           out);
  DecodeGpu(batch, header, out);
  Copy(batch.memory_kind(), out->count, &out->memory_kind);
  CopyOptional(batch.value(), BatchColumns::kValue, out, &out->value);
  CopyOptional(batch.flags(), BatchColumns::kFlags, out, &out->flags);
  Copy(batch.bytes(), out->count, &out->bytes);
  CopyOptional(batch.graph_node_id(), BatchColumns::kGraphNodeId, out, &out->graph_node_id);
}

void Decode(const GraphBatch& batch, const FrameHeader& header, GraphColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.graph_id()),
            Size(batch.correlation_delta()), Size(batch.start_low()), Size(batch.duration_low())},
           out);
  DecodeGpu(batch, header, out);
}

void Decode(const ApiBatch& batch, const FrameHeader& header, ApiColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.symbol()),
            Size(batch.correlation_delta()), Size(batch.start_low()), Size(batch.duration_low())},
           out);
  out->thread = batch.thread();
  Times(TimesOf(batch), header, out);
  Correlations(batch.correlation_delta(), out);
  Copy(batch.symbol(), out->count, &out->symbol);
  Zero(BatchColumns::kResult, out, &out->result);
  const int failed = std::min(batch.failed_index_size(), batch.failed_result_size());
  for (int i = 0; i < failed; ++i) {
    if (batch.failed_index(i) >= out->count) continue;
    out->result[batch.failed_index(i)] = batch.failed_result(i);
    out->zero_columns &= ~(1u << BatchColumns::kResult);
  }
}

void Decode(const SyncBatch& batch, const FrameHeader& header, SyncColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.type()),
            Size(batch.correlation_delta())},
           out);
  TimesFromStarts(batch.start_delta(), &batch.duration(), header, out);
  Correlations(batch.correlation_delta(), out);
  Copy(batch.type(), out->count, &out->type);
  Copy(batch.context_plus1(), out->count, &out->context_plus1);
  Copy(batch.stream_plus1(), out->count, &out->stream_plus1);
  CopyOptional(batch.event_plus1(), BatchColumns::kEvent, out, &out->event_plus1);
  CopyOptional(batch.event_sync_id(), BatchColumns::kEventSyncId, out, &out->event_sync_id);
  CopyOptional(batch.result(), BatchColumns::kResult, out, &out->result);
}

void Decode(const CudaEventBatch& batch, const FrameHeader& header, CudaEventColumns* out) {
  SetCount(batch.count(),
           {Size(batch.context()), Size(batch.event()), Size(batch.correlation_delta())}, out);
  Correlations(batch.correlation_delta(), out);
  Copy(batch.context(), out->count, &out->context);
  Copy(batch.stream_plus1(), out->count, &out->stream_plus1);
  Copy(batch.event(), out->count, &out->event);
  CopyOptional(batch.event_sync_id(), BatchColumns::kEventSyncId, out, &out->event_sync_id);
}

void Decode(const OverheadBatch& batch, const FrameHeader& header, OverheadColumns* out) {
  SetCount(batch.count(),
           {Size(batch.start_delta()), Size(batch.duration()), Size(batch.kind()),
            Size(batch.correlation_delta())},
           out);
  TimesFromStarts(batch.start_delta(), &batch.duration(), header, out);
  Correlations(batch.correlation_delta(), out);
  Copy(batch.kind(), out->count, &out->kind);
  Copy(batch.object_kind(), out->count, &out->object_kind);
  Copy(batch.thread(), out->count, &out->thread);
  Copy(batch.device_plus1(), out->count, &out->device_plus1);
  Copy(batch.context_plus1(), out->count, &out->context_plus1);
  Copy(batch.stream_plus1(), out->count, &out->stream_plus1);
}

void Decode(const MarkerBatch& batch, const FrameHeader& header, MarkerColumns* out) {
  SetCount(batch.count(), {Size(batch.time_delta()), Size(batch.flags()), Size(batch.id_delta())},
           out);
  TimesFromStarts(batch.time_delta(), nullptr, header, out);
  Correlations(batch.id_delta(), out);
  Copy(batch.flags(), out->count, &out->flags);
  Copy(batch.name(), out->count, &out->name);
  Copy(batch.domain(), out->count, &out->domain);
  Copy(batch.thread(), out->count, &out->thread);
}

}  // namespace gpuprobe::proto

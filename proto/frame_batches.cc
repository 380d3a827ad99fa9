// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_batches.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "proto/format.h"

namespace gpuprobe::proto {
namespace {

// Decoded records of a frame: more than a real one holds. A hostile one is read piece by piece.
constexpr size_t kMostRecords = size_t{1} << 21;
// Columns are decoded in blocks of that many records, which stay in the first-level cache.
constexpr size_t kBlock = 256;
constexpr uint64_t kContinues = 0x8080808080808080u;
constexpr size_t kMostVarintBytes = 10;

// One varint; nullptr if it does not end in time. `value` as libprotobuf has it: bits beyond 64 are
// lost.
const uint8_t* ReadVarint(const uint8_t* at, const uint8_t* end, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < kMostVarintBytes && at != end; ++i) {
    const uint64_t byte = *at++;
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return at;
  }
  return nullptr;
}

// The same of a tag or a length, which libprotobuf takes up to five bytes of.
const uint8_t* ReadShortVarint(const uint8_t* at, const uint8_t* end, uint64_t* value) {
  constexpr std::ptrdiff_t kMostBytes = 5;
  return ReadVarint(at, at + std::min(kMostBytes, end - at), value);
}

// The seven-bit groups of up to eight bytes, joined.
uint64_t JoinGroups(uint64_t bytes) {
  bytes = (bytes & 0x007f007f007f007f) | ((bytes & 0x7f007f007f007f00) >> 1);
  bytes = (bytes & 0x00003fff00003fff) | ((bytes & 0x3fff00003fff0000) >> 2);
  return (bytes & 0x000000000fffffff) | ((bytes & 0x0fffffff00000000) >> 4);
}

// A packed column that is read from the front. Missing columns are zeros.
class PackedColumn {
 public:
  void Set(std::string_view bytes) {
    present_ = true;
    at_ = reinterpret_cast<const uint8_t*>(bytes.data());
    end_ = at_ + bytes.size();
  }
  bool present() const { return present_; }
  // Whether all of it was read.
  bool finished() const { return at_ == end_; }

  // The next `count` values; false if there are not as many.
  bool Read(size_t count, uint64_t* out) {
    if (!present_) {
      std::fill(out, out + count, 0);
      return true;
    }
    // Copies: what is written to `out` could be these members, as far as the compiler knows.
    const uint8_t* at = at_;
    const uint8_t* const end = end_;
    size_t i = 0;
    while (end - at >= 8 && i + 8 <= count) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      const uint64_t ends = ~word & kContinues;
      if (ends == kContinues) {  // eight values of one byte
        for (size_t k = 0; k < 8; ++k) out[i + k] = word >> (8 * k) & 0xff;
        at += 8;
        i += 8;
      } else if (ends != 0) {  // one value, without a branch that depends on its length
        out[i++] = JoinGroups(word & (ends ^ (ends - 1)));
        at += std::countr_zero(ends) / 8 + 1;
      } else if ((at = ReadVarint(at, end, &out[i++])) == nullptr) {
        return false;
      }
    }
    for (; i < count; ++i) {
      if ((at = ReadVarint(at, end, &out[i])) == nullptr) return false;
    }
    at_ = at;
    return true;
  }

 private:
  bool present_ = false;
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
};

uint64_t ZigZag(uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

// What the two kinds of batch have in common.
struct Fields {
  PackedColumn start_delta, duration, id, correlation_delta;
  PackedColumn graph_id, graph_node_id, failed_index, failed_result;
  std::string_view start_low, duration_low;
  uint64_t count = 0, time_shift = 0, timing = 0;
  uint64_t device = 0, context = 0, stream = 0, thread = 0;
};

// Where a field of a batch goes: exactly one is set.
struct Target {
  uint64_t* number = nullptr;
  PackedColumn* column = nullptr;
  std::string_view* bytes = nullptr;
};

Target KernelField(uint64_t field, Fields* f) {
  switch (field) {
    case KernelBatch::kDeviceFieldNumber:
      return {&f->device};
    case KernelBatch::kContextFieldNumber:
      return {&f->context};
    case KernelBatch::kStreamFieldNumber:
      return {&f->stream};
    case KernelBatch::kTimingFieldNumber:
      return {&f->timing};
    case KernelBatch::kCountFieldNumber:
      return {&f->count};
    case KernelBatch::kTimeShiftFieldNumber:
      return {&f->time_shift};
    case KernelBatch::kStartDeltaFieldNumber:
      return {nullptr, &f->start_delta};
    case KernelBatch::kDurationFieldNumber:
      return {nullptr, &f->duration};
    case KernelBatch::kShapeFieldNumber:
      return {nullptr, &f->id};
    case KernelBatch::kCorrelationDeltaFieldNumber:
      return {nullptr, &f->correlation_delta};
    case KernelBatch::kGraphIdFieldNumber:
      return {nullptr, &f->graph_id};
    case KernelBatch::kGraphNodeIdFieldNumber:
      return {nullptr, &f->graph_node_id};
    case KernelBatch::kStartLowFieldNumber:
      return {nullptr, nullptr, &f->start_low};
    case KernelBatch::kDurationLowFieldNumber:
      return {nullptr, nullptr, &f->duration_low};
    default:
      return {};
  }
}

Target ApiField(uint64_t field, Fields* f) {
  switch (field) {
    case ApiBatch::kThreadFieldNumber:
      return {&f->thread};
    case ApiBatch::kCountFieldNumber:
      return {&f->count};
    case ApiBatch::kTimeShiftFieldNumber:
      return {&f->time_shift};
    case ApiBatch::kStartDeltaFieldNumber:
      return {nullptr, &f->start_delta};
    case ApiBatch::kDurationFieldNumber:
      return {nullptr, &f->duration};
    case ApiBatch::kSymbolFieldNumber:
      return {nullptr, &f->id};
    case ApiBatch::kCorrelationDeltaFieldNumber:
      return {nullptr, &f->correlation_delta};
    case ApiBatch::kFailedIndexFieldNumber:
      return {nullptr, &f->failed_index};
    case ApiBatch::kFailedResultFieldNumber:
      return {nullptr, &f->failed_result};
    case ApiBatch::kStartLowFieldNumber:
      return {nullptr, nullptr, &f->start_low};
    case ApiBatch::kDurationLowFieldNumber:
      return {nullptr, nullptr, &f->duration_low};
    default:
      return {};
  }
}

// Finds the fields of a batch. False if one is unknown, of another wire type, or there twice.
template <class FieldOf>
bool Split(std::string_view batch, FieldOf field_of, Fields* fields) {
  const auto* at = reinterpret_cast<const uint8_t*>(batch.data());
  const uint8_t* const end = at + batch.size();
  uint32_t seen = 0;
  while (at != end) {
    uint64_t tag, value;
    if ((at = ReadShortVarint(at, end, &tag)) == nullptr) return false;
    const uint64_t field = tag >> 3;
    if (field >= 32 || (seen >> field & 1) != 0) return false;
    seen |= 1u << field;
    const Target target = field_of(field, fields);
    if ((tag & 7) == 0) {
      if (target.number == nullptr || (at = ReadVarint(at, end, &value)) == nullptr) return false;
      *target.number = static_cast<uint32_t>(value);
      continue;
    }
    if ((tag & 7) != 2 || (at = ReadShortVarint(at, end, &value)) == nullptr) return false;
    if (value > static_cast<uint64_t>(end - at)) return false;
    const std::string_view body(reinterpret_cast<const char*>(at), value);
    at += value;
    if (target.column != nullptr) {
      target.column->Set(body);
    } else if (target.bytes != nullptr) {
      *target.bytes = body;
    } else {
      return false;
    }
  }
  return true;
}

bool Usual(const Fields& f) {
  if (f.count == 0 || f.count > kMaxBatchRecords || f.timing != 0 || f.time_shift > 63) {
    return false;
  }
  if (f.start_low.size() != f.duration_low.size()) return false;
  if (!f.start_low.empty() && f.start_low.size() != f.count) return false;
  return f.correlation_delta.present();
}

// Where the running sums of a batch stand.
struct Sums {
  uint64_t time;
  uint32_t correlation = 0;
};

template <bool kLow>
void JoinTimes(const Fields& f, size_t first, size_t count, const uint64_t* delta,
               const uint64_t* duration, Sums* sums, BatchColumns* out) {
  const auto* start_low = reinterpret_cast<const uint8_t*>(f.start_low.data()) + first;
  const auto* duration_low = reinterpret_cast<const uint8_t*>(f.duration_low.data()) + first;
  int64_t* starts = out->start_ns.data() + first;
  int64_t* ends = out->end_ns.data() + first;
  uint64_t previous = sums->time, invalid = 0;
  const uint64_t shift = f.time_shift;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t start =
        previous + (ZigZag(delta[i]) << shift) + (kLow ? uint64_t{start_low[i]} : 0);
    const uint64_t end = start + (duration[i] << shift) + (kLow ? uint64_t{duration_low[i]} : 0);
    previous = end;
    // As in columns.cc: what ends before it starts becomes an instant.
    const bool bad = static_cast<int64_t>(end) < static_cast<int64_t>(start);
    invalid += bad;
    starts[i] = static_cast<int64_t>(start);
    ends[i] = static_cast<int64_t>(bad ? start : end);
  }
  sums->time = previous;
  out->invalid_times += invalid;
}

// One block of the four columns that every batch has.
bool ReadBlock(size_t first, size_t count, Fields* f, Sums* sums, BatchColumns* out,
               std::vector<uint32_t>* ids) {
  uint64_t a[kBlock], b[kBlock];
  if (!f->start_delta.Read(count, a) || !f->duration.Read(count, b)) return false;
  if (f->start_low.empty()) {
    JoinTimes<false>(*f, first, count, a, b, sums, out);
  } else {
    JoinTimes<true>(*f, first, count, a, b, sums, out);
  }
  if (!f->id.Read(count, a) || !f->correlation_delta.Read(count, b)) return false;
  uint32_t* id = ids->data() + first;
  uint32_t* correlation = out->correlation.data() + first;
  uint32_t sum = sums->correlation;
  for (size_t i = 0; i < count; ++i) {
    id[i] = static_cast<uint32_t>(a[i]);
    sum += static_cast<uint32_t>(ZigZag(b[i]));
    correlation[i] = sum;
  }
  sums->correlation = sum;
  return true;
}

bool ReadColumns(int64_t base_ns, Fields* f, BatchColumns* out, std::vector<uint32_t>* ids) {
  out->count = f->count;
  out->clipped_records = out->invalid_times = 0;
  out->start_ns.resize(out->count);
  out->end_ns.resize(out->count);
  out->correlation.resize(out->count);
  ids->resize(out->count);
  Sums sums = {static_cast<uint64_t>(base_ns)};
  for (size_t first = 0; first < out->count; first += kBlock) {
    if (!ReadBlock(first, std::min(kBlock, out->count - first), f, &sums, out, ids)) return false;
  }
  return f->start_delta.finished() && f->duration.finished() && f->id.finished() &&
         f->correlation_delta.finished();
}

// A column that stands in few files; absent: zeros.
template <class T>
bool ReadOptional(BatchColumns::Optional which, PackedColumn* column, BatchColumns* columns,
                  std::vector<T>* out) {
  if (!column->present()) {
    Zero(which, columns, out);
    return true;
  }
  columns->zero_columns &= ~(1u << which);
  out->resize(columns->count);
  uint64_t values[kBlock];
  for (size_t first = 0; first < columns->count; first += kBlock) {
    const size_t count = std::min(kBlock, columns->count - first);
    if (!column->Read(count, values)) return false;
    for (size_t i = 0; i < count; ++i) (*out)[first + i] = static_cast<T>(values[i]);
  }
  return column->finished();
}

bool ReadResults(Fields* f, ApiColumns* out) {
  Zero(BatchColumns::kResult, out, &out->result);
  while (!f->failed_index.finished() && !f->failed_result.finished()) {
    uint64_t index, result;
    if (!f->failed_index.Read(1, &index) || !f->failed_result.Read(1, &result)) return false;
    const auto record = static_cast<uint32_t>(index);
    if (record >= out->count) continue;
    const auto zigzag = static_cast<uint32_t>(result);
    out->result[record] = static_cast<int32_t>(zigzag >> 1 ^ (0 - (zigzag & 1)));
    out->zero_columns &= ~(1u << BatchColumns::kResult);
  }
  return f->failed_index.finished() && f->failed_result.finished();
}

}  // namespace

bool DecodeUsual(std::string_view batch, int64_t base_ns, KernelColumns* out) {
  Fields fields;
  if (!Split(batch, KernelField, &fields) || !Usual(fields)) return false;
  out->device = static_cast<uint32_t>(fields.device);
  out->context = static_cast<uint32_t>(fields.context);
  out->stream = static_cast<uint32_t>(fields.stream);
  out->timing = RecordTiming::kValid;
  if (!ReadColumns(base_ns, &fields, out, &out->shape)) return false;
  Zero(BatchColumns::kQueuedBefore, out, &out->queued_before_ns);
  Zero(BatchColumns::kSubmittedBefore, out, &out->submitted_before_ns);
  return ReadOptional(BatchColumns::kGraphId, &fields.graph_id, out, &out->graph_id) &&
         ReadOptional(BatchColumns::kGraphNodeId, &fields.graph_node_id, out, &out->graph_node_id);
}

bool DecodeUsual(std::string_view batch, int64_t base_ns, ApiColumns* out) {
  Fields fields;
  if (!Split(batch, ApiField, &fields) || !Usual(fields)) return false;
  out->thread = static_cast<uint32_t>(fields.thread);
  return ReadColumns(base_ns, &fields, out, &out->symbol) && ReadResults(&fields, out);
}

void FrameBatches::Clear() {
  batches_.clear();
  records_ = 0;
  kernels_.Reset();
  api_.Reset();
}

bool FrameBatches::Keep(int index, KernelColumns* kernels, ApiColumns* api, size_t count) {
  batches_.push_back({index, kernels, api});
  records_ += count;
  return true;
}

bool FrameBatches::Take(std::string_view packet, int index, const FrameHeader& header) {
  if (packet.empty() || records_ >= kMostRecords) return false;
  const auto* const begin = reinterpret_cast<const uint8_t*>(packet.data());
  const uint8_t* const end = begin + packet.size();
  uint64_t bytes;
  const uint8_t* const body = ReadShortVarint(begin + 1, end, &bytes);
  // One field and no more.
  if (body == nullptr || bytes != static_cast<uint64_t>(end - body)) return false;
  const std::string_view batch(reinterpret_cast<const char*>(body), bytes);
  switch (*begin) {
    case kPacketKernels << 3 | 2: {
      KernelColumns* columns = kernels_.Next();
      if (DecodeUsual(batch, header.base_ns(), columns)) {
        return Keep(index, columns, nullptr, columns->count);
      }
      kernels_.Return();
      return false;
    }
    case kPacketApi << 3 | 2: {
      ApiColumns* columns = api_.Next();
      if (DecodeUsual(batch, header.base_ns(), columns)) {
        return Keep(index, nullptr, columns, columns->count);
      }
      api_.Return();
      return false;
    }
    default:
      return false;
  }
}

}  // namespace gpuprobe::proto

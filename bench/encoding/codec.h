// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One encoding and its decoding, chosen by a Scheme at compile time.
#ifndef GPUPROBE_BENCH_ENCODING_CODEC_H_
#define GPUPROBE_BENCH_ENCODING_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/encoding/frames.h"
#include "bench/encoding/prediction.h"
#include "proto/frame_map.h"
#include "proto/wire.h"

namespace gpuprobe::proto {

struct Scheme {
  bool one_lane = false, ticks = false, durations = false, starts = false, by_call = true;
  bool calls_predicted = true, calls_scaled = false, kernels_scaled = false;
  constexpr bool Durations(bool gpu) const { return durations && (gpu || calls_predicted); }
  constexpr bool Starts(bool gpu) const { return starts && (gpu || calls_predicted); }
  constexpr bool Scaled(bool gpu) const { return gpu ? kernels_scaled : calls_scaled; }
};

inline int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Up to 56 bits at a time, low bits first. The buffer has 8 bytes to spare.
struct BitWriter {
  uint8_t* at;
  uint64_t bits = 0;
  uint32_t count = 0;
  void Put(uint64_t value, uint32_t width) {
    bits |= (value & ((uint64_t{1} << width) - 1)) << count;
    count += width;
    std::memcpy(at, &bits, 8);
    at += count >> 3;
    bits >>= count & ~7u;
    count &= 7;
  }
  uint8_t* End() { return at + (count != 0 ? 1 : 0); }
};
struct BitReader {
  const uint8_t* from;
  uint64_t position = 0;
  uint64_t Get(uint32_t width) {
    uint64_t word;
    std::memcpy(&word, from + (position >> 3), 8);
    word >>= position & 7;
    position += width;
    return word & ((uint64_t{1} << width) - 1);
  }
};

inline const uint8_t* GetVarint(const uint8_t* p, uint64_t* value) {
  uint64_t byte = *p++;
  if (byte < 0x80) {
    *value = byte;
    return p;
  }
  uint64_t result = byte & 0x7f;
  for (uint32_t shift = 7;; shift += 7) {
    byte = *p++;
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  *value = result;
  return p;
}

enum Column {
  kLane,
  kStart,
  kDuration,
  kStartLow,
  kDurationLow,
  kId,
  kCorrelation,
  kMiss,
  kMissed,
  kBits,
  kColumns
};

// Columns of one lane while they are written or read.
struct Buffers {
  std::vector<uint8_t> data[kColumns];
  uint8_t* end[kColumns];
  void Begin(size_t records) {
    for (int i = 0; i < kColumns; ++i) {
      data[i].resize(std::max(data[i].size(), records * kMaxVarintBytes * 2 + 64));
      end[i] = data[i].data();
    }
  }
  void Put(Column column, uint64_t value) { end[column] = PutVarint(end[column], value); }
};

// Both directions keep this; what it predicts depends on what both know.
template <Scheme S, bool kGpu>
class Lane {
 public:
  static constexpr bool kStarts = S.Starts(kGpu), kDurations = S.Durations(kGpu),
                        kScaled = S.Scaled(kGpu);
  Lane(Contexts* contexts, const CallEnds* ends, const Grid& grid, int64_t base_ns)
      : contexts_(contexts), ends_(ends), grid_(grid), ticks_(S.ticks && kGpu && grid.period != 0) {
    previous_end_ = ticks_ ? grid.TickOf(base_ns) : base_ns;
  }
  bool ticks() const { return ticks_; }

  // The expected start, in ns or ticks.
  int64_t Expect(uint32_t id, uint32_t correlation) {
    if constexpr (!kStarts && !kDurations) return previous_end_;
    context_ = &contexts_->Of(&history_, id);
    if constexpr (!kStarts) return previous_end_;
    queued_ = previous_end_ + Whole(context_->gap.value());
    by_call_ = false;
    if constexpr (kGpu && S.by_call) {
      call_end_ = ends_->Find(correlation);
      if (call_end_ != 0) {
        if (ticks_) call_end_ = grid_.TickOf(call_end_);
        const int64_t launched = call_end_ + context_->latency.value();
        by_call_ = launched > queued_;
        return by_call_ ? previous_end_ + Whole(launched - previous_end_) : queued_;
      }
    }
    return queued_;
  }
  int64_t ExpectDuration() const {
    if constexpr (kDurations) return Whole(context_->duration.value());
    return 0;
  }
  uint32_t StartShift() const {
    if constexpr (kScaled) return by_call_ ? context_->latency.shift() : context_->gap.shift();
    return 8;
  }
  uint32_t DurationShift() const {
    if constexpr (kScaled) return context_->duration.shift();
    return 8;
  }
  void Learn(int64_t start, int64_t end) {
    if constexpr (kStarts) {
      if (by_call_) {
        context_->latency.Learn(start - call_end_);
      } else {
        context_->gap.Learn(start - previous_end_);
        if (kGpu && call_end_ != 0 && context_->latency.fresh) {
          context_->latency.Learn(start - call_end_);
        }
      }
    }
    if constexpr (kDurations) context_->duration.Learn(end - start);
    previous_end_ = end;
  }

 private:
  // GPU times are a tick apart: what is predicted must not take them off that grid.
  int64_t Whole(int64_t ns) const {
    return kGpu && !ticks_
               ? (ns + static_cast<int64_t>(kTickNs) / 2) & -static_cast<int64_t>(kTickNs)
               : ns;
  }

  Contexts* contexts_;
  const CallEnds* ends_;
  const Grid& grid_;
  const bool ticks_;
  int64_t previous_end_;
  uint32_t history_ = 0;
  Context* context_ = nullptr;
  int64_t queued_ = 0, call_end_ = 0;
  bool by_call_ = false;
};

constexpr int64_t kMostMissed = 1;
constexpr uint32_t kMissedMore = 15;

template <Scheme S, bool kGpu>
void EncodeLane(const std::vector<const Record*>& records, Lane<S, kGpu>* lane, const Grid& grid,
                Buffers* out, BitWriter* bits) {
  constexpr bool kStarts = S.Starts(kGpu), kDurations = S.Durations(kGpu);
  constexpr bool kScaled = S.Scaled(kGpu);
  int64_t previous_correlation = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& r = *records[i];
    int64_t start = r.start_ns, end = r.end_ns;
    if (S.ticks && lane->ticks()) {
      start = grid.TickOf(r.start_ns);
      end = grid.TickOf(r.end_ns);
      const int64_t start_miss = r.start_ns - grid.TimeOf(start);
      const int64_t end_miss = r.end_ns - grid.TimeOf(end);
      uint32_t nibble = static_cast<uint32_t>(3 * (start_miss + 1) + end_miss + 1);
      if (std::abs(start_miss) > kMostMissed || std::abs(end_miss) > kMostMissed) {
        nibble = kMissedMore;
        out->Put(kMissed, ZigZag(start_miss));
        out->Put(kMissed, ZigZag(end_miss));
      }
      if (i % 2 == 0) {
        *out->end[kMiss]++ = static_cast<uint8_t>(nibble);
      } else {
        out->end[kMiss][-1] |= static_cast<uint8_t>(nibble << 4);
      }
    }
    const int64_t start_rest = start - lane->Expect(r.id, r.correlation);
    const int64_t duration_rest = end - start - lane->ExpectDuration();
    if constexpr (kScaled) {
      const uint32_t start_shift = lane->StartShift(), duration_shift = lane->DurationShift();
      const uint64_t start_code = ZigZag(start_rest), duration_code = ZigZag(duration_rest);
      out->Put(kStart, start_code >> start_shift);
      out->Put(kDuration, duration_code >> duration_shift);
      bits->Put(start_code, start_shift);
      bits->Put(duration_code, duration_shift);
    } else {
      const uint64_t start_code = kStarts ? ZigZag(start_rest) : static_cast<uint64_t>(start_rest);
      const uint64_t duration_code =
          kDurations ? ZigZag(duration_rest) : static_cast<uint64_t>(duration_rest);
      *out->end[kStartLow]++ = static_cast<uint8_t>(start_code);
      *out->end[kDurationLow]++ = static_cast<uint8_t>(duration_code);
      out->Put(kStart, kStarts ? start_code >> 8 : ZigZag(start_rest >> 8));
      out->Put(kDuration, duration_code >> 8);
    }
    lane->Learn(start, end);
    if constexpr (S.one_lane) out->Put(kLane, r.lane);
    out->Put(kId, r.id);
    out->Put(kCorrelation, ZigZag(r.correlation - previous_correlation));
    previous_correlation = r.correlation;
  }
}

struct Reader {
  const uint8_t* at[kColumns];
  uint64_t Get(Column column) {
    uint64_t value;
    at[column] = GetVarint(at[column], &value);
    return value;
  }
};

template <Scheme S, bool kGpu>
void DecodeLane(Reader* in, size_t count, uint32_t lane_number, Lane<S, kGpu>* lane,
                const Grid& grid, BitReader* bits, Record* out) {
  constexpr bool kStarts = S.Starts(kGpu), kDurations = S.Durations(kGpu);
  constexpr bool kScaled = S.Scaled(kGpu);
  int64_t previous_correlation = 0;
  for (size_t i = 0; i < count; ++i) {
    Record& r = out[i];
    r.lane = lane_number;
    if constexpr (S.one_lane) r.lane = static_cast<uint32_t>(in->Get(kLane));
    r.id = static_cast<uint32_t>(in->Get(kId));
    previous_correlation += UnZigZag(in->Get(kCorrelation));
    r.correlation = static_cast<uint32_t>(previous_correlation);
    int64_t start = lane->Expect(r.id, r.correlation), duration = lane->ExpectDuration();
    const uint64_t start_high = in->Get(kStart), duration_high = in->Get(kDuration);
    if constexpr (kScaled) {
      const uint32_t start_shift = lane->StartShift(), duration_shift = lane->DurationShift();
      start += UnZigZag(start_high << start_shift | bits->Get(start_shift));
      duration += UnZigZag(duration_high << duration_shift | bits->Get(duration_shift));
    } else {
      const uint64_t start_low = *in->at[kStartLow]++, duration_low = *in->at[kDurationLow]++;
      start +=
          kStarts
              ? UnZigZag(start_high << 8 | start_low)
              : static_cast<int64_t>(static_cast<uint64_t>(UnZigZag(start_high)) << 8 | start_low);
      const uint64_t duration_code = duration_high << 8 | duration_low;
      duration += kDurations ? UnZigZag(duration_code) : static_cast<int64_t>(duration_code);
    }
    const int64_t end = start + duration;
    lane->Learn(start, end);
    r.start_ns = start;
    r.end_ns = end;
    if (S.ticks && lane->ticks()) {
      const uint32_t nibble = in->at[kMiss][i / 2] >> (i % 2 * 4) & 15;
      int64_t start_miss = static_cast<int64_t>(nibble / 3) - 1;
      int64_t end_miss = static_cast<int64_t>(nibble % 3) - 1;
      if (nibble == kMissedMore) {
        start_miss = UnZigZag(in->Get(kMissed));
        end_miss = UnZigZag(in->Get(kMissed));
      }
      r.start_ns = grid.TimeOf(start) + start_miss;
      r.end_ns = grid.TimeOf(end) + end_miss;
    }
  }
}

// One class of a frame as one piece of protobuf: a packet a lane.
template <Scheme S>
class Codec {
 public:
  template <bool kGpu>
  size_t Encode(const std::vector<Record>& records, uint32_t lanes, std::vector<uint8_t>* plain) {
    Sort<S.one_lane>(records, lanes);
    plain->resize(std::max(plain->size(), records.size() * 64 + 4096 * (lanes + 1)));
    WireWriter out(plain->data(), plain->size());
    const Grid grid = S.ticks && kGpu ? FitGrid(records) : Grid{};
    contexts_.Reset();
    if (!kGpu && S.Starts(true) && S.by_call) NoteCalls(records);
    const int64_t base_ns = records.empty() ? 0 : records[0].start_ns;
    for (uint32_t number = 0; number < sorted_.size(); ++number) {
      if (sorted_[number].empty()) continue;
      buffers_.Begin(sorted_[number].size());
      BitWriter bits = {buffers_.data[kBits].data()};
      Lane<S, kGpu> lane(&contexts_, &ends_, grid, base_ns);
      EncodeLane<S, kGpu>(sorted_[number], &lane, grid, &buffers_, &bits);
      buffers_.end[kBits] = bits.End();
      const WireWriter::Mark packet = out.Open(1, plain->size());
      const WireWriter::Mark data = out.Open(1, plain->size());
      out.Uint(1, number + 1);
      out.Uint(2, sorted_[number].size());
      out.Fixed64(3, static_cast<uint64_t>(base_ns));
      out.Fixed64(4, static_cast<uint64_t>(grid.base_ns));
      out.Fixed64(5, static_cast<uint64_t>(grid.offset));
      out.Fixed64(6, static_cast<uint64_t>(grid.period));
      for (uint32_t i = 0; i < kColumns; ++i) {
        const uint8_t* begin = buffers_.data[i].data();
        out.Bytes(7 + i, begin, static_cast<size_t>(buffers_.end[i] - begin));
      }
      out.Close(data);
      out.Close(packet);
    }
    return out.overflowed() ? 0 : out.size();
  }

  // `plain` has 8 bytes to spare. In the order of the lanes.
  template <bool kGpu>
  void Decode(const std::vector<uint8_t>& plain, size_t size, std::vector<Record>* records) {
    contexts_.Reset();
    size_t done = 0;
    const uint8_t* at = plain.data();
    const uint8_t* const end = at + size;
    uint64_t value, number = 0, count = 0;
    while (at < end) {
      for (int level = 0; level < 2; ++level) at = GetVarint(GetVarint(at, &value), &value);
      at = GetVarint(GetVarint(at, &value), &number);
      at = GetVarint(GetVarint(at, &value), &count);
      int64_t fixed[4];
      for (int64_t& word : fixed) {
        std::memcpy(&word, at + 1, 8);
        at += 9;
      }
      const Grid grid = {fixed[1], fixed[2], fixed[3]};
      Reader reader;
      for (const uint8_t*& column : reader.at) {
        at = GetVarint(GetVarint(at, &value), &value);
        column = at;
        at += value;
      }
      BitReader bits = {reader.at[kBits]};
      Lane<S, kGpu> lane(&contexts_, &ends_, grid, fixed[0]);
      if (records->size() < done + count) records->resize(done + count);
      DecodeLane<S, kGpu>(&reader, count, static_cast<uint32_t>(number - 1), &lane, grid, &bits,
                          records->data() + done);
      done += count;
    }
    records->resize(done);
    if (!kGpu && S.Starts(true) && S.by_call) NoteCalls(*records);
  }

  // The order in which Decode gives them.
  std::vector<Record> InLanes(const std::vector<Record>& records, uint32_t lanes) {
    Sort<S.one_lane>(records, lanes);
    std::vector<Record> out;
    for (const auto& lane : sorted_) {
      for (const Record* record : lane) out.push_back(*record);
    }
    return out;
  }

 private:
  template <bool kOne>
  void Sort(const std::vector<Record>& records, uint32_t lanes) {
    sorted_.resize(kOne ? 1 : lanes);
    for (auto& lane : sorted_) lane.clear();
    for (const Record& record : records) sorted_[kOne ? 0 : record.lane].push_back(&record);
  }
  void NoteCalls(const std::vector<Record>& calls) {
    ends_.Reset();
    for (const Record& call : calls) ends_.Add(call.correlation, call.end_ns);
  }

  std::vector<std::vector<const Record*>> sorted_;
  Buffers buffers_;
  Contexts contexts_;
  CallEnds ends_;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_BENCH_ENCODING_CODEC_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What would other columns gain? Kernels and calls of recorded runs, encoded in several ways, every
// one compressed as the writer compresses (zstd 1, blocks ending with the columns) and decoded
// again, value by value, against the source.
//
//   bench_encoding [--smoke] [--frame N] [RECORDINGS_DIR]
//
//   as shipped          times without their low byte, low bytes, ids, correlation deltas
//   one lane for all    kernels of all streams, calls of all threads in the order of arrival, with
//   a
//                       column that names the stream or thread
//   tick grid           GPU times as numbers of ticks of an affine clock fitted for each frame
//                       (32 ns and some parts in a million less), what it misses in a nibble
//   predicted durations less the mean of their kind: launch shape, or call after call
//   predicted starts    kernels: the later of the previous one's end and the submitting call's end,
//                       each with the mean of what usually follows; calls: mean gap of call after
//                       call
//   scaled              predicted, and the residual split at the context's own mean deviation
//   instead
//                       of at 8 bits: what is below goes into a stream of bits
//
// Only kernels and calls with valid times (95 % of the records and more), without dictionaries.
// The recordings are used as they are: replicated with noise, kernels would neither lie on the grid
// nor follow their calls. Times: processor time of one thread, best of the rounds, compression and
// decompression included.
#include <time.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/bench_util.h"
#include "bench/recorded_stream.h"
#include "proto/arena.h"
#include "proto/format.h"
#include "proto/frame_compressor.h"
#include "proto/frame_map.h"
#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

using bench::Recording;

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// ---- The data ----

struct Record {
  int64_t start_ns, end_ns;
  uint32_t id;  // launch shape or call
  uint32_t correlation;
  uint32_t lane;
  bool operator==(const Record&) const = default;
};

struct Frame {
  std::vector<Record> calls, kernels;  // in the order of arrival
  uint32_t call_lanes = 0, kernel_lanes = 0;
};

// Collects what Normalise tells; closes frames as the writer does.
class FrameMaker {
 public:
  explicit FrameMaker(size_t frame_records) : frame_records_(frame_records) {}

  void OnApi(const ApiRecord& r) {
    Add({r.start_ns, r.end_ns, r.cbid, r.correlation, Number(&threads_, r.thread)}, true);
  }
  void OnKernel(const KernelRecord& r) {
    if (r.timing != Timing::kValid || r.end_ns < r.start_ns) return;
    const uint64_t shape =
        Mix(Mix(reinterpret_cast<uintptr_t>(r.name), uint64_t{r.grid_x} << 32 | r.grid_y),
            uint64_t{r.block_x} << 32 | r.dynamic_shared_bytes);
    const uint64_t stream = uint64_t{r.device} << 40 | uint64_t{r.context} << 32 | r.stream;
    Add({r.start_ns, r.end_ns, Number(&shapes_, shape), r.correlation, Number(&streams_, stream)},
        false);
  }
  void OnCopy(const CopyRecord&) {}
  void OnSet(const SetRecord&) {}
  void OnSync(const SyncRecord&) {}
  void OnCudaEvent(const CudaEventRecord&) {}
  std::vector<Frame> Take() {
    Close();
    return std::move(frames_);
  }

 private:
  static uint32_t Number(std::map<uint64_t, uint32_t>* numbers, uint64_t key) {
    return numbers->try_emplace(key, static_cast<uint32_t>(numbers->size())).first->second;
  }
  void Add(const Record& record, bool call) {
    (call ? frame_.calls : frame_.kernels).push_back(record);
    const size_t most = std::max(frame_.calls.size(), frame_.kernels.size());
    if (frame_records_ == 0 ? most == 65536
                            : frame_.calls.size() + frame_.kernels.size() == frame_records_) {
      Close();
    }
  }
  void Close() {
    frame_.call_lanes = static_cast<uint32_t>(threads_.size());
    frame_.kernel_lanes = static_cast<uint32_t>(streams_.size());
    if (!frame_.calls.empty() || !frame_.kernels.empty()) frames_.push_back(std::move(frame_));
    frame_ = {};
    threads_.clear();
    streams_.clear();
    shapes_.clear();
  }

  size_t frame_records_;
  Frame frame_;
  std::vector<Frame> frames_;
  std::map<uint64_t, uint32_t> threads_, streams_, shapes_;
};

// ---- The tick grid ----

// time = base + floor(offset + tick * period), period and offset in 2^-40 ns.
struct Grid {
  static constexpr int kBits = 40;
  int64_t base_ns = 0, offset = 0, period = 0;  // period 0: no grid found

  int64_t TimeOf(int64_t tick) const {
    return base_ns + static_cast<int64_t>((static_cast<__int128>(tick) * period + offset) >> kBits);
  }
  int64_t TickOf(int64_t time_ns) const {
    const double one = static_cast<double>(int64_t{1} << kBits);
    // The middle of the nanosecond that was cut off.
    return std::llround(
        (static_cast<double>(time_ns - base_ns) + 0.5 - static_cast<double>(offset) / one) /
        (static_cast<double>(period) / one));
  }
};

constexpr double kTickNs = 32;
constexpr size_t kMostFitted = 512;  // of a stretch

// Least squares over a stretch that grows by half from where the times lie closest, so that the
// tick numbers of what is added are known before it is used.
Grid FitGrid(const std::vector<Record>& kernels) {
  constexpr size_t kSeed = 32;
  Grid grid;
  if (kernels.size() < kSeed) return grid;
  std::vector<int64_t> times;
  for (const Record& kernel : kernels) {
    times.push_back(kernel.start_ns);
    times.push_back(kernel.end_ns);
  }
  std::sort(times.begin(), times.end());
  size_t low = 0;
  for (size_t i = 0; i + kSeed < times.size(); ++i) {
    if (times[i + kSeed] - times[i] < times[low + kSeed] - times[low]) low = i;
  }
  size_t high = low + kSeed;
  grid.base_ns = times[low];
  double period = kTickNs, offset = 0.5;
  for (;;) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, count = 0;
    const size_t step = std::max<size_t>(1, (high - low) / kMostFitted);
    for (size_t i = low; i < high; i = i + step < high || i + 1 == high ? i + step : high - 1) {
      const double y = static_cast<double>(times[i] - grid.base_ns) + 0.5;
      const double x = std::round((y - offset) / period);
      sx += x, sy += y, sxx += x * x, sxy += x * y, ++count;
    }
    const double spread = count * sxx - sx * sx;
    if (spread > 0) period = (count * sxy - sx * sy) / spread;
    offset = (sy - period * sx) / count;
    if (low == 0 && high == times.size()) break;
    const size_t more = (high - low) / 4 + 1;
    low -= std::min(low, more);
    high = std::min(times.size(), high + more);
  }
  const double one = static_cast<double>(int64_t{1} << Grid::kBits);
  grid.period = std::llround(period * one);
  grid.offset = std::llround(offset * one);
  size_t near = 0, looked_at = 0;
  for (size_t i = 0; i < times.size(); i += 1 + times.size() / kMostFitted, ++looked_at) {
    const int64_t missed = times[i] - grid.TimeOf(grid.TickOf(times[i]));
    near += missed >= -1 && missed <= 1;
  }
  if (near * 10 < looked_at * 9) grid.period = 0;
  return grid;
}

// ---- The encodings ----

struct Scheme {
  bool one_lane = false, ticks = false, durations = false, starts = false, by_call = true;
  bool calls_predicted = true, calls_scaled = false, kernels_scaled = false;
  constexpr bool Durations(bool gpu) const { return durations && (gpu || calls_predicted); }
  constexpr bool Starts(bool gpu) const { return starts && (gpu || calls_predicted); }
  constexpr bool Scaled(bool gpu) const { return gpu ? kernels_scaled : calls_scaled; }
};

// What usually happens in a context: mean and mean deviation, of the last dozen or so.
struct Mean {
  int32_t mean = 0;        // in 1/16
  uint32_t deviation = 0;  // in 1/16
  bool fresh = true;
  int64_t value() const { return mean >> 4; }
  uint32_t shift() const {
    const uint32_t width = static_cast<uint32_t>(std::bit_width(deviation >> 4));
    return width > 3 ? width - 3 : 0;
  }
  void Learn(int64_t x) {
    constexpr int64_t kMost = int64_t{1} << 26;
    x = std::clamp(x, -kMost, kMost);
    if (fresh) {
      fresh = false;
      mean = static_cast<int32_t>(x << 4);
      deviation = static_cast<uint32_t>(std::abs(x) << 4) >> 3;
      return;
    }
    const int64_t error = (x << 4) - mean;
    // An outlier moves the mean by no more than its deviation.
    const int64_t bound = int64_t{deviation} * 4 + 256;
    const int64_t step = std::clamp(error, -bound, bound);
    mean += static_cast<int32_t>(step >> 3);
    deviation += static_cast<uint32_t>((std::abs(step) - static_cast<int64_t>(deviation)) >> 3);
  }
};

struct Context {
  Mean gap, latency, duration;
};

class Contexts {
 public:
  Contexts() : contexts_(kContexts) {}
  void Reset() { std::fill(contexts_.begin(), contexts_.end(), Context{}); }
  // `history`: of the lane, changed. Older symbols fade: four of them count.
  Context& Of(uint32_t* history, uint32_t id) {
    *history = (*history << 8) + id * 0x9e3779b1u;
    return contexts_[(*history * 0x85ebca6bu) >> (32 - kBits)];
  }

 private:
  static constexpr uint32_t kBits = 12, kContexts = 1u << kBits;
  std::vector<Context> contexts_;
};

// End of the call by correlation id, open addressing; both sides build it from the calls.
class CallEnds {
 public:
  CallEnds() : slots_(kSlots) {}
  void Reset() { ++generation_; }
  void Add(uint32_t correlation, int64_t end_ns) {
    slots_[correlation & (kSlots - 1)] = {end_ns, correlation, generation_};
  }
  int64_t Find(uint32_t correlation) const {  // 0: unknown
    const Slot& slot = slots_[correlation & (kSlots - 1)];
    return slot.correlation == correlation && slot.generation == generation_ ? slot.end_ns : 0;
  }

 private:
  // Ids of one frame count up: the low bits hardly collide.
  static constexpr uint32_t kSlots = 1u << 18;
  struct Slot {
    int64_t end_ns;
    uint32_t correlation, generation;
  };
  std::vector<Slot> slots_;
  uint32_t generation_ = 1;
};

int64_t UnZigZag(uint64_t value) {
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

// ---- The measurement ----

class Compressor {
 public:
  Compressor() : memory_(kBytes) {
    Arena arena(memory_.data() + 64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64,
                kBytes - 64);
    compressor_.TakeContext(&arena, 1);
    compressor_.TakeOutput(&arena, kMaxFrameBytes);
    if (!arena.fits() || !compressor_.Init()) std::exit(1);
  }
  void Compress(const std::vector<uint8_t>& plain, size_t size, std::string* out) {
    const size_t bytes = compressor_.Compress(plain.data(), size);
    out->assign(reinterpret_cast<const char*>(compressor_.output()), bytes);
  }

 private:
  static constexpr size_t kBytes = 24u << 20;
  std::vector<uint8_t> memory_;
  FrameCompressor compressor_;
};

struct Result {
  double call_bytes = 0, kernel_bytes = 0, encode_s = 1e9, decode_s = 1e9;
};

template <Scheme S>
Result Measure(const std::vector<Frame>& frames, int rounds) {
  static Compressor compressor;
  Codec<S> codec;
  Result best;
  std::vector<uint8_t> plain;
  std::vector<std::string> calls(frames.size()), kernels(frames.size());
  std::vector<Record> decoded_calls, decoded_kernels;
  ZSTD_DCtx* context = ZSTD_createDCtx();
  plain.resize(kMaxFrameBytes + 8);  // once: not part of what is measured
  const auto decompress = [&](const std::string& from) {
    return ZSTD_decompressDCtx(context, plain.data(), kMaxFrameBytes, from.data(), from.size());
  };
  for (int round = 0; round < rounds; ++round) {
    double begin = Seconds();
    for (size_t i = 0; i < frames.size(); ++i) {
      const Frame& frame = frames[i];
      size_t size = codec.template Encode<false>(frame.calls, frame.call_lanes, &plain);
      compressor.Compress(plain, size, &calls[i]);
      size = codec.template Encode<true>(frame.kernels, frame.kernel_lanes, &plain);
      compressor.Compress(plain, size, &kernels[i]);
    }
    best.encode_s = std::min(best.encode_s, Seconds() - begin);
    double decode_s = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
      begin = Seconds();
      codec.template Decode<false>(plain, decompress(calls[i]), &decoded_calls);
      codec.template Decode<true>(plain, decompress(kernels[i]), &decoded_kernels);
      decode_s += Seconds() - begin;
      if (round == 0 &&
          (decoded_calls != codec.InLanes(frames[i].calls, frames[i].call_lanes) ||
           decoded_kernels != codec.InLanes(frames[i].kernels, frames[i].kernel_lanes))) {
        std::printf("  WRONG: not what was encoded\n");
        std::exit(1);
      }
    }
    best.decode_s = std::min(best.decode_s, decode_s);
  }
  ZSTD_freeDCtx(context);
  for (size_t i = 0; i < frames.size(); ++i) {
    best.call_bytes += static_cast<double>(calls[i].size());
    best.kernel_bytes += static_cast<double>(kernels[i].size());
  }
  return best;
}

void Run(const std::string& label, const std::vector<Frame>& frames, int rounds) {
  double calls = 0, kernels = 0;
  for (const Frame& frame : frames) {
    calls += static_cast<double>(frame.calls.size());
    kernels += static_cast<double>(frame.kernels.size());
  }
  std::printf("\n%s: %.0f calls, %.0f kernels, %zu frames\n", label.c_str(), calls, kernels,
              frames.size());
  std::printf("  %-40s %8s %8s %8s %8s %10s %10s\n", "bytes and ns a record", "a call", "a kernel",
              "together", "", "encode ns", "decode ns");
  double shipped = 0;
  const auto line = [&](const char* name, const Result& r) {
    const double n = calls + kernels, bytes = (r.call_bytes + r.kernel_bytes) / n;
    if (shipped == 0) shipped = bytes;
    std::printf("  %-40s %8.3f %8.3f %8.3f %+7.1f%% %10.1f %10.1f\n", name,
                calls == 0 ? 0 : r.call_bytes / calls, kernels == 0 ? 0 : r.kernel_bytes / kernels,
                bytes, (bytes / shipped - 1) * 100, r.encode_s * 1e9 / n, r.decode_s * 1e9 / n);
  };
  line("as shipped", Measure<Scheme{}>(frames, rounds));
  line("one lane for all", Measure<Scheme{.one_lane = true}>(frames, rounds));
  line("tick grid", Measure<Scheme{.ticks = true}>(frames, rounds));
  line("predicted durations", Measure<Scheme{.durations = true}>(frames, rounds));
  line("predicted starts", Measure<Scheme{.starts = true}>(frames, rounds));
  line("predicted starts, not by the call",
       Measure<Scheme{.starts = true, .by_call = false}>(frames, rounds));
  line("predicted both", Measure<Scheme{.durations = true, .starts = true}>(frames, rounds));
  line(
      "predicted both, kernels only",
      Measure<Scheme{.durations = true, .starts = true, .calls_predicted = false}>(frames, rounds));
  line("the same, not by the call",
       Measure<Scheme{
           .durations = true, .starts = true, .by_call = false, .calls_predicted = false}>(frames,
                                                                                           rounds));
  line("predicted both, calls scaled",
       Measure<Scheme{.durations = true, .starts = true, .calls_scaled = true}>(frames, rounds));
  line("predicted both, all scaled",
       Measure<Scheme{
           .durations = true, .starts = true, .calls_scaled = true, .kernels_scaled = true}>(
           frames, rounds));
  line("all together: grid, both, calls scaled",
       Measure<Scheme{.ticks = true, .durations = true, .starts = true, .calls_scaled = true}>(
           frames, rounds));
}

std::vector<Frame> FramesOf(const Recording& recording, size_t frame_records) {
  FrameMaker maker(frame_records);
  for (size_t i = 0; i < recording.size(); ++i) bench::Normalise(recording.at(i), &maker);
  return maker.Take();
}

int Main(int argc, char** argv) {
  bool smoke = false;
  size_t frame_records = 0;
  const char* shared = std::getenv("GPUPROBE_TEST_SHARED");
  std::string directory =
      std::string(shared == nullptr ? "../shared" : shared) + "/cupti-recordings";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      smoke = true;
    } else if (argument == "--frame" && i + 1 < argc) {
      frame_records = std::strtoull(argv[++i], nullptr, 10);
    } else {
      directory = argument;
    }
  }
  bench::PrintMachine();
  if (smoke) {
    Run("invented", FramesOf(bench::Invented(20000), 0), 1);
    return 0;
  }
  constexpr int kRounds = 9;
  int runs = 0;
  for (const char* name : {"gpt_train", "resnet_dataloader"}) {
    Recording recording;
    if (!bench::Load(directory, name, &recording)) continue;
    for (const Recording& data : {recording, bench::WithoutChatter(recording)}) {
      const std::string label = &data == &recording ? name : data.label;
      Run(label, FramesOf(data, frame_records), kRounds);
    }
    ++runs;
  }
  if (runs == 0) {
    std::printf("no recordings in %s: invented records instead\n", directory.c_str());
    Run("invented", FramesOf(bench::Invented(200000), frame_records), kRounds);
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::proto

int main(int argc, char** argv) { return gpuprobe::proto::Main(argc, argv); }

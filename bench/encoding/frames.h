// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the encodings are tried on: kernels and calls of a recording, in frames as the writer closes
// them, and the clock grid that their GPU times lie on.
#ifndef GPUPROBE_BENCH_ENCODING_FRAMES_H_
#define GPUPROBE_BENCH_ENCODING_FRAMES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "bench/recorded_stream.h"
#include "proto/frame_map.h"
#include "ringbuf/records.h"

namespace gpuprobe::proto {

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
inline Grid FitGrid(const std::vector<Record>& kernels) {
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

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_BENCH_ENCODING_FRAMES_H_

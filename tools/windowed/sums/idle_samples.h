// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Whether every device of a run was idle when each host sample was taken, from gaps that come and
// go: 5 bytes a sample.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_IDLE_SAMPLES_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_IDLE_SAMPLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class IdleSamples {
 public:
  // `samples` outlive it.
  explicit IdleSamples(const std::vector<HostSample>& samples)
      : samples_(samples), by_time_(samples.size()), idle_(samples.size(), true) {
    std::iota(by_time_.begin(), by_time_.end(), uint32_t{0});
    std::sort(by_time_.begin(), by_time_.end(),
              [&](uint32_t a, uint32_t b) { return TimeOf(a) < TimeOf(b); });
  }

  // What lies in the window of `report` and in none of its gaps was not idle.
  void Add(const DeviceReport& report) {
    auto at = std::partition_point(by_time_.begin(), by_time_.end(), [&](uint32_t sample) {
      return TimeOf(sample) < report.window.start_ns;
    });
    auto gap = report.gaps.begin();
    for (; at != by_time_.end() && TimeOf(*at) < report.window.end_ns; ++at) {
      while (gap != report.gaps.end() && gap->end_ns <= TimeOf(*at)) ++gap;
      if (gap == report.gaps.end() || gap->begin_ns > TimeOf(*at)) idle_[*at] = false;
    }
  }
  const std::vector<bool>& idle() const { return idle_; }

 private:
  int64_t TimeOf(uint32_t sample) const { return samples_[sample].time_ns; }

  const std::vector<HostSample>& samples_;
  std::vector<uint32_t> by_time_;
  std::vector<bool> idle_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_IDLE_SAMPLES_H_

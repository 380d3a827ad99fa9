// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host samples of a run, of which a window at hand gets a part.
#ifndef GPUPROBE_TOOLS_WINDOWED_WINDOW_SAMPLES_H_
#define GPUPROBE_TOOLS_WINDOWED_WINDOW_SAMPLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class WindowSamples {
 public:
  // `all`: sorted by thread and time. Threads that come later have none.
  WindowSamples(std::vector<HostSample> all, size_t threads)
      : all_(std::move(all)), first_(threads + 1, 0) {
    for (const HostSample& sample : all_) {
      if (sample.thread >= 0) ++first_[static_cast<size_t>(sample.thread) + 1];
    }
    for (size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
    const size_t of_no_thread = all_.size() - first_.back();  // they come first
    for (size_t& first : first_) first += of_no_thread;
  }

  const std::vector<HostSample>& all() const { return all_; }
  bool empty() const { return all_.empty(); }
  // Fills `window` with those from `begin_ns` on whose interval begins by `end_ns`.
  void Take(int64_t begin_ns, int64_t end_ns, std::vector<HostSample>* window) {
    window->clear();
    of_run_.clear();
    for (size_t thread = 0; thread + 1 < first_.size(); ++thread) {
      const auto end = all_.begin() + static_cast<ptrdiff_t>(first_[thread + 1]);
      auto at = std::partition_point(all_.begin() + static_cast<ptrdiff_t>(first_[thread]), end,
                                     [&](const HostSample& s) { return s.time_ns < begin_ns; });
      for (; at != end && at->time_ns - at->interval_ns <= end_ns; ++at) {
        window->push_back(*at);
        of_run_.push_back(static_cast<int32_t>(at - all_.begin()));
      }
    }
  }
  // Of the samples that were taken last: their indices in all().
  const std::vector<int32_t>& of_run() const { return of_run_; }
  std::vector<HostSample> Release() { return std::move(all_); }

 private:
  std::vector<HostSample> all_;
  std::vector<size_t> first_;  // in all_, by thread
  std::vector<int32_t> of_run_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WINDOW_SAMPLES_H_

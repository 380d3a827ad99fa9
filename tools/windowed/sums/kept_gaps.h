// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The longest gaps of a run that is read in windows, with the records that name them: what a report
// shows of a gap once its window is gone.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_KEPT_GAPS_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_KEPT_GAPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A gap with copies of its records; indices are those of the vectors here, samples those of the
// run.
struct KeptGap {
  Gap gap;
  std::vector<GapPart> parts;
  std::vector<GpuOp> ops;
  std::vector<HostCall> calls;
  std::vector<OverheadOp> overheads;
};

// Of one device.
class KeptGaps {
 public:
  explicit KeptGaps(size_t most = 0) : most_(most) {}
  // Of the gaps of `report`, a window's, those of at least `min_ns` that are among the longest; of
  // equals the first. `samples`: index in `window` -> in the run.
  void Add(const Timeline& window, const DeviceReport& report, int64_t min_ns,
           const std::vector<int32_t>& samples);
  // Moves the gaps into `report`, in order of time, and their records into `timeline`.
  void Take(Timeline* timeline, DeviceReport* report);

 private:
  size_t most_;
  std::vector<KeptGap> heap_;  // the shortest in front
};

// A call that a report quotes, with the one before it on its thread and what that submitted
// (BytesReadBefore() in verdict_facts.h).
class KeptCalls {
 public:
  // Its number here.
  int32_t Add(const Timeline& window, int32_t call);
  // Appends the calls; returns the index in `timeline` of each number.
  std::vector<int32_t> Take(Timeline* timeline);

 private:
  std::vector<HostCall> calls_;
  std::vector<GpuOp> ops_;
  std::vector<int32_t> index_;  // in calls_, by number
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_KEPT_GAPS_H_

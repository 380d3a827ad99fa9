// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The iterations of the program's loop by ranges that the application marked itself, where it has
// such: PyTorch's ProfilerStep annotations, NVTX ranges. Nothing depends on them; without a fitting
// set of ranges the steps are found by what repeats (steps.h). The rules are in ATTRIBUTION.md,
// "Steps".
#ifndef GPUPROBE_TOOLS_STEPS_MARKER_STEPS_H_
#define GPUPROBE_TOOLS_STEPS_MARKER_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Fewer ranges do not show a loop.
inline constexpr size_t kFewestMarkedSteps = 3;
// Ranges that are to be steps must hold the submissions of this share of the device's time,
inline constexpr double kMarkedShare = 0.5;
// and of this share where neither their name nor its place says that they are steps.
inline constexpr double kMarkedShareOfAnyName = 0.8;

// What of an operation of the device matters here.
struct MarkedOp {
  int64_t start_ns, end_ns;
  int64_t submitted_ns;  // kNotSubmitted: by no call that is known
  int32_t process;
  int32_t op;  // as numbered by whoever asks
  static constexpr int64_t kNotSubmitted = INT64_MIN;
};

// The ranges of one name, by one thread of a process or on a device.
struct MarkerSet {
  int32_t process, thread, name;
  bool on_device;
};
// Those of `device`, by begin; each stream of the device has the range of its own part: together
// they are one.
std::vector<Window> RangesOf(const Timeline& timeline, int32_t device, const MarkerSet& set);

struct MarkedSteps {
  // Of the steps on the device, ascending, and behind them the end of the last one; empty: none.
  std::vector<int64_t> times_ns;
  MarkerSet set = {-1, -1, -1, false};
  StepSource source = StepSource::kPattern;
  std::string marker;     // "train_step", "step #"; empty with times_ns empty
  double share = 0;       // of the device's time: submitted in the ranges
  int32_t first_op = -1;  // MarkedOp::op of what the first step begins with
};

// Of one device in its window. A range of a host thread stands for what the process submitted in
// it, by whatever thread: on the device the step begins with the first operation of that. The host
// runs ahead; its own times say nothing about the device.
MarkedSteps FindMarkedSteps(const Timeline& timeline, const DeviceActivity& activity,
                            const Window& window);
// The same from `ops`, in order of start, that overlap with `window`; `timeline` holds the markers.
MarkedSteps FindMarkedSteps(const Timeline& timeline, int32_t device,
                            const std::vector<MarkedOp>& ops, const Window& window);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_MARKER_STEPS_H_

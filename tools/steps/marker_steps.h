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

struct MarkedSteps {
  // Of the steps on the device, ascending, and behind them the end of the last one; empty: none.
  std::vector<int64_t> times_ns;
  StepSource source = StepSource::kPattern;
  std::string marker;     // "train_step", "step #"; empty with times_ns empty
  double share = 0;       // of the device's time: submitted in the ranges
  int32_t first_op = -1;  // index in Timeline::ops: what the first step begins with
};

// Of one device in its window. A range of a host thread stands for what the process submitted in
// it, by whatever thread: on the device the step begins with the first operation of that. The host
// runs ahead; its own times say nothing about the device.
MarkedSteps FindMarkedSteps(const Timeline& timeline, const DeviceActivity& activity,
                            const Window& window);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_MARKER_STEPS_H_

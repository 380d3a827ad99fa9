// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The iterations of the program's loop, told by the application's own markers where it has fitting
// ones (marker_steps.h), else found by what repeats (step_sequence.h, step_pattern.h), and
// measured: how long each took, what the device was idle for in it, which are slow and what differs
// in those (step_figures.h). The rules are in ATTRIBUTION.md, "Steps".
#ifndef GPUPROBE_TOOLS_STEPS_STEPS_H_
#define GPUPROBE_TOOLS_STEPS_STEPS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/steps/step_figures.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// One stream with at least this share of the operations tells the order by itself; else all
// streams of the process, in order of submission.
inline constexpr double kLeadShare = 0.5;
bool IsOneStream(const StreamCounts& streams);

// DeviceSteps::why_none
std::string NoPatternText(size_t operations);
std::string TooFewStepsText();

// Of one device in its window; `streams`: what MeasureDevice() counted. `activity` and `report` are
// of the same device and options, with the report's parts filled in; `places`: those that its parts
// name.
DeviceSteps FindSteps(const Timeline& timeline, const HostView& host,
                      const DeviceActivity& activity, const StreamCounts& streams,
                      const DeviceReport& report, const std::vector<std::string>& places);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEPS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The iterations of the program's loop, told by the application's own markers where it has fitting
// ones (marker_steps.h), else found by what repeats (step_pattern.h), and measured: how
// long each took, what the device was idle for in it, which are slow and what differs in those. The
// rules are in ATTRIBUTION.md, "Steps".
#ifndef GPUPROBE_TOOLS_STEPS_STEPS_H_
#define GPUPROBE_TOOLS_STEPS_STEPS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A step of this many medians is slow: the ordinary spread of a loop (a few percent) never gets
// there, and a person would notice.
inline constexpr double kSlowStep = 1.5;
// Slow steps among the first few are warm-up and no part of a rhythm.
inline constexpr size_t kWarmUpSteps = 3;
// From two slow steps any distance could be called a period; they need the ends of the run to
// agree.
inline constexpr size_t kFewestForPeriod = 3;

// Of one device in its window; `streams`: what MeasureDevice() counted. `activity` and `report` are
// of the same device and options, with the report's parts filled in; `places`: those that its parts
// name.
DeviceSteps FindSteps(const Timeline& timeline, const HostView& host,
                      const DeviceActivity& activity, const StreamCounts& streams,
                      const DeviceReport& report, const std::vector<std::string>& places);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEPS_H_

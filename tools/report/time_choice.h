// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the times on the command line mean on a run. They count from the run's first GPU operation,
// whatever --device, --process, --from and --to leave of it: a time that one report prints is the
// same moment in every other one.
#ifndef GPUPROBE_TOOLS_REPORT_TIME_CHOICE_H_
#define GPUPROBE_TOOLS_REPORT_TIME_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/analysis/analysis.h"
#include "tools/report/command_line.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Trace time. begin_ns and end_ns: of what was recorded, GPU work and host; equal where nothing
// was. Without GPU work origin_ns is begin_ns.
struct RunTimes {
  int64_t origin_ns = 0, begin_ns = 0, end_ns = 0;
};
// `timeline` may hold the outline of a run and its first records alone (windowed_run.h).
RunTimes TimesOf(const Timeline& timeline);

// As trace time, within what can be a time at all.
int64_t AbsoluteNs(const TimePoint& point, const RunTimes& times);

// --from and --to into `options`, clamped to the run; a notice for each that lay outside.
// InvalidArgument, with the run's range, where they leave nothing of it, or count back from the
// first GPU operation to before the run.
absl::StatusOr<std::vector<std::string>> ChooseWindow(const CommandLine& command,
                                                      const RunTimes& times, Options* options);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_TIME_CHOICE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A run whose windows have all been measured: what was added up -> the reports of its devices, its
// steps, its steady part and the verdict.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_END_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_END_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/places.h"
#include "tools/timeline/timeline.h"
#include "tools/windowed/sums/device_in_windows.h"
#include "tools/windowed/sums/run_phases.h"
#include "tools/windowed/sums/verdict_counts.h"
#include "tools/windowed/wanted_devices.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {

struct MeasuredRun {
  const WantedDevices& wanted;
  const RunPhases& phases;
  const VerdictCounts& verdict;
  const StartUp& start_up;
  const Places& places;
  const std::vector<bool>& present;  // by device: has operations without times in scope
  const std::vector<WaitRow>& waits_in_steady;
  const std::vector<int32_t>& quoted_calls;  // by number
  const size_t learnt_ops;                   // of each device
  // All samples, no records; gets those that the analysis names.
  Timeline& timeline;
  std::vector<DeviceInWindows>& devices;
  RecordCounts& counts;
  std::string& internal_error;
};

class RunEnd {
 public:
  explicit RunEnd(const MeasuredRun& run) : run_(run) {}
  // First this, then Judge(), which wants the waits, too.
  void FinishDevices(Analysis* analysis);
  // As Analyse() does.
  void Judge(Analysis* analysis);

 private:
  void RenumberQuoted(DeviceReport* report) const;
  void AddHelpers(const Window* within, Analysis* analysis) const;
  void AddSteps(const Window* within, Analysis* analysis);
  void CheckTotals(const Analysis& analysis);
  Analysis AnalyseSteady(const Analysis& whole);

  const MeasuredRun run_;
  Analysis later_;  // of the steady part; no devices: there is none
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_END_H_

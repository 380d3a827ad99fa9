// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One device of a run that is read in windows: stretch by stretch it is measured as MeasureDevice()
// and AttributeGaps() do a whole run, and the stretches are added up, for the run and for its
// steady part.
#ifndef GPUPROBE_TOOLS_WINDOWED_DEVICE_IN_WINDOWS_H_
#define GPUPROBE_TOOLS_WINDOWED_DEVICE_IN_WINDOWS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/places.h"
#include "tools/timeline/device_activity.h"
#include "tools/windowed/busy_times.h"
#include "tools/windowed/idle_samples.h"
#include "tools/windowed/kept_gaps.h"
#include "tools/windowed/run_phases.h"
#include "tools/windowed/step_tracker.h"
#include "tools/windowed/verdict_counts.h"

namespace gpuprobe::tools {

// What all devices of a run share.
struct WindowContext {
  const Scope& scope;
  const Options& options;
  const std::vector<bool>& communication_names;
  const std::vector<int32_t>& sample_of_run;  // by index in the window
  const RunPhases& phases;
  int64_t end_ns;  // of the window
  bool last;       // there is none after it
  Places& places;
  KeptCalls& quoted;
  VerdictCounts& verdict;
  StartUp& start_up;
  std::string& internal_error;
  IdleSamples* idle_samples;  // null: nobody asks
};

class DeviceInWindows {
 public:
  explicit DeviceInWindows(int32_t device = -1, size_t kept_gaps = 0, size_t learnt_ops = 0)
      : gaps(kept_gaps), steps(device, learnt_ops) {}

  // Measures on from where it was, up to the end of the window or to where the device is idle.
  void Measure(const WindowContext& context, const AttributionInput& input);
  // Idle up to `end_ns`, and nobody knows why: what tells is not kept so long. False: not in the
  // user's window.
  bool CutGap(const Options& options, const RunPhases& phases, int64_t end_ns, Places& places);
  // The sums of the run, without gaps and parts.
  DeviceReport TakeTotal(const Places& places);
  // Those of the steady part.
  DeviceReport TakeSteady(const Places& places) const;

  bool began = false;  // has been measured up to measured_to_ns
  bool over = false;   // no operation of it is to come
  int64_t measured_to_ns = 0;
  // Records from here on are kept: where it became idle, or the end of the window; the largest
  // number: it has had no operation.
  int64_t open_ns = std::numeric_limits<int64_t>::max();
  DeviceReport total;  // without gaps and parts
  AttributionCarry carry;
  KeptGaps gaps;
  BusyTimes busy;
  StepTracker steps;
  std::vector<GapPart> helped;  // parts whose helpers are looked at (meanwhile.h)

 private:
  bool ChooseStretch(const WindowContext& context, const AttributionInput& input, Options* options,
                     int64_t* to_ns);
  void TellPhases(const RunPhases& phases);
  void AddSteady(const WindowContext& context, const AttributionInput& input,
                 const DeviceReport& report);
  void Collect(const WindowContext& context, const Timeline& timeline, const DeviceReport& report);

  DeviceReport steady_;
  bool steady_began_ = false;
  int phases_told_ = 0;  // to `carry`
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_DEVICE_IN_WINDOWS_H_

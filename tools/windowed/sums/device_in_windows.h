// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One device of a run that is read in windows: stretch by stretch it is measured as MeasureDevice()
// and AttributeGaps() do a whole run, and the stretches are added up, for the run and for its
// steady part.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_DEVICE_IN_WINDOWS_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_DEVICE_IN_WINDOWS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/places.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/interval_set.h"
#include "tools/windowed/steps/step_tracker.h"
#include "tools/windowed/sums/idle_samples.h"
#include "tools/windowed/sums/kept_gaps.h"
#include "tools/windowed/sums/run_phases.h"
#include "tools/windowed/sums/verdict_counts.h"

namespace gpuprobe::tools {

// What all devices of a run share.
struct WindowContext {
  const Scope& scope;
  const Options& options;
  const std::vector<bool>& communication_names;
  const std::vector<int32_t>& sample_of_run;  // by index in the window
  const RunPhases& phases;
  int64_t previous_ns, end_ns;  // of the window: what starts in between is new
  bool last;                    // there is none after it
  Places& places;
  KeptCalls& quoted;
  VerdictCounts& verdict;
  StartUp& start_up;
  IdleSamples* idle_samples;  // null: nobody asks
};

// What is measured of a device in a window.
struct DeviceWindow {
  Options options;      // from where it had been measured
  bool began;           // before this window ...
  int64_t border_ns;    // ... and was measured up to there
  DeviceReport report;  // window, gaps and their parts
  DeviceReport sums;    // the rest
};

// Fills DeviceWindow::sums. Reads nothing of the device: another thread may attribute gaps
// meanwhile.
void AddSums(const WindowContext& context, const Timeline& timeline, const DeviceActivity& activity,
             DeviceWindow* stretch);
// Empty, or what does not add up (CheckSums()).
std::string CheckStretch(const DeviceWindow& stretch);

class DeviceInWindows {
 public:
  explicit DeviceInWindows(int32_t device = -1, size_t kept_gaps = 0, size_t learnt_ops = 0)
      : gaps(kept_gaps), steps(device, learnt_ops) {}

  // On from where it was, up to the end of the window or to where the device is idle; nothing: it
  // has not begun. Sets DeviceActivity::busy.
  std::optional<DeviceWindow> FindGaps(const WindowContext& context, const Timeline& timeline,
                                       DeviceActivity* activity);
  // Fills the parts of the stretch's report.
  void Attribute(const WindowContext& context, const AttributionInput& input, DeviceReport* report);
  // Adds what was measured to what is known of the device.
  void AddUp(const WindowContext& context, const Timeline& timeline, const DeviceActivity& activity,
             const DeviceWindow& stretch);
  // Its operations, for steps. Another thread may attribute gaps meanwhile.
  void ReadSteps(const WindowContext& context, const Timeline& timeline, const HostView& host,
                 const DeviceActivity& activity, const DeviceWindow& stretch);
  // Keeps what was busy in the window; who attributes its gaps may still ask it.
  void TakeBusy(const DeviceActivity& activity) {
    busy = activity.busy;
    busy.TakeBack(busy_before_end_);
  }
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
  IntervalSet busy;  // its union up to the window, coarse where that is enough
  StepTracker steps;
  std::vector<GapPart> helped;  // parts whose helpers are looked at (meanwhile.h)

 private:
  int64_t SetBusy(const WindowContext& context, const Timeline& timeline, DeviceActivity* activity);
  bool ChooseStretch(const WindowContext& context, int64_t busy_until_ns, Options* options,
                     int64_t* to_ns);
  void TellPhases(const RunPhases& phases);
  void AddSteady(const WindowContext& context, const Timeline& timeline,
                 const DeviceActivity& activity, const DeviceWindow& stretch);
  void Collect(const WindowContext& context, const Timeline& timeline, const DeviceReport& report);

  IntervalSet::Mark busy_before_end_ = {};  // DeviceActivity::busy without what starts later
  DeviceReport steady_;
  bool steady_began_ = false;
  int phases_told_ = 0;  // to `carry`
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_DEVICE_IN_WINDOWS_H_

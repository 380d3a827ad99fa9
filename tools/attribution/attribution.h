// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Gives every idle nanosecond of a device exactly one cause. The rules are in ATTRIBUTION.md; the
// numbers in comments here ("rule 5") are those of that page.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_ATTRIBUTION_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_ATTRIBUTION_H_

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/cause_totals.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/meanwhile.h"
#include "tools/attribution/places.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/stream_order.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A framework's way from one submission to the next. A launch-bound GPT training step makes 1,900
// launches in 30 ms, one every 16 us; six times that still is dispatch, while Python that does
// something else between two launches takes longer.
inline constexpr int64_t kBackToBackNs = 100'000;

// Launches and asynchronous copies return in 2-6 us, traced. One that takes 200 times as long while
// the device is idle was held up (first use of a kernel, a lock that another call holds), not
// dispatched.
inline constexpr int64_t kBlockedSubmitNs = 1'000'000;

// Node-level tracing adds 0.36-0.89 us to each node of a graph (870-1,400 ns against 512). A gap
// between two nodes no longer than that is no evidence of anything in the application.
inline constexpr int64_t kGraphFloorNs = 1'000;

// Host and device clocks may disagree by some microseconds. What "the call returned when the device
// had finished" means, within that; and from when on a launch after its own kernel is no skew but
// nonsense.
inline constexpr int64_t kClockSkewNs = 2'000;
inline constexpr int64_t kImpossibleSkewNs = 1'000'000;

// An operation starts 2-10 us after it was queued if nothing is in its way. One that was queued for
// longer waited for something, and where the source has no synchronisation records nobody can say
// for what.
inline constexpr int64_t kNoLatencyNs = 100'000;

// What the attribution of one device reads; all outlive the call.
struct AttributionInput {
  const Timeline& timeline;
  const HostView& host;
  const HostEvidence& evidence;
  const StreamWaits& stream_waits;
  const DeviceActivity& activity;
  const Lane& unseen;  // of this device: UnseenTimes()
};

// The blocking call that let the device run dry, and how much of the time for which it kept its
// thread from running ahead is not charged yet (rule 6).
struct Drain {
  int32_t call = -1;
  int32_t considered = -1;  // last call that was looked at
  int32_t thread = -1;      // who feeds the device since
  int64_t left_ns = 0;
  // What `call` is shown as, where its window is gone (AttributionCarry); else found when charged.
  bool named = false;
  Cause cause = Cause::kUnknown;
  int32_t where = -1, detail = -1, sample = -1;  // detail and sample as numbered in the run
};

// Fills parts and causes of `report`, whose gaps MeasureDevice() has found.
void AttributeGaps(const AttributionInput& input, Places& places, DeviceReport* report);

// What the attribution of one device takes from one window of a long run to the next
// (windowed_analysis.h). Indices of calls are those of the window at hand: who makes the next one
// renumbers them. Samples are numbered as in the whole run.
struct AttributionCarry {
  std::vector<Drain> drains;  // by process
  int64_t busy_until_ns = std::numeric_limits<int64_t>::min();
  int64_t read_until_ns = std::numeric_limits<int64_t>::min();  // operations before it are read
  uint32_t gaps = 0;                                            // so far
  // Of the phase of the run that has been reached, and of those before it (run_phases.h).
  CauseTotals totals;
  std::vector<CauseTotals> earlier;
  int64_t phase_end_ns = std::numeric_limits<int64_t>::max();  // where the next begins
  std::vector<int64_t> later_phases;                           // where the others begin
  void Add(uint32_t gap, const GapPart& part, int32_t detail, int32_t sample) {
    if (part.end_ns <= phase_end_ns) return totals.Add(gap, part, detail, sample);
    AddAcross(gap, part, detail, sample);
  }
  // Parts that end after it are of a next phase.
  void BeginPhaseAt(int64_t ns);
  void AddAcross(uint32_t gap, GapPart part, int32_t detail, int32_t sample);
  std::vector<std::string> details;  // of totals
  std::unordered_map<std::string, int32_t> detail_ids;
  std::vector<GilWait> gil_waits;
};

// The same for the gaps of one window: fills the parts of `report`, and adds to `carry` what
// AttributeGaps() makes causes of. `until_ns`: operations that start before it have been looked at
// when it returns. `samples`: index in the window -> in the run.
void AttributeWindow(const AttributionInput& input, int64_t until_ns,
                     const std::vector<int32_t>& samples, Places& places, AttributionCarry* carry,
                     DeviceReport* report);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_ATTRIBUTION_H_

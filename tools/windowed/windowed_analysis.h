// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Analyse() in bounded memory: a run's records come window by window, in order of time, and what is
// needed of them no longer is dropped.
//
// How it divides the run. Records come up to a horizon; what is measured ends some records before
// it (WindowLimits::look_ahead), so that everything can look ahead that far. A device that is idle
// where a window ends is measured up to where it became idle: no gap is ever cut, so counts,
// longest, listed gaps and their parts need no joining, and sums of disjoint times add. What a
// later window asks of the past is carried on as records:
//   operations  that are not over, the last one of each stream and the last to end on each device;
//               where streams wait for others, those that were not over when the first call was
//               made whose work is still to be measured
//   calls       that are not over; those of open gaps; each thread's last one, last blocking one,
//               last submission and last ordering call; submissions whose work has not come yet,
//               and those of many operations (graphs, copies) of which some came in the window;
//               those in or between which samples were taken that may still be asked for
//   others      stream-waits that no operation of their stream has followed, the last record of
//               each CUDA event, operations without times until their stream goes on
// and as state: what is left of a blocking call to be charged (rule 6), sums, places, wait rows.
// Where gaps are attributed while the next window is prepared, all blocking calls are carried on
// that may turn out to be charged.
//
// The same figures as Analyse(), to the nanosecond, for busy and idle time, breakdown, gaps, parts,
// causes, sites, waits and counts, with these exceptions, all of which need something that lies
// further back or ahead than the windows at hand:
//   - work that starts further before its call than is looked ahead, or a wait whose thread's next
//     submission starts that long after a later one
//   - a dependency of work that was submitted more than 3 s or 65,536 calls before its window
//   - kernels of one call, outside of graphs, that start further apart than is looked ahead
//   - host samples speak for kSampleReachNs around them, those between two calls for time between
//     two like them: where two windows are shorter than that, or the second call lies behind the
//     records at hand, a line may be that of another sample or of none
//   - an idle time in which more than WindowLimits::most_calls calls were made by others: it is
//     cut, what lies before the cut is `unknown`, and the count of gaps is one too high (cut_gaps)
// Of gaps the longest WindowLimits::kept_gaps are listed.
//
// Steps are those of step_tracker.h: the same as in Analyse() for up to WindowLimits::learnt_ops
// operations of a device. The verdict is that of Analyse(), steady part and warm-up included
// (run_phases.h), but for this: the idle time of the steady part has the causes that it has in the
// run (Analyse() attributes it once more, as if nothing had been before: a blocking call from
// before may be charged differently, and of a gap that goes on where it begins another share may be
// `cpu_starved`, which comes first in an idle part), its steps are those of the run that lie inside
// of it, calls count as waits of it if they end in it, and where no window lies between, an
// operation across its borders counts as outside.
#ifndef GPUPROBE_TOOLS_WINDOWED_WINDOWED_ANALYSIS_H_
#define GPUPROBE_TOOLS_WINDOWED_WINDOWED_ANALYSIS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"
#include "tools/windowed/steps/step_tracker.h"

namespace gpuprobe::tools {

struct WindowLimits {
  size_t look_ahead = 32'768;      // records; a window at most
  size_t kept_gaps = 1'000;        // of each device; some hundred bytes and its parts each
  size_t most_calls = 2'000'000;   // kept for a device that is idle; 56 bytes each
  size_t most_unmatched = 65'536;  // submissions that are remembered until their work comes
  // Of each device, from which its steps are learnt; of many devices fewer (step_tracker.h).
  size_t learnt_ops = kLearntOps;
  // For how many the work is divided; all figures are the same with any number. 0: as many as the
  // process may use.
  size_t cpus = 0;
};

// What is known of a run before its records.
struct RunOutline {
  // Everything but records; host samples are complete.
  Timeline timeline;
  // (process, device): which process has operations where, timed or not.
  std::vector<std::pair<int32_t, int32_t>> process_devices;
  // How many timed ones, parallel to it; empty: not known, and the run has no steady part.
  std::vector<uint64_t> operations;
};

struct RecordWindow {
  // All records that start before the horizon and have not come before, each list sorted as in
  // Timeline, not linked. Of the rest only `streams` and `threads`, complete, where there are more
  // than in the window before; else empty.
  Timeline records;
  int64_t horizon_ns = 0;
  // By device: whether operations of it are still to come. Empty: not known.
  std::vector<bool> devices_to_come;
};

// What reports ask of the records of the whole run.
struct RecordCounts {
  uint64_t launches = 0;  // launch calls that succeeded
  bool any_kernel = false;
  uint64_t folded_driver_calls = 0;
  uint64_t other_clock = 0;  // operations moved to the untimed ones by LinkCalls()
  uint64_t cut_gaps = 0, unmatched_dropped = 0, waits_given_up = 0;
  bool several_communicate = false;  // devices: ranks of one job (rank_waits.h)
  // step_tracker.h
  uint64_t other_loops = 0, steps_not_listed = 0;
  uint64_t steps_learnt = 0;  // operations that steps were learnt from where there were more; 0
};

struct WindowedResult {
  // gaps, parts: the longest; `all_gaps` counts all. Its indices are those of `timeline`.
  Analysis analysis;
  // The outline with the records that the analysis names.
  Timeline timeline;
  RecordCounts counts;
  std::vector<bool> idle_at_samples;  // by sample: was every device idle? Empty: not asked for
};

class ActivityCounter;

class WindowedAnalysis {
 public:
  // `activity`: is shown each operation and call once, one after the other, by this thread or one
  // that works for it; may be nullptr. `with_idle_samples`: WindowedResult::idle_at_samples is
  // wanted.
  WindowedAnalysis(RunOutline outline, const Options& options, const WindowLimits& limits = {},
                   ActivityCounter* activity = nullptr, bool with_idle_samples = false);
  ~WindowedAnalysis();
  // Takes the records and leaves the memory.
  void Add(RecordWindow&& window);
  WindowedResult Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WINDOWED_ANALYSIS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The steps of one device of a run that is read in windows: FindSteps() (steps.h) for who sees each
// record once.
//
// The first kLearntOps operations are kept until they are complete. What tells the steps, a set of
// markers or what repeats, is found in them as FindSteps() finds it in a run; from then on it is
// only looked for, in each operation once: no table grows. So a run of up to kLearntOps operations
// of a device has the steps of FindSteps(); a longer one those that its first operations teach
// (FindSteps() asks the middle of the run). Where nothing is found, or what was found has not come
// for kLearntOps operations, later operations are learnt from: the next ones at once, then after a
// pause that doubles each time, so that learning costs the same however long the run. Of several
// loops that follow each other the one that took longest is told (`other_loops` counts the rest).
//
// Operations are put in order of submission (where one stream does not tell the order by itself) as
// far as the window at hand reaches: one that was submitted before others and starts further behind
// them than is looked ahead comes later than FindSteps() has it.
#ifndef GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_TRACKER_H_
#define GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_TRACKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/steps/marker_steps.h"
#include "tools/steps/step_sequence.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/windowed/steps/step_cutter.h"
#include "tools/windowed/steps/step_list.h"
#include "tools/windowed/steps/step_matcher.h"

namespace gpuprobe::tools {

// As many as step_pattern.h samples of a run; some 90 bytes each while they are kept.
inline constexpr size_t kLearntOps = 400'000;

// As many of each device as take the memory of two, a quarter of that at least.
inline size_t LearntOps(size_t of_one, size_t devices) {
  return devices <= 2 ? of_one : std::max(of_one / 4, 2 * of_one / devices);
}

// A stretch of a device that has just been measured.
struct MeasuredStretch {
  const Timeline& timeline;
  const HostView& host;
  const DeviceActivity& activity;
  const DeviceReport& report;  // of the stretch alone, with its gaps and parts
  int64_t run_begin_ns;        // where the device's window of the whole run begins
  int64_t known_until_ns;      // records that start before it are at hand
};

class StepTracker {
 public:
  explicit StepTracker(int32_t device = -1, size_t learnt_ops = kLearntOps,
                       size_t most_listed = kMostListedSteps);

  // Takes what is new in a stretch, whose gaps may have no parts yet. What was read before has been
  // followed.
  void Read(const MeasuredStretch& stretch);
  // What was read, cut into steps. `parts`: of the stretch's gaps. Asks for no records: they may be
  // gone.
  void Follow(const std::vector<GapPart>& parts);
  // Idle time that is in no report, behind what was read; it counts once that has been followed.
  void AddIdle(int64_t begin_ns, int64_t end_ns, Cause cause, int32_t where) {
    idle_behind_.push_back({begin_ns, end_ns, -1, -1, -1, where, -1, cause});
  }
  // After the last stretch. `window`: of the device.
  void Finish(const Timeline& timeline, const Window& window);

  // After Finish(): the steps of the run, or of a part of it. `first_op` gets what a step begins
  // with.
  DeviceSteps Steps(const Window* within, const std::vector<std::string>& places,
                    GpuOp* first_op) const;
  uint64_t other_loops() const { return other_loops_; }
  // There were more operations than those that were learnt from.
  bool learnt_a_part() const { return learnt_a_part_; }

 private:
  enum class State : uint8_t { kLearning, kPausing, kMatching, kMarked };
  struct Source {  // of the sync calls of a process
    std::vector<StepSync> syncs;
    int64_t until_ns = INT64_MIN;
  };
  // What told the steps.
  struct Loop {
    StepSource source = StepSource::kPattern;
    std::string marker;
    double confidence = 0;
    GpuOp first_op = {};
    StepList steps;
  };
  struct Kept {  // of an operation that is learnt from
    int64_t start_ns, end_ns;
    int32_t process, stream;
  };

  // What Follow() has to do.
  enum class Then : uint8_t { kWait, kRestart, kRelease };

  void TakeSyncs(const MeasuredStretch& stretch);
  void TakeOps(const MeasuredStretch& stretch);
  void Learn(const Timeline& timeline, const GpuOp& op, int64_t pause_ns);
  void Queue(const Timeline& timeline, const GpuOp& op);
  int64_t OrderedUntil(const MeasuredStretch& stretch) const;
  void Release(int64_t before_ns);
  Then Decide(const Window& so_far, const Timeline& timeline);
  bool DecideByMarkers(const Timeline& timeline, const Window& so_far);
  bool DecideByPattern(const Timeline& timeline);
  struct LearntWork {  // of a queued item
    uint32_t kind, graph_id;
  };
  std::vector<LearntWork> RequeueLearnt();
  void GiveUp();
  void BeginLearning();
  void FinishLoop(int64_t run_end_ns);
  int64_t OldestWaitingNs() const;

  int32_t device_;
  size_t learnt_ops_, most_listed_;
  State state_ = State::kLearning;
  int64_t run_begin_ns_ = INT64_MIN;
  int64_t taken_until_ns_ = INT64_MIN;  // operations that start before it have been taken
  Then then_ = Then::kWait;
  int64_t ordered_until_ns_ = INT64_MIN;  // kRelease: OrderedUntil()
  std::vector<GapPart> idle_behind_;
  std::map<int32_t, Source> syncs_;  // by process

  // kLearning
  StepItems items_;
  std::vector<Kept> kept_;
  // kPausing
  uint64_t pause_ops_ = 0, next_pause_ops_ = 0;
  // kMatching, kMarked
  int32_t process_ = -1, stream_ = -1;  // -1: of any
  bool one_stream_ = false;
  std::vector<QueuedItem> queue_;
  std::optional<StepMatcher> matcher_;
  std::optional<StepMatch> match_;
  std::optional<MarkerMatcher> marker_matcher_;
  int64_t marked_of_ns_ = 0;  // time of all operations, in ranges or not
  Loop loop_;

  StepCutter cutter_;
  std::optional<Loop> longest_;
  uint64_t other_loops_ = 0;
  uint64_t operations_ = 0;  // in which nothing was found
  size_t learnt_of_lead_ = 0;
  bool learnt_a_part_ = false;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_TRACKER_H_

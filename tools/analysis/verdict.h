// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One finding a person can act on, from the figures of all devices together. The thresholds are
// below and explained in ATTRIBUTION.md, "Verdict"; no advice is given that the trace holds no
// evidence for (advice.h).
#ifndef GPUPROBE_TOOLS_ANALYSIS_VERDICT_H_
#define GPUPROBE_TOOLS_ANALYSIS_VERDICT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict_facts.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Below either the shares of causes are those of start-up, not of the program.
inline constexpr int64_t kEnoughNs = 10'000'000;
inline constexpr uint64_t kEnoughOps = 20;

// A device that is busy for this share has at most 1.11x to win from its host.
inline constexpr double kGpuBoundShare = 0.9;

// Exposed communication of this share of the window is worth more than the idle time it competes
// with can bring once that is below it; smaller shares are normal for data-parallel training.
inline constexpr double kCommunicationShare = 0.2;
// Less is a finding where it is waiting, which data-parallel training need not do.
inline constexpr double kLateRankShare = 0.1;

// A second finding is worth a line from here on.
inline constexpr double kRunnerUpShare = 0.01;

// Busy, but with kernels of fewer blocks than a quarter of the multiprocessors for half of that
// time: the other half is what the device could do, this one is what it is kept from.
inline constexpr double kEmptyShare = 0.5;
// A device that is busy for less waits more than it is empty.
inline constexpr double kEmptyBusyShare = 0.75;

// Workers of which this share of the time is spent waiting for a CPU have too few, whatever else
// they do; a busy machine costs a few percent.
inline constexpr double kStarvedShare = 0.3;

// A stall belongs to every N-th step: from 5 on (a loader with two or four workers has a rhythm of
// its own), and when half of all idle time is what slow steps have more than the others.
inline constexpr uint64_t kFewestStepsBetweenStalls = 5;
inline constexpr double kStallShare = 0.5;

// Start-up is the finding when it holds half of all idle time, and what follows idles less than
// this. More would be a finding of its own.
inline constexpr double kWarmUpShare = 0.5;
inline constexpr double kHealthyIdleShare = 0.2;

// ... and it is loading, compiling, or first uses with work between them: one long gap before the
// loop is set-up, which nobody wants to hear about first.
inline constexpr double kOneGapShare = 0.5;

// The device copies and computes nothing for half of the time, mostly from or to pageable memory.
inline constexpr double kCopyShare = 0.5;

// What the verdict reads from the records themselves. Of a run that is read in windows it is
// gathered on the way: its Timeline holds few of them.
struct RunEvidence {
  Emptiness emptiness;
  double pageable_share = 0;
  int64_t loading_early_ns = 0;  // idle in the first quarter of a window while kernels were loaded
  int64_t waited_for_ranks_ns = 0;
};

// What `analysis` is of: the window, or what is left of it without start-up and end.
enum class JudgedPart : uint8_t { kWhole, kSteady };
Verdict Judge(const Timeline& timeline, const Analysis& analysis,
              JudgedPart part = JudgedPart::kWhole);
Verdict Judge(const Timeline& timeline, const Analysis& analysis, const RunEvidence& evidence,
              JudgedPart part = JudgedPart::kWhole);

// Is a blocking part the loading or compiling of kernels?
bool IsLoading(const Timeline& timeline, const GapPart& part);

// Idle time before the steady part: by cause, and how much of it was loading.
struct StartUp {
  int64_t length_ns = 0;                // of all devices together
  int64_t gaps_ns = 0;                  // idle, whatever the cause
  int64_t idle_ns = 0, loading_ns = 0;  // without start and end
  std::array<int64_t, kCauseCount> cause_ns{};
  int64_t longest_gap_ns = 0, longest_part_ns = 0;
  int32_t place = -1;  // of the longest part

  // What of a device lies before `until_ns`; `report` may be a part of the run's, of parts that
  // follow each other. Its indices are those of `timeline`.
  void Add(const Timeline& timeline, const DeviceReport& report, int64_t until_ns);
};
StartUp MeasureStartUp(const Timeline& timeline, const Analysis& whole, int64_t until_ns);

// The verdict on a run whose trouble is its beginning: `whole` is the run, `later` its steady part,
// analysed and judged. nullopt where that is not so: the verdict on `later` is the one to give.
std::optional<Verdict> JudgeWarmUp(const Analysis& whole, const Analysis& later,
                                   const StartUp& start_up);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ANALYSIS_VERDICT_H_

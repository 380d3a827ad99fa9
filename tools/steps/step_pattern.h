// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where a loop's iterations begin in a sequence of tokens. It looks at what repeats, never at
// times, so that slow iterations and irregular requests do not hide it, and it bears extra work
// between (evaluation, checkpoints) and what comes every N iterations only.
#ifndef GPUPROBE_TOOLS_STEPS_STEP_PATTERN_H_
#define GPUPROBE_TOOLS_STEPS_STEP_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuprobe::tools {

// Fewer repetitions are no pattern: a set-up phase has some, too.
inline constexpr size_t kFewestSteps = 4;
// A loop without any host interaction that is shorter than this is a storm of launches.
inline constexpr size_t kFewestOpsOfAStep = 4;

struct StepToken {
  uint32_t id;           // equal: the same thing again; numbered from 0, without large holes
  bool alone = false;    // may be an iteration by itself: a graph launch
  bool host = false;     // a synchronisation, or a copy from or to the host, as loops have them
  int64_t pause_ns = 0;  // idle time before it: decides which element of the cycle is the first
};

struct StepPattern {
  std::vector<size_t> begins;  // positions, ascending; empty: nothing repeats as a loop does
  size_t typical_tokens = 0;   // median distance of two begins
  size_t end = 0;              // of the last iteration, a position; sequence.size() at most
  double confidence = 0;       // 0..1: of what lives throughout, the share that each iteration has
                               // equally often
  bool of_pair = false;        // an iteration begins where two tokens follow each other, not one
};

StepPattern FindPattern(std::span<const StepToken> sequence);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEP_PATTERN_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One finding a person can act on, from the figures of all devices together. The thresholds are
// below and explained in ATTRIBUTION.md, "Verdict"; no advice is given that the trace holds no
// evidence for.
#ifndef GPUPROBE_TOOLS_VERDICT_H_
#define GPUPROBE_TOOLS_VERDICT_H_

#include <cstdint>
#include <string>

#include "tools/analysis.h"
#include "tools/timeline.h"

namespace gpuprobe::tools {

// Below either the shares of causes are those of start-up, not of the program.
inline constexpr int64_t kEnoughNs = 10'000'000;
inline constexpr uint64_t kEnoughOps = 20;

// A device that is busy for this share has at most 1.11x to win from its host.
inline constexpr double kGpuBoundShare = 0.9;

// Exposed communication of this share of the window is worth more than the idle time it competes
// with can bring once that is below it; smaller shares are normal for data-parallel training.
inline constexpr double kCommunicationShare = 0.2;

// A second finding is worth a line from here on.
inline constexpr double kRunnerUpShare = 0.01;

Verdict Judge(const Timeline& timeline, const Analysis& analysis);

// "5.61 s", "151 ms", "12.3 us", "800 ns": three digits.
std::string DurationText(int64_t ns);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_VERDICT_H_

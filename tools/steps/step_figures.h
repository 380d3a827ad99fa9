// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a list of steps says: how long they take, which are slow, and what differs in those.
#ifndef GPUPROBE_TOOLS_STEPS_STEP_FIGURES_H_
#define GPUPROBE_TOOLS_STEPS_STEP_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {

// A step of this many medians is slow: the ordinary spread of a loop (a few percent) never gets
// there, and a person would notice.
inline constexpr double kSlowStep = 1.5;
// Slow steps among the first few are warm-up and no part of a rhythm.
inline constexpr size_t kWarmUpSteps = 3;
// From two slow steps any distance could be called a period; they need the ends of the run to
// agree.
inline constexpr size_t kFewestForPeriod = 3;

inline bool IsSlowStep(int64_t duration_ns, int64_t median_ns) {
  return static_cast<double>(duration_ns) > kSlowStep * static_cast<double>(median_ns);
}

// A value, and how many steps have it.
using WeightedNs = std::pair<int64_t, uint64_t>;
// Nearest rank; sorts them. There is at least one.
int64_t PercentileOf(std::vector<WeightedNs>* values, double share);

// The place that holds most of a cause's time in the slow steps: Step::slow is set when it is
// called.
using SlowPlaceOf = std::function<std::string(Cause)>;

// From the steps of `result`, at least one, and their `count`: durations, slow steps and growth.
void MeasureStepFigures(const SlowPlaceOf& slow_place, DeviceSteps* result);

// Adds a step, and those that it stands for, to DeviceSteps::count and ::all.
void CountStep(const Step& step, DeviceSteps* result);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEP_FIGURES_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The part of the window that the verdict speaks of. A job's first operations come with imports,
// library set-up, kernel loading and compilation; one 5 s gap there outweighs minutes of a slow
// loop, and nobody wants to be told about it first. Tables and sums always cover the whole window.
#ifndef GPUPROBE_TOOLS_STEPS_STEADY_PART_H_
#define GPUPROBE_TOOLS_STEPS_STEADY_PART_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/device_activity.h"

namespace gpuprobe::tools {

// In operations, not in time: the loop is where most of them are. 5 % of a 20-step run is its first
// step.
inline constexpr double kStartUpOps = 0.05;
inline constexpr double kWindDownOps = 0.01;
// With fewer operations the first twentieth says nothing about phases.
inline constexpr uint64_t kEnoughOpsForPhases = 200;
// Less idle time than this share of all in both ends together changes no verdict.
inline constexpr double kWorthLeavingOut = 0.1;
// Nor does idle time that is less than this share of the window, however much of all it is.
inline constexpr double kWorthOfWindow = 0.02;

// Without the first kStartUpOps and the last kWindDownOps of the operations; nullopt where the
// whole window is to be judged: the user chose it, there are too few operations, or the ends do not
// matter.
std::optional<Window> SteadyPart(const Timeline& timeline, const Options& options,
                                 const std::vector<DeviceActivity>& activities,
                                 const Analysis& whole);

// Which operations, in order of start and from 0, the steady part of `count` begins and ends with.
struct SteadyRanks {
  uint64_t first, last;
};
std::optional<SteadyRanks> SteadyRanksOf(uint64_t count);
// Is it worth leaving out what is not `steady`, in which the devices of `whole` were idle for
// `outside_ns`?
bool IsWorthLeavingOut(const Analysis& whole, const Window& steady, int64_t outside_ns);

// "without the first 5.35 s (start-up, GPU idle 99 %) and last 0.12 s; tables hold all". Start-up
// is only what is idle for more of its time than the rest. `idle_before_ns`: of all devices before
// the steady part.
std::string LeftOutText(const Analysis& whole, const Window& steady, int64_t idle_before_ns);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEADY_PART_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Collectives of several ranks side by side. None can do its work before the last rank has entered
// it: until then its kernels on the others spin, and the device looks busy.
#ifndef GPUPROBE_TOOLS_ANALYSIS_RANK_WAITS_H_
#define GPUPROBE_TOOLS_ANALYSIS_RANK_WAITS_H_

#include <optional>
#include <string>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Matches the collectives of the devices in `analysis`, within their windows: kernels of one name
// that run at the same time on all of them are one collective. nullopt: fewer than two devices run
// any, or less than half of those of some device has its likes on all others (other groups of
// ranks, clocks that disagree, traces of different times).
std::optional<RankWaits> MeasureRankWaits(const Timeline& timeline, const Analysis& analysis);

// "rank 1 (GPU 1)", "GPU 1" where the trace tells no rank.
std::string RankText(const Timeline& timeline, int32_t device);
// The rank of the process that first worked on the device; -1: not told.
int32_t RankOf(const Timeline& timeline, int32_t device);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ANALYSIS_RANK_WAITS_H_

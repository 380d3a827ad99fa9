// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What other threads and processes did while a cause lasted: ATTRIBUTION.md, "Meanwhile".
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_MEANWHILE_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_MEANWHILE_H_

#include <cstdint>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/places.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A thread beside the one that waits is worth naming from this share of its time on a CPU or ready
// for one; below, it waits itself.
inline constexpr double kBusyThreadShare = 0.05;
inline constexpr size_t kMostHelpers = 4, kMostHolders = 3, kMostSites = 5;

// A sample that waited for the GIL, and the idle time that it stands for.
struct GilWait {
  int32_t sample;
  int64_t ns;
};

// Fills CauseTotal::meanwhile of the causes of `report`, whose parts are complete.
void AddMeanwhile(const Timeline& timeline, const HostEvidence& evidence, const Places& places,
                  const std::vector<GilWait>& gil_waits, DeviceReport* report);

// The same for one stretch of time of `process`: its workers, then its busy threads but `except`.
std::vector<Meanwhile> HelpersDuring(const Timeline& timeline, const HostEvidence& evidence,
                                     const Places& places, int32_t process, int32_t except,
                                     const Window& window);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_MEANWHILE_H_

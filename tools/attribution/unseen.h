// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Times in which a device that looks idle may not have been: records lost, another CUPTI client,
// and GPU work that was recorded without usable times.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_UNSEEN_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_UNSEEN_H_

#include <cstdint>
#include <vector>

#include "tools/attribution/places.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/stream_order.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// The place of idle time in which there was no recorded process.
inline constexpr const char* kNobodyRecorded = "no process was being recorded";

// The place of idle time in which the process that feeds the device could not run at all.
inline constexpr const char* kProcessStopped =
    "the process was stopped (signal, debugger or freezer)";

// id: the place (Places) that says why. Blind times are those of every process in scope that uses
// the device: its missing work could have run there, whosever operation came next.
Lane UnseenTimes(const Timeline& timeline, const Scope& scope, const DeviceActivity& activity,
                 const StreamOrder& order, Places& places);

// By process: when it was stopped, as far as the sampler saw. id: 0.
std::vector<Lane> StoppedTimes(const Timeline& timeline);

// Length of the union of the blind times of the processes in scope that use a device, within that
// device's window, over all reports.
int64_t BlindNs(const Timeline& timeline, const std::vector<DeviceActivity>& activities,
                const std::vector<DeviceReport>& reports);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_UNSEEN_H_

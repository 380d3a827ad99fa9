// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What threads were blocked in, and what it cost the device. Definitions in ATTRIBUTION.md,
// "Waits".
#ifndef GPUPROBE_TOOLS_WAITS_H_
#define GPUPROBE_TOOLS_WAITS_H_

#include <vector>

#include "tools/analysis.h"
#include "tools/device_activity.h"
#include "tools/host_split.h"
#include "tools/host_view.h"
#include "tools/places.h"
#include "tools/timeline.h"

namespace gpuprobe::tools {

// `activities` and `reports` belong together by index.
std::vector<WaitRow> MeasureWaits(const Timeline& timeline, const Options& options,
                                  const Scope& scope, const HostView& host,
                                  const HostEvidence& evidence,
                                  const std::vector<DeviceActivity>& activities,
                                  const std::vector<DeviceReport>& reports, const Places& places);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WAITS_H_

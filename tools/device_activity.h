// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The GPU side of the analyses: which operations a device ran, when it was busy with what, and its
// gaps.
#ifndef GPUPROBE_TOOLS_DEVICE_ACTIVITY_H_
#define GPUPROBE_TOOLS_DEVICE_ACTIVITY_H_

#include <cstdint>
#include <vector>

#include "tools/analysis.h"
#include "tools/interval_set.h"
#include "tools/timeline.h"

namespace gpuprobe::tools {

// Which processes the user looks at: one pid, or all.
class Scope {
 public:
  Scope(const Timeline& timeline, const Options& options);
  bool Contains(int32_t process) const { return process < 0 ? !one_pid_ : contains_[process]; }

 private:
  bool one_pid_;
  std::vector<bool> contains_;
};

// The operations of one device, whatever the window.
struct DeviceActivity {
  int32_t device = -1;
  std::vector<int32_t> ops;     // in scope, in order of start: index in Timeline::ops
  std::vector<bool> processes;  // in scope, with operations here, timed or not
  IntervalSet busy;             // their union
  Lane others;                  // what processes outside the scope ran; id: process
};

// One for each device that ran (or may have run: untimed) something in scope, and for
// Options::device.
std::vector<DeviceActivity> CollectActivity(const Timeline& timeline, const Options& options,
                                            const Scope& scope);

// Window, sums, breakdown and gaps (without their parts) of one device.
DeviceReport MeasureDevice(const Timeline& timeline, const Options& options, const Scope& scope,
                           const DeviceActivity& activity);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_DEVICE_ACTIVITY_H_

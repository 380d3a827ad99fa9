// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// When a device was busy, as far as calls of the window at hand reach back: exact in it, before it
// the sums between the times that may be asked for.
#ifndef GPUPROBE_TOOLS_WINDOWED_BUSY_TIMES_H_
#define GPUPROBE_TOOLS_WINDOWED_BUSY_TIMES_H_

#include <cstdint>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class BusyTimes {
 public:
  // Sets DeviceActivity::busy: what was, and operations that start from `begin_ns` on.
  void SetIn(const Timeline& timeline, int64_t begin_ns, DeviceActivity* activity) const;
  // Appends what starts in [begin_ns, end_ns).
  void Extend(const Timeline& timeline, const DeviceActivity& activity, int64_t begin_ns,
              int64_t end_ns);
  // Of what lies before the last of `asked`, ascending, keeps the sums between them.
  void Coarsen(const std::vector<int64_t>& asked);

 private:
  std::vector<Window> spans_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_BUSY_TIMES_H_

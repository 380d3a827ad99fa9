// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/device_number.h"

#include <cstddef>
#include <set>

namespace gpuprobe::tools {

int32_t DeviceNumber(const Timeline& timeline, int32_t device) {
  std::set<int32_t> ordinals;
  for (const Device& d : timeline.devices) {
    if (d.ordinal < 0 || !ordinals.insert(d.ordinal).second) return device;
  }
  return timeline.devices[static_cast<size_t>(device)].ordinal;
}

int32_t DeviceOfNumber(const Timeline& timeline, int32_t number) {
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    if (DeviceNumber(timeline, static_cast<int32_t>(d)) == number) return static_cast<int32_t>(d);
  }
  return -1;
}

}  // namespace gpuprobe::tools

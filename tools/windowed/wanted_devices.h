// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which processes and devices of a run are looked at, and which process has operations where: known
// from the outline on.
#ifndef GPUPROBE_TOOLS_WINDOWED_WANTED_DEVICES_H_
#define GPUPROBE_TOOLS_WINDOWED_WANTED_DEVICES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class WantedDevices {
 public:
  using ProcessDevices = std::vector<std::pair<int32_t, int32_t>>;

  WantedDevices(const Timeline& timeline, const Options& options, ProcessDevices process_devices)
      : options_(options),
        scope_(timeline, options),
        process_devices_(std::move(process_devices)),
        first_devices_(timeline.processes.size(), -1) {
    for (const auto& [process, device] : process_devices_) {
      if (process < 0 || device < 0) continue;
      int32_t& first = first_devices_[static_cast<size_t>(process)];
      if (first < 0 || device < first) first = device;
    }
  }

  bool HasProcess(int32_t process) const { return scope_.Contains(process); }
  bool Has(int32_t process, int32_t device) const {
    return (!options_.device || *options_.device == device) && HasProcess(process);
  }

  // Of `operations`, parallel to process_devices(): those that are looked at.
  uint64_t Operations(const std::vector<uint64_t>& operations) const {
    uint64_t count = 0;
    for (size_t i = 0; i < std::min(operations.size(), process_devices_.size()); ++i) {
      const auto& [process, device] = process_devices_[i];
      if (device >= 0 && Has(process, device)) count += operations[i];
    }
    return count;
  }

  void SetProcesses(const Scope& scope, DeviceActivity* activity) const {
    for (const auto& [process, device] : process_devices_) {
      if (device == activity->device && process >= 0 && scope.Contains(process))
        activity->processes[static_cast<size_t>(process)] = true;
    }
  }

  const Options& options() const { return options_; }
  const ProcessDevices& process_devices() const { return process_devices_; }
  const std::vector<int32_t>& first_devices() const { return first_devices_; }  // HostView

 private:
  const Options options_;
  const Scope scope_;
  const ProcessDevices process_devices_;
  std::vector<int32_t> first_devices_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WANTED_DEVICES_H_

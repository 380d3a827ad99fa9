// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Operations without times of a run that is read in windows, while what they filled is still to be
// measured.
#ifndef GPUPROBE_TOOLS_WINDOWED_UNTIMED_OPS_H_
#define GPUPROBE_TOOLS_WINDOWED_UNTIMED_OPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/timeline/timeline.h"
#include "tools/windowed/sums/device_in_windows.h"

namespace gpuprobe::tools {

class UntimedOps {
 public:
  void Add(const UntimedOp& op) {
    if (ops_.size() < kMost) ops_.push_back(op);
  }

  // Those that may have run by now. `seen`: the highest correlation id of each process so far.
  void Choose(const std::vector<uint32_t>& seen, std::vector<UntimedOp>* chosen) const {
    chosen->clear();
    for (const UntimedOp& op : ops_) {
      if (op.process < 0 || op.correlation == 0) continue;
      if (op.correlation <= seen[static_cast<size_t>(op.process)]) chosen->push_back(op);
    }
  }

  // Those whose stream has gone on before what is still to be measured.
  void Drop(const Timeline& t, const std::vector<DeviceInWindows>& devices) {
    if (ops_.empty()) return;
    std::vector<uint32_t> done(t.streams.size(), 0);
    for (const GpuOp& op : t.ops) {
      if (op.stream < 0 || op.device < 0) continue;
      const DeviceInWindows& device = devices[static_cast<size_t>(op.device)];
      if (!device.began || op.start_ns > device.measured_to_ns) continue;
      uint32_t& correlation = done[static_cast<size_t>(op.stream)];
      correlation = std::max(correlation, op.correlation);
    }
    std::erase_if(ops_, [&](const UntimedOp& op) {
      return op.stream < 0 || op.correlation == 0 ||
             op.correlation < done[static_cast<size_t>(op.stream)];
    });
  }

  std::vector<UntimedOp> Release() { return std::move(ops_); }

 private:
  // More are counted, but what they filled reads as idle.
  static constexpr size_t kMost = 65'536;
  std::vector<UntimedOp> ops_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_UNTIMED_OPS_H_

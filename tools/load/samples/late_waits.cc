// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/samples/late_waits.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::tools {
namespace {

// Between the end of one look's interval and the begin of the next: rounding alone.
constexpr int64_t kSeamNs = 1'000'000;

// Of the interval, neither on a CPU nor in line for one.
int64_t RoomNs(const HostSample& sample) {
  const int64_t cpu_ns = std::clamp<int64_t>(sample.cpu_ns, 0, sample.interval_ns);
  return sample.interval_ns - cpu_ns - sample.runnable_ns;
}

bool MayHaveWaited(const HostSample& before, const HostSample& after) {
  const int64_t hole_ns = after.time_ns - after.interval_ns - before.time_ns;
  return before.thread == after.thread && before.state == HostState::kRunning &&
         (before.flags & kSampleExact) == 0 && before.interval_ns > 0 && hole_ns <= kSeamNs &&
         hole_ns >= -kSeamNs && RoomNs(before) > 0;
}

}  // namespace

void SpreadLateWaits(std::vector<HostSample>* samples) {
  for (size_t i = 0; i < samples->size(); ++i) {
    HostSample* after = &(*samples)[i];
    int64_t late_ns = after->interval_ns > 0 ? -RoomNs(*after) : 0;
    if (late_ns <= 0) continue;
    HostSample& told = *after;
    for (size_t at = i; at > 0 && late_ns > 0; --at) {
      HostSample& before = (*samples)[at - 1];
      if (!MayHaveWaited(before, *after)) break;
      const int64_t moved_ns = std::min(late_ns, RoomNs(before));
      before.runnable_ns += moved_ns;
      told.runnable_ns -= moved_ns;
      late_ns -= moved_ns;
      after = &before;
    }
  }
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/busy_times.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gpuprobe::tools {

void BusyTimes::SetIn(const Timeline& timeline, int64_t begin_ns, DeviceActivity* activity) const {
  activity->busy = IntervalSet();
  activity->coarse = true;
  for (const Window& span : spans_) activity->busy.Add(span.start_ns, span.end_ns);
  for (const int32_t index : activity->ops) {
    const GpuOp& op = timeline.ops[static_cast<size_t>(index)];
    if (op.start_ns >= begin_ns) activity->busy.Add(op.start_ns, op.end_ns);
  }
}

void BusyTimes::Extend(const Timeline& timeline, const DeviceActivity& activity, int64_t begin_ns,
                       int64_t end_ns) {
  for (const int32_t index : activity.ops) {
    const GpuOp& op = timeline.ops[static_cast<size_t>(index)];
    if (op.start_ns < begin_ns) continue;
    if (op.start_ns >= end_ns) break;
    if (op.end_ns <= op.start_ns) continue;
    if (!spans_.empty() && op.start_ns <= spans_.back().end_ns) {
      spans_.back().end_ns = std::max(spans_.back().end_ns, op.end_ns);
    } else {
      spans_.push_back({op.start_ns, op.end_ns});
    }
  }
}

void BusyTimes::Coarsen(const std::vector<int64_t>& asked) {
  IntervalSet exact;
  for (const Window& span : spans_) exact.Add(span.start_ns, span.end_ns);
  std::vector<Window> coarse;
  const auto add = [&](int64_t begin_ns, int64_t end_ns) {
    if (begin_ns < end_ns) coarse.push_back({begin_ns, end_ns});
  };
  const int64_t first_ns = asked.front();
  add(first_ns - exact.Overlap(std::numeric_limits<int64_t>::min(), first_ns), first_ns);
  for (size_t i = 0; i + 1 < asked.size(); ++i) {
    add(asked[i], asked[i] + exact.Overlap(asked[i], asked[i + 1]));
  }
  for (const Window& span : spans_) add(std::max(span.start_ns, asked.back()), span.end_ns);
  spans_ = std::move(coarse);
}

}  // namespace gpuprobe::tools

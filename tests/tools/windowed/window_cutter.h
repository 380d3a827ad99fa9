// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A Timeline as a reader of windows would hand it out.
#ifndef GPUPROBE_TESTS_TOOLS_WINDOWED_WINDOW_CUTTER_H_
#define GPUPROBE_TESTS_TOOLS_WINDOWED_WINDOW_CUTTER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tools/timeline/timeline.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {

inline void Unlink(Timeline* timeline) {
  for (GpuOp& op : timeline->ops) op.submission = -1;
  for (SyncOp& sync : timeline->syncs) sync.call = -1;
}

// `timeline` in windows that end at `horizons`, ascending.
class Cutter {
 public:
  Cutter(const Timeline& timeline, std::vector<int64_t> horizons)
      : t_(timeline), horizons_(std::move(horizons)) {
    horizons_.push_back(std::numeric_limits<int64_t>::max());
    for (const HostCall& call : t_.calls) {
      called_ns_.try_emplace({call.process, call.correlation}, call.start_ns);
    }
  }

  RunOutline Outline() const {
    RunOutline outline;
    outline.timeline = t_;
    for (auto* records : {&outline.timeline}) {
      records->ops.clear();
      records->calls.clear();
      records->syncs.clear();
      records->events.clear();
      records->overheads.clear();
      records->untimed.clear();
    }
    std::map<std::pair<int32_t, int32_t>, uint64_t> used;
    for (const GpuOp& op : t_.ops) ++used[{op.process, op.device}];
    for (const UntimedOp& op : t_.untimed) used.try_emplace({op.process, op.device});
    for (const auto& [process_device, count] : used) {
      outline.process_devices.push_back(process_device);
      outline.operations.push_back(count);
    }
    return outline;
  }

  size_t count() const { return horizons_.size(); }

  RecordWindow Window(size_t w) const {
    const int64_t begin = w == 0 ? std::numeric_limits<int64_t>::min() : horizons_[w - 1];
    const int64_t end = horizons_[w];
    const auto in = [&](int64_t ns) { return ns >= begin && ns < end; };
    RecordWindow window;
    window.horizon_ns = end;
    const auto take = [&](const auto& from, auto* to) {
      for (const auto& item : from) {
        if (in(item.start_ns)) to->push_back(item);
      }
    };
    take(t_.ops, &window.records.ops);
    take(t_.calls, &window.records.calls);
    take(t_.syncs, &window.records.syncs);
    take(t_.overheads, &window.records.overheads);
    for (const UntimedOp& op : t_.untimed) {
      if (in(CalledNs(op.process, op.correlation))) window.records.untimed.push_back(op);
    }
    for (const CudaEvent& event : t_.events) {
      if (in(CalledNs(event.process, event.correlation))) window.records.events.push_back(event);
    }
    window.devices_to_come.assign(t_.devices.size(), false);
    for (const GpuOp& op : t_.ops) {
      if (op.start_ns >= end) window.devices_to_come[static_cast<size_t>(op.device)] = true;
    }
    return window;
  }

 private:
  int64_t CalledNs(int32_t process, uint32_t correlation) const {
    const auto found = called_ns_.find({process, correlation});
    return found == called_ns_.end() ? 0 : found->second;
  }

  const Timeline& t_;
  std::vector<int64_t> horizons_;
  std::map<std::pair<int32_t, uint32_t>, int64_t> called_ns_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_WINDOWED_WINDOW_CUTTER_H_

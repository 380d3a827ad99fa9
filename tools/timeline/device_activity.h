// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The GPU side of the analyses: which operations a device ran, when it was busy with what, and its
// gaps.
#ifndef GPUPROBE_TOOLS_TIMELINE_DEVICE_ACTIVITY_H_
#define GPUPROBE_TOOLS_TIMELINE_DEVICE_ACTIVITY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/timeline.h"

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
  bool coarse = false;          // `busy` tells sums alone: of a run that is read in windows
  int64_t end_ns = std::numeric_limits<int64_t>::min();  // of the last to end
  Lane others;  // what processes outside the scope ran; id: process

  // The position in `ops` of the first that may overlap with `window` or is, of those before it,
  // the last to end.
  size_t FirstReaching(const Timeline& timeline, const Window& window) const;
};

// One for each device that ran (or may have run: untimed) something in scope, and for
// Options::device. Whatever the window of `options`. kLeftOut: `busy` stays empty.
enum class Busy : uint8_t { kCollected, kLeftOut };
std::vector<DeviceActivity> CollectActivity(const Timeline& timeline, const Options& options,
                                            const Scope& scope, Busy busy = Busy::kCollected);

// How many operations each stream of a device ran in a window.
class StreamCounts {
 public:
  explicit StreamCounts(const Timeline& timeline)
      : timeline_(timeline), of_own_(timeline.streams.size(), 0) {}
  void Add(const GpuOp& op) {
    ++total_;
    // Nearly every operation is of its stream's process.
    if (op.stream >= 0 && timeline_.streams[op.stream].process == op.process) {
      ++of_own_[op.stream];
    } else {
      ++others_[{op.process, op.stream}];
    }
  }
  size_t total() const { return total_; }
  // The busiest stream, the first of equals by (process, stream); nothing ran: -1 and -1, 0.
  struct Lead {
    int32_t process = -1, stream = -1;
    size_t count = 0;
  };
  Lead Busiest() const;

 private:
  const Timeline& timeline_;
  std::vector<size_t> of_own_;                            // by stream
  std::map<std::pair<int32_t, int32_t>, size_t> others_;  // by process and stream
  size_t total_ = 0;
};

// Which names of kernels are those of collectives, by Timeline::names.
std::vector<bool> CommunicationNames(const Timeline& timeline);

// Window, sums, breakdown and gaps (without their parts) of one device. `streams` gets the
// operations that are busy in the window; may be nullptr. Two threads may share this: gaps and what
// is counted of them; all the rest. The window is in both.
enum class Measured : uint8_t { kAll, kGaps, kSums };
DeviceReport MeasureDevice(const Timeline& timeline, const Options& options, const Scope& scope,
                           const std::vector<bool>& communication_names,
                           const DeviceActivity& activity, StreamCounts* streams,
                           Measured what = Measured::kAll);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_DEVICE_ACTIVITY_H_

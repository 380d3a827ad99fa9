// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What threads were blocked in, and what it cost the device. Definitions in ATTRIBUTION.md,
// "Waits".
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_WAITS_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/places.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// `activities` and `reports` belong together by index.
std::vector<WaitRow> MeasureWaits(const Timeline& timeline, const Options& options,
                                  const Scope& scope, const HostView& host,
                                  const HostEvidence& evidence,
                                  const std::vector<DeviceActivity>& activities,
                                  const std::vector<DeviceReport>& reports, const Places& places);

// The rows of a long run, filled window by window (windowed_analysis.h).
class WaitRows {
 public:
  // What sets rows apart: symbol, thread (-1: the line tells), how it copies, whether the launch
  // queue was full, line (-1: not known).
  using Key = std::tuple<int32_t, int32_t, int32_t, bool, int32_t>;

  int32_t LineId(const std::string& text);  // in order of first use
  WaitRow& RowOf(const Key& key, bool* is_new);
  const std::string& Line(int32_t id) const { return lines_[static_cast<size_t>(id)]; }
  std::vector<WaitRow> Take();  // by total, descending
  using Map = std::map<Key, WaitRow>;
  const Map& rows() const { return rows_; }
  // What `rows` have more than they had `before`, by total, descending; the longest is that of
  // `rows`.
  static std::vector<WaitRow> Since(const Map& before, const Map& rows);

  // Waits that have ended and whose thread has submitted nothing to their device since.
  struct Pending {
    Key key;
    int64_t start_ns, call_end_ns;  // of the call
    uint32_t correlation;
    int64_t end_ns;              // clipped to the user's window
    int64_t busy_before_end_ns;  // of the device, since the run began
  };
  using Feeder = std::pair<int32_t, int32_t>;  // thread, device
  std::map<Feeder, std::vector<Pending>> pending;
  // Beyond kMostPending of a thread and device the oldest are given up: they count as waits after
  // which nothing was submitted.
  static constexpr size_t kMostPending = 4096;
  uint64_t given_up = 0;
  // By device: busy before the end of the user's window, noted as that goes by.
  std::map<int32_t, int64_t> busy_before_to_ns;

 private:
  Map rows_;
  std::vector<std::string> lines_;
  std::unordered_map<std::string, int32_t> line_ids_;
};

// Calls that end in [begin, end) are measured, whenever they started. What was busy before the
// window's first operation must be in DeviceActivity::busy as far as these calls reach back, and
// `host` must know the first devices of the run's processes.
struct WaitWindow {
  int64_t begin_ns, end_ns;
  std::vector<Window> devices;  // by Timeline::devices: of the whole run, as far as known
};
void MeasureWaitsIn(const WaitWindow& window, const Timeline& timeline, const Options& options,
                    const Scope& scope, const HostView& host, const HostEvidence& evidence,
                    const std::vector<DeviceActivity>& activities, const Places& places,
                    WaitRows* rows);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_WAITS_H_

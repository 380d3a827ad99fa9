// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/steady_part.h"

#include <algorithm>
#include <vector>

#include "tools/analysis/verdict.h"
#include "tools/analysis/verdict_facts.h"

namespace gpuprobe::tools {
namespace {

size_t CountOps(const std::vector<DeviceActivity>& activities) {
  size_t count = 0;
  for (const DeviceActivity& activity : activities) count += activity.ops.size();
  return count;
}

// When the operation of this rank started, of all that the activities hold in order of start.
int64_t StartOfRank(const Timeline& timeline, const std::vector<DeviceActivity>& activities,
                    size_t rank) {
  // Timeline::ops is in order of start: the smallest index with more than `rank` up to it.
  size_t low = 0, high = timeline.ops.size() - 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    size_t up_to = 0;
    for (const DeviceActivity& activity : activities) {
      up_to += static_cast<size_t>(
          std::upper_bound(activity.ops.begin(), activity.ops.end(), static_cast<int32_t>(middle)) -
          activity.ops.begin());
    }
    if (up_to > rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return timeline.ops[low].start_ns;
}

int64_t IdleOutside(const Analysis& whole, const Window& window) {
  int64_t idle_ns = 0;
  for (const DeviceReport& device : whole.devices) {
    for (const Gap& gap : device.gaps) {
      idle_ns += gap.length_ns();
      idle_ns -= std::max<int64_t>(
          0, std::min(gap.end_ns, window.end_ns) - std::max(gap.begin_ns, window.start_ns));
    }
  }
  return idle_ns;
}

}  // namespace

std::optional<SteadyRanks> SteadyRanksOf(uint64_t count) {
  if (count < kEnoughOpsForPhases) return std::nullopt;
  const double last = static_cast<double>(count - 1);
  return SteadyRanks{static_cast<uint64_t>(last * kStartUpOps),
                     static_cast<uint64_t>(last * (1 - kWindDownOps))};
}

bool IsWorthLeavingOut(const Analysis& whole, const Window& steady, int64_t outside_ns) {
  if (steady.span() < kEnoughNs) return false;
  int64_t all_idle_ns = 0, all_ns = 0;
  for (const DeviceReport& device : whole.devices) {
    all_idle_ns += device.idle_ns;
    all_ns += device.window.span();
  }
  return static_cast<double>(outside_ns) >= kWorthLeavingOut * static_cast<double>(all_idle_ns) &&
         static_cast<double>(outside_ns) >= kWorthOfWindow * static_cast<double>(all_ns);
}

std::optional<Window> SteadyPart(const Timeline& timeline, const Options& options,
                                 const std::vector<DeviceActivity>& activities,
                                 const Analysis& whole) {
  if (options.from_ns || options.to_ns) return std::nullopt;
  const std::optional<SteadyRanks> ranks = SteadyRanksOf(CountOps(activities));
  if (!ranks) return std::nullopt;
  const Window window = {StartOfRank(timeline, activities, ranks->first),
                         StartOfRank(timeline, activities, ranks->last)};
  if (!IsWorthLeavingOut(whole, window, IdleOutside(whole, window))) return std::nullopt;
  return window;
}

std::string LeftOutText(const Analysis& whole, const Window& steady, int64_t idle_before_ns) {
  Window window = {INT64_MAX, INT64_MIN};
  int64_t all_idle_ns = 0, all_ns = 0;
  for (const DeviceReport& device : whole.devices) {
    all_idle_ns += device.idle_ns;
    all_ns += device.window.span();
    window.start_ns = std::min(window.start_ns, device.window.start_ns);
    window.end_ns = std::max(window.end_ns, device.window.end_ns);
  }
  const int64_t first_ns = std::max<int64_t>(0, steady.start_ns - window.start_ns);
  const int64_t last_ns = std::max<int64_t>(0, window.end_ns - steady.end_ns);
  const double device_ns =
      static_cast<double>(first_ns) * static_cast<double>(whole.devices.size());
  const int percent =
      device_ns > 0 ? static_cast<int>(100 * static_cast<double>(idle_before_ns) / device_ns) : 0;
  const bool start_up = device_ns > 0 && static_cast<double>(idle_before_ns) / device_ns >
                                             static_cast<double>(all_idle_ns) /
                                                 static_cast<double>(std::max<int64_t>(all_ns, 1));
  const char* what = start_up ? "start-up, " : "";
  return "without the first " + DurationText(first_ns) + " (" + what + "GPU idle " +
         std::to_string(percent) + " % of it) and last " + DurationText(last_ns) +
         "; tables hold all";
}

}  // namespace gpuprobe::tools

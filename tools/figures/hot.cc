// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/hot.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/attribution/call_site.h"
#include "tools/attribution/places.h"

namespace gpuprobe::tools {
namespace {

constexpr const char* kNoStack = "(no stack)";

// The recording process that a thread belongs to, itself or as the nearest ancestor of a worker.
int32_t OwnerOf(const Timeline& timeline, int32_t process) {
  // Bounded: parents come from files, and may form a ring.
  for (size_t hops = 0; hops < timeline.processes.size(); ++hops) {
    const Process& p = timeline.processes[process];
    if (!p.sampled_only || p.parent < 0) return process;
    process = p.parent;
  }
  return process;
}

// Whether every device is idle at an instant: it lies in a gap of each. Outside of a device's
// window it has no work.
class IdleInstants {
 public:
  explicit IdleInstants(const Analysis& analysis) : analysis_(analysis) {}

  bool At(int64_t ns) const {
    for (const DeviceReport& device : analysis_.devices) {
      if (ns < device.window.start_ns || ns >= device.window.end_ns) continue;
      auto gap = std::upper_bound(device.gaps.begin(), device.gaps.end(), ns,
                                  [](int64_t at, const Gap& g) { return at < g.begin_ns; });
      if (gap == device.gaps.begin() || std::prev(gap)->end_ns <= ns) return false;
    }
    return !analysis_.devices.empty();
  }

 private:
  const Analysis& analysis_;
};

// Who a row is about: a thread (>= 0), or all workers of a process (-1 - process).
using WhoKey = int64_t;

struct Row {
  HotRow row;
  std::map<std::string, uint64_t> details;
};

class HotLines {
 public:
  HotLines(const Timeline& timeline, const Options& options, const std::vector<bool>& idle)
      : timeline_(timeline), options_(options), sites_(timeline), idle_(idle) {}

  HotReport Find() {
    HotReport report;
    for (size_t i = 0; i < timeline_.samples.size(); ++i) {
      const HostSample& sample = timeline_.samples[i];
      if (!InScope(sample)) continue;
      Add(sample, idle_[i]);
      ++report.samples;
    }
    report.sampled_ns = SampledTime();
    const Places places(timeline_);
    for (auto& [key, row] : rows_) {
      row.row.who = WhoText(key.first, places);
      uint64_t most = 0;
      for (const auto& [detail, count] : row.details) {
        if (count <= most) continue;
        most = count;
        row.row.detail = detail;
      }
      report.rows.push_back(std::move(row.row));
    }
    std::stable_sort(report.rows.begin(), report.rows.end(), [](const HotRow& a, const HotRow& b) {
      return a.awake_ns() != b.awake_ns() ? a.awake_ns() > b.awake_ns()
                                          : a.blocked_ns > b.blocked_ns;
    });
    return report;
  }

 private:
  bool InScope(const HostSample& sample) const {
    if (sample.time_ns < options_.from_ns.value_or(std::numeric_limits<int64_t>::min()) ||
        sample.time_ns >= options_.to_ns.value_or(std::numeric_limits<int64_t>::max())) {
      return false;
    }
    if (!options_.pid.has_value()) return true;
    const int32_t process = timeline_.threads[sample.thread].process;
    return timeline_.processes[OwnerOf(timeline_, process)].pid == *options_.pid;
  }

  void Add(const HostSample& sample, bool idle) {
    const int32_t process = timeline_.threads[sample.thread].process;
    WhoKey who = sample.thread;
    if (timeline_.processes[process].sampled_only) {
      who = -1 - int64_t{OwnerOf(timeline_, process)};
      workers_[who].insert(process);
    }
    const int32_t site = sites_.SiteOf(sample.stack);
    const std::string where = site < 0 ? kNoStack : sites_.TextOf(site);
    Row& row = rows_[{who, where}];  // one line may be several nodes
    row.row.where = where;
    ++row.row.samples;
    ++row.details[sites_.Below(sample.stack)];
    const int64_t interval = sample.interval_ns;
    switch (sample.state) {
      case HostState::kRunning: {
        const double cpu = static_cast<double>(sample.cpu_ns);
        const double ready = static_cast<double>(sample.runnable_ns);
        const double share = cpu + ready > 0 ? ready / (cpu + ready) : 0;
        const int64_t runnable = static_cast<int64_t>(share * static_cast<double>(interval));
        row.row.runnable_ns += runnable;
        row.row.on_cpu_ns += interval - runnable;
        break;
      }
      case HostState::kUnknown:
        row.row.unknown_ns += interval;
        break;
      default:
        row.row.blocked_ns += interval;
    }
    if (idle) row.row.gpu_idle_ns += interval;
  }

  std::string WhoText(WhoKey who, const Places& places) const {
    if (who >= 0) return places.ThreadText(static_cast<int32_t>(who));
    const size_t count = workers_.at(who).size();
    return absl::StrCat(count, count == 1 ? " worker of " : " workers of ",
                        timeline_.processes[-1 - who].pid);
  }

  int64_t SampledTime() const {
    int64_t total = 0;
    for (const SampledPeriod& period : timeline_.sampled) {
      const Process& process = timeline_.processes[period.process];
      if (process.sampled_only) continue;
      if (options_.pid.has_value() && process.pid != *options_.pid) continue;
      const int64_t begin = std::max(period.begin_ns, options_.from_ns.value_or(period.begin_ns));
      const int64_t end = std::min(period.end_ns, options_.to_ns.value_or(period.end_ns));
      total += std::max<int64_t>(0, end - begin);
    }
    return total;
  }

  const Timeline& timeline_;
  const Options& options_;
  const CallSites sites_;
  const std::vector<bool>& idle_;  // by sample
  std::map<std::pair<WhoKey, std::string>, Row> rows_;
  std::map<WhoKey, std::set<int32_t>> workers_;
};

}  // namespace

HotReport FindHotLines(const Timeline& timeline, const Analysis& analysis, const Options& options) {
  const IdleInstants instants(analysis);
  std::vector<bool> idle;
  for (const HostSample& sample : timeline.samples) idle.push_back(instants.At(sample.time_ns));
  return FindHotLines(timeline, options, idle);
}

HotReport FindHotLines(const Timeline& timeline, const Options& options,
                       const std::vector<bool>& idle) {
  return HotLines(timeline, options, idle).Find();
}

}  // namespace gpuprobe::tools

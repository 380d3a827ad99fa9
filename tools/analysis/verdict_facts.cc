// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/verdict_facts.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tools/analysis/verdict.h"
#include "tools/steps/step_figures.h"
#include "tools/timeline/host_view.h"

namespace gpuprobe::tools {

Sums SumUp(const Analysis& analysis) {
  Sums sums;
  for (const DeviceReport& device : analysis.devices) {
    sums.span_ns += device.window.span();
    sums.longest_span_ns = std::max(sums.longest_span_ns, device.window.span());
    sums.busy_ns += device.busy_ns;
    sums.compute_ns += device.compute_ns;
    sums.communication_ns += device.communication_ns;
    sums.copy_ns += device.copy_ns;
    sums.ops += device.ops;
    sums.untimed += device.untimed;
    sums.kernels += device.kernels.count;
    sums.kernel_ns += device.kernels.sum_ns;
    for (const CauseTotal& cause : device.causes) {
      const auto c = static_cast<size_t>(cause.cause);
      sums.cause_ns[c] += cause.total_ns;
      if (sums.largest[c] == nullptr || cause.total_ns > sums.largest[c]->total_ns) {
        sums.largest[c] = &cause;
      }
      if (!cause.sites.empty() && cause.sites.front().total_ns > sums.top_site[c].total_ns) {
        sums.top_site[c] = cause.sites.front();
      }
    }
  }
  return sums;
}

Emptiness MeasureEmptiness(const Timeline& timeline, const Analysis& analysis) {
  Emptiness all;
  int64_t most_ns = 0;
  std::vector<std::pair<uint64_t, int64_t>> blocks_and_ns;
  std::vector<bool> collective;  // few blocks are meant to be
  for (const std::string& name : timeline.names) collective.push_back(IsCommunicationKernel(name));
  for (const DeviceReport& device : analysis.devices) {
    const uint32_t sms = timeline.devices[static_cast<size_t>(device.device)].sm_count;
    if (sms == 0 || device.kernels.union_ns <= 0) continue;
    // Kernels that run side by side fill the device together.
    const double at_once =
        static_cast<double>(device.kernels.sum_ns) / static_cast<double>(device.kernels.union_ns);
    double small_ns = 0, wasted_ns = 0;
    for (const GpuOp& op : timeline.ops) {
      if (op.device != device.device || op.kind != OpKind::kKernel || op.shape < 0) continue;
      if (op.name >= 0 && collective[static_cast<size_t>(op.name)]) continue;
      const int64_t begin_ns = std::max(op.start_ns, device.window.start_ns);
      const int64_t ns = std::min(op.end_ns, device.window.end_ns) - begin_ns;
      if (ns <= 0) continue;
      const LaunchShape& shape = timeline.shapes[static_cast<size_t>(op.shape)];
      const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
      const double filled = static_cast<double>(blocks) * at_once / sms;
      if (blocks == 0 || filled >= kFewBlocks) continue;
      ++all.small_kernels;
      small_ns += static_cast<double>(ns) / at_once;
      wasted_ns += static_cast<double>(ns) / at_once * (1 - filled);
      blocks_and_ns.emplace_back(blocks, ns);
    }
    all.small_ns += static_cast<int64_t>(small_ns);
    all.wasted_ns += static_cast<int64_t>(wasted_ns);
    if (static_cast<int64_t>(small_ns) > most_ns) {
      most_ns = static_cast<int64_t>(small_ns);
      all.sm_count = sms;
    }
  }
  std::sort(blocks_and_ns.begin(), blocks_and_ns.end());
  int64_t total_ns = 0, so_far_ns = 0;
  for (const auto& [blocks, ns] : blocks_and_ns) total_ns += ns;
  for (const auto& [blocks, ns] : blocks_and_ns) {
    so_far_ns += ns;
    all.typical_blocks = blocks;
    if (so_far_ns * 2 >= total_ns) break;
  }
  return all;
}

Stall MeasureStalls(const Analysis& analysis) {
  Stall stall;
  for (const DeviceSteps& steps : analysis.steps) {
    if (steps.slow_period < kFewestStepsBetweenStalls || steps.growth.empty()) continue;
    std::vector<WeightedNs> others;
    for (const Step& step : steps.steps) {
      if (!step.slow) others.emplace_back(step.idle_ns, step.stands_for);
    }
    if (others.empty()) continue;
    const int64_t usual_ns = PercentileOf(&others, 0.5);
    int64_t more_ns = 0;
    for (const Step& step : steps.steps) {
      if (step.slow) more_ns += step.stands_for * std::max<int64_t>(0, step.idle_ns - usual_ns);
    }
    stall.total_ns += more_ns;
    if (more_ns > stall.longest_on_ns) {
      stall.longest_on_ns = more_ns;
      stall.device = &steps;
    }
  }
  return stall;
}

double PageableShare(const Timeline& timeline, const Analysis& analysis) {
  double all_ns = 0, pageable_ns = 0;
  for (const DeviceReport& device : analysis.devices) {
    for (const GpuOp& op : timeline.ops) {
      if (op.device != device.device || op.kind != OpKind::kCopy) continue;
      const int64_t ns =
          std::min(op.end_ns, device.window.end_ns) - std::max(op.start_ns, device.window.start_ns);
      if (ns <= 0) continue;
      all_ns += static_cast<double>(ns);
      if (IsPageableCopy(timeline, op)) pageable_ns += static_cast<double>(ns);
    }
  }
  return all_ns > 0 ? pageable_ns / all_ns : 0;
}

int64_t WaitedForRanksNs(const Timeline& timeline, const Analysis& analysis) {
  std::vector<bool> communicates;
  for (const std::string& name : timeline.names) {
    communicates.push_back(IsCommunicationKernel(name));
  }
  int64_t waited_ns = 0;
  for (const DeviceReport& device : analysis.devices) {
    if (device.communication_ns == 0) continue;
    std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> likes;
    for (const GpuOp& op : timeline.ops) {
      if (op.device != device.device || op.name < 0 ||
          !communicates[static_cast<size_t>(op.name)] || op.end_ns > device.window.end_ns ||
          op.start_ns < device.window.start_ns) {
        continue;
      }
      likes[{op.name, op.shape}].push_back(op.end_ns - op.start_ns);
    }
    int64_t device_ns = 0;
    for (auto& [key, times] : likes) {
      if (times.size() < kFewestLikes) continue;
      const auto quarter = times.begin() + static_cast<ptrdiff_t>(times.size() / 4);
      std::nth_element(times.begin(), quarter, times.end());
      const int64_t usual_ns = kLateFactor * *quarter;
      for (const int64_t ns : times) device_ns += std::max<int64_t>(0, ns - usual_ns);
    }
    waited_ns += std::min(device_ns, device.communication_ns);
  }
  return waited_ns;
}

int64_t BytesReadBefore(const Timeline& timeline, int32_t call) {
  if (call < 0) return -1;
  const HostCall& wait = timeline.calls[static_cast<size_t>(call)];
  constexpr int kLookBack = 64;  // calls of other threads lie between
  int32_t before = call - 1;
  for (int looked = 0; before >= 0 && looked < kLookBack; --before, ++looked) {
    if (timeline.calls[static_cast<size_t>(before)].thread == wait.thread) break;
  }
  if (before < 0 || timeline.calls[static_cast<size_t>(before)].thread != wait.thread) return -1;
  for (const GpuOp& op : timeline.ops) {
    if (op.submission != before) continue;
    if (op.kind != OpKind::kCopy || op.shape < 0) return -1;
    const bool to_host = timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind == 2;
    return to_host ? static_cast<int64_t>(op.bytes) : -1;
  }
  return -1;
}

const std::string* UnreadPython(const Timeline& timeline, const SiteTotal& site) {
  if (site.where.find(".py:") != site.where.npos) return nullptr;
  for (const Process& process : timeline.processes) {
    if (!process.sampled_only && !process.python_unread.empty()) return &process.python_unread;
  }
  return nullptr;
}

bool IsCode(std::string_view where) {
  return where.find(".py:") != where.npos || where.find(".so") != where.npos;
}

std::string AtCode(const SiteTotal& site) { return IsCode(site.where) ? " at " + site.where : ""; }

bool Mentions(const SiteTotal& site, std::string_view word) {
  return site.where.find(word) != std::string::npos || site.detail.find(word) != std::string::npos;
}

std::string DetailText(const SiteTotal& site) {
  if (site.detail.empty()) return "";
  constexpr double kNearlyAll = 0.9;
  // Of what a line calls; how else it stood there is told by the cause.
  const bool partly =
      site.detail.starts_with("cu") && site.detail_ns > 0 &&
      static_cast<double>(site.detail_ns) < kNearlyAll * static_cast<double>(site.total_ns);
  const double part = static_cast<double>(site.detail_ns);
  const double whole = static_cast<double>(site.total_ns);
  return " (" + site.detail + (partly ? " for " + PercentText(part, whole) : "") + ")";
}

bool IsRowOf(const WaitRow& row, const SiteTotal& site) {
  if (row.where == site.where) return true;
  for (const char* opening : {"(pid ", "(thread "}) {  // "cudaMalloc (thread 11 main)"
    const size_t at = site.where.find(opening);
    if (at == site.where.npos || site.where.back() != ')') continue;
    return row.where.ends_with(site.where.substr(at + 1, site.where.size() - at - 2));
  }
  return false;
}

std::string MeanwhileText(const Meanwhile& meanwhile) {
  if (meanwhile.samples == 0) return meanwhile.who + " was not sampled";
  std::string text = meanwhile.who + (meanwhile.thread_count == 1 ? " was " : " were ") +
                     PercentText(meanwhile.on_cpu, 1) + " of that time on a CPU";
  constexpr double kWorthNaming = 0.05;
  if (meanwhile.runnable >= kWorthNaming) {
    text += ", " + PercentText(meanwhile.runnable, 1) + " waiting for one";
  }
  const double blocked = 1 - meanwhile.on_cpu - meanwhile.runnable;
  if (blocked >= 0.5) text += ", " + PercentText(blocked, 1) + " blocked";
  if (!meanwhile.sites.empty()) {
    text += ", " + PercentText(meanwhile.sites.front().share, 1) + " in " +
            meanwhile.sites.front().where;
  }
  return text;
}

std::string PercentText(double part, double whole) {
  const double percent = whole > 0 ? 100.0 * part / whole : 0.0;
  return percent > 0 && percent < 9.95 ? FormatText("%.1f %%", percent)
                                       : FormatText("%.0f %%", percent);
}

std::string CountText(uint64_t count, const char* noun) {
  std::string digits = std::to_string(count);  // 9,982,487, as the tables below it have it
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits + " " + noun + (count == 1 ? "" : "s");
}

std::string RateText(double rate) {
  if (rate > 0 && rate < 0.001) return "less than 0.001";
  return rate >= 999.5 ? FormatText("%.0f", rate) : FormatText("%.3g", rate);
}

std::string DurationText(int64_t ns) {
  static constexpr struct {
    double ns;
    const char* unit;
  } kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  for (const auto& unit : kUnits) {
    const double value = static_cast<double>(ns) / unit.ns;
    // 999.5 of the smaller unit would be printed with four digits.
    if (value < 0.9995 && unit.ns > 1) continue;
    const int decimals = unit.ns == 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return FormatText("%.*f %s", decimals, value, unit.unit);
  }
  return "";
}

}  // namespace gpuprobe::tools

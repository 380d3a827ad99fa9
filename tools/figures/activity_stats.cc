// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/activity_stats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

// Durations, bytes and failures by group while they are collected.
struct Group {
  std::vector<int64_t> durations;
  uint64_t bytes = 0, failed = 0;
};

class Filter {
 public:
  Filter(const Timeline& timeline, const Analysis& analysis, const Options& options)
      : timeline_(timeline), options_(options), windows_(timeline.devices.size()) {
    for (const DeviceReport& device : analysis.devices) {
      if (device.device < 0 || static_cast<size_t>(device.device) >= windows_.size()) continue;
      windows_[static_cast<size_t>(device.device)] = device.window;
      wall_ns_ += device.window.span();
      first_ns_ = std::min(first_ns_, device.window.start_ns);
      last_ns_ = std::max(last_ns_, device.window.end_ns);
    }
  }

  bool WantsProcess(int32_t process) const {
    return !options_.pid.has_value() ||
           timeline_.processes[static_cast<size_t>(process)].pid == *options_.pid;
  }
  bool WantsDevice(int32_t device) const {
    return !options_.device.has_value() || *options_.device == device;
  }
  bool Wants(const GpuOp& op) const {
    if (!WantsDevice(op.device) || !WantsProcess(op.process)) return false;
    const std::optional<Window>& window = windows_[static_cast<size_t>(op.device)];
    // A zero-length operation may stand at the very end of the window that it defines.
    return window.has_value() && op.start_ns >= window->start_ns &&
           (op.start_ns < window->end_ns || op.end_ns == window->end_ns);
  }
  bool Wants(const UntimedOp& op) const {
    return WantsDevice(op.device) && WantsProcess(op.process);
  }
  bool Wants(const HostCall& call) const {
    if (!WantsProcess(call.process)) return false;
    if (options_.from_ns.has_value() && call.start_ns < *options_.from_ns) return false;
    if (options_.to_ns.has_value() && call.start_ns >= *options_.to_ns) return false;
    return true;
  }
  int64_t wall_ns() const { return wall_ns_; }
  int64_t enclosing_ns() const { return last_ns_ > first_ns_ ? last_ns_ - first_ns_ : 0; }

 private:
  const Timeline& timeline_;
  const Options& options_;
  std::vector<std::optional<Window>> windows_;
  int64_t wall_ns_ = 0, first_ns_ = INT64_MAX, last_ns_ = INT64_MIN;
};

void AddRow(ActivityRow row, Group* group, ActivityTable* table) {
  row.bytes = group->bytes;
  row.failed = group->failed;
  row.stats = ComputeStats(&group->durations);
  table->total_ns += row.stats.total_ns;
  table->rows.push_back(std::move(row));
}

template <typename Wanted>
uint64_t CountUntimed(const Timeline& timeline, const Filter& filter, Wanted wanted) {
  return static_cast<uint64_t>(
      std::count_if(timeline.untimed.begin(), timeline.untimed.end(),
                    [&](const UntimedOp& op) { return wanted(op.kind) && filter.Wants(op); }));
}

}  // namespace

void SortRows(ActivityTable* table) {
  std::sort(table->rows.begin(), table->rows.end(), [](const ActivityRow& a, const ActivityRow& b) {
    if (a.stats.total_ns != b.stats.total_ns) return a.stats.total_ns > b.stats.total_ns;
    return std::pair(std::string_view(a.name), std::string_view(a.mangled)) <
           std::pair(std::string_view(b.name), std::string_view(b.mangled));
  });
}

std::string GraphRowName(const Timeline& timeline, int32_t process, uint32_t graph_id) {
  std::string name = absl::StrCat("CUDA graph ", graph_id);
  if (TracedProcesses(timeline) > 1) {
    absl::StrAppend(&name, " of process ", timeline.processes[static_cast<size_t>(process)].pid);
  }
  return name;
}

DurationStats ComputeStats(std::vector<int64_t>* durations) {
  DurationStats stats;
  stats.count = durations->size();
  if (durations->empty()) return stats;
  const auto [low, high] = std::minmax_element(durations->begin(), durations->end());
  stats.min_ns = *low;
  stats.max_ns = *high;
  for (int64_t d : *durations) stats.total_ns += d;
  const double mean = static_cast<double>(stats.total_ns) / static_cast<double>(stats.count);
  stats.avg_ns = std::llround(mean);
  double squares = 0;
  for (int64_t d : *durations)
    squares += (static_cast<double>(d) - mean) * (static_cast<double>(d) - mean);
  if (stats.count > 1)
    stats.stddev_ns = std::llround(std::sqrt(squares / static_cast<double>(stats.count - 1)));

  const auto middle = durations->begin() + static_cast<ptrdiff_t>(stats.count / 2);
  std::nth_element(durations->begin(), middle, durations->end());
  stats.med_ns = *middle;
  if (stats.count % 2 == 0) {
    const int64_t below = *std::max_element(durations->begin(), middle);
    stats.med_ns = below + (*middle - below) / 2;
  }
  return stats;
}

ActivityTable KernelTable(const Timeline& timeline, const Analysis& analysis,
                          const Options& options) {
  const Filter filter(timeline, analysis, options);
  // One group per name; graphs by process and id, which only has a meaning inside its process.
  std::vector<Group> kernels(timeline.names.size() + 1);
  std::map<std::pair<int32_t, uint32_t>, Group> graphs;
  for (const GpuOp& op : timeline.ops) {
    if (op.kind != OpKind::kKernel && op.kind != OpKind::kGraph) continue;
    if (!filter.Wants(op)) continue;
    Group& group = op.kind == OpKind::kGraph ? graphs[{op.process, op.graph_id}]
                                             : kernels[static_cast<size_t>(op.name + 1)];
    group.durations.push_back(op.end_ns - op.start_ns);
  }
  ActivityTable table;
  for (size_t name = 0; name < kernels.size(); ++name) {
    if (kernels[name].durations.empty()) continue;
    ActivityRow row;
    row.mangled = name == 0 ? "" : timeline.names[name - 1];
    row.name = name == 0 ? "(no name)" : Demangle(row.mangled);
    AddRow(std::move(row), &kernels[name], &table);
  }
  for (auto& [key, group] : graphs) {
    ActivityRow row;
    row.name = GraphRowName(timeline, key.first, key.second);
    AddRow(std::move(row), &group, &table);
  }
  SortRows(&table);
  table.wall_ns = filter.wall_ns();
  table.untimed = CountUntimed(timeline, filter, [](OpKind kind) {
    return kind == OpKind::kKernel || kind == OpKind::kGraph;
  });
  return table;
}

ActivityTable CopyTable(const Timeline& timeline, const Analysis& analysis,
                        const Options& options) {
  const Filter filter(timeline, analysis, options);
  std::map<std::string, Group> groups;
  std::vector<Group*> by_shape(timeline.copy_shapes.size() + 1, nullptr);
  Group* sets = nullptr;
  KernelNames names(timeline.names);
  for (const GpuOp& op : timeline.ops) {
    if (op.kind != OpKind::kCopy && op.kind != OpKind::kSet) continue;
    if (!filter.Wants(op)) continue;
    Group*& group = op.kind == OpKind::kSet ? sets : by_shape[static_cast<size_t>(op.shape + 1)];
    if (group == nullptr) group = &groups[OpLabel(timeline, op, kReportWidth, &names)];
    group->durations.push_back(op.end_ns - op.start_ns);
    group->bytes += op.bytes;
  }
  ActivityTable table;
  for (auto& [name, group] : groups) {
    ActivityRow row;
    row.name = name;
    AddRow(std::move(row), &group, &table);
  }
  SortRows(&table);
  table.wall_ns = filter.wall_ns();
  table.untimed = CountUntimed(
      timeline, filter, [](OpKind kind) { return kind == OpKind::kCopy || kind == OpKind::kSet; });
  return table;
}

ActivityTable ApiTable(const Timeline& timeline, const Analysis& analysis, const Options& options) {
  const Filter filter(timeline, analysis, options);
  std::vector<Group> groups(timeline.symbols.size() + 1);
  for (const HostCall& call : timeline.calls) {
    if (!filter.Wants(call)) continue;
    Group& group = groups[static_cast<size_t>(call.symbol + 1)];
    group.durations.push_back(call.end_ns - call.start_ns);
    group.failed += call.result != 0;
  }
  ActivityTable table;
  for (size_t symbol = 0; symbol < groups.size(); ++symbol) {
    if (groups[symbol].durations.empty()) continue;
    ActivityRow row;
    row.name = symbol == 0 ? "(unknown call)" : timeline.symbols[symbol - 1].name;
    AddRow(std::move(row), &groups[symbol], &table);
  }
  SortRows(&table);
  table.wall_ns = filter.enclosing_ns();
  return table;
}

}  // namespace gpuprobe::tools

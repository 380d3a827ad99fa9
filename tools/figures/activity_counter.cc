// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/activity_counter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "tools/format/kernel_name.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

// 64 buckets an octave.
constexpr int kBucketBits = 6;

}  // namespace

int64_t DurationCounter::BucketOf(int64_t ns) {
  const int width = std::bit_width(static_cast<uint64_t>(ns));
  if (width <= kBucketBits + 1) return ns;
  const int shift = width - kBucketBits - 1;
  return ((ns >> shift) << shift) + (int64_t{1} << (shift - 1));
}

void DurationCounter::Add(int64_t ns) {
  ++count_;
  total_ns_ += ns;
  min_ns_ = std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  squares_ += static_cast<unsigned __int128>(ns) * static_cast<uint64_t>(ns);
  ++values_[exact_ ? ns : BucketOf(ns)];
  if (!exact_ || values_.size() <= kMostDistinct) return;
  exact_ = false;
  absl::flat_hash_map<int64_t, uint64_t> buckets;
  for (const auto& [value, count] : values_) buckets[BucketOf(value)] += count;
  values_ = std::move(buckets);
}

int64_t DurationCounter::ValueAt(uint64_t rank,
                                 const std::vector<std::pair<int64_t, uint64_t>>& sorted) const {
  for (const auto& [value, count] : sorted) {
    if (rank < count) return std::clamp(value, min_ns_, max_ns_);
    rank -= count;
  }
  return max_ns_;
}

DurationStats DurationCounter::Stats() const {
  DurationStats stats;
  stats.count = count_;
  if (count_ == 0) return stats;
  stats.total_ns = total_ns_;
  stats.med_exact = exact_;
  stats.min_ns = min_ns_;
  stats.max_ns = max_ns_;
  const long double n = static_cast<long double>(count_);
  stats.avg_ns = std::llround(static_cast<double>(total_ns_) / static_cast<double>(count_));
  if (count_ > 1) {
    // n * squares - total^2 fits: durations of a run add up to less than 2^62.
    const long double total = static_cast<long double>(total_ns_);
    const long double variance = (static_cast<long double>(squares_) - total * total / n) / (n - 1);
    stats.stddev_ns = std::llround(std::sqrt(std::max(variance, 0.0L)));
  }
  std::vector<std::pair<int64_t, uint64_t>> sorted(values_.begin(), values_.end());
  std::sort(sorted.begin(), sorted.end());
  stats.med_ns = ValueAt(count_ / 2, sorted);
  if (count_ % 2 == 0) {
    const int64_t below = ValueAt(count_ / 2 - 1, sorted);
    stats.med_ns = below + (stats.med_ns - below) / 2;
  }
  return stats;
}

bool ActivityCounter::WantsProcess(const Timeline& timeline, int32_t process) const {
  return !options_.pid.has_value() ||
         timeline.processes[static_cast<size_t>(process)].pid == *options_.pid;
}

// As the tables of a whole run: a zero-length operation may stand at the end of the device's
// window.
bool ActivityCounter::InWindow(int64_t start_ns, int64_t end_ns) const {
  if (options_.from_ns.has_value() && start_ns < *options_.from_ns) return false;
  return !options_.to_ns.has_value() || start_ns < *options_.to_ns || end_ns == *options_.to_ns;
}

ActivityCounter::Group* ActivityCounter::CopyGroup(const Timeline& timeline, const GpuOp& op) {
  const auto shape = static_cast<size_t>(op.shape + 1);
  if (copies_by_shape_.size() <= shape) copies_by_shape_.resize(timeline.copy_shapes.size() + 1);
  Group*& group = op.kind == OpKind::kSet ? sets_ : copies_by_shape_[shape];
  if (group == nullptr) {
    KernelNames names(timeline.names);
    group = &copies_[OpLabel(timeline, op, kReportWidth, &names)];
  }
  return group;
}

void ActivityCounter::Add(const Timeline& timeline, const GpuOp& op) {
  if (options_.device.has_value() && op.device != *options_.device) return;
  if (!WantsProcess(timeline, op.process) || !InWindow(op.start_ns, op.end_ns)) return;
  Group* group = nullptr;
  if (op.kind == OpKind::kKernel) {
    if (kernels_.size() < timeline.names.size() + 1) kernels_.resize(timeline.names.size() + 1);
    group = &kernels_[static_cast<size_t>(op.name + 1)];
  } else if (op.kind == OpKind::kGraph) {
    group = &graphs_[{op.process, op.graph_id}];
  } else {
    group = CopyGroup(timeline, op);
  }
  group->durations.Add(op.end_ns - op.start_ns);
  group->bytes += op.bytes;
}

void ActivityCounter::Add(const Timeline& timeline, const HostCall& call) {
  if (!WantsProcess(timeline, call.process)) return;
  if (options_.from_ns.has_value() && call.start_ns < *options_.from_ns) return;
  if (options_.to_ns.has_value() && call.start_ns >= *options_.to_ns) return;
  if (calls_.size() < timeline.symbols.size() + 1) calls_.resize(timeline.symbols.size() + 1);
  Group& group = calls_[static_cast<size_t>(call.symbol + 1)];
  group.durations.Add(call.end_ns - call.start_ns);
  group.failed += call.result != 0;
}

void ActivityCounter::Add(const Timeline& timeline, const UntimedOp& op) {
  if (options_.device.has_value() && op.device != *options_.device) return;
  if (!WantsProcess(timeline, op.process)) return;
  const bool kernel = op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
  ++(kernel ? untimed_kernels_ : untimed_copies_);
}

void ActivityCounter::AddRow(ActivityRow row, const Group& group, ActivityTable* table) {
  if (group.durations.count() == 0) return;
  row.bytes = group.bytes;
  row.failed = group.failed;
  row.stats = group.durations.Stats();
  table->total_ns += row.stats.total_ns;
  table->rows.push_back(std::move(row));
}

ActivityTables ActivityCounter::Take(const Timeline& timeline, const Analysis& analysis) {
  ActivityTables tables;
  for (size_t name = 0; name < kernels_.size(); ++name) {
    ActivityRow row;
    row.mangled = name == 0 ? "" : timeline.names[name - 1];
    row.name = name == 0 ? "(no name)" : Demangle(row.mangled);
    AddRow(std::move(row), kernels_[name], &tables.kernels);
  }
  for (const auto& [key, group] : graphs_) {
    ActivityRow row;
    row.name = GraphRowName(timeline, key.first, key.second);
    AddRow(std::move(row), group, &tables.kernels);
  }
  for (const auto& [name, group] : copies_) {
    ActivityRow row;
    row.name = name;
    AddRow(std::move(row), group, &tables.copies);
  }
  for (size_t symbol = 0; symbol < calls_.size(); ++symbol) {
    ActivityRow row;
    row.name = symbol == 0 ? "(unknown call)" : timeline.symbols[symbol - 1].name;
    AddRow(std::move(row), calls_[symbol], &tables.api);
  }
  tables.kernels.untimed = untimed_kernels_;
  tables.copies.untimed = untimed_copies_;
  int64_t first_ns = INT64_MAX, last_ns = INT64_MIN, wall_ns = 0;
  for (const DeviceReport& device : analysis.devices) {
    wall_ns += device.window.span();
    first_ns = std::min(first_ns, device.window.start_ns);
    last_ns = std::max(last_ns, device.window.end_ns);
  }
  tables.kernels.wall_ns = tables.copies.wall_ns = wall_ns;
  tables.api.wall_ns = last_ns > first_ns ? last_ns - first_ns : 0;
  for (ActivityTable* table : {&tables.kernels, &tables.copies, &tables.api}) SortRows(table);
  return tables;
}

}  // namespace gpuprobe::tools

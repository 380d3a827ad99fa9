// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/device_activity.h"

#include <algorithm>

namespace gpuprobe::tools {

Scope::Scope(const Timeline& timeline, const Options& options)
    : one_pid_(options.pid.has_value()), contains_(timeline.processes.size(), true) {
  for (size_t p = 0; p < contains_.size(); ++p) {
    contains_[p] = !options.pid || timeline.processes[p].pid == *options.pid;
  }
}

std::vector<DeviceActivity> CollectActivity(const Timeline& timeline, const Options& options,
                                            const Scope& scope) {
  const size_t device_count = timeline.devices.size();
  const auto wanted = [&](int32_t device) {
    return device >= 0 && static_cast<size_t>(device) < device_count &&
           (!options.device || *options.device == device);
  };
  std::vector<size_t> count(device_count, 0);
  std::vector<bool> present(device_count, false);
  for (const GpuOp& op : timeline.ops) {
    if (wanted(op.device) && scope.Contains(op.process)) ++count[op.device];
  }
  for (const UntimedOp& op : timeline.untimed) {
    if (wanted(op.device) && scope.Contains(op.process)) present[op.device] = true;
  }
  std::vector<DeviceActivity> result;
  std::vector<int32_t> slot(device_count, -1);
  for (size_t d = 0; d < device_count; ++d) {
    const bool asked = options.device && *options.device == static_cast<int32_t>(d);
    if (count[d] == 0 && !present[d] && !asked) continue;
    slot[d] = static_cast<int32_t>(result.size());
    result.emplace_back().device = static_cast<int32_t>(d);
    result.back().processes.assign(timeline.processes.size(), false);
    result.back().ops.reserve(count[d]);
  }
  for (size_t i = 0; i < timeline.ops.size(); ++i) {
    const GpuOp& op = timeline.ops[i];
    if (!wanted(op.device) || slot[op.device] < 0) continue;
    DeviceActivity& activity = result[slot[op.device]];
    if (scope.Contains(op.process)) {
      activity.ops.push_back(static_cast<int32_t>(i));
      if (op.process >= 0) activity.processes[op.process] = true;
      activity.busy.Add(op.start_ns, op.end_ns);
    } else {
      activity.others.Add(op.start_ns, op.end_ns, op.process);
    }
  }
  for (const UntimedOp& op : timeline.untimed) {
    if (!wanted(op.device) || op.process < 0 || !scope.Contains(op.process)) continue;
    result[slot[op.device]].processes[op.process] = true;
  }
  return result;
}

namespace {

struct Sweep {
  UnionLength kernels, copies, sets, graphs;
  // Nested: compute; compute or communication; anything. Their differences are the breakdown.
  UnionLength compute, working, busy;
};

class DeviceMeter {
 public:
  DeviceMeter(const Timeline& timeline, const Options& options, const DeviceActivity& activity)
      : timeline_(timeline), options_(options), activity_(activity) {
    communication_name_.reserve(timeline.names.size());
    for (const std::string& name : timeline.names) {
      communication_name_.push_back(IsCommunicationKernel(name));
    }
    report_.device = activity.device;
    SetWindow();
  }

  DeviceReport Run() {
    for (const int32_t index : activity_.ops) Measure(timeline_.ops[index]);
    report_.kernels.union_ns = sweep_.kernels.total();
    report_.copies.union_ns = sweep_.copies.total();
    report_.sets.union_ns = sweep_.sets.total();
    report_.graphs.union_ns = sweep_.graphs.total();
    report_.busy_ns = sweep_.busy.total();
    report_.idle_ns = report_.window.span() - report_.busy_ns;
    report_.compute_ns = sweep_.compute.total();
    report_.communication_ns = sweep_.working.total() - sweep_.compute.total();
    report_.copy_ns = sweep_.busy.total() - sweep_.working.total();
    FindGaps();
    report_.all_gaps = report_.gaps.size();
    return std::move(report_);
  }

 private:
  void SetWindow() {
    Window& window = report_.window;
    if (!activity_.ops.empty()) {
      window.start_ns = window.end_ns = timeline_.ops[activity_.ops.front()].start_ns;
      for (const int32_t index : activity_.ops) {
        window.end_ns = std::max(window.end_ns, timeline_.ops[index].end_ns);
      }
    } else {
      window.start_ns = options_.from_ns.value_or(options_.to_ns.value_or(0));
      window.end_ns = options_.to_ns.value_or(window.start_ns);
    }
    if (options_.from_ns) window.start_ns = *options_.from_ns;
    if (options_.to_ns) window.end_ns = *options_.to_ns;
    window.end_ns = std::max(window.end_ns, window.start_ns);
  }

  // An operation without length counts where it stands; the window's own last one stands at its
  // end.
  bool InWindow(const GpuOp& op, int64_t begin, int64_t end) const {
    if (begin < end) return true;
    return op.start_ns == op.end_ns && op.start_ns >= report_.window.start_ns &&
           (op.start_ns < report_.window.end_ns ||
            (op.start_ns == report_.window.end_ns && !options_.to_ns));
  }

  OpClass ClassOf(const GpuOp& op) const {
    switch (op.kind) {
      case OpKind::kKernel:
        return op.op_class == OpClass::kCommunication ||
                       (op.name >= 0 && communication_name_[op.name])
                   ? OpClass::kCommunication
                   : OpClass::kCompute;
      case OpKind::kGraph:
        return OpClass::kCompute;
      case OpKind::kCopy:
      case OpKind::kSet:
        break;
    }
    return OpClass::kCopy;
  }

  void Measure(const GpuOp& op) {
    const int64_t begin = std::max(op.start_ns, report_.window.start_ns);
    const int64_t end = std::min(op.end_ns, report_.window.end_ns);
    if (!InWindow(op, begin, end)) return;
    CountKind(op, begin, end);
    CountSubmission(op);
    const OpClass op_class = ClassOf(op);
    if (op_class == OpClass::kCompute) sweep_.compute.Add(begin, end);
    if (op_class != OpClass::kCopy) sweep_.working.Add(begin, end);
    sweep_.busy.Add(begin, end);
  }

  void CountKind(const GpuOp& op, int64_t begin, int64_t end) {
    const auto move = [&](MoveStats& stats, UnionLength& length) {
      ++stats.count;
      stats.bytes += op.bytes;
      stats.sum_ns += end - begin;
      length.Add(begin, end);
    };
    switch (op.kind) {
      case OpKind::kKernel:
        ++report_.kernels.count;
        if (op.start_ns == op.end_ns) ++report_.kernels.zero_length;
        report_.kernels.sum_ns += end - begin;
        sweep_.kernels.Add(begin, end);
        break;
      case OpKind::kCopy:
        move(report_.copies, sweep_.copies);
        break;
      case OpKind::kSet:
        move(report_.sets, sweep_.sets);
        break;
      case OpKind::kGraph:
        move(report_.graphs, sweep_.graphs);
        break;
    }
  }

  void CountSubmission(const GpuOp& op) {
    ++report_.ops;
    if (op.submission < 0) return;
    ++report_.ops_with_submission;
    const int64_t skew = timeline_.calls[op.submission].start_ns - op.start_ns;
    if (skew <= 0) return;
    ++report_.ops_before_submission;
    report_.largest_skew_ns = std::max(report_.largest_skew_ns, skew);
  }

  // Of the operations that start together at ops[position], the one that ended the gap: the first
  // whose submission began; one of known submission rather than one of unknown.
  int32_t FirstSubmitted(size_t position) const {
    const auto& ops = activity_.ops;
    const int64_t start = timeline_.ops[ops[position]].start_ns;
    int32_t best = ops[position];
    for (++position; position < ops.size(); ++position) {
      const GpuOp& op = timeline_.ops[ops[position]];
      if (op.start_ns != start) break;
      const int32_t best_call = timeline_.ops[best].submission;
      if (op.submission < 0) continue;
      if (best_call < 0 ||
          timeline_.calls[op.submission].start_ns < timeline_.calls[best_call].start_ns) {
        best = ops[position];
      }
    }
    return best;
  }

  void FindGaps() {
    const auto& ops = activity_.ops;
    // Upper bound; what is not used is never touched and costs address space alone.
    report_.gaps.reserve(ops.size() + 1);
    if (ops.empty()) return AddGap(report_.window.start_ns, report_.window.end_ns, -1, -1);
    int32_t previous = -1;
    int64_t busy_until = report_.window.start_ns;
    for (size_t i = 0; i < ops.size(); ++i) {
      const GpuOp& op = timeline_.ops[ops[i]];
      if (op.start_ns > busy_until) AddGap(busy_until, op.start_ns, previous, FirstSubmitted(i));
      if (previous < 0 || op.end_ns >= timeline_.ops[previous].end_ns) previous = ops[i];
      busy_until = std::max(busy_until, op.end_ns);
    }
    AddGap(busy_until, report_.window.end_ns, previous, -1);
  }

  void AddGap(int64_t begin, int64_t end, int32_t previous, int32_t next) {
    begin = std::max(begin, report_.window.start_ns);
    end = std::min(end, report_.window.end_ns);
    if (begin >= end) return;
    Gap& gap = report_.gaps.emplace_back();
    gap.begin_ns = begin;
    gap.end_ns = end;
    gap.previous_op = previous;
    gap.next_op = next;
    if (gap.length_ns() < options_.min_gap_ns) return;
    ++report_.listed_gaps;
    report_.listed_gaps_ns += gap.length_ns();
  }

  const Timeline& timeline_;
  const Options& options_;
  const DeviceActivity& activity_;
  std::vector<bool> communication_name_;
  Sweep sweep_;
  DeviceReport report_;
};

void CountUntimed(const Timeline& timeline, const Scope& scope, DeviceReport* report) {
  for (const UntimedOp& op : timeline.untimed) {
    if (op.device != report->device || !scope.Contains(op.process)) continue;
    ++report->untimed;
    if (op.timing == 1) ++report->untimed_missing;
    if (op.timing == 2) ++report->untimed_unfinished;
    if (op.timing == 3) ++report->untimed_invalid;
  }
}

}  // namespace

DeviceReport MeasureDevice(const Timeline& timeline, const Options& options, const Scope& scope,
                           const DeviceActivity& activity) {
  DeviceReport report = DeviceMeter(timeline, options, activity).Run();
  CountUntimed(timeline, scope, &report);
  return report;
}

}  // namespace gpuprobe::tools

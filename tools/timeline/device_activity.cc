// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/device_activity.h"

#include <algorithm>
#include <utility>

#include "tools/timeline/huge_vector.h"

namespace gpuprobe::tools {

Scope::Scope(const Timeline& timeline, const Options& options)
    : one_pid_(options.pid.has_value()), contains_(timeline.processes.size(), true) {
  for (size_t p = 0; p < contains_.size(); ++p) {
    contains_[p] = !options.pid || timeline.processes[p].pid == *options.pid;
  }
}

size_t DeviceActivity::FirstReaching(const Timeline& timeline, const Window& window) const {
  if (coarse) return 0;
  // What began before the last busy time that is under way or over had ended by then.
  const int64_t from_ns = busy.LastBeginBy(window.start_ns);
  const auto first = std::partition_point(
      ops.begin(), ops.end(), [&](int32_t op) { return timeline.ops[op].start_ns < from_ns; });
  return static_cast<size_t>(first - ops.begin());
}

namespace {

// Upper bounds; what is not used is never touched and costs address space alone.
std::vector<size_t> OpsOfDevices(const Timeline& timeline) {
  std::vector<size_t> ops(timeline.devices.size(), 0);
  if (ops.size() == 1) {
    ops[0] = timeline.ops.size();
    return ops;
  }
  for (const GpuOp& op : timeline.ops) {
    if (op.device >= 0 && static_cast<size_t>(op.device) < ops.size()) ++ops[op.device];
  }
  return ops;
}

}  // namespace

std::vector<DeviceActivity> CollectActivity(const Timeline& timeline, const Options& options,
                                            const Scope& scope, Busy busy) {
  const size_t device_count = timeline.devices.size();
  const auto wanted = [&](int32_t device) {
    return device >= 0 && static_cast<size_t>(device) < device_count &&
           (!options.device || *options.device == device);
  };
  std::vector<bool> present(device_count, false);
  for (const UntimedOp& op : timeline.untimed) {
    if (wanted(op.device) && scope.Contains(op.process)) present[op.device] = true;
  }
  // Devices that turn out to have nothing in scope are left out in the end.
  std::vector<DeviceActivity> all(device_count);
  const std::vector<size_t> ops_of_device = OpsOfDevices(timeline);
  for (size_t d = 0; d < device_count; ++d) {
    if (!wanted(static_cast<int32_t>(d))) continue;
    all[d].device = static_cast<int32_t>(d);
    all[d].ops.reserve(ops_of_device[d]);
    if (busy == Busy::kCollected) all[d].busy.Reserve(ops_of_device[d]);
  }
  const auto note_process = [&](DeviceActivity& activity, int32_t process) {
    if (activity.processes.empty()) activity.processes.assign(timeline.processes.size(), false);
    if (process >= 0) activity.processes[process] = true;
  };
  int32_t noted_device = -1, noted_process = -1;  // of the operation before, as a rule
  for (size_t i = 0; i < timeline.ops.size(); ++i) {
    const GpuOp& op = timeline.ops[i];
    if (!wanted(op.device)) continue;
    DeviceActivity& activity = all[op.device];
    if (!scope.Contains(op.process)) {
      activity.others.Add(op.start_ns, op.end_ns, op.process);
      continue;
    }
    activity.ops.push_back(static_cast<int32_t>(i));
    if (busy == Busy::kCollected) activity.busy.Add(op.start_ns, op.end_ns);
    activity.end_ns = std::max(activity.end_ns, op.end_ns);
    if (noted_device != op.device || noted_process != op.process) {
      note_process(activity, op.process);
      noted_device = op.device;
      noted_process = op.process;
    }
  }
  std::vector<DeviceActivity> result;
  for (size_t d = 0; d < device_count; ++d) {
    const bool asked = options.device && *options.device == static_cast<int32_t>(d);
    if (all[d].ops.empty() && !present[d] && !asked) continue;
    note_process(all[d], -1);
    result.push_back(std::move(all[d]));
  }
  if (result.empty()) return result;
  std::vector<int32_t> slot(device_count, -1);
  for (size_t r = 0; r < result.size(); ++r) slot[result[r].device] = static_cast<int32_t>(r);
  for (const UntimedOp& op : timeline.untimed) {
    if (!wanted(op.device) || op.process < 0 || !scope.Contains(op.process)) continue;
    result[slot[op.device]].processes[op.process] = true;
  }
  return result;
}

StreamCounts::Lead StreamCounts::Busiest() const {
  Lead lead;
  const auto offer = [&](int32_t process, int32_t stream, size_t count) {
    if (count > lead.count || (count == lead.count && count > 0 &&
                               std::pair(process, stream) < std::pair(lead.process, lead.stream))) {
      lead = {process, stream, count};
    }
  };
  for (const auto& [key, count] : others_) offer(key.first, key.second, count);
  for (size_t s = 0; s < of_own_.size(); ++s) {
    offer(timeline_.streams[s].process, static_cast<int32_t>(s), of_own_[s]);
  }
  return lead;
}

std::vector<bool> CommunicationNames(const Timeline& timeline) {
  std::vector<bool> result;
  result.reserve(timeline.names.size());
  for (const std::string& name : timeline.names) result.push_back(IsCommunicationKernel(name));
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
  DeviceMeter(const Timeline& timeline, const Options& options,
              const std::vector<bool>& communication_names, const DeviceActivity& activity,
              StreamCounts* streams)
      : timeline_(timeline),
        options_(options),
        communication_names_(communication_names),
        activity_(activity),
        streams_(streams) {
    report_.device = activity.device;
    SetWindow();
  }

  DeviceReport Run(Measured what) {
    switch (what) {
      case Measured::kAll:
        ReadOps<true, true>();
        break;
      case Measured::kGaps:
        ReadOps<true, false>();
        report_.all_gaps = report_.gaps.size();
        return std::move(report_);
      case Measured::kSums:
        ReadOps<false, true>();
        break;
    }
    report_.kernels.union_ns = sweep_.kernels.total();
    report_.copies.union_ns = sweep_.copies.total();
    report_.sets.union_ns = sweep_.sets.total();
    report_.graphs.union_ns = sweep_.graphs.total();
    report_.busy_ns = sweep_.busy.total();
    report_.idle_ns = report_.window.span() - report_.busy_ns;
    report_.compute_ns = sweep_.compute.total();
    report_.communication_ns = sweep_.working.total() - sweep_.compute.total();
    report_.copy_ns = sweep_.busy.total() - sweep_.working.total();
    report_.all_gaps = report_.gaps.size();
    return std::move(report_);
  }

 private:
  void SetWindow() {
    Window& window = report_.window;
    if (!activity_.ops.empty()) {
      window.start_ns = timeline_.ops[activity_.ops.front()].start_ns;
      window.end_ns = activity_.end_ns;
    } else {
      window.start_ns = options_.from_ns.value_or(options_.to_ns.value_or(0));
      window.end_ns = options_.to_ns.value_or(window.start_ns);
    }
    if (options_.from_ns) window.start_ns = *options_.from_ns;
    if (options_.to_ns) window.end_ns = *options_.to_ns;
    window.end_ns = std::max(window.end_ns, window.start_ns);
  }

  // Sums and gaps, in one reading of the operations.
  template <bool kGaps, bool kSums>
  void ReadOps() {
    const auto& ops = activity_.ops;
    const Window& window = report_.window;
    if (ops.empty() && kGaps) return AddGap(window.start_ns, window.end_ns, -1, -1);
    int32_t previous = -1;
    int64_t previous_end_ns = 0;
    int64_t busy_until = window.start_ns;
    size_t i = activity_.FirstReaching(timeline_, window);
    if (kGaps) ReserveHuge(ops.size() - i + 1, &report_.gaps);
    for (; i < ops.size(); ++i) {
      const GpuOp& op = timeline_.ops[ops[i]];
      if (kGaps) {
        if (op.start_ns > busy_until) AddGap(busy_until, op.start_ns, previous, FirstSubmitted(i));
        busy_until = std::max(busy_until, op.end_ns);
      }
      if (op.start_ns > window.end_ns) return;  // the last gap has been closed
      if (kGaps && (previous < 0 || op.end_ns >= previous_end_ns)) {
        previous = ops[i];
        previous_end_ns = op.end_ns;
      }
      if (!kSums) continue;
      if (streams_ != nullptr && op.end_ns > window.start_ns && op.start_ns < window.end_ns)
        streams_->Add(op);
      Measure(op);
    }
    if (kGaps) AddGap(busy_until, window.end_ns, previous, -1);
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
                       (op.name >= 0 && communication_names_[op.name])
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
  const std::vector<bool>& communication_names_;
  const DeviceActivity& activity_;
  StreamCounts* const streams_;
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
                           const std::vector<bool>& communication_names,
                           const DeviceActivity& activity, StreamCounts* streams, Measured what) {
  DeviceReport report =
      DeviceMeter(timeline, options, communication_names, activity, streams).Run(what);
  if (what != Measured::kGaps) CountUntimed(timeline, scope, &report);
  return report;
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/marker_steps.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace gpuprobe::tools {
namespace {

// Names that explain this much less of the time do not compete; among the others the one with the
// fewest ranges is the outermost.
constexpr double kAsGood = 0.02;

// What a name says; the lower, the better.
enum class Rank : uint8_t {
  kProfilerStep,  // torch.profiler's own
  kStep,          // "train_step", "iteration 7", "batch"
  kAnyName,
  kEpoch,  // what holds steps
  kNever,
};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

Rank RankOf(const MarkerName& name) {
  const std::string lower = Lower(name.folded);
  const auto has = [&](const char* word) { return lower.find(word) != std::string::npos; };
  if (name.folded.starts_with("ProfilerStep#")) return Rank::kProfilerStep;
  // Parts of a step that have the word in their name.
  const bool part = has("optim") || has("zero_grad") || has("dataloader") || has("lr_sched");
  if (part || lower == "(other names)") return Rank::kNever;
  if (has("epoch") && !has("step") && !has("iter") && !has("batch")) return Rank::kEpoch;
  if (has("step") || has("iter") || has("batch")) return Rank::kStep;
  return Rank::kAnyName;
}

// The device's operations in order of submission.
struct Submitted {
  int64_t at_ns;
  const MarkedOp* op;
};

// Each stream of the device has the range of its own part: together they are one.
void MergeStreams(std::vector<const MarkerRange*>* ranges) {
  std::vector<const MarkerRange*> merged;
  for (const MarkerRange* range : *ranges) {
    if (!merged.empty() && merged.back()->numbers == range->numbers &&
        range->begin_ns < merged.back()->end_ns) {
      continue;
    }
    merged.push_back(range);
  }
  *ranges = std::move(merged);
}

class MarkerFinder {
 public:
  MarkerFinder(const Timeline& timeline, int32_t device, const std::vector<MarkedOp>& ops,
               const Window& window)
      : timeline_(timeline), device_(device), window_(window) {
    for (const MarkedOp& op : ops) {
      all_ns_ += op.end_ns - op.start_ns;
      started_.push_back({op.start_ns, &op});
      if (op.submitted_ns == MarkedOp::kNotSubmitted) continue;
      by_process_[op.process].ops.push_back({op.submitted_ns, &op});
    }
    Finish(&started_, &started_sum_ns_);
    for (auto& [process, submissions] : by_process_) {
      Finish(&submissions.ops, &submissions.sum_ns);
    }
  }

  MarkedSteps Run() {
    CollectSets();
    const Set* best = nullptr;
    for (auto& [key, set] : sets_) {
      if (!Fits(&set)) continue;
      if (best == nullptr || Better(set, *best)) best = &set;
    }
    return best == nullptr ? MarkedSteps() : Place(*best);
  }

 private:
  struct Submissions {
    std::vector<Submitted> ops;
    std::vector<int64_t> sum_ns;  // of the operations before each, and of all
  };
  struct SetKey {
    int32_t process, thread, name;
    auto operator<=>(const SetKey&) const = default;
  };
  struct Set {
    std::vector<const MarkerRange*> ranges;  // by begin
    Rank rank;
    bool on_device;
    int32_t process;
    double share = 0;
  };

  const MarkerName& NameOf(const Set& set) const {
    return timeline_.marker_names[static_cast<size_t>(set.ranges.front()->name)];
  }

  void Finish(std::vector<Submitted>* ops, std::vector<int64_t>* sum_ns) const {
    std::stable_sort(ops->begin(), ops->end(),
                     [](const Submitted& a, const Submitted& b) { return a.at_ns < b.at_ns; });
    sum_ns->push_back(0);
    for (const Submitted& s : *ops) {
      sum_ns->push_back(sum_ns->back() + s.op->end_ns - s.op->start_ns);
    }
  }

  void CollectSets() {
    for (const MarkerRange& range : timeline_.markers) {
      if (range.device >= 0 && range.device != device_) continue;
      const MarkerName& name = timeline_.marker_names[static_cast<size_t>(range.name)];
      const Rank rank = RankOf(name);
      if (rank == Rank::kNever) continue;
      Set& set = sets_[{range.process, range.thread, range.name}];
      set.rank = rank;
      set.process = range.process;
      set.on_device = range.device >= 0;
      set.ranges.push_back(&range);
    }
  }

  // Operations [first, second) of `ops` that came in [begin, end).
  static std::pair<size_t, size_t> In(const std::vector<Submitted>& ops, int64_t begin_ns,
                                      int64_t end_ns) {
    const auto before = [](const Submitted& s, int64_t ns) { return s.at_ns < ns; };
    const auto first = std::lower_bound(ops.begin(), ops.end(), begin_ns, before);
    const auto last = std::lower_bound(first, ops.end(), end_ns, before);
    return {static_cast<size_t>(first - ops.begin()), static_cast<size_t>(last - ops.begin())};
  }

  // The operations that count for a set, and the sums of their times: those that its process
  // submitted, or, of ranges that the profiler put on the device, those that started.
  std::pair<const std::vector<Submitted>*, const std::vector<int64_t>*> OpsOf(
      const Set& set) const {
    if (set.on_device) return {&started_, &started_sum_ns_};
    const auto at = by_process_.find(set.process);
    if (at == by_process_.end()) return {nullptr, nullptr};
    return {&at->second.ops, &at->second.sum_ns};
  }

  bool Overlap(const Set& set) const {
    for (size_t i = 1; i < set.ranges.size(); ++i) {
      if (set.ranges[i]->begin_ns < set.ranges[i - 1]->end_ns) return true;
    }
    return false;
  }

  // "layer0" to "layer11", again and again: parts of something, as opposed to what is counted on,
  // or has one name.
  static bool NamesComeAgain(const Set& set) {
    std::unordered_set<uint32_t> seen;
    for (const MarkerRange* range : set.ranges) seen.insert(range->numbers);
    return seen.size() > 1 && seen.size() < set.ranges.size();
  }

  bool Fits(Set* set) {
    if (set->on_device) MergeStreams(&set->ranges);
    if (set->ranges.size() < kFewestMarkedSteps || Overlap(*set)) return false;
    if (set->rank > Rank::kStep && NamesComeAgain(*set)) return false;
    const auto [ops, sum_ns] = OpsOf(*set);
    if (ops == nullptr || all_ns_ == 0) return false;
    int64_t in_ns = 0;
    size_t with_ops = 0;
    for (const MarkerRange* range : set->ranges) {
      const auto [first, last] = In(*ops, range->begin_ns, range->end_ns);
      in_ns += (*sum_ns)[last] - (*sum_ns)[first];
      with_ops += last > first;
    }
    set->share = static_cast<double>(in_ns) / static_cast<double>(all_ns_);
    return with_ops >= kFewestMarkedSteps &&
           set->share >= (set->rank > Rank::kStep ? kMarkedShareOfAnyName : kMarkedShare);
  }

  static bool Better(const Set& a, const Set& b) {
    // What the profiler has put on the device is told by the host's ranges, too, and better.
    if (a.on_device != b.on_device) return b.on_device;
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.share > b.share + kAsGood) return true;
    if (b.share > a.share + kAsGood) return false;
    return a.ranges.size() < b.ranges.size();
  }

  MarkedSteps Place(const Set& set) const {
    MarkedSteps steps;
    const MarkerName& name = NameOf(set);
    steps.share = set.share;
    steps.set = {set.process, set.ranges.front()->thread, set.ranges.front()->name, set.on_device};
    steps.marker = name.varies ? name.folded : name.first;
    steps.source = set.rank == Rank::kProfilerStep  ? StepSource::kProfilerStep
                   : name.kind == MarkerKind::kNvtx ? StepSource::kNvtx
                                                    : StepSource::kAnnotation;
    const auto [ops, sum_ns] = OpsOf(set);
    int64_t last_ns = INT64_MIN;
    for (const MarkerRange* range : set.ranges) {
      const auto [first, last] = In(*ops, range->begin_ns, range->end_ns);
      if (first == last) continue;  // nothing of it in the window
      const MarkedOp& op = *(*ops)[first].op;
      const int64_t begin_ns = std::max(op.start_ns, window_.start_ns);
      // Another stream has begun with the next range's work already: one step.
      if (!steps.times_ns.empty() && begin_ns <= steps.times_ns.back()) continue;
      if (steps.times_ns.empty()) steps.first_op = op.op;
      steps.times_ns.push_back(begin_ns);
      last_ns = begin_ns;
      for (size_t i = first; i < last; ++i) {
        last_ns = std::max(last_ns, (*ops)[i].op->end_ns);
      }
    }
    last_ns = std::min(last_ns, window_.end_ns);
    if (steps.times_ns.size() < kFewestMarkedSteps) return {};
    // An operation without length ends where it begins: no step.
    if (last_ns > steps.times_ns.back()) steps.times_ns.push_back(last_ns);
    return steps;
  }

  const Timeline& timeline_;
  const int32_t device_;
  const Window window_;
  int64_t all_ns_ = 0;
  std::vector<Submitted> started_;  // all operations, by start
  std::vector<int64_t> started_sum_ns_;
  std::map<int32_t, Submissions> by_process_;
  std::map<SetKey, Set> sets_;
};

}  // namespace

std::vector<Window> RangesOf(const Timeline& timeline, int32_t device, const MarkerSet& set) {
  std::vector<const MarkerRange*> ranges;
  for (const MarkerRange& range : timeline.markers) {
    if (range.process != set.process || range.thread != set.thread || range.name != set.name)
      continue;
    if (range.device < 0 || range.device == device) ranges.push_back(&range);
  }
  if (set.on_device) MergeStreams(&ranges);
  std::vector<Window> windows;
  for (const MarkerRange* range : ranges) windows.push_back({range->begin_ns, range->end_ns});
  return windows;
}

MarkedSteps FindMarkedSteps(const Timeline& timeline, int32_t device,
                            const std::vector<MarkedOp>& ops, const Window& window) {
  if (timeline.markers.empty()) return {};
  return MarkerFinder(timeline, device, ops, window).Run();
}

MarkedSteps FindMarkedSteps(const Timeline& timeline, const DeviceActivity& activity,
                            const Window& window) {
  if (timeline.markers.empty()) return {};
  std::vector<MarkedOp> ops;
  for (const int32_t index : activity.ops) {
    const GpuOp& op = timeline.ops[static_cast<size_t>(index)];
    if (op.end_ns <= window.start_ns || op.start_ns >= window.end_ns) continue;
    const int64_t submitted_ns = op.submission < 0
                                     ? MarkedOp::kNotSubmitted
                                     : timeline.calls[static_cast<size_t>(op.submission)].start_ns;
    ops.push_back({op.start_ns, op.end_ns, submitted_ns, op.process, index});
  }
  return FindMarkedSteps(timeline, activity.device, ops, window);
}

}  // namespace gpuprobe::tools

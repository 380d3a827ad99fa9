// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "tools/flat_map.h"
#include "tools/nearly_sorted.h"
#include "tools/step_pattern.h"

namespace gpuprobe::tools {
namespace {

// One stream with at least this share of the operations tells the order by itself; else all
// streams of the process, in order of submission.
constexpr double kLeadShare = 0.5;
// Launch shapes and sizes are left out of the comparison (sequences of varying length have many)
// where that makes the pattern this much clearer.
constexpr double kClearerWithoutShapes = 0.1;
// A pattern that less agrees with yields to the plain rule for graphs.
constexpr double kClearPattern = 0.8;
// A growth below this share of what slow steps took longer explains nothing.
constexpr double kWorthTelling = 0.05;

struct Sequence {
  std::vector<StepToken> tokens;
  // Of each token: the operation itself, or the next one after a synchronisation; a token more
  // than there are: -1.
  std::vector<int32_t> ops;
};

// Numbers for what is the same again, in order of first use.
class TokenIds {
 public:
  explicit TokenIds(bool with_shapes) : with_shapes_(with_shapes) {}

  uint32_t OfOp(const Timeline& timeline, const GpuOp& op) {
    const auto kind = static_cast<int32_t>(op.kind);
    switch (op.kind) {
      case OpKind::kKernel:
        return Id({kind, op.name, with_shapes_ ? op.shape : 0});
      case OpKind::kCopy: {
        const int copy_kind =
            op.shape < 0 ? 0 : timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind;
        return Id({kind, copy_kind, with_shapes_ ? static_cast<int64_t>(op.bytes) : 0});
      }
      case OpKind::kSet:
        return Id({kind, 0, with_shapes_ ? static_cast<int64_t>(op.bytes) : 0});
      case OpKind::kGraph:
        return Id({kind, 0, with_shapes_ ? op.graph_id : 0});
    }
    return 0;
  }
  uint32_t OfSync(int32_t symbol) { return Id({-1, symbol, 0}); }

 private:
  struct Key {
    int32_t kind, what;
    int64_t size;
    bool operator==(const Key&) const = default;
    uint64_t Hash() const {
      return MixBits(MixBits(static_cast<uint64_t>(static_cast<uint32_t>(kind)) << 32 |
                                 static_cast<uint32_t>(what),
                             0),
                     static_cast<uint64_t>(size));
    }
  };
  uint32_t Id(const Key& key) {
    const auto count = static_cast<uint32_t>(ids_.size());
    const auto [id, is_new] = ids_.FindOrAdd(key);
    if (is_new) *id = count;
    return *id;
  }
  const bool with_shapes_;
  FlatMap<Key, uint32_t> ids_;
};

// From or to the host.
bool IsHostCopy(const Timeline& timeline, const GpuOp& op) {
  if (op.kind != OpKind::kCopy || op.shape < 0) return false;
  const uint8_t kind = timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind;
  return kind >= 1 && kind <= 4;  // CUpti_ActivityMemcpyKind: to and from device and array
}

class SequenceMaker {
 public:
  SequenceMaker(const Timeline& timeline, const HostView& host, const DeviceActivity& activity,
                const DeviceReport& report)
      : timeline_(timeline), report_(report) {
    const auto& ops = activity.ops;
    const std::span<const int32_t> all(
        ops.begin() + static_cast<ptrdiff_t>(activity.FirstReaching(timeline, report.window)),
        std::partition_point(ops.begin(), ops.end(),
                             [&](int32_t op) { return OpAt(op).start_ns < report.window.end_ns; }));
    const Lead lead = FindLead(all);
    Collect(all, lead);
    MeasureSubmissions();
    FindSyncs(host);
  }

  size_t op_count() const { return items_.size(); }

  Sequence Make(bool with_shapes) const {
    TokenIds ids(with_shapes);
    Sequence sequence;
    sequence.tokens.reserve(items_.size() + syncs_.size());
    sequence.ops.reserve(items_.size() + syncs_.size());
    auto sync = syncs_.begin();
    for (const Item& item : items_) {
      const GpuOp& op = OpAt(item.op);
      for (; sync != syncs_.end() && CallAt(*sync).start_ns < item.submitted_ns; ++sync) {
        sequence.tokens.push_back({ids.OfSync(CallAt(*sync).symbol), false, true, item.pause_ns});
        sequence.ops.push_back(item.op);
      }
      sequence.tokens.push_back({ids.OfOp(timeline_, op), op.kind == OpKind::kGraph,
                                 IsHostCopy(timeline_, op), item.pause_ns});
      sequence.ops.push_back(item.op);
    }
    return sequence;
  }

 private:
  struct Item {
    int64_t submitted_ns;
    int64_t pause_ns;  // idle time before it
    int32_t op;
  };
  // The busiest stream; where none has most of the operations, all of its process.
  struct Lead {
    int32_t process = -1, stream = -1;
    bool one_stream = true;
  };

  const GpuOp& OpAt(int32_t op) const { return timeline_.ops[static_cast<size_t>(op)]; }
  const HostCall& CallAt(int32_t call) const { return timeline_.calls[static_cast<size_t>(call)]; }
  bool InWindow(const GpuOp& op) const {
    return op.end_ns > report_.window.start_ns && op.start_ns < report_.window.end_ns;
  }

  Lead FindLead(std::span<const int32_t> all) {
    std::map<std::pair<int32_t, int32_t>, size_t> by_stream;
    // Nearly every operation is of its stream's process.
    std::vector<size_t> own(timeline_.streams.size(), 0);
    size_t total = 0;
    for (const int32_t index : all) {
      const GpuOp& op = OpAt(index);
      if (!InWindow(op)) continue;
      ++total;
      if (op.stream >= 0 && timeline_.streams[static_cast<size_t>(op.stream)].process == op.process)
        ++own[static_cast<size_t>(op.stream)];
      else
        ++by_stream[{op.process, op.stream}];
    }
    for (size_t s = 0; s < own.size(); ++s) {
      if (own[s] > 0) by_stream[{timeline_.streams[s].process, static_cast<int32_t>(s)}] = own[s];
    }
    const auto lead = std::max_element(by_stream.begin(), by_stream.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (lead == by_stream.end()) return {};
    return {lead->first.first, lead->first.second,
            static_cast<double>(lead->second) >= kLeadShare * static_cast<double>(total)};
  }

  // The operations of the lead, in the order in which they were handed to the device.
  void Collect(std::span<const int32_t> all, const Lead& lead) {
    process_ = lead.process;
    auto gap = report_.gaps.begin();
    bool in_order = true;
    for (const int32_t index : all) {
      const GpuOp& op = OpAt(index);
      if (op.process != lead.process || (lead.one_stream && op.stream != lead.stream)) continue;
      if (!InWindow(op)) continue;
      while (gap != report_.gaps.end() && gap->end_ns < op.start_ns) ++gap;
      const bool paused = gap != report_.gaps.end() && gap->end_ns == op.start_ns;
      const int64_t submitted_ns = op.submission < 0 ? op.start_ns : CallAt(op.submission).start_ns;
      in_order &= items_.empty() || items_.back().submitted_ns <= submitted_ns;
      items_.push_back({submitted_ns, paused ? gap->length_ns() : 0, index});
    }
    if (lead.one_stream || in_order) return;  // a stream's order is that of the starts
    SortNearlySorted(std::span(items_),
                     [](const Item& a, const Item& b) { return a.submitted_ns < b.submitted_ns; });
  }

  // From "when" to "not before", which ascends.
  void MeasureSubmissions() {
    int64_t latest_ns = INT64_MIN;
    for (Item& item : items_) {
      // Submitted through a call that was not recorded: after the one before it, whenever it
      // started.
      if (OpAt(item.op).submission >= 0) latest_ns = std::max(latest_ns, item.submitted_ns);
      item.submitted_ns = latest_ns;
    }
  }

  void FindSyncs(const HostView& host) {
    if (process_ < 0) return;
    syncs_ = host.SyncsOf(process_);
    // What came before the first operation is no part of the sequence.
    const int64_t first_ns = items_.empty() ? 0 : items_.front().submitted_ns;
    const auto first = std::partition_point(syncs_.begin(), syncs_.end(), [&](int32_t call) {
      return CallAt(call).start_ns < first_ns;
    });
    syncs_ = syncs_.subspan(static_cast<size_t>(first - syncs_.begin()));
  }

  const Timeline& timeline_;
  const DeviceReport& report_;
  int32_t process_ = -1;
  std::vector<Item> items_;
  std::span<const int32_t> syncs_;  // calls of the process, by start
};

struct Found {
  Sequence sequence;
  StepPattern pattern;
};

// Graphs of several sizes (a server's batches) follow no rule; each replay is a step of its own.
StepPattern EachGraph(const Timeline& timeline, const Sequence& sequence) {
  StepPattern pattern;
  int64_t graphs_ns = 0, all_ns = 0;
  std::vector<size_t> distances;
  for (size_t i = 0; i < sequence.tokens.size(); ++i) {
    const GpuOp& op = timeline.ops[static_cast<size_t>(sequence.ops[i])];
    all_ns += op.end_ns - op.start_ns;
    if (!sequence.tokens[i].alone) continue;
    graphs_ns += op.end_ns - op.start_ns;
    if (!pattern.begins.empty()) distances.push_back(i - pattern.begins.back());
    pattern.begins.push_back(i);
  }
  if (pattern.begins.size() < kFewestSteps || graphs_ns * 2 < all_ns) return {};
  std::sort(distances.begin(), distances.end());
  pattern.typical_tokens = distances[distances.size() / 2];
  pattern.end = sequence.tokens.size();
  pattern.confidence = 0.5;  // a rule of thumb, not a vote
  return pattern;
}

Found FindInSequence(const Timeline& timeline, const SequenceMaker& maker) {
  Found exact{maker.Make(true), {}};
  exact.pattern = FindPattern(exact.sequence.tokens);
  if (exact.pattern.confidence >= 1 - kClearerWithoutShapes) return exact;
  Found coarse{maker.Make(false), {}};
  coarse.pattern = FindPattern(coarse.sequence.tokens);
  Found& better =
      coarse.pattern.confidence > exact.pattern.confidence + kClearerWithoutShapes ? coarse : exact;
  if (better.pattern.confidence < kClearPattern) {
    StepPattern graphs = EachGraph(timeline, better.sequence);
    if (!graphs.begins.empty()) better.pattern = std::move(graphs);
  }
  return std::move(better);
}

// Boundaries in time: the start of the first operation at or after each begin, and the end.
std::vector<int64_t> Boundaries(const Timeline& timeline, const Found& found,
                                const DeviceReport& report, int32_t* first_op) {
  std::vector<int64_t> times;
  const auto add = [&](int64_t ns) {
    ns = std::clamp(ns, report.window.start_ns, report.window.end_ns);
    if (times.empty() || ns > times.back()) times.push_back(ns);
  };
  const std::vector<int32_t>& ops = found.sequence.ops;
  for (size_t begin : found.pattern.begins) {
    add(timeline.ops[static_cast<size_t>(ops[begin])].start_ns);
  }
  *first_op = ops[found.pattern.begins.front()];
  if (found.pattern.end < ops.size()) {
    add(timeline.ops[static_cast<size_t>(ops[found.pattern.end])].start_ns);
  } else {
    int64_t last_ns = 0;
    for (size_t i = found.pattern.begins.back(); i < ops.size(); ++i) {
      last_ns = std::max(last_ns, timeline.ops[static_cast<size_t>(ops[i])].end_ns);
    }
    add(last_ns);
  }
  return times;
}

std::vector<Step> MeasureSteps(const Timeline& timeline, const DeviceActivity& activity,
                               const DeviceReport& report, const std::vector<int64_t>& times) {
  std::vector<Step> steps;
  auto part = report.parts.begin();
  const auto start_of = [&](auto at) { return timeline.ops[static_cast<size_t>(*at)].start_ns; };
  auto op = std::partition_point(activity.ops.begin(), activity.ops.end(), [&](int32_t index) {
    return timeline.ops[static_cast<size_t>(index)].start_ns < times.front();
  });
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    Step step{times[i], times[i + 1]};
    for (; op != activity.ops.end() && start_of(op) < step.end_ns; ++op) ++step.ops;
    while (part != report.parts.end() && part->end_ns <= step.begin_ns) ++part;
    for (auto p = part; p != report.parts.end() && p->begin_ns < step.end_ns; ++p) {
      const int64_t ns = std::min(p->end_ns, step.end_ns) - std::max(p->begin_ns, step.begin_ns);
      step.cause_ns[static_cast<size_t>(p->cause)] += ns;
      step.idle_ns += ns;
    }
    step.busy_ns = step.duration_ns() - step.idle_ns;
    steps.push_back(step);
  }
  return steps;
}

// Nearest rank; `sorted` is not empty.
template <typename T>
T Percentile(const std::vector<T>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

void MeasureDurations(DeviceSteps* result) {
  std::vector<int64_t> durations;
  std::vector<uint64_t> ops;
  for (const Step& step : result->steps) {
    durations.push_back(step.duration_ns());
    ops.push_back(step.ops);
  }
  std::sort(durations.begin(), durations.end());
  std::sort(ops.begin(), ops.end());
  result->median_ns = Percentile(durations, 0.5);
  result->p90_ns = Percentile(durations, 0.9);
  result->p99_ns = Percentile(durations, 0.99);
  result->min_ns = durations.front();
  result->max_ns = durations.back();
  result->typical_ops = Percentile(ops, 0.5);
}

// The distance that nearly all neighbouring slow steps have, give or take one; 0: none.
uint64_t PeriodOf(const std::vector<size_t>& slow, size_t steps) {
  std::vector<size_t> distances;
  size_t first = SIZE_MAX, previous = SIZE_MAX;
  for (size_t at : slow) {
    if (at < kWarmUpSteps) continue;
    if (first == SIZE_MAX) first = at;
    if (previous != SIZE_MAX) distances.push_back(at - previous);
    previous = at;
  }
  if (distances.empty()) return 0;
  // Of two: the one before the first and the one after the second must lie outside of the run.
  if (distances.size() + 1 < kFewestForPeriod &&
      (first > distances[0] + kWarmUpSteps || steps - previous > distances[0] + 1)) {
    return 0;
  }
  std::vector<size_t> sorted = distances;
  std::sort(sorted.begin(), sorted.end());
  const size_t median = sorted[sorted.size() / 2];
  const auto near = std::count_if(distances.begin(), distances.end(),
                                  [&](size_t d) { return d + 1 >= median && d <= median + 1; });
  // Every step, or every other one: that is no stall, the steps differ.
  if (median < 3) return 0;
  return static_cast<double>(near) >= 0.8 * static_cast<double>(distances.size()) ? median : 0;
}

constexpr size_t kAmounts = kCauseCount + 1;  // the causes, and busy time
std::array<int64_t, kAmounts> Amounts(const Step& step) {
  std::array<int64_t, kAmounts> amounts{};
  std::copy(step.cause_ns.begin(), step.cause_ns.end(), amounts.begin());
  amounts.back() = step.busy_ns;
  return amounts;
}

// The place that holds most of a cause's time in slow steps.
std::string SlowPlace(const DeviceReport& report, const std::vector<std::string>& places,
                      const std::vector<Step>& steps, Cause cause) {
  std::unordered_map<int32_t, int64_t> by_place;
  auto part = report.parts.begin();
  for (const Step& step : steps) {
    if (!step.slow) continue;
    while (part != report.parts.end() && part->end_ns <= step.begin_ns) ++part;
    for (auto p = part; p != report.parts.end() && p->begin_ns < step.end_ns; ++p) {
      if (p->cause == cause)
        by_place[p->where] +=
            std::min(p->end_ns, step.end_ns) - std::max(p->begin_ns, step.begin_ns);
    }
  }
  std::pair<int64_t, int32_t> best = {0, -1};
  for (const auto& [place, ns] : by_place) {
    if (ns > best.first || (ns == best.first && place < best.second)) best = {ns, place};
  }
  return best.second < 0 ? "" : places[static_cast<size_t>(best.second)];
}

void FindSlowSteps(const DeviceReport& report, const std::vector<std::string>& places,
                   DeviceSteps* result) {
  std::vector<size_t> slow;
  for (size_t i = 0; i < result->steps.size(); ++i) {
    Step& step = result->steps[i];
    step.slow = static_cast<double>(step.duration_ns()) >
                kSlowStep * static_cast<double>(result->median_ns);
    if (step.slow) slow.push_back(i);
  }
  result->slow_steps = slow.size();
  result->slow_period = PeriodOf(slow, result->steps.size());
  if (slow.empty()) return;
  std::array<int64_t, kAmounts> slow_sum{};
  std::array<std::vector<int64_t>, kAmounts> others;
  int64_t longer_ns = 0;
  for (const Step& step : result->steps) {
    const auto amounts = Amounts(step);
    if (step.slow) longer_ns += step.duration_ns() - result->median_ns;
    for (size_t a = 0; a < kAmounts; ++a) {
      if (step.slow) {
        slow_sum[a] += amounts[a];
      } else {
        others[a].push_back(amounts[a]);
      }
    }
  }
  const auto n = static_cast<int64_t>(slow.size());
  for (size_t a = 0; a < kAmounts; ++a) {
    std::sort(others[a].begin(), others[a].end());
    const int64_t extra_ns = slow_sum[a] / n - Percentile(others[a], 0.5);
    if (static_cast<double>(extra_ns) < kWorthTelling * static_cast<double>(longer_ns / n))
      continue;
    StepGrowth growth;
    growth.extra_ns = extra_ns;
    if (a < kCauseCount) {
      growth.cause = static_cast<Cause>(a);
      growth.where = SlowPlace(report, places, result->steps, *growth.cause);
    }
    result->growth.push_back(std::move(growth));
  }
  std::stable_sort(result->growth.begin(), result->growth.end(),
                   [](const auto& a, const auto& b) { return a.extra_ns > b.extra_ns; });
}

}  // namespace

DeviceSteps FindSteps(const Timeline& timeline, const HostView& host,
                      const DeviceActivity& activity, const DeviceReport& report,
                      const std::vector<std::string>& places) {
  DeviceSteps result;
  result.device = report.device;
  const SequenceMaker maker(timeline, host, activity, report);
  const Found found = FindInSequence(timeline, maker);
  if (found.pattern.begins.empty()) {
    result.why_none = "nothing repeats as a loop's steps do in " +
                      std::to_string(maker.op_count()) + " operations";
    return result;
  }
  const std::vector<int64_t> times = Boundaries(timeline, found, report, &result.first_op);
  result.steps = MeasureSteps(timeline, activity, report, times);
  if (result.steps.size() < kFewestSteps) {
    result.steps.clear();
    result.why_none = "fewer than " + std::to_string(kFewestSteps) + " repetitions";
    return result;
  }
  result.confidence = found.pattern.confidence;
  MeasureDurations(&result);
  FindSlowSteps(report, places, &result);
  return result;
}

}  // namespace gpuprobe::tools

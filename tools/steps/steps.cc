// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <unordered_map>
#include <utility>

#include "tools/steps/marker_steps.h"
#include "tools/steps/step_pattern.h"
#include "tools/timeline/flat_map.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/nearly_sorted.h"

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
  // Of each token: the operation itself, the first of a launch, or the next one after a
  // synchronisation; a token more than there are: -1.
  std::vector<int32_t> ops;
  std::vector<int64_t> took_ns;  // of each token: its operations' times added up
};

// From or to the host.
bool IsHostCopy(const Timeline& timeline, const GpuOp& op) {
  if (op.kind != OpKind::kCopy || op.shape < 0) return false;
  const uint8_t kind = timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind;
  return kind >= 1 && kind <= 4;  // CUpti_ActivityMemcpyKind: to and from device and array
}

// What is the same again: kernels of a name and shape, copies of a direction and size, ...
struct Work {
  OpKind kind;
  int32_t name;  // of kernels; of copies: CUpti_ActivityMemcpyKind
  int64_t size;  // shape, bytes or graph
  bool operator==(const Work&) const = default;
  uint64_t Hash() const {
    const uint64_t what =
        static_cast<uint64_t>(static_cast<uint32_t>(name)) << 8 | static_cast<uint64_t>(kind);
    return MixBits(MixBits(0, what), static_cast<uint64_t>(size));
  }
};

Work WorkOf(const Timeline& timeline, const GpuOp& op) {
  switch (op.kind) {
    case OpKind::kKernel:
      return {op.kind, op.name, op.shape};
    case OpKind::kCopy:
      return {op.kind,
              op.shape < 0 ? 0 : timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind,
              static_cast<int64_t>(op.bytes)};
    case OpKind::kSet:
      return {op.kind, 0, static_cast<int64_t>(op.bytes)};
    case OpKind::kGraph:
      return {op.kind, 0, op.graph_id};
  }
  return {};
}

class SequenceMaker {
 public:
  SequenceMaker(const Timeline& timeline, const HostView& host, const DeviceActivity& activity,
                const StreamCounts& streams, const DeviceReport& report)
      : timeline_(timeline), report_(report) {
    const auto& ops = activity.ops;
    const std::span<const int32_t> all(
        ops.begin() + static_cast<ptrdiff_t>(activity.FirstReaching(timeline, report.window)),
        std::partition_point(ops.begin(), ops.end(),
                             [&](int32_t op) { return OpAt(op).start_ns < report.window.end_ns; }));
    Collect(all, streams);
    MeasureSubmissions();
    JoinLaunches();
    FindSyncs(host);
  }

  size_t op_count() const { return op_count_; }

  // Tokens are numbered in order of first use.
  Sequence Make(bool with_shapes) const {
    Sequence sequence;
    sequence.tokens.reserve(items_.size() + syncs_.size());
    sequence.ops.reserve(items_.size() + syncs_.size());
    sequence.took_ns.reserve(items_.size() + syncs_.size());
    uint32_t next_id = 0;
    const auto number = [&](uint32_t* id) {
      if (*id == kNoId) *id = next_id++;
      return *id;
    };
    std::vector<uint32_t> of_sync(timeline_.symbols.size(), kNoId);
    std::vector<uint32_t> of_kind(kinds_.size(), kNoId);
    FlatMap<Work, uint32_t> coarse;  // first kind of those that are one without shapes
    std::vector<uint32_t> kind_of(kinds_.size());
    for (uint32_t k = 0; k < kinds_.size(); ++k) {
      Work work = kinds_[k].work;
      if (kinds_[k].launch_of >= 0) {
        work.size = kind_of[static_cast<size_t>(kinds_[k].launch_of)];
      } else if (!with_shapes) {
        work.size = 0;
      }
      const auto [first, is_new] = coarse.FindOrAdd(work);
      if (is_new) *first = k;
      kind_of[k] = *first;
    }
    auto sync = syncs_.begin();
    for (const Item& item : items_) {
      for (; sync != syncs_.end() && CallAt(*sync).start_ns < item.submitted_ns; ++sync) {
        uint32_t* const id = &of_sync[static_cast<size_t>(CallAt(*sync).symbol)];
        sequence.tokens.push_back({number(id), false, true, item.pause_ns});
        sequence.ops.push_back(item.op);
        sequence.took_ns.push_back(0);
      }
      const Kind& kind = kinds_[item.kind];
      if (kind.launch_of >= 0) number(&of_kind[kind_of[static_cast<size_t>(kind.launch_of)]]);
      sequence.tokens.push_back(
          {number(&of_kind[kind_of[item.kind]]), kind.alone, kind.host_copy, item.pause_ns});
      sequence.ops.push_back(item.op);
      sequence.took_ns.push_back(item.took_ns);
    }
    return sequence;
  }

 private:
  static constexpr uint32_t kNoId = UINT32_MAX;
  // In the place of Work::name, for several operations of one submission: a graph's nodes, others.
  static constexpr int32_t kGraphLaunch = -2, kOtherLaunch = -3;
  struct Kind {
    Work work;
    bool host_copy;
    bool alone;
    int32_t launch_of = -1;  // kOtherLaunch: the kind of its first operation
  };
  struct Item {
    int64_t submitted_ns;
    int64_t pause_ns;  // idle time before it
    int64_t took_ns;
    int32_t op;
    uint32_t correlation;
    uint32_t kind : 31;  // in kinds_
    uint32_t has_call : 1;
  };

  const GpuOp& OpAt(int32_t op) const { return timeline_.ops[static_cast<size_t>(op)]; }
  const HostCall& CallAt(int32_t call) const { return timeline_.calls[static_cast<size_t>(call)]; }

  // The operations of the busiest stream (where none has most of them: of its process), in the
  // order in which they were handed to the device.
  void Collect(std::span<const int32_t> all, const StreamCounts& streams) {
    const StreamCounts::Lead lead = streams.Busiest();
    process_ = lead.process;
    const bool one_stream =
        static_cast<double>(lead.count) >= kLeadShare * static_cast<double>(streams.total());
    items_.reserve(one_stream ? lead.count : streams.total());
    FlatMap<Work, uint32_t> kind_of;
    auto gap = report_.gaps.begin();
    bool in_order = true;
    for (const int32_t index : all) {
      const GpuOp& op = OpAt(index);
      if (op.process != lead.process || (one_stream && op.stream != lead.stream)) continue;
      if (op.end_ns <= report_.window.start_ns) continue;
      while (gap != report_.gaps.end() && gap->end_ns < op.start_ns) ++gap;
      const bool paused = gap != report_.gaps.end() && gap->end_ns == op.start_ns;
      const bool has_call = op.submission >= 0;
      const int64_t submitted_ns = has_call ? CallAt(op.submission).start_ns : op.start_ns;
      in_order &= items_.empty() || items_.back().submitted_ns <= submitted_ns;
      const Work work = WorkOf(timeline_, op);
      const auto [kind, is_new] = kind_of.FindOrAdd(work);
      if (is_new) {
        *kind = static_cast<uint32_t>(kinds_.size());
        kinds_.push_back({work, IsHostCopy(timeline_, op), op.kind == OpKind::kGraph});
      }
      items_.push_back({submitted_ns, paused ? gap->length_ns() : 0, op.end_ns - op.start_ns, index,
                        op.correlation, *kind, has_call});
    }
    op_count_ = items_.size();
    if (one_stream || in_order) return;  // a stream's order is that of the starts
    SortNearlySorted(std::span(items_),
                     [](const Item& a, const Item& b) { return a.submitted_ns < b.submitted_ns; });
  }

  // From "when" to "not before", which ascends.
  void MeasureSubmissions() {
    int64_t latest_ns = INT64_MIN;
    for (Item& item : items_) {
      // Submitted through a call that was not recorded: after the one before it, whenever it
      // started.
      if (item.has_call) latest_ns = std::max(latest_ns, item.submitted_ns);
      item.submitted_ns = latest_ns;
    }
  }

  // What repeats inside of one submission are the layers of a graph, no steps: it is one thing.
  void JoinLaunches() {
    FlatMap<Work, uint32_t> kind_of;
    size_t kept = 0;
    for (size_t i = 0; i < items_.size();) {
      Item item = items_[i++];
      const bool launch =
          item.correlation != 0 && i < items_.size() && items_[i].correlation == item.correlation;
      if (launch) {
        for (; i < items_.size() && items_[i].correlation == item.correlation; ++i)
          item.took_ns += items_[i].took_ns;
        const uint32_t graph = OpAt(item.op).graph_id;
        const Work work = graph != 0 ? Work{OpKind::kGraph, kGraphLaunch, graph}
                                     : Work{OpKind::kGraph, kOtherLaunch, item.kind};
        // The first operation of a graph may be another one each time: two kinds, one token.
        const bool host_copy = kinds_[item.kind].host_copy;
        Work key = work;
        if (host_copy) key.name += kOtherLaunch;
        const auto [kind, is_new] = kind_of.FindOrAdd(key);
        if (is_new) {
          *kind = static_cast<uint32_t>(kinds_.size());
          kinds_.push_back(
              {work, host_copy, true, graph != 0 ? -1 : static_cast<int32_t>(item.kind)});
        }
        item.kind = *kind;
      }
      items_[kept++] = item;
    }
    items_.resize(kept);
  }

  void FindSyncs(const HostView& host) {
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
  std::vector<Kind> kinds_;
  std::vector<Item> items_;
  size_t op_count_ = 0;
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
    all_ns += sequence.took_ns[i];
    if (!sequence.tokens[i].alone) continue;
    graphs_ns += sequence.took_ns[i];
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
  size_t op = 0;
  const auto first_from = [&](int64_t ns) {
    return PartitionNear(activity.ops, op, [&](int32_t index) {
      return timeline.ops[static_cast<size_t>(index)].start_ns < ns;
    });
  };
  op = first_from(times.front());
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    Step step{times[i], times[i + 1]};
    const size_t next = first_from(step.end_ns);
    step.ops = next - op;
    op = next;
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

bool StepsByMarkers(const Timeline& timeline, const DeviceActivity& activity,
                    const DeviceReport& report, const std::vector<std::string>& places,
                    DeviceSteps* result) {
  MarkedSteps marked = FindMarkedSteps(timeline, activity, report.window);
  if (marked.times_ns.size() <= kFewestMarkedSteps) return false;
  result->source = marked.source;
  result->marker = std::move(marked.marker);
  result->confidence = marked.share;
  result->first_op = marked.first_op;
  result->steps = MeasureSteps(timeline, activity, report, marked.times_ns);
  MeasureDurations(result);
  FindSlowSteps(report, places, result);
  return true;
}

}  // namespace

DeviceSteps FindSteps(const Timeline& timeline, const HostView& host,
                      const DeviceActivity& activity, const StreamCounts& streams,
                      const DeviceReport& report, const std::vector<std::string>& places) {
  DeviceSteps result;
  result.device = report.device;
  if (StepsByMarkers(timeline, activity, report, places, &result)) return result;
  const SequenceMaker maker(timeline, host, activity, streams, report);
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

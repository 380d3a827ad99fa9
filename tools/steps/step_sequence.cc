// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/step_sequence.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tools/timeline/nearly_sorted.h"

namespace gpuprobe::tools {
namespace {

// Launch shapes and sizes are left out of the comparison (sequences of varying length have many)
// where that makes the pattern this much clearer.
constexpr double kClearerWithoutShapes = 0.1;
// A pattern that less agrees with yields to the plain rule for graphs.
constexpr double kClearPattern = 0.8;
// In the place of StepWork::name, for several operations of one submission: a graph's nodes,
// others.
constexpr int32_t kGraphLaunch = -2, kOtherLaunch = -3;

StepWork LaunchOf(uint32_t graph_id) {
  return graph_id != 0 ? StepWork{OpKind::kGraph, kGraphLaunch, graph_id}
                       : StepWork{OpKind::kGraph, kOtherLaunch, 0};
}

}  // namespace

bool IsHostCopy(const Timeline& timeline, const GpuOp& op) {
  if (op.kind != OpKind::kCopy || op.shape < 0) return false;
  const uint8_t kind = timeline.copy_shapes[static_cast<size_t>(op.shape)].copy_kind;
  return kind >= 1 && kind <= 4;  // CUpti_ActivityMemcpyKind: to and from device and array
}

StepWork StepWorkOf(const Timeline& timeline, const GpuOp& op) {
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

TokenMeaning MeaningOfWork(const StepWork& work, uint32_t graph_id, bool joined, bool with_shapes) {
  TokenMeaning meaning;
  meaning.work = joined ? LaunchOf(graph_id) : work;
  if (joined && graph_id == 0) meaning.first = work;
  if (!with_shapes) meaning.work.size = meaning.first.size = 0;
  return meaning;
}

bool IsOfLaunch(const StepWork& work) {
  return work.kind == OpKind::kGraph && (work.name == kGraphLaunch || work.name == kOtherLaunch);
}

uint32_t StepItems::KindOf(const Timeline& timeline, const GpuOp& op) {
  const StepWork work = StepWorkOf(timeline, op);
  const auto [kind, is_new] = kind_of_.FindOrAdd(work);
  if (is_new) {
    *kind = static_cast<uint32_t>(kinds_.size());
    kinds_.push_back({work, IsHostCopy(timeline, op), op.kind == OpKind::kGraph, -1, op});
  }
  return *kind;
}

void StepItems::Arrange(bool one_stream) {
  const auto before = [](const StepItem& a, const StepItem& b) {
    return a.submitted_ns < b.submitted_ns;
  };
  // A stream's order is that of the starts.
  if (!one_stream && !std::is_sorted(items.begin(), items.end(), before))
    SortNearlySorted(std::span(items), before);
  MeasureSubmissions();
  JoinLaunches();
}

// From "when" to "not before", which ascends.
void StepItems::MeasureSubmissions() {
  int64_t latest_ns = INT64_MIN;
  for (StepItem& item : items) {
    // Submitted through a call that was not recorded: after the one before it, whenever it
    // started.
    if (item.has_call) latest_ns = std::max(latest_ns, item.submitted_ns);
    item.submitted_ns = latest_ns;
  }
}

uint32_t StepItems::KindOfLaunch(const StepItem& first) {
  StepWork work = LaunchOf(first.graph_id);
  if (first.graph_id == 0) work.size = first.kind;
  // The first operation of a graph may be another one each time: two kinds, one token.
  const Kind of_first = kinds_[first.kind];
  StepWork key = work;
  if (of_first.host_copy) key.name += kOtherLaunch;
  const auto [kind, is_new] = launch_kind_of_.FindOrAdd(key);
  if (is_new) {
    *kind = static_cast<uint32_t>(kinds_.size());
    kinds_.push_back({work, of_first.host_copy, true,
                      first.graph_id != 0 ? -1 : static_cast<int32_t>(first.kind),
                      of_first.example});
  }
  return *kind;
}

void StepItems::JoinLaunches() {
  size_t kept = 0;
  for (size_t i = 0; i < items.size();) {
    StepItem item = items[i++];
    const bool launch =
        item.correlation != 0 && i < items.size() && items[i].correlation == item.correlation;
    if (launch) {
      for (; i < items.size() && items[i].correlation == item.correlation; ++i)
        item.took_ns += items[i].took_ns;
      item.kind = KindOfLaunch(item);
    }
    items[kept++] = item;
  }
  items.resize(kept);
}

StepSequence StepItems::Make(const std::vector<StepSync>& syncs, bool with_shapes) const {
  StepSequence sequence;
  const size_t most = items.size() + syncs.size();
  sequence.tokens.reserve(most);
  sequence.items.reserve(most);
  sequence.took_ns.reserve(most);
  sequence.syncs.reserve(most);
  uint32_t next_id = 0;
  const auto number = [&](uint32_t* id) {
    if (*id == kNoId) *id = next_id++;
    return *id;
  };
  int32_t symbols = 0;
  for (const StepSync& sync : syncs) symbols = std::max(symbols, sync.symbol + 1);
  std::vector<uint32_t> of_sync(static_cast<size_t>(symbols), kNoId);
  std::vector<uint32_t> of_kind(kinds_.size(), kNoId);
  FlatMap<StepWork, uint32_t> coarse;  // first kind of those that are one without shapes
  std::vector<uint32_t> kind_of(kinds_.size());
  for (uint32_t k = 0; k < kinds_.size(); ++k) {
    StepWork work = kinds_[k].work;
    if (kinds_[k].launch_of >= 0) {
      work.size = kind_of[static_cast<size_t>(kinds_[k].launch_of)];
    } else if (!with_shapes) {
      work.size = 0;
    }
    const auto [first, is_new] = coarse.FindOrAdd(work);
    if (is_new) *first = k;
    kind_of[k] = *first;
  }
  // What came before the first operation is no part of the sequence.
  const int64_t first_ns = items.empty() ? 0 : items.front().submitted_ns;
  auto sync = std::partition_point(syncs.begin(), syncs.end(),
                                   [&](const StepSync& s) { return s.start_ns < first_ns; });
  for (uint32_t i = 0; i < items.size(); ++i) {
    const StepItem& item = items[i];
    for (; sync != syncs.end() && sync->start_ns < item.submitted_ns; ++sync) {
      uint32_t* const id = &of_sync[static_cast<size_t>(sync->symbol)];
      sequence.tokens.push_back({number(id), false, true, item.pause_ns});
      sequence.items.push_back(i);
      sequence.took_ns.push_back(0);
      sequence.syncs.push_back(sync->symbol);
    }
    const Kind& kind = kinds_[item.kind];
    if (kind.launch_of >= 0) number(&of_kind[kind_of[static_cast<size_t>(kind.launch_of)]]);
    sequence.tokens.push_back(
        {number(&of_kind[kind_of[item.kind]]), kind.alone, kind.host_copy, item.pause_ns});
    sequence.items.push_back(i);
    sequence.took_ns.push_back(item.took_ns);
    sequence.syncs.push_back(-1);
  }
  return sequence;
}

// Graphs of several sizes (a server's batches) follow no rule; each replay is a step of its own.
StepPattern StepItems::EachGraph(const StepSequence& sequence) const {
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

TokenMeaning StepItems::MeaningOf(const StepSequence& sequence, size_t token,
                                  bool with_shapes) const {
  TokenMeaning meaning;
  if (sequence.syncs[token] >= 0) {
    meaning.sync = sequence.syncs[token];
    return meaning;
  }
  const Kind& kind = kinds_[items[sequence.items[token]].kind];
  meaning.work = kind.work;
  if (kind.launch_of >= 0) {
    meaning.work.size = 0;
    meaning.first = kinds_[static_cast<size_t>(kind.launch_of)].work;
  }
  if (!with_shapes) meaning.work.size = meaning.first.size = 0;
  return meaning;
}

void StepItems::SetRule(FoundSteps* found) const {
  if (found->pattern.begins.empty()) return;
  StepRule& rule = found->rule;
  rule.typical_tokens = found->pattern.typical_tokens;
  if (rule.each_launch) return;
  const size_t begin = found->pattern.begins.front();
  rule.at = MeaningOf(found->sequence, begin, rule.with_shapes);
  if (found->pattern.of_pair)
    rule.previous = MeaningOf(found->sequence, begin - 1, rule.with_shapes);
}

FoundSteps StepItems::Find(const std::vector<StepSync>& syncs) const {
  FoundSteps exact{Make(syncs, true), {}, {}};
  exact.pattern = FindPattern(exact.sequence.tokens);
  if (exact.pattern.confidence >= 1 - kClearerWithoutShapes) {
    SetRule(&exact);
    return exact;
  }
  FoundSteps coarse{Make(syncs, false), {}, {}};
  coarse.rule.with_shapes = false;
  coarse.pattern = FindPattern(coarse.sequence.tokens);
  FoundSteps& better =
      coarse.pattern.confidence > exact.pattern.confidence + kClearerWithoutShapes ? coarse : exact;
  if (better.pattern.confidence < kClearPattern) {
    StepPattern graphs = EachGraph(better.sequence);
    if (!graphs.begins.empty()) {
      better.pattern = std::move(graphs);
      better.rule.each_launch = true;
    }
  }
  SetRule(&better);
  return std::move(better);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/steps/step_tracker.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "tools/steps/steps.h"
#include "tools/timeline/huge_vector.h"
#include "tools/timeline/nearly_sorted.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Synchronisations that wait for an operation; a loop that only synchronises has no steps.
constexpr size_t kMostSyncs = 1'000'000;
// Parts and starts of a step that has not ended, before they are summed up all the same.
constexpr size_t kMostWaiting = 1'000'000;

int64_t SubmittedNs(const Timeline& timeline, const GpuOp& op) {
  return op.submission < 0 ? op.start_ns
                           : timeline.calls[static_cast<size_t>(op.submission)].start_ns;
}

}  // namespace

StepTracker::StepTracker(int32_t device, size_t learnt_ops, size_t most_listed)
    : device_(device), learnt_ops_(learnt_ops), most_listed_(most_listed) {
  loop_.steps = StepList(most_listed);
}

void StepTracker::Read(const MeasuredStretch& stretch) {
  run_begin_ns_ = stretch.run_begin_ns;
  TakeSyncs(stretch);
  TakeOps(stretch);
  if (state_ == State::kPausing) {
    then_ = Then::kRestart;
    if (pause_ops_ == 0) state_ = State::kLearning;
  } else if (state_ == State::kLearning) {
    then_ = Then::kWait;
    if (kept_.size() >= learnt_ops_) {
      learnt_a_part_ = true;
      then_ = Decide({run_begin_ns_, taken_until_ns_}, stretch.timeline);
    }
  } else {
    then_ = Then::kRelease;
  }
  if (then_ == Then::kRelease) ordered_until_ns_ = OrderedUntil(stretch);
}

void StepTracker::Follow(const std::vector<GapPart>& parts) {
  cutter_.LendParts(parts);
  if (then_ == Then::kRestart) cutter_.Restart(taken_until_ns_);
  if (then_ == Then::kRelease) Release(ordered_until_ns_);
  then_ = Then::kWait;
  cutter_.KeepParts();
  for (const GapPart& part : idle_behind_)
    cutter_.AddPart(part.begin_ns, part.end_ns, part.cause, part.where);
  idle_behind_.clear();
}

void StepTracker::TakeSyncs(const MeasuredStretch& stretch) {
  const bool wanted = state_ == State::kLearning || state_ == State::kMatching;
  const auto& processes = stretch.activity.processes;
  for (int32_t p = 0; p < static_cast<int32_t>(processes.size()); ++p) {
    if (!processes[static_cast<size_t>(p)]) continue;
    Source& source = syncs_[p];
    if (!wanted || (state_ == State::kMatching && p != process_)) {
      source.syncs.clear();
      source.until_ns = stretch.known_until_ns;
      continue;
    }
    const auto calls = stretch.host.SyncsOf(p);
    const auto start_ns = [&](int32_t call) {
      return stretch.timeline.calls[static_cast<size_t>(call)].start_ns;
    };
    auto at = std::partition_point(calls.begin(), calls.end(),
                                   [&](int32_t call) { return start_ns(call) < source.until_ns; });
    for (; at != calls.end() && start_ns(*at) < stretch.known_until_ns; ++at) {
      source.syncs.push_back(
          {start_ns(*at), stretch.timeline.calls[static_cast<size_t>(*at)].symbol});
    }
    source.until_ns = stretch.known_until_ns;
    // The matcher takes them away itself.
    if (state_ == State::kLearning && source.syncs.size() > kMostSyncs)
      source.syncs.erase(source.syncs.begin(), source.syncs.begin() + kMostSyncs / 2);
  }
}

void StepTracker::TakeOps(const MeasuredStretch& stretch) {
  const Timeline& t = stretch.timeline;
  const auto& ops = stretch.activity.ops;
  const auto& gaps = stretch.report.gaps;
  const int64_t until_ns = stretch.report.window.end_ns;
  auto gap = gaps.begin();
  auto at = std::partition_point(ops.begin(), ops.end(), [&](int32_t op) {
    return t.ops[static_cast<size_t>(op)].start_ns < taken_until_ns_;
  });
  for (; at != ops.end(); ++at) {
    const GpuOp& op = t.ops[static_cast<size_t>(*at)];
    if (op.start_ns >= until_ns) break;
    cutter_.AddStart(op.start_ns);
    if (op.end_ns <= run_begin_ns_) continue;
    switch (state_) {
      case State::kLearning: {
        while (gap != gaps.end() && gap->end_ns < op.start_ns) ++gap;
        const bool paused = gap != gaps.end() && gap->end_ns == op.start_ns;
        Learn(t, op, paused ? gap->length_ns() : 0);
        break;
      }
      case State::kPausing:
        pause_ops_ -= pause_ops_ > 0;
        break;
      case State::kMatching:
      case State::kMarked:
        Queue(t, op);
        break;
    }
  }
  taken_until_ns_ = std::max(taken_until_ns_, until_ns);
}

void StepTracker::Learn(const Timeline& timeline, const GpuOp& op, int64_t pause_ns) {
  const uint32_t kind = items_.KindOf(timeline, op);
  items_.items.push_back({SubmittedNs(timeline, op), pause_ns, op.end_ns - op.start_ns,
                          static_cast<int32_t>(kept_.size()), op.correlation, op.graph_id, kind,
                          op.submission >= 0});
  kept_.push_back({op.start_ns, op.end_ns, op.process, op.stream});
}

void StepTracker::Queue(const Timeline& timeline, const GpuOp& op) {
  marked_of_ns_ += op.end_ns - op.start_ns;
  if (process_ >= 0 && op.process != process_) return;
  if (one_stream_ && op.stream != stream_) return;
  const uint8_t fits = match_ ? match_->Of(StepWorkOf(timeline, op), op.graph_id) : uint8_t{0};
  // Where it stays: copying what has just been put together field by field stalls.
  QueuedItem& item = queue_.emplace_back();
  item.submitted_ns = SubmittedNs(timeline, op);
  item.start_ns = op.start_ns;
  item.end_ns = op.end_ns;
  item.correlation = op.correlation;
  item.has_call = op.submission >= 0;
  item.graph = op.kind == OpKind::kGraph;
  item.fits = fits;
}

// What was submitted before it is at hand.
int64_t StepTracker::OrderedUntil(const MeasuredStretch& stretch) const {
  int64_t until_ns = stretch.known_until_ns;
  if (one_stream_ || process_ < 0) return until_ns;
  const Timeline& t = stretch.timeline;
  const auto& ops = stretch.activity.ops;
  auto at = std::partition_point(ops.begin(), ops.end(), [&](int32_t op) {
    return t.ops[static_cast<size_t>(op)].start_ns < taken_until_ns_;
  });
  for (; at != ops.end(); ++at) {
    const GpuOp& op = t.ops[static_cast<size_t>(*at)];
    if (op.process == process_) until_ns = std::min(until_ns, SubmittedNs(t, op));
  }
  return until_ns;
}

int64_t StepTracker::OldestWaitingNs() const {
  int64_t oldest_ns = taken_until_ns_;
  for (const QueuedItem& item : queue_) oldest_ns = std::min(oldest_ns, item.start_ns);
  return oldest_ns;
}

void StepTracker::Release(int64_t before_ns) {
  if (!one_stream_ && process_ >= 0) {
    SortNearlySorted(std::span(queue_), [](const QueuedItem& a, const QueuedItem& b) {
      return a.submitted_ns < b.submitted_ns;
    });
  }
  std::vector<StepSync>& syncs = syncs_[process_].syncs;
  size_t released = 0;
  for (; released < queue_.size(); ++released) {
    const QueuedItem& item = queue_[released];
    // On the device all that has started is in order.
    if (process_ >= 0 && before_ns != kNever && item.submitted_ns >= before_ns) break;
    if (marker_matcher_) {
      marker_matcher_->Add(item, &cutter_, &loop_.steps);
    } else {
      matcher_->Add(item, &syncs, &cutter_, &loop_.steps);
    }
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(released));
  const int64_t next_ns = OldestWaitingNs();
  const int64_t not_before_ns =
      marker_matcher_ ? marker_matcher_->NotBefore(next_ns) : matcher_->NotBefore(next_ns);
  cutter_.SumUpTo(not_before_ns);
  if (cutter_.waiting() > kMostWaiting) {
    if (not_before_ns < next_ns) cutter_.MayEnd(not_before_ns);
    cutter_.SumUpTo(next_ns);
  }
  if (before_ns != kNever && matcher_ && matcher_->since_begin() > learnt_ops_) {
    FinishLoop(taken_until_ns_);
    pause_ops_ = next_pause_ops_ = 0;
    BeginLearning();
    cutter_.Restart(taken_until_ns_);
  }
}

// Sets up the state for `process_`, `stream_` and `one_stream_`, and hands over what was kept.
std::vector<StepTracker::LearntWork> StepTracker::RequeueLearnt() {
  std::vector<LearntWork> works;
  ReserveHuge(kept_.size(), &queue_);
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Kept& kept = kept_[i];
    marked_of_ns_ += kept.end_ns - kept.start_ns;
    if (process_ >= 0 && kept.process != process_) continue;
    if (one_stream_ && kept.stream != stream_) continue;
    const StepItem& item = items_.items[i];
    const StepWork& work = items_.WorkOf(item.kind);
    queue_.push_back({item.submitted_ns, kept.start_ns, kept.end_ns, item.correlation,
                      item.has_call == 1, work.kind == OpKind::kGraph, 0});
    works.push_back({item.kind, item.graph_id});
  }
  return works;
}

StepTracker::Then StepTracker::Decide(const Window& so_far, const Timeline& timeline) {
  if (DecideByMarkers(timeline, so_far)) {
    state_ = State::kMarked;
  } else if (DecideByPattern(timeline)) {
    state_ = State::kMatching;
  } else {
    operations_ += learnt_of_lead_;
    GiveUp();
    return Then::kRestart;
  }
  items_ = StepItems();
  kept_ = {};
  return Then::kRelease;
}

bool StepTracker::DecideByMarkers(const Timeline& timeline, const Window& so_far) {
  if (timeline.markers.empty()) return false;
  std::vector<MarkedOp> ops;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const StepItem& item = items_.items[i];
    ops.push_back({kept_[i].start_ns, kept_[i].end_ns,
                   item.has_call ? item.submitted_ns : MarkedOp::kNotSubmitted, kept_[i].process,
                   static_cast<int32_t>(i)});
  }
  MarkedSteps marked = FindMarkedSteps(timeline, device_, ops, so_far);
  if (marked.times_ns.size() <= kFewestMarkedSteps) return false;
  loop_.source = marked.source;
  loop_.marker = std::move(marked.marker);
  loop_.first_op = items_.ExampleOf(items_.items[static_cast<size_t>(marked.first_op)].kind);
  one_stream_ = false;
  process_ = marked.set.on_device ? -1 : marked.set.process;
  marker_matcher_.emplace(RangesOf(timeline, device_, marked.set), marked.set.on_device,
                          run_begin_ns_);
  marked_of_ns_ = 0;
  RequeueLearnt();
  return true;
}

bool StepTracker::DecideByPattern(const Timeline& timeline) {
  StreamCounts streams(timeline);
  for (const Kept& kept : kept_) {
    GpuOp op = {};
    op.process = kept.process;
    op.stream = kept.stream;
    streams.Add(op);
  }
  const StreamCounts::Lead lead = streams.Busiest();
  process_ = lead.process;
  stream_ = lead.stream;
  one_stream_ = IsOneStream(streams);
  queue_.clear();
  const std::vector<LearntWork> works = RequeueLearnt();
  size_t of_lead = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i].process != process_ || (one_stream_ && kept_[i].stream != stream_)) continue;
    items_.items[of_lead++] = items_.items[i];
  }
  items_.items.resize(of_lead);
  learnt_of_lead_ = of_lead;
  items_.Arrange(one_stream_);
  const FoundSteps found = items_.Find(syncs_[process_].syncs);
  if (found.pattern.begins.empty()) {
    queue_.clear();
    return false;
  }
  const uint32_t first = found.sequence.items[found.pattern.begins.front()];
  loop_.source = StepSource::kPattern;
  loop_.marker.clear();
  loop_.confidence = found.pattern.confidence;
  loop_.first_op = items_.ExampleOf(items_.items[first].kind);
  matcher_.emplace(found.rule, run_begin_ns_);
  match_.emplace(found.rule);
  for (size_t i = 0; i < queue_.size(); ++i)
    queue_[i].fits = match_->Of(items_.WorkOf(works[i].kind), works[i].graph_id);
  return true;
}

void StepTracker::GiveUp() {
  pause_ops_ = next_pause_ops_;
  next_pause_ops_ = next_pause_ops_ == 0 ? learnt_ops_ : 2 * next_pause_ops_;
  BeginLearning();
  if (pause_ops_ > 0) state_ = State::kPausing;
}

void StepTracker::BeginLearning() {
  items_ = StepItems();
  kept_ = {};
  queue_.clear();
  for (auto& [process, source] : syncs_) source.syncs.clear();
  state_ = State::kLearning;
}

// What was matched last is over.
void StepTracker::FinishLoop(int64_t run_end_ns) {
  if (marker_matcher_) {
    marker_matcher_->Finish(run_end_ns, &cutter_, &loop_.steps);
    if (marked_of_ns_ > 0) {
      loop_.confidence =
          static_cast<double>(marker_matcher_->in_ns()) / static_cast<double>(marked_of_ns_);
    }
  } else if (matcher_) {
    matcher_->Finish(run_end_ns, &syncs_[process_].syncs, &cutter_, &loop_.steps);
  }
  marker_matcher_.reset();
  matcher_.reset();
  match_.reset();
  if (loop_.steps.count() == 0) return;
  if (longest_) ++other_loops_;
  if (!longest_ || loop_.steps.span_ns() > longest_->steps.span_ns()) longest_ = std::move(loop_);
  loop_ = Loop();
  loop_.steps = StepList(most_listed_);
}

void StepTracker::Finish(const Timeline& timeline, const Window& window) {
  run_begin_ns_ = window.start_ns;
  const bool matching = state_ == State::kMatching || state_ == State::kMarked;
  if (matching || (state_ == State::kLearning && Decide(window, timeline) == Then::kRelease))
    Release(kNever);
  FinishLoop(window.end_ns);
}

DeviceSteps StepTracker::Steps(const Window* within, const std::vector<std::string>& places,
                               GpuOp* first_op) const {
  DeviceSteps result;
  result.device = device_;
  if (!longest_) {
    result.why_none = NoPatternText(operations_);
    return result;
  }
  longest_->steps.FillIn(within, places, &result);
  const bool by_pattern = longest_->source == StepSource::kPattern;
  if (result.steps.empty() || (by_pattern && result.steps.size() < kFewestSteps)) {
    DeviceSteps none;
    none.device = device_;
    none.why_none = TooFewStepsText();
    return none;
  }
  result.source = longest_->source;
  result.marker = longest_->marker;
  result.confidence = longest_->confidence;
  *first_op = longest_->first_op;
  first_op->submission = -1;
  return result;
}

}  // namespace gpuprobe::tools

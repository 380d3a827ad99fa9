// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/steps/step_matcher.h"

#include <algorithm>

namespace gpuprobe::tools {

void StepMatcher::Add(const QueuedItem& item, std::vector<StepSync>* syncs, StepCutter* cutter,
                      StepList* steps) {
  if (item.has_call) latest_ns_ = std::max(latest_ns_, item.submitted_ns);
  if (has_open_ && item.correlation != 0 && open_.correlation == item.correlation) {
    joined_ = true;
    return;
  }
  Flush(syncs, cutter, steps);
  open_ = item;
  open_.submitted_ns = latest_ns_;
  has_open_ = true;
  joined_ = false;
}

void StepMatcher::Flush(std::vector<StepSync>* syncs, StepCutter* cutter, StepList* steps) {
  if (!has_open_) return;
  const auto before = [&](size_t i) {
    return i < syncs->size() && (*syncs)[i].start_ns < open_.submitted_ns;
  };
  for (; before(next_sync_); ++next_sync_) {
    if (first_) continue;  // what came before the first item is no part of the sequence
    Token((*syncs)[next_sync_].symbol, cutter, steps);
  }
  first_ = false;
  Token(-1, cutter, steps);
  has_open_ = false;
  constexpr size_t kWorthMoving = 1'024;
  if (next_sync_ > kWorthMoving) {
    syncs->erase(syncs->begin(), syncs->begin() + static_cast<ptrdiff_t>(next_sync_));
    next_sync_ = 0;
  }
}

void StepMatcher::Token(int32_t sync, StepCutter* cutter, StepList* steps) {
  const bool begins = rule_.each_launch
                          ? sync < 0 && (joined_ || open_.graph)
                          : (!rule_.previous || previous_fits_) &&
                                Fits(sync, *rule_.at, StepMatch::kAt, StepMatch::kAtJoined);
  previous_fits_ = rule_.previous &&
                   Fits(sync, *rule_.previous, StepMatch::kPrevious, StepMatch::kPreviousJoined);
  const int64_t start_ns = std::max(open_.start_ns, run_begin_ns_);
  if (begins) {
    ++begins_;
    last_begin_ = position_;
    last_end_ns_ = end_ns_ = 0;
    cutter->Begin(start_ns, steps);
  } else if (begins_ > 0 && !rule_.each_launch && position_ == last_begin_ + rule_.typical_tokens) {
    end_ns_ = start_ns;
    cutter->MayEnd(end_ns_);
  }
  last_end_ns_ = std::max(last_end_ns_, open_.end_ns);
  ++position_;
}

int64_t StepMatcher::NotBefore(int64_t next_ns) const {
  if (has_open_) next_ns = std::min(next_ns, open_.start_ns);
  // The run may end here, and the step with the last of its tokens.
  const bool may_end = begins_ > 0 && (rule_.each_launch || end_ns_ == 0);
  return may_end ? std::min(next_ns, last_end_ns_) : next_ns;
}

void StepMatcher::Finish(int64_t run_end_ns, std::vector<StepSync>* syncs, StepCutter* cutter,
                         StepList* steps) {
  Flush(syncs, cutter, steps);
  if (begins_ == 0) return;
  const uint64_t rest = position_ - last_begin_;
  const int64_t last_end_ns = std::min(last_end_ns_, run_end_ns);
  if (rule_.each_launch) {
    cutter->End(last_end_ns, steps);
  } else if (rest >= rule_.typical_tokens) {
    cutter->End(rest > rule_.typical_tokens ? end_ns_ : last_end_ns, steps);
  } else if (static_cast<double>(rest) >= 0.9 * static_cast<double>(rule_.typical_tokens)) {
    cutter->End(last_end_ns, steps);
  } else {
    --begins_;  // unfinished: it only ends the one before
  }
}

void MarkerMatcher::Add(const QueuedItem& item, StepCutter* cutter, StepList* steps) {
  const int64_t at_ns = on_device_ ? item.start_ns : item.submitted_ns;
  if (!on_device_ && !item.has_call) return;
  while (next_ < ranges_.size() && ranges_[next_].end_ns <= at_ns) ++next_;
  if (next_ == ranges_.size() || ranges_[next_].start_ns > at_ns) return;
  in_ns_ += item.end_ns - item.start_ns;
  if (next_ != current_ && next_ != refused_) {
    const int64_t begin_ns = std::max(item.start_ns, run_begin_ns_);
    // Another stream has begun with the next range's work already: one step.
    if (begin_ns <= last_begin_ns_) {
      refused_ = next_;
      return;
    }
    current_ = next_;
    last_begin_ns_ = last_end_ns_ = begin_ns;
    cutter->Begin(begin_ns, steps);
  }
  if (next_ == current_) last_end_ns_ = std::max(last_end_ns_, item.end_ns);
}

int64_t MarkerMatcher::NotBefore(int64_t next_ns) const {
  return current_ == SIZE_MAX ? next_ns : std::min(next_ns, last_end_ns_);
}

void MarkerMatcher::Finish(int64_t run_end_ns, StepCutter* cutter, StepList* steps) {
  if (current_ != SIZE_MAX) cutter->End(std::min(last_end_ns_, run_end_ns), steps);
}

}  // namespace gpuprobe::tools

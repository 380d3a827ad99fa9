// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/steps/step_cutter.h"

#include <algorithm>
#include <utility>

namespace gpuprobe::tools {

void StepCutter::Count(const Part& part, int64_t until_ns, Open* open) {
  const int64_t ns = std::min(part.end_ns, until_ns) - part.begin_ns;
  open->step.cause_ns[static_cast<size_t>(part.cause)] += ns;
  open->step.idle_ns += ns;
  // The last few places are those of the next part, too; one that is listed twice costs memory
  // alone.
  constexpr size_t kLookedAt = 16;
  std::vector<StepPlace>& places = open->places;
  if (!places.empty() && places.back().where == part.where && places.back().cause == part.cause) {
    places.back().ns += ns;
    return;
  }
  for (size_t i = places.size(), left = kLookedAt; i-- > 0 && left > 0; --left) {
    StepPlace& place = places[i];
    if (place.where != part.where || place.cause != part.cause) continue;
    place.ns += ns;
    return;
  }
  places.push_back({ns, part.where, part.cause});
}

void StepCutter::SumUpTo(int64_t ns) {
  if (may_end_ns_ != kNever && !may_end_ && may_end_ns_ <= ns) {
    Sum(may_end_ns_);
    may_end_ = open_;
  }
  Sum(ns);
}

void StepCutter::Sum(int64_t ns) {
  if (ns <= summed_ns_) return;
  for (; first_start_ < starts_.size() && starts_[first_start_] < ns; ++first_start_) {
    open_.step.ops += begun_ns_ != kNever;
  }
  for (; first_part_ < parts_.size() && parts_[first_part_].begin_ns < ns; ++first_part_) {
    Part& part = parts_[first_part_];
    if (begun_ns_ != kNever) Count(part, ns, &open_);
    if (part.end_ns <= ns) continue;
    part.begin_ns = ns;
    break;
  }
  if (first_part_ == parts_.size()) SumUpLent(ns);
  summed_ns_ = ns;
  Compact();
}

void StepCutter::SumUpLent(int64_t ns) {
  size_t summed = 0;
  for (; summed < lent_.size(); ++summed) {
    const GapPart& lent = lent_[summed];
    const Part part = {std::max(lent.begin_ns, lent_from_ns_), lent.end_ns, lent.where, lent.cause};
    if (part.begin_ns >= ns) break;
    if (begun_ns_ != kNever) Count(part, ns, &open_);
    if (part.end_ns <= ns) continue;
    lent_from_ns_ = ns;
    break;
  }
  lent_ = lent_.subspan(summed);
}

void StepCutter::Compact() {
  constexpr size_t kWorthMoving = 4'096;
  if (first_part_ > kWorthMoving && first_part_ * 2 > parts_.size()) {
    parts_.erase(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(first_part_));
    first_part_ = 0;
  }
  if (first_start_ > kWorthMoving && first_start_ * 2 > starts_.size()) {
    starts_.erase(starts_.begin(), starts_.begin() + static_cast<ptrdiff_t>(first_start_));
    first_start_ = 0;
  }
}

void StepCutter::Close(int64_t ns, Open open, StepList* steps) {
  Step& step = open.step;
  step.begin_ns = begun_ns_;
  step.end_ns = ns;
  step.busy_ns = step.duration_ns() - step.idle_ns;
  if (!steps->MayBeSlow(step.duration_ns())) open.places.clear();
  steps->Add(step, std::move(open.places));
}

void StepCutter::Begin(int64_t ns, StepList* steps) {
  if (begun_ns_ != kNever && ns <= begun_ns_) return;
  ns = std::max(ns, summed_ns_);
  SumUpTo(ns);
  if (begun_ns_ != kNever) Close(ns, std::move(open_), steps);
  open_ = Open();
  begun_ns_ = ns;
  ForgetMayEnd();
}

// Not summed up yet: the next step may begin earlier, on another stream.
void StepCutter::MayEnd(int64_t ns) {
  if (begun_ns_ == kNever || ns <= begun_ns_ || ns < summed_ns_) return;
  may_end_.reset();
  may_end_ns_ = ns;
}

void StepCutter::ForgetMayEnd() {
  may_end_.reset();
  may_end_ns_ = kNever;
}

void StepCutter::End(int64_t ns, StepList* steps) {
  if (begun_ns_ == kNever || ns <= begun_ns_) return;
  if (may_end_ && (ns == may_end_ns_ || ns < summed_ns_)) {
    Close(may_end_ns_, *std::move(may_end_), steps);
  } else {
    ns = std::max(ns, summed_ns_);
    SumUpTo(ns);
    Close(ns, std::move(open_), steps);
  }
  Restart(ns);
}

void StepCutter::Restart(int64_t ns) {
  begun_ns_ = kNever;
  SumUpTo(ns);
  open_ = Open();
  ForgetMayEnd();
}

}  // namespace gpuprobe::tools

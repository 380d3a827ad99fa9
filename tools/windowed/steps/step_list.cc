// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/steps/step_list.h"

#include <algorithm>
#include <unordered_map>

#include "tools/steps/step_figures.h"

namespace gpuprobe::tools {
namespace {

// A step that is shorter than this part of what is slow now will not be slow in the end: medians
// of a thousand steps do not move that far.
constexpr double kMayBeSlow = 0.8;
constexpr uint64_t kStepsForMedian = 1'024;

}  // namespace

bool StepList::MayBeSlow(int64_t duration_ns) const {
  return median_ns_ == 0 || static_cast<double>(duration_ns) >
                                kMayBeSlow * kSlowStep * static_cast<double>(median_ns_);
}

int64_t StepList::MedianNs() const {
  std::vector<WeightedNs> durations;
  for (const Step& step : steps_) durations.emplace_back(step.duration_ns(), step.stands_for);
  return PercentileOf(&durations, 0.5);
}

void StepList::Add(Step step, std::vector<StepPlace> places) {
  step.index = total_.count;
  step.stands_for = 1;
  CountStep(step, &total_);
  if (!places.empty() && MayBeSlow(step.duration_ns())) {
    place_count_ += places.size();
    places_.emplace_back(step.index, std::move(places));
  }
  const bool slow = every_ > 1 && IsSlowStep(step.duration_ns(), median_ns_);
  if (!slow) {
    if (ordinary_++ % every_ != 0) return;
    step.stands_for = every_;
  }
  steps_.push_back(step);
  if (steps_.size() > most_) ThinOut();
  if (total_.count >= kStepsForMedian && total_.count >= 2 * median_of_) {
    median_ns_ = MedianNs();
    median_of_ = total_.count;
  }
  if (place_count_ > kMostStepPlaces) DropPlaces();
}

// The last ordinary step may stand for some that have not come: one in kMostListedSteps / 2.
void StepList::ThinOut() {
  median_ns_ = MedianNs();
  median_of_ = total_.count;
  const auto is_slow = [&](const Step& step) { return IsSlowStep(step.duration_ns(), median_ns_); };
  const auto slow = static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), is_slow));
  const bool keep_slow = slow <= most_ / 2;
  std::vector<Step> kept;
  uint64_t ordinary = 0;
  for (Step& step : steps_) {
    if (keep_slow && is_slow(step)) {
      kept.push_back(step);
      continue;
    }
    if (ordinary++ % 2 != 0) continue;
    step.stands_for *= 2;
    kept.push_back(step);
  }
  steps_ = std::move(kept);
  every_ *= 2;
  ordinary_ = ordinary % 2;  // the last one that was kept stands for the next
}

void StepList::DropPlaces() {
  const int64_t median_ns = MedianNs();
  median_ns_ = median_ns;
  median_of_ = total_.count;
  std::vector<std::pair<uint64_t, std::vector<StepPlace>>> kept;
  place_count_ = 0;
  auto step = steps_.begin();
  for (auto& [index, places] : places_) {
    while (step != steps_.end() && step->index < index) ++step;
    if (step == steps_.end() || step->index != index || !MayBeSlow(step->duration_ns())) continue;
    if (place_count_ + places.size() > kMostStepPlaces / 2) break;  // the first ones tell
    place_count_ += places.size();
    kept.emplace_back(index, std::move(places));
  }
  places_ = std::move(kept);
}

std::string StepList::SlowPlace(const DeviceSteps& steps, Cause cause,
                                const std::vector<std::string>& places) const {
  std::unordered_map<int32_t, int64_t> by_place;
  auto of_step = places_.begin();
  for (const Step& step : steps.steps) {
    if (!step.slow) continue;
    while (of_step != places_.end() && of_step->first < step.index) ++of_step;
    if (of_step == places_.end()) break;
    if (of_step->first != step.index) continue;
    for (const StepPlace& place : of_step->second) {
      if (place.cause == cause) by_place[place.where] += place.ns;
    }
  }
  std::pair<int64_t, int32_t> best = {0, -1};
  for (const auto& [place, ns] : by_place) {
    if (ns > best.first || (ns == best.first && place < best.second)) best = {ns, place};
  }
  return best.second < 0 ? "" : places[static_cast<size_t>(best.second)];
}

void StepList::FillIn(const Window* within, const std::vector<std::string>& places,
                      DeviceSteps* result) const {
  result->count = 0;
  result->all = Step{0, 0};
  for (const Step& step : steps_) {
    if (within != nullptr && (step.begin_ns < within->start_ns || step.end_ns > within->end_ns)) {
      continue;
    }
    result->steps.push_back(step);
    CountStep(step, result);
  }
  if (within == nullptr) {
    result->count = total_.count;
    result->all = total_.all;
  }
  if (result->steps.empty()) return;
  MeasureStepFigures([&](Cause cause) { return SlowPlace(*result, cause, places); }, result);
}

}  // namespace gpuprobe::tools

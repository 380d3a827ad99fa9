// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/step_figures.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpuprobe::tools {
namespace {

// A growth below this share of what slow steps took longer explains nothing.
constexpr double kWorthTelling = 0.05;

void MeasureDurations(DeviceSteps* result) {
  std::vector<WeightedNs> durations, ops;
  for (const Step& step : result->steps) {
    durations.emplace_back(step.duration_ns(), step.stands_for);
    ops.emplace_back(static_cast<int64_t>(step.ops), step.stands_for);
  }
  result->median_ns = PercentileOf(&durations, 0.5);
  result->p90_ns = PercentileOf(&durations, 0.9);
  result->p99_ns = PercentileOf(&durations, 0.99);
  result->min_ns = durations.front().first;
  result->max_ns = durations.back().first;
  result->typical_ops = static_cast<uint64_t>(PercentileOf(&ops, 0.5));
}

// The distance that nearly all neighbouring slow steps have, give or take one; 0: none.
uint64_t PeriodOf(const std::vector<uint64_t>& slow, uint64_t steps) {
  std::vector<uint64_t> distances;
  uint64_t first = UINT64_MAX, previous = UINT64_MAX;
  for (const uint64_t at : slow) {
    if (at < kWarmUpSteps) continue;
    if (first == UINT64_MAX) first = at;
    if (previous != UINT64_MAX) distances.push_back(at - previous);
    previous = at;
  }
  if (distances.empty()) return 0;
  // Of two: the one before the first and the one after the second must lie outside of the run.
  if (distances.size() + 1 < kFewestForPeriod &&
      (first > distances[0] + kWarmUpSteps || steps - previous > distances[0] + 1)) {
    return 0;
  }
  std::vector<uint64_t> sorted = distances;
  std::sort(sorted.begin(), sorted.end());
  const uint64_t median = sorted[sorted.size() / 2];
  const auto near = std::count_if(distances.begin(), distances.end(),
                                  [&](uint64_t d) { return d + 1 >= median && d <= median + 1; });
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

// Sets Step::slow; returns whether there is one.
bool MarkSlowSteps(DeviceSteps* result) {
  std::vector<uint64_t> slow;
  const uint64_t first = result->steps.front().index;
  bool all_listed = true;
  result->slow_steps = 0;
  for (Step& step : result->steps) {
    step.slow = IsSlowStep(step.duration_ns(), result->median_ns);
    if (!step.slow) continue;
    slow.push_back(step.index - first);
    result->slow_steps += step.stands_for;
    all_listed &= step.stands_for == 1;
  }
  result->slow_period = all_listed ? PeriodOf(slow, result->count) : 0;
  return !slow.empty();
}

void MeasureGrowth(const SlowPlaceOf& slow_place, DeviceSteps* result) {
  std::array<int64_t, kAmounts> slow_sum{};
  std::array<std::vector<WeightedNs>, kAmounts> others;
  int64_t longer_ns = 0;
  for (const Step& step : result->steps) {
    const auto amounts = Amounts(step);
    if (step.slow) longer_ns += step.stands_for * (step.duration_ns() - result->median_ns);
    for (size_t a = 0; a < kAmounts; ++a) {
      if (step.slow) {
        slow_sum[a] += step.stands_for * amounts[a];
      } else {
        others[a].emplace_back(amounts[a], step.stands_for);
      }
    }
  }
  const auto n = static_cast<int64_t>(result->slow_steps);
  for (size_t a = 0; a < kAmounts; ++a) {
    const int64_t extra_ns = slow_sum[a] / n - PercentileOf(&others[a], 0.5);
    if (static_cast<double>(extra_ns) < kWorthTelling * static_cast<double>(longer_ns / n))
      continue;
    StepGrowth growth;
    growth.extra_ns = extra_ns;
    if (a < kCauseCount) {
      growth.cause = static_cast<Cause>(a);
      growth.where = slow_place(*growth.cause);
    }
    result->growth.push_back(std::move(growth));
  }
  std::stable_sort(result->growth.begin(), result->growth.end(),
                   [](const auto& a, const auto& b) { return a.extra_ns > b.extra_ns; });
}

}  // namespace

int64_t PercentileOf(std::vector<WeightedNs>* values, double share) {
  std::sort(values->begin(), values->end());
  uint64_t all = 0;
  for (const WeightedNs& value : *values) all += value.second;
  const double rank = std::max(1.0, std::ceil(share * static_cast<double>(all)));
  uint64_t up_to = 0;
  for (const WeightedNs& value : *values) {
    up_to += value.second;
    if (static_cast<double>(up_to) >= rank) return value.first;
  }
  return values->back().first;
}

void MeasureStepFigures(const SlowPlaceOf& slow_place, DeviceSteps* result) {
  MeasureDurations(result);
  result->growth.clear();
  if (MarkSlowSteps(result)) MeasureGrowth(slow_place, result);
}

void CountStep(const Step& step, DeviceSteps* result) {
  Step& all = result->all;
  if (result->count == 0) all.begin_ns = step.begin_ns;
  const int64_t weight = step.stands_for;
  result->count += step.stands_for;
  all.end_ns = step.end_ns;
  all.ops += step.stands_for * step.ops;
  all.busy_ns += weight * step.busy_ns;
  all.idle_ns += weight * step.idle_ns;
  for (size_t c = 0; c < kCauseCount; ++c) all.cause_ns[c] += weight * step.cause_ns[c];
}

}  // namespace gpuprobe::tools

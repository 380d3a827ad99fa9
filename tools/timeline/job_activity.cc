// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/job_activity.h"

#include <algorithm>

namespace gpuprobe::tools {
namespace {

// Deeper than any job; ends the walk where a damaged file makes processes each other's parents.
constexpr int kDeepestProcess = 64;

}  // namespace

bool IsBelow(const Timeline& timeline, int32_t process, int32_t ancestor) {
  if (process < 0 || process == ancestor) return false;
  for (int depth = 0; depth < kDeepestProcess; ++depth) {
    process = timeline.processes[process].parent;
    if (process < 0) return false;
    if (process == ancestor) return true;
  }
  return false;
}

int64_t WorkNs(const HostSample& sample) {
  if (sample.state == HostState::kBlockedIo) return sample.interval_ns;
  const int64_t cpu_ns = std::clamp<int64_t>(sample.cpu_ns, 0, sample.interval_ns);
  return cpu_ns + std::clamp<int64_t>(sample.runnable_ns, 0, sample.interval_ns - cpu_ns);
}

void JobActivity::Curve::Add(int64_t begin, int64_t end, double rate) {
  steps_.push_back({begin, rate, 0});
  steps_.push_back({end, -rate, 0});
}

void JobActivity::Curve::Finish() {
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.at < b.at; });
  double rate = 0, integral = 0;
  int64_t at = steps_.empty() ? 0 : steps_.front().at;
  for (Step& step : steps_) {
    integral += rate * static_cast<double>(step.at - at);
    at = step.at;
    rate += step.rate;
    step.rate = rate;
    step.before = integral;
  }
}

double JobActivity::Curve::Until(int64_t ns) const {
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), ns,
                                      [](int64_t t, const Step& step) { return t < step.at; });
  if (after == steps_.begin()) return 0;
  const Step& step = *(after - 1);
  return step.before + step.rate * static_cast<double>(ns - step.at);
}

JobActivity::JobActivity(const Timeline& timeline)
    : own_(timeline.processes.size()),
      below_(timeline.processes.size()),
      sampled_(timeline.processes.size()) {
  for (const SampledPeriod& period : timeline.sampled) {
    if (period.process >= 0) sampled_[period.process].Add(period.begin_ns, period.end_ns, 0);
  }
  for (const HostSample& sample : timeline.samples) {
    const int64_t work_ns = WorkNs(sample);
    if (work_ns <= 0 || sample.thread < 0) continue;
    int32_t process = timeline.threads[sample.thread].process;
    if (process < 0) continue;
    const double rate = static_cast<double>(work_ns) / static_cast<double>(sample.interval_ns);
    const int64_t begin_ns = sample.time_ns - sample.interval_ns;
    own_[process].Add(begin_ns, sample.time_ns, rate);
    for (int depth = 0; depth < kDeepestProcess; ++depth) {
      process = timeline.processes[process].parent;
      if (process < 0) break;
      below_[process].Add(begin_ns, sample.time_ns, rate);
    }
  }
  for (Curve& curve : own_) curve.Finish();
  for (Curve& curve : below_) curve.Finish();
}

bool JobActivity::Sampled(int32_t process, int64_t ns) const {
  if (process < 0) return false;
  const Lane::Piece* piece = sampled_[process].AtOrBefore(ns);
  return piece != nullptr && ns <= piece->end;
}

}  // namespace gpuprobe::tools

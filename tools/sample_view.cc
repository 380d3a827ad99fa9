// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/sample_view.h"

#include <algorithm>
#include <limits>

#include "tools/attribution.h"

namespace gpuprobe::tools {

Stretch StretchBefore(const Timeline& timeline, const HostView& host, int32_t thread, size_t next) {
  const auto lane = host.CallsOf(thread);
  Stretch stretch{thread,
                  next > 0 ? lane[next - 1] : -1,
                  next < lane.size() ? lane[next] : -1,
                  std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(),
                  false};
  if (stretch.before >= 0) stretch.since_ns = timeline.calls[stretch.before].end_ns;
  if (stretch.after >= 0) stretch.until_ns = timeline.calls[stretch.after].start_ns;
  stretch.back_to_back = stretch.before >= 0 && stretch.after >= 0 &&
                         stretch.until_ns - stretch.since_ns <= kBackToBackNs;
  return stretch;
}

size_t SampleView::KeyHash::operator()(const Key& key) const {
  uint64_t hash = static_cast<uint64_t>(key.group);
  for (const int32_t value : {key.thread, key.a, key.b}) {
    hash = (hash ^ static_cast<uint32_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

SampleView::SampleView(const Timeline& timeline, const HostView& host, const CallSites& sites,
                       const SampleJudge& judge)
    : timeline_(timeline),
      host_(host),
      sites_(sites),
      judge_(judge),
      first_(timeline.threads.size() + 1, 0),
      exact_(timeline.threads.size()) {
  if (empty()) return;
  SplitByKind();
  for (size_t t = 0; t < timeline.threads.size(); ++t) GroupPoints(static_cast<int32_t>(t));
}

void SampleView::SplitByKind() {
  std::vector<int32_t> exact;
  for (size_t s = 0; s < timeline_.samples.size(); ++s) {
    const HostSample& sample = timeline_.samples[s];
    if (sample.thread < 0) continue;
    if ((sample.flags & kSampleExact) != 0) {
      exact.push_back(static_cast<int32_t>(s));
    } else {
      points_.push_back(static_cast<int32_t>(s));
      ++first_[sample.thread + 1];
    }
  }
  for (size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
  const auto begin_of = [&](int32_t s) {
    return timeline_.samples[s].time_ns - timeline_.samples[s].interval_ns;
  };
  std::stable_sort(exact.begin(), exact.end(),
                   [&](int32_t a, int32_t b) { return begin_of(a) < begin_of(b); });
  for (const int32_t s : exact) {
    exact_[timeline_.samples[s].thread].Add(begin_of(s), timeline_.samples[s].time_ns, s);
  }
}

void SampleView::GroupPoints(int32_t thread) {
  const auto lane = host_.CallsOf(thread);
  size_t next = 0;
  for (const int32_t s : PointsOf(thread)) {
    const HostSample& sample = timeline_.samples[s];
    while (next < lane.size() && timeline_.calls[lane[next]].end_ns <= sample.time_ns) ++next;
    const bool has_site = sites_.SiteOf(sample.stack) >= 0;
    if (next < lane.size() && timeline_.calls[lane[next]].start_ns <= sample.time_ns) {
      if (!has_site) continue;
      groups_[{thread, Group::kInCall, timeline_.calls[lane[next]].symbol, 0}].push_back(s);
      if (!Blocks(host_.RoleOf(lane[next]))) {
        groups_[{thread, Group::kDispatch, 0, 0}].push_back(s);
      }
      continue;
    }
    const Stretch stretch = StretchBefore(timeline_, host_, thread, next);
    if (stretch.back_to_back) {
      if (!has_site) continue;
      groups_[{thread, Group::kDispatch, 0, 0}].push_back(s);
      groups_[KeyOf(stretch)].push_back(s);
    } else if (judge_.CauseOf(s) != Cause::kHost) {
      groups_[KeyOf(stretch)].push_back(s);
    }
  }
}

SampleView::Key SampleView::KeyOf(const Stretch& stretch) const {
  const auto symbol = [&](int32_t call) { return call < 0 ? -1 : timeline_.calls[call].symbol; };
  return {stretch.thread, stretch.back_to_back ? Group::kBetween : Group::kOutside,
          symbol(stretch.before), symbol(stretch.after)};
}

std::span<const int32_t> SampleView::PointsIn(int32_t thread, int64_t begin, int64_t end) const {
  const auto points = PointsOf(thread);
  const auto from = [&](int64_t ns) {
    return std::partition_point(points.begin(), points.end(),
                                [&](int32_t s) { return timeline_.samples[s].time_ns < ns; });
  };
  const auto first = from(begin);
  return std::span<const int32_t>(first, std::max(first, from(end)));
}

int32_t SampleView::NearestOf(std::span<const int32_t> samples, int64_t ns) const {
  const auto after = std::partition_point(
      samples.begin(), samples.end(), [&](int32_t s) { return timeline_.samples[s].time_ns < ns; });
  int32_t nearest = -1;
  int64_t distance = kSampleReachNs + 1;
  if (after != samples.begin()) {
    nearest = *(after - 1);
    distance = ns - timeline_.samples[nearest].time_ns;
  }
  if (after != samples.end() && timeline_.samples[*after].time_ns - ns < distance) {
    nearest = *after;
    distance = timeline_.samples[nearest].time_ns - ns;
  }
  return distance <= kSampleReachNs ? nearest : -1;
}

int32_t SampleView::NearestPoint(int32_t thread, int64_t ns) const {
  return NearestOf(PointsOf(thread), ns);
}

int32_t SampleView::Nearest(const Key& key, int64_t ns) const {
  const auto group = groups_.find(key);
  return group == groups_.end() ? -1 : NearestOf(group->second, ns);
}

int32_t SampleView::ExactAt(int32_t thread, int64_t ns) const {
  const Lane::Piece* piece = exact_[thread].AtOrBefore(ns);
  if (piece == nullptr || piece->end <= ns) return -1;
  return sites_.SiteOf(timeline_.samples[piece->id].stack) >= 0 ? piece->id : -1;
}

int32_t SampleView::OfCall(int32_t call) const {
  const HostCall& c = timeline_.calls[call];
  if (c.thread < 0 || empty()) return -1;
  if (const int32_t exact = ExactAt(c.thread, c.start_ns); exact >= 0) return exact;
  for (const int32_t s : PointsIn(c.thread, c.start_ns, c.end_ns)) {
    if (sites_.SiteOf(timeline_.samples[s].stack) >= 0) return s;
  }
  return Nearest({c.thread, Group::kInCall, c.symbol, 0}, c.start_ns + (c.end_ns - c.start_ns) / 2);
}

int32_t SampleView::OfDispatch(const Stretch& stretch, int64_t ns) const {
  if (empty()) return -1;
  if (const int32_t exact = ExactAt(stretch.thread, ns); exact >= 0) return exact;
  if (stretch.back_to_back) {
    for (const int32_t s : PointsIn(stretch.thread, stretch.since_ns, stretch.until_ns)) {
      if (sites_.SiteOf(timeline_.samples[s].stack) >= 0) return s;
    }
    if (const int32_t s = Nearest(KeyOf(stretch), ns); s >= 0) return s;
  }
  return Nearest({stretch.thread, Group::kDispatch, 0, 0}, ns);
}

int32_t SampleView::OfLikeStretch(const Stretch& stretch, int64_t ns) const {
  return Nearest(KeyOf(stretch), ns);
}

}  // namespace gpuprobe::tools

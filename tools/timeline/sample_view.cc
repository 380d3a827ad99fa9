// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/sample_view.h"

#include <algorithm>
#include <limits>

#include "tools/attribution/attribution.h"

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

// The sampler tells of a thread that did not move for a while as "unchanged" since the look before,
// and estimates when that ended (TellWaitBefore() in sampler/look/thread_look.cc). A call that the
// thread entered or left meanwhile says that it moved: such a look was not made in that call.
// `next`: the first call of its lane that ends later.
bool SampleView::HasMovedSince(const HostSample& unchanged, size_t next) const {
  // Look and call have clocks of their own, and a look takes a while.
  constexpr int64_t kSlackNs = 200'000;
  if (unchanged.cpu_ns != 0 || unchanged.runnable_ns != 0) return false;  // folded with others
  const auto lane = host_.CallsOf(unchanged.thread);
  const int64_t looked_ns = unchanged.time_ns - unchanged.interval_ns + kSlackNs;
  if (next > 0 && timeline_.calls[lane[next - 1]].end_ns > looked_ns) return true;
  if (next == lane.size()) return false;
  const int64_t start_ns = timeline_.calls[lane[next]].start_ns;
  return start_ns > looked_ns && start_ns <= unchanged.time_ns;
}

void SampleView::SplitByKind() {
  std::vector<int32_t> exact;
  int32_t thread = -1;
  size_t next = 0;  // of the thread's lane: samples are in order of thread and time
  for (size_t s = 0; s < timeline_.samples.size(); ++s) {
    const HostSample& sample = timeline_.samples[s];
    if (sample.thread < 0) continue;
    if ((sample.flags & kSampleExact) != 0) {
      exact.push_back(static_cast<int32_t>(s));
    } else {
      if (sample.thread != thread) next = 0;
      thread = sample.thread;
      const auto lane = host_.CallsOf(thread);
      while (next < lane.size() && timeline_.calls[lane[next]].end_ns <= sample.time_ns) ++next;
      if ((sample.flags & kSampleUnchanged) != 0 && HasMovedSince(sample, next)) continue;
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

void SampleView::AddToGroup(const Key& key, int32_t sample) {
  const auto [group, is_new] = group_of_.FindOrAdd(key);
  if (is_new) {
    *group = static_cast<uint32_t>(groups_.size());
    groups_.emplace_back();
  }
  groups_[*group].push_back(sample);
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
      AddToGroup({thread, Group::kInCall, timeline_.calls[lane[next]].symbol, 0}, s);
      if (!Blocks(host_.RoleOf(lane[next]))) {
        AddToGroup({thread, Group::kDispatch, 0, 0}, s);
      }
      continue;
    }
    const Stretch stretch = StretchBefore(timeline_, host_, thread, next);
    if (stretch.back_to_back) {
      if (!has_site) continue;
      AddToGroup({thread, Group::kDispatch, 0, 0}, s);
      AddToGroup(KeyOf(stretch), s);
    } else if (judge_.CauseOf(s) != Cause::kHost) {
      AddToGroup(KeyOf(stretch), s);
    }
  }
}

SampleView::Key SampleView::KeyOf(const Stretch& stretch) const {
  const auto symbol = [&](int32_t call) { return call < 0 ? -1 : timeline_.calls[call].symbol; };
  return {stretch.thread, stretch.back_to_back ? Group::kBetween : Group::kOutside,
          symbol(stretch.before), symbol(stretch.after)};
}

std::span<const int32_t> SampleView::PointsIn(int32_t thread, int64_t begin, int64_t end,
                                              Cursor* cursor) const {
  const auto points = PointsOf(thread);
  const auto before = [&](int64_t ns) {
    return [this, ns](int32_t s) { return timeline_.samples[s].time_ns < ns; };
  };
  const size_t near = cursor == nullptr ? points.size() / 2 : cursor->points[thread];
  const size_t first = PartitionNear(points, near, before(begin));
  if (cursor != nullptr) cursor->points[thread] = first;
  const size_t last = std::max(first, PartitionNear(points, first, before(end)));
  return points.subspan(first, last - first);
}

int32_t SampleView::NearestOf(std::span<const int32_t> samples, int64_t ns, size_t* near) const {
  const size_t after =
      PartitionNear(samples, *near, [&](int32_t s) { return timeline_.samples[s].time_ns < ns; });
  *near = after;
  int32_t nearest = -1;
  int64_t distance = kSampleReachNs + 1;
  if (after > 0) {
    nearest = samples[after - 1];
    distance = ns - timeline_.samples[nearest].time_ns;
  }
  if (after < samples.size() && timeline_.samples[samples[after]].time_ns - ns < distance) {
    nearest = samples[after];
    distance = timeline_.samples[nearest].time_ns - ns;
  }
  return distance <= kSampleReachNs ? nearest : -1;
}

int32_t SampleView::NearestPoint(int32_t thread, int64_t ns) const {
  const auto points = PointsOf(thread);
  size_t near = points.size() / 2;
  return NearestOf(points, ns, &near);
}

int32_t SampleView::Nearest(const Key& key, int64_t ns, Cursor* cursor) const {
  const uint32_t* group = group_of_.Find(key);
  if (group == nullptr) return -1;
  const std::vector<int32_t>& samples = groups_[*group];
  size_t middle = samples.size() / 2;
  return NearestOf(samples, ns, cursor == nullptr ? &middle : &cursor->groups[*group]);
}

int32_t SampleView::ExactAt(int32_t thread, int64_t ns, Cursor* cursor) const {
  const Lane& lane = exact_[thread];
  if (lane.pieces().empty()) return -1;
  const Lane::Piece* piece =
      cursor == nullptr ? lane.AtOrBefore(ns) : lane.AtOrBefore(ns, &cursor->exact[thread]);
  if (piece == nullptr || piece->end <= ns) return -1;
  return sites_.SiteOf(timeline_.samples[piece->id].stack) >= 0 ? piece->id : -1;
}

int32_t SampleView::OfCall(int32_t call, Cursor* cursor) const {
  const HostCall& c = timeline_.calls[call];
  if (c.thread < 0 || empty()) return -1;
  if (const int32_t exact = ExactAt(c.thread, c.start_ns, cursor); exact >= 0) return exact;
  for (const int32_t s : PointsIn(c.thread, c.start_ns, c.end_ns, cursor)) {
    if (sites_.SiteOf(timeline_.samples[s].stack) >= 0) return s;
  }
  return Nearest({c.thread, Group::kInCall, c.symbol, 0}, c.start_ns + (c.end_ns - c.start_ns) / 2,
                 cursor);
}

int32_t SampleView::OfDispatch(const Stretch& stretch, int64_t ns, Cursor* cursor) const {
  if (empty()) return -1;
  if (const int32_t exact = ExactAt(stretch.thread, ns, cursor); exact >= 0) return exact;
  if (stretch.back_to_back) {
    for (const int32_t s : PointsIn(stretch.thread, stretch.since_ns, stretch.until_ns, cursor)) {
      if (sites_.SiteOf(timeline_.samples[s].stack) >= 0) return s;
    }
    if (const int32_t s = Nearest(KeyOf(stretch), ns, cursor); s >= 0) return s;
  }
  return Nearest({stretch.thread, Group::kDispatch, 0, 0}, ns, cursor);
}

int32_t SampleView::OfLikeStretch(const Stretch& stretch, int64_t ns, Cursor* cursor) const {
  return Nearest(KeyOf(stretch), ns, cursor);
}

}  // namespace gpuprobe::tools

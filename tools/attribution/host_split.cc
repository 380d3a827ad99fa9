// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/host_split.h"

#include <algorithm>

#include "tools/attribution/unseen.h"

namespace gpuprobe::tools {

HostSplit::HostSplit(const Timeline& timeline, const HostView& host, const SampleView& samples,
                     const SampleJudge& judge, const CallSites& sites)
    : timeline_(timeline), host_(host), samples_(samples), judge_(judge), sites_(sites) {
  if (!samples.empty()) FindRuns();
}

void HostSplit::FindRuns() {
  runs_.resize(timeline_.processes.size());
  main_threads_.assign(timeline_.processes.size(), -1);
  for (size_t t = 0; t < timeline_.threads.size(); ++t) {
    const Thread& thread = timeline_.threads[t];
    if (thread.process < 0 || main_threads_[thread.process] >= 0) continue;
    if (thread.main || thread.tid == timeline_.processes[thread.process].pid)
      main_threads_[thread.process] = static_cast<int32_t>(t);
  }
  for (size_t i = 0; i < timeline_.calls.size(); ++i) {
    const HostCall& call = timeline_.calls[i];
    const auto index = static_cast<int32_t>(i);
    if (call.process < 0 || call.thread < 0) continue;
    if (host_.RoleOf(index) != Role::kSubmit && host_.OpOf(index) < 0) continue;
    std::vector<Run>& runs = runs_[call.process];
    if (runs.empty() || runs.back().thread != call.thread)
      runs.push_back({call.start_ns, call.thread});
  }
}

int32_t HostSplit::FeederOf(int32_t thread, int64_t ns) const {
  const int32_t process = timeline_.threads[thread].process;
  if (process < 0) return -1;
  const std::vector<Run>& runs = runs_[process];
  auto run =
      std::partition_point(runs.begin(), runs.end(), [&](const Run& r) { return r.begin_ns < ns; });
  while (run != runs.begin()) {  // at most two steps: neighbours are of different threads
    --run;
    if (run->thread != thread) return run->thread;
  }
  return main_threads_[process] == thread ? -1 : main_threads_[process];
}

void HostSplit::Split(const Stretch& stretch, int64_t begin, int64_t end,
                      SampleView::Cursor* cursor, std::vector<HostPart>* parts) const {
  if (samples_.empty()) return Add(begin, end, -1, -1, parts);
  SplitByExact(stretch.thread, begin, end, [&](int64_t a, int64_t b, int32_t exact) {
    if (exact >= 0) return Add(a, b, exact, exact, parts);
    Nearest(ChoosePoints(stretch, a, b, cursor), a, b,
            [&](int64_t from, int64_t to, int32_t sample) {
              FollowFeeder(stretch.thread, from, to, sample, parts);
            });
  });
}

template <typename Take>
void HostSplit::SplitByExact(int32_t thread, int64_t begin, int64_t end, Take take) const {
  const std::vector<Lane::Piece>& pieces = samples_.ExactOf(thread).pieces();
  auto piece = std::partition_point(pieces.begin(), pieces.end(),
                                    [&](const Lane::Piece& p) { return p.end <= begin; });
  for (; begin < end && piece != pieces.end() && piece->begin < end; ++piece) {
    if (begin < piece->begin) take(begin, piece->begin, -1);
    const int64_t to = std::min(end, piece->end);
    take(std::max(begin, piece->begin), to, Tells(piece->id) ? piece->id : -1);
    begin = to;
  }
  if (begin < end) take(begin, end, -1);
}

// Samples inside [begin, end) stand for it; else those of the same stretch, taken while the device
// was still busy or after; else one of a stretch like it.
std::vector<int32_t> HostSplit::ChoosePoints(const Stretch& stretch, int64_t begin, int64_t end,
                                             SampleView::Cursor* cursor) const {
  std::vector<int32_t> chosen;
  const auto in = [&](int64_t from, int64_t to) {
    return samples_.PointsIn(stretch.thread, from, to, cursor);
  };
  for (const int32_t s : in(begin, end)) {
    if (Tells(s)) chosen.push_back(s);
  }
  if (!chosen.empty()) return chosen;
  const auto earlier = in(std::max(stretch.since_ns, begin - kSampleReachNs), begin);
  for (size_t i = earlier.size(); i > 0 && chosen.empty(); --i) {
    if (Tells(earlier[i - 1])) chosen.push_back(earlier[i - 1]);
  }
  for (const int32_t s : in(end, std::min(stretch.until_ns, end + kSampleReachNs))) {
    if (!Tells(s)) continue;
    chosen.push_back(s);
    break;
  }
  if (!chosen.empty()) return chosen;
  if (const int32_t s = samples_.OfLikeStretch(stretch, begin + (end - begin) / 2, cursor); s >= 0)
    chosen.push_back(s);
  return chosen;
}

template <typename Take>
void HostSplit::Nearest(std::span<const int32_t> samples, int64_t begin, int64_t end,
                        Take take) const {
  for (size_t i = 0; i < samples.size() && begin < end; ++i) {
    const int64_t at = timeline_.samples[samples[i]].time_ns;
    int64_t until = end;
    if (i + 1 < samples.size()) {
      const int64_t next = timeline_.samples[samples[i + 1]].time_ns;
      until = std::clamp(at + (next - at + 1) / 2, begin, end);
    }
    const int64_t from = std::clamp(at - kSampleReachNs, begin, until);
    const int64_t to = std::clamp(at + kSampleReachNs, from, until);
    if (begin < from) take(begin, from, -1);
    if (from < to) take(from, to, samples[i]);
    if (to < until) take(to, until, -1);
    begin = until;
  }
  if (begin < end) take(begin, end, -1);
}

bool HostSplit::Tells(int32_t sample) const { return judge_.CauseOf(sample) != Cause::kHost; }

// A thread that only waits to be handed work, or that the sampler never saw, is not the one that
// kept the device waiting: what the thread that feeds it did is the cause.
void HostSplit::FollowFeeder(int32_t thread, int64_t begin, int64_t end, int32_t sample,
                             std::vector<HostPart>* parts) const {
  const bool follows = sample >= 0 ? judge_.AwaitsThread(sample) : !samples_.HasSamples(thread);
  const int32_t feeder = follows ? FeederOf(thread, begin) : -1;
  if (feeder < 0) return Add(begin, end, sample, sample, parts);
  SplitByExact(feeder, begin, end, [&](int64_t a, int64_t b, int32_t exact) {
    if (exact >= 0) return Add(a, b, exact, exact, parts);
    std::span<const int32_t> points = samples_.PointsIn(feeder, a, b);
    const int32_t nearest = points.empty() ? samples_.NearestPoint(feeder, a + (b - a) / 2) : -1;
    if (nearest >= 0) points = std::span(&nearest, 1);
    Nearest(points, a, b, [&](int64_t from, int64_t to, int32_t s) {
      // One that is itself waiting for a thread knows no more.
      if (s < 0 || !Tells(s) || judge_.AwaitsThread(s)) {
        return Add(from, to, sample, sample, parts);
      }
      const bool own_line = sample < 0 || sites_.PythonOf(timeline_.samples[s].stack) >= 0;
      Add(from, to, s, own_line ? s : sample, parts);
    });
  });
}

// The share of its interval for which the thread waited for a CPU comes first, to the ns.
void HostSplit::Add(int64_t begin, int64_t end, int32_t sample, int32_t line,
                    std::vector<HostPart>* parts) const {
  if (begin >= end) return;
  if (sample < 0) {
    parts->push_back({begin, end, Cause::kHost, -1, -1});
    return;
  }
  const HostSample& s = timeline_.samples[sample];
  const int64_t runnable_ns = std::clamp<int64_t>(s.runnable_ns, 0, s.interval_ns);
  if (s.interval_ns > 0 && runnable_ns >= (s.interval_ns + kStarvedOneIn - 1) / kStarvedOneIn) {
    const auto starved_ns =
        static_cast<int64_t>(static_cast<__int128>(end - begin) * runnable_ns / s.interval_ns);
    if (starved_ns > 0) {
      parts->push_back({begin, begin + starved_ns, Cause::kCpuStarved, sample, line});
    }
    begin += starved_ns;
  }
  if (begin < end) parts->push_back({begin, end, judge_.CauseOf(sample), sample, line});
}

HostEvidence::HostEvidence(const Timeline& t, const HostView& host)
    : timeline(t),
      any(!t.samples.empty() || host.HasSites()),
      sites(t),
      activity(t),
      judge(t, sites, activity),
      samples(t, host, sites, judge),
      split(t, host, samples, judge, sites),
      stopped(StoppedTimes(t)) {}

HostEvidence::Made HostEvidence::SiteOfCall(int32_t call, SampleView::Cursor* cursor) const {
  if (!any) return {};
  const int32_t recorded = timeline.calls[call].site;
  if (sites.SiteOf(recorded) >= 0) return {recorded, -1};
  const int32_t sample = samples.OfCall(call, cursor);
  return sample < 0 ? Made{} : Made{timeline.samples[sample].stack, sample};
}

}  // namespace gpuprobe::tools

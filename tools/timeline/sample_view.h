// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host's samples, found by thread and time, and by what the thread stood in when each was
// taken. What a short call or stretch was doing is read off its like nearby: a long-lived kind of
// call is hit in proportion to its time ("Sites" in ATTRIBUTION.md). Built once for all devices; a
// few tens of bytes a sample.
#ifndef GPUPROBE_TOOLS_TIMELINE_SAMPLE_VIEW_H_
#define GPUPROBE_TOOLS_TIMELINE_SAMPLE_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/attribution/call_site.h"
#include "tools/attribution/sample_judge.h"
#include "tools/timeline/flat_map.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A sample speaks for no instant further away.
inline constexpr int64_t kSampleReachNs = 1'000'000'000;

// The time of a thread between two of its calls that matter, or before the first, after the last.
struct Stretch {
  int32_t thread;
  int32_t before, after;       // calls; -1: none
  int64_t since_ns, until_ns;  // end of `before`, start of `after`; the extremes of int64
  bool back_to_back;           // a short way from one submission to the next
};

class SampleView {
 public:
  // Where its owner looked last: one who asks in order of time does not search everything each
  // time. Not needed (null) for single questions.
  struct Cursor {
    explicit Cursor(const SampleView& view)
        : points(view.first_.size(), 0),
          exact(view.exact_.size(), 0),
          groups(view.groups_.size(), 0) {}
    std::vector<size_t> points, exact;  // by thread
    std::vector<size_t> groups;
  };

  SampleView(const Timeline& timeline, const HostView& host, const CallSites& sites,
             const SampleJudge& judge);

  bool empty() const { return timeline_.samples.empty(); }

  // Samples that are looks at an instant, by time.
  std::span<const int32_t> PointsOf(int32_t thread) const {
    return std::span(points_).subspan(first_[thread], first_[thread + 1] - first_[thread]);
  }
  std::span<const int32_t> PointsIn(int32_t thread, int64_t begin, int64_t end,
                                    Cursor* cursor = nullptr) const;
  // The one nearest in time, within kSampleReachNs; -1: none.
  int32_t NearestPoint(int32_t thread, int64_t ns) const;
  // Samples whose stack held for their whole interval; id: in Timeline::samples.
  const Lane& ExactOf(int32_t thread) const { return exact_[thread]; }
  bool HasSamples(int32_t thread) const {
    return first_[thread] < first_[thread + 1] || !exact_[thread].pieces().empty();
  }

  // The sample that shows where `call` was made: taken inside it, else the nearest one that was
  // taken inside a call of the same function and thread; -1: none within reach.
  int32_t OfCall(int32_t call, Cursor* cursor) const;
  // The same for a stretch outside of calls at `ns`, for its line alone: taken in it, else in one
  // with the same calls around it, else anywhere in this thread's dispatch.
  int32_t OfDispatch(const Stretch& stretch, int64_t ns, Cursor* cursor) const;
  // The sample nearest to `ns` that says something, among those taken in stretches of this kind
  // with the same calls around them; -1: none within reach.
  int32_t OfLikeStretch(const Stretch& stretch, int64_t ns, Cursor* cursor) const;

 private:
  enum class Group : uint8_t { kInCall, kBetween, kOutside, kDispatch };
  struct Key {
    int32_t thread;
    Group group;
    int32_t a, b;  // symbols
    bool operator==(const Key&) const = default;
    uint64_t Hash() const {
      return MixBits(MixBits(static_cast<uint64_t>(static_cast<uint32_t>(thread)) << 8 |
                                 static_cast<uint64_t>(group),
                             static_cast<uint64_t>(static_cast<uint32_t>(a)) << 40),
                     static_cast<uint32_t>(b));
    }
  };
  int32_t Nearest(const Key& key, int64_t ns, Cursor* cursor) const;
  // `near`: as in IntervalSet::Overlap().
  int32_t NearestOf(std::span<const int32_t> samples, int64_t ns, size_t* near) const;
  int32_t ExactAt(int32_t thread, int64_t ns, Cursor* cursor) const;
  void AddToGroup(const Key& key, int32_t sample);
  Key KeyOf(const Stretch& stretch) const;
  void SplitByKind();
  bool HasMovedSince(const HostSample& unchanged, size_t next) const;
  void GroupPoints(int32_t thread);

  const Timeline& timeline_;
  const HostView& host_;
  const CallSites& sites_;
  const SampleJudge& judge_;
  std::vector<int32_t> points_;  // by thread, then time
  std::vector<size_t> first_;    // by thread, in points_
  std::vector<Lane> exact_;      // by thread
  FlatMap<Key, uint32_t> group_of_;
  std::vector<std::vector<int32_t>> groups_;  // by time
};

// The stretch of `thread` in front of position `next` of its lane (HostView::CallsOf).
Stretch StretchBefore(const Timeline& timeline, const HostView& host, int32_t thread, size_t next);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_SAMPLE_VIEW_H_

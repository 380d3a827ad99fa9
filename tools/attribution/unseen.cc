// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/unseen.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr uint8_t kUnfinished = 2;  // UntimedOp::timing

struct Range {
  int64_t begin, end;
  int32_t place;
};

std::string BlindText(const Blind& blind) {
  switch (blind.why) {
    case Blind::Why::kOtherClient:
      return "blind: " + blind.who + " had CUPTI";
    case Blind::Why::kLoss:
      return "records lost: " + blind.who;
    case Blind::Why::kDamage:
      return "damaged: " + blind.who;
  }
  return blind.who;
}

// Where operations without times may have run: between their neighbours on the stream.
class UntimedRanges {
 public:
  UntimedRanges(const Timeline& timeline, const DeviceActivity& activity, const StreamOrder& order)
      : timeline_(timeline), activity_(activity), order_(order) {
    for (const UntimedOp& op : timeline.untimed) {
      if (op.device == activity.device) submitted_.emplace(Key(op.process, op.correlation), kNever);
    }
    if (submitted_.empty()) return;
    for (const HostCall& call : timeline.calls) {
      const auto found = submitted_.find(Key(call.process, call.correlation));
      if (found != submitted_.end()) found->second = std::min(found->second, call.start_ns);
    }
  }

  // Empty (begin == end): nothing is known of when it ran; it is counted only.
  Range Of(const UntimedOp& op) const {
    if (op.stream < 0 || op.correlation == 0) return {};
    size_t near = 0;
    std::optional<int64_t> begin = order_.EndOfWorkBefore(op.stream, op.correlation, &near);
    if (const int64_t call = submitted_.at(Key(op.process, op.correlation)); call != kNever) {
      begin = std::max(begin.value_or(call), call);
    }
    if (op.timing == kUnfinished) begin = op.start_ns;
    std::optional<int64_t> end = order_.StartOfWorkAfter(op.stream, op.correlation, &near);
    if (!begin && !end) return {};
    if (!begin) begin = IdleBegin(*end);
    if (!end) end = op.timing == kUnfinished ? kNever : NextStart(*begin);
    return {*begin, std::max(*begin, *end), -1};
  }

 private:
  static uint64_t Key(int32_t process, uint32_t correlation) {
    return static_cast<uint64_t>(static_cast<uint32_t>(process)) << 32 | correlation;
  }

  size_t FirstStartingFrom(int64_t ns) const {
    const auto& ops = activity_.ops;
    return std::partition_point(ops.begin(), ops.end(),
                                [&](int32_t op) { return timeline_.ops[op].start_ns < ns; }) -
           ops.begin();
  }
  int64_t NextStart(int64_t ns) const {  // of the device
    const size_t position = FirstStartingFrom(ns);
    return position < activity_.ops.size() ? timeline_.ops[activity_.ops[position]].start_ns
                                           : kNever;
  }
  int64_t IdleBegin(int64_t ns) const {  // start of the operation before; what is busy stays busy
    const size_t position = FirstStartingFrom(ns);
    return position > 0 ? timeline_.ops[activity_.ops[position - 1]].start_ns : ns;
  }

  const Timeline& timeline_;
  const DeviceActivity& activity_;
  const StreamOrder& order_;
  std::unordered_map<uint64_t, int64_t> submitted_;  // start of the submitting call
};

// Between the files of runs that have nothing to do with each other, or whose processes came one
// after the other: nothing was recorded, so nobody kept the device waiting as far as is known.
std::vector<Window> TimesOfNobody(const Timeline& timeline) {
  std::vector<Window> lives;
  for (const Process& process : timeline.processes) {
    if (process.sampled_only) continue;
    if (process.source != SourceKind::kGpuprobe ||
        process.capture_begin_ns >= process.capture_end_ns) {
      return {};
    }
    lives.push_back({process.capture_begin_ns, process.capture_end_ns});
  }
  std::sort(lives.begin(), lives.end(), [](const Window& a, const Window& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
  std::vector<Window> nobody;
  int64_t until_ns = lives.empty() ? 0 : lives.front().start_ns;
  for (const Window& life : lives) {
    if (until_ns < life.start_ns) nobody.push_back({until_ns, life.start_ns});
    until_ns = std::max(until_ns, life.end_ns);
  }
  return nobody;
}

}  // namespace

Lane UnseenTimes(const Timeline& timeline, const Scope& scope, const DeviceActivity& activity,
                 const StreamOrder& order, Places& places) {
  std::vector<Range> ranges;
  for (const Blind& blind : timeline.blinds) {
    if (blind.process >= 0 && !activity.processes[blind.process]) continue;
    ranges.push_back({blind.begin_ns, blind.end_ns, places.OfText(BlindText(blind))});
  }
  for (const Window& nobody : TimesOfNobody(timeline)) {
    ranges.push_back({nobody.start_ns, nobody.end_ns, places.OfText(kNobodyRecorded)});
  }
  const UntimedRanges untimed(timeline, activity, order);
  for (const UntimedOp& op : timeline.untimed) {
    if (op.device != activity.device || !scope.Contains(op.process)) continue;
    Range range = untimed.Of(op);
    range.place = places.Id(Places::Kind::kUntimed);
    if (range.begin < range.end) ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end, a.place) < std::tie(b.begin, b.end, b.place);
  });
  Lane lane;
  for (const Range& range : ranges) lane.Add(range.begin, range.end, range.place);
  return lane;
}

std::vector<Lane> StoppedTimes(const Timeline& timeline) {
  std::vector<std::pair<int32_t, Window>> times;
  for (const HostSample& sample : timeline.samples) {
    if (sample.state != HostState::kStopped || sample.thread < 0) continue;
    const int32_t process = timeline.threads[sample.thread].process;
    if (process < 0) continue;
    times.push_back({process, {sample.time_ns - sample.interval_ns, sample.time_ns}});
  }
  std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.start_ns, a.second.end_ns) <
           std::tie(b.first, b.second.start_ns, b.second.end_ns);
  });
  std::vector<Lane> lanes(timeline.processes.size());
  for (const auto& [process, time] : times) lanes[process].Add(time.start_ns, time.end_ns, 0);
  return lanes;
}

int64_t BlindNs(const Timeline& timeline, const std::vector<DeviceActivity>& activities,
                const std::vector<DeviceReport>& reports) {
  std::vector<Window> blind;
  for (size_t d = 0; d < reports.size(); ++d) {
    for (const Blind& b : timeline.blinds) {
      if (b.process >= 0 && !activities[d].processes[b.process]) continue;
      blind.push_back({std::max(b.begin_ns, reports[d].window.start_ns),
                       std::min(b.end_ns, reports[d].window.end_ns)});
    }
  }
  std::sort(blind.begin(), blind.end(), [](const Window& a, const Window& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
  UnionLength length;
  for (const Window& b : blind) length.Add(b.start_ns, b.end_ns);
  return length.total();
}

}  // namespace gpuprobe::tools

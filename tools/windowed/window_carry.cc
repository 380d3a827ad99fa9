// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/window_carry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr uint8_t kStreamWaitEvent = 2;
// Stream-waits of one stream that no operation follows: a stream that only waits is never asked.
constexpr size_t kMostWaitsOfStream = 64;
// Records of CUDA events that are over: what a wait can still name. PyTorch reuses its events.
constexpr size_t kMostEvents = 65'536;

// Calls that are looked at for work that has not been measured: 64 streams are as many behind. And
// how far back they may lie.
constexpr size_t kMostAwaited = 65'536;
constexpr int64_t kLongestAwaitedNs = 3'000'000'000;

bool MaySubmit(CallClass c) {
  return c == CallClass::kLaunch || c == CallClass::kCopy || c == CallClass::kCopyBlocking;
}

// Of a call that starts several operations, of which later ones may be far from this one: a graph
// launch, a batch of copies. Kernels that are launched together start together.
bool MayBeOneOfMany(const GpuOp& op) {
  return op.kind != OpKind::kKernel || op.graph_id != 0 || op.graph_node_id != 0;
}

class Carrier {
 public:
  Carrier(const CarryRule& rule, const HostView& host, const Timeline& timeline, Timeline* to)
      : rule_(rule),
        host_(host),
        t_(timeline),
        to_(*to),
        later_op_(FirstFrom(t_.ops, rule.end_ns)),
        later_call_(FirstFrom(t_.calls, rule.calls_from_ns)),
        ops_(t_.ops.size(), 0),
        calls_(t_.calls.size(), 0),
        last_on_stream_(t_.streams.size(), -1) {
    std::fill(ops_.begin() + static_cast<ptrdiff_t>(later_op_), ops_.end(), 1);
    std::fill(calls_.begin() + static_cast<ptrdiff_t>(later_call_), calls_.end(), 1);
  }

  Carried Run(const std::vector<int32_t>& wanted) {
    for (const int32_t call : wanted) KeepCall(call);
    ChooseOps();
    ChooseCalls();
    ChooseLastOfLanes();
    ChooseAroundSamples();
    const uint64_t dropped = ChooseUnmatched();
    ChooseSyncs();
    Close();
    ChooseEvents();
    to_.overheads.clear();
    std::copy_if(t_.overheads.begin(), t_.overheads.end(), std::back_inserter(to_.overheads),
                 [&](const OverheadOp& o) { return o.end_ns >= rule_.calls_from_ns; });
    CopyRecords();
    return {std::move(calls_), dropped};
  }

 private:
  // Records are in order of start.
  template <typename T>
  static size_t FirstFrom(const std::vector<T>& records, int64_t ns) {
    const auto first = std::partition_point(records.begin(), records.end(),
                                            [ns](const T& record) { return record.start_ns < ns; });
    return static_cast<size_t>(first - records.begin());
  }
  std::vector<uint8_t>::iterator At(int32_t call) { return calls_.begin() + call; }
  void KeepCall(int32_t call) {
    if (call >= 0) calls_[static_cast<size_t>(call)] = 1;
  }
  void KeepOp(int32_t op) {
    if (op < 0) return;
    ops_[static_cast<size_t>(op)] = 1;
    KeepCall(t_.ops[static_cast<size_t>(op)].submission);
  }

  // What starts from the end of the window on stays; of the rest what is not over, and the last
  // ones. Of those, the submissions are kept in the end (Close()): what is kept here is kept
  // whatever is decided about submissions in between.
  void ChooseOps() {
    last_to_end_.assign(t_.devices.size(), -1);
    for (size_t i = 0; i < later_op_; ++i) {
      const GpuOp& op = t_.ops[i];
      const auto index = static_cast<int32_t>(i);
      if (op.stream >= 0) last_on_stream_[static_cast<size_t>(op.stream)] = index;
      if (op.device >= 0) {
        if (op.end_ns >= rule_.ops_from_ns[static_cast<size_t>(op.device)]) early_.push_back(index);
        int32_t& last = last_to_end_[static_cast<size_t>(op.device)];
        if (last < 0 || op.end_ns >= t_.ops[static_cast<size_t>(last)].end_ns) last = index;
      } else if (op.end_ns >= rule_.end_ns) {
        early_.push_back(index);
      }
      // Submissions whose work may still come, as some has just now.
      if (op.start_ns >= rule_.previous_ns && MayBeOneOfMany(op)) KeepCall(op.submission);
    }
    // Those of what starts later are kept with it.
    early_.insert(early_.end(), last_on_stream_.begin(), last_on_stream_.end());
    early_.insert(early_.end(), last_to_end_.begin(), last_to_end_.end());
  }

  // By time; and of each thread the last before that which submitted something.
  void ChooseCalls() {
    std::vector<int32_t> with_op(t_.threads.size(), -1);
    for (size_t i = 0; i < later_call_; ++i) {
      const HostCall& call = t_.calls[i];
      const auto index = static_cast<int32_t>(i);
      const int32_t op = host_.OpOf(index);
      if (call.end_ns >= rule_.calls_from_ns ||
          (call.end_ns >= rule_.blocking_from_ns && Blocks(host_.RoleOf(index)))) {
        calls_[i] = 1;
      } else if (op < 0) {
        if (call.result == 0 && MaySubmit(host_.ClassOf(index))) unmatched_.push_back(index);
      } else if (call.thread >= 0) {
        with_op[static_cast<size_t>(call.thread)] = index;
      }
    }
    for (const int32_t call : with_op) KeepCall(call);
  }

  // Of each thread, before what is kept by time.
  void ChooseLastOfLanes() {
    const auto is_over = [this](int32_t call) {
      return t_.calls[static_cast<size_t>(call)].end_ns < rule_.calls_from_ns;
    };
    for (size_t t = 0; t < t_.threads.size(); ++t) {
      const auto lane = host_.CallsOf(static_cast<int32_t>(t));
      auto at = std::partition_point(lane.begin(), lane.end(), is_over);
      if (at != lane.begin()) KeepCall(*(at - 1));
      bool blocking = false, copy = !host_.HasBlockingCopies(), submission = false;
      while (at != lane.begin() && !(blocking && copy && submission)) {
        const int32_t call = *--at;
        const Role role = host_.RoleOf(call);
        const auto take_first = [&](bool is, bool* taken) {
          if (!is || *taken) return;
          *taken = true;
          KeepCall(call);
        };
        take_first(Blocks(role), &blocking);
        take_first(role == Role::kBlockingCopy, &copy);
        take_first(role == Role::kSubmit || host_.OpOf(call) >= 0, &submission);
      }
      int32_t ordering = -1;
      for (const int32_t call : host_.OrderingCallsOf(static_cast<int32_t>(t))) {
        if (!is_over(call)) break;
        ordering = call;
      }
      KeepCall(ordering);
    }
  }

  // What a sample stands for is told by the call in which it was taken, or by those before and
  // after it. Later samples have theirs by time, or as the last of a lane.
  void ChooseAroundSamples() {
    auto sample = t_.samples.begin();
    while (sample != t_.samples.end()) {
      const int32_t thread = sample->thread;
      const auto end = std::find_if(sample, t_.samples.end(),
                                    [&](const HostSample& s) { return s.thread != thread; });
      if (thread >= 0) ChooseAround({sample, end}, host_.CallsOf(thread));
      sample = end;
    }
  }
  void ChooseAround(std::span<const HostSample> samples, std::span<const int32_t> lane) {
    auto next = lane.begin();
    for (const HostSample& sample : samples) {
      if (sample.time_ns < rule_.samples_from_ns) continue;
      if (sample.time_ns >= rule_.calls_from_ns) break;
      next = std::partition_point(next, lane.end(), [&](int32_t call) {
        return t_.calls[static_cast<size_t>(call)].end_ns <= sample.time_ns;
      });
      if (next != lane.end()) KeepCall(*next);
      if (next != lane.begin()) KeepCall(*(next - 1));
    }
  }

  // Submissions none of whose work has come.
  uint64_t ChooseUnmatched() {
    std::erase_if(unmatched_, [&](int32_t call) { return *At(call) != 0; });
    const size_t first =
        unmatched_.size() > rule_.most_unmatched ? unmatched_.size() - rule_.most_unmatched : 0;
    for (size_t i = first; i < unmatched_.size(); ++i) KeepCall(unmatched_[i]);
    return first;
  }

  void ChooseSyncs() {
    std::map<int32_t, size_t> waits;  // by stream
    std::vector<SyncOp> kept;
    for (size_t i = t_.syncs.size(); i-- > 0;) {
      const SyncOp& sync = t_.syncs[i];
      bool keep = sync.end_ns >= rule_.calls_from_ns ||
                  (sync.call >= 0 && calls_[static_cast<size_t>(sync.call)]);
      if (!keep && sync.type == kStreamWaitEvent && sync.stream >= 0) {
        const int32_t last = last_on_stream_[static_cast<size_t>(sync.stream)];
        const bool ahead =
            last < 0 || sync.correlation > t_.ops[static_cast<size_t>(last)].correlation;
        keep = ahead && waits[sync.stream]++ < kMostWaitsOfStream;
      }
      if (!keep) continue;
      KeepCall(sync.call);
      kept.push_back(sync);
    }
    std::reverse(kept.begin(), kept.end());
    to_.syncs = std::move(kept);
  }

  // A call is what it is by the work that it submitted, and the other way round.
  void Close() {
    for (const int32_t op : early_) KeepOp(op);
    for (size_t i = later_op_; i < t_.ops.size(); ++i) KeepCall(t_.ops[i].submission);
    for (auto at = std::find(calls_.begin(), calls_.end(), 1); at != calls_.end();
         at = std::find(at + 1, calls_.end(), 1)) {
      const auto call = static_cast<int32_t>(at - calls_.begin());
      const int32_t op = host_.OpOf(call);
      if (op < 0) continue;
      ops_[static_cast<size_t>(op)] = 1;
      // Others are what they are by their name.
      if (host_.RoleOf(call) == Role::kBlockingCopy && host_.ClassOf(call) == CallClass::kCopy)
        KeepPageable(call, op);
    }
  }

  // Which may be another than the first of its call.
  void KeepPageable(int32_t call, int32_t first_op) {
    for (auto i = static_cast<size_t>(first_op); i < t_.ops.size(); ++i) {
      const GpuOp& op = t_.ops[i];
      if (op.submission != call || !IsPageableCopy(t_, op)) continue;
      ops_[i] = 1;
      return;
    }
  }

  // The last record of each event, in the order in which they came.
  void ChooseEvents() {
    if (t_.events.size() <= kMostEvents) {
      to_.events = t_.events;
      return;
    }
    std::map<std::pair<int32_t, uint32_t>, size_t> last;
    for (size_t i = 0; i < t_.events.size(); ++i)
      last[{t_.events[i].process, t_.events[i].event}] = i;
    std::vector<CudaEvent> kept;
    const size_t recent = t_.events.size() - kMostEvents / 2;
    for (size_t i = 0; i < t_.events.size(); ++i) {
      if (i >= recent || last[{t_.events[i].process, t_.events[i].event}] == i)
        kept.push_back(t_.events[i]);
    }
    if (kept.size() > kMostEvents)
      kept.erase(kept.begin(), kept.end() - static_cast<ptrdiff_t>(kMostEvents));
    to_.events = std::move(kept);
  }

  template <typename T>
  static void CopyKept(const std::vector<uint8_t>& kept, const std::vector<T>& records,
                       std::vector<T>* to) {
    to->clear();
    for (auto first = std::find(kept.begin(), kept.end(), 1); first != kept.end();) {
      const auto last = std::find(first, kept.end(), 0);
      to->insert(to->end(), records.begin() + (first - kept.begin()),
                 records.begin() + (last - kept.begin()));
      first = std::find(last, kept.end(), 1);
    }
  }

  void CopyRecords() {
    CopyKept(calls_, t_.calls, &to_.calls);
    CopyKept(ops_, t_.ops, &to_.ops);
    for (GpuOp& op : to_.ops) op.submission = -1;
    for (SyncOp& sync : to_.syncs) sync.call = -1;
  }

  const CarryRule& rule_;
  const HostView& host_;
  const Timeline& t_;
  Timeline& to_;
  const size_t later_op_, later_call_;  // the first that are kept because of when they start
  std::vector<uint8_t> ops_, calls_;  // kept: 0 or 1, a byte each, as bits cost more than they save
  std::vector<int32_t> last_on_stream_, last_to_end_;  // operations before later_op_, or -1
  std::vector<int32_t> early_;      // operations before later_op_ that are kept for their own sake
  std::vector<int32_t> unmatched_;  // calls
};

}  // namespace

int64_t AwaitedSince(const Timeline& timeline, const HostView& host, int64_t open_ns) {
  const auto waits = [](const SyncOp& sync) { return sync.type == kStreamWaitEvent; };
  if (!host.HasOrderingCalls() &&
      std::none_of(timeline.syncs.begin(), timeline.syncs.end(), waits)) {
    return open_ns;
  }
  const std::vector<HostCall>& calls = timeline.calls;
  const auto first_from = [&](int64_t ns) {
    const auto at = std::partition_point(calls.begin(), calls.end(),
                                         [ns](const HostCall& c) { return c.start_ns < ns; });
    return static_cast<size_t>(at - calls.begin());
  };
  const size_t end = first_from(open_ns);
  const size_t most = end > kMostAwaited ? end - kMostAwaited : 0;
  for (size_t i = std::max(most, first_from(open_ns - kLongestAwaitedNs)); i < end; ++i) {
    const auto call = static_cast<int32_t>(i);
    const int32_t op = host.OpOf(call);
    const bool awaited = op < 0 ? calls[i].result == 0 && MaySubmit(host.ClassOf(call))
                                : timeline.ops[static_cast<size_t>(op)].start_ns >= open_ns;
    if (awaited) return calls[i].start_ns;
  }
  return open_ns;
}

int32_t Carried::NumberOf(int32_t call) const {
  if (call < 0) return -1;
  return static_cast<int32_t>(std::count(calls.begin(), calls.begin() + call + 1, 1)) - 1;
}

Carried CarryOn(const CarryRule& rule, const HostView& host, const std::vector<int32_t>& calls,
                const Timeline& timeline, Timeline* to) {
  return Carrier(rule, host, timeline, to).Run(calls);
}

}  // namespace gpuprobe::tools

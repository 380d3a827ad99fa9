// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/window_carry.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr uint8_t kStreamWaitEvent = 2;
// Stream-waits of one stream that no operation follows: a stream that only waits is never asked.
constexpr size_t kMostWaitsOfStream = 64;
// Records of CUDA events that are over: what a wait can still name. PyTorch reuses its events.
constexpr size_t kMostEvents = 65'536;

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
  Carrier(const CarryRule& rule, const HostView& host, Timeline* timeline)
      : rule_(rule),
        host_(host),
        t_(*timeline),
        ops_(t_.ops.size(), 0),
        calls_(t_.calls.size(), 0),
        last_on_stream_(t_.streams.size(), -1) {}

  uint64_t Run(const std::vector<int32_t*>& wanted) {
    for (const int32_t* call : wanted) KeepCall(*call);
    ChooseOps();
    ChooseCallsByTime();
    ChooseLastCalls();
    const uint64_t dropped = ChooseUnmatched();
    ChooseSyncs();
    Close();
    ChooseEvents();
    std::erase_if(t_.overheads,
                  [&](const OverheadOp& o) { return o.end_ns < rule_.calls_from_ns; });
    Compact(wanted);
    return dropped;
  }

 private:
  void KeepCall(int32_t call) {
    if (call >= 0) calls_[static_cast<size_t>(call)] = true;
  }

  void ChooseOps() {
    std::vector<int32_t> last_to_end(t_.devices.size(), -1);
    for (size_t i = 0; i < t_.ops.size(); ++i) {
      const GpuOp& op = t_.ops[i];
      const int64_t from_ns =
          op.device < 0 ? rule_.end_ns : rule_.ops_from_ns[static_cast<size_t>(op.device)];
      ops_[i] = op.end_ns >= from_ns || op.start_ns >= rule_.end_ns;
      if (op.start_ns >= rule_.end_ns) continue;
      if (op.stream >= 0) last_on_stream_[static_cast<size_t>(op.stream)] = static_cast<int32_t>(i);
      if (op.device < 0) continue;
      int32_t& last = last_to_end[static_cast<size_t>(op.device)];
      if (last < 0 || op.end_ns >= t_.ops[static_cast<size_t>(last)].end_ns)
        last = static_cast<int32_t>(i);
    }
    for (const auto& chosen : {last_on_stream_, last_to_end}) {
      for (const int32_t op : chosen) {
        if (op >= 0) ops_[static_cast<size_t>(op)] = true;
      }
    }
  }

  void ChooseCallsByTime() {
    for (size_t i = 0; i < t_.calls.size(); ++i) {
      if (t_.calls[i].end_ns >= rule_.calls_from_ns) calls_[i] = true;
    }
  }

  // Of each thread, before what is kept by time.
  void ChooseLastCalls() {
    struct Last {
      int32_t call = -1, blocking = -1, copy = -1, submission = -1, ordering = -1, with_op = -1;
    };
    std::vector<Last> last(t_.threads.size());
    for (size_t t = 0; t < t_.threads.size(); ++t) {
      for (const int32_t call : host_.CallsOf(static_cast<int32_t>(t))) {
        if (t_.calls[static_cast<size_t>(call)].end_ns >= rule_.calls_from_ns) break;
        last[t].call = call;
        const Role role = host_.RoleOf(call);
        if (Blocks(role)) last[t].blocking = call;
        if (role == Role::kBlockingCopy) last[t].copy = call;
        if (role == Role::kSubmit || host_.OpOf(call) >= 0) last[t].submission = call;
      }
      for (const int32_t call : host_.OrderingCallsOf(static_cast<int32_t>(t))) {
        if (t_.calls[static_cast<size_t>(call)].end_ns >= rule_.calls_from_ns) break;
        last[t].ordering = call;
      }
    }
    for (size_t i = 0; i < t_.calls.size(); ++i) {
      const int32_t call = static_cast<int32_t>(i);
      const HostCall& c = t_.calls[i];
      if (c.thread >= 0 && c.end_ns < rule_.calls_from_ns && host_.OpOf(call) >= 0)
        last[static_cast<size_t>(c.thread)].with_op = call;
    }
    for (const Last& l : last) {
      for (const int32_t call : {l.call, l.blocking, l.copy, l.submission, l.ordering, l.with_op})
        KeepCall(call);
    }
  }

  // Submissions whose work may still come: none has, or some has just now (a graph's nodes).
  uint64_t ChooseUnmatched() {
    for (const GpuOp& op : t_.ops) {
      if (op.submission >= 0 && op.start_ns >= rule_.previous_ns && MayBeOneOfMany(op))
        KeepCall(op.submission);
    }
    std::vector<int32_t> waiting;
    for (size_t i = 0; i < t_.calls.size(); ++i) {
      const int32_t call = static_cast<int32_t>(i);
      if (calls_[i] || t_.calls[i].result != 0 || host_.OpOf(call) >= 0) continue;
      if (MaySubmit(host_.ClassOf(call))) waiting.push_back(call);
    }
    const size_t first =
        waiting.size() > rule_.most_unmatched ? waiting.size() - rule_.most_unmatched : 0;
    for (size_t i = first; i < waiting.size(); ++i) KeepCall(waiting[i]);
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
    t_.syncs = std::move(kept);
  }

  // A call is what it is by the work that it submitted, and the other way round.
  void Close() {
    for (size_t i = 0; i < t_.ops.size(); ++i) {
      if (ops_[i]) KeepCall(t_.ops[i].submission);
    }
    std::vector<bool> pageable(t_.calls.size(), false);
    for (size_t i = 0; i < t_.ops.size(); ++i) {
      const int32_t call = t_.ops[i].submission;
      if (call < 0 || !calls_[static_cast<size_t>(call)]) continue;
      if (host_.OpOf(call) == static_cast<int32_t>(i)) ops_[i] = true;
      if (!pageable[static_cast<size_t>(call)] && IsPageableCopy(t_, t_.ops[i])) {
        pageable[static_cast<size_t>(call)] = true;
        ops_[i] = true;
      }
    }
  }

  // The last record of each event, in the order in which they came.
  void ChooseEvents() {
    if (t_.events.size() <= kMostEvents) return;
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
    t_.events = std::move(kept);
  }

  void Compact(const std::vector<int32_t*>& wanted) {
    std::vector<int32_t> renumbered(t_.calls.size(), -1);
    size_t kept = 0;
    for (size_t i = 0; i < t_.calls.size(); ++i) {
      if (!calls_[i]) continue;
      renumbered[i] = static_cast<int32_t>(kept);
      t_.calls[kept++] = t_.calls[i];
    }
    t_.calls.resize(kept);
    kept = 0;
    for (size_t i = 0; i < t_.ops.size(); ++i) {
      if (!ops_[i]) continue;
      t_.ops[kept] = t_.ops[i];
      t_.ops[kept++].submission = -1;
    }
    t_.ops.resize(kept);
    for (SyncOp& sync : t_.syncs) sync.call = -1;
    for (int32_t* call : wanted) {
      if (*call >= 0) *call = renumbered[static_cast<size_t>(*call)];
    }
  }

  const CarryRule& rule_;
  const HostView& host_;
  Timeline& t_;
  std::vector<uint8_t> ops_, calls_;  // kept: 0 or 1, a byte each, as bits cost more than they save
  std::vector<int32_t> last_on_stream_;  // operation
};

}  // namespace

uint64_t CarryOn(const CarryRule& rule, const HostView& host, std::vector<int32_t*> calls,
                 Timeline* timeline) {
  return Carrier(rule, host, timeline).Run(calls);
}

}  // namespace gpuprobe::tools

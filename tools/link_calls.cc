// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/link_calls.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/correlation_index.h"
#include "tools/format_units.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// GPU work may start a little before its call by the error of clock conversion (microseconds), and
// long after it if much was queued. Beyond these bounds the times are of another clock: CUPTI has
// been seen to deliver kernels 1e14 ns off after a second registration of a timestamp callback
// (pytorch #192021).
constexpr int64_t kMaxEarlyNs = kSecondNs;
constexpr int64_t kMaxLateNs = 12 * 3600 * kSecondNs;
constexpr uint8_t kTimingInvalid = 3;  // UntimedOp::timing

using Indices = std::vector<CorrelationIndex>;  // one for each process

bool IsDriver(const Timeline& timeline, const HostCall& call) {
  return timeline.symbols[static_cast<size_t>(call.symbol)].driver;
}

bool Submits(const Timeline& timeline, const HostCall& call) {
  switch (timeline.symbols[static_cast<size_t>(call.symbol)].call_class) {
    case CallClass::kLaunch:
    case CallClass::kCopy:
    case CallClass::kCopyBlocking:
    case CallClass::kGraph:
      return true;
    default:
      return false;
  }
}

// Of the calls that `wanted` accepts. Where several share an id, one that can submit work wins,
// else the first.
template <typename Wanted>
Indices BuildIndex(const Timeline& timeline, Wanted wanted) {
  Indices indices(timeline.processes.size());
  for (const HostCall& call : timeline.calls) {
    if (wanted(call)) indices[static_cast<size_t>(call.process)].Expect(call.correlation);
  }
  for (CorrelationIndex& index : indices) index.Prepare();
  for (size_t i = 0; i < timeline.calls.size(); ++i) {
    const HostCall& call = timeline.calls[i];
    if (!wanted(call)) continue;
    CorrelationIndex& index = indices[static_cast<size_t>(call.process)];
    const int32_t known = index.Find(call.correlation);
    const bool better =
        known < 0 ||
        (Submits(timeline, call) && !Submits(timeline, timeline.calls[static_cast<size_t>(known)]));
    if (better) index.Set(call.correlation, static_cast<int32_t>(i));
  }
  return indices;
}

uint64_t FoldDriverCalls(Timeline* timeline) {
  const auto is_driver = [timeline](const HostCall& call) { return IsDriver(*timeline, call); };
  if (std::none_of(timeline->calls.begin(), timeline->calls.end(), is_driver)) return 0;
  const Indices runtime = BuildIndex(
      *timeline, [&](const HostCall& call) { return call.correlation != 0 && !is_driver(call); });
  // remove_if overwrites what the index points to, so the decision comes first.
  std::vector<bool> beneath(timeline->calls.size());
  for (size_t i = 0; i < timeline->calls.size(); ++i) {
    const HostCall& call = timeline->calls[i];
    if (!is_driver(call)) continue;
    const int32_t above = runtime[static_cast<size_t>(call.process)].Find(call.correlation);
    beneath[i] = above >= 0 && timeline->calls[static_cast<size_t>(above)].thread == call.thread;
  }
  size_t kept = 0;
  for (size_t i = 0; i < timeline->calls.size(); ++i) {
    if (!beneath[i]) timeline->calls[kept++] = timeline->calls[i];
  }
  const uint64_t folded = timeline->calls.size() - kept;
  timeline->calls.resize(kept);
  return folded;
}

bool InAnotherClock(const GpuOp& op, const HostCall& call) {
  // Unsigned differences: hostile times must not overflow.
  if (op.start_ns < call.start_ns) {
    return static_cast<uint64_t>(call.start_ns) - static_cast<uint64_t>(op.start_ns) > kMaxEarlyNs;
  }
  return static_cast<uint64_t>(op.start_ns) - static_cast<uint64_t>(call.start_ns) > kMaxLateNs;
}

// Links `ops`; returns how many were moved to `untimed`.
uint64_t LinkOps(const Indices& indices, Timeline* timeline) {
  size_t kept = 0;
  for (GpuOp& op : timeline->ops) {
    const int32_t call = indices[static_cast<size_t>(op.process)].Find(op.correlation);
    if (call >= 0 && Submits(*timeline, timeline->calls[static_cast<size_t>(call)])) {
      op.submission = call;
      if (InAnotherClock(op, timeline->calls[static_cast<size_t>(call)])) {
        timeline->untimed.push_back({op.kind, kTimingInvalid, op.device, op.stream, op.process,
                                     op.name, op.correlation, op.start_ns});
        continue;
      }
    }
    timeline->ops[kept++] = op;
  }
  const uint64_t moved = timeline->ops.size() - kept;
  timeline->ops.resize(kept);
  return moved;
}

}  // namespace

std::string OtherClockNotice(uint64_t moved) {
  return absl::StrCat(FormatPlural(moved, "GPU record"),
                      " with times that cannot belong to the call that submitted them: "
                      "counted, not used");
}

void LinkCalls(LoadedRun* run) {
  Timeline& timeline = run->timeline;
  run->folded_driver_calls = FoldDriverCalls(&timeline);
  // 0: no id (imported files), which makes two records no pair.
  const Indices indices =
      BuildIndex(timeline, [](const HostCall& call) { return call.correlation != 0; });
  const uint64_t moved = LinkOps(indices, &timeline);
  if (moved > 0) run->notices.push_back(OtherClockNotice(moved));
  for (SyncOp& sync : timeline.syncs) {
    sync.call = indices[static_cast<size_t>(sync.process)].Find(sync.correlation);
  }
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/records/link_calls.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"
#include "tools/load/records/correlation_index.h"

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

// What the passes below ask of every call, by symbol.
struct SymbolTraits {
  bool driver, submits;
};

bool Submits(CallClass call_class) {
  switch (call_class) {
    case CallClass::kLaunch:
    case CallClass::kCopy:
    case CallClass::kCopyBlocking:
    case CallClass::kGraph:
      return true;
    default:
      return false;
  }
}

std::vector<SymbolTraits> TraitsOf(const std::vector<ApiSymbol>& symbols) {
  std::vector<SymbolTraits> traits;
  traits.reserve(symbols.size());
  for (const ApiSymbol& symbol : symbols) {
    traits.push_back({symbol.driver, Submits(symbol.call_class)});
  }
  return traits;
}

// Ready for all calls with an id. 0: none (imported files), which makes two records no pair.
Indices PrepareIndices(const Timeline& timeline) {
  Indices indices(timeline.processes.size());
  const std::vector<HostCall>& calls = timeline.calls;
  for (size_t i = 0; i < calls.size();) {
    const int32_t process = calls[i].process;
    uint32_t lowest = UINT32_MAX, highest = 0;
    size_t count = 0;
    for (; i < calls.size() && calls[i].process == process; ++i) {
      const uint32_t correlation = calls[i].correlation;
      lowest = std::min(lowest, correlation - 1);  // 0 becomes the largest
      highest = std::max(highest, correlation);
      count += correlation != 0 ? 1 : 0;
    }
    if (count > 0) indices[static_cast<size_t>(process)].Expect(lowest + 1, highest, count);
  }
  for (CorrelationIndex& index : indices) index.Prepare();
  return indices;
}

// Uses `indices` for the threads of the runtime calls, and leaves them empty.
uint64_t FoldDriverCalls(const std::vector<SymbolTraits>& traits, Indices* indices,
                         Timeline* timeline) {
  if (std::none_of(traits.begin(), traits.end(), [](SymbolTraits t) { return t.driver; })) return 0;
  for (const HostCall& call : timeline->calls) {
    const SymbolTraits of = traits[static_cast<size_t>(call.symbol)];
    if (of.driver || call.correlation == 0) continue;
    (*indices)[static_cast<size_t>(call.process)].Add(call.correlation, call.thread, of.submits);
  }
  const auto beneath = [&](const HostCall& call) {
    return traits[static_cast<size_t>(call.symbol)].driver &&
           (*indices)[static_cast<size_t>(call.process)].Find(call.correlation) == call.thread;
  };
  const uint64_t folded = std::erase_if(timeline->calls, beneath);
  for (CorrelationIndex& index : *indices) index.Clear();
  return folded;
}

void AddCalls(const std::vector<SymbolTraits>& traits, const std::vector<HostCall>& calls,
              Indices* indices) {
  for (size_t i = 0; i < calls.size();) {
    const int32_t process = calls[i].process;
    CorrelationIndex& index = (*indices)[static_cast<size_t>(process)];
    for (; i < calls.size() && calls[i].process == process; ++i) {
      const HostCall& call = calls[i];
      if (call.correlation == 0) continue;
      index.Add(call.correlation, static_cast<int32_t>(i),
                traits[static_cast<size_t>(call.symbol)].submits);
    }
  }
}

bool InAnotherClock(const GpuOp& op, const HostCall& call) {
  // Unsigned differences: hostile times must not overflow.
  if (op.start_ns < call.start_ns) {
    return static_cast<uint64_t>(call.start_ns) - static_cast<uint64_t>(op.start_ns) > kMaxEarlyNs;
  }
  return static_cast<uint64_t>(op.start_ns) - static_cast<uint64_t>(call.start_ns) > kMaxLateNs;
}

// Links `ops`; returns how many were moved to `untimed`.
uint64_t LinkOps(const Indices& indices, Timeline* timeline, std::vector<uint32_t>* highest) {
  size_t kept = 0;
  const HostCall* const calls = timeline->calls.data();
  const std::span<GpuOp> ops(timeline->ops);
  for (size_t i = 0; i < ops.size();) {
    const int32_t process = ops[i].process;
    const CorrelationIndex& index = indices[static_cast<size_t>(process)];
    uint32_t high = (*highest)[static_cast<size_t>(process)];
    for (; i < ops.size() && ops[i].process == process; ++i) {
      GpuOp& op = ops[i];
      high = std::max(high, op.correlation);
      const int32_t call = index.FindSubmitting(op.correlation);
      if (call >= 0) {
        op.submission = call;
        if (InAnotherClock(op, calls[call])) {
          timeline->untimed.push_back({op.kind, kTimingInvalid, op.device, op.stream, op.process,
                                       op.name, op.correlation, op.start_ns});
          continue;
        }
      }
      if (kept != i) ops[kept] = op;
      ++kept;
    }
    (*highest)[static_cast<size_t>(process)] = high;
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

void LinkCalls(LoadedRun* run, std::vector<uint32_t>* highest) {
  Timeline& timeline = run->timeline;
  const std::vector<SymbolTraits> traits = TraitsOf(timeline.symbols);
  Indices indices = PrepareIndices(timeline);
  std::vector<uint32_t> own_highest(indices.size(), 0);
  if (highest == nullptr) highest = &own_highest;
  for (size_t p = 0; p < indices.size(); ++p)
    (*highest)[p] = std::max((*highest)[p], indices[p].highest());
  run->folded_driver_calls = FoldDriverCalls(traits, &indices, &timeline);
  AddCalls(traits, timeline.calls, &indices);
  const uint64_t moved = LinkOps(indices, &timeline, highest);
  if (moved > 0) run->notices.push_back(OtherClockNotice(moved));
  for (SyncOp& sync : timeline.syncs) {
    sync.call = indices[static_cast<size_t>(sync.process)].Find(sync.correlation);
  }
}

}  // namespace gpuprobe::tools

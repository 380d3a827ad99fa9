// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/stream_order.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "tools/timeline/flat_map.h"
#include "tools/timeline/interval_set.h"
#include "tools/timeline/nearly_sorted.h"

namespace gpuprobe::tools {
namespace {

constexpr uint8_t kStreamWaitEvent = 2;  // CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT
constexpr int64_t kNoWork = std::numeric_limits<int64_t>::min();

struct ProcessAndEvent {
  int32_t process;
  uint32_t event;
  bool operator==(const ProcessAndEvent&) const = default;
  uint64_t Hash() const { return MixBits(static_cast<uint32_t>(process), event); }
};

}  // namespace

StreamOrder::StreamOrder(const Timeline& timeline, const std::vector<bool>& wanted)
    : timeline_(timeline) {
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
  const auto has = [&](const GpuOp& op) {
    return op.stream >= 0 && wanted[op.stream] && op.correlation != 0;
  };
  first_.assign(timeline.streams.size() + 1, 0);
  for (const GpuOp& op : timeline.ops) {
    if (has(op)) ++first_[op.stream + 1];
  }
  for (size_t s = 1; s < first_.size(); ++s) first_[s] += first_[s - 1];
  entries_.resize(first_.back());
  std::vector<size_t> next(first_.begin(), first_.end() - 1);
  for (size_t i = 0; i < timeline.ops.size(); ++i) {
    const GpuOp& op = timeline.ops[i];
    if (has(op)) entries_[next[op.stream]++] = {op.end_ns, op.correlation, static_cast<int32_t>(i)};
  }
  for (size_t s = 0; s + 1 < first_.size(); ++s) {
    const auto of_stream = std::span(entries_).subspan(first_[s], first_[s + 1] - first_[s]);
    // A stream works in order: its operations are, but for those that share a call.
    SortNearlySorted(of_stream,
                     [](const Entry& a, const Entry& b) { return a.correlation < b.correlation; });
    for (size_t i = 1; i < of_stream.size(); ++i) {
      of_stream[i].end_so_far_ns =
          std::max(of_stream[i].end_so_far_ns, of_stream[i - 1].end_so_far_ns);
    }
  }
}

std::optional<int64_t> StreamOrder::EndOfWorkBefore(int32_t stream, uint32_t correlation,
                                                    size_t* near) const {
  const auto entries = Of(stream);
  const size_t after =
      PartitionNear(entries, *near, [&](const Entry& e) { return e.correlation < correlation; });
  *near = after;
  if (after == 0) return std::nullopt;
  return entries[after - 1].end_so_far_ns;
}

std::optional<int64_t> StreamOrder::StartOfWorkAfter(int32_t stream, uint32_t correlation,
                                                     size_t* near) const {
  const auto entries = Of(stream);
  const size_t after =
      PartitionNear(entries, *near, [&](const Entry& e) { return e.correlation <= correlation; });
  *near = after;
  if (after == entries.size()) return std::nullopt;
  return timeline_.ops[entries[after].op].start_ns;
}

std::vector<bool> StreamsOfUntimed(const Timeline& timeline) {
  std::vector<bool> wanted(timeline.streams.size(), false);
  for (const UntimedOp& op : timeline.untimed) {
    if (op.stream >= 0) wanted[op.stream] = true;
  }
  return wanted;
}

StreamWaits::StreamWaits(const Timeline& timeline, const HostView& host)
    : timeline_(timeline), host_(host) {
  BuildEntries();
  nothing_ = first_.empty() && !host.HasOrderingCalls();
}

// Waits and the event records before them, in order of correlation, meet in one reading; what each
// wait waited for does not depend on who asks.
void StreamWaits::BuildEntries() {
  std::vector<int32_t> waits;
  for (size_t i = 0; i < timeline_.syncs.size(); ++i) {
    const SyncOp& sync = timeline_.syncs[i];
    if (sync.type == kStreamWaitEvent && sync.stream >= 0) waits.push_back(static_cast<int32_t>(i));
  }
  if (waits.empty()) return;
  std::vector<int32_t> records(timeline_.events.size());
  std::vector<bool> wanted(timeline_.streams.size(), false);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i] = static_cast<int32_t>(i);
    if (timeline_.events[i].stream >= 0) wanted[timeline_.events[i].stream] = true;
  }
  const auto by_correlation = [](const auto& of) {
    return [&of](int32_t a, int32_t b) {
      return std::tie(of[a].process, of[a].correlation) <
             std::tie(of[b].process, of[b].correlation);
    };
  };
  SortNearlySorted(std::span(records), by_correlation(timeline_.events));
  SortNearlySorted(std::span(waits), by_correlation(timeline_.syncs));
  first_.assign(timeline_.streams.size() + 1, 0);
  for (const int32_t wait : waits) ++first_[timeline_.syncs[wait].stream + 1];
  for (size_t s = 1; s < first_.size(); ++s) first_[s] += first_[s - 1];
  entries_.resize(waits.size());

  const StreamOrder order(timeline_, wanted);
  std::vector<size_t> next(first_.begin(), first_.end() - 1), near(timeline_.streams.size(), 0);
  FlatMap<ProcessAndEvent, int32_t> last_record;  // index + 1 in Timeline::events
  auto record = records.begin();
  for (const int32_t wait : waits) {
    const SyncOp& sync = timeline_.syncs[wait];
    for (; record != records.end(); ++record) {
      const CudaEvent& e = timeline_.events[*record];
      if (std::tie(e.process, e.correlation) >= std::tie(sync.process, sync.correlation)) break;
      *last_record.FindOrAdd({e.process, e.event}).first = *record + 1;
    }
    Entry& entry = entries_[next[sync.stream]++];
    entry = {kNoWork, sync.correlation, sync.call, -1};
    const int32_t last = *last_record.FindOrAdd({sync.process, sync.event}).first - 1;
    if (last < 0 || timeline_.events[last].stream < 0) continue;
    entry.stream = timeline_.events[last].stream;
    entry.end_ns =
        order.EndOfWorkBefore(entry.stream, timeline_.events[last].correlation, &near[entry.stream])
            .value_or(kNoWork);
  }
  // Those of one stream come from one process as a rule, and then are in order.
  for (size_t s = 0; s + 1 < first_.size(); ++s) {
    SortNearlySorted(std::span(entries_).subspan(first_[s], first_[s + 1] - first_[s]),
                     [](const Entry& a, const Entry& b) { return a.correlation < b.correlation; });
  }
}

std::optional<StreamWaits::Wait> StreamWaits::FromRecords(const GpuOp& op, int32_t previous,
                                                          Cursor* cursor) const {
  if (first_.empty() || op.stream < 0 || op.correlation == 0) return std::nullopt;
  const auto entries =
      std::span(entries_).subspan(first_[op.stream], first_[op.stream + 1] - first_[op.stream]);
  if (entries.empty()) return std::nullopt;
  const uint32_t since = previous < 0 ? 0 : timeline_.ops[previous].correlation;
  const int64_t submission_ns = timeline_.calls[op.submission].start_ns;
  size_t& near = cursor->waits[op.stream];
  near =
      PartitionNear(entries, near, [&](const Entry& e) { return e.correlation < op.correlation; });
  std::optional<Wait> found;
  int64_t latest_ns = kNoWork;
  for (size_t i = near; i > 0 && entries[i - 1].correlation > since; --i) {
    const Entry& entry = entries[i - 1];
    if (entry.stream < 0) {
      if (!found) found = Wait{entry.call, -1, false};
      continue;
    }
    if (entry.stream == op.stream) continue;  // a stream is in order anyway
    if (entry.end_ns <= submission_ns || entry.end_ns <= latest_ns) continue;
    latest_ns = entry.end_ns;
    found = Wait{entry.call, entry.stream, false};
  }
  return found;
}

std::optional<StreamWaits::Wait> StreamWaits::FromCalls(const GpuOp& op, Cursor* cursor) const {
  const HostCall& submission = timeline_.calls[op.submission];
  if (submission.thread < 0) return std::nullopt;
  const auto starts_before = [&](int64_t ns) {
    return [this, ns](int32_t call) { return timeline_.calls[call].start_ns < ns; };
  };
  const auto ordering = host_.OrderingCallsOf(submission.thread);
  if (ordering.empty()) return std::nullopt;
  size_t& near = cursor->ordering[submission.thread];
  near = PartitionNear(ordering, near, starts_before(submission.start_ns));
  if (near == 0) return std::nullopt;
  const int32_t call = ordering[near - 1];
  const bool host_function = host_.ClassOf(call) == CallClass::kHostFunc;
  // Where stream-waits were recorded they have been asked already, with their streams.
  if (!host_function && submission.process >= 0 &&
      timeline_.processes[submission.process].has_sync_records) {
    return std::nullopt;
  }
  // Its stream is not recorded: it counts only where the thread submitted nothing in between.
  const auto lane = host_.CallsOf(submission.thread);
  size_t& position = cursor->lane[submission.thread];
  position = PartitionNear(lane, position, starts_before(submission.start_ns));
  for (size_t i = position; i > 0; --i) {
    const int32_t earlier = lane[i - 1];
    if (timeline_.calls[earlier].start_ns < timeline_.calls[call].start_ns) break;
    const Role role = host_.RoleOf(earlier);
    if (role == Role::kSubmit || role == Role::kBlockingCopy) return std::nullopt;
  }
  return Wait{call, -1, host_function};
}

}  // namespace gpuprobe::tools

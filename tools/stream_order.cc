// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/stream_order.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace gpuprobe::tools {
namespace {

constexpr uint8_t kStreamWaitEvent = 2;  // CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT

}  // namespace

StreamOrder::StreamOrder(const Timeline& timeline) {
  std::vector<bool> wanted(timeline.streams.size(), false);
  for (const CudaEvent& event : timeline.events) {
    if (event.stream >= 0) wanted[event.stream] = true;
  }
  for (const UntimedOp& op : timeline.untimed) {
    if (op.stream >= 0) wanted[op.stream] = true;
  }
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
  for (const GpuOp& op : timeline.ops) {
    if (op.stream < 0 || !wanted[op.stream] || op.correlation == 0) continue;
    entries_.push_back({op.stream, op.correlation, op.start_ns, op.end_ns});
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.stream, a.correlation, a.start_ns, a.end_so_far_ns) <
           std::tie(b.stream, b.correlation, b.start_ns, b.end_so_far_ns);
  });
  for (size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].stream != entries_[i - 1].stream) continue;
    entries_[i].end_so_far_ns = std::max(entries_[i].end_so_far_ns, entries_[i - 1].end_so_far_ns);
  }
}

std::optional<int64_t> StreamOrder::EndOfWorkBefore(int32_t stream, uint32_t correlation) const {
  const auto after = std::partition_point(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return std::tie(e.stream, e.correlation) < std::tie(stream, correlation);
  });
  if (after == entries_.begin() || (after - 1)->stream != stream) return std::nullopt;
  return (after - 1)->end_so_far_ns;
}

std::optional<int64_t> StreamOrder::StartOfWorkAfter(int32_t stream, uint32_t correlation) const {
  const auto after = std::partition_point(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return std::tie(e.stream, e.correlation) <= std::tie(stream, correlation);
  });
  if (after == entries_.end() || after->stream != stream) return std::nullopt;
  return after->start_ns;
}

StreamWaits::StreamWaits(const Timeline& timeline, const HostView& host, const StreamOrder& order)
    : timeline_(timeline), host_(host), order_(order) {
  for (size_t i = 0; i < timeline.syncs.size(); ++i) {
    const SyncOp& sync = timeline.syncs[i];
    if (sync.type == kStreamWaitEvent && sync.stream >= 0)
      waits_.push_back(static_cast<int32_t>(i));
  }
  std::sort(waits_.begin(), waits_.end(), [&](int32_t a, int32_t b) {
    const SyncOp& x = timeline.syncs[a];
    const SyncOp& y = timeline.syncs[b];
    return std::tie(x.stream, x.correlation, a) < std::tie(y.stream, y.correlation, b);
  });
  records_.resize(timeline.events.size());
  for (size_t i = 0; i < records_.size(); ++i) records_[i] = static_cast<int32_t>(i);
  std::sort(records_.begin(), records_.end(), [&](int32_t a, int32_t b) {
    const CudaEvent& x = timeline.events[a];
    const CudaEvent& y = timeline.events[b];
    return std::tie(x.process, x.event, x.correlation, a) <
           std::tie(y.process, y.event, y.correlation, b);
  });
}

std::optional<StreamWaits::Wait> StreamWaits::Find(const GpuOp& op, int32_t previous) const {
  if (const auto wait = FromRecords(op, previous)) return wait;
  return FromCalls(op);
}

const CudaEvent* StreamWaits::LastRecord(int32_t process, uint32_t event,
                                         uint32_t before_correlation) const {
  const auto after = std::partition_point(records_.begin(), records_.end(), [&](int32_t index) {
    const CudaEvent& e = timeline_.events[index];
    return std::tie(e.process, e.event, e.correlation) <
           std::tie(process, event, before_correlation);
  });
  if (after == records_.begin()) return nullptr;
  const CudaEvent& found = timeline_.events[*(after - 1)];
  return found.process == process && found.event == event ? &found : nullptr;
}

std::optional<StreamWaits::Wait> StreamWaits::FromRecords(const GpuOp& op, int32_t previous) const {
  if (op.stream < 0 || op.correlation == 0) return std::nullopt;
  const uint32_t since = previous < 0 ? 0 : timeline_.ops[previous].correlation;
  const int64_t submission_ns = timeline_.calls[op.submission].start_ns;
  auto position = std::partition_point(waits_.begin(), waits_.end(), [&](int32_t index) {
    const SyncOp& sync = timeline_.syncs[index];
    return std::tie(sync.stream, sync.correlation) < std::tie(op.stream, op.correlation);
  });
  std::optional<Wait> found;
  int64_t latest_ns = std::numeric_limits<int64_t>::min();
  while (position != waits_.begin()) {
    const SyncOp& sync = timeline_.syncs[*--position];
    if (sync.stream != op.stream || sync.correlation <= since) break;
    const CudaEvent* record = LastRecord(sync.process, sync.event, sync.correlation);
    if (record == nullptr || record->stream < 0) {
      if (!found) found = Wait{sync.call, -1, false};
      continue;
    }
    if (record->stream == op.stream) continue;  // a stream is in order anyway
    const auto end_ns = order_.EndOfWorkBefore(record->stream, record->correlation);
    if (!end_ns || *end_ns <= submission_ns || *end_ns <= latest_ns) continue;
    latest_ns = *end_ns;
    found = Wait{sync.call, record->stream, false};
  }
  return found;
}

std::optional<StreamWaits::Wait> StreamWaits::FromCalls(const GpuOp& op) const {
  const HostCall& submission = timeline_.calls[op.submission];
  if (submission.thread < 0) return std::nullopt;
  const auto starts_before = [&](int64_t ns) {
    return [this, ns](int32_t call) { return timeline_.calls[call].start_ns < ns; };
  };
  const auto ordering = host_.OrderingCallsOf(submission.thread);
  const auto after =
      std::partition_point(ordering.begin(), ordering.end(), starts_before(submission.start_ns));
  if (after == ordering.begin()) return std::nullopt;
  const int32_t call = *(after - 1);
  const bool host_function = host_.ClassOf(call) == CallClass::kHostFunc;
  // Where stream-waits were recorded they have been asked already, with their streams.
  if (!host_function && submission.process >= 0 &&
      timeline_.processes[submission.process].has_sync_records) {
    return std::nullopt;
  }
  // Its stream is not recorded: it counts only where the thread submitted nothing in between.
  const auto lane = host_.CallsOf(submission.thread);
  auto position =
      std::partition_point(lane.begin(), lane.end(), starts_before(submission.start_ns));
  while (position != lane.begin()) {
    const int32_t earlier = *--position;
    if (timeline_.calls[earlier].start_ns < timeline_.calls[call].start_ns) break;
    const Role role = host_.RoleOf(earlier);
    if (role == Role::kSubmit || role == Role::kBlockingCopy) return std::nullopt;
  }
  return Wait{call, -1, host_function};
}

}  // namespace gpuprobe::tools

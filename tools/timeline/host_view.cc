// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/host_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tools/timeline/flat_map.h"

namespace gpuprobe::tools {

bool IsPageableCopy(const Timeline& timeline, const GpuOp& op) {
  constexpr uint8_t kPageable = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
  if (op.kind != OpKind::kCopy || op.shape < 0) return false;
  const CopyShape& shape = timeline.copy_shapes[op.shape];
  return shape.src_kind == kPageable || shape.dst_kind == kPageable;
}

struct HostView::Scratch {
  Scratch(const Timeline& timeline, std::vector<int32_t> first_devices)
      : first_device(std::move(first_devices)),
        lane_size(timeline.threads.size(), 0),
        last_op(timeline.threads.size(), -1),
        unanswered(timeline.threads.size(), 0) {
    first_device.resize(timeline.processes.size(), -1);
    for (const SyncOp& sync : timeline.syncs) {
      const int32_t device =
          sync.device < 0 && sync.stream >= 0 ? timeline.streams[sync.stream].device : sync.device;
      if (sync.call >= 0 && device >= 0) sync_devices.emplace_back(sync.call, device);
    }
    if (!std::is_sorted(sync_devices.begin(), sync_devices.end()))
      std::sort(sync_devices.begin(), sync_devices.end());
  }

  struct ThreadAndDevice {
    int32_t thread, device;
    bool operator==(const ThreadAndDevice&) const = default;
    uint64_t Hash() const {
      return MixBits(static_cast<uint32_t>(thread), static_cast<uint32_t>(device));
    }
  };
  struct Chain {  // of waiting calls whose next submission has not come yet
    int32_t last = -1;
  };

  std::vector<std::pair<int32_t, int32_t>> sync_devices;  // (call, device), sorted
  std::vector<int32_t> first_device;                      // by process
  std::vector<size_t> lane_size;                          // by thread, with the calls inside others
  std::vector<int32_t> last_op;                           // that a thread submitted
  std::vector<int32_t> unanswered;                        // by thread: waiting calls in its chains
  FlatMap<ThreadAndDevice, Chain> chains;
};

HostView::HostView(const Timeline& timeline, std::vector<int32_t> first_devices)
    : timeline_(timeline) {
  Scratch scratch(timeline, std::move(first_devices));
  ReadOps(&scratch);
  FindRoles(&scratch);
  ReadCalls(&scratch);
  BuildOverheads();
}

void HostView::Table::Fill(size_t rows, const std::vector<std::pair<int32_t, int32_t>>& entries) {
  first.assign(rows + 1, 0);
  for (const auto& [row, item] : entries) ++first[row + 1];
  for (size_t r = 1; r < first.size(); ++r) first[r] += first[r - 1];
  items.resize(entries.size());
  std::vector<size_t> next(first.begin(), first.end() - 1);
  for (const auto& [row, item] : entries) items[next[row]++] = item;
}

void HostView::ReadOps(Scratch* scratch) {
  op_of_call_.assign(timeline_.calls.size(), -1);
  roles_.assign(timeline_.calls.size(), Role::kNeutral);
  for (size_t i = 0; i < timeline_.ops.size(); ++i) {
    const GpuOp& op = timeline_.ops[i];
    if (op.device >= 0 && op.process >= 0) {
      int32_t& first = scratch->first_device[op.process];
      if (first < 0 || op.device < first) first = op.device;
    }
    if (op.submission < 0) continue;
    if (op_of_call_[op.submission] < 0) op_of_call_[op.submission] = static_cast<int32_t>(i);
    // Of asynchronous copies alone: FindRoles() decides of which calls it stays.
    if (IsPageableCopy(timeline_, op)) roles_[op.submission] = Role::kBlockingCopy;
  }
}

CallClass HostView::ClassOf(int32_t call) const {
  const int32_t symbol = timeline_.calls[call].symbol;
  return symbol < 0 ? CallClass::kOther : timeline_.symbols[symbol].call_class;
}

namespace {

Role RoleOfClass(CallClass call_class) {
  switch (call_class) {
    case CallClass::kLaunch:
    case CallClass::kCopy:
      return Role::kSubmit;
    case CallClass::kCopyBlocking:
      return Role::kBlockingCopy;
    case CallClass::kSync:
      return Role::kSync;
    case CallClass::kAlloc:
    case CallClass::kFree:
    case CallClass::kModule:
    case CallClass::kGraph:
    case CallClass::kHostMemory:
    case CallClass::kContext:
      return Role::kBlockingApi;
    case CallClass::kOther:
    case CallClass::kStreamWait:
    case CallClass::kEventRecord:
    case CallClass::kHostFunc:
      break;
  }
  return Role::kNeutral;
}

}  // namespace

void HostView::FindRoles(Scratch* scratch) {
  std::vector<CallClass> classes = {CallClass::kOther};  // by symbol + 1
  for (const ApiSymbol& symbol : timeline_.symbols) classes.push_back(symbol.call_class);
  std::vector<std::pair<int32_t, int32_t>> ordering, syncs;
  for (size_t i = 0; i < timeline_.calls.size(); ++i) {
    const HostCall& call = timeline_.calls[i];
    const auto index = static_cast<int32_t>(i);
    const CallClass call_class = classes[call.symbol + 1];
    Role role = RoleOfClass(call_class);
    if (call_class == CallClass::kCopy && roles_[i] == Role::kBlockingCopy) {
      role = Role::kBlockingCopy;
    } else if (role == Role::kNeutral && op_of_call_[i] >= 0) {
      // A call that the writer's table does not know but that has submitted work is a submission.
      role = Role::kSubmit;
    }
    roles_[i] = role;
    has_sites_ |= call.site >= 0;
    has_blocking_copies_ |= role == Role::kBlockingCopy;
    if (role == Role::kSync) syncs.emplace_back(call.process + 1, index);
    if (call.thread < 0) continue;
    scratch->lane_size[call.thread] += role != Role::kNeutral;
    if (call_class == CallClass::kStreamWait || call_class == CallClass::kHostFunc)
      ordering.emplace_back(call.thread, index);
  }
  ordering_.Fill(timeline_.threads.size(), ordering);
  syncs_.Fill(timeline_.processes.size() + 1, syncs);
}

void HostView::ReadCalls(Scratch* scratch) {
  const size_t threads = timeline_.threads.size();
  lane_.first.assign(threads + 1, 0);
  for (size_t t = 0; t < threads; ++t) lane_.first[t + 1] = lane_.first[t] + scratch->lane_size[t];
  lane_.items.resize(lane_.first.back());
  std::vector<size_t> next(lane_.first.begin(), lane_.first.end() - 1);
  std::vector<int64_t> covered_until(threads, std::numeric_limits<int64_t>::min());
  blocked_.resize(timeline_.processes.size());
  for (size_t i = 0; i < roles_.size(); ++i) {
    if (roles_[i] == Role::kNeutral) continue;
    const HostCall& call = timeline_.calls[i];
    const auto index = static_cast<int32_t>(i);
    if (Blocks(roles_[i]) && call.process >= 0)
      blocked_[call.process].Add(call.start_ns, call.end_ns, index);
    if (call.thread < 0) continue;
    // Nearly all calls do not wait, and none waits for them.
    const int32_t op = op_of_call_[i];
    if (Blocks(roles_[i]) || call.end_ns - call.start_ns >= kQueueFullNs ||
        (op >= 0 && scratch->unanswered[call.thread] > 0)) {
      AddWaitingCall(index, scratch);
    } else if (op >= 0) {
      scratch->last_op[call.thread] = op;
    }
    if (call.end_ns <= covered_until[call.thread]) continue;
    covered_until[call.thread] = call.end_ns;
    lane_.items[next[call.thread]++] = index;
  }
  // Closes the holes that calls inside others have left.
  size_t end = 0;
  for (size_t t = 0; t < threads; ++t) {
    const size_t size = next[t] - lane_.first[t];
    if (end != lane_.first[t]) {
      std::copy_n(lane_.items.begin() + static_cast<ptrdiff_t>(lane_.first[t]), size,
                  lane_.items.begin() + static_cast<ptrdiff_t>(end));
    }
    lane_.first[t] = end;
    end += size;
  }
  lane_.first[threads] = end;
  lane_.items.resize(end);
  scratch->chains.ForEach([&](const auto&, const Scratch::Chain& chain) {
    for (int32_t at = chain.last; at >= 0;) {
      const auto before = static_cast<int32_t>(waiting_[at].next_start_ns);
      waiting_[at].next_start_ns = WaitingCall::kNever;
      at = before;
    }
  });
}

// A thread feeds few devices, mostly one: what is kept are the pairs that occur, not a table of
// all. A waiting call is in the chain of its thread and device until that thread submits to it.
void HostView::AddWaitingCall(int32_t call, Scratch* scratch) {
  const HostCall& c = timeline_.calls[call];
  const int32_t op = op_of_call_[call];
  if (op >= 0 && scratch->unanswered[c.thread] > 0) {
    const int32_t device = timeline_.ops[op].device;
    int32_t& last = scratch->chains.FindOrAdd({c.thread, device}).first->last;
    while (last >= 0) {
      WaitingCall& waiting = waiting_[last];
      last = static_cast<int32_t>(waiting.next_start_ns);
      waiting.next_start_ns = timeline_.ops[op].start_ns;
      --scratch->unanswered[c.thread];
    }
  }
  if (Blocks(roles_[call]) || c.end_ns - c.start_ns >= kQueueFullNs) {
    const auto record = std::lower_bound(scratch->sync_devices.begin(), scratch->sync_devices.end(),
                                         std::pair<int32_t, int32_t>(call, -1));
    const int32_t last_op = scratch->last_op[c.thread];
    int32_t device = -1;
    if (op >= 0) {
      device = timeline_.ops[op].device;
    } else if (record != scratch->sync_devices.end() && record->first == call) {
      device = record->second;
    } else if (last_op >= 0 && timeline_.ops[last_op].device >= 0) {
      device = timeline_.ops[last_op].device;
    } else if (c.process >= 0) {
      device = scratch->first_device[c.process];
    }
    int64_t next = WaitingCall::kNever;
    if (device >= 0) {
      // Until the chain ends: the one before in it.
      int32_t& last = scratch->chains.FindOrAdd({c.thread, device}).first->last;
      next = last;
      last = static_cast<int32_t>(waiting_.size());
      ++scratch->unanswered[c.thread];
    }
    waiting_.push_back({next, call, device});
  }
  if (op >= 0) scratch->last_op[c.thread] = op;
}

void HostView::BuildOverheads() {
  thread_overheads_.resize(timeline_.threads.size());
  process_overheads_.resize(timeline_.processes.size());
  for (size_t i = 0; i < timeline_.overheads.size(); ++i) {
    const OverheadOp& overhead = timeline_.overheads[i];
    if (overhead.thread < 0 && overhead.process < 0) continue;
    Lane& lane = overhead.thread >= 0 ? thread_overheads_[overhead.thread]
                                      : process_overheads_[overhead.process];
    lane.Add(overhead.start_ns, overhead.end_ns, static_cast<int32_t>(i));
  }
}

}  // namespace gpuprobe::tools

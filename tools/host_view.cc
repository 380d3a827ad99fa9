// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/host_view.h"

#include <limits>

namespace gpuprobe::tools {

bool IsPageableCopy(const Timeline& timeline, const GpuOp& op) {
  constexpr uint8_t kPageable = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
  if (op.kind != OpKind::kCopy || op.shape < 0) return false;
  const CopyShape& shape = timeline.copy_shapes[op.shape];
  return shape.src_kind == kPageable || shape.dst_kind == kPageable;
}

HostView::HostView(const Timeline& timeline) : timeline_(timeline) {
  BuildOpOfCall();
  std::vector<int64_t> covered_until(timeline.threads.size(), std::numeric_limits<int64_t>::min());
  const auto matters = [&](int32_t call) {
    const HostCall& c = timeline_.calls[call];
    return RoleOf(call) != Role::kNeutral && c.end_ns > covered_until[c.thread];
  };
  lane_ = BuildTable([&](int32_t call) {
    if (!matters(call)) return false;
    covered_until[timeline_.calls[call].thread] = timeline_.calls[call].end_ns;
    return true;
  });
  ordering_ = BuildTable([&](int32_t call) {
    const CallClass c = ClassOf(call);
    return c == CallClass::kStreamWait || c == CallClass::kHostFunc;
  });
  BuildBlocked();
  BuildOverheads();
}

void HostView::BuildOpOfCall() {
  op_of_call_.assign(timeline_.calls.size(), -1);
  pageable_.assign(timeline_.calls.size(), false);
  for (size_t i = 0; i < timeline_.ops.size(); ++i) {
    const GpuOp& op = timeline_.ops[i];
    if (op.submission < 0) continue;
    if (op_of_call_[op.submission] < 0) op_of_call_[op.submission] = static_cast<int32_t>(i);
    if (IsPageableCopy(timeline_, op)) pageable_[op.submission] = true;
  }
}

CallClass HostView::ClassOf(int32_t call) const {
  const int32_t symbol = timeline_.calls[call].symbol;
  return symbol < 0 ? CallClass::kOther : timeline_.symbols[symbol].call_class;
}

Role HostView::RoleOf(int32_t call) const {
  switch (ClassOf(call)) {
    case CallClass::kLaunch:
      return Role::kSubmit;
    case CallClass::kCopy:
      return pageable_[call] ? Role::kBlockingCopy : Role::kSubmit;
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
  // A call that the writer's table does not know but that has submitted work is a submission.
  return op_of_call_[call] >= 0 ? Role::kSubmit : Role::kNeutral;
}

template <typename Keep>
HostView::Table HostView::BuildTable(Keep keep) const {
  // `keep` has state: ask once, remember the answer in a bit.
  std::vector<bool> kept(timeline_.calls.size(), false);
  Table table;
  table.first.assign(timeline_.threads.size() + 1, 0);
  for (size_t i = 0; i < timeline_.calls.size(); ++i) {
    const int32_t thread = timeline_.calls[i].thread;
    if (thread < 0 || !keep(static_cast<int32_t>(i))) continue;
    kept[i] = true;
    ++table.first[thread + 1];
  }
  for (size_t t = 1; t < table.first.size(); ++t) table.first[t] += table.first[t - 1];
  table.items.resize(table.first.back());
  std::vector<size_t> next(table.first.begin(), table.first.end() - 1);
  for (size_t i = 0; i < timeline_.calls.size(); ++i) {
    if (kept[i]) table.items[next[timeline_.calls[i].thread]++] = static_cast<int32_t>(i);
  }
  return table;
}

void HostView::BuildBlocked() {
  blocked_.resize(timeline_.processes.size());
  for (size_t i = 0; i < timeline_.calls.size(); ++i) {
    const HostCall& call = timeline_.calls[i];
    if (call.process < 0 || !Blocks(RoleOf(static_cast<int32_t>(i)))) continue;
    blocked_[call.process].Add(call.start_ns, call.end_ns, static_cast<int32_t>(i));
  }
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

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// fuzz_nsys_sqlite: any bytes as a database of Nsight Systems. What comes of it must be a Timeline
// that the analyses may believe: every id in range, every time in order.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tools/import/nsys/nsys_sqlite.h"
#include "tools/load/records/link_calls.h"

namespace gpuprobe::tools {
namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
void CheckId(int32_t id, const std::vector<T>& items, bool may_be_none) {
  Check(id >= (may_be_none ? -1 : 0) && id < static_cast<int64_t>(items.size()));
}

template <typename T>
void CheckTimes(const std::vector<T>& items) {
  for (const T& item : items) {
    Check(item.start_ns >= 0 && item.start_ns <= item.end_ns && item.end_ns <= int64_t{1} << 62);
  }
}

template <typename Op>
void CheckOp(const Timeline& timeline, const Op& op) {
  CheckId(op.process, timeline.processes, false);
  CheckId(op.device, timeline.devices, false);
  CheckId(op.stream, timeline.streams, true);
  CheckId(op.name, timeline.names, op.kind != OpKind::kKernel);
}

void CheckTimeline(const Timeline& timeline) {
  CheckTimes(timeline.ops);
  CheckTimes(timeline.calls);
  CheckTimes(timeline.syncs);
  CheckTimes(timeline.overheads);
  for (const GpuOp& op : timeline.ops) {
    CheckOp(timeline, op);
    if (op.kind == OpKind::kKernel) CheckId(op.shape, timeline.shapes, false);
    if (op.kind == OpKind::kCopy) CheckId(op.shape, timeline.copy_shapes, false);
    CheckId(op.submission, timeline.calls, true);
  }
  for (const UntimedOp& op : timeline.untimed) CheckOp(timeline, op);
  for (const HostCall& call : timeline.calls) {
    CheckId(call.process, timeline.processes, false);
    CheckId(call.thread, timeline.threads, false);
    CheckId(call.symbol, timeline.symbols, false);
  }
  for (const SyncOp& sync : timeline.syncs) {
    CheckId(sync.process, timeline.processes, false);
    CheckId(sync.stream, timeline.streams, true);
    CheckId(sync.device, timeline.devices, true);
    CheckId(sync.call, timeline.calls, true);
  }
  for (const CudaEvent& event : timeline.events) {
    CheckId(event.process, timeline.processes, false);
    CheckId(event.stream, timeline.streams, true);
  }
  for (const OverheadOp& overhead : timeline.overheads) {
    CheckId(overhead.process, timeline.processes, false);
    CheckId(overhead.thread, timeline.threads, true);
  }
  for (const Stream& stream : timeline.streams) {
    CheckId(stream.process, timeline.processes, false);
    CheckId(stream.device, timeline.devices, false);
  }
  for (const Thread& thread : timeline.threads) CheckId(thread.process, timeline.processes, false);
  for (const Blind& blind : timeline.blinds) {
    CheckId(blind.process, timeline.processes, false);
    Check(blind.begin_ns <= blind.end_ns);
  }
}

}  // namespace
}  // namespace gpuprobe::tools

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpuprobe::tools::LoadedRun;
  if (size > 1 << 20) return 0;
  std::vector<uint8_t> bytes(data, data + size);
  LoadedRun run;
  if (!gpuprobe::tools::LoadNsysBytes("fuzz.sqlite", bytes, &run).ok()) return 0;
  gpuprobe::tools::Check(run.captures.size() == run.timeline.processes.size());
  gpuprobe::tools::LinkCalls(&run);
  gpuprobe::tools::CheckTimeline(run.timeline);
  return 0;
}

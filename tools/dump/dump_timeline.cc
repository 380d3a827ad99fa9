// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/dump/dump_timeline.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

constexpr uint32_t kInvalidId = 0xffffffffu;

std::string Dimensions(const uint32_t (&d)[3]) { return absl::StrCat(d[0], "x", d[1], "x", d[2]); }

const char* TimingKey(uint8_t timing) {
  constexpr std::array kKeys = {"valid", "missing", "unfinished", "invalid"};
  return timing < kKeys.size() ? kKeys[timing] : "invalid";
}

class TimelineDumper {
 public:
  TimelineDumper(const LoadedRun& run, std::optional<uint32_t> pid,
                 const std::function<bool(const DumpRecord&)>& sink)
      : timeline_(run.timeline), run_(run), pid_(pid), sink_(sink) {}

  void Dump() {
    if (DumpFiles() && DumpProcesses() && DumpDevices() && DumpThreads() && DumpTimed() &&
        DumpUntimed()) {
      DumpEvents() && DumpDamage();
    }
  }

 private:
  enum class Of : uint8_t { kCall, kOp, kSync, kOverhead, kMarker };
  struct Entry {
    int64_t start_ns;
    Of of;
    uint32_t index;
  };

  bool Wanted(int32_t process) const {
    return !pid_ || process < 0 || timeline_.processes[static_cast<size_t>(process)].pid == *pid_;
  }
  void AddProcess(int32_t process, DumpRecord* record) const {
    if (timeline_.processes.size() < 2 || process < 0) return;
    const Process& p = timeline_.processes[static_cast<size_t>(process)];
    record->Number("pid", p.pid);
    if (p.rank >= 0) record->Signed("rank", p.rank);
  }
  void AddLane(int32_t device, int32_t stream, DumpRecord* record) const {
    if (device >= 0) {
      record->Signed("device", timeline_.devices[static_cast<size_t>(device)].ordinal);
    }
    if (stream < 0) return;
    const Stream& s = timeline_.streams[static_cast<size_t>(stream)];
    record->Number("context", s.context).Number("stream", s.stream);
  }

  bool DumpFiles() {
    return std::all_of(timeline_.inputs.begin(), timeline_.inputs.end(),
                       [&](const InputFile& input) {
                         DumpRecord record = {"file"};
                         return sink_(record.Text("path", input.path)
                                          .Number("bytes", input.bytes)
                                          .Number("records", input.records));
                       });
  }
  bool DumpProcesses() {
    for (size_t p = 0; p < timeline_.processes.size(); ++p) {
      if (!Wanted(static_cast<int32_t>(p))) continue;
      const Process& process = timeline_.processes[p];
      DumpRecord record = {"process"};
      record.name = process.executable;
      record.Number("pid", process.pid).Text("host", process.host).Signed("rank", process.rank);
      record.NumberIf("world_size", static_cast<uint64_t>(run_.captures[p].world_size));
      if (!sink_(record.Text("recorder", run_.captures[p].recorder))) return false;
    }
    return true;
  }
  bool DumpDevices() {
    return std::all_of(timeline_.devices.begin(), timeline_.devices.end(), [&](const Device& d) {
      DumpRecord record = {"device"};
      record.name = d.name;
      return sink_(record.Signed("device", d.ordinal)
                       .Text("uuid", d.uuid)
                       .Number("memory_bytes", d.memory_bytes)
                       .Number("sm_count", d.sm_count));
    });
  }
  bool DumpThreads() {
    return std::all_of(timeline_.threads.begin(), timeline_.threads.end(), [&](const Thread& t) {
      if (!Wanted(t.process)) return true;
      DumpRecord record = {"thread"};
      record.name = t.name;
      AddProcess(t.process, &record);
      return sink_(record.Number("thread", t.tid).NumberIf("main", t.main));
    });
  }

  template <typename T>
  void Collect(const std::vector<T>& items, Of of, std::vector<Entry>* entries) const {
    for (size_t i = 0; i < items.size(); ++i) {
      if (Wanted(items[i].process)) {
        entries->push_back({items[i].start_ns, of, static_cast<uint32_t>(i)});
      }
    }
  }
  bool DumpTimed() {
    std::vector<Entry> entries;
    Collect(timeline_.calls, Of::kCall, &entries);
    Collect(timeline_.ops, Of::kOp, &entries);
    Collect(timeline_.syncs, Of::kSync, &entries);
    Collect(timeline_.overheads, Of::kOverhead, &entries);
    for (size_t i = 0; i < timeline_.markers.size(); ++i) {
      const MarkerRange& range = timeline_.markers[i];
      if (!Wanted(range.process)) continue;
      entries.push_back({range.begin_ns, Of::kMarker, static_cast<uint32_t>(i)});
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.start_ns < b.start_ns; });
    return std::all_of(entries.begin(), entries.end(), [&](const Entry& entry) {
      switch (entry.of) {
        case Of::kCall:
          return DumpCall(timeline_.calls[entry.index]);
        case Of::kOp:
          return DumpOp(timeline_.ops[entry.index]);
        case Of::kSync:
          return DumpSync(timeline_.syncs[entry.index]);
        case Of::kOverhead:
          return DumpOverhead(timeline_.overheads[entry.index]);
        case Of::kMarker:
          return DumpMarker(timeline_.markers[entry.index]);
      }
      return false;
    });
  }

  bool DumpMarker(const MarkerRange& range) {
    const MarkerName& name = timeline_.marker_names[static_cast<size_t>(range.name)];
    DumpRecord record = {"marker", true, range.begin_ns, range.end_ns};
    record.name = name.varies ? name.folded : name.first;
    AddProcess(range.process, &record);
    AddLane(range.device, -1, &record);
    if (range.thread >= 0) {
      record.Number("thread", timeline_.threads[static_cast<size_t>(range.thread)].tid);
    }
    if (!name.domain.empty()) record.Text("domain", name.domain);
    return sink_(record);
  }

  bool DumpCall(const HostCall& call) {
    DumpRecord record = {"call", true, call.start_ns, call.end_ns};
    AddProcess(call.process, &record);
    if (call.thread >= 0) {
      record.Number("thread", timeline_.threads[static_cast<size_t>(call.thread)].tid);
    }
    record.Number("correlation", call.correlation);
    if (call.result != 0) record.Signed("result", call.result);
    if (call.symbol >= 0) {
      const ApiSymbol& symbol = timeline_.symbols[static_cast<size_t>(call.symbol)];
      record.name = symbol.name;
      record.Text("domain", symbol.driver ? "driver" : "runtime")
          .Number("class", static_cast<uint64_t>(symbol.call_class));
    }
    return sink_(record);
  }

  bool DumpOp(const GpuOp& op) {
    DumpRecord record = {OpKindKey(op.kind), true, op.start_ns, op.end_ns};
    AddProcess(op.process, &record);
    AddLane(op.device, op.stream, &record);
    record.Number("correlation", op.correlation).NumberIf("graph", op.graph_id);
    record.NumberIf("graph_node", op.graph_node_id);
    if (op.name >= 0) record.name = timeline_.names[static_cast<size_t>(op.name)];
    if (op.kind == OpKind::kCopy || op.kind == OpKind::kSet) record.Number("bytes", op.bytes);
    if (op.kind == OpKind::kKernel && op.shape >= 0) {
      const LaunchShape& s = timeline_.shapes[static_cast<size_t>(op.shape)];
      record.Text("grid", Dimensions(s.grid)).Text("block", Dimensions(s.block));
      record.Number("registers", s.registers_per_thread)
          .Number("static_shared", s.static_shared_bytes);
      record.Number("dynamic_shared", s.dynamic_shared_bytes);
    } else if (op.kind == OpKind::kCopy && op.shape >= 0) {
      const CopyShape& s = timeline_.copy_shapes[static_cast<size_t>(op.shape)];
      record.Number("copy_kind", s.copy_kind).Number("src_kind", s.src_kind);
      record.Number("dst_kind", s.dst_kind).Number("flags", s.flags).NumberIf("peer", s.peer);
    }
    return sink_(record);
  }

  bool DumpSync(const SyncOp& sync) {
    DumpRecord record = {"sync", true, sync.start_ns, sync.end_ns};
    AddProcess(sync.process, &record);
    record.Number("type", sync.type).Number("correlation", sync.correlation);
    AddLane(sync.device, sync.stream, &record);
    if (sync.event != kInvalidId) record.Number("event", sync.event);
    return sink_(record.NumberIf("event_sync_id", sync.event_sync_id));
  }

  bool DumpOverhead(const OverheadOp& overhead) {
    DumpRecord record = {"overhead", true, overhead.start_ns, overhead.end_ns};
    AddProcess(overhead.process, &record);
    record.Number("overhead", overhead.kind);
    if (overhead.thread >= 0) {
      record.Number("thread", timeline_.threads[static_cast<size_t>(overhead.thread)].tid);
    }
    return sink_(record);
  }

  bool DumpUntimed() {
    return std::all_of(timeline_.untimed.begin(), timeline_.untimed.end(),
                       [&](const UntimedOp& op) {
                         if (!Wanted(op.process)) return true;
                         DumpRecord record = {OpKindKey(op.kind)};
                         record.Text("timing", TimingKey(op.timing));
                         if (op.name >= 0)
                           record.name = timeline_.names[static_cast<size_t>(op.name)];
                         AddProcess(op.process, &record);
                         AddLane(op.device, op.stream, &record);
                         return sink_(record.Number("correlation", op.correlation));
                       });
  }
  bool DumpEvents() {
    return std::all_of(timeline_.events.begin(), timeline_.events.end(), [&](const CudaEvent& e) {
      if (!Wanted(e.process)) return true;
      DumpRecord record = {"cuda_event"};
      AddProcess(e.process, &record);
      AddLane(-1, e.stream, &record);
      return sink_(record.Number("event", e.event).Number("correlation", e.correlation));
    });
  }
  bool DumpDamage() {
    return std::all_of(run_.damage.begin(), run_.damage.end(), [&](const FileDamage& damage) {
      DumpRecord record = {"damage"};
      record.Text("damage", damage.kind)
          .Number("offset", damage.offset)
          .Number("bytes", damage.bytes);
      record.Signed("begin_ns", damage.begin_ns).Signed("end_ns", damage.end_ns);
      return sink_(record.Text("detail", damage.detail));
    });
  }

  const Timeline& timeline_;
  const LoadedRun& run_;
  std::optional<uint32_t> pid_;
  const std::function<bool(const DumpRecord&)>& sink_;
};

}  // namespace

void DumpTimeline(const LoadedRun& run, std::optional<uint32_t> pid,
                  const std::function<bool(const DumpRecord&)>& sink) {
  TimelineDumper(run, pid, sink).Dump();
}

}  // namespace gpuprobe::tools

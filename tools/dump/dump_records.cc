// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/dump/dump_records.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/load/damage_words.h"
#include "tools/load/loss_causes.h"

namespace gpuprobe::tools {
namespace {

const char* TimingKey(proto::RecordTiming timing) {
  switch (timing) {
    case proto::RecordTiming::kValid:
      return "valid";
    case proto::RecordTiming::kMissing:
      return "missing";
    case proto::RecordTiming::kUnfinished:
      return "unfinished";
    case proto::RecordTiming::kInvalid:
      return "invalid";
  }
  return "invalid";
}

DumpRecord GpuRecord(const char* kind, const proto::GpuColumns& columns, size_t i) {
  DumpRecord record = {kind};
  record.timed = columns.timing == proto::RecordTiming::kValid ||
                 columns.timing == proto::RecordTiming::kUnfinished;
  record.start_ns = columns.start_ns[i];
  record.end_ns = columns.end_ns[i];
  if (columns.timing != proto::RecordTiming::kValid)
    record.Text("timing", TimingKey(columns.timing));
  record.Number("device", columns.device)
      .Number("context", columns.context)
      .Number("stream", columns.stream);
  record.Number("correlation", columns.correlation[i]).NumberIf("graph", columns.graph_id[i]);
  return record;
}

std::string Dimensions(uint32_t x, uint32_t y, uint32_t z) {
  return absl::StrCat(x, "x", y, "x", z);
}

}  // namespace

bool TellsOfLoss(const proto::Frame& frame) {
  const auto& packets = frame.trace.packet();
  return std::any_of(packets.begin(), packets.end(), [](const Packet& packet) {
    return (packet.has_loss() && WordsForLoss(packet.loss().cause()).hides) ||
           (packet.has_end() && packet.end().buffers_outstanding() > 0) ||
           (packet.has_capture() && !packet.capture().off_reason().empty());
  });
}

DumpRecord FileRecord(const proto::TraceReader& reader) {
  DumpRecord record = {"file"};
  return record.Text("path", reader.path()).Number("bytes", reader.file_bytes());
}

DumpRecord DamageRecord(const proto::Damage& damage) {
  DumpRecord record = {"damage"};
  record.Text("damage", DamageKey(damage.kind))
      .Number("offset", damage.offset)
      .Number("bytes", damage.bytes);
  record.NumberIf("frames", damage.frames)
      .Signed("begin_ns", damage.begin_ns)
      .Signed("end_ns", damage.end_ns);
  return damage.detail.empty() ? record : record.Text("detail", damage.detail);
}

uint32_t FrameDumper::PidOf(const proto::Frame& frame) {
  for (const Packet& packet : frame.trace.packet()) {
    if (packet.has_process()) return packet.process().pid();
  }
  return 0;
}

std::string FrameDumper::Name(uint32_t id) const {
  return id == 0 || id > static_cast<uint32_t>(dictionary_.names_size())
             ? ""
             : dictionary_.names(static_cast<int>(id - 1));
}

void FrameDumper::Dump(const proto::Frame& frame) {
  dictionary_.Clear();
  for (const Packet& packet : frame.trace.packet()) {
    if (!DumpPacket(packet, frame)) return;
  }
}

bool FrameDumper::DumpPacket(const Packet& packet, const proto::Frame& frame) {
  const FrameHeader& header = frame.header();
  switch (packet.data_case()) {
    case Packet::kFrameHeader:
      return DumpHeader(frame);
    case Packet::kDictionary:
      return DumpDictionary(packet.dictionary());
    case Packet::kKernels:
      return DumpKernels(packet.kernels(), header);
    case Packet::kCopies:
      return DumpCopies(packet.copies(), header);
    case Packet::kSets:
      return DumpSets(packet.sets(), header);
    case Packet::kGraphs:
      return DumpGraphs(packet.graphs(), header);
    case Packet::kApi:
      return DumpCalls(packet.api(), header);
    case Packet::kSyncs:
      return DumpSyncs(packet.syncs(), header);
    case Packet::kCudaEvents:
      return DumpEvents(packet.cuda_events(), header);
    case Packet::kOverheads:
      return DumpOverheads(packet.overheads(), header);
    case Packet::kMarkers:
      return DumpMarkers(packet.markers(), header);
    case Packet::kProcess:
      return DumpProcess(packet.process());
    case Packet::kCapture:
      return DumpCapture(packet.capture());
    case Packet::kCost:
      return DumpCost(packet.cost());
    case Packet::kLoss: {
      const Loss& loss = packet.loss();
      DumpRecord record = {"loss"};
      record.Text("cause", WordsForLoss(loss.cause()).key).Number("count", loss.count());
      record.Signed("begin_ns", loss.begin_ns())
          .Signed("end_ns", loss.end_ns())
          .Signed("detail", loss.detail());
      return sink_(record);
    }
    case Packet::kBlind: {
      DumpRecord record = {"blind"};
      record.Signed("begin_ns", packet.blind().begin_ns())
          .Signed("end_ns", packet.blind().end_ns());
      return sink_(
          record.Text("who", packet.blind().who()).Text("reason", packet.blind().reason()));
    }
    case Packet::kEnd: {
      DumpRecord record = {"end"};
      record.Text("reason", packet.end().reason()).Number("frames", packet.end().frames());
      record.Number("records", packet.end().records());
      return sink_(record.Number("buffers_outstanding", packet.end().buffers_outstanding()));
    }
    case Packet::kThread: {
      DumpRecord record = {"thread"};
      record.name = packet.thread().name();
      return sink_(
          record.Number("thread", packet.thread().tid()).NumberIf("main", packet.thread().main()));
    }
    case Packet::kHostSamples:
      return DumpSamples(packet.host_samples());
    case Packet::kUsage:
      return DumpUsage(packet.usage());
    case Packet::DATA_NOT_SET:
      break;
  }
  return sink_(DumpRecord{"unknown"});
}

bool FrameDumper::DumpHeader(const proto::Frame& frame) {
  const FrameHeader& header = frame.header();
  DumpRecord record = {"frame"};
  record.Number("sequence", header.sequence())
      .Number("offset", frame.offset)
      .Number("bytes", frame.bytes);
  record.Text("file_id", absl::StrCat(absl::Hex(header.file_id(), absl::kZeroPad16)));
  record.Number("version", header.format_version()).Number("records", header.records());
  record.Signed("first_ns", header.first_ns()).Signed("last_ns", header.last_ns());
  record.Signed("written_ns", header.written_ns());
  if (header.has_clock()) {
    const ClockPair& clock = header.clock();
    record.Signed("clock_trace_ns", clock.trace_ns())
        .Signed("clock_monotonic_ns", clock.monotonic_ns());
    record.Signed("clock_realtime_ns", clock.realtime_ns())
        .Signed("clock_cupti_ns", clock.cupti_ns());
    record.Number("clock_uncertainty_ns", clock.uncertainty_ns());
  }
  return sink_(record);
}

bool FrameDumper::DumpDictionary(const Dictionary& dictionary) {
  dictionary_.MergeFrom(dictionary);
  for (const DeviceInfo& info : dictionary.devices()) {
    DumpRecord record = {"device"};
    record.name = info.name();
    record.Number("device", info.device()).Text("uuid", absl::BytesToHexString(info.uuid()));
    record.Number("memory_bytes", info.memory_bytes()).Number("sm_count", info.sm_count());
    record.Number("compute_major", info.compute_major())
        .Number("compute_minor", info.compute_minor());
    if (!sink_(record.NumberIf("mig", info.mig()))) return false;
  }
  for (const ContextInfo& info : dictionary.contexts()) {
    DumpRecord record = {"context"};
    record.Number("context", info.context()).Number("device", info.device());
    if (!sink_(record.Number("null_stream", info.null_stream()))) return false;
  }
  for (const StreamInfo& info : dictionary.streams()) {
    DumpRecord record = {"stream"};
    record.Number("context", info.context()).Number("stream", info.stream());
    if (!sink_(record.Number("priority", info.priority()).Number("flag", info.flag())))
      return false;
  }
  return true;
}

bool FrameDumper::DumpProcess(const ProcessInfo& info) {
  DumpRecord record = {"process"};
  record.name = info.executable();
  record.Number("pid", info.pid())
      .Number("parent_pid", info.parent_pid())
      .Text("host", info.host());
  record.Text("boot_id", info.boot_id()).Signed("start_time_ns", info.start_time_ns());
  record.Signed("rank", info.rank()).Signed("local_rank", info.local_rank());
  record.NumberIf("world_size", static_cast<uint64_t>(info.world_size()));
  record.Number("pid_namespace", info.pid_namespace()).Number("start_ticks", info.start_ticks());
  record.Text("cgroup", info.cgroup());
  return sink_(record.Text("command_line", absl::StrJoin(info.command_line(), " ")));
}

bool FrameDumper::DumpCapture(const CaptureInfo& info) {
  const auto outcome = [](std::string* out, const CaptureInfo::Outcome& item) {
    absl::StrAppend(out, item.name(), "=", item.result());
  };
  const auto setting = [](std::string* out, const CaptureInfo::Setting& item) {
    absl::StrAppend(out, item.name(), "=", item.value());
  };
  DumpRecord record = {"capture"};
  record.Text("version", info.gpuprobe_version()).Text("door", info.door());
  record.Text("cupti_path", info.cupti_path()).Number("cupti_version", info.cupti_version());
  record.Signed("driver_version", info.driver_version())
      .Text("driver_release", info.driver_release())
      .Text("off_reason", info.off_reason());
  record.Text("kinds", absl::StrJoin(info.kinds(), " ", outcome));
  record.Text("attributes", absl::StrJoin(info.attributes(), " ", outcome));
  record.Text("settings", absl::StrJoin(info.settings(), " ", setting));
  return sink_(record.Text("warnings", absl::StrJoin(info.warnings(), "; ")));
}

bool FrameDumper::DumpCost(const Cost& cost) {
  DumpRecord record = {"cost"};
  record.Number("drain_cpu_ns", cost.drain_cpu_ns()).Number("records", cost.records());
  record.Number("cupti_bytes", cost.cupti_bytes()).Number("written_bytes", cost.written_bytes());
  record.Number("buffers_completed", cost.buffers_completed());
  record.Number("buffers_outstanding", cost.buffers_outstanding())
      .Number("buffers_peak", cost.buffers_peak());
  record.Number("memory_bytes", cost.memory_bytes()).Number("flush_calls", cost.flush_calls());
  return sink_(record.Number("flush_ns", cost.flush_ns()).Number("start_ns", cost.start_ns()));
}

bool FrameDumper::DumpKernels(const KernelBatch& batch, const FrameHeader& header) {
  proto::KernelColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = GpuRecord("kernel", columns, i);
    record.NumberIf("graph_node", columns.graph_node_id[i]);
    record.NumberIf("queued_before_ns", static_cast<uint64_t>(columns.queued_before_ns[i]));
    record.NumberIf("submitted_before_ns", static_cast<uint64_t>(columns.submitted_before_ns[i]));
    if (columns.shape[i] < static_cast<uint32_t>(dictionary_.shapes_size())) {
      const auto& s = dictionary_.shapes(static_cast<int>(columns.shape[i]));
      record.name = Name(s.name());
      record.Text("grid", Dimensions(s.grid_x(), s.grid_y(), s.grid_z()));
      record.Text("block", Dimensions(s.block_x(), s.block_y(), s.block_z()));
      if (s.cluster_x() != 0)
        record.Text("cluster", Dimensions(s.cluster_x(), s.cluster_y(), s.cluster_z()));
      record.Number("registers", s.registers_per_thread())
          .Number("static_shared", s.static_shared_bytes());
      record.Number("dynamic_shared", s.dynamic_shared_bytes())
          .NumberIf("local", s.local_bytes_per_thread());
    }
    if (!sink_(record)) return false;
  }
  return true;
}

bool FrameDumper::DumpCopies(const CopyBatch& batch, const FrameHeader& header) {
  proto::CopyColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = GpuRecord("copy", columns, i);
    record.NumberIf("graph_node", columns.graph_node_id[i]).Number("bytes", columns.bytes[i]);
    if (columns.shape[i] < static_cast<uint32_t>(dictionary_.copy_shapes_size())) {
      const auto& s = dictionary_.copy_shapes(static_cast<int>(columns.shape[i]));
      record.Number("copy_kind", s.copy_kind()).Number("src_kind", s.src_kind());
      record.Number("dst_kind", s.dst_kind()).Number("flags", s.flags()).NumberIf("peer", s.peer());
    }
    if (!sink_(record)) return false;
  }
  return true;
}

bool FrameDumper::DumpSets(const SetBatch& batch, const FrameHeader& header) {
  proto::SetColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = GpuRecord("set", columns, i);
    record.NumberIf("graph_node", columns.graph_node_id[i]).Number("bytes", columns.bytes[i]);
    record.Number("value", columns.value[i]).Number("memory_kind", columns.memory_kind[i]);
    if (!sink_(record.Number("flags", columns.flags[i]))) return false;
  }
  return true;
}

bool FrameDumper::DumpGraphs(const GraphBatch& batch, const FrameHeader& header) {
  proto::GraphColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    if (!sink_(GpuRecord("graph", columns, i))) return false;
  }
  return true;
}

bool FrameDumper::DumpCalls(const ApiBatch& batch, const FrameHeader& header) {
  proto::ApiColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = {"call", true, columns.start_ns[i], columns.end_ns[i]};
    record.Number("thread", columns.thread).Number("correlation", columns.correlation[i]);
    if (columns.result[i] != 0) record.Signed("result", columns.result[i]);
    if (columns.symbol[i] < static_cast<uint32_t>(dictionary_.api_symbols_size())) {
      const auto& symbol = dictionary_.api_symbols(static_cast<int>(columns.symbol[i]));
      record.name = Name(symbol.name());
      record.Text("domain", symbol.domain() == SymbolDomain::DRIVER ? "driver" : "runtime");
      record.Number("cbid", symbol.cbid())
          .Number("class", static_cast<uint64_t>(symbol.api_class()));
    }
    if (!sink_(record)) return false;
  }
  return true;
}

bool FrameDumper::DumpSyncs(const SyncBatch& batch, const FrameHeader& header) {
  proto::SyncColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = {"sync", true, columns.start_ns[i], columns.end_ns[i]};
    record.Number("type", columns.type[i]).Number("correlation", columns.correlation[i]);
    if (columns.context_plus1[i] != 0) record.Number("context", columns.context_plus1[i] - 1);
    if (columns.stream_plus1[i] != 0) record.Number("stream", columns.stream_plus1[i] - 1);
    if (columns.event_plus1[i] != 0) record.Number("event", columns.event_plus1[i] - 1);
    record.NumberIf("event_sync_id", columns.event_sync_id[i]);
    if (columns.result[i] != 0) record.Signed("result", columns.result[i]);
    if (!sink_(record)) return false;
  }
  return true;
}

bool FrameDumper::DumpEvents(const CudaEventBatch& batch, const FrameHeader& header) {
  proto::CudaEventColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = {"cuda_event"};
    record.Number("context", columns.context[i]).Number("event", columns.event[i]);
    if (columns.stream_plus1[i] != 0) record.Number("stream", columns.stream_plus1[i] - 1);
    record.Number("correlation", columns.correlation[i]);
    if (!sink_(record.NumberIf("event_sync_id", columns.event_sync_id[i]))) return false;
  }
  return true;
}

bool FrameDumper::DumpOverheads(const OverheadBatch& batch, const FrameHeader& header) {
  proto::OverheadColumns columns;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = {"overhead", true, columns.start_ns[i], columns.end_ns[i]};
    record.Number("overhead", columns.kind[i]).Number("object_kind", columns.object_kind[i]);
    record.NumberIf("thread", columns.thread[i]);
    if (columns.device_plus1[i] != 0) record.Number("device", columns.device_plus1[i] - 1);
    if (columns.context_plus1[i] != 0) record.Number("context", columns.context_plus1[i] - 1);
    if (columns.stream_plus1[i] != 0) record.Number("stream", columns.stream_plus1[i] - 1);
    if (!sink_(record.NumberIf("correlation", columns.correlation[i]))) return false;
  }
  return true;
}

bool FrameDumper::DumpMarkers(const MarkerBatch& batch, const FrameHeader& header) {
  proto::MarkerColumns columns;
  proto::Decode(batch, header, &columns);
  const auto text = [this](uint32_t id) {
    return id == 0 || id > static_cast<uint32_t>(dictionary_.marker_names_size())
               ? std::string()
               : dictionary_.marker_names(static_cast<int>(id - 1));
  };
  for (size_t i = 0; i < columns.count; ++i) {
    DumpRecord record = {"marker", true, columns.start_ns[i], columns.end_ns[i]};
    record.name = text(columns.name[i]);
    record.Number("id", columns.correlation[i]).Number("flags", columns.flags[i]);
    record.TextIf("domain", text(columns.domain[i])).NumberIf("thread", columns.thread[i]);
    if (!sink_(record)) return false;
  }
  return true;
}

}  // namespace gpuprobe::tools

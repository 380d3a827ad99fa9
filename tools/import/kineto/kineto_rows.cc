// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Rows of a document -> records, and the names, shapes, streams and threads that they refer to.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/analysis/analysis.h"
#include "tools/format/format_text.h"
#include "tools/import/call_class.h"
#include "tools/import/kineto/kineto_loader.h"
#include "tools/import/text/exact_time.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

constexpr uint8_t kTimingMissing = 1, kTimingUnfinished = 2, kTimingInvalid = 3;
constexpr size_t kListedRows = 100;
constexpr uint32_t kNoEvent = 0xffffffffu;
constexpr int64_t kNoStream = -1;

uint32_t Low32(std::optional<int64_t> number, uint32_t otherwise) {
  return number ? static_cast<uint32_t>(*number) : otherwise;
}

uint32_t Dimension(const Row& row, Arg arg) { return Low32(row.Number(arg), 0); }

const char* WordOf(RowKind kind) {
  switch (kind) {
    case RowKind::kKernel:
      return "kernel";
    case RowKind::kCopy:
      return "copy";
    case RowKind::kSet:
      return "set";
    case RowKind::kSync:
      return "synchronisation";
    case RowKind::kOverhead:
      return "overhead";
    default:
      return "call";
  }
}

}  // namespace

bool KinetoLoader::Believable(int64_t start_ns, int64_t end_ns) {
  if (start_ns < 0 || end_ns > kLatestRowNs || start_ns > end_ns) return false;
  if (end_ns - start_ns > duration_budget_ns_) return false;
  duration_budget_ns_ -= end_ns - start_ns;
  return true;
}

void KinetoLoader::Extend(const Row& row) {
  document_.first_ns = std::min(document_.first_ns, *row.start_ns);
  document_.last_ns = std::max(document_.last_ns, *row.end_ns);
}

void KinetoLoader::AddUnusable(const Row& row, const char* what) {
  ++unusable_row_count_;
  if (unusable_rows_.size() >= kListedRows) return;
  FileDamage damage = {input_, "row", row.offset, row.bytes};
  damage.detail = absl::StrCat(WordOf(row.kind), " ", ToPrintable(Unescape(row.name).substr(0, 80)),
                               ": ", what);
  unusable_rows_.push_back(std::move(damage));
}

int32_t KinetoLoader::InternName(const JsonText& name) {
  const auto known = names_.find(name.raw);
  if (known != names_.end()) return known->second;
  const std::string text = Unescape(name);
  std::string valid = ToValidUtf8(text);
  odd_names_ += valid != text;
  communicates_.push_back(IsCommunicationKernel(valid));
  run_->timeline.names.push_back(std::move(valid));
  return names_[std::string(name.raw)] = LastIndex(run_->timeline.names);
}

int32_t KinetoLoader::InternSymbol(const JsonText& name, bool driver) {
  auto& symbols = driver ? driver_symbols_ : runtime_symbols_;
  const auto known = symbols.find(name.raw);
  if (known != symbols.end()) return known->second;
  const std::string text = ToValidUtf8(Unescape(name));
  run_->timeline.symbols.push_back({WithoutVersion(text), CallClassOfName(text), driver});
  return symbols[std::string(name.raw)] = LastIndex(run_->timeline.symbols);
}

int32_t KinetoLoader::InternShape(const Row& row) {
  const std::array<uint32_t, 8> key = {
      Dimension(row, Arg::kGridX),     Dimension(row, Arg::kGridY),
      Dimension(row, Arg::kGridZ),     Dimension(row, Arg::kBlockX),
      Dimension(row, Arg::kBlockY),    Dimension(row, Arg::kBlockZ),
      Dimension(row, Arg::kRegisters), Dimension(row, Arg::kSharedBytes)};
  const auto [at, added] =
      shapes_.try_emplace(key, static_cast<int32_t>(run_->timeline.shapes.size()));
  if (added) {
    LaunchShape shape = {};
    std::copy_n(key.begin(), 3, shape.grid);
    std::copy_n(key.begin() + 3, 3, shape.block);
    shape.registers_per_thread = key[6];
    // Kineto adds static and dynamic up.
    shape.dynamic_shared_bytes = key[7];
    run_->timeline.shapes.push_back(shape);
  }
  return at->second;
}

int32_t KinetoLoader::InternCopyShape(const JsonText& name) {
  const auto known = copy_names_.find(name.raw);
  if (known != copy_names_.end()) return known->second;
  const CopyShape shape = CopyShapeOf(Unescape(name));
  const auto [at, added] =
      copy_shapes_.try_emplace({shape.copy_kind, shape.src_kind, shape.dst_kind, shape.peer},
                               static_cast<int32_t>(run_->timeline.copy_shapes.size()));
  if (added) run_->timeline.copy_shapes.push_back(shape);
  return copy_names_[std::string(name.raw)] = at->second;
}

int32_t KinetoLoader::DeviceOf(const Row& row) {
  const std::string_view text = row.device.raw.empty() ? row.pid.raw : row.device.raw;
  const auto known = document_.devices.find(text);
  if (known != document_.devices.end()) return known->second;
  Device device = {};
  const size_t digits = text.find_first_of("0123456789");
  const auto number = IntegerOf(digits == std::string_view::npos ? ""sv : text.substr(digits));
  // No number, or one that is none: the next free one.
  constexpr int64_t kMostDevices = 1 << 16;
  device.ordinal = static_cast<int32_t>(number && *number >= 0 && *number < kMostDevices
                                            ? *number
                                            : static_cast<int64_t>(document_.devices.size()));
  run_->timeline.devices.push_back(device);
  return document_.devices[std::string(text)] = LastIndex(run_->timeline.devices);
}

int64_t KinetoLoader::StreamNumber(const Row& row) {
  if (const auto number = row.Number(Arg::kStream)) return *number;
  const std::string_view text = row.stream.raw.empty() ? row.tid.raw : row.stream.raw;
  if (text.empty()) return kNoStream;
  if (const auto number = IntegerOf(text)) return *number;
  // Streams by name get numbers that no stream has.
  constexpr int64_t kFirst = 0x80000000;
  return document_.stream_texts
      .try_emplace(std::string(text), kFirst + static_cast<int64_t>(document_.stream_texts.size()))
      .first->second;
}

int32_t KinetoLoader::StreamOf(int32_t device, int64_t context, int64_t stream) {
  if (stream == kNoStream) return -1;
  const auto [at, added] = document_.streams.try_emplace(
      {device, context, stream}, static_cast<int32_t>(run_->timeline.streams.size()));
  if (added) {
    run_->timeline.streams.push_back({document_.process, device, static_cast<uint32_t>(context),
                                      static_cast<uint32_t>(stream), false});
  }
  return at->second;
}

int32_t KinetoLoader::ThreadOf(const Row& row) {
  lane_.assign(row.pid.raw);
  lane_.push_back('\0');
  lane_.append(row.tid.raw);
  const auto known = document_.threads.find(lane_);
  if (known != document_.threads.end()) return known->second;
  const auto tid = IntegerOf(row.tid.raw);
  Thread thread = {};
  thread.process = document_.process;
  // -1 stands for a thread that the profiler could not tell.
  if (tid && *tid > 0) {
    thread.tid = static_cast<uint32_t>(*tid);
  } else {
    thread.name = tid ? "not told by the profiler" : ToValidUtf8(Unescape(row.tid));
  }
  run_->timeline.threads.push_back(std::move(thread));
  return document_.threads[lane_] = LastIndex(run_->timeline.threads);
}

void KinetoLoader::AddGpuRow(const Row& row) {
  GpuOp op = {};
  op.process = document_.process;
  op.device = DeviceOf(row);
  op.stream = StreamOf(op.device, row.Number(Arg::kContext).value_or(0), StreamNumber(row));
  op.correlation = Low32(row.Number(Arg::kCorrelation), 0);
  op.graph_id = Low32(row.Number(Arg::kGraph), 0);
  op.graph_node_id = static_cast<uint64_t>(row.Number(Arg::kGraphNode).value_or(0));
  op.bytes = static_cast<uint64_t>(std::max<int64_t>(row.Number(Arg::kBytes).value_or(0), 0));
  op.name = op.shape = -1;
  op.op_class = OpClass::kCopy;
  if (row.kind == RowKind::kKernel) {
    op.kind = OpKind::kKernel;
    op.name = InternName(row.name);
    op.shape = InternShape(row);
    op.op_class =
        communicates_[static_cast<size_t>(op.name)] ? OpClass::kCommunication : OpClass::kCompute;
  } else if (row.kind == RowKind::kCopy) {
    op.kind = OpKind::kCopy;
    op.shape = InternCopyShape(row.name);
  } else {
    op.kind = OpKind::kSet;
  }
  if (row.start_ns && row.end_ns && Believable(*row.start_ns, *row.end_ns)) {
    op.start_ns = *row.start_ns;
    op.end_ns = *row.end_ns;
    Extend(row);
    run_->timeline.ops.push_back(op);
    return;
  }
  const bool begun = row.start_ns && !row.end_ns && Believable(*row.start_ns, *row.start_ns);
  const uint8_t timing = !row.start_ns ? kTimingMissing
                         : begun       ? kTimingUnfinished
                                       : kTimingInvalid;
  run_->timeline.untimed.push_back({op.kind, timing, op.device, op.stream, op.process, op.name,
                                    op.correlation, begun ? *row.start_ns : 0});
  AddUnusable(row, begun ? "no end" : "no usable time");
}

void KinetoLoader::AddCall(const Row& row) {
  const bool driver = row.kind == RowKind::kDriverCall;
  if (document_.call_pid.empty()) document_.call_pid = row.pid.raw;
  if (!row.start_ns || !row.end_ns || !Believable(*row.start_ns, *row.end_ns)) {
    return AddUnusable(row, "no usable time");
  }
  Extend(row);
  run_->timeline.calls.push_back({*row.start_ns, *row.end_ns,
                                  Low32(row.Number(Arg::kCorrelation), 0), document_.process,
                                  ThreadOf(row), InternSymbol(row.name, driver), 0});
  ++(driver ? document_.driver_calls : document_.runtime_calls);
}

void KinetoLoader::AddSync(const Row& row) {
  if (!row.start_ns || !row.end_ns || !Believable(*row.start_ns, *row.end_ns)) {
    return AddUnusable(row, "no usable time");
  }
  Extend(row);
  SyncOp sync = {};
  sync.start_ns = *row.start_ns;
  sync.end_ns = *row.end_ns;
  sync.type = SyncTypeOf(row.sync_kind.raw.empty() ? row.name.raw : row.sync_kind.raw);
  sync.process = document_.process;
  sync.stream = sync.device = -1;
  sync.event = Low32(row.Number(Arg::kWaitEvent), kNoEvent);
  sync.correlation = Low32(row.Number(Arg::kCorrelation), 0);
  const int64_t record = row.Number(Arg::kWaitRecord).value_or(-1);
  const int64_t wait_stream = row.Number(Arg::kWaitStream).value_or(kNoStream);
  run_->timeline.syncs.push_back(sync);
  document_.sync_lanes.push_back(
      {std::string(row.device.raw.empty() ? row.pid.raw : row.device.raw),
       row.Number(Arg::kContext).value_or(0), StreamNumber(row),
       record >= 0 ? wait_stream : kNoStream});
  if (record >= 0 && sync.event != kNoEvent) {
    run_->timeline.events.push_back({document_.process, -1, sync.event,
                                     static_cast<uint32_t>(record),
                                     static_cast<uint64_t>(run_->timeline.syncs.size() - 1)});
  }
}

// The devices and streams of synchronisation rows: a device without GPU work is none that a report
// should speak of. Stream waits tell where the event was recorded, in place of the event itself.
void KinetoLoader::ResolveSyncs() {
  auto& syncs = run_->timeline.syncs;
  for (size_t i = 0; i < document_.sync_lanes.size(); ++i) {
    const SyncLane& lane = document_.sync_lanes[i];
    const auto device = document_.devices.find(lane.device);
    if (device == document_.devices.end()) continue;
    SyncOp& sync = syncs[document_.begin.syncs + i];
    sync.device = device->second;
    sync.stream = StreamOf(device->second, lane.context, lane.stream);
  }
  for (CudaEvent& event : run_->timeline.events) {
    if (event.process != document_.process) continue;
    const SyncLane& lane = document_.sync_lanes[event.event_sync_id - document_.begin.syncs];
    event.event_sync_id = 0;
    const auto device = document_.devices.find(lane.device);
    if (device == document_.devices.end()) continue;
    event.stream = StreamOf(device->second, lane.context, lane.wait_stream);
  }
}

void KinetoLoader::AddOverhead(const Row& row) {
  if (!row.start_ns || !row.end_ns || !Believable(*row.start_ns, *row.end_ns)) {
    return AddUnusable(row, "no usable time");
  }
  Extend(row);
  const uint32_t kind = OverheadKindOf(Unescape(row.name));
  const auto pid = IntegerOf(row.pid.raw), tid = IntegerOf(row.tid.raw);
  const bool of_thread = pid && *pid > 0 && tid && *tid > 0;
  run_->timeline.overheads.push_back({*row.start_ns, *row.end_ns, kind, document_.process,
                                      of_thread ? ThreadOf(row) : -1,
                                      IsProfilerOverheadKind(kind)});
}

// One that has no times is of no consequence: not counted.
void KinetoLoader::AddSpan(const Row& row) {
  if (!row.start_ns || !row.end_ns || !Believable(*row.start_ns, *row.end_ns)) return;
  Extend(row);
  const auto pid = IntegerOf(row.pid.raw);
  if (document_.span_pid.empty() && pid && *pid > 0) document_.span_pid = row.pid.raw;
  const int32_t thread = ThreadOf(row);
  spans_.Add(row.kind, row.name, thread, *row.start_ns, *row.end_ns);
  if (row.kind == RowKind::kAnnotation) AddMarker(row, thread);
}

void KinetoLoader::AddMarker(const Row& row, int32_t thread) {
  const std::string name = Unescape(row.name);
  if (!MayMarkSteps(name)) return;
  const auto named = markers_.Intern(MarkerKind::kAnnotation, "", name);
  run_->timeline.markers.push_back(
      {*row.start_ns, *row.end_ns, document_.process, thread, -1, named.name, named.numbers});
}

// A device is one that has GPU work: which one this is of is known when all rows are read.
void KinetoLoader::AddGpuMarker(const Row& row) {
  if (!row.start_ns || !row.end_ns || !Believable(*row.start_ns, *row.end_ns)) return;
  const size_t before = run_->timeline.markers.size();
  AddMarker(row, -1);
  if (run_->timeline.markers.size() == before) return;
  document_.gpu_markers.emplace_back(
      before, std::string(row.device.raw.empty() ? row.pid.raw : row.device.raw));
}

void KinetoLoader::ResolveGpuMarkers() {
  std::vector<MarkerRange>& markers = run_->timeline.markers;
  for (const auto& [index, text] : document_.gpu_markers) {
    const auto device = document_.devices.find(text);
    if (device != document_.devices.end()) markers[index].device = device->second;
  }
  // Neither of a thread nor of a device that has work.
  markers.erase(std::remove_if(markers.begin() + static_cast<ptrdiff_t>(document_.begin.markers),
                               markers.end(),
                               [](const MarkerRange& m) { return m.thread < 0 && m.device < 0; }),
                markers.end());
}

void KinetoLoader::AddRow(const Row& row) {
  switch (row.kind) {
    case RowKind::kKernel:
    case RowKind::kCopy:
    case RowKind::kSet:
      return AddGpuRow(row);
    case RowKind::kRuntimeCall:
    case RowKind::kDriverCall:
      return AddCall(row);
    case RowKind::kSync:
      return AddSync(row);
    case RowKind::kOverhead:
      return AddOverhead(row);
    case RowKind::kMetadata:
      return AddMetadata(row);
    case RowKind::kPython:
      ++document_.python_rows;
      [[fallthrough]];
    case RowKind::kOperator:
    case RowKind::kAnnotation:
      return AddSpan(row);
    case RowKind::kGpuAnnotation:
      return AddGpuMarker(row);
    case RowKind::kKnown:
    case RowKind::kUnknown:
    case RowKind::kNone:
      return;
  }
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto_loader.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/analysis/analysis.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/import/call_class.h"
#include "tools/import/exact_time.h"
#include "tools/import/progress.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

constexpr int64_t kLatestNs = int64_t{1} << 62;  // as in load_batches.cc: differences stay sane
constexpr uint8_t kTimingMissing = 1, kTimingUnfinished = 2, kTimingInvalid = 3;
constexpr size_t kListedRows = 100, kListedCategories = 8, kProblemsInWords = 3;
constexpr uint32_t kNoEvent = 0xffffffffu;
constexpr int64_t kNoStream = -1;

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
}

std::string LaneKey(std::string_view pid, std::string_view tid) {
  std::string key(pid);
  key.push_back('\0');
  return key.append(tid);
}

uint32_t Low32(std::optional<int64_t> number, uint32_t otherwise) {
  return number ? static_cast<uint32_t>(*number) : otherwise;
}

uint32_t Dimension(const Row& row, Arg arg) { return Low32(row.Number(arg), 0); }

// "thread 4711 (pt_main_thread)" -> "pt_main_thread": the number stands beside it anyway.
std::string ThreadName(const std::string& label, std::string_view tid) {
  const std::string prefix = absl::StrCat("thread ", std::string(tid), " (");
  if (!label.starts_with(prefix) || !label.ends_with(")")) return label;
  return label.substr(prefix.size(), label.size() - prefix.size() - 1);
}

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

const char* DamageKey(TextDamage::Kind kind) {
  switch (kind) {
    case TextDamage::Kind::kTruncated:
      return "truncated";
    case TextDamage::Kind::kCorrupt:
      return "corrupt";
    case TextDamage::Kind::kRepaired:
      return "repaired";
    case TextDamage::Kind::kPacking:
      return "packing";
  }
  return "unknown";
}

// 12040 -> "12.4", as CUDA writes its versions.
std::string CudaVersion(std::string_view value) {
  const auto version = IntegerOf(value);
  if (!version || *version < 1000) return std::string(value);
  return absl::StrCat(*version / 1000, ".", *version % 1000 / 10);
}

}  // namespace

bool KinetoLoader::Believable(int64_t start_ns, int64_t end_ns) {
  if (start_ns < 0 || end_ns > kLatestNs || start_ns > end_ns) return false;
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

// --- what rows refer to ------------------------------------------------------------------------

int32_t KinetoLoader::InternName(const JsonText& name) {
  const auto known = names_.find(name.raw);
  if (known != names_.end()) return known->second;
  const std::string text = Unescape(name);
  std::string valid = ToValidUtf8(text);
  odd_names_ += valid != text;
  communicates_.push_back(IsCommunicationKernel(valid));
  run_->timeline.names.push_back(std::move(valid));
  return names_[std::string(name.raw)] = Last(run_->timeline.names);
}

int32_t KinetoLoader::InternSymbol(const JsonText& name, bool driver) {
  auto& symbols = driver ? driver_symbols_ : runtime_symbols_;
  const auto known = symbols.find(name.raw);
  if (known != symbols.end()) return known->second;
  const std::string text = ToValidUtf8(Unescape(name));
  run_->timeline.symbols.push_back({WithoutVersion(text), CallClassOfName(text), driver});
  return symbols[std::string(name.raw)] = Last(run_->timeline.symbols);
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
  return document_.devices[std::string(text)] = Last(run_->timeline.devices);
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
  return document_.threads[lane_] = Last(run_->timeline.threads);
}

// --- rows --------------------------------------------------------------------------------------

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

void KinetoLoader::AddMetadata(const Row& row) {
  const std::string pid(row.pid.raw);
  if (row.name.raw == "thread_name"sv) {
    document_.thread_names[LaneKey(pid, row.tid.raw)] =
        ThreadName(ToValidUtf8(Unescape(row.label)), row.tid.raw);
  } else if (row.name.raw == "process_name"sv) {
    document_.process_names[pid] = ToValidUtf8(Unescape(row.label));
  } else if (row.name.raw == "process_labels"sv) {
    document_.process_labels[pid] = ToValidUtf8(Unescape(row.labels));
  }
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

// --- the object around the events --------------------------------------------------------------

void KinetoLoader::AddDistributedInfo(std::string_view value) {
  if (!value.starts_with('{')) return;
  JsonCursor cursor(value.data(), value.data() + value.size());
  // A member that is no JSON ends it: what stood before counts.
  cursor.Object([&](std::string_view key) {
    JsonText text;
    const Scan scan = cursor.Value(&text);
    const int64_t number = IntegerOf(text.raw).value_or(-1);
    const bool fits = number >= 0 && number <= std::numeric_limits<int32_t>::max();
    if (key == "rank"sv && fits) document_.member.rank = static_cast<int32_t>(number);
    if (key == "world_size"sv && fits) document_.member.world_size = static_cast<int32_t>(number);
    if (key == "backend"sv) document_.member.backend = ToValidUtf8(Unescape(text));
    return scan;
  });
}

void KinetoLoader::AddDeviceProperties(std::string_view value) {
  if (!value.starts_with('[')) return;
  JsonCursor cursor(value.data(), value.data() + value.size());
  cursor.Array([&] {
    if (cursor.Peek() != '{') return cursor.Skip();
    Device device = {};
    int64_t id = -1;
    const Scan scan = cursor.Object([&](std::string_view key) {
      JsonText text;
      const Scan value_scan = cursor.Value(&text);
      const int64_t number = IntegerOf(text.raw).value_or(-1);
      if (key == "id"sv) id = number;
      if (key == "name"sv) device.name = ToValidUtf8(Unescape(text));
      if (key == "uuid"sv) device.uuid = ToValidUtf8(Unescape(text));
      if (key == "totalGlobalMem"sv && number > 0) {
        device.memory_bytes = static_cast<uint64_t>(number);
      }
      if (key == "numSms"sv && number > 0) device.sm_count = static_cast<uint32_t>(number);
      return value_scan;
    });
    if (id >= 0) document_.properties[id] = std::move(device);
    return scan;
  });
}

void KinetoLoader::AddMember(std::string_view key, std::string_view value) {
  const auto version = [&](const char* what, const std::string& text) {
    document_.versions.push_back(absl::StrCat(what, " ", ToPrintable(text)));
  };
  if (key == "distributedInfo"sv) {
    AddDistributedInfo(value);
  } else if (key == "deviceProperties"sv) {
    AddDeviceProperties(value);
  } else if (key == "baseTimeNanoseconds"sv) {
    document_.base_ns = std::clamp<int64_t>(IntegerOf(value).value_or(0), 0, kLatestNs / 2);
  } else if (key == "schemaVersion"sv) {
    version("schema", std::string(value));
  } else if (key == "cupti_version"sv) {
    version("CUPTI", std::string(value));
  } else if (key == "cuda_runtime_version"sv) {
    version("CUDA runtime", CudaVersion(value));
  } else if (key == "cuda_driver_version"sv) {
    version("driver for CUDA", CudaVersion(value));
  } else if (key == "roctracer_version"sv) {
    version("roctracer", std::string(value));
  }
}

// --- documents ---------------------------------------------------------------------------------

void KinetoLoader::BeginDocument() {
  Timeline& timeline = run_->timeline;
  document_ = Document();
  Process process = {};
  process.source = SourceKind::kKineto;
  process.rank = -1;
  process.files.push_back(input_);
  timeline.processes.push_back(std::move(process));
  run_->captures.push_back({});
  document_.process = Last(timeline.processes);
  document_.member.path = timeline.inputs[static_cast<size_t>(input_)].path;
  document_.begin = {timeline.ops.size(),     timeline.untimed.size(),   timeline.calls.size(),
                     timeline.syncs.size(),   timeline.overheads.size(), timeline.samples.size(),
                     timeline.sampled.size(), timeline.markers.size()};
}

void KinetoLoader::NameThreadsAndProcess() {
  Timeline& timeline = run_->timeline;
  Process& process = timeline.processes[static_cast<size_t>(document_.process)];
  std::string pid = document_.call_pid;
  for (const auto& [of, label] : document_.process_labels) {
    if (pid.empty() && label == "CPU") pid = of;
  }
  if (pid.empty()) pid = document_.span_pid;
  process.pid = static_cast<uint32_t>(std::max<int64_t>(IntegerOf(pid).value_or(0), 0));
  const auto name = document_.process_names.find(pid);
  if (name != document_.process_names.end()) process.executable = name->second;
  for (const auto& [key, index] : document_.threads) {
    Thread& thread = timeline.threads[static_cast<size_t>(index)];
    thread.main = thread.tid != 0 && thread.tid == process.pid;
    const auto known = document_.thread_names.find(key);
    if (known != document_.thread_names.end() && thread.tid != 0) thread.name = known->second;
  }
  for (const auto& [text, index] : document_.devices) {
    Device& device = timeline.devices[static_cast<size_t>(index)];
    const auto known = document_.properties.find(device.ordinal);
    if (known == document_.properties.end()) continue;
    const int32_t ordinal = device.ordinal;
    device = known->second;
    device.ordinal = ordinal;
  }
}

void KinetoLoader::ShiftToFirstBase() {
  if (!has_first_base_) {
    has_first_base_ = true;
    first_base_ns_ = document_.base_ns;
  }
  const int64_t shift_ns = document_.base_ns - first_base_ns_;
  run_->captures[static_cast<size_t>(document_.process)].clock.shift_ns = shift_ns;
  if (shift_ns == 0) return;
  other_base_ = true;
  Timeline& timeline = run_->timeline;
  const auto shift = [shift_ns](auto* items, size_t begin) {
    for (size_t i = begin; i < items->size(); ++i) {
      (*items)[i].start_ns += shift_ns;
      (*items)[i].end_ns += shift_ns;
    }
  };
  shift(&timeline.ops, document_.begin.ops);
  shift(&timeline.calls, document_.begin.calls);
  shift(&timeline.syncs, document_.begin.syncs);
  shift(&timeline.overheads, document_.begin.overheads);
  for (size_t i = document_.begin.untimed; i < timeline.untimed.size(); ++i) {
    if (timeline.untimed[i].start_ns != 0) timeline.untimed[i].start_ns += shift_ns;
  }
  for (size_t i = document_.begin.samples; i < timeline.samples.size(); ++i) {
    timeline.samples[i].time_ns += shift_ns;
  }
  for (size_t i = document_.begin.sampled; i < timeline.sampled.size(); ++i) {
    timeline.sampled[i].begin_ns += shift_ns;
    timeline.sampled[i].end_ns += shift_ns;
  }
  for (size_t i = document_.begin.markers; i < timeline.markers.size(); ++i) {
    timeline.markers[i].begin_ns += shift_ns;
    timeline.markers[i].end_ns += shift_ns;
  }
  if (document_.first_ns <= document_.last_ns) {
    document_.first_ns += shift_ns;
    document_.last_ns += shift_ns;
  }
}

void KinetoLoader::DescribeSource(Process* process, ProcessCapture* capture) {
  process->has_runtime_api = document_.runtime_calls > 0;
  process->has_driver_api = document_.driver_calls > 0;
  process->has_sync_records = !document_.sync_lanes.empty();
  process->ended = true;
  process->rank = document_.member.rank;
  capture->world_size = document_.member.world_size;
  capture->recorder =
      absl::StrCat("PyTorch profiler (Kineto)", document_.versions.empty() ? "" : ", ",
                   absl::StrJoin(document_.versions, ", "));
  capture->absent = {"how much the profiler lost", "what was queued when"};
  if (document_.runtime_calls + document_.driver_calls == 0) {
    capture->absent.push_back("host calls");
  }
  if (document_.sync_lanes.empty()) capture->absent.push_back("stream waits");
  capture->absent.push_back(document_.python_rows > 0 ? "whether threads ran or were blocked"
                                                      : "what threads did outside CUDA");
}

void KinetoLoader::CloseDocument() {
  ResolveSyncs();
  ResolveGpuMarkers();
  spans_.Build(document_.process, document_.begin.calls);
  NameThreadsAndProcess();
  ShiftToFirstBase();
  Process& process = run_->timeline.processes[static_cast<size_t>(document_.process)];
  DescribeSource(&process, &run_->captures[static_cast<size_t>(document_.process)]);
  if (document_.first_ns <= document_.last_ns) {
    process.capture_begin_ns = document_.first_ns;
    process.capture_end_ns = document_.last_ns;
    document_.member.begin_ns = document_.first_ns;
    document_.member.end_ns = document_.last_ns;
  }
  members_.push_back(document_.member);
}

void KinetoLoader::AddDamage(const EventReader& reader) {
  InputFile& input = run_->timeline.inputs[static_cast<size_t>(input_)];
  Process& process = run_->timeline.processes[static_cast<size_t>(document_.process)];
  const int64_t shift_ns = run_->captures[static_cast<size_t>(document_.process)].clock.shift_ns;
  std::vector<std::string> problems;
  const auto blind = [&](int64_t begin_ns, int64_t end_ns, const std::string& why) {
    if (begin_ns < end_ns) {
      run_->timeline.blinds.push_back({begin_ns, end_ns, document_.process, Blind::Why::kDamage,
                                       absl::StrCat(input.path, ": ", why)});
    }
  };
  for (const TextDamage& item : reader.damage()) {
    FileDamage damage = {input_, DamageKey(item.kind), item.offset, item.bytes};
    damage.detail = item.detail;
    if (item.end_ns != 0) {
      damage.begin_ns = item.begin_ns + shift_ns;
      damage.end_ns = item.end_ns + shift_ns;
    }
    // What was read after all is in the figures.
    if (item.kind != TextDamage::Kind::kRepaired) {
      input.damaged_bytes += item.bytes;
      if (item.hides_gpu_work && item.end_ns != 0) {
        blind(damage.begin_ns, damage.end_ns, item.detail);
      } else if (item.hides_gpu_work) {
        blind(process.capture_begin_ns, process.capture_end_ns, item.detail);
      }
    }
    if (item.kind == TextDamage::Kind::kTruncated) process.ended = false;
    problems.push_back(item.detail);
    run_->damage.push_back(std::move(damage));
  }
  for (FileDamage& row : unusable_rows_) {
    problems.push_back(absl::StrCat("row at byte ", row.offset, ": ", row.detail));
    run_->damage.push_back(std::move(row));
  }
  const uint64_t all =
      reader.damage().size() + reader.counts().damage_not_listed + unusable_row_count_;
  problems.resize(std::min(problems.size(), kProblemsInWords));
  if (all > problems.size()) {
    problems.push_back(absl::StrCat(FormatCount(all - problems.size()), " more (info lists them)"));
  }
  input.problem = absl::StrJoin(problems, "; ");
  input.complete = all == 0;
}

void KinetoLoader::AddNotices(const std::string& path, const RowCounts& counts) {
  const auto note = [&](const std::string& text) {
    run_->notices.push_back(absl::StrCat(path, ": ", text));
  };
  if (!counts.unknown_categories.empty()) {
    std::vector<std::pair<uint64_t, std::string>> unknown;
    for (const auto& [name, count] : counts.unknown_categories) unknown.emplace_back(count, name);
    std::sort(unknown.rbegin(), unknown.rend());
    std::vector<std::string> words;
    for (const auto& [count, name] : unknown) {
      if (words.size() == kListedCategories) break;
      words.push_back(absl::StrCat(name, " (", FormatCount(count), ")"));
    }
    note(absl::StrCat("categories that are not known: ", absl::StrJoin(words, ", "),
                      unknown.size() > words.size() ? ", ..." : ""));
  }
  if (counts.without_category > 0) {
    note(absl::StrCat(FormatPlural(counts.without_category, "row"),
                      " without a category: not used"));
  }
  if (counts.unmatched_ends > 0) {
    note(absl::StrCat(FormatPlural(counts.unmatched_ends, "end"), " without a begin: not used"));
  }
  if (counts.unfinished > 0) {
    note(absl::StrCat(FormatPlural(counts.unfinished, "row"), " without an end"));
  }
  if (counts.rounded_times > 0) {
    note(absl::StrCat(FormatPlural(counts.rounded_times, "row"),
                      " with times finer than a nanosecond: rounded"));
  }
  if (counts.control_characters > 0) {
    note(absl::StrCat(FormatPlural(counts.control_characters, "row"),
                      " with raw control characters in a text"));
  }
  if (counts.not_objects > 0) {
    note(absl::StrCat(FormatPlural(counts.not_objects, "element"), " among the rows that is none"));
  }
  const Timeline& timeline = run_->timeline;
  const bool gpu_work = timeline.ops.size() > document_.begin.ops ||
                        timeline.untimed.size() > document_.begin.untimed;
  if (counts.documents <= 1 && !gpu_work) {
    note(counts.elements == 0 ? "no event in it" : "no GPU work among its rows");
  }
}

absl::Status KinetoLoader::Load(const std::string& path, Packing packing) {
  auto opened = EventReader::Open(path, packing);
  if (!opened.ok()) return opened.status();
  EventReader& reader = **opened;
  Timeline& timeline = run_->timeline;
  timeline.inputs.push_back({path, reader.source().file_bytes()});
  input_ = Last(timeline.inputs);
  unusable_rows_.clear();
  unusable_row_count_ = 0;
  odd_names_ = 0;
  Progress progress(path, reader.source().file_bytes());
  const size_t first_process = timeline.processes.size(), first_member = members_.size();
  bool members = false;
  BeginDocument();
  for (EventReader::Item item = reader.Next(); item != EventReader::Item::kEnd;
       item = reader.Next()) {
    progress.Tick(reader.source().consumed_bytes());
    if (item == EventReader::Item::kRow) {
      AddRow(reader.row());
    } else if (item == EventReader::Item::kMember) {
      members = true;
      AddMember(reader.key(), reader.value());
    } else {
      CloseDocument();
      BeginDocument();
    }
  }
  CloseDocument();
  const RowCounts& counts = reader.counts();
  const bool rows = counts.elements > counts.without_phase + counts.not_objects;
  const bool empty = counts.elements == counts.empty_objects && reader.damage().empty() &&
                     (reader.has_event_array() || reader.has_trace_member() || !members);
  if (!rows && !empty && !reader.has_trace_member()) {
    timeline.processes.resize(first_process);
    run_->captures.resize(first_process);
    members_.resize(first_member);
    timeline.inputs.pop_back();
    const std::string why = !reader.damage().empty()   ? reader.damage().front().detail
                            : reader.has_event_array() ? "its elements have no phase (\"ph\")"
                                                       : "it has no \"traceEvents\"";
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": JSON, but no trace that can be read: ", why));
  }
  timeline.inputs[static_cast<size_t>(input_)].records = counts.elements;
  AddDamage(reader);
  AddNotices(path, counts);
  if (odd_names_ > 0) {
    run_->notices.push_back(absl::StrCat(path, ": ", FormatPlural(odd_names_, "name"),
                                         " with bytes that are not UTF-8: replaced"));
  }
  return absl::OkStatus();
}

absl::Status KinetoLoader::Finish() {
  if (absl::Status status = CheckOneRun(members_); !status.ok()) return status;
  std::stable_sort(
      run_->timeline.sampled.begin(), run_->timeline.sampled.end(),
      [](const SampledPeriod& a, const SampledPeriod& b) { return a.begin_ns < b.begin_ns; });
  if (members_.size() > 1) {
    run_->notices.push_back(
        absl::StrCat("times of the ", members_.size(),
                     " processes are their hosts' wall clocks: comparable as far as these agree"));
  }
  return absl::OkStatus();
}

}  // namespace gpuprobe::tools

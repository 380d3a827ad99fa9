// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The half of NsysLoader that knows who and where: processes, threads, devices, streams, names, and
// what the export says of itself.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/analysis/analysis.h"
#include "tools/import/call_class.h"
#include "tools/import/nsys/nsys_loader.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kMostWarnings = 20;

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
}

// As CUPTI's, and gpuprobe's own traces: "GPU-..."; empty for none.
std::string UuidText(std::string_view text) {
  constexpr size_t kUuidLength = 36;
  if (text.substr(0, 4) == "GPU-") text.remove_prefix(4);
  return text.size() == kUuidLength ? absl::StrCat("GPU-", std::string(text)) : "";
}

}  // namespace

NsysLoader::NsysLoader(const NsysDatabase& database, const std::string& path, LoadedRun* run)
    : database_(database), run_(run), marker_namer_(&run->timeline) {
  Timeline& timeline = run->timeline;
  timeline.inputs.push_back({path, database.bytes()});
  input_ = Last(timeline.inputs);
  first_process_ = timeline.processes.size();
  first_stream_ = timeline.streams.size();
  first_op_ = timeline.ops.size();
  first_untimed_ = timeline.untimed.size();
  first_call_ = timeline.calls.size();
  first_sync_ = timeline.syncs.size();
  first_overhead_ = timeline.overheads.size();
  first_marker_name_ = timeline.marker_names.size();
}

bool NsysLoader::IsExport(const NsysDatabase& database) {
  bool found = false;
  for (const NsysDatabase::Table& table : database.tables()) {
    const bool activity = absl::StartsWithIgnoreCase(table.name, "CUPTI_ACTIVITY_KIND_");
    // nvprof's databases have tables of the same names, with other columns.
    if (activity && table.HasColumn("_id_")) return false;
    found |= activity;
  }
  for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA",
                            "TARGET_INFO_SESSION_START_TIME", "StringIds", "PROFILER_OVERHEAD"}) {
    found |= database.Find(table) != nullptr;
  }
  return found;
}

void NsysLoader::Load() {
  ReadMetaData();
  ReadProcessNames();
  ReadGpus();
  ReadContexts();
  ReadCalls();
  ReadKernels();
  ReadCopies();
  ReadSets();
  ReadGraphs();
  ReadSyncs();
  ReadEvents();
  ReadOverheads("CUPTI_ACTIVITY_KIND_OVERHEAD", false);
  ReadOverheads("PROFILER_OVERHEAD", true);
  ReadMarkers();
  ReadThreadNames();
  ReadDiagnostics();
  ResolveStrings();
  FixSyncTypes();
  PlaceDevices();
  SortRecords();
  DescribeCapture();
}

void NsysLoader::ReadMetaData() {
  constexpr const char* kColumns[] = {"name", "value"};
  for (const char* name :
       {"META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"}) {
    const NsysDatabase::Table* table = database_.Find(name);
    if (table == nullptr) continue;
    const auto rows = database_.Scan(*table, kColumns);
    while (rows->Next()) meta_.try_emplace(std::string(rows->Text(0)), rows->Text(1));
    Close(name, *rows, false);
  }
  host_ = meta_["Hostname"];
  constexpr const char* kStart[] = {"utcEpochNs"};
  if (const auto* table = database_.Find("TARGET_INFO_SESSION_START_TIME"); table != nullptr) {
    const auto rows = database_.Scan(*table, kStart);
    if (rows->Next()) session_utc_ns_ = rows->Integer(0);
  }
}

void NsysLoader::ReadProcessNames() {
  constexpr const char* kColumns[] = {"globalPid", "name"};
  const auto rows = Open("PROCESSES", "names of processes", kColumns, 2);
  if (rows == nullptr) return;
  while (rows->Next()) {
    if (const auto id = rows->Integer(0); id.has_value()) {
      process_names_[ProcessKey(*id)] = rows->Text(1);
    }
  }
  Close("PROCESSES", *rows, false);
}

void NsysLoader::ReadGpus() {
  // "deviceId", "numMultiprocessors": TARGET_INFO_CUDA_GPU of 2020 and early 2021.
  constexpr const char* kColumns[] = {"id",          "name",    "uuid",     "vmId",
                                      "totalMemory", "smCount", "deviceId", "numMultiprocessors"};
  const NsysDatabase::Table* table = database_.Find("TARGET_INFO_GPU");
  if (table == nullptr) table = database_.Find("TARGET_INFO_CUDA_GPU");
  if (table == nullptr) {
    absent_.push_back("names and UUIDs of GPUs (no table TARGET_INFO_GPU)");
  } else {
    const auto rows = database_.Scan(*table, kColumns);
    while (rows->Next()) {
      std::optional<int64_t> id = rows->Integer(0);
      if (!id.has_value()) id = rows->Integer(6);
      if (!id.has_value()) continue;
      std::optional<int64_t> sms = rows->Integer(5);
      if (!sms.has_value()) sms = rows->Integer(7);
      gpus_[{rows->Integer(3).value_or(0) >> 48, *id}] = {
          UuidText(rows->Text(2)), std::string(rows->Text(1)),
          static_cast<uint64_t>(std::max<int64_t>(0, rows->Integer(4).value_or(0))),
          static_cast<uint32_t>(std::clamp<int64_t>(sms.value_or(0), 0, UINT32_MAX))};
    }
    Close(table->name.c_str(), *rows, false);
  }
  // CUDA_VISIBLE_DEVICES renumbers: what a process calls 0 need not be the machine's first.
  constexpr const char* kOrdinals[] = {"pid", "cudaId", "gpuId"};
  table = database_.Find("TARGET_INFO_CUDA_DEVICE");
  if (table == nullptr) return;
  const auto rows = database_.Scan(*table, kOrdinals);
  while (rows->Next()) {
    const auto pid = rows->Integer(0), ordinal = rows->Integer(1), gpu = rows->Integer(2);
    if (!pid.has_value() || !ordinal.has_value() || !gpu.has_value()) continue;
    gpu_of_ordinal_[{static_cast<uint32_t>(*pid), *ordinal}] = *gpu;
  }
  Close(table->name.c_str(), *rows, false);
}

void NsysLoader::ReadContexts() {
  struct Source {
    const char* table;
    const char* null_stream;
  };
  constexpr Source kSources[] = {{"TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"},
                                 {"TARGET_INFO_CUDA_NULL_STREAM", "streamId"}};
  for (const Source& source : kSources) {
    const NsysDatabase::Table* table = database_.Find(source.table);
    if (table == nullptr) continue;
    const char* const columns[] = {"processId", "contextId", "deviceId", source.null_stream};
    const auto rows = database_.Scan(*table, columns);
    while (rows->Next()) {
      const auto pid = rows->Integer(0), context = rows->Integer(1);
      if (!pid.has_value() || !context.has_value()) continue;
      contexts_[{static_cast<uint32_t>(*pid), *context}] = {rows->Integer(2), rows->Integer(3)};
    }
    Close(source.table, *rows, false);
  }
}

void NsysLoader::ReadThreadNames() {
  constexpr const char* kColumns[] = {"globalTid", "nameId"};
  const auto rows = Open("ThreadNames", "names of threads", kColumns, 2);
  if (rows == nullptr) return;
  while (rows->Next()) {
    const auto thread = rows->Integer(0), name = rows->Integer(1);
    if (!thread.has_value() || !name.has_value()) continue;
    const auto at = threads_.find(*thread);
    if (at != threads_.end()) thread_string_ids_.emplace_back(at->second, *name);
  }
  Close("ThreadNames", *rows, false);
}

void NsysLoader::ReadDiagnostics() {
  constexpr int64_t kWarning = 2, kError = 3;
  constexpr const char* kColumns[] = {"severity", "text"};
  const NsysDatabase::Table* table = database_.Find("DIAGNOSTIC_EVENT");
  if (table == nullptr) return;
  const auto rows = database_.Scan(*table, kColumns);
  while (rows->Next()) {
    const auto severity = rows->Integer(0);
    if (severity != kWarning && severity != kError) continue;
    if (warnings_.size() < kMostWarnings) {
      warnings_.push_back(absl::StrCat("Nsight Systems: ", std::string(rows->Text(1))));
    }
  }
  Close("DIAGNOSTIC_EVENT", *rows, false);
}

void NsysLoader::ResolveStrings() {
  Timeline& timeline = run_->timeline;
  absl::flat_hash_map<int64_t, std::string> texts;
  for (const int64_t id : kernel_string_ids_) texts[id];
  for (const auto& [id, event_class] : symbol_string_ids_) texts[id];
  for (const auto& [thread, id] : thread_string_ids_) texts[id];
  for (const UnnamedMarker& marker : unnamed_markers_) texts[marker.string];
  constexpr const char* kColumns[] = {"id", "value"};
  if (const auto rows = Open("StringIds", "all names", kColumns, 2); rows != nullptr) {
    while (rows->Next()) {
      const auto at = texts.find(rows->Integer(0).value_or(-1));
      if (at != texts.end()) at->second = rows->Text(1);
    }
    Close("StringIds", *rows, false);
  }
  const auto text_of = [&texts](int64_t id, const char* what) {
    const std::string& text = texts[id];
    return text.empty() ? absl::StrCat(what, "#", id) : text;
  };

  absl::flat_hash_map<std::string, int32_t> known;
  for (size_t i = 0; i < timeline.names.size(); ++i) {
    known.emplace(timeline.names[i], static_cast<int32_t>(i));
  }
  std::vector<std::pair<int32_t, OpClass>> names;
  for (const int64_t id : kernel_string_ids_) {
    const std::string text = text_of(id, "kernel");
    const auto [at, added] = known.try_emplace(text, static_cast<int32_t>(timeline.names.size()));
    if (added) timeline.names.push_back(text);
    names.emplace_back(at->second,
                       IsCommunicationKernel(text) ? OpClass::kCommunication : OpClass::kCompute);
  }
  for (size_t i = first_op_; i < timeline.ops.size(); ++i) {
    GpuOp& op = timeline.ops[i];
    if (op.kind == OpKind::kKernel) {
      const auto& [name, op_class] = names[static_cast<size_t>(op.name)];
      op.name = name;
      op.op_class = op_class;
    }
  }
  for (size_t i = first_untimed_; i < timeline.untimed.size(); ++i) {
    UntimedOp& op = timeline.untimed[i];
    if (op.kind == OpKind::kKernel) op.name = names[static_cast<size_t>(op.name)].first;
  }

  constexpr int64_t kRuntime = 0, kDriver = 1;  // ENUM_NSYS_EVENT_CLASS
  std::map<std::pair<std::string, bool>, int32_t> symbols;
  std::vector<int32_t> symbol_ids;
  for (const auto& [id, event_class] : symbol_string_ids_) {
    const std::string name = WithoutVersion(text_of(id, "call"));
    const bool driver =
        event_class == kDriver || (event_class != kRuntime && absl::StartsWith(name, "cu") &&
                                   !absl::StartsWith(name, "cuda"));
    const auto [at, added] =
        symbols.try_emplace({name, driver}, static_cast<int32_t>(timeline.symbols.size()));
    if (added) timeline.symbols.push_back({name, CallClassOfName(name), driver});
    symbol_ids.push_back(at->second);
  }
  for (size_t i = first_call_; i < timeline.calls.size(); ++i) {
    HostCall& call = timeline.calls[i];
    call.symbol = symbol_ids[static_cast<size_t>(call.symbol)];
    Process& process = timeline.processes[static_cast<size_t>(call.process)];
    const bool driver = timeline.symbols[static_cast<size_t>(call.symbol)].driver;
    (driver ? process.has_driver_api : process.has_runtime_api) = true;
  }
  for (const auto& [thread, id] : thread_string_ids_) {
    timeline.threads[static_cast<size_t>(thread)].name = texts[id];
  }
  for (UnnamedMarker& marker : unnamed_markers_) {
    AddMarker(marker.range, marker.domain, texts[marker.string]);
  }
  unnamed_markers_.clear();
  NameMarkerDomains();
}

int32_t NsysLoader::ProcessOf(int64_t global_id) {
  const int64_t key = ProcessKey(global_id);
  if (last_process_.second >= 0 && last_process_.first == key) return last_process_.second;
  const auto [at, added] =
      processes_.try_emplace(key, static_cast<int32_t>(run_->timeline.processes.size()));
  last_process_ = {key, at->second};
  if (!added) return at->second;
  Process process = {};
  process.pid = PidOf(key);
  process.host = host_;
  process.rank = -1;
  process.files.push_back(input_);
  process.ended = true;
  process.source = SourceKind::kNsys;
  if (const auto name = process_names_.find(key); name != process_names_.end()) {
    process.executable = name->second;
  }
  run_->timeline.processes.push_back(std::move(process));
  run_->captures.push_back({});
  process_keys_.push_back(key);
  ranges_.push_back({});
  return at->second;
}

int32_t NsysLoader::ProcessWithoutId(std::optional<int64_t> correlation) {
  if (process_keys_.size() == 1) return static_cast<int32_t>(first_process_);
  if (process_keys_.empty() && process_names_.size() == 1) {
    return ProcessOf(process_names_.begin()->first);
  }
  if (correlation.has_value() && *correlation > 0 && *correlation <= int64_t{UINT32_MAX}) {
    if (process_of_correlation_.empty()) {
      for (size_t i = first_call_; i < run_->timeline.calls.size(); ++i) {
        const HostCall& call = run_->timeline.calls[i];
        const auto [at, added] =
            process_of_correlation_.try_emplace(call.correlation, call.process);
        if (!added && at->second != call.process) at->second = -1;  // ids repeat between processes
      }
    }
    const auto at = process_of_correlation_.find(static_cast<uint32_t>(*correlation));
    if (at != process_of_correlation_.end() && at->second >= 0) return at->second;
  }
  return ProcessOf(0);
}

int32_t NsysLoader::ProcessOfRow(std::optional<int64_t> global_id,
                                 std::optional<int64_t> correlation) {
  return global_id.has_value() ? ProcessOf(*global_id) : ProcessWithoutId(correlation);
}

int32_t NsysLoader::ThreadOf(int64_t global_id) {
  if (last_thread_.second >= 0 && last_thread_.first == global_id) return last_thread_.second;
  const auto [at, added] =
      threads_.try_emplace(global_id, static_cast<int32_t>(run_->timeline.threads.size()));
  last_thread_ = {global_id, at->second};
  if (added) {
    const int32_t process = ProcessOf(global_id);
    const auto tid = static_cast<uint32_t>(global_id & kThreadMask);
    const uint32_t pid = run_->timeline.processes[static_cast<size_t>(process)].pid;
    run_->timeline.threads.push_back({process, tid, "", tid == pid});
  }
  return at->second;
}

int32_t NsysLoader::DeviceOf(int32_t process, const Place& place) {
  constexpr int64_t kMostOrdinals = 4096;  // beyond: CUPTI's "on the host" (INT_MAX) or damage
  std::optional<int64_t> ordinal = place.device;
  if (!ordinal.has_value() || *ordinal < 0 || *ordinal >= kMostOrdinals) {
    if (place.context.has_value()) {
      const int32_t device = DeviceOfContext(process, *place.context);
      if (device >= 0) return device;
    }
    ordinal = 0;
  }
  const auto [at, added] = device_of_ordinal_.try_emplace({process, *ordinal}, -1);
  if (added) {
    const int64_t key = KeyOf(process);
    const auto gpu = gpu_of_ordinal_.find({PidOf(key), *ordinal});
    const DeviceKey device = {key >> 48, gpu != gpu_of_ordinal_.end() ? gpu->second : *ordinal};
    at->second = devices_.try_emplace(device, static_cast<int32_t>(devices_.size())).first->second;
    ordinals_.try_emplace(device, *ordinal);
  }
  return at->second;
}

int32_t NsysLoader::DeviceOfContext(int32_t process, int64_t context) {
  const auto used = device_of_context_.find({process, context});
  if (used != device_of_context_.end()) return used->second;
  const int64_t key = KeyOf(process);
  const auto told = contexts_.find({PidOf(key), context});
  if (told == contexts_.end() || !told->second.device.has_value()) return -1;
  return DeviceOf(process, {told->second.device, std::nullopt, {}, {}, {}});
}

int32_t NsysLoader::StreamOf(const StreamKey& key) {
  const auto [at, added] =
      streams_.try_emplace(key, static_cast<int32_t>(run_->timeline.streams.size()));
  if (added) {
    const int64_t process = KeyOf(key.process);
    const auto context = contexts_.find({PidOf(process), key.context});
    const bool is_null = context != contexts_.end() && context->second.null_stream == key.stream;
    run_->timeline.streams.push_back({key.process, key.device, static_cast<uint32_t>(key.context),
                                      static_cast<uint32_t>(key.stream), is_null});
  }
  return at->second;
}

NsysLoader::Lane NsysLoader::LaneOf(const Place& place) {
  const int32_t process = ProcessOfRow(place.global_pid, place.correlation);
  const int32_t device = DeviceOf(process, place);
  if (place.context.has_value()) {
    device_of_context_.try_emplace({process, *place.context}, device);
  }
  if (!place.stream.has_value()) return {process, device, -1};
  return {process, device, StreamOf({process, device, place.context.value_or(0), *place.stream})};
}

// Devices in the machine's order, whichever was used first; one that another file has, by its UUID,
// is the same.
void NsysLoader::PlaceDevices() {
  Timeline& timeline = run_->timeline;
  std::vector<int32_t> placed(devices_.size());
  for (const auto& [key, number] : devices_) {
    auto gpu = gpus_.find(key);
    if (gpu == gpus_.end()) gpu = gpus_.find({0, key.gpu});
    Device device = {};
    device.ordinal = static_cast<int32_t>(ordinals_[key]);
    if (gpu != gpus_.end()) {
      device.uuid = gpu->second.uuid;
      device.name = gpu->second.name;
      device.memory_bytes = gpu->second.memory_bytes;
      device.sm_count = gpu->second.sm_count;
    }
    const auto known = std::find_if(
        timeline.devices.begin(), timeline.devices.end(),
        [&](const Device& d) { return !device.uuid.empty() && d.uuid == device.uuid; });
    placed[static_cast<size_t>(number)] = static_cast<int32_t>(known - timeline.devices.begin());
    if (known == timeline.devices.end()) timeline.devices.push_back(device);
  }
  const auto place_of = [&placed](int32_t device) {
    return device < 0 ? device : placed[static_cast<size_t>(device)];
  };
  for (size_t i = first_op_; i < timeline.ops.size(); ++i) {
    timeline.ops[i].device = place_of(timeline.ops[i].device);
  }
  const auto place = [&place_of](int32_t* device) { *device = place_of(*device); };
  for (size_t i = first_untimed_; i < timeline.untimed.size(); ++i)
    place(&timeline.untimed[i].device);
  for (size_t i = first_sync_; i < timeline.syncs.size(); ++i) place(&timeline.syncs[i].device);
  for (size_t i = first_stream_; i < timeline.streams.size(); ++i)
    place(&timeline.streams[i].device);
}

std::string NsysLoader::Recorder() const {
  const auto value = [this](const char* name) {
    const auto at = meta_.find(name);
    return at == meta_.end() ? std::string() : at->second;
  };
  std::string out = "Nsight Systems";
  if (const std::string version = value("EXPORT_PRODUCT_VERSION"); !version.empty()) {
    absl::StrAppend(&out, " ", version);
  }
  const std::string schema = value("EXPORT_SCHEMA_VERSION");
  return absl::StrCat(out, schema.empty() ? ", schema not named" : ", schema " + schema);
}

void NsysLoader::DescribeCapture() {
  Timeline& timeline = run_->timeline;
  InputFile& input = timeline.inputs[static_cast<size_t>(input_)];
  if (!database_.unread_beside().empty()) {
    problems_.push_back(absl::StrCat(database_.unread_beside(),
                                     " lies beside it: what it holds is not read (open the "
                                     "database once with sqlite3, or export it again)"));
    run_->damage.push_back({input_, "missing", 0, 0, 0, 0, 0, problems_.back()});
  }
  for (const std::string& absent : absent_) {
    if (absl::StartsWith(absent, "kernels (") || absl::StartsWith(absent, "host calls (")) {
      run_->notices.push_back(absl::StrCat(input.path, ": no ", absent));
    }
  }
  input.problem = absl::StrJoin(problems_, "; ");
  input.complete = problems_.empty();
  for (size_t i = 0; i < process_keys_.size(); ++i) {
    Process& process = timeline.processes[first_process_ + i];
    const Range& range = ranges_[i];
    if (range.begin_ns <= range.end_ns) {
      process.capture_begin_ns = range.begin_ns;
      process.capture_end_ns = range.end_ns;
    }
    ProcessCapture& capture = run_->captures[first_process_ + i];
    capture.recorder = Recorder();
    capture.absent = absent_;
    capture.warnings = warnings_;
    capture.end_reason = "exported";
    absl::SimpleAtoi(meta_["CudaDriverVersion"], &capture.driver_version);
    capture.graph_node_level =
        absl::EqualsIgnoreCase(meta_["CUDA_GRAPH_TRACE_OPTIONS:MODE"], "Node");
    // Sessions of one host share its wall clock; each counts from its own start.
    capture.boot_id = absl::StrCat("nsys ", host_.empty() || !session_utc_ns_ ? input.path : host_);
    if (session_utc_ns_.has_value()) {
      capture.clock.pairs = 1;
      capture.clock.trace_minus_monotonic_ns = -std::max<int64_t>(0, *session_utc_ns_);
    }
    if (!hidden_.empty() && range.begin_ns < range.end_ns) {
      timeline.blinds.push_back({range.begin_ns, range.end_ns,
                                 static_cast<int32_t>(first_process_ + i), Blind::Why::kDamage,
                                 absl::StrCat(input.path, ": ", hidden_)});
    }
  }
}

}  // namespace gpuprobe::tools

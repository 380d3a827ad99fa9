// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The half of NsysLoader that turns rows into records.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/import/nsys/nsys_loader.h"

namespace gpuprobe::tools {
namespace {

// No time of a trace lies outside; differences of what does would overflow.
constexpr int64_t kLatestNs = int64_t{1} << 62;
constexpr uint8_t kTimingMissing = 1, kTimingInvalid = 3;  // UntimedOp::timing
constexpr uint32_t kNoEvent = 0xffffffffu;

// 0 for what is absent or does not fit.
uint32_t Small(std::optional<int64_t> value) {
  return value.has_value() && *value >= 0 && *value <= int64_t{UINT32_MAX}
             ? static_cast<uint32_t>(*value)
             : 0;
}

// CUPTI numbers memory kinds from 0 (unknown), 1 (pageable); Nsight Systems from 0 (pageable) to 7
// (unknown).
uint8_t MemoryKind(std::optional<int64_t> value) {
  return value.has_value() && *value >= 0 && *value < 7 ? static_cast<uint8_t>(*value + 1) : 0;
}

struct OverheadWords {
  uint32_t kind;  // CUpti_ActivityOverheadKind
  bool profiler;
};
// By ENUM_CUPTI_OVERHEAD_TYPE: undefined (work of Nsight Systems itself), unknown, compiler, buffer
// flush, instrumentation, resource, module loading, lazy function loading, command buffer full.
constexpr OverheadWords kOverheads[] = {{0, true},         {0, true},         {1, false},
                                        {1u << 16, true},  {2u << 16, true},  {3u << 16, true},
                                        {4u << 16, false}, {5u << 16, false}, {6u << 16, false}};

// What CUPTI calls the wait that a call of this name makes; 0: none.
int SyncTypeOfCall(std::string_view name) {
  const auto has = [name](const char* part) { return name.find(part) != std::string_view::npos; };
  if (has("EventSynchronize") || has("EventQuery")) return 1;
  if (has("StreamWaitEvent")) return 2;
  if (has("StreamSynchronize") || has("StreamQuery")) return 3;
  return has("Synchronize") ? 4 : 0;
}

uint64_t CallKey(int32_t process, uint32_t correlation) {
  return uint64_t{static_cast<uint32_t>(process)} << 32 | correlation;
}

template <typename T>
bool ByStart(const T& a, const T& b) {
  return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
}

template <typename Iterator>
void SortByStart(Iterator begin, Iterator end) {
  constexpr auto less = ByStart<typename std::iterator_traits<Iterator>::value_type>;
  if (!std::is_sorted(begin, end, less)) std::stable_sort(begin, end, less);
}

}  // namespace

std::unique_ptr<NsysDatabase::Rows> NsysLoader::Open(const char* table, const char* what,
                                                     std::span<const char* const> columns,
                                                     size_t required) {
  bad_rows_ = 0;
  const NsysDatabase::Table* found = database_.Find(table);
  if (found == nullptr) {
    absent_.push_back(absl::StrCat(what, " (no table ", table, ")"));
    return nullptr;
  }
  if (found->code) {
    absent_.push_back(absl::StrCat(what, " (", found->name, " is a virtual table)"));
    problems_.push_back(
        absl::StrCat(found->name, ": a virtual table, whose content is made by code; not read"));
    run_->damage.push_back({input_, "virtual_table", 0, 0, 0, 0, 0, problems_.back()});
    return nullptr;
  }
  std::string missing;
  bool readable = true;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (found->HasColumn(columns[i])) continue;
    readable &= i >= required;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", columns[i]);
  }
  if (!missing.empty()) {
    absent_.push_back(readable ? absl::StrCat(found->name, " without ", missing)
                               : absl::StrCat(what, " (", found->name, " without ", missing, ")"));
  }
  return readable ? database_.Scan(*found, columns) : nullptr;
}

void NsysLoader::Close(const char* table, const NsysDatabase::Rows& rows, bool hides) {
  run_->timeline.inputs[static_cast<size_t>(input_)].records += rows.count();
  const auto problem = [&](const char* kind, const std::string& text) {
    problems_.push_back(absl::StrCat(table, ": ", text));
    run_->damage.push_back({input_, kind, 0, 0, 0, 0, 0, problems_.back()});
    if (hides && hidden_.empty()) hidden_ = problems_.back();
  };
  if (!rows.error().empty()) {
    problem("corrupt",
            absl::StrCat(rows.error(), "; ", FormatPlural(rows.count(), "row"), " could be read"));
  }
  hides = false;  // single rows that cannot be used are counted one by one
  if (bad_rows_ > 0) {
    problem("bad_rows", absl::StrCat(FormatPlural(bad_rows_, "row"), " with unusable times"));
  }
  if (rows.wrong_types() > 0) {
    problem("bad_rows", absl::StrCat(FormatPlural(rows.wrong_types(), "value"),
                                     " of a wrong type, read as absent"));
  }
}

bool NsysLoader::Believable(int64_t start_ns, int64_t end_ns) {
  if (start_ns < 0 || end_ns > kLatestNs || start_ns > end_ns) return false;
  // 146 years of durations in all: no sum over records can overflow.
  if (end_ns - start_ns > duration_budget_ns_) return false;
  duration_budget_ns_ -= end_ns - start_ns;
  return true;
}

bool NsysLoader::ReadTimes(NsysDatabase::Rows& rows, int64_t* start_ns, int64_t* end_ns) {
  const std::optional<int64_t> start = rows.Integer(0), end = rows.Integer(1);
  *start_ns = start.value_or(0);
  *end_ns = end.value_or(0);
  const bool usable = start.has_value() && end.has_value() && Believable(*start, *end);
  if (!usable) ++bad_rows_;
  return usable;
}

void NsysLoader::Extend(int32_t process, int64_t start_ns, int64_t end_ns) {
  Range& range = ranges_[static_cast<size_t>(process) - first_process_];
  range.begin_ns = std::min(range.begin_ns, start_ns);
  range.end_ns = std::max(range.end_ns, end_ns);
}

void NsysLoader::ReadCalls() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_RUNTIME";
  constexpr const char* kColumns[] = {"start",         "end",         "nameId",    "globalTid",
                                      "correlationId", "returnValue", "eventClass"};
  const auto rows = Open(kTable, "host calls", kColumns, 3);
  if (rows == nullptr) return;
  while (rows->Next()) {
    HostCall call = {};
    if (!ReadTimes(*rows, &call.start_ns, &call.end_ns)) continue;
    const std::optional<int64_t> global_tid = rows->Integer(3);
    call.thread = ThreadOf(global_tid.has_value() ? *global_tid : KeyOf(ProcessWithoutId({})));
    call.process = run_->timeline.threads[static_cast<size_t>(call.thread)].process;
    call.correlation = Small(rows->Integer(4));
    call.result = static_cast<int32_t>(Small(rows->Integer(5)));
    const std::pair name(rows->Integer(2).value_or(-1), rows->Integer(6).value_or(-1));
    const auto [at, added] =
        symbol_strings_.try_emplace(name, static_cast<int32_t>(symbol_string_ids_.size()));
    if (added) symbol_string_ids_.push_back(name);
    call.symbol = at->second;
    run_->timeline.calls.push_back(call);
    Extend(call.process, call.start_ns, call.end_ns);
  }
  Close(kTable, *rows, true);
}

NsysLoader::Place NsysLoader::PlaceOf(NsysDatabase::Rows& rows, int first) const {
  return {rows.Integer(first), rows.Integer(first + 1), rows.Integer(first + 2),
          rows.Integer(first + 3), rows.Integer(first + 4)};
}

void NsysLoader::AddOp(NsysDatabase::Rows& rows, GpuOp op) {
  const Place place = PlaceOf(rows, 2);
  const Lane lane = LaneOf(place);
  op.process = lane.process;
  op.device = lane.device;
  op.stream = lane.stream;
  op.correlation = Small(place.correlation);
  const bool usable = ReadTimes(rows, &op.start_ns, &op.end_ns);
  // CUPTI's way to say that it has no times.
  const bool missing = usable && op.start_ns == 0 && op.end_ns == 0;
  if (usable && !missing) {
    run_->timeline.ops.push_back(op);
    Extend(op.process, op.start_ns, op.end_ns);
    return;
  }
  run_->timeline.untimed.push_back({op.kind, missing ? kTimingMissing : kTimingInvalid, op.device,
                                    op.stream, op.process, op.name, op.correlation, 0});
}

int32_t NsysLoader::ShapeOf(const ShapeKey& key) {
  const auto [at, added] =
      shapes_.try_emplace(key, static_cast<int32_t>(run_->timeline.shapes.size()));
  if (added) {
    run_->timeline.shapes.push_back({{key[0], key[1], key[2]},
                                     {key[3], key[4], key[5]},
                                     {key[6], key[7], key[8]},
                                     key[9],
                                     key[10],
                                     key[11],
                                     key[12]});
  }
  return at->second;
}

void NsysLoader::ReadKernels() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_KERNEL";
  constexpr const char* kColumns[] = {"start",
                                      "end",
                                      "deviceId",
                                      "contextId",
                                      "streamId",
                                      "correlationId",
                                      "globalPid",
                                      "graphNodeId",
                                      "graphId",
                                      "demangledName",
                                      "shortName",
                                      "mangledName",
                                      "gridX",
                                      "gridY",
                                      "gridZ",
                                      "blockX",
                                      "blockY",
                                      "blockZ",
                                      "clusterX",
                                      "clusterY",
                                      "clusterZ",
                                      "staticSharedMemory",
                                      "dynamicSharedMemory",
                                      "registersPerThread",
                                      "localMemoryPerThread"};
  constexpr int kNode = 7, kGraph = 8, kNames = 9, kNameEnd = 12;
  const auto rows = Open(kTable, "kernels", kColumns, 2);
  if (rows == nullptr) return;
  op_pieces_.push_back(run_->timeline.ops.size());
  while (rows->Next()) {
    GpuOp op = {};
    op.kind = OpKind::kKernel;
    op.op_class = OpClass::kCompute;
    op.graph_node_id = static_cast<uint64_t>(rows->Integer(kNode).value_or(0));
    op.graph_id = Small(rows->Integer(kGraph));
    std::optional<int64_t> name;
    for (int column = kNames; column < kNameEnd && !name.has_value(); ++column) {
      name = rows->Integer(column);
    }
    const auto [at, added] = kernel_strings_.try_emplace(
        name.value_or(-1), static_cast<int32_t>(kernel_string_ids_.size()));
    if (added) kernel_string_ids_.push_back(name.value_or(-1));
    op.name = at->second;
    ShapeKey shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      shape[i] = Small(rows->Integer(kNameEnd + static_cast<int>(i)));
    }
    op.shape = ShapeOf(shape);
    AddOp(*rows, op);
  }
  Close(kTable, *rows, true);
}

void NsysLoader::ReadCopies() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_MEMCPY";
  constexpr const char* kColumns[] = {
      "start",       "end",   "deviceId", "contextId", "streamId", "correlationId", "globalPid",
      "graphNodeId", "bytes", "copyKind", "srcKind",   "dstKind",  "srcDeviceId",   "dstDeviceId"};
  constexpr int kNode = 7, kBytes = 8, kKind = 9, kSource = 10, kDestination = 11,
                kSourceDevice = 12, kDestinationDevice = 13, kPeerToPeer = 10;
  const auto rows = Open(kTable, "copies", kColumns, 2);
  if (rows == nullptr) return;
  op_pieces_.push_back(run_->timeline.ops.size());
  while (rows->Next()) {
    GpuOp op = {};
    op.kind = OpKind::kCopy;
    op.op_class = OpClass::kCopy;
    op.name = -1;
    op.bytes = static_cast<uint64_t>(std::max<int64_t>(0, rows->Integer(kBytes).value_or(0)));
    op.graph_node_id = static_cast<uint64_t>(rows->Integer(kNode).value_or(0));
    const auto kind = static_cast<uint8_t>(std::min(Small(rows->Integer(kKind)), 255u));
    const uint8_t source = MemoryKind(rows->Integer(kSource));
    const uint8_t destination = MemoryKind(rows->Integer(kDestination));
    const std::optional<int64_t> from = rows->Integer(kSourceDevice);
    const std::optional<int64_t> to = rows->Integer(kDestinationDevice);
    const bool peer = kind == kPeerToPeer || (from.has_value() && to.has_value() && *from != *to);
    const auto [at, added] = copy_shapes_.try_emplace(
        {kind, source, destination, peer}, static_cast<int32_t>(run_->timeline.copy_shapes.size()));
    if (added) run_->timeline.copy_shapes.push_back({kind, source, destination, 0, peer});
    op.shape = at->second;
    AddOp(*rows, op);
  }
  Close(kTable, *rows, true);
}

void NsysLoader::ReadSets() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_MEMSET";
  constexpr const char* kColumns[] = {"start",     "end",         "deviceId",
                                      "contextId", "streamId",    "correlationId",
                                      "globalPid", "graphNodeId", "bytes"};
  const auto rows = Open(kTable, "memory sets", kColumns, 2);
  if (rows == nullptr) return;
  op_pieces_.push_back(run_->timeline.ops.size());
  while (rows->Next()) {
    GpuOp op = {};
    op.kind = OpKind::kSet;
    op.op_class = OpClass::kCopy;
    op.name = op.shape = -1;
    op.graph_node_id = static_cast<uint64_t>(rows->Integer(7).value_or(0));
    op.bytes = static_cast<uint64_t>(std::max<int64_t>(0, rows->Integer(8).value_or(0)));
    AddOp(*rows, op);
  }
  Close(kTable, *rows, true);
}

void NsysLoader::ReadGraphs() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
  constexpr const char* kColumns[] = {"start",     "end",      "deviceId",
                                      "contextId", "streamId", "correlationId",
                                      "globalPid", "graphId",  "graphExecId"};
  const auto rows = Open(kTable, "graphs as a whole", kColumns, 2);
  if (rows == nullptr) return;
  op_pieces_.push_back(run_->timeline.ops.size());
  while (rows->Next()) {
    GpuOp op = {};
    op.kind = OpKind::kGraph;
    op.op_class = OpClass::kCompute;
    op.name = op.shape = -1;
    op.graph_id = Small(rows->Integer(7));
    if (op.graph_id == 0) op.graph_id = Small(rows->Integer(8));
    AddOp(*rows, op);
  }
  Close(kTable, *rows, true);
}

void NsysLoader::ReadSyncs() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
  // deviceId is 0 whatever the device (2026.2): process and context say which one it was.
  constexpr const char* kColumns[] = {
      "start",     "end",     "contextId",   "streamId", "correlationId",
      "globalPid", "eventId", "eventSyncId", "syncType", "deprecatedSyncType"};
  const auto rows = Open(kTable, "synchronisation", kColumns, 2);
  if (rows == nullptr) return;
  while (rows->Next()) {
    SyncOp sync = {};
    if (!ReadTimes(*rows, &sync.start_ns, &sync.end_ns)) continue;
    sync.correlation = Small(rows->Integer(4));
    sync.process = ProcessOfRow(rows->Integer(5), rows->Integer(4));
    const std::optional<int64_t> context = rows->Integer(2), stream = rows->Integer(3);
    sync.device = context.has_value() ? DeviceOfContext(sync.process, *context) : -1;
    sync.stream = sync.device >= 0 && stream.has_value()
                      ? StreamOf({sync.process, sync.device, *context, *stream})
                      : -1;
    sync.event = rows->Integer(6).has_value() ? Small(rows->Integer(6)) : kNoEvent;
    sync.event_sync_id = Small(rows->Integer(7));
    std::optional<int64_t> type = rows->Integer(8);
    if (!type.has_value()) type = rows->Integer(9);
    sync.type = static_cast<uint8_t>(std::min(Small(type), 255u));
    run_->timeline.syncs.push_back(sync);
    run_->timeline.processes[static_cast<size_t>(sync.process)].has_sync_records = true;
    Extend(sync.process, sync.start_ns, sync.end_ns);
  }
  Close(kTable, *rows, false);
}

void NsysLoader::ReadEvents() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
  constexpr const char* kColumns[] = {"eventId",       "contextId", "streamId",
                                      "correlationId", "globalPid", "eventSyncId"};
  const auto rows = Open(kTable, "event records", kColumns, 3);
  if (rows == nullptr) return;
  while (rows->Next()) {
    const int32_t process = ProcessOfRow(rows->Integer(4), rows->Integer(3));
    const std::optional<int64_t> context = rows->Integer(1), stream = rows->Integer(2);
    const int32_t device = context.has_value() ? DeviceOfContext(process, *context) : -1;
    const int32_t id =
        device >= 0 && stream.has_value() ? StreamOf({process, device, *context, *stream}) : -1;
    run_->timeline.events.push_back(
        {process, id, Small(rows->Integer(0)), Small(rows->Integer(3)), Small(rows->Integer(5))});
  }
  if (rows->count() == 0) {
    absent_.push_back(absl::StrCat("event records (", kTable,
                                   " is empty): what a stream waited for is not known"));
  }
  Close(kTable, *rows, false);
}

void NsysLoader::ReadOverheads(const char* table, bool profiler_table) {
  constexpr const char* kColumns[] = {"start", "end", "globalTid", "overheadType"};
  const auto rows =
      Open(table, profiler_table ? "the profiler's cost" : "module loading", kColumns, 2);
  if (rows == nullptr) return;
  while (rows->Next()) {
    OverheadOp overhead = {};
    if (!ReadTimes(*rows, &overhead.start_ns, &overhead.end_ns)) continue;
    const std::optional<int64_t> global_tid = rows->Integer(2);
    overhead.thread = -1;
    if (global_tid.has_value() && (*global_tid & kThreadMask) != 0) {
      overhead.thread = ThreadOf(*global_tid);
    }
    overhead.process = ProcessOfRow(global_tid, std::nullopt);
    const uint32_t type = Small(rows->Integer(3));
    overhead.profiler = profiler_table;
    if (type < std::size(kOverheads)) {
      overhead.kind = kOverheads[type].kind;
      // CUPTI's "unknown" is the profiler's where Nsight Systems says so.
      overhead.profiler = kOverheads[type].profiler && (profiler_table || type > 1);
    }
    run_->timeline.overheads.push_back(overhead);
    Extend(overhead.process, overhead.start_ns, overhead.end_ns);
  }
  Close(table, *rows, false);
}

// Ranges of the processes that have CUDA records; after those. Marks, categories and unfinished
// ranges say nothing about steps.
void NsysLoader::ReadMarkers() {
  constexpr int64_t kPushPop = 59, kStartEnd = 60, kDomain = 75;  // ENUM_NSYS_EVENT_TYPE
  constexpr const char* kTable = "NVTX_EVENTS";
  constexpr const char* kColumns[] = {"start", "end",    "eventType", "globalTid",
                                      "text",  "textId", "domainId"};
  const NsysDatabase::Table* table = database_.Find(kTable);
  // Most captures are without NVTX: nothing is missing then.
  if (table == nullptr || !table->HasColumn("start") || !table->HasColumn("eventType")) return;
  bad_rows_ = 0;
  const auto rows = database_.Scan(*table, kColumns);
  while (rows->Next()) {
    const std::optional<int64_t> type = rows->Integer(2), thread = rows->Integer(3);
    const std::optional<int64_t> string = rows->Integer(5);
    const int64_t domain = rows->Integer(6).value_or(0);
    if (type == kDomain) marker_domains_[absl::StrCat(domain)] = rows->Text(4);
    if ((type != kPushPop && type != kStartEnd) || !thread.has_value()) continue;
    if (!rows->Integer(1).has_value() || !processes_.contains(ProcessKey(*thread))) continue;
    MarkerRange range = {};
    if (!ReadTimes(*rows, &range.begin_ns, &range.end_ns)) continue;
    range.process = ProcessOf(*thread);
    range.thread = ThreadOf(*thread);
    range.device = -1;
    const std::string_view text = rows->Text(4);
    if (text.empty() && string.has_value()) {
      unnamed_markers_.push_back({range, domain, *string});
    } else {
      AddMarker(range, domain, text);
    }
  }
  Close(kTable, *rows, false);
}

void NsysLoader::AddMarker(MarkerRange range, int64_t domain, std::string_view name) {
  if (name.empty() || !MayMarkSteps(name)) return;
  const auto named = marker_namer_.Intern(MarkerKind::kNvtx, absl::StrCat(domain), name);
  range.name = named.name;
  range.numbers = named.numbers;
  run_->timeline.markers.push_back(range);
}

// Rows are in no order: the one that names a domain may come after its ranges.
void NsysLoader::NameMarkerDomains() {
  std::vector<MarkerName>& names = run_->timeline.marker_names;
  for (size_t i = first_marker_name_; i < names.size(); ++i) {
    const auto known = marker_domains_.find(names[i].domain);
    names[i].domain = known == marker_domains_.end() ? "" : ToValidUtf8(known->second);
  }
}

// Some versions (2026.1) store each type one too low, and name it by the table of the right
// numbers. The calls that made the waits tell.
void NsysLoader::FixSyncTypes() {
  const Timeline& timeline = run_->timeline;
  const std::span<SyncOp> syncs = std::span(run_->timeline.syncs).subspan(first_sync_);
  absl::flat_hash_map<uint64_t, int> type_of_call;
  for (const SyncOp& sync : syncs) {
    if (sync.correlation != 0) type_of_call[CallKey(sync.process, sync.correlation)] = 0;
  }
  if (type_of_call.empty()) return;
  std::vector<int> type_of_symbol;
  for (const ApiSymbol& symbol : timeline.symbols) {
    type_of_symbol.push_back(SyncTypeOfCall(symbol.name));
  }
  for (size_t i = first_call_; i < timeline.calls.size(); ++i) {
    const HostCall& call = timeline.calls[i];
    const int type = type_of_symbol[static_cast<size_t>(call.symbol)];
    if (type == 0) continue;
    const auto at = type_of_call.find(CallKey(call.process, call.correlation));
    if (at != type_of_call.end()) at->second = type;
  }
  uint64_t as_stored = 0, one_low = 0;
  for (const SyncOp& sync : syncs) {
    const auto at = type_of_call.find(CallKey(sync.process, sync.correlation));
    if (at == type_of_call.end() || at->second == 0) continue;
    as_stored += at->second == sync.type;
    one_low += at->second == sync.type + 1;
  }
  if (one_low <= as_stored) return;
  for (SyncOp& sync : syncs) sync.type = static_cast<uint8_t>(std::min(sync.type + 1, 255));
  warnings_.push_back(
      "types of synchronisation rows are one too low in this file (their calls show it): "
      "corrected");
}

void NsysLoader::SortRecords() {
  Timeline& timeline = run_->timeline;
  const auto at = [&](size_t i) { return timeline.ops.begin() + static_cast<ptrdiff_t>(i); };
  op_pieces_.push_back(timeline.ops.size());
  for (size_t i = 0; i + 1 < op_pieces_.size(); ++i) {
    SortByStart(at(op_pieces_[i]), at(op_pieces_[i + 1]));
    if (i > 0) {
      std::inplace_merge(at(op_pieces_[0]), at(op_pieces_[i]), at(op_pieces_[i + 1]),
                         ByStart<GpuOp>);
    }
  }
  SortByStart(timeline.calls.begin() + static_cast<ptrdiff_t>(first_call_), timeline.calls.end());
}

}  // namespace gpuprobe::tools

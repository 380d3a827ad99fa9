// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/file_loader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/analysis/analysis.h"
#include "tools/format/format_units.h"
#include "tools/load/damage_words.h"
#include "tools/load/frame_prefetcher.h"
#include "tools/load/loss_causes.h"

namespace gpuprobe::tools {
namespace {

// Decoded records that wait for the end of their frame: more than a real frame has, and some 50
// bytes each.
constexpr size_t kMostPendingRecords = size_t{1} << 21;
constexpr uint32_t kInvalidId = 0xffffffffu;  // CUPTI: no such stream or event

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi prints it; empty if it is not 16 bytes.
std::string UuidText(const std::string& bytes) {
  if (bytes.size() != 16 || bytes == std::string(16, '\0')) return "";
  const std::string hex = absl::BytesToHexString(bytes);
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
}

// Id of the frame's dictionary -> id of the Timeline; -1 for what the frame does not define.
int32_t Lookup(const std::vector<int32_t>& ids, uint32_t id) {
  return id < ids.size() ? ids[id] : -1;
}

// Is it asked for in the second of two passes? Ranges of markers are not: steps alone use them.
bool IsOfRecords(const Packet& packet) {
  switch (packet.data_case()) {
    case Packet::kDictionary:
    case Packet::kKernels:
    case Packet::kApi:
    case Packet::kCopies:
    case Packet::kSets:
    case Packet::kSyncs:
    case Packet::kGraphs:
    case Packet::kOverheads:
    case Packet::kCudaEvents:
      return true;
    default:
      return false;
  }
}

}  // namespace

int32_t FileLoader::InternName(const std::string& name) {
  const auto [at, added] =
      names_.try_emplace(name, static_cast<int32_t>(run_->timeline.names.size()));
  if (added) {
    run_->timeline.names.push_back(name);
    communicates_.push_back(IsCommunicationKernel(name));
  }
  return at->second;
}

int32_t FileLoader::InternSymbol(const std::string& name, const ::gpuprobe::ApiSymbol& symbol) {
  const bool driver = symbol.domain() == SymbolDomain::DRIVER;
  const auto api_class = static_cast<uint32_t>(symbol.api_class());
  const auto [at, added] = symbols_.try_emplace(
      std::tuple(name, api_class, driver), static_cast<int32_t>(run_->timeline.symbols.size()));
  if (added) {
    // Classes of a newer writer read as "other".
    const bool known = api_class <= static_cast<uint32_t>(CallClass::kHostFunc);
    run_->timeline.symbols.push_back(
        {name, known ? static_cast<CallClass>(api_class) : CallClass::kOther, driver});
  }
  return at->second;
}

int32_t FileLoader::DeviceOf(uint32_t ordinal, FileState* file) {
  const auto at = file->devices.find(ordinal);
  if (at != file->devices.end()) return at->second;
  // A batch on a device that no dictionary describes: a device of this process alone.
  Device device = {};
  device.ordinal = static_cast<int32_t>(ordinal);
  run_->timeline.devices.push_back(device);
  return file->devices[ordinal] = Last(run_->timeline.devices);
}

void FileLoader::DescribeDevice(const DeviceInfo& info, FileState* file) {
  const std::string uuid = UuidText(info.uuid());
  const Device described = {uuid, info.name(), static_cast<int32_t>(info.device()),
                            info.memory_bytes(), info.sm_count()};
  const auto known = uuid.empty() ? device_by_uuid_.end() : device_by_uuid_.find(uuid);
  const auto placed = file->devices.find(info.device());
  if (placed == file->devices.end()) {
    if (known == device_by_uuid_.end()) {
      run_->timeline.devices.push_back(described);
      if (!uuid.empty()) device_by_uuid_[uuid] = Last(run_->timeline.devices);
    }
    file->devices[info.device()] =
        known != device_by_uuid_.end() ? known->second : Last(run_->timeline.devices);
    return;
  }
  // CUPTI tells of a device in one of its buffers, and other threads' work can reach the trace
  // before it: what was a device without a name turns out to be this one.
  const int32_t nameless = placed->second;
  Device& device = run_->timeline.devices[static_cast<size_t>(nameless)];
  if (!device.uuid.empty() || !device.name.empty()) return;
  if (known == device_by_uuid_.end() || known->second == nameless) {
    device = described;
    if (!uuid.empty()) device_by_uuid_[uuid] = nameless;
    return;
  }
  placed->second = known->second;
  same_device_[nameless] = known->second;
  const auto streams = file->streams;
  for (const auto& [key, stream] : streams) {
    const auto& [of_device, context, id] = key;
    if (of_device != nameless) continue;
    file->streams[{known->second, context, id}] = stream;
    run_->timeline.streams[static_cast<size_t>(stream)].device = known->second;
  }
}

// Leaves out the devices that turned out to be others, and renumbers the rest.
void FileLoader::MergeDevices() {
  if (same_device_.empty()) return;
  Timeline& timeline = run_->timeline;
  std::vector<Device> kept;
  std::vector<int32_t> renumbered(timeline.devices.size());
  for (size_t i = 0; i < timeline.devices.size(); ++i) {
    if (same_device_.contains(static_cast<int32_t>(i))) continue;
    renumbered[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(timeline.devices[i]));
  }
  for (const auto& [nameless, known] : same_device_) {
    renumbered[static_cast<size_t>(nameless)] = renumbered[static_cast<size_t>(known)];
  }
  timeline.devices = std::move(kept);
  const auto renumber = [&renumbered](auto* items) {
    for (auto& item : *items) {
      if (item.device >= 0) item.device = renumbered[static_cast<size_t>(item.device)];
    }
  };
  renumber(&timeline.ops);
  renumber(&timeline.untimed);
  renumber(&timeline.syncs);
  renumber(&timeline.streams);
  const auto renumber_one = [&renumbered](int32_t* device) {
    if (*device >= 0) *device = renumbered[static_cast<size_t>(*device)];
  };
  for (OpenedFile& opened : opened_) {
    for (FrameOutline& frame : opened.frames) {
      for (int32_t& device : frame.devices) renumber_one(&device);
    }
    for (auto& [id, file] : opened.states) {
      for (auto& [ordinal, device] : file.devices) renumber_one(&device);
      std::map<std::tuple<int32_t, uint32_t, uint32_t>, int32_t> streams;
      for (const auto& [key, stream] : file.streams) {
        auto [device, context, number] = key;
        renumber_one(&device);
        streams.emplace(std::tuple(device, context, number), stream);
      }
      file.streams = std::move(streams);
    }
  }
  std::set<std::pair<int32_t, int32_t>> process_devices;
  for (auto [process, device] : process_devices_) {
    renumber_one(&device);
    process_devices.insert({process, device});
  }
  process_devices_ = std::move(process_devices);
  std::map<std::pair<int32_t, int32_t>, uint64_t> operations;
  for (const auto& [process_device, count] : operations_) {
    auto [process, device] = process_device;
    renumber_one(&device);
    operations[{process, device}] += count;
  }
  operations_ = std::move(operations);
}

int32_t FileLoader::StreamOf(int32_t device, uint32_t context, uint32_t stream, FileState* file) {
  if (stream == kInvalidId) return -1;
  const auto [at, added] = file->streams.try_emplace(
      {device, context, stream}, static_cast<int32_t>(run_->timeline.streams.size()));
  if (added) {
    const auto null_stream = file->context_null_stream.find(context);
    const bool is_null =
        null_stream != file->context_null_stream.end() && null_stream->second == stream;
    run_->timeline.streams.push_back({file->process, device, context, stream, is_null});
  }
  return at->second;
}

int32_t FileLoader::ThreadOf(uint32_t tid, FileState* file) {
  const auto [at, added] =
      file->threads.try_emplace(tid, static_cast<int32_t>(run_->timeline.threads.size()));
  if (added) {
    const uint32_t pid = run_->timeline.processes[static_cast<size_t>(file->process)].pid;
    run_->timeline.threads.push_back({file->process, tid, "", tid == pid});
  }
  return at->second;
}

void FileLoader::LoadDictionary(const Dictionary& dictionary, FileState* file) {
  FrameIds& ids = file->ids;
  for (const std::string& name : dictionary.names()) ids.names.push_back(InternName(name));
  for (const std::string& name : dictionary.marker_names()) ids.marker_names.push_back(&name);
  for (const auto& s : dictionary.shapes()) {
    const auto [at, added] = shapes_.try_emplace(
        std::array<uint32_t, 13>{s.grid_x(), s.grid_y(), s.grid_z(), s.block_x(), s.block_y(),
                                 s.block_z(), s.cluster_x(), s.cluster_y(), s.cluster_z(),
                                 s.static_shared_bytes(), s.dynamic_shared_bytes(),
                                 s.registers_per_thread(), s.local_bytes_per_thread()},
        static_cast<int32_t>(run_->timeline.shapes.size()));
    if (added) {
      run_->timeline.shapes.push_back({{s.grid_x(), s.grid_y(), s.grid_z()},
                                       {s.block_x(), s.block_y(), s.block_z()},
                                       {s.cluster_x(), s.cluster_y(), s.cluster_z()},
                                       s.static_shared_bytes(),
                                       s.dynamic_shared_bytes(),
                                       s.registers_per_thread(),
                                       s.local_bytes_per_thread()});
    }
    const int32_t name = Lookup(ids.names, s.name() - 1);
    const bool communicates = name >= 0 && communicates_[static_cast<size_t>(name)];
    ids.shapes.push_back(
        {name, at->second, communicates ? OpClass::kCommunication : OpClass::kCompute});
  }
  for (const auto& symbol : dictionary.api_symbols()) {
    const int32_t name = Lookup(ids.names, symbol.name() - 1);
    ids.symbols.push_back(InternSymbol(
        name >= 0 ? run_->timeline.names[static_cast<size_t>(name)]
                  : absl::StrCat(symbol.domain() == SymbolDomain::DRIVER ? "driver" : "runtime",
                                 " call ", symbol.cbid()),
        symbol));
  }
  for (const auto& s : dictionary.copy_shapes()) {
    const auto [at, added] = copy_shapes_.try_emplace(
        std::array<uint32_t, 5>{s.copy_kind(), s.src_kind(), s.dst_kind(), s.flags(), s.peer()},
        static_cast<int32_t>(run_->timeline.copy_shapes.size()));
    if (added) {
      run_->timeline.copy_shapes.push_back(
          {static_cast<uint8_t>(s.copy_kind()), static_cast<uint8_t>(s.src_kind()),
           static_cast<uint8_t>(s.dst_kind()), static_cast<uint8_t>(s.flags()), s.peer()});
    }
    ids.copy_shapes.push_back({-1, at->second, OpClass::kCopy});
  }
  for (const DeviceInfo& info : dictionary.devices()) DescribeDevice(info, file);
  for (const ContextInfo& context : dictionary.contexts()) {
    file->context_device[context.context()] = context.device();
    file->context_null_stream[context.context()] = context.null_stream();
  }
}

void FileLoader::LoadProcess(const ProcessInfo& info, FileState* file) {
  Process& process = run_->timeline.processes[static_cast<size_t>(file->process)];
  process.pid = info.pid();
  process.host = info.host();
  process.executable = info.executable();
  process.command_line = absl::StrJoin(info.command_line(), " ");
  process.rank = info.rank();
  ProcessCapture& capture = run_->captures[static_cast<size_t>(file->process)];
  capture.boot_id = info.boot_id();
  file->process_start_ns = info.start_time_ns();
  capture.parent_pid = info.parent_pid();
  capture.start_ticks = info.start_ticks();
  capture.local_rank = info.local_rank();
  capture.world_size = info.world_size();
}

void FileLoader::LoadLoss(const Loss& loss, const FrameHeader& header, FileState* file) {
  LossItem item = {file->process,   loss.cause(),  loss.count(),
                   loss.begin_ns(), loss.end_ns(), loss.detail()};
  const LossWords& words = WordsForLoss(loss.cause());
  if (words.hides) {
    // A loss without a range lies between the frame before and this one.
    const int64_t begin = item.begin_ns != 0 ? item.begin_ns : file->previous_written_ns;
    const int64_t end = item.end_ns != 0 ? item.end_ns : header.written_ns();
    if (begin < end) {
      run_->timeline.blinds.push_back({TimeBudget::Bounded(begin), TimeBudget::Bounded(end),
                                       file->process, Blind::Why::kLoss, words.text});
    }
  }
  run_->timeline.losses.push_back(item);
}

void FileLoader::LoadEnd(const End& end, const FrameHeader& header, FileState* file) {
  run_->timeline.processes[static_cast<size_t>(file->process)].ended = true;
  run_->captures[static_cast<size_t>(file->process)].end_reason = end.reason();
  if (end.buffers_outstanding() == 0) return;
  // The last flush gets back every buffer, finished or not (so on an H200: none was left in any of
  // 20 runs). One that is missing holds what was made since a flush last brought records, or
  // earlier.
  file->buffers_missing = true;
  Loss loss;
  loss.set_cause(kLossNotReturned);
  loss.set_count(end.buffers_outstanding());
  loss.set_begin_ns(file->previous_records_ns != 0 ? file->previous_records_ns
                                                   : file->process_start_ns);
  loss.set_end_ns(header.written_ns());
  LoadLoss(loss, header, file);
}

void FileLoader::LoadBlind(const BlindPeriod& blind, const FrameHeader& header, FileState* file) {
  const std::string who =
      blind.reason().empty() ? blind.who() : absl::StrCat(blind.who(), ", ", blind.reason());
  const int64_t begin_ns = TimeBudget::Bounded(blind.begin_ns());
  const int64_t end_ns =
      TimeBudget::Bounded(blind.end_ns() != 0 ? blind.end_ns() : header.written_ns());
  // A period that is not over is written again, with the same begin, when it is.
  const auto [at, added] =
      file->open_blinds.try_emplace(blind.begin_ns(), run_->timeline.blinds.size());
  if (added) {
    run_->timeline.blinds.push_back(
        {begin_ns, std::max(begin_ns, end_ns), file->process, Blind::Why::kOtherClient, who});
  } else {
    Blind& known = run_->timeline.blinds[at->second];
    known.end_ns = std::max(blind.end_ns() != 0 ? begin_ns : known.end_ns, end_ns);
  }
}

template <typename Batch>
void FileLoader::CountOperations(const Batch& batch, FileState* file) {
  const bool timed = batch.timing() == static_cast<uint32_t>(proto::RecordTiming::kValid);
  if (part_ != Part::kOutline || !timed) return;
  operations_[{file->process, DeviceOf(batch.device(), file)}] += batch.count();
}

void FileLoader::LoadPacket(const Packet& packet, const FrameHeader& header, FileState* file) {
  Process& process = run_->timeline.processes[static_cast<size_t>(file->process)];
  ProcessCapture& capture = run_->captures[static_cast<size_t>(file->process)];
  switch (packet.data_case()) {
    case Packet::kDictionary:
      return LoadDictionary(packet.dictionary(), file);
    case Packet::kKernels: {
      CountOperations(packet.kernels(), file);
      proto::KernelColumns* columns = columns_.kernels.Next();
      proto::Decode(packet.kernels(), header, columns);
      return LoadKernels(columns, file);
    }
    case Packet::kApi: {
      proto::ApiColumns* columns = columns_.api.Next();
      proto::Decode(packet.api(), header, columns);
      return LoadApi(columns, file);
    }
    case Packet::kCopies:
      CountOperations(packet.copies(), file);
      return LoadCopies(packet.copies(), header, file);
    case Packet::kSets:
      CountOperations(packet.sets(), file);
      return LoadSets(packet.sets(), header, file);
    case Packet::kSyncs:
      return LoadSyncs(packet.syncs(), header, file);
    case Packet::kGraphs:
      CountOperations(packet.graphs(), file);
      return LoadGraphs(packet.graphs(), header, file);
    case Packet::kOverheads:
      return LoadOverheads(packet.overheads(), header, file);
    case Packet::kMarkers:
      return LoadMarkers(packet.markers(), header, file);
    case Packet::kCudaEvents:
      return LoadEvents(packet.cuda_events(), header, file);
    case Packet::kProcess:
      return LoadProcess(packet.process(), file);
    case Packet::kCapture:
      return ReadCaptureInfo(packet.capture(), &process, &capture);
    case Packet::kLoss:
      return LoadLoss(packet.loss(), header, file);
    case Packet::kBlind:
      return LoadBlind(packet.blind(), header, file);
    case Packet::kCost:
      return ReadCost(packet.cost(), &capture.cost);
    case Packet::kEnd:
      return LoadEnd(packet.end(), header, file);
    case Packet::kThread: {
      Thread& thread =
          run_->timeline.threads[static_cast<size_t>(ThreadOf(packet.thread().tid(), file))];
      thread.name = packet.thread().name();
      thread.main |= packet.thread().main();
      return;
    }
    case Packet::kHostSamples:
      return samples_.Load(packet.host_samples(), file->process);
    case Packet::kUsage:
      return ReadUsage(packet.usage(), &process, &capture.usage);
    case Packet::kFrameHeader:
    case Packet::DATA_NOT_SET:
      return;
  }
}

void FileLoader::LoadFrame(proto::Frame* frame, FileState* file) {
  const FrameHeader& header = frame->header();
  file->ids = {};
  run_->timeline.inputs[static_cast<size_t>(input_)].records += header.records();
  if (header.has_clock()) file->clock.Add(header.clock());
  if (header.first_ns() != 0 || header.last_ns() != 0) {
    file->first_ns = std::min(file->first_ns, header.first_ns());
    file->last_ns = std::max(file->last_ns, header.last_ns());
  }
  if (header.has_clock()) file->first_ns = std::min(file->first_ns, header.clock().trace_ns());
  // ProcessInfo first: ids of threads depend on the pid.
  for (const Packet& packet : frame->trace.packet()) {
    if (packet.has_process()) LoadProcess(packet.process(), file);
  }
  LoadPackets(frame, file);
  if (header.written_ns() != 0) {
    file->last_ns = std::max(file->last_ns, header.written_ns());
    file->previous_written_ns = header.written_ns();
    if (header.records() > 0) file->previous_records_ns = header.written_ns();
  }
}

void FileLoader::LoadPackets(proto::Frame* frame, FileState* file) {
  auto batch = frame->batches.batches().begin();
  const auto last_batch = frame->batches.batches().end();
  for (int i = 0; i < frame->trace.packet_size(); ++i) {
    const Packet& packet = frame->trace.packet(i);
    if (batch != last_batch && batch->packet == i) {
      if (batch->kernels != nullptr) LoadKernels(batch->kernels, file);
      if (batch->api != nullptr) LoadApi(batch->api, file);
      ++batch;
    } else if (part_ != Part::kRecords || IsOfRecords(packet)) {
      LoadPacket(packet, frame->header(), file);
    }
    if (pending_records_ >= kMostPendingRecords) MergeLanes(*file);
  }
  MergeLanes(*file);
}

void FileLoader::AddDamage(const proto::TraceReader& reader) {
  InputFile& input = run_->timeline.inputs[static_cast<size_t>(input_)];
  std::vector<std::string> problems;
  for (const proto::Damage& damage : reader.damage()) {
    const bool no_end = damage.kind == proto::Damage::Kind::kNoEnd;
    // A capture without a record is empty, not incomplete.
    if (no_end && input.records == 0) continue;
    input.damaged_bytes += damage.bytes;
    run_->damage.push_back({input_, DamageKey(damage.kind), damage.offset, damage.bytes,
                            damage.frames, damage.begin_ns, damage.end_ns, damage.detail});
    problems.push_back(DamageText(damage));
    if (no_end) continue;
    for (const auto& [id, file] : states_) {
      const Process& process = run_->timeline.processes[static_cast<size_t>(file.process)];
      const int64_t begin = damage.begin_ns != 0 ? damage.begin_ns : process.capture_begin_ns;
      const int64_t end = damage.end_ns != 0 ? damage.end_ns : process.capture_end_ns;
      if (begin >= end) continue;
      run_->timeline.blinds.push_back({TimeBudget::Bounded(begin), TimeBudget::Bounded(end),
                                       file.process, Blind::Why::kDamage,
                                       absl::StrCat(input.path, ": ", problems.back())});
    }
  }
  constexpr size_t kProblemsInWords = 3;
  const uint64_t more =
      reader.counts().damage_not_listed +
      (problems.size() > kProblemsInWords ? problems.size() - kProblemsInWords : 0);
  if (more > 0) {
    problems.resize(std::min(problems.size(), kProblemsInWords));
    problems.push_back(absl::StrCat(FormatCount(more), " more (info lists them)"));
  }
  input.problem = absl::StrJoin(problems, "; ");
  input.complete = problems.empty();
  const bool missing = std::any_of(states_.begin(), states_.end(),
                                   [](const auto& state) { return state.second.buffers_missing; });
  const bool as_asked = std::any_of(states_.begin(), states_.end(), [this](const auto& state) {
    return state.second.process >= 0 &&
           run_->captures[static_cast<size_t>(state.second.process)].told_not_to_record();
  });
  if (input.records == 0 && problems.empty() && !missing && !as_asked &&
      !skipped_copies_.contains(input.path)) {
    ++empty_files_;
  }
}

void FileLoader::CloseFile(const proto::TraceReader& reader) {
  InputFile& input = run_->timeline.inputs[static_cast<size_t>(input_)];
  const proto::ReaderCounts& counts = reader.counts();
  input.frames = counts.frames;
  input.unknown_packets = counts.unknown_packets;
  input.unknown_fields = counts.unknown_fields;
  if (counts.newer_frames > 0) {
    run_->notices.push_back(
        absl::StrCat(input.path, ": ", FormatPlural(counts.newer_frames, "frame"),
                     " of a newer format version; what this version does not know is "
                     "left out"));
  }
  for (auto& [id, file] : states_) {
    Process& process = run_->timeline.processes[static_cast<size_t>(file.process)];
    if (file.first_ns <= file.last_ns) {
      process.capture_begin_ns = file.first_ns;
      process.capture_end_ns = file.last_ns;
    }
    ProcessCapture& capture = run_->captures[static_cast<size_t>(file.process)];
    capture.clock = file.clock.facts();
    // The writer's own totals stand in front of what a frame holds: the last frame is missing in
    // them.
    if (states_.size() == 1 && capture.cost.known) {
      capture.cost.records = input.records;
      capture.cost.written_bytes = input.bytes;
    }
  }
  AddDamage(reader);
}

FileLoader::FileState* FileLoader::StateOf(const FrameHeader& header, const std::string& path) {
  const uint64_t id = header.file_id();
  const auto known = states_.find(id);
  if (known != states_.end()) return &known->second;
  // Writers without an id (0) cannot be told apart from each other.
  const auto [at, added] =
      id == 0 ? std::pair(path_of_id_.end(), true) : path_of_id_.try_emplace(id, path);
  if (!added) {
    if (at->second != path) skipped_copies_[path] = at->second;
    return nullptr;
  }
  FileState& file = states_[id];
  run_->timeline.processes.push_back({});
  run_->timeline.processes.back().rank = -1;
  run_->timeline.processes.back().files.push_back(input_);
  run_->captures.push_back({});
  file.process = Last(run_->timeline.processes);
  return &file;
}

absl::Status FileLoader::Load(const std::string& path) {
  absl::StatusOr<std::unique_ptr<proto::TraceReader>> opened =
      proto::TraceReader::Open(path, proto::TraceReader::Batches::kColumns);
  if (!opened.ok()) return opened.status();
  proto::TraceReader& reader = **opened;
  run_->timeline.inputs.push_back({path, reader.file_bytes()});
  input_ = Last(run_->timeline.inputs);
  states_.clear();
  const uint64_t read_before = read_bytes_;
  FramePrefetcher frames(&reader);
  while (proto::Frame* frame = frames.Next()) {
    read_bytes_ = read_before + frame->offset + frame->bytes;
    FileState* file = StateOf(frame->header(), path);
    if (file != nullptr) LoadFrame(frame, file);
  }
  read_bytes_ = read_before + reader.file_bytes();
  CloseFile(reader);
  return absl::OkStatus();
}

absl::Status FileLoader::LoadOutline(const std::string& path) {
  part_ = Part::kOutline;
  absl::StatusOr<std::unique_ptr<proto::TraceReader>> opened =
      proto::TraceReader::Open(path, proto::TraceReader::Batches::kNone);
  if (!opened.ok()) return opened.status();
  proto::TraceReader& reader = **opened;
  run_->timeline.inputs.push_back({path, reader.file_bytes()});
  input_ = Last(run_->timeline.inputs);
  states_.clear();
  std::vector<FrameOutline> frames;
  FramePrefetcher ahead(&reader);
  while (proto::Frame* frame = ahead.Next()) {
    const FrameHeader& header = frame->header();
    frames.push_back(
        {header.first_ns(), header.last_ns(), header.written_ns(), header.records(), -1, {}});
    FileState* file = StateOf(header, path);
    if (file == nullptr) continue;
    frame_devices_.clear();
    LoadFrame(frame, file);
    frames.back().process = file->process;
    frames.back().devices = frame_devices_;
  }
  CloseFile(reader);
  OpenedFile& kept = opened_.emplace_back();
  kept.path = path;
  kept.input = input_;
  kept.states = std::move(states_);
  kept.frames = std::move(frames);
  states_.clear();
  return absl::OkStatus();
}

bool FileLoader::LoadNextRecords(size_t index) {
  OpenedFile& opened = opened_[index];
  part_ = Part::kRecords;
  // What a growing file has gained since is no part of the outline.
  if (opened.frames_read == opened.frames.size()) return false;
  if (opened.reader == nullptr) {
    auto reader = proto::TraceReader::Open(opened.path, proto::TraceReader::Batches::kColumns);
    if (!reader.ok()) return false;
    opened.reader = *std::move(reader);
  }
  if (!opened.reader->Next(&frame_)) return false;
  ++opened.frames_read;
  const auto state = opened.states.find(frame_.header().file_id());
  if (state == opened.states.end()) return true;  // another file's trace once more
  input_ = opened.input;
  state->second.ids = {};
  LoadPackets(&frame_, &state->second);
  return true;
}

void FileLoader::FinishRecords() {
  for (OpenedFile& opened : opened_) {
    const size_t missing = opened.frames.size() - opened.frames_read;
    opened.reader.reset();
    if (missing == 0) continue;
    InputFile& input = run_->timeline.inputs[static_cast<size_t>(opened.input)];
    input.complete = false;
    run_->notices.push_back(absl::StrCat(opened.path, ": the records of ",
                                         FormatPlural(missing, "frame"),
                                         " cannot be read, though the frames seem whole"));
  }
  frame_ = {};
  SayImpossible();
}

void FileLoader::SayImpossible() {
  if (impossible_records_ == 0) return;
  run_->notices.push_back(absl::StrCat(FormatPlural(impossible_records_, "host record"),
                                       " with impossible times or an unknown name: left out"));
  impossible_records_ = 0;
}

double FileLoader::ExpectedInTheEnd(size_t records) const {
  if (expected_bytes_ <= read_bytes_ || read_bytes_ == 0) return 0;
  constexpr double kMargin = 1.05;
  return kMargin * static_cast<double>(records) * static_cast<double>(expected_bytes_) /
         static_cast<double>(read_bytes_);
}

void FileLoader::EndPiece() {
  runs_.ops.push_back({run_->timeline.ops.size(), false});
  runs_.calls.push_back({run_->timeline.calls.size(), false});
}

void FileLoader::Finish() {
  MergeDevices();
  for (const auto& [copy, original] : skipped_copies_) {
    run_->notices.push_back(
        absl::StrCat(copy, " holds the same trace as ", original, ": read once"));
  }
  if (empty_files_ > 0) {
    run_->notices.push_back(
        absl::StrCat(FormatPlural(empty_files_, "empty capture"),
                     ": a file without a record (nothing happened, or killed before the "
                     "first flush)"));
  }
  SayImpossible();
}

}  // namespace gpuprobe::tools

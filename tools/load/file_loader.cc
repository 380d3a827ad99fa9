// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/file_loader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_units.h"
#include "tools/load/damage_words.h"
#include "tools/load/frame_prefetcher.h"
#include "tools/load/loss_causes.h"

namespace gpuprobe::tools {
namespace {

// Decoded records that wait for the end of their frame: more than a real frame has, and some 50
// bytes each.
constexpr size_t kMostPendingRecords = size_t{1} << 21;

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
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

// A clock that stepped, or a record that was damaged, must not make years of a run of seconds.
void FileLoader::Believe(const FrameHeader& header, FileState* file) {
  constexpr int64_t kClocksDisagreeNs = 3'600'000'000'000;
  file->earliest_ns = 0;
  file->latest_ns = TimeBudget::kLatestNs;
  if (file->first_clock_ns > 0) {
    const bool started = file->process_start_ns > 0;
    const int64_t begin_ns =
        started ? std::min(file->process_start_ns, file->first_clock_ns) : file->first_clock_ns;
    file->earliest_ns = TimeBudget::Bounded(begin_ns - kClocksDisagreeNs);
  }
  if (header.written_ns() > 0 && header.written_ns() < TimeBudget::kLatestNs)
    file->latest_ns = TimeBudget::Bounded(header.written_ns() + kClocksDisagreeNs);
  file->latest_ns = std::max(file->latest_ns, file->earliest_ns);
}

void FileLoader::LoadFrame(proto::Frame* frame, FileState* file) {
  const FrameHeader& header = frame->header();
  file->ids = {};
  run_->timeline.inputs[static_cast<size_t>(input_)].records += header.records();
  if (header.has_clock()) file->clock.Add(header.clock());
  if (header.has_clock() && file->first_clock_ns == 0)
    file->first_clock_ns = header.clock().trace_ns();
  // ProcessInfo first: ids of threads depend on the pid.
  for (const Packet& packet : frame->trace.packet()) {
    if (packet.has_process()) LoadProcess(packet.process(), file);
  }
  Believe(header, file);
  if (header.first_ns() != 0 || header.last_ns() != 0) {
    file->first_ns = std::min(file->first_ns, std::max(header.first_ns(), file->earliest_ns));
    file->last_ns = std::max(file->last_ns, std::min(header.last_ns(), file->latest_ns));
  }
  if (header.has_clock()) file->first_ns = std::min(file->first_ns, header.clock().trace_ns());
  LoadPackets(frame, file);
  if (header.written_ns() != 0) {
    file->last_ns = std::max(file->last_ns, header.written_ns());
    file->previous_written_ns = header.written_ns();
    if (header.records() > 0) file->previous_records_ns = header.written_ns();
  }
}

void FileLoader::LoadPackets(proto::Frame* frame, FileState* file) {
  budget_.Within(file->earliest_ns, file->latest_ns);
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
  bool not_closed = reader.counts().frames == 0;
  for (const proto::Damage& damage : reader.damage()) {
    const bool no_end = damage.kind == proto::Damage::Kind::kNoEnd;
    not_closed = not_closed || no_end;
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
    run_->unclosed_empty += not_closed;
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
    FrameOutline& outline = frames.back();
    if (outline.first_ns != 0 || outline.last_ns != 0) {
      outline.first_ns = std::clamp(outline.first_ns, file->earliest_ns, file->latest_ns);
      outline.last_ns = std::clamp(outline.last_ns, file->earliest_ns, file->latest_ns);
    }
    outline.process = file->process;
    outline.devices = frame_devices_;
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
    if (read_ahead_) opened.ahead = std::make_unique<FramePrefetcher>(opened.reader.get());
  }
  proto::Frame* frame = &frame_;
  if (opened.ahead != nullptr) {
    frame = opened.ahead->Next();
  } else if (!opened.reader->Next(frame)) {
    frame = nullptr;
  }
  if (frame == nullptr) return false;
  ++opened.frames_read;
  const auto state = opened.states.find(frame->header().file_id());
  if (state == opened.states.end()) return true;  // another file's trace once more
  input_ = opened.input;
  state->second.ids = {};
  Believe(frame->header(), &state->second);
  LoadPackets(frame, &state->second);
  return true;
}

void FileLoader::FinishRecords() {
  for (OpenedFile& opened : opened_) {
    const size_t missing = opened.frames.size() - opened.frames_read;
    opened.ahead.reset();
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
                     ": a file without a record (nothing happened, killed before the "
                     "first flush, or no room to write)"));
  }
  SayImpossible();
}

}  // namespace gpuprobe::tools

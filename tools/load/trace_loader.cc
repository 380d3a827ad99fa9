// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/trace_loader.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/format.h"
#include "tools/format/format_units.h"
#include "tools/import/kineto/kineto_loader.h"
#include "tools/import/nsys/nsys_sqlite.h"
#include "tools/import/source_format.h"
#include "tools/load/file_loader.h"
#include "tools/load/files/foreign_files.h"
#include "tools/load/files/several_runs.h"
#include "tools/load/loss_causes.h"
#include "tools/load/marker_names.h"
#include "tools/load/records/link_calls.h"
#include "tools/load/records/merge_runs.h"

namespace gpuprobe::tools {
namespace {

// An object, not a function: sorting calls it inline.
constexpr auto kByStart = [](const auto& a, const auto& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns < b.end_ns;
};

template <typename T>
void SortByStart(std::vector<T>* items) {
  if (!std::is_sorted(items->begin(), items->end(), kByStart)) {
    std::stable_sort(items->begin(), items->end(), kByStart);
  }
}

void SortTimeline(const RecordRuns& runs, Timeline* timeline) {
  MergeRuns(&timeline->ops, runs.ops, kByStart);
  MergeRuns(&timeline->calls, runs.calls, kByStart);
  SortByStart(&timeline->syncs);
  SortByStart(&timeline->overheads);
  SortMarkers(timeline);
  std::stable_sort(timeline->blinds.begin(), timeline->blinds.end(),
                   [](const Blind& a, const Blind& b) { return a.begin_ns < b.begin_ns; });
}

using Shifts = std::vector<int64_t>;  // one for each process

template <typename T>
void ShiftAll(const Shifts& shifts, std::vector<T>* items, size_t first = 0) {
  for (T& item : std::span(*items).subspan(first)) {
    item.start_ns += shifts[static_cast<size_t>(item.process)];
    item.end_ns += shifts[static_cast<size_t>(item.process)];
  }
}

// 0 means "not known" here and stays.
void ShiftKnown(int64_t shift_ns, int64_t* time_ns) {
  if (*time_ns != 0) *time_ns += shift_ns;
}

void ApplyShifts(const Shifts& shifts, Timeline* timeline) {
  ShiftAll(shifts, &timeline->ops);
  ShiftAll(shifts, &timeline->calls);
  ShiftAll(shifts, &timeline->syncs);
  ShiftAll(shifts, &timeline->overheads);
  for (MarkerRange& range : timeline->markers) {
    range.begin_ns += shifts[static_cast<size_t>(range.process)];
    range.end_ns += shifts[static_cast<size_t>(range.process)];
  }
  for (UntimedOp& op : timeline->untimed) {
    ShiftKnown(shifts[static_cast<size_t>(op.process)], &op.start_ns);
  }
  for (Blind& blind : timeline->blinds) {
    blind.begin_ns += shifts[static_cast<size_t>(blind.process)];
    blind.end_ns += shifts[static_cast<size_t>(blind.process)];
  }
  for (LossItem& loss : timeline->losses) {
    ShiftKnown(shifts[static_cast<size_t>(loss.process)], &loss.begin_ns);
    ShiftKnown(shifts[static_cast<size_t>(loss.process)], &loss.end_ns);
  }
  for (size_t p = 0; p < timeline->processes.size(); ++p) {
    timeline->processes[p].capture_begin_ns += shifts[p];
    timeline->processes[p].capture_end_ns += shifts[p];
  }
}

// The first process of the same boot that knows its clocks; itself if it is the first.
const ProcessCapture& SameBoot(const std::vector<ProcessCapture>& captures,
                               const ProcessCapture& wanted) {
  for (const ProcessCapture& capture : captures) {
    if (capture.boot_id == wanted.boot_id && capture.clock.pairs > 0) return capture;
  }
  return wanted;
}

// Returns what the times of each process were shifted by.
Shifts AlignClocks(LoadedRun* run) {
  Shifts shifts(run->captures.size(), 0);
  bool any = false;
  for (size_t p = 0; p < run->captures.size(); ++p) {
    ProcessCapture& capture = run->captures[p];
    if (capture.boot_id.empty() || capture.clock.pairs == 0) continue;
    int64_t shift_ns = 0;
    if (__builtin_sub_overflow(SameBoot(run->captures, capture).clock.trace_minus_monotonic_ns,
                               capture.clock.trace_minus_monotonic_ns, &shift_ns)) {
      continue;
    }
    // The constants are whatever the file says; a shift of decades would only overflow elsewhere.
    constexpr int64_t kDecadesNs = int64_t{1} << 60;
    if (shift_ns <= -kDecadesNs || shift_ns >= kDecadesNs) continue;
    if (shift_ns > -kSameClockNs && shift_ns < kSameClockNs) continue;
    shifts[p] = capture.clock.shift_ns = shift_ns;
    any = true;
    const char* why = run->timeline.processes[p].source == SourceKind::kNsys
                          ? "sessions that count from their own start"
                          : "the wall clock was stepped between processes";
    run->notices.push_back(absl::StrCat(why, ": times of process ", run->timeline.processes[p].pid,
                                        " are shifted by ", FormatDuration(shift_ns)));
  }
  if (any) ApplyShifts(shifts, &run->timeline);
  return shifts;
}

void CheckAligned(LoadedRun* run) {
  std::vector<std::string> boots;
  for (const ProcessCapture& capture : run->captures) {
    if (std::find(boots.begin(), boots.end(), capture.boot_id) == boots.end())
      boots.push_back(capture.boot_id);
  }
  run->aligned = boots.size() <= 1;
  if (!run->aligned) {
    run->notices.push_back(
        absl::StrCat("traces of ", boots.size(),
                     " hosts or boots: their clocks are not aligned, nothing is concluded "
                     "across them"));
  }
}

const char* FormatName(SourceFormat format) {
  switch (format) {
    case SourceFormat::kJson:
      return "a trace of PyTorch's profiler";
    case SourceFormat::kSqlite:
      return "an Nsight Systems export";
    default:
      return "a gpuprobe trace";
  }
}

// What the file is instead of a trace, where its name says so.
Unusable UnusableFile(const std::string& path, const absl::Status& status) {
  const std::string advice = AdviceForForeignFile(path);
  return {path, absl::StrCat(status.message(), advice.empty() ? "" : "; ", advice)};
}

std::string NothingReadable(const std::vector<Unusable>& unusable) {
  return absl::StrJoin(unusable, "\n", [](std::string* out, const Unusable& item) {
    absl::StrAppend(out, item.message);
  });
}

// A run recorded twice, by us and by another profiler, would count twice.
absl::Status CheckOneFormat(const std::vector<std::string>& paths) {
  const std::string* first = nullptr;
  SourceFormat format = SourceFormat::kOther;
  for (const std::string& path : paths) {
    const SourceFormat here = DetectSourceOfFile(path).format;
    if (here != SourceFormat::kOther && here != SourceFormat::kJson &&
        here != SourceFormat::kSqlite) {
      continue;  // said when it is loaded
    }
    // An empty trace has nothing that could count twice.
    std::error_code error;
    if (here == SourceFormat::kOther && std::filesystem::file_size(path, error) == 0) continue;
    if (first == nullptr) {
      first = &path;
      format = here;
    } else if (here != format) {
      return absl::InvalidArgumentError(
          absl::StrCat(*first, " is ", FormatName(format), " and ", path, " is ", FormatName(here),
                       ": the same work would count twice; give one kind at a time"));
    }
  }
  return absl::OkStatus();
}

uint64_t TotalBytes(const std::vector<std::string>& paths) {
  uint64_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (!error) total += bytes;
  }
  return total;
}

// What no loader can take, whatever it is tried with. A capture that was killed at once is empty;
// under another name an empty file is nothing of ours.
absl::Status CheckContent(const std::string& path, SourceFormat format) {
  std::error_code error;
  if (format == SourceFormat::kUtf16) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": UTF-16 text; no profiler writes that, convert it to UTF-8"));
  }
  if (format == SourceFormat::kGzipOther) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": gzip, but what is inside is no trace events"));
  }
  if (std::filesystem::file_size(path, error) == 0 && !error &&
      !absl::EndsWith(path, proto::kFileSuffix)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": an empty file, no trace"));
  }
  return absl::OkStatus();
}

absl::Status LoadFile(const std::string& path, LoadedRun* run, FileLoader* loader,
                      KinetoLoader* kineto) {
  const Source source = DetectSourceOfFile(path);
  if (source.format == SourceFormat::kJson) return kineto->Load(path, source.packing);
  if (source.format == SourceFormat::kSqlite) return LoadNsysSqlite(path, run);
  if (absl::Status status = CheckContent(path, source.format); !status.ok()) return status;
  return loader->Load(path);
}

}  // namespace

bool LoadedRun::CompleteBut(bool (*excused)(const ProcessCapture&)) const {
  const auto whole = [](const InputFile& file) { return file.complete; };
  const auto lost = [](const LossItem& loss) { return WordsForLoss(loss.cause).hides; };
  const auto off = [excused](const ProcessCapture& capture) {
    return !capture.off_reason.empty() && !excused(capture);
  };
  return unusable.empty() && std::all_of(timeline.inputs.begin(), timeline.inputs.end(), whole) &&
         std::none_of(timeline.losses.begin(), timeline.losses.end(), lost) &&
         std::none_of(captures.begin(), captures.end(), off);
}

bool LoadedRun::complete() const {
  return CompleteBut([](const ProcessCapture&) { return false; });
}

bool LoadedRun::complete_as_asked() const {
  return CompleteBut([](const ProcessCapture& capture) { return capture.told_not_to_record(); });
}

bool ProcessCapture::told_not_to_record() const {
  return std::any_of(settings.begin(), settings.end(), [](const CaptureSetting& setting) {
    return setting.name == "GPUPROBE_CAPTURE" && setting.value == "0";
  });
}

LoadedOutline::LoadedOutline() = default;
LoadedOutline::LoadedOutline(LoadedOutline&&) = default;
LoadedOutline::~LoadedOutline() = default;

absl::StatusOr<LoadedOutline> LoadOutline(const InputFiles& files, size_t most_samples) {
  for (const std::string& path : files.paths) {
    const SourceFormat format = DetectSourceOfFile(path).format;
    if (format == SourceFormat::kJson || format == SourceFormat::kSqlite) {
      return absl::UnimplementedError(
          absl::StrCat(path, ": only gpuprobe's own traces are read in windows ",
                       "(--windows auto reads this at once)"));
    }
  }
  LoadedOutline outline;
  outline.run = std::make_unique<LoadedRun>();
  LoadedRun& run = *outline.run;
  run.name = files.run_name;
  run.unusable = files.unusable;
  run.notices = files.notices;
  outline.loader = std::make_unique<FileLoader>(&run);
  outline.loader->samples()->KeepAtMost(most_samples);
  for (const std::string& path : files.paths) {
    absl::Status status = CheckContent(path, DetectSourceOfFile(path).format);
    if (status.ok()) status = outline.loader->LoadOutline(path);
    if (!status.ok()) run.unusable.push_back(UnusableFile(path, status));
  }
  if (run.timeline.inputs.empty()) return absl::InvalidArgumentError(NothingReadable(run.unusable));
  outline.loader->Finish();
  outline.shifts = AlignClocks(&run);
  outline.loader->samples()->Finish(outline.shifts);
  CheckAligned(&run);
  NoteSeveralRuns(&run);
  SortTimeline({}, &run.timeline);
  outline.shifts.resize(run.timeline.processes.size(), 0);
  return outline;
}

RecordSizes::RecordSizes(const Timeline& timeline)
    : ops(timeline.ops.size()),
      calls(timeline.calls.size()),
      syncs(timeline.syncs.size()),
      overheads(timeline.overheads.size()),
      untimed(timeline.untimed.size()) {}

void ShiftRecords(const std::vector<int64_t>& shifts, const RecordSizes& before,
                  Timeline* records) {
  ShiftAll(shifts, &records->ops, before.ops);
  ShiftAll(shifts, &records->calls, before.calls);
  ShiftAll(shifts, &records->syncs, before.syncs);
  ShiftAll(shifts, &records->overheads, before.overheads);
  for (UntimedOp& op : std::span(records->untimed).subspan(before.untimed)) {
    ShiftKnown(shifts[static_cast<size_t>(op.process)], &op.start_ns);
  }
}

absl::StatusOr<LoadedRun> LoadRun(const InputFiles& files, Linking linking) {
  LoadedRun run;
  run.name = files.run_name;
  run.unusable = files.unusable;
  run.notices = files.notices;
  if (absl::Status status = CheckOneFormat(files.paths); !status.ok()) return status;
  FileLoader loader(&run);
  loader.ExpectBytes(TotalBytes(files.paths));
  KinetoLoader kineto(&run);
  for (const std::string& path : files.paths) {
    const absl::Status status = LoadFile(path, &run, &loader, &kineto);
    if (!status.ok()) run.unusable.push_back(UnusableFile(path, status));
    loader.EndPiece();
  }
  if (run.timeline.inputs.empty()) return absl::InvalidArgumentError(NothingReadable(run.unusable));
  loader.Finish();
  if (absl::Status status = kineto.Finish(); !status.ok()) return status;
  const Shifts shifts = AlignClocks(&run);
  // Imported samples are complete, and in their place.
  if (run.timeline.samples.empty()) loader.samples()->Finish(shifts);
  CheckAligned(&run);
  NoteSeveralRuns(&run);
  SortTimeline(loader.runs(), &run.timeline);
  if (linking == Linking::kLinked) LinkCalls(&run);
  return run;
}

}  // namespace gpuprobe::tools

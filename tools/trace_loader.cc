// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/trace_loader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/file_loader.h"
#include "tools/format_units.h"
#include "tools/import/nsys_sqlite.h"
#include "tools/link_calls.h"
#include "tools/loss_causes.h"
#include "tools/merge_runs.h"

namespace gpuprobe::tools {
namespace {

template <typename T>
bool ByStart(const T& a, const T& b) {
  return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
}

template <typename T>
void SortByStart(std::vector<T>* items) {
  if (!std::is_sorted(items->begin(), items->end(), ByStart<T>)) {
    std::stable_sort(items->begin(), items->end(), ByStart<T>);
  }
}

void SortTimeline(const RecordRuns& runs, Timeline* timeline) {
  MergeRuns(&timeline->ops, runs.ops, ByStart<GpuOp>);
  MergeRuns(&timeline->calls, runs.calls, ByStart<HostCall>);
  SortByStart(&timeline->syncs);
  SortByStart(&timeline->overheads);
  std::stable_sort(timeline->blinds.begin(), timeline->blinds.end(),
                   [](const Blind& a, const Blind& b) { return a.begin_ns < b.begin_ns; });
}

using Shifts = std::vector<int64_t>;  // one for each process

template <typename T>
void ShiftAll(const Shifts& shifts, std::vector<T>* items) {
  for (T& item : *items) {
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

void AlignClocks(LoadedRun* run) {
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

bool IsSqliteFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe would be waited for
  char head[16] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  return IsSqlite({head, sizeof head});
}

std::string NothingReadable(const std::vector<Unusable>& unusable) {
  return absl::StrJoin(unusable, "\n", [](std::string* out, const Unusable& item) {
    absl::StrAppend(out, item.message);
  });
}

}  // namespace

bool LoadedRun::complete() const {
  const auto whole = [](const InputFile& file) { return file.complete; };
  const auto lost = [](const LossItem& loss) { return WordsForLoss(loss.cause).hides; };
  const auto off = [](const ProcessCapture& capture) { return !capture.off_reason.empty(); };
  return unusable.empty() && std::all_of(timeline.inputs.begin(), timeline.inputs.end(), whole) &&
         std::none_of(timeline.losses.begin(), timeline.losses.end(), lost) &&
         std::none_of(captures.begin(), captures.end(), off);
}

absl::StatusOr<LoadedRun> LoadRun(const InputFiles& files) {
  LoadedRun run;
  run.name = files.run_name;
  run.unusable = files.unusable;
  run.notices = files.notices;
  FileLoader loader(&run);
  std::vector<std::string> foreign;
  for (const std::string& path : files.paths) {
    if (IsSqliteFile(path)) {
      foreign.push_back(path);
      continue;
    }
    const absl::Status status = loader.Load(path);
    if (!status.ok()) run.unusable.push_back({path, std::string(status.message())});
  }
  loader.Finish();
  for (const std::string& path : foreign) {
    const absl::Status status = LoadNsysSqlite(path, &run);
    if (!status.ok()) run.unusable.push_back({path, std::string(status.message())});
  }
  if (run.timeline.inputs.empty()) return absl::InvalidArgumentError(NothingReadable(run.unusable));
  AlignClocks(&run);
  CheckAligned(&run);
  SortTimeline(loader.runs(), &run.timeline);
  LinkCalls(&run);
  return run;
}

}  // namespace gpuprobe::tools

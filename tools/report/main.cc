// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// probe-report: wires command line, loader, analyses and renderers together; decides the exit code.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/dump/report_dump.h"
#include "tools/figures/activity_stats.h"
#include "tools/figures/diff.h"
#include "tools/figures/hot.h"
#include "tools/figures/run_figures.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/load/files/input_files.h"
#include "tools/load/trace_loader.h"
#include "tools/report/command_line.h"
#include "tools/report/output.h"
#include "tools/report/report.h"
#include "tools/report/report_diff.h"
#include "tools/report/report_gaps.h"
#include "tools/report/report_parts.h"
#include "tools/report/time_choice.h"
#include "tools/symbolize/symbolize.h"
#include "tools/timeline/device_number.h"
#include "tools/windowed/records_around.h"
#include "tools/windowed/run_size.h"
#include "tools/windowed/windowed_run.h"

namespace gpuprobe::tools {
namespace {

constexpr int kExitComplete = 0, kExitUnusable = 1, kExitPartial = 3, kExitConditionHolds = 4;

int Fail(const std::string& message) {
  // One line each; names in messages may hold anything.
  std::string text;
  for (size_t begin = 0; begin <= message.size();) {
    const size_t end = std::min(message.find('\n', begin), message.size());
    absl::StrAppend(&text, "probe-report: ", ToPrintable(message.substr(begin, end - begin)), "\n");
    begin = end + 1;
  }
  std::fputs(text.c_str(), stderr);
  return kExitUnusable;
}

// A reader that has seen enough (| head) needs no message, a full disk does.
int FailOutput(const absl::Status& status) {
  return absl::IsAborted(status) ? kExitUnusable : Fail(std::string(status.message()));
}

// A word in the place of the subcommand that names no file: misspelt, not a run.
bool LooksLikeSubcommand(const std::string& path) {
  const bool word =
      std::all_of(path.begin(), path.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return word && !path.empty() && access(path.c_str(), F_OK) != 0;
}

int Print(const std::string& text) {
  absl::StatusOr<Output> output = Output::Open("", {});
  output->Write(text);
  const absl::Status status = output->Close();
  return status.ok() ? kExitComplete : FailOutput(status);
}

absl::Status CheckDevice(const Timeline& timeline, const CommandLine& command) {
  if (!command.device.has_value() || DeviceOfNumber(timeline, *command.device) >= 0)
    return absl::OkStatus();
  std::vector<std::string> known;
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    known.push_back(DeviceLabel(timeline, static_cast<int32_t>(d)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device ", *command.device,
                   " in this run; it has: ", known.empty() ? "none" : absl::StrJoin(known, ", ")));
}

absl::Status CheckProcess(const Timeline& timeline, const CommandLine& command) {
  if (!command.pid.has_value()) return absl::OkStatus();
  std::vector<uint32_t> known;
  for (const Process& process : timeline.processes) {
    if (process.pid == *command.pid) return absl::OkStatus();
    known.push_back(process.pid);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no process ", *command.pid,
                   " in this run; it has: ", known.empty() ? "none" : absl::StrJoin(known, ", ")));
}

// Of a report for people; COLUMNS says it for `| less`, too. 0: as wide as reports are.
size_t TerminalColumns(const CommandLine& command) {
  if (command.format != Format::kText || !command.output.empty()) return 0;
  const char* columns = std::getenv("COLUMNS");
  uint32_t count = 0;
  if (columns != nullptr && absl::SimpleAtoi(columns, &count)) return count;
  struct winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

struct Choice {
  Options options;
  RunTimes times;
  std::vector<std::string> notices;
};

absl::StatusOr<Choice> MakeChoice(const Timeline& timeline, const CommandLine& command) {
  if (absl::Status status = CheckDevice(timeline, command); !status.ok()) return status;
  if (absl::Status status = CheckProcess(timeline, command); !status.ok()) return status;
  Choice choice;
  if (command.device.has_value()) choice.options.device = DeviceOfNumber(timeline, *command.device);
  choice.options.pid = command.pid;
  if (command.min_gap_ns.has_value()) choice.options.min_gap_ns = *command.min_gap_ns;
  choice.times = TimesOf(timeline);
  absl::StatusOr<std::vector<std::string>> notices =
      ChooseWindow(command, choice.times, &choice.options);
  if (!notices.ok()) return notices.status();
  choice.notices = *std::move(notices);
  return choice;
}

GapChoice ChooseGap(const ExplainTarget& target, const RunTimes& times) {
  GapChoice choice;
  choice.rank = target.rank;
  if (target.at.has_value()) choice.at_ns = AbsoluteNs(*target.at, times);
  return choice;
}

struct AnalysedRun {
  LoadedRun run;
  Options options;
  RunTimes times;
  Analysis analysis;
  // Of a run that was read in windows.
  std::optional<ActivityTables> tables;
  std::optional<HotReport> hot;
  bool in_windows() const { return tables.has_value(); }
};

absl::Status CheckInternal(const Analysis& analysis) {
  if (analysis.internal_error.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("internal error, no figures shown: ", analysis.internal_error));
}

void SymbolizeRun(Timeline* timeline) { Symbolize({}, timeline); }
void AddNotices(std::vector<std::string> notices, LoadedRun* run) {
  for (std::string& notice : notices) run->notices.push_back(std::move(notice));
}

absl::StatusOr<AnalysedRun> AnalyseInWindows(const CommandLine& command, const InputFiles& files) {
  WindowedOptions windows;
  windows.with_hot = command.report == ReportKind::kHot;
  windows.with_tables = command.report == ReportKind::kKernels ||
                        command.report == ReportKind::kCopies || command.report == ReportKind::kApi;
  windows.prepare = SymbolizeRun;
  Choice chosen;
  windows.choose = [&](const Timeline& timeline) -> absl::StatusOr<Options> {
    absl::StatusOr<Choice> choice = MakeChoice(timeline, command);
    if (!choice.ok()) return choice.status();
    chosen = *std::move(choice);
    return chosen.options;
  };
  absl::StatusOr<WindowedRun> run = LoadInWindows(files, windows);
  if (!run.ok()) return run.status();
  if (absl::Status status = CheckInternal(run->analysis); !status.ok()) return status;
  AddNotices(std::move(chosen.notices), &run->run);
  const bool with_verdict =
      command.report == ReportKind::kSummary || command.report == ReportKind::kDiff;
  if (with_verdict && run->analysis.verdict.estimates_ranks && run->ranks_not_side_by_side) {
    run->run.notices.emplace_back(
        "what ranks waited for each other is estimated: in windows their collectives are not laid "
        "side by side");
  }
  return AnalysedRun{std::move(run->run),      run->options,           chosen.times,
                     std::move(run->analysis), std::move(run->tables), std::move(run->hot)};
}

struct ToExplain {
  Window when;
  std::optional<int32_t> device;  // none: not known
};

// When the gap is that --explain asks for, as far as the listed ones tell: a time that lies in none
// of them is of a shorter one.
absl::StatusOr<ToExplain> WhatToExplain(const ReportInput& input) {
  const absl::StatusOr<ListedGap> gap = FindGap(input);
  if (gap.ok()) return ToExplain{{gap->gap->begin_ns, gap->gap->end_ns}, gap->device->device};
  if (!input.explain->at_ns.has_value()) return gap.status();
  int64_t longest_ns = 0;
  for (const DeviceReport& device : input.analysis.devices) {
    int64_t shortest_ns = device.gaps.empty() ? 0 : device.window.span();
    for (const Gap& g : device.gaps) shortest_ns = std::min(shortest_ns, g.length_ns());
    longest_ns = std::max(longest_ns, shortest_ns);
  }
  const int64_t at_ns = *input.explain->at_ns;
  return ToExplain{{at_ns - longest_ns, at_ns + longest_ns}, std::nullopt};
}

// A run that was read in windows has the records of none of its gaps: those around the one that is
// asked for are read once more, and take the place of what was listed.
absl::Status LoadGap(const InputFiles& files, const ToExplain& gap, AnalysedRun* analysed) {
  AroundOptions around;
  around.prepare = SymbolizeRun;
  absl::StatusOr<LoadedRun> records = LoadAround(files, gap.when, around);
  if (!records.ok()) return records.status();
  Analysis analysis = Analyse(records->timeline, analysed->options);
  if (absl::Status status = CheckInternal(analysis); !status.ok()) return status;
  for (DeviceReport& device : analysed->analysis.devices) {
    device.gaps.clear();
    device.parts.clear();
    if (gap.device && *gap.device != device.device) continue;
    for (DeviceReport& here : analysis.devices) {
      if (here.device != device.device) continue;
      device.gaps = std::move(here.gaps);
      device.parts = std::move(here.parts);
    }
  }
  analysed->analysis.places = std::move(analysis.places);
  analysed->run.timeline = std::move(records->timeline);
  return absl::OkStatus();
}

absl::StatusOr<AnalysedRun> AnalyseAtOnce(const CommandLine& command, const InputFiles& files) {
  absl::StatusOr<LoadedRun> run = LoadRun(files);
  if (!run.ok()) return run.status();
  Symbolize({}, &run->timeline);
  absl::StatusOr<Choice> choice = MakeChoice(run->timeline, command);
  if (!choice.ok()) return choice.status();
  Analysis analysis = Analyse(run->timeline, choice->options);
  if (absl::Status status = CheckInternal(analysis); !status.ok()) return status;
  AddNotices(std::move(choice->notices), &*run);
  return AnalysedRun{*std::move(run), choice->options, choice->times, std::move(analysis), {}, {}};
}

// What cannot be read at once either says why; but who asks for windows has no room for a large
// one.
absl::Status WhyNotInWindows(const InputFiles& files, const absl::Status& not_in_windows) {
  uint64_t bytes = 0;
  for (const std::string& path : files.paths) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    bytes += error ? 0 : size;
  }
  if (bytes > kLargeTraceBytes) return not_in_windows;
  const absl::StatusOr<LoadedRun> at_once = LoadRun(files);
  return at_once.ok() ? not_in_windows : at_once.status();
}

absl::StatusOr<AnalysedRun> LoadAndAnalyse(const CommandLine& command, const InputFiles& files) {
  if (command.windows == WindowsChoice::kNever) return AnalyseAtOnce(command, files);
  const bool always = command.windows == WindowsChoice::kAlways;
  if (always || IsForWindows(TraceBytes(files), AvailableMemoryBytes())) {
    absl::StatusOr<AnalysedRun> run = AnalyseInWindows(command, files);
    // Other tools' files, alone or among gpuprobe's: LoadRun() says more, if it can take them.
    if (!absl::IsUnimplemented(run.status())) return run;
    if (always) return WhyNotInWindows(files, run.status());
  }
  return AnalyseAtOnce(command, files);
}

int FinishReport(const std::string& text, const std::vector<std::string>& inputs,
                 const CommandLine& command) {
  absl::StatusOr<Output> output = Output::Open(command.output, inputs);
  if (!output.ok()) return Fail(std::string(output.status().message()));
  output->Write(text);
  const absl::Status status = output->Close();
  return status.ok() ? kExitComplete : FailOutput(status);
}

void SayUnusable(const LoadedRun& run) {
  for (const Unusable& unusable : run.unusable) Fail(unusable.message);
}

// Says what could not be read; true if nothing is missing.
bool ReportComplete(const ReportInput& input) {
  SayUnusable(input.run);
  return input.run.complete_as_asked() && !CheckKernelRecords(input).unavailable;
}

int Report(const CommandLine& command, const InputFiles& files) {
  absl::StatusOr<AnalysedRun> analysed = LoadAndAnalyse(command, files);
  if (!analysed.ok()) return Fail(std::string(analysed.status().message()));
  ReportInput input = {analysed->run, analysed->analysis, analysed->options, command.top};
  if (analysed->tables) input.tables = &*analysed->tables;
  if (analysed->hot) input.hot = &*analysed->hot;
  input.origin_ns = analysed->times.origin_ns;
  ReportKind kind = command.report;
  if (command.explain.has_value()) {
    kind = ReportKind::kGap;
    input.explain = ChooseGap(*command.explain, analysed->times);
    if (analysed->in_windows()) {
      const absl::StatusOr<ToExplain> gap = WhatToExplain(input);
      if (!gap.ok()) return Fail(std::string(gap.status().message()));
      if (absl::Status status = LoadGap(files, *gap, &*analysed); !status.ok())
        return Fail(std::string(status.message()));
      // The one that was found, by when it was.
      if (!input.explain->at_ns.has_value()) input.explain->at_ns = gap->when.start_ns;
    }
    if (const auto gap = FindGap(input); !gap.ok())
      return Fail(std::string(gap.status().message()));
  }
  const int written =
      FinishReport(FitLines(RenderReport(kind, command.format, input)), files.paths, command);
  if (written != kExitComplete) return written;
  return ReportComplete(input) ? kExitComplete : kExitPartial;
}

std::string RenderDiff(Format format, const DiffInput& input) {
  switch (format) {
    case Format::kText:
      return DiffText(input);
    case Format::kJson:
      return DiffJson(input);
    case Format::kCsv:
      return DiffCsv(input);
  }
  return "";
}

// Of two runs, which one it is about; what cannot be read says so itself.
int FailOf(const std::string& path, const absl::Status& status) {
  const std::string message(status.message());
  return Fail(absl::StrContains(message, path) ? message : absl::StrCat(path, ": ", message));
}

int Diff(const CommandLine& command) {
  const InputFiles files_a = FindInputFiles({command.paths[0]});
  const InputFiles files_b = FindInputFiles({command.paths[1]});
  const absl::StatusOr<AnalysedRun> a = LoadAndAnalyse(command, files_a);
  if (!a.ok()) return FailOf(command.paths[0], a.status());
  const absl::StatusOr<AnalysedRun> b = LoadAndAnalyse(command, files_b);
  if (!b.ok()) return FailOf(command.paths[1], b.status());
  const ReportInput input_a = {a->run, a->analysis, a->options, command.top};
  const ReportInput input_b = {b->run, b->analysis, b->options, command.top};
  DiffInput input = {
      input_a,
      input_b,
      CompareRuns(FiguresOf(a->run.timeline, a->analysis), FiguresOf(b->run.timeline, b->analysis)),
      {}};
  bool failed = false;
  for (const FailCondition& condition : command.fail_if) {
    const absl::StatusOr<bool> holds = Holds(condition, input.rows);
    if (!holds.ok()) return Fail(std::string(holds.status().message()));
    input.conditions.push_back({condition, *holds});
    failed |= *holds;
  }
  std::vector<std::string> inputs = files_a.paths;
  inputs.insert(inputs.end(), files_b.paths.begin(), files_b.paths.end());
  const int written = FinishReport(FitLines(RenderDiff(command.format, input)), inputs, command);
  if (written != kExitComplete) return written;
  const bool complete_a = ReportComplete(input_a), complete_b = ReportComplete(input_b);
  if (failed) return kExitConditionHolds;
  return complete_a && complete_b ? kExitComplete : kExitPartial;
}

int Dump(const CommandLine& command, const InputFiles& files) {
  if (command.device.has_value() || command.from.has_value() || command.to.has_value()) {
    return Fail("dump shows files as they are: --device, --from and --to do not apply to it");
  }
  absl::StatusOr<Output> output = Output::Open(command.output, files.paths);
  if (!output.ok()) return Fail(std::string(output.status().message()));
  const absl::StatusOr<bool> complete =
      WriteDump(files, {command.format, command.pid, command.top}, &*output);
  if (!complete.ok()) return Fail(std::string(complete.status().message()));
  if (const absl::Status status = output->Close(); !status.ok()) return FailOutput(status);
  return *complete ? kExitComplete : kExitPartial;
}

int Main(const std::vector<std::string>& arguments) {
  // A reader that goes away (| head) must end in an exit code of ours, not in a signal.
  std::signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<CommandLine> command = ParseCommandLine(arguments);
  if (!command.ok()) {
    return Fail(absl::StrCat(std::string(command.status().message()), "\ntry probe-report --help"));
  }
  SetTerminalWidth(TerminalColumns(*command));
  if (command->help) return Print(HelpText());
  if (command->version) return Print("probe-report " GPUPROBE_VERSION "\n");
  if (LooksLikeSubcommand(command->paths.front())) {
    return Fail(absl::StrCat("no subcommand and no file is called ", command->paths.front(),
                             "\ntry probe-report --help"));
  }
  if (command->report == ReportKind::kDiff) return Diff(*command);
  const InputFiles files = FindInputFiles(command->paths);
  return command->report == ReportKind::kDump ? Dump(*command, files) : Report(*command, files);
}

}  // namespace
}  // namespace gpuprobe::tools

int main(int argc, char** argv) {
  return gpuprobe::tools::Main(std::vector<std::string>(argv + 1, argv + argc));
}

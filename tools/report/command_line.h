// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// probe-report [subcommand] [options] PATH...
// A parser of its own: absl::flags knows no subcommands, and its built-in flags would become part
// of this tool's interface. Options may stand anywhere, as "--name value" or "--name=value"; "--"
// ends them.
#ifndef GPUPROBE_TOOLS_REPORT_COMMAND_LINE_H_
#define GPUPROBE_TOOLS_REPORT_COMMAND_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/figures/diff.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

// A point in time as the user gives it: "1.5s" after the run's first GPU operation ("-1.5s":
// before it), or "@1764499530000000000" on the trace clock.
struct TimePoint {
  int64_t ns;
  bool absolute;
};

// A gap by its number in the list, or by a time inside it.
struct ExplainTarget {
  uint64_t rank = 0;
  std::optional<TimePoint> at;  // set: instead of the rank
};

// Is the run read in windows (windowed_run.h)? kAuto: where it is large. The others are for tests,
// and for who knows better.
enum class WindowsChoice : uint8_t { kAuto, kAlways, kNever };

struct CommandLine {
  bool help = false, version = false;
  ReportKind report = ReportKind::kSummary;
  Format format = Format::kText;
  std::optional<int32_t> device;
  std::optional<uint32_t> pid;
  std::optional<TimePoint> from, to;
  std::optional<int64_t> min_gap_ns;
  std::optional<int> top;
  WindowsChoice windows = WindowsChoice::kAuto;
  std::optional<ExplainTarget> explain;  // only with ReportKind::kGaps
  std::string output;
  std::vector<FailCondition> fail_if;  // `diff` only
  std::vector<std::string> paths;      // `diff`: two
};

// InvalidArgument, with a message for the user, for anything that is not understood. `arguments`
// without the program's name. No PATH is an error unless help or version is asked for.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

std::string HelpText();

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_COMMAND_LINE_H_

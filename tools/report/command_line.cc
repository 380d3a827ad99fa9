// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/command_line.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

struct Subcommand {
  ReportKind kind;
  const char* help;
};
constexpr Subcommand kSubcommands[] = {
    {ReportKind::kSummary, "why the GPU was idle, on one screen (default)"},
    {ReportKind::kGaps, "the idle periods, longest first, each with its causes"},
    {ReportKind::kWaits, "calls in which the host waited, and what that cost"},
    {ReportKind::kKernels, "time by kernel"},
    {ReportKind::kCopies, "time and bytes by kind of copy"},
    {ReportKind::kApi, "time by CUDA call"},
    {ReportKind::kSteps, "the loop's iterations: how long, made of what, which are slow and why"},
    {ReportKind::kHot, "lines by the time that threads and workers spent on them"},
    {ReportKind::kDiff, "two runs side by side: diff A B; with --fail-if for CI"},
    {ReportKind::kInfo, "what was captured and lost, clocks, cost: can it be trusted?"},
    {ReportKind::kDump, "every record, one a line, in file order"},
};

absl::Status Invalid(const std::string& option, const std::string& value,
                     const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, " '", value, "': ", wanted));
}

absl::Status SetFormat(const std::string& value, CommandLine* out) {
  if (value == "text") {
    out->format = Format::kText;
  } else if (value == "json") {
    out->format = Format::kJson;
  } else if (value == "csv") {
    out->format = Format::kCsv;
  } else {
    return Invalid("format", value, "text, json or csv");
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SetNumber(const std::string& option, const std::string& value, std::optional<T>* out) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < 0 ||
      static_cast<uint64_t>(number) > std::numeric_limits<T>::max()) {
    return Invalid(option, value,
                   absl::StrCat("a number from 0 to ", std::numeric_limits<T>::max()));
  }
  *out = static_cast<T>(number);
  return absl::OkStatus();
}

absl::Status SetTime(const std::string& option, const std::string& value,
                     std::optional<TimePoint>* out) {
  if (absl::StartsWith(value, "@")) {
    int64_t ns = 0;
    if (!absl::SimpleAtoi(value.substr(1), &ns) || ns < 0) {
      return Invalid(option, value, "@ and nanoseconds on the trace clock");
    }
    *out = TimePoint{ns, true};
    return absl::OkStatus();
  }
  const bool before = absl::StartsWith(value, "-");  // as `info` prints what came first
  const absl::StatusOr<int64_t> ns = ParseDuration(value.substr(before ? 1 : 0));
  if (!ns.ok())
    return absl::InvalidArgumentError(absl::StrCat("--", option, ": ", ns.status().message()));
  *out = TimePoint{before ? -*ns : *ns, false};
  return absl::OkStatus();
}

absl::Status SetMinGap(const std::string& value, CommandLine* out) {
  const absl::StatusOr<int64_t> ns = ParseDuration(value);
  if (!ns.ok())
    return absl::InvalidArgumentError(absl::StrCat("--min-gap: ", ns.status().message()));
  out->min_gap_ns = *ns;
  return absl::OkStatus();
}

absl::Status SetExplain(const std::string& value, CommandLine* out) {
  ExplainTarget target;
  if (absl::SimpleAtoi(value, &target.rank)) {
    if (target.rank == 0) return Invalid("explain", value, "gaps are counted from 1");
  } else if (absl::Status status = SetTime("explain", value, &target.at); !status.ok()) {
    return status;
  }
  out->explain = target;
  return absl::OkStatus();
}

absl::Status SetWindows(const std::string& value, CommandLine* out) {
  if (value == "auto") {
    out->windows = WindowsChoice::kAuto;
  } else if (value == "always") {
    out->windows = WindowsChoice::kAlways;
  } else if (value == "never") {
    out->windows = WindowsChoice::kNever;
  } else {
    return Invalid("windows", value, "auto, always or never");
  }
  return absl::OkStatus();
}

absl::Status AddFailCondition(const std::string& value, CommandLine* out) {
  absl::StatusOr<FailCondition> condition = ParseFailCondition(value);
  if (!condition.ok()) return condition.status();
  out->fail_if.push_back(*std::move(condition));
  return absl::OkStatus();
}

absl::Status SetOption(const std::string& option, const std::string& value, CommandLine* out) {
  if (option == "format") return SetFormat(value, out);
  if (option == "device") return SetNumber(option, value, &out->device);
  if (option == "process") return SetNumber(option, value, &out->pid);
  if (option == "from") return SetTime(option, value, &out->from);
  if (option == "to") return SetTime(option, value, &out->to);
  if (option == "min-gap") return SetMinGap(value, out);
  if (option == "top") return SetNumber(option, value, &out->top);
  if (option == "explain") return SetExplain(value, out);
  if (option == "windows") return SetWindows(value, out);
  if (option == "fail-if") return AddFailCondition(value, out);
  if (value.empty()) return Invalid(option, value, "a file name");
  out->output = value;
  return absl::OkStatus();
}

bool KnownOption(const std::string& option) {
  for (const char* known : {"format", "device", "process", "from", "to", "min-gap", "top",
                            "explain", "windows", "output", "fail-if"}) {
    if (option == known) return true;
  }
  return false;
}

bool SetSubcommand(const std::string& word, CommandLine* out) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (word != ReportName(subcommand.kind)) continue;
    out->report = subcommand.kind;
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine out;
  bool options_over = false, subcommand_over = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!options_over && argument == "--") {
      options_over = true;
    } else if (!options_over && (argument == "--help" || argument == "-h")) {
      out.help = true;
    } else if (!options_over && argument == "--version") {
      out.version = true;
    } else if (!options_over && argument.size() > 1 && argument[0] == '-') {
      if (!absl::StartsWith(argument, "--")) {
        return absl::InvalidArgumentError(absl::StrCat("unknown option ", argument));
      }
      const size_t equals = argument.find('=');
      const std::string name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
      if (!KnownOption(name))
        return absl::InvalidArgumentError(absl::StrCat("unknown option --", name));
      if (equals == argument.npos && i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      }
      const std::string value =
          equals == argument.npos ? arguments[++i] : argument.substr(equals + 1);
      if (absl::Status status = SetOption(name, value, &out); !status.ok()) return status;
    } else if (!options_over && !subcommand_over && out.paths.empty() &&
               SetSubcommand(argument, &out)) {
      subcommand_over = true;
    } else {
      out.paths.emplace_back(argument);
    }
  }
  if (out.explain.has_value() && out.report != ReportKind::kGaps) {
    return absl::InvalidArgumentError("--explain belongs to the subcommand gaps");
  }
  if (out.paths.empty() && !out.help && !out.version) {
    return absl::InvalidArgumentError("no PATH: name trace files or the folder of a run");
  }
  const bool diff = out.report == ReportKind::kDiff;
  if (diff && !out.help && !out.version && out.paths.size() != 2) {
    return absl::InvalidArgumentError("diff takes two runs: probe-report diff A B");
  }
  if (!diff && !out.fail_if.empty()) {
    return absl::InvalidArgumentError("--fail-if belongs to diff");
  }
  return out;
}

std::string HelpText() {
  std::string out =
      "usage: probe-report [subcommand] [options] PATH...\n"
      "\n"
      "PATH: trace files (*.gpuprobe) or folders; a folder stands for the traces in it and one "
      "level below,\n"
      "and is one run.\n"
      "\n"
      "subcommands\n";
  for (const Subcommand& subcommand : kSubcommands) {
    absl::StrAppendFormat(&out, "  %-9s %s\n", ReportName(subcommand.kind), subcommand.help);
  }
  absl::StrAppend(
      &out,
      "\n"
      "options\n"
      "  --format text|json|csv   default: text\n"
      "  --device N               this GPU alone, by the number that the summary shows\n"
      "  --process PID            this process alone\n"
      "  --from TIME, --to TIME   part of the run: 1.5s or 200ms after its first GPU operation,\n"
      "                           whatever else is chosen, or @NS on the trace clock\n"
      "  --min-gap DURATION       list gaps of at least this (default 10us); totals hold all\n"
      "  --top N                  rows to list; 0: all (json and csv: all by default)\n"
      "  --explain N|TIME         of gaps: one of them from end to end, by its number in the list\n"
      "                           (with the same options) or by a time in it, as --from takes "
      "it\n"
      "  --windows auto|always|never  read the run in windows of bounded memory, not at once; "
      "auto:\n"
      "                           where its files are large\n"
      "  --output FILE            default: standard output\n"
      "  --fail-if CONDITION      diff: exit code 4 if it holds; may stand several times:\n"
      "                           'FIGURE>LIMIT' or 'FIGURE<LIMIT'. Figures are named as by\n"
      "                           `diff --format csv` (step, idle, idle:input_wait, lost); a "
      "limit\n"
      "                           is a value of B (40ms, 0) or, with a sign, B's change from A\n"
      "                           (+5%, of a share +3pp)\n"
      "  --help, --version\n"
      "\n"
      "exit code: 0 complete; 1 unusable input or wrong usage; 3 partial: damaged, lost or "
      "unclosed\n"
      "input, the report is printed and says what is missing; 4 a --fail-if condition holds. A "
      "trace\n"
      "without a record is complete.\n");
  return out;
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/time_choice.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

// No record lies outside of these; the length of a window that does would overflow.
constexpr int64_t kEarliestNs = 0, kLatestNs = int64_t{1} << 62;

std::string RangeText(const RunTimes& times) {
  return absl::StrCat("the run was recorded from ", RelativeTime(times.begin_ns, times.origin_ns),
                      " to ", RelativeTime(times.end_ns, times.origin_ns),
                      " (0: its first GPU operation, @", times.origin_ns, ")");
}

// Counted back from the first GPU operation, beyond all that was recorded: a slip. Not so a time on
// the trace clock, which may be that of another run.
bool BeforeTheRun(const std::optional<TimePoint>& point, const RunTimes& times) {
  return point.has_value() && !point->absolute && point->ns < 0 &&
         AbsoluteNs(*point, times) < times.begin_ns;
}

}  // namespace

RunTimes TimesOf(const Timeline& timeline) {
  RunTimes times = {0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const Process& process : timeline.processes) {
    if (process.capture_begin_ns >= process.capture_end_ns) continue;
    times.begin_ns = std::min(times.begin_ns, process.capture_begin_ns);
    times.end_ns = std::max(times.end_ns, process.capture_end_ns);
  }
  for (const GpuOp& op : timeline.ops) {
    times.begin_ns = std::min(times.begin_ns, op.start_ns);
    times.end_ns = std::max(times.end_ns, op.end_ns);
  }
  if (times.begin_ns > times.end_ns) return {};
  // Operations are sorted by start.
  times.origin_ns = timeline.ops.empty() ? times.begin_ns : timeline.ops.front().start_ns;
  return times;
}

int64_t AbsoluteNs(const TimePoint& point, const RunTimes& times) {
  int64_t ns = point.ns;
  if (!point.absolute && __builtin_add_overflow(times.origin_ns, point.ns, &ns)) ns = kLatestNs;
  return std::clamp(ns, kEarliestNs, kLatestNs);
}

absl::StatusOr<std::vector<std::string>> ChooseWindow(const CommandLine& command,
                                                      const RunTimes& times, Options* options) {
  std::vector<std::string> notices;
  for (const auto& [option, point] : {std::pair("--from", command.from), {"--to", command.to}}) {
    if (!BeforeTheRun(point, times)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option, " lies before the run; ", RangeText(times)));
  }
  if (command.from.has_value()) options->from_ns = AbsoluteNs(*command.from, times);
  if (command.to.has_value()) options->to_ns = AbsoluteNs(*command.to, times);
  if (options->from_ns.has_value() && options->to_ns.has_value() &&
      *options->from_ns >= *options->to_ns) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from must lie before --to; ", RangeText(times)));
  }
  if (times.begin_ns == times.end_ns) return notices;
  if ((options->from_ns.has_value() && *options->from_ns >= times.end_ns) ||
      (options->to_ns.has_value() && *options->to_ns <= times.begin_ns)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from and --to leave nothing of the run; ", RangeText(times)));
  }
  if (options->from_ns.has_value() && *options->from_ns < times.begin_ns) {
    notices.push_back(absl::StrCat("--from lies before the run: read from its begin, ",
                                   RelativeTime(times.begin_ns, times.origin_ns)));
    options->from_ns = times.begin_ns;
  }
  if (options->to_ns.has_value() && *options->to_ns > times.end_ns) {
    notices.push_back(absl::StrCat("--to lies behind the run: read to its end, ",
                                   RelativeTime(times.end_ns, times.origin_ns)));
    options->to_ns = times.end_ns;
  }
  return notices;
}

}  // namespace gpuprobe::tools

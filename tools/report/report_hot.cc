// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Lines by the time that threads and workers spent on them, and what of it the GPU was idle for.
#include "absl/strings/str_cat.h"
#include "tools/figures/hot.h"
#include "tools/format/format_table.h"
#include "tools/format/format_units.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultRows = 25;

HotReport HotOf(const ReportInput& input) {
  return input.hot != nullptr ? *input.hot
                              : FindHotLines(input.run.timeline, input.analysis, input.options);
}

}  // namespace

std::string HotText(const ReportInput& input) {
  const HotReport hot = HotOf(input);
  std::string out = absl::StrCat(TextPreamble(input), "\n");
  if (hot.samples == 0) {
    return absl::StrCat(out,
                        "no host samples: the sampler was off, or the source of this run has "
                        "none (see info)\n");
  }
  absl::StrAppend(&out, FormatPlural(hot.samples, "sample"));
  if (hot.sampled_ns > 0) absl::StrAppend(&out, " in ", FormatDuration(hot.sampled_ns), " sampled");
  absl::StrAppend(&out, "; most time awake first\n\n");
  Table table;
  table.columns = {{"awake"},
                   {"on CPU", Align::kRight, false, false, 3},
                   {"ready", Align::kRight, false, false, 4},
                   {"blocked", Align::kRight, false, false, 5},
                   {"in all"},
                   {"GPU idle", Align::kRight, false, false, 1},
                   {"samples", Align::kRight, false, false, 2},
                   {"thread", Align::kLeft},
                   {"where", Align::kLeft, true, true}};
  const size_t shown = RowLimit(input, hot.rows.size(), kDefaultRows);
  for (size_t i = 0; i < shown; ++i) {
    const HotRow& row = hot.rows[i];
    table.rows.push_back(
        {FormatDuration(row.awake_ns()), FormatDuration(row.on_cpu_ns),
         FormatDuration(row.runnable_ns), FormatDuration(row.blocked_ns),
         FormatDuration(row.total_ns()),
         FormatPercent(static_cast<double>(row.gpu_idle_ns), static_cast<double>(row.total_ns())),
         FormatCount(row.samples), row.who,
         row.detail.empty() ? row.where : absl::StrCat(row.where, "  ", row.detail)});
  }
  absl::StrAppend(
      &out, RenderTable(table, 0, kWideReportWidth), MoreLine(shown, hot.rows.size(), 0),
      "\nawake: on a CPU, ready (waiting for one), or not told which; GPU idle: the share "
      "of the time in all\nin which no GPU of the run worked\n");
  return out;
}

std::string HotJson(const ReportInput& input) {
  const HotReport hot = HotOf(input);
  std::string out;
  JsonWriter json(&out);
  BeginReport(ReportKind::kHot, input, &json);
  json.Field("samples", hot.samples).Field("sampled_ns", hot.sampled_ns);
  json.Field("rows", hot.rows.size()).Field("order", "awake_ns");
  json.Key("lines").BeginArray();
  const size_t shown = RowLimit(input, hot.rows.size(), 0);
  for (size_t i = 0; i < shown; ++i) {
    const HotRow& row = hot.rows[i];
    json.BeginObject().Field("who", row.who).Field("where", row.where).Field("detail", row.detail);
    json.Field("awake_ns", row.awake_ns());
    json.Field("on_cpu_ns", row.on_cpu_ns).Field("runnable_ns", row.runnable_ns);
    json.Field("blocked_ns", row.blocked_ns).Field("unknown_ns", row.unknown_ns);
    json.Field("total_ns", row.total_ns()).Field("gpu_idle_ns", row.gpu_idle_ns);
    json.Field("samples", row.samples).EndObject();
  }
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string HotCsv(const ReportInput& input) {
  const HotReport hot = HotOf(input);
  Table table;
  for (const char* title : {"who", "where", "detail", "awake_ns", "on_cpu_ns", "runnable_ns",
                            "blocked_ns", "unknown_ns", "gpu_idle_ns", "samples"}) {
    table.columns.push_back({title});
  }
  const size_t shown = RowLimit(input, hot.rows.size(), 0);
  for (size_t i = 0; i < shown; ++i) {
    const HotRow& row = hot.rows[i];
    table.rows.push_back({row.who, row.where, row.detail, absl::StrCat(row.awake_ns()),
                          absl::StrCat(row.on_cpu_ns), absl::StrCat(row.runnable_ns),
                          absl::StrCat(row.blocked_ns), absl::StrCat(row.unknown_ns),
                          absl::StrCat(row.gpu_idle_ns), absl::StrCat(row.samples)});
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Blocking calls by kind and place: how long they blocked, whether the GPU worked meanwhile, and
// what they cost afterwards.
#include "absl/strings/str_cat.h"
#include "tools/format/format_table.h"
#include "tools/format/format_units.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultRows = 20;

}  // namespace

std::string WaitsText(const ReportInput& input) {
  const auto& waits = input.analysis.waits;
  std::string out = absl::StrCat(TextPreamble(input), "\n");
  if (waits.empty()) {
    bool captured = false;
    for (const Process& process : input.run.timeline.processes) {
      captured |= process.has_runtime_api || process.has_driver_api || process.has_sync_records;
    }
    return absl::StrCat(
        out, captured ? "no blocking call recorded\n"
                      : "host calls were not captured: nothing can be said about waits\n");
  }
  Table table;
  table.columns = {{"api", Align::kLeft},
                   {"calls", Align::kRight, false, false, 1},
                   {"blocked"},
                   {"longest", Align::kRight, false, false, 4},
                   {"GPU busy", Align::kRight, false, false, 2},
                   {"GPU idle", Align::kRight, false, false, 3},
                   {"idle after"},
                   {"where", Align::kLeft, true, true}};
  const size_t shown = RowLimit(input, waits.size(), kDefaultRows);
  for (size_t i = 0; i < shown; ++i) {
    const WaitRow& wait = waits[i];
    table.rows.push_back({wait.api, FormatCount(wait.count), FormatDuration(wait.total_ns),
                          FormatDuration(wait.longest_ns), FormatDuration(wait.device_busy_ns),
                          FormatDuration(wait.device_idle_ns), FormatDuration(wait.idle_after_ns),
                          WhereOf(wait)});
  }
  absl::StrAppend(&out, RenderTable(table, 0, kWideReportWidth), MoreLine(shown, waits.size(), 0),
                  "\nWhile blocked, GPU busy is harmless; idle after: GPU idle until the thread's "
                  "next submission "
                  "reached the GPU\n");
  return out;
}

std::string WaitsJson(const ReportInput& input) {
  std::string out;
  JsonWriter json(&out);
  BeginReport(ReportKind::kWaits, input, &json);
  const auto& waits = input.analysis.waits;
  json.Field("rows", waits.size());
  json.Key("waits").BeginArray();
  const size_t shown = RowLimit(input, waits.size(), 0);
  for (size_t i = 0; i < shown; ++i) WriteWait(waits[i], &json);
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string WaitsCsv(const ReportInput& input) {
  Table table;
  for (const char* title : {"api", "where", "count", "total_ns", "device_busy_ns", "device_idle_ns",
                            "idle_after_ns", "longest_ns", "detail"}) {
    table.columns.push_back({title});
  }
  const auto& waits = input.analysis.waits;
  const size_t shown = RowLimit(input, waits.size(), 0);
  for (size_t i = 0; i < shown; ++i) {
    const WaitRow& wait = waits[i];
    table.rows.push_back({wait.api, wait.where, absl::StrCat(wait.count),
                          absl::StrCat(wait.total_ns), absl::StrCat(wait.device_busy_ns),
                          absl::StrCat(wait.device_idle_ns), absl::StrCat(wait.idle_after_ns),
                          absl::StrCat(wait.longest_ns), wait.detail});
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// kernels, copies, api: three tables of one shape.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/figures/activity_stats.h"
#include "tools/format/format_table.h"
#include "tools/format/format_units.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultRows = 30;
constexpr size_t kNameWidth = 44;  // what kWideReportWidth leaves beside the numbers

// What differs between the three.
struct Layout {
  ReportKind kind;
  const char* rows_key;     // JSON
  const char* count_title;  // nsys' word
  const char* name_title;
  bool bytes, failures, mangled;
};
constexpr Layout kKernelLayout = {
    ReportKind::kKernels, "kernels", "Instances", "Name", false, false, true};
constexpr Layout kCopyLayout = {
    ReportKind::kCopies, "operations", "Count", "Operation", true, false, false};
constexpr Layout kApiLayout = {ReportKind::kApi, "calls", "Num Calls", "Name", false, true, false};

std::string PlainPercent(int64_t part, int64_t whole) {
  if (whole <= 0) return "";
  return absl::StrFormat("%.3f", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

uint64_t BytesPerSecond(const ActivityRow& row) {
  if (row.stats.total_ns <= 0) return 0;
  return static_cast<uint64_t>(static_cast<double>(row.bytes) * 1e9 /
                               static_cast<double>(row.stats.total_ns));
}

std::string PercentCell(int64_t part, int64_t whole) {
  if (whole <= 0) return "-";
  return absl::StrFormat("%.1f", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string Text(const Layout& layout, const ActivityTable& activity, const ReportInput& input) {
  Table table;
  const auto spare = [](const char* title, int rank) {
    return Column{title, Align::kRight, false, false, rank};
  };
  table.columns = {{"Time %"}, spare("% of wall", 2), {"Total Time"}, {layout.count_title}};
  for (const Column& column :
       {spare("Avg", 0), spare("Med", 3), spare("Min", 5), spare("Max", 4), spare("StdDev", 6)}) {
    table.columns.push_back(column);
  }
  if (layout.bytes) {
    table.columns.insert(table.columns.end(), {spare("Total", 0), spare("Throughput", 1)});
  }
  if (layout.failures) table.columns.push_back({"Failed"});
  table.columns.push_back({layout.name_title, Align::kLeft, true});

  const size_t shown = RowLimit(input, activity.rows.size(), kDefaultRows);
  for (size_t i = 0; i < shown; ++i) {
    const ActivityRow& row = activity.rows[i];
    const DurationStats& stats = row.stats;
    std::vector<std::string> cells = {PercentCell(stats.total_ns, activity.total_ns),
                                      PercentCell(stats.total_ns, activity.wall_ns),
                                      FormatDuration(stats.total_ns), FormatCount(stats.count)};
    cells.push_back(FormatDuration(stats.avg_ns));
    cells.push_back(absl::StrCat(stats.med_exact ? "" : "~", FormatDuration(stats.med_ns)));
    for (int64_t ns : {stats.min_ns, stats.max_ns, stats.stddev_ns})
      cells.push_back(FormatDuration(ns));
    if (layout.bytes) {
      cells.push_back(FormatBytes(row.bytes));
      cells.push_back(FormatThroughput(row.bytes, stats.total_ns));
    }
    if (layout.failures) cells.push_back(row.failed == 0 ? "-" : FormatCount(row.failed));
    cells.push_back(row.mangled.empty() ? row.name : ShortKernelName(row.name, kNameWidth));
    table.rows.push_back(std::move(cells));
  }
  std::string out = TextPreamble(input);
  const KernelRecordsCheck check = CheckKernelRecords(input);
  if (check.unavailable && layout.kind != ReportKind::kApi) {
    absl::StrAppend(&out, "\nKernel records unavailable: ", check.reason, "\n");
  }
  absl::StrAppend(&out, "\n");
  if (activity.rows.empty()) {
    absl::StrAppend(&out, "nothing recorded\n");
  } else {
    absl::StrAppend(&out, RenderTable(table, 0, kWideReportWidth),
                    MoreLine(shown, activity.rows.size(), 0));
    absl::StrAppend(&out, "\nTime %: of all rows (", FormatDuration(activity.total_ns),
                    "); % of wall: of ", FormatDuration(activity.wall_ns),
                    ". Sums of durations: what ran side by side counts twice.\n");
  }
  if (activity.untimed > 0) {
    absl::StrAppend(&out, FormatPlural(activity.untimed, "record"),
                    " without usable times in no row\n");
  }
  return out;
}

std::string Json(const Layout& layout, const ActivityTable& activity, const ReportInput& input) {
  std::string out;
  JsonWriter json(&out);
  BeginReport(layout.kind, input, &json);
  json.Field("total_ns", activity.total_ns).Field("wall_ns", activity.wall_ns);
  json.Field("untimed", activity.untimed);
  json.Field("rows", activity.rows.size());
  json.Key(layout.rows_key).BeginArray();
  const size_t shown = RowLimit(input, activity.rows.size(), 0);
  for (size_t i = 0; i < shown; ++i) {
    const ActivityRow& row = activity.rows[i];
    json.BeginObject().Field("name", row.name);
    if (layout.mangled) json.Field("mangled", row.mangled);
    json.Field("count", row.stats.count).Field("total_ns", row.stats.total_ns);
    json.Field("avg_ns", row.stats.avg_ns).Field("med_ns", row.stats.med_ns);
    json.Field("min_ns", row.stats.min_ns).Field("max_ns", row.stats.max_ns);
    json.Field("stddev_ns", row.stats.stddev_ns);
    if (layout.bytes) json.Field("bytes", row.bytes).Field("bytes_per_second", BytesPerSecond(row));
    if (layout.failures) json.Field("failed", row.failed);
    json.EndObject();
  }
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string Csv(const Layout& layout, const ActivityTable& activity, const ReportInput& input) {
  Table table;
  table.columns = {{"Time (%)"}, {"Wall (%)"}, {"Total Time (ns)"}, {layout.count_title}};
  for (const char* title : {"Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"}) {
    table.columns.push_back({title});
  }
  if (layout.bytes)
    table.columns.insert(table.columns.end(), {{"Total (B)"}, {"Throughput (B/s)"}});
  if (layout.failures) table.columns.push_back({"Failed"});
  table.columns.push_back({layout.name_title});
  if (layout.mangled) table.columns.push_back({"Mangled"});
  const size_t shown = RowLimit(input, activity.rows.size(), 0);
  for (size_t i = 0; i < shown; ++i) {
    const ActivityRow& row = activity.rows[i];
    const DurationStats& stats = row.stats;
    std::vector<std::string> cells = {PlainPercent(stats.total_ns, activity.total_ns),
                                      PlainPercent(stats.total_ns, activity.wall_ns),
                                      absl::StrCat(stats.total_ns), absl::StrCat(stats.count)};
    for (int64_t ns : {stats.avg_ns, stats.med_ns, stats.min_ns, stats.max_ns, stats.stddev_ns}) {
      cells.push_back(absl::StrCat(ns));
    }
    if (layout.bytes) {
      cells.push_back(absl::StrCat(row.bytes));
      cells.push_back(absl::StrCat(BytesPerSecond(row)));
    }
    if (layout.failures) cells.push_back(absl::StrCat(row.failed));
    cells.push_back(row.name);
    if (layout.mangled) cells.push_back(row.mangled);
    table.rows.push_back(std::move(cells));
  }
  return RenderCsv(table);
}

ActivityTable Kernels(const ReportInput& input) {
  if (input.tables != nullptr) return input.tables->kernels;
  return KernelTable(input.run.timeline, input.analysis, input.options);
}
ActivityTable Copies(const ReportInput& input) {
  if (input.tables != nullptr) return input.tables->copies;
  return CopyTable(input.run.timeline, input.analysis, input.options);
}
ActivityTable Api(const ReportInput& input) {
  if (input.tables != nullptr) return input.tables->api;
  return ApiTable(input.run.timeline, input.analysis, input.options);
}

}  // namespace

std::string KernelsText(const ReportInput& input) {
  return Text(kKernelLayout, Kernels(input), input);
}
std::string KernelsJson(const ReportInput& input) {
  return Json(kKernelLayout, Kernels(input), input);
}
std::string KernelsCsv(const ReportInput& input) {
  return Csv(kKernelLayout, Kernels(input), input);
}
std::string CopiesText(const ReportInput& input) { return Text(kCopyLayout, Copies(input), input); }
std::string CopiesJson(const ReportInput& input) { return Json(kCopyLayout, Copies(input), input); }
std::string CopiesCsv(const ReportInput& input) { return Csv(kCopyLayout, Copies(input), input); }
std::string ApiText(const ReportInput& input) { return Text(kApiLayout, Api(input), input); }
std::string ApiJson(const ReportInput& input) { return Json(kApiLayout, Api(input), input); }
std::string ApiCsv(const ReportInput& input) { return Csv(kApiLayout, Api(input), input); }

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The steps of each GPU: how long they took, what they are made of, and which are slow and why.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report_parts.h"
#include "tools/steps/step_figures.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultRows = 10;
constexpr size_t kNameWidth = 48;

double StepsPerSecond(const DeviceSteps& steps) {
  const int64_t span_ns = steps.window().span();
  return span_ns > 0 ? 1e9 * static_cast<double>(steps.count) / static_cast<double>(span_ns) : 0;
}

const char* PartName(const StepGrowth& growth) {
  return growth.cause ? CauseLabel(*growth.cause) : "GPU busy";
}

std::string WrappedLine(const std::string& text, size_t indent) {
  return absl::StrCat(std::string(indent, ' '),
                      WrapText(ToPrintable(text), indent, indent, kReportWidth), "\n");
}

// "sometimes": what a step has at the median, and in all.
std::string CompositionTable(const DeviceSteps& steps) {
  Table table;
  table.columns = {
      {"in a step", Align::kLeft}, {"median"}, {"longest"}, {"in all"}, {"% of steps"}};
  const double span = static_cast<double>(steps.window().span());
  const auto add = [&](const char* name, auto amount) {
    const int64_t sum_ns = amount(steps.all);
    if (sum_ns == 0) return;
    std::vector<WeightedNs> values;
    for (const Step& step : steps.steps) values.emplace_back(amount(step), step.stands_for);
    const int64_t median_ns = PercentileOf(&values, 0.5);
    table.rows.push_back({name, FormatDuration(median_ns), FormatDuration(values.back().first),
                          FormatDuration(sum_ns),
                          FormatPercent(static_cast<double>(sum_ns), span)});
  };
  add("GPU busy", [](const Step& step) { return step.busy_ns; });
  for (size_t c = 0; c < kCauseCount; ++c) {
    add(CauseLabel(static_cast<Cause>(c)), [c](const Step& step) { return step.cause_ns[c]; });
  }
  return RenderTable(table, 2);
}

// The part of a step that takes most of it, and the cause with most of its idle time.
std::string MostOf(const Step& step) {
  const auto largest = std::max_element(step.cause_ns.begin(), step.cause_ns.end());
  if (*largest == 0) return "";
  return CauseLabel(static_cast<Cause>(largest - step.cause_ns.begin()));
}

std::string SlowText(const DeviceSteps& steps) {
  if (steps.slow_steps == 0) {
    return "none took 1.5x the median";
  }
  std::string text = absl::StrCat(steps.slow_steps, " of ", FormatCount(steps.count),
                                  " took over 1.5x the median");
  if (steps.slow_period > 0) absl::StrAppend(&text, ", one in ", steps.slow_period);
  const char* separator = "; more in each: ";
  for (const StepGrowth& growth : steps.growth) {
    absl::StrAppend(&text, separator, PartName(growth), " +", FormatDuration(growth.extra_ns));
    if (!growth.where.empty()) absl::StrAppend(&text, " (", growth.where, ")");
    separator = ", ";
  }
  return text;
}

std::string SlowestTable(const ReportInput& input, const DeviceSteps& steps) {
  std::vector<size_t> order(steps.steps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return steps.steps[a].duration_ns() > steps.steps[b].duration_ns();
  });
  Table table;
  table.columns = {{"step"},
                   {"begin"},
                   {"took"},
                   {"x median", Align::kRight, false, false, 1},
                   {"ops", Align::kRight, false, false, 2},
                   {"GPU busy", Align::kRight, false, false, 3},
                   {"idle"},
                   {"idle mostly because", Align::kLeft}};
  const size_t shown = RowLimit(input, order.size(), kDefaultRows);
  const int64_t origin = Origin(input);
  for (size_t i = 0; i < shown; ++i) {
    const Step& step = steps.steps[order[i]];
    const std::string factor =
        steps.median_ns <= 0 ? "-"
                             : absl::StrFormat("%.2f", static_cast<double>(step.duration_ns()) /
                                                           static_cast<double>(steps.median_ns));
    table.rows.push_back({absl::StrCat(step.index), RelativeTime(step.begin_ns, origin),
                          FormatDuration(step.duration_ns()), factor, FormatCount(step.ops),
                          FormatDuration(step.busy_ns), FormatDuration(step.idle_ns),
                          MostOf(step)});
  }
  return absl::StrCat(RenderTable(table, 2), MoreLine(shown, order.size(), 2));
}

const char* SourceKey(StepSource source) {
  switch (source) {
    case StepSource::kPattern:
      return "pattern";
    case StepSource::kProfilerStep:
      return "profiler_step";
    case StepSource::kNvtx:
      return "nvtx";
    case StepSource::kAnnotation:
      return "annotation";
  }
  return "";
}

// How they were told, and how sure that is.
std::string SourceText(const DeviceSteps& steps, const std::string& begins_with) {
  const std::string begin =
      absl::StrCat("a step begins with ", begins_with, "; ", FormatPercent(steps.confidence, 1));
  const std::string in_ranges =
      absl::StrCat(": ", begin, " of the GPU's time was submitted in them");
  switch (steps.source) {
    case StepSource::kPattern:
      return absl::StrCat("found from the pattern of submissions: ", begin,
                          " of what runs throughout is in each step equally often");
    case StepSource::kProfilerStep:
      return absl::StrCat("steps from ProfilerStep markers", in_ranges);
    case StepSource::kNvtx:
      return absl::StrCat("steps from NVTX range '", steps.marker, "'", in_ranges);
    case StepSource::kAnnotation:
      return absl::StrCat("steps from annotation '", steps.marker, "'", in_ranges);
  }
  return "";
}

std::string DeviceText(const ReportInput& input, const DeviceSteps& steps,
                       const DeviceReport& report, KernelNames* names) {
  const std::string title =
      absl::StrCat("\nGPU ", DeviceNumber(input.run.timeline, steps.device), "    ");
  if (steps.steps.empty()) return absl::StrCat(title, "no steps found: ", steps.why_none, "\n");
  const Window window = steps.window();
  const GpuOp& first = input.run.timeline.ops[static_cast<size_t>(steps.first_op)];
  std::string out = absl::StrCat(
      title, FormatPlural(steps.count, "step"), " of ",
      FormatPlural(steps.typical_ops, "operation"), " in ", FormatDuration(window.span()), " (",
      FormatPercent(static_cast<double>(window.span()), static_cast<double>(report.window.span())),
      " of the window), ", FormatSignificant(StepsPerSecond(steps), 4), " steps/s\n");
  absl::StrAppend(
      &out,
      WrappedLine(SourceText(steps, OpLabel(input.run.timeline, first, kNameWidth, names)), 2));
  absl::StrAppend(&out, "  took     median ", FormatDuration(steps.median_ns), "   p90 ",
                  FormatDuration(steps.p90_ns), "   p99 ", FormatDuration(steps.p99_ns), "   min ",
                  FormatDuration(steps.min_ns), "   max ", FormatDuration(steps.max_ns), "\n");
  const std::string slow = SlowText(steps);
  absl::StrAppend(&out, "  slow     ", WrapText(ToPrintable(slow), 11, 11, kReportWidth), "\n\n");
  absl::StrAppend(&out, CompositionTable(steps), "\n", SlowestTable(input, steps));
  return out;
}

void WriteStep(const Step& step, JsonWriter* json) {
  json->BeginObject().Field("step", step.index);
  json->Field("begin_ns", step.begin_ns).Field("end_ns", step.end_ns);
  json->Field("duration_ns", step.duration_ns()).Field("operations", step.ops);
  json->Field("busy_ns", step.busy_ns).Field("idle_ns", step.idle_ns).Field("slow", step.slow);
  json->Key("idle_causes").BeginObject();
  for (size_t c = 0; c < kCauseCount; ++c) {
    if (step.cause_ns[c] > 0) json->Field(CauseKey(static_cast<Cause>(c)), step.cause_ns[c]);
  }
  json->EndObject().EndObject();
}

void WriteGrowth(const DeviceSteps& steps, JsonWriter* json) {
  json->Key("slow_growth").BeginArray();
  for (const StepGrowth& growth : steps.growth) {
    json->BeginObject().Field("part", growth.cause ? CauseKey(*growth.cause) : "busy");
    json->Field("extra_ns", growth.extra_ns).Field("where", growth.where).EndObject();
  }
  json->EndArray();
}

void WriteSteps(const ReportInput& input, const DeviceSteps& steps, KernelNames* names,
                JsonWriter* json) {
  json->BeginObject()
      .Field("device", DeviceNumber(input.run.timeline, steps.device))
      .Field("count", steps.count);
  json->Field("why_none", steps.why_none);
  if (!steps.steps.empty()) {
    const GpuOp& first = input.run.timeline.ops[static_cast<size_t>(steps.first_op)];
    const bool named = first.kind == OpKind::kKernel && first.name >= 0;
    json->Field("begins_with", named ? names->Full(first.name)
                                     : OpLabel(input.run.timeline, first, kReportWidth, names));
    WriteWindow(steps.window(), json);
    json->Field("source", SourceKey(steps.source)).Field("marker", steps.marker);
    json->Field("confidence", steps.confidence).Field("typical_operations", steps.typical_ops);
    json->Field("steps_per_second", StepsPerSecond(steps));
    json->Field("median_ns", steps.median_ns).Field("p90_ns", steps.p90_ns);
    json->Field("p99_ns", steps.p99_ns).Field("min_ns", steps.min_ns);
    json->Field("max_ns", steps.max_ns).Field("slow_steps", steps.slow_steps);
    json->Key("slow_period");
    steps.slow_period > 0 ? json->Value(steps.slow_period) : json->Null();
    WriteGrowth(steps, json);
  }
  json->Key("steps").BeginArray();
  const size_t shown = RowLimit(input, steps.steps.size(), 0);
  for (size_t i = 0; i < shown; ++i) WriteStep(steps.steps[i], json);
  json->EndArray().EndObject();
}

}  // namespace

std::string StepsText(const ReportInput& input) {
  std::string out = TextPreamble(input);
  const KernelRecordsCheck check = CheckKernelRecords(input);
  if (check.unavailable) {
    return absl::StrCat(out, "\nKernel records unavailable: ", check.reason, "\n");
  }
  if (input.analysis.steps.empty())
    return absl::StrCat(out, "\nno GPU work recorded, so no steps\n");
  KernelNames names(input.run.timeline.names);
  for (size_t d = 0; d < input.analysis.steps.size(); ++d) {
    absl::StrAppend(&out,
                    DeviceText(input, input.analysis.steps[d], input.analysis.devices[d], &names));
  }
  return out;
}

std::string StepsJson(const ReportInput& input) {
  std::string out;
  JsonWriter json(&out, 4);  // a step is a line
  BeginReport(ReportKind::kSteps, input, &json);
  const bool known = !CheckKernelRecords(input).unavailable;
  json.Field("kernel_records", known ? "available" : "unavailable");
  json.Key("devices").BeginArray();
  KernelNames names(input.run.timeline.names);
  for (const DeviceSteps& steps : input.analysis.steps) {
    if (known) WriteSteps(input, steps, &names, &json);
  }
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string StepsCsv(const ReportInput& input) {
  Table table;
  for (const char* title : {"device", "step", "begin_ns", "end_ns", "duration_ns", "operations",
                            "busy_ns", "idle_ns", "slow"}) {
    table.columns.push_back({title});
  }
  for (int c = 0; c < kCauseCount; ++c) {
    table.columns.push_back({absl::StrCat("cause_", CauseKey(static_cast<Cause>(c)), "_ns")});
  }
  if (CheckKernelRecords(input).unavailable) return RenderCsv(table);
  for (const DeviceSteps& steps : input.analysis.steps) {
    const size_t shown = RowLimit(input, steps.steps.size(), 0);
    for (size_t i = 0; i < shown; ++i) {
      const Step& step = steps.steps[i];
      std::vector<std::string> row = {absl::StrCat(DeviceNumber(input.run.timeline, steps.device)),
                                      absl::StrCat(step.index),
                                      absl::StrCat(step.begin_ns),
                                      absl::StrCat(step.end_ns),
                                      absl::StrCat(step.duration_ns()),
                                      absl::StrCat(step.ops),
                                      absl::StrCat(step.busy_ns),
                                      absl::StrCat(step.idle_ns),
                                      step.slow ? "1" : "0"};
      for (int64_t ns : step.cause_ns) row.push_back(absl::StrCat(ns));
      table.rows.push_back(std::move(row));
    }
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools

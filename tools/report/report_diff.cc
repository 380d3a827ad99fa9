// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/report_diff.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/format/format_json.h"
#include "tools/format/format_table.h"
#include "tools/format/format_units.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

const char* UnitKey(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::kTime:
      return "ns";
    case FigureUnit::kShare:
      return "share";
    case FigureUnit::kCount:
      return "count";
    case FigureUnit::kBytes:
      return "bytes";
    case FigureUnit::kPerSecond:
      return "per_second";
  }
  return "";
}

std::string ValueText(std::optional<double> value, FigureUnit unit) {
  if (!value.has_value()) return "-";
  switch (unit) {
    case FigureUnit::kTime:
      return FormatDuration(std::llround(*value));
    case FigureUnit::kShare:
      return FormatPercent(*value, 1);
    case FigureUnit::kCount:
      return FormatCount(static_cast<uint64_t>(std::llround(*value)));
    case FigureUnit::kBytes:
      return FormatBytes(static_cast<uint64_t>(*value));
    case FigureUnit::kPerSecond:
      return absl::StrCat(FormatSignificant(*value, 3), " /s");
  }
  return "";
}

std::string VerdictText(const ReportInput& input) {
  return IsUsageOnly(input.run)
             ? "GPUPROBE_CAPTURE=off: how long it took and what it used, nothing of the GPU."
             : input.analysis.verdict.headline;
}

// Shares in points, everything else relative: "idle +3.0 points" says what "+7 %" does not.
std::string ChangeText(const DiffRow& row) {
  if (!row.a.has_value()) return "new";
  if (!row.b.has_value()) return "gone";
  if (row.unit == FigureUnit::kShare) {
    const double points = (*row.b - *row.a) * 100;
    return std::abs(points) < 0.05 ? "=" : absl::StrFormat("%+.1f points", points);
  }
  const std::optional<double> relative = row.relative();
  if (!relative.has_value()) return "from 0";
  const double percent = *relative * 100;
  return std::abs(percent) < 0.05 ? "=" : absl::StrFormat("%+.1f %%", percent);
}

std::string JudgementText(const DiffRow& row) {
  const std::optional<bool> improved = row.improved();
  if (!improved.has_value() || ChangeText(row) == "=") return "";
  return *improved ? "better" : "worse";
}

void WriteNumber(std::string_view key, std::optional<double> value, FigureUnit unit,
                 JsonWriter* json) {
  json->Key(key);
  if (!value.has_value()) {
    json->Null();
  } else if (unit == FigureUnit::kShare || unit == FigureUnit::kPerSecond) {
    json->Value(*value);
  } else {
    json->Value(static_cast<int64_t>(std::llround(*value)));
  }
}

void WriteRun(const char* key, const ReportInput& input, JsonWriter* json) {
  json->Key(key).BeginObject();
  json->Field("run", input.run.name);
  json->Field("partial", !input.run.complete_as_asked());
  json->Key("verdict").BeginObject();
  json->Field("kind", input.analysis.verdict.kind).Field("text", VerdictText(input));
  json->EndObject().EndObject();
}

}  // namespace

std::string DiffText(const DiffInput& input) {
  std::string out = absl::StrCat("A  ", TextPreamble(input.a), "B  ", TextPreamble(input.b), "\n");
  absl::StrAppend(&out, DiffHeadline(input.rows), "\n");
  absl::StrAppend(&out, "A: ", VerdictText(input.a), "\n");
  absl::StrAppend(&out, "B: ", VerdictText(input.b), "\n\n");
  Table table;
  table.columns = {{"figure", Align::kLeft, true}, {"A"}, {"B"}, {"change"}, {"", Align::kLeft}};
  const bool a_alone = IsUsageOnly(input.b.run), b_alone = IsUsageOnly(input.a.run);
  size_t left_out = 0;
  for (const DiffRow& row : input.rows) {
    // What one of them was told not to record has neither come nor gone.
    if ((b_alone && !row.a.has_value()) || (a_alone && !row.b.has_value())) {
      ++left_out;
      continue;
    }
    table.rows.push_back({row.name, ValueText(row.a, row.unit), ValueText(row.b, row.unit),
                          ChangeText(row), JudgementText(row)});
  }
  absl::StrAppend(&out, RenderTable(table));
  if (left_out > 0) {
    absl::StrAppend(&out, "... ", FormatPlural(left_out, "figure"), " of ", a_alone ? "A" : "B",
                    " alone: probe-report summary\n");
  }
  if (!input.conditions.empty()) out += "\n";
  for (const DiffInput::Checked& checked : input.conditions) {
    absl::StrAppend(&out, checked.holds ? "FAIL  " : "pass  ", checked.condition.text, "\n");
  }
  return out;
}

std::string DiffJson(const DiffInput& input) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema", "gpuprobe.diff/1");
  json.Field("partial", !input.a.run.complete_as_asked() || !input.b.run.complete_as_asked());
  WriteRun("a", input.a, &json);
  WriteRun("b", input.b, &json);
  json.Field("text", DiffHeadline(input.rows));
  json.Key("figures").BeginArray();
  for (const DiffRow& row : input.rows) {
    json.BeginObject().Field("figure", row.name).Field("unit", UnitKey(row.unit));
    WriteNumber("a", row.a, row.unit, &json);
    WriteNumber("b", row.b, row.unit, &json);
    json.Key("relative");
    if (const std::optional<double> relative = row.relative(); relative.has_value()) {
      json.Value(*relative);
    } else {
      json.Null();
    }
    json.Key("improved");
    if (const std::optional<bool> improved = row.improved(); improved.has_value()) {
      json.Value(*improved);
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Key("conditions").BeginArray();
  for (const DiffInput::Checked& checked : input.conditions) {
    json.BeginObject().Field("condition", checked.condition.text).Field("holds", checked.holds);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return out + "\n";
}

std::string DiffCsv(const DiffInput& input) {
  Table table;
  for (const char* title : {"figure", "unit", "a", "b", "relative", "improved"}) {
    table.columns.push_back({title});
  }
  const auto number = [](std::optional<double> value) {
    return value.has_value() ? PlainNumber(*value) : "";
  };
  for (const DiffRow& row : input.rows) {
    const std::optional<bool> improved = row.improved();
    table.rows.push_back({row.name, UnitKey(row.unit), number(row.a), number(row.b),
                          number(row.relative()),
                          !improved.has_value() ? ""
                          : *improved           ? "1"
                                                : "0"});
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools

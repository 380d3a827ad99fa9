// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/report.h"

namespace gpuprobe::tools {
namespace {

using Renderer = std::string (*)(const ReportInput&);
struct Report {
  const char* name;
  Renderer text, json, csv;
};
// In the order of ReportKind.
constexpr Report kReports[] = {
    {"summary", SummaryText, SummaryJson, SummaryCsv},
    {"gaps", GapsText, GapsJson, GapsCsv},
    {"waits", WaitsText, WaitsJson, WaitsCsv},
    {"kernels", KernelsText, KernelsJson, KernelsCsv},
    {"copies", CopiesText, CopiesJson, CopiesCsv},
    {"api", ApiText, ApiJson, ApiCsv},
    {"steps", StepsText, StepsJson, StepsCsv},
    {"hot", HotText, HotJson, HotCsv},
    {"diff", nullptr, nullptr, nullptr},
    {"info", InfoText, InfoJson, InfoCsv},
    {"dump", nullptr, nullptr, nullptr},
    {"gap", GapText, GapJson, GapCsv},
};

}  // namespace

const char* ReportName(ReportKind kind) { return kReports[static_cast<size_t>(kind)].name; }

std::string RenderReport(ReportKind kind, Format format, const ReportInput& input) {
  const Report& report = kReports[static_cast<size_t>(kind)];
  switch (format) {
    case Format::kText:
      return report.text(input);
    case Format::kJson:
      return report.json(input) + "\n";
    case Format::kCsv:
      return report.csv(input);
  }
  return "";
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Renderers: what was loaded and analysed -> text, JSON or CSV. Pure: they neither read files nor
// decide anything; the JSON keys are a promise (schema "gpuprobe.<report>/1"), the text is for
// people.
#ifndef GPUPROBE_TOOLS_REPORT_REPORT_H_
#define GPUPROBE_TOOLS_REPORT_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/format/format_json.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

struct ActivityTables;
struct HotReport;

enum class ReportKind {
  kSummary,
  kGaps,
  kWaits,
  kKernels,
  kCopies,
  kApi,
  kSteps,
  kHot,
  kDiff,
  kInfo,
  kDump,
  kGap  // one of kGaps
};
enum class Format { kText, kJson, kCsv };
const char* ReportName(ReportKind kind);  // "summary", ...

// Which gap to explain: by its rank in the list, or the one at a time.
struct GapChoice {
  uint64_t rank = 1;
  std::optional<int64_t> at_ns;  // absolute trace time; goes before the rank
};

struct ReportInput {
  const LoadedRun& run;
  const Analysis& analysis;
  Options options;                        // the window in absolute trace time
  std::optional<int> top;                 // rows to list; nullopt: the report's default; 0: all
  std::optional<GapChoice> explain = {};  // for ReportKind::kGap, which FindGap() has found
  // Of a run that was read in windows (LoadedRun::counted): what its records would give.
  const ActivityTables* tables = nullptr;
  const HotReport* hot = nullptr;
  // What the times in the text count from: the run's first GPU operation; nullopt: the first of
  // what was analysed.
  std::optional<int64_t> origin_ns = {};
};

// Everything but `dump`, which is a stream (report_dump.h), and `diff`, which has two inputs
// (report_diff.h). Ends in a newline.
std::string RenderReport(ReportKind kind, Format format, const ReportInput& input);

// One function for each report and format.
std::string SummaryText(const ReportInput& input);
std::string SummaryJson(const ReportInput& input);
std::string SummaryCsv(const ReportInput& input);
std::string GapsText(const ReportInput& input);
std::string GapsJson(const ReportInput& input);
std::string GapsCsv(const ReportInput& input);
std::string GapText(const ReportInput& input);
std::string GapJson(const ReportInput& input);
std::string GapCsv(const ReportInput& input);
std::string WaitsText(const ReportInput& input);
std::string WaitsJson(const ReportInput& input);
std::string WaitsCsv(const ReportInput& input);
std::string KernelsText(const ReportInput& input);
std::string KernelsJson(const ReportInput& input);
std::string KernelsCsv(const ReportInput& input);
std::string CopiesText(const ReportInput& input);
std::string CopiesJson(const ReportInput& input);
std::string CopiesCsv(const ReportInput& input);
std::string ApiText(const ReportInput& input);
std::string ApiJson(const ReportInput& input);
std::string ApiCsv(const ReportInput& input);
std::string StepsText(const ReportInput& input);
std::string StepsJson(const ReportInput& input);
std::string StepsCsv(const ReportInput& input);
std::string HotText(const ReportInput& input);
std::string HotJson(const ReportInput& input);
std::string HotCsv(const ReportInput& input);
std::string InfoText(const ReportInput& input);
std::string InfoJson(const ReportInput& input);
std::string InfoCsv(const ReportInput& input);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_REPORT_H_

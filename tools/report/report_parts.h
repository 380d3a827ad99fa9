// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What several reports say in the same way.
#ifndef GPUPROBE_TOOLS_REPORT_REPORT_PARTS_H_
#define GPUPROBE_TOOLS_REPORT_REPORT_PARTS_H_

#include <cstdint>
#include <string>

#include "tools/format/format_json.h"
#include "tools/format/format_table.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

// Launches were recorded but not one kernel or graph: CUPTI delivered no GPU records (no privilege,
// broken version, dead session). "The GPU was idle" would then be a lie, so no idle figure may be
// printed.
struct KernelRecordsCheck {
  bool unavailable = false;
  uint64_t launches = 0;
  std::string reason;  // from the capture: CUPTI's answer, or that it gave none
};
KernelRecordsCheck CheckKernelRecords(const ReportInput& input);

// Every process of the run was told to record nothing but what it used (GPUPROBE_CAPTURE=off).
bool IsUsageOnly(const LoadedRun& run);
// What can be said of such a run in the place of a verdict.
inline constexpr char kUsageOnlyVerdict[] =
    "Nothing to judge: GPUPROBE_CAPTURE=off records how long the process took and the CPU time "
    "that it used, nothing of the GPU and of what threads did. Two runs side by side: "
    "probe-report diff A B";

// "complete, nothing lost", or what is missing.
std::string Completeness(const ReportInput& input);
// "gpuprobe: run NAME, 5 processes, 1 GPU (NVIDIA H200), 6.41 s, complete, nothing lost\n"
std::string HeaderLine(const ReportInput& input);
// Header, and one line for each file with a problem, each unusable input and each notice.
std::string TextPreamble(const ReportInput& input);

struct LossTotals {
  uint64_t cupti_dropped = 0, ring_dropped = 0, damaged_bytes = 0;
};
LossTotals SumLosses(const LoadedRun& run);

// Opens the object and writes schema, partial, run, inputs; the caller goes on and ends with
// EndReport, which writes `loss` and closes the object.
void BeginReport(ReportKind kind, const ReportInput& input, JsonWriter* json);
void EndReport(const ReportInput& input, JsonWriter* json);

// "0 NVIDIA H200"
std::string DeviceLabel(const Timeline& timeline, int32_t device);
void WriteWindow(const Window& window, JsonWriter* json);
void WriteWait(const WaitRow& wait, JsonWriter* json);
// One element of the list "meanwhile".
void WriteOneMeanwhile(const Meanwhile& meanwhile, JsonWriter* json);

// Seconds since the run's first GPU operation, "1.234567s": what --from and --to take.
int64_t Origin(const ReportInput& input);
std::string RelativeTime(int64_t ns, int64_t origin_ns);

// What a person reads as the place of a part; empty if there is none.
std::string WhereOf(const Analysis& analysis, const GapPart& part);
std::string WhereOf(const WaitRow& wait);

// "kernel", "copy", "set", "graph"; what a person calls the operation: the short kernel name,
// "Host-to-Device pageable", "memset", "CUDA graph 7".
const char* OpKindKey(OpKind kind);
std::string OpLabel(const Timeline& timeline, const GpuOp& op, size_t width, KernelNames* names);
// "Host-to-Device pageable", "Peer-to-Peer", ...
std::string CopyOperation(const CopyShape& shape);

// Rows to show of `rows`: the user's --top, else `fallback` (0: all).
size_t RowLimit(const ReportInput& input, size_t rows, size_t fallback);
// "... 12 more (--top 0 lists all)\n", empty if nothing was left out.
std::string MoreLine(size_t shown, size_t rows, size_t indent);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_REPORT_PARTS_H_

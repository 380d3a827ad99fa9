// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Totals by name for `kernels`, `copies` and `api`: the columns that nsys users know, computed
// exactly.
#ifndef GPUPROBE_TOOLS_FIGURES_ACTIVITY_STATS_H_
#define GPUPROBE_TOOLS_FIGURES_ACTIVITY_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Of a set of durations. Averages, medians and deviations are rounded to whole ns; the median of an
// even number is the mean of the middle two; the deviation is that of a sample (n - 1).
struct DurationStats {
  uint64_t count = 0;
  int64_t total_ns = 0, avg_ns = 0, med_ns = 0, min_ns = 0, max_ns = 0, stddev_ns = 0;
  bool med_exact = true;  // false: within one part in 128 (activity_counter.h)
};
DurationStats ComputeStats(std::vector<int64_t>* durations);  // reorders them

struct ActivityRow {
  std::string name;     // as shown: demangled, "Host-to-Device pageable", "cudaMalloc"
  std::string mangled;  // kernels; else empty
  DurationStats stats;
  uint64_t bytes = 0;   // copies and sets
  uint64_t failed = 0;  // calls with a result other than success
};

struct ActivityTable {
  std::vector<ActivityRow> rows;  // by total, descending; ties by name
  int64_t total_ns = 0;           // of all rows: 100 % of "Time %"
  int64_t wall_ns = 0;            // spans of the windows of the devices looked at
  uint64_t untimed = 0;           // records without usable times: in no row
};

struct ActivityTables {
  ActivityTable kernels, copies, api;
};

void SortRows(ActivityTable* table);
std::string GraphRowName(const Timeline& timeline, int32_t process, uint32_t graph_id);

// What starts inside the windows of `analysis` and fits device and pid of `options`. Calls have no
// device and matter before the first kernel too (allocation, module load): they count wherever they
// start, unless the user gave a window.
ActivityTable KernelTable(const Timeline& timeline, const Analysis& analysis,
                          const Options& options);
ActivityTable CopyTable(const Timeline& timeline, const Analysis& analysis, const Options& options);
ActivityTable ApiTable(const Timeline& timeline, const Analysis& analysis, const Options& options);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_ACTIVITY_STATS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// From trace files to the figures of a run that is too long to be held at once: one thread reads
// and decodes windows of records, the caller's and one beside it analyse the one before, and a
// fourth follows the steps of the one before that (windowed_analysis.h). They keep two cores busy.
// From three CPUs on that this process may use frames are read by a thread of their own, from four
// on one more attributes the gaps of a window while the caller's prepares the next: these two are
// what the rest waits for then, with half of the caller's work each. All figures are the same.
//
// Files are read twice. The first pass takes everything but the columns of the batches, and of each
// frame its earliest time: names, threads, devices, samples, losses and what else must be known
// before the first record is looked at. The second takes frames of all files in the order in which
// they were written. A window's horizon is the earliest time of any frame that has not been read,
// so a record that came late (a long call, a buffer that CUPTI held back) is in its window; what
// has been read beyond the horizon waits. Memory is that of three windows (of four and two frames
// where gaps are attributed by another thread), and of what such records keep waiting: all records
// since the start of the earliest one.
//
// Host samples and the ranges that markers make are held for the whole run: 72 bytes each of up to
// kMostHostSamples (trace_loader.h), of more every other one and so on (load_samples.h); 40 bytes
// a range.
#ifndef GPUPROBE_TOOLS_WINDOWED_WINDOWED_RUN_H_
#define GPUPROBE_TOOLS_WINDOWED_WINDOWED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "tools/analysis/analysis.h"
#include "tools/figures/activity_stats.h"
#include "tools/figures/hot.h"
#include "tools/load/files/input_files.h"
#include "tools/load/trace_loader.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {

// A notice of every run that was read so; what it lacks is said where it lacks something.
inline constexpr char kWindowsNotice[] = "read in windows, not held at once";

struct WindowedOptions {
  // Of a window, if no record comes late. Smaller ones spend more on what is carried on, larger
  // ones memory: some 60 bytes a record for each of three windows, 300 for the analysis of one.
  size_t records = 131'072;
  WindowLimits limits;
  size_t most_samples = kMostHostSamples;
  bool with_tables = false;  // those of `kernels`, `copies`, `api`
  bool with_hot = false;     // that of `hot`
  // Before anything is copied from the outline: native functions get their names.
  std::function<void(Timeline*)> prepare;
  // Asked with the outline and the first records of the run; an error ends it.
  std::function<absl::StatusOr<Options>(const Timeline&)> choose;
};

struct WindowedRun {
  LoadedRun run;  // its Timeline: the outline and the records that the analysis names
  Options options;
  Analysis analysis;
  ActivityTables tables;  // empty without with_tables
  HotReport hot;          // empty without with_hot
  // Several devices communicate, and what their ranks waited for each other is estimated for each
  // alone: Analysis::ranks is not known.
  bool ranks_not_side_by_side = false;
};

// Unimplemented: not gpuprobe's own traces. Other errors as LoadRun().
absl::StatusOr<WindowedRun> LoadInWindows(const InputFiles& files, const WindowedOptions& options);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WINDOWED_RUN_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Traces of several runs in one folder (a fixed GPUPROBE_OUT, files copied together) would be
// reported as one, the time between them as idle. Nothing in the files forbids it: a script may run
// one program after the other. So it is said, not refused.
#ifndef GPUPROBE_TOOLS_LOAD_FILES_SEVERAL_RUNS_H_
#define GPUPROBE_TOOLS_LOAD_FILES_SEVERAL_RUNS_H_

#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// Longer than ranks of one job start apart from each other, or hosts' clocks differ.
inline constexpr int64_t kApartNs = 10'000'000'000;

// Looks at gpuprobe's own traces, on the timeline's clock. Evidence: processes in groups between
// which there are more than kApartNs in which none lived, and no process of which started one of
// the other, nor had the same parent; or had the same parent, and the same command line: the same
// program again. Adds a notice.
void NoteSeveralRuns(LoadedRun* run);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_FILES_SEVERAL_RUNS_H_

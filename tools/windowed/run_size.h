// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// How much memory a run takes that is held at once, and from when on that would hurt.
#ifndef GPUPROBE_TOOLS_WINDOWED_RUN_SIZE_H_
#define GPUPROBE_TOOLS_WINDOWED_RUN_SIZE_H_

#include <cstdint>
#include <string>

#include "tools/load/files/input_files.h"

namespace gpuprobe::tools {

// Of gpuprobe's own traces among the files: others are not read in windows.
uint64_t TraceBytes(const InputFiles& files);

// An estimate of the peak: 62 bytes for each record when it is loaded and 77 more when it is
// analysed (bench_report, 8 M records, as many gaps as kernels), for the 3 that it takes in a file.
constexpr uint64_t WholeRunBytes(uint64_t trace_bytes) { return trace_bytes * 139 / 3; }

// What can be had without swapping, by /proc/meminfo and the limits of this process's control
// groups (version 2); 0: not known. `root`: where / is, for tests.
uint64_t AvailableMemoryBytes(const std::string& root = "");

// From here on a run takes three gigabytes, which hurts however much there is.
inline constexpr uint64_t kLargeTraceBytes = 64u << 20;

// Is the run better read in windows, with what that leaves out (windowed_analysis.h)?
constexpr bool IsForWindows(uint64_t trace_bytes, uint64_t available_bytes) {
  return trace_bytes > kLargeTraceBytes ||
         (available_bytes > 0 && WholeRunBytes(trace_bytes) > available_bytes / 2);
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_RUN_SIZE_H_

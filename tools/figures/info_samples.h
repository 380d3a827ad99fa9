// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host sampler's part of `info`: how much was looked at, and what could not be.
#ifndef GPUPROBE_TOOLS_FIGURES_INFO_SAMPLES_H_
#define GPUPROBE_TOOLS_FIGURES_INFO_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/format/format_json.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// What of each process is in the Timeline; parallel to Timeline::processes.
struct SampledView {
  uint64_t samples = 0, threads = 0;
  int64_t sampled_ns = 0;               // of its SampledPeriods
  int64_t observed_ns = 0;              // of all intervals of its threads ...
  int64_t cpu_ns = 0, runnable_ns = 0;  // ... on a CPU, and waiting for one
};
std::vector<SampledView> ViewSamples(const Timeline& timeline);

// Label and text of each line about the sampler of one process, and about what the process used.
std::vector<std::pair<std::string, std::string>> SamplerLines(const LoadedRun& run,
                                                              const std::vector<SampledView>& views,
                                                              size_t process);

// "CHILDREN", a row for each process that was only looked at; empty if there is none.
std::string ChildrenBlock(const LoadedRun& run, const std::vector<SampledView>& views);

// Key `sampler` (null if there was none) and `usage` (null if not recorded), into a process.
void WriteSampler(const LoadedRun& run, const std::vector<SampledView>& views, size_t process,
                  JsonWriter* json);
// Key `sampled_processes`: all processes that were looked at, with or without a trace.
void WriteSampledProcesses(const LoadedRun& run, const std::vector<SampledView>& views,
                           JsonWriter* json);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_INFO_SAMPLES_H_

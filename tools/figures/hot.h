// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where the sampled threads and processes spent their time, by line: what a sampling profiler
// shows, and how much of it the GPU was idle for. Pure.
#ifndef GPUPROBE_TOOLS_FIGURES_HOT_H_
#define GPUPROBE_TOOLS_FIGURES_HOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// One place of one thread, or of all workers of a process together. Each sample stands for the time
// since the look before it, and is booked by what it saw: on a CPU or ready to run, in the kernel's
// ratio of the two, if the thread was running; blocked if it was. (The kernel's CPU time of an
// interval belongs to whatever the thread did in it: booked on the line at its end it would make
// sleeps burn CPU.) The times add up to total_ns.
struct HotRow {
  std::string who;     // "thread 411 python", "4 workers of 411"
  std::string where;   // "train.py:27 in main"; "(no stack)" where none could be read
  std::string detail;  // the most frequent of what it stood in there; may be empty
  int64_t on_cpu_ns = 0, runnable_ns = 0, blocked_ns = 0;
  int64_t unknown_ns = 0;   // the source does not tell the thread's state (imported stacks)
  int64_t gpu_idle_ns = 0;  // of the total: at these looks every device of the run was idle
  uint64_t samples = 0;
  // What may have burnt a CPU, or stood in line for one.
  int64_t awake_ns() const { return on_cpu_ns + runnable_ns + unknown_ns; }
  int64_t total_ns() const { return awake_ns() + blocked_ns; }
};

struct HotReport {
  std::vector<HotRow> rows;  // by awake_ns(), then by blocked_ns, both descending
  int64_t sampled_ns = 0;    // wall time under the sampler's eyes, of all processes that record
  uint64_t samples = 0;      // in scope
};

// `options`: from_ns, to_ns and pid narrow it; workers belong to the process whose descendants they
// are.
HotReport FindHotLines(const Timeline& timeline, const Analysis& analysis, const Options& options);
// `idle`: whether every device of the run was idle when each sample was taken.
HotReport FindHotLines(const Timeline& timeline, const Options& options,
                       const std::vector<bool>& idle);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_HOT_H_

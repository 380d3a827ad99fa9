// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A run in a few named numbers: what `diff` lays side by side and --fail-if names. Pure.
#ifndef GPUPROBE_TOOLS_FIGURES_RUN_FIGURES_H_
#define GPUPROBE_TOOLS_FIGURES_RUN_FIGURES_H_

#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

enum class FigureUnit : uint8_t {
  kTime,   // ns
  kShare,  // 0 to 1, of the window unless the name says otherwise
  kCount,  // of things, total or per step
  kBytes,
  kPerSecond,
};
enum class Better : uint8_t { kLower, kHigher, kNeither };

struct Figure {
  std::string name;  // "idle", "idle:input_wait", "step": what --fail-if takes
  double value;
  FigureUnit unit;
  Better better;
};

// In the order in which a person wants them. What a run cannot tell is not in the list: a run with
// GPUPROBE_CAPTURE=off has `wall`, `cpu` and `lost` alone.
//
//   wall             longest life of a process that used the GPU (start of process to end of trace)
//   cpu              CPU time of these processes and of the children they waited for
//   window           first to last GPU operation, longest of the devices
//   idle, compute, communication, copy     shares of the windows, all devices together
//   idle:CAUSE       share of the windows
//   kernels, copied_bytes                  in all
//   step, step_p90   duration of the repeating step (tools/steps/steps.h), median and 90th
//   percentile step_mean        its mean: what stalls now and then cost is in it steps_per_second,
//   step_operations      operations: median of a step step_idle, step_idle:CAUSE             mean a
//   step blocked          time that threads were blocked in CUDA calls, as a share of the windows;
//   several
//                    threads may make it more than 1
//   lost             records lost
std::vector<Figure> FiguresOf(const Timeline& timeline, const Analysis& analysis);

// nullptr: the run does not have it.
const Figure* FindFigure(const std::vector<Figure>& figures, const std::string& name);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_RUN_FIGURES_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/run_figures.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tools/analysis/verdict_facts.h"

namespace gpuprobe::tools {
namespace {

class Figures {
 public:
  void Add(std::string name, double value, FigureUnit unit, Better better) {
    figures_.push_back({std::move(name), value, unit, better});
  }
  std::vector<Figure> Take() { return std::move(figures_); }

 private:
  std::vector<Figure> figures_;
};

void AddProcessFigures(const Timeline& timeline, Figures* out) {
  int64_t wall_ns = 0, cpu_ns = 0;
  for (const Process& process : timeline.processes) {
    if (process.sampled_only) continue;
    wall_ns = std::max(wall_ns, process.wall_ns);
    cpu_ns += process.user_cpu_ns + process.system_cpu_ns + process.children_cpu_ns;
  }
  if (wall_ns == 0) return;
  out->Add("wall", static_cast<double>(wall_ns), FigureUnit::kTime, Better::kLower);
  out->Add("cpu", static_cast<double>(cpu_ns), FigureUnit::kTime, Better::kLower);
}

void AddDeviceFigures(const Analysis& analysis, Figures* out) {
  const Sums sums = SumUp(analysis);
  if (sums.span_ns == 0) return;
  const double span = static_cast<double>(sums.span_ns);
  const auto share = [&](const std::string& name, int64_t ns, Better better) {
    out->Add(name, static_cast<double>(ns) / span, FigureUnit::kShare, better);
  };
  out->Add("window", static_cast<double>(sums.longest_span_ns), FigureUnit::kTime, Better::kLower);
  share("idle", sums.span_ns - sums.busy_ns, Better::kLower);
  for (size_t c = 0; c < sums.cause_ns.size(); ++c) {
    if (sums.cause_ns[c] == 0) continue;
    share(std::string("idle:") + CauseKey(static_cast<Cause>(c)), sums.cause_ns[c], Better::kLower);
  }
  share("compute", sums.compute_ns, Better::kNeither);
  share("communication", sums.communication_ns, Better::kLower);
  share("copy", sums.copy_ns, Better::kLower);
  int64_t blocked_ns = 0;
  for (const WaitRow& wait : analysis.waits) blocked_ns += wait.total_ns;
  share("blocked", blocked_ns, Better::kNeither);
  out->Add("kernels", static_cast<double>(sums.kernels), FigureUnit::kCount, Better::kNeither);
  uint64_t copied_bytes = 0;
  for (const DeviceReport& device : analysis.devices) copied_bytes += device.copies.bytes;
  out->Add("copied_bytes", static_cast<double>(copied_bytes), FigureUnit::kBytes, Better::kNeither);
}

// Of the device with most steps: devices of one job step together, and means over different loops
// would describe neither.
void AddStepFigures(const Analysis& analysis, Figures* out) {
  const DeviceSteps* main = nullptr;
  for (const DeviceSteps& device : analysis.steps) {
    if (main == nullptr || device.count > main->count) main = &device;
  }
  if (main == nullptr || main->steps.empty()) return;
  const double count = static_cast<double>(main->count);
  const int64_t idle_ns = main->all.idle_ns;
  const std::array<int64_t, kCauseCount>& causes = main->all.cause_ns;
  const auto time = [&](const std::string& name, double ns) {
    out->Add(name, ns, FigureUnit::kTime, Better::kLower);
  };
  time("step", static_cast<double>(main->median_ns));
  time("step_mean", static_cast<double>(main->window().span()) / count);
  time("step_p90", static_cast<double>(main->p90_ns));
  const double seconds = static_cast<double>(main->window().span()) / 1e9;
  if (seconds > 0) {
    out->Add("steps_per_second", count / seconds, FigureUnit::kPerSecond, Better::kHigher);
  }
  out->Add("step_operations", static_cast<double>(main->typical_ops), FigureUnit::kCount,
           Better::kNeither);
  time("step_idle", static_cast<double>(idle_ns) / count);
  for (size_t c = 0; c < causes.size(); ++c) {
    if (causes[c] == 0) continue;
    time(std::string("step_idle:") + CauseKey(static_cast<Cause>(c)),
         static_cast<double>(causes[c]) / count);
  }
}

}  // namespace

std::vector<Figure> FiguresOf(const Timeline& timeline, const Analysis& analysis) {
  Figures figures;
  AddProcessFigures(timeline, &figures);
  AddDeviceFigures(analysis, &figures);
  AddStepFigures(analysis, &figures);
  // Other profilers' files do not tell, and neither does a file without a record.
  const bool told =
      !timeline.processes.empty() &&
      std::all_of(timeline.processes.begin(), timeline.processes.end(),
                  [](const Process& p) { return p.source == SourceKind::kGpuprobe; }) &&
      std::any_of(timeline.inputs.begin(), timeline.inputs.end(),
                  [](const InputFile& input) { return input.records > 0; });
  if (told) {
    uint64_t lost = 0;
    for (const LossItem& loss : timeline.losses) lost += loss.count;
    figures.Add("lost", static_cast<double>(lost), FigureUnit::kCount, Better::kLower);
  }
  return figures.Take();
}

const Figure* FindFigure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

}  // namespace gpuprobe::tools

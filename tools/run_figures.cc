// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run_figures.h"

#include <algorithm>
#include <array>
#include <cstdint>

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

struct DeviceSums {
  int64_t span_ns = 0, longest_ns = 0, idle_ns = 0, compute_ns = 0, communication_ns = 0,
          copy_ns = 0;
  uint64_t kernels = 0, copied_bytes = 0;
  std::array<int64_t, kCauseCount> causes{};
};

DeviceSums SumDevices(const Analysis& analysis) {
  DeviceSums sums;
  for (const DeviceReport& device : analysis.devices) {
    sums.span_ns += device.window.span();
    sums.longest_ns = std::max(sums.longest_ns, device.window.span());
    sums.idle_ns += device.idle_ns;
    sums.compute_ns += device.compute_ns;
    sums.communication_ns += device.communication_ns;
    sums.copy_ns += device.copy_ns;
    sums.kernels += device.kernels.count;
    sums.copied_bytes += device.copies.bytes;
    for (const CauseTotal& cause : device.causes) {
      sums.causes[static_cast<size_t>(cause.cause)] += cause.total_ns;
    }
  }
  return sums;
}

void AddDeviceFigures(const Analysis& analysis, Figures* out) {
  const DeviceSums sums = SumDevices(analysis);
  if (sums.span_ns == 0) return;
  const double span = static_cast<double>(sums.span_ns);
  const auto share = [&](const std::string& name, int64_t ns, Better better) {
    out->Add(name, static_cast<double>(ns) / span, FigureUnit::kShare, better);
  };
  out->Add("window", static_cast<double>(sums.longest_ns), FigureUnit::kTime, Better::kLower);
  share("idle", sums.idle_ns, Better::kLower);
  for (size_t c = 0; c < sums.causes.size(); ++c) {
    if (sums.causes[c] == 0) continue;
    share(std::string("idle:") + CauseKey(static_cast<Cause>(c)), sums.causes[c], Better::kLower);
  }
  share("compute", sums.compute_ns, Better::kNeither);
  share("communication", sums.communication_ns, Better::kLower);
  share("copy", sums.copy_ns, Better::kLower);
  int64_t blocked_ns = 0;
  for (const WaitRow& wait : analysis.waits) blocked_ns += wait.total_ns;
  share("blocked", blocked_ns, Better::kNeither);
  out->Add("kernels", static_cast<double>(sums.kernels), FigureUnit::kCount, Better::kNeither);
  out->Add("copied_bytes", static_cast<double>(sums.copied_bytes), FigureUnit::kBytes,
           Better::kNeither);
}

}  // namespace

std::vector<Figure> FiguresOf(const Timeline& timeline, const Analysis& analysis) {
  Figures figures;
  AddProcessFigures(timeline, &figures);
  AddDeviceFigures(analysis, &figures);
  uint64_t lost = 0;
  for (const LossItem& loss : timeline.losses) lost += loss.count;
  figures.Add("lost", static_cast<double>(lost), FigureUnit::kCount, Better::kLower);
  return figures.Take();
}

const Figure* FindFigure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

}  // namespace gpuprobe::tools

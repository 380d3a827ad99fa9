// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/sums/verdict_counts.h"

#include <algorithm>
#include <limits>

#include "tools/timeline/host_view.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();

int64_t Overlap(int64_t begin_ns, int64_t end_ns, const Window& window) {
  return std::min(end_ns, window.end_ns) - std::max(begin_ns, window.start_ns);
}

}  // namespace

void VerdictCounts::Add(const Timeline& timeline, const GpuOp& op, const Window& steady) {
  if (op.device < 0) return;
  const Window users = {options_.from_ns.value_or(kLongAgo), options_.to_ns.value_or(kNever)};
  const int64_t ns = Overlap(op.start_ns, op.end_ns, users);
  if (ns <= 0) return;
  auto& parts = devices_[static_cast<size_t>(op.device)].parts;
  if (op.end_ns <= steady.start_ns) return AddTo(timeline, op, ns, &parts[kBefore]);
  if (op.start_ns >= steady.end_ns) return AddTo(timeline, op, ns, &parts[kAfter]);
  if (op.start_ns >= steady.start_ns && op.end_ns <= steady.end_ns)
    return AddTo(timeline, op, ns, &parts[kSteady]);
  AddTo(timeline, op, ns, &parts[kAcross]);
  AddTo(timeline, op, Overlap(op.start_ns, op.end_ns, steady), &parts[kSteadyOfAcross]);
}

void VerdictCounts::AddTo(const Timeline& timeline, const GpuOp& op, int64_t ns, OfPart* part) {
  if (op.kind == OpKind::kCopy) {
    part->copies_ns += ns;
    if (IsPageableCopy(timeline, op)) part->pageable_ns += ns;
  }
  if (op.kind != OpKind::kKernel) return;
  if (op.name >= 0 && communication_names_[static_cast<size_t>(op.name)]) {
    // One that is cut says nothing about the time that it takes.
    const int64_t length_ns = op.end_ns - op.start_ns;
    if (ns == length_ns) part->collectives[{op.name, op.shape}].Add(length_ns);
    return;
  }
  if (op.shape < 0) return;
  if (part->kernels.empty()) part->kernels.resize(timeline.shapes.size());
  Kernels& kernels = part->kernels[static_cast<size_t>(op.shape)];
  kernels.ns += ns;
  ++kernels.count;
}

std::map<uint64_t, VerdictCounts::Kernels> VerdictCounts::SmallKernels(
    const Timeline& timeline, size_t device, const std::vector<Part>& parts) const {
  const double sms = timeline.devices[device].sm_count;
  std::map<uint64_t, Kernels> small;
  for (const Part part : parts) {
    const std::vector<Kernels>& kernels = devices_[device].parts[part].kernels;
    for (size_t s = 0; s < kernels.size(); ++s) {
      const LaunchShape& shape = timeline.shapes[s];
      const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
      if (kernels[s].count == 0 || blocks == 0 || static_cast<double>(blocks) >= kFewBlocks * sms)
        continue;
      small[blocks].ns += kernels[s].ns;
      small[blocks].count += kernels[s].count;
    }
  }
  return small;
}

std::vector<VerdictCounts::Part> VerdictCounts::PartsOf(const Window* steady) {
  if (steady == nullptr) return {kBefore, kSteady, kAfter, kAcross};
  return {kSteady, kSteadyOfAcross};
}

RunEvidence VerdictCounts::Take(const Timeline& timeline, const Analysis& analysis,
                                const Window* steady) const {
  const std::vector<Part> parts = PartsOf(steady);
  RunEvidence evidence;
  evidence.emptiness = MeasureSmallKernels(timeline, analysis, parts);
  int64_t copies_ns = 0, pageable_ns = 0;
  for (const OfDevice& device : devices_) {
    for (const Part part : parts) {
      copies_ns += device.parts[part].copies_ns;
      pageable_ns += device.parts[part].pageable_ns;
    }
  }
  if (copies_ns > 0)
    evidence.pageable_share = static_cast<double>(pageable_ns) / static_cast<double>(copies_ns);
  for (const DeviceReport& report : analysis.devices) {
    Window early = report.window;
    early.end_ns = early.start_ns + early.span() / 4;
    for (const Window& loading : devices_[static_cast<size_t>(report.device)].loading) {
      if (loading.start_ns >= early.end_ns) break;
      const int64_t ns = Overlap(loading.start_ns, loading.end_ns, report.window);
      evidence.loading_early_ns += std::max<int64_t>(0, ns);
    }
    evidence.waited_for_ranks_ns += WaitedForRanks(report, parts);
  }
  return evidence;
}

// MeasureEmptiness(), from sums.
Emptiness VerdictCounts::MeasureSmallKernels(const Timeline& timeline, const Analysis& analysis,
                                             const std::vector<Part>& parts) const {
  Emptiness all;
  int64_t most_ns = 0, total_ns = 0;
  std::map<uint64_t, int64_t> by_blocks;
  for (const DeviceReport& report : analysis.devices) {
    const auto d = static_cast<size_t>(report.device);
    const uint32_t sms = timeline.devices[d].sm_count;
    if (sms == 0 || report.kernels.union_ns <= 0) continue;
    const double at_once =
        static_cast<double>(report.kernels.sum_ns) / static_cast<double>(report.kernels.union_ns);
    double small_ns = 0, wasted_ns = 0;
    for (const auto& [blocks, small] : SmallKernels(timeline, d, parts)) {
      const double filled = static_cast<double>(blocks) * at_once / sms;
      if (filled >= kFewBlocks) continue;
      all.small_kernels += small.count;
      small_ns += static_cast<double>(small.ns) / at_once;
      wasted_ns += static_cast<double>(small.ns) / at_once * (1 - filled);
      by_blocks[blocks] += small.ns;
      total_ns += small.ns;
    }
    all.small_ns += static_cast<int64_t>(small_ns);
    all.wasted_ns += static_cast<int64_t>(wasted_ns);
    if (static_cast<int64_t>(small_ns) > most_ns) {
      most_ns = static_cast<int64_t>(small_ns);
      all.sm_count = sms;
    }
  }
  int64_t so_far_ns = 0;
  for (const auto& [blocks, ns] : by_blocks) {
    so_far_ns += ns;
    all.typical_blocks = blocks;
    if (so_far_ns * 2 >= total_ns) break;
  }
  return all;
}

// WaitedForRanksNs() of one device, from counts.
int64_t VerdictCounts::WaitedForRanks(const DeviceReport& report,
                                      const std::vector<Part>& parts) const {
  if (report.communication_ns == 0) return 0;
  std::map<std::pair<int32_t, int32_t>, std::map<int64_t, uint64_t>> likes;
  for (const Part part : parts) {
    for (const auto& [key, durations] :
         devices_[static_cast<size_t>(report.device)].parts[part].collectives) {
      for (const auto& [ns, count] : durations.values()) likes[key][ns] += count;
    }
  }
  int64_t waited_ns = 0;
  for (const auto& [key, durations] : likes) {
    uint64_t count = 0, up_to = 0;
    for (const auto& [ns, times] : durations) count += times;
    if (count < kFewestLikes) continue;
    int64_t usual_ns = -1;
    for (const auto& [ns, times] : durations) {
      up_to += times;
      if (usual_ns < 0 && up_to > count / 4) usual_ns = kLateFactor * ns;
      if (usual_ns >= 0)
        waited_ns += static_cast<int64_t>(times) * std::max<int64_t>(0, ns - usual_ns);
    }
  }
  return std::min(waited_ns, report.communication_ns);
}

}  // namespace gpuprobe::tools

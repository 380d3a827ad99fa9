// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/rank_waits.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

using Collectives = std::vector<const GpuOp*>;  // by start

// By name, those of each device of the analysis.
std::map<std::string_view, std::vector<Collectives>> CollectivesByName(const Timeline& timeline,
                                                                       const Analysis& analysis) {
  std::vector<bool> communicates;
  for (const std::string& name : timeline.names)
    communicates.push_back(IsCommunicationKernel(name));
  std::vector<int> slot_of(timeline.devices.size(), -1);
  for (size_t s = 0; s < analysis.devices.size(); ++s)
    slot_of[static_cast<size_t>(analysis.devices[s].device)] = static_cast<int>(s);
  std::map<std::string_view, std::vector<Collectives>> by_name;
  for (const GpuOp& op : timeline.ops) {
    if (op.name < 0 || op.device < 0 || !communicates[static_cast<size_t>(op.name)]) continue;
    const int slot = slot_of[static_cast<size_t>(op.device)];
    if (slot < 0) continue;
    const Window& window = analysis.devices[static_cast<size_t>(slot)].window;
    if (op.start_ns < window.start_ns || op.end_ns > window.end_ns) continue;
    std::vector<Collectives>& all = by_name[timeline.names[static_cast<size_t>(op.name)]];
    all.resize(analysis.devices.size());
    all[static_cast<size_t>(slot)].push_back(&op);
  }
  return by_name;
}

// The one that shares most time with `op`; nullptr: none does. `from` moves past those that have
// ended before.
const GpuOp* Counterpart(const Collectives& others, const GpuOp& op, size_t* from) {
  constexpr size_t kLookAhead = 64;  // collectives of one name hardly ever run side by side
  while (*from < others.size() && others[*from]->end_ns <= op.start_ns) ++*from;
  const GpuOp* best = nullptr;
  int64_t most_ns = 0;
  for (size_t i = *from; i < others.size() && i < *from + kLookAhead; ++i) {
    if (others[i]->start_ns >= op.end_ns) break;
    const int64_t shared_ns =
        std::min(others[i]->end_ns, op.end_ns) - std::max(others[i]->start_ns, op.start_ns);
    if (shared_ns <= most_ns) continue;
    most_ns = shared_ns;
    best = others[i];
  }
  return best;
}

void Count(const Collectives& group, RankWaits* waits) {
  size_t last = 0;
  for (size_t r = 1; r < group.size(); ++r) {
    if (group[r]->start_ns > group[last]->start_ns) last = r;
  }
  ++waits->collectives;
  RankWaits::Rank& late = waits->ranks[last];
  ++late.entered_last;
  for (size_t r = 0; r < group.size(); ++r) {
    const int64_t ns = std::min(group[last]->start_ns, group[r]->end_ns) - group[r]->start_ns;
    waits->ranks[r].waited_ns += ns;
    late.caused_ns += ns;
  }
}

}  // namespace

std::optional<RankWaits> MeasureRankWaits(const Timeline& timeline, const Analysis& analysis) {
  if (analysis.devices.size() < 2) return std::nullopt;
  RankWaits waits;
  std::vector<size_t> seen(analysis.devices.size());
  for (const DeviceReport& device : analysis.devices) waits.ranks.push_back({device.device});
  for (const auto& [name, devices] : CollectivesByName(timeline, analysis)) {
    for (size_t s = 0; s < devices.size(); ++s) seen[s] += devices[s].size();
    std::vector<size_t> from(devices.size());
    for (const GpuOp* op : devices[0]) {
      Collectives group = {op};
      for (size_t s = 1; s < devices.size(); ++s) {
        const GpuOp* other = Counterpart(devices[s], *op, &from[s]);
        if (other == nullptr) break;
        group.push_back(other);
      }
      if (group.size() == devices.size()) Count(group, &waits);
    }
  }
  for (const size_t count : seen) {
    if (count == 0 || waits.collectives * 2 < count) return std::nullopt;
  }
  for (size_t s = 0; s < waits.ranks.size(); ++s) {
    // What ran beside a collective was no wait; the rest is what the breakdown calls communication.
    waits.exposed_ns += std::min(waits.ranks[s].waited_ns, analysis.devices[s].communication_ns);
  }
  return waits;
}

int32_t RankOf(const Timeline& timeline, int32_t device) {
  int32_t rank = -1;
  for (const GpuOp& op : timeline.ops) {
    if (op.device != device || op.process < 0) continue;
    rank = timeline.processes[static_cast<size_t>(op.process)].rank;
    break;
  }
  return rank;
}

std::string RankText(const Timeline& timeline, int32_t device) {
  const int32_t rank = RankOf(timeline, device);
  const std::string gpu = "GPU " + std::to_string(DeviceNumber(timeline, device));
  return rank < 0 ? gpu : "rank " + std::to_string(rank) + " (" + gpu + ")";
}

}  // namespace gpuprobe::tools

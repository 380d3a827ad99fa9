// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/staging.h"

namespace gpuprobe::proto {
namespace {

// Share of the largest classes that the rarer ones get. On recorded PyTorch steps copies, sets,
// synchronisations and events are each below 3 % of the kernels and API calls.
constexpr uint32_t kRareShare = 4;
constexpr uint32_t kVeryRareShare = 16;

}  // namespace

void Staging::Take(Arena* arena, uint32_t max_records) {
  const uint32_t rare = max_records / kRareShare + 1;
  const uint32_t very_rare = max_records / kVeryRareShare + 1;
  kernels.Take(arena, max_records);
  kernel_graphs = arena->Take<KernelGraph>(max_records);
  kernel_latencies = arena->Take<KernelLatency>(max_records);
  api.Take(arena, max_records);
  api_results = arena->Take<int32_t>(max_records);
  copies.Take(arena, rare);
  sets.Take(arena, rare);
  syncs.Take(arena, rare);
  cuda_events.Take(arena, rare);
  graphs.Take(arena, rare);
  overheads.Take(arena, very_rare);
  markers.Take(arena, rare);
  lanes = arena->Take<Lane>(kMaxLanes);
  lane_index.Take(arena);
  order = arena->Take<uint32_t>(max_records);
  next = arena->Take<uint32_t>(kMaxLanes);
  ForgetQuickLanes();
}

void Staging::ForgetQuickLanes() {
  for (uint16_t& lane : quick_kernel_lane) lane = kNoLane;
  for (uint16_t& lane : quick_api_lane) lane = kNoLane;
}

void Staging::Clear() {
  kernels.size = api.size = copies.size = sets.size = 0;
  graphs.size = syncs.size = cuda_events.size = overheads.size = markers.size = 0;
  lane_count = 0;
  lane_index.Clear();
  for (int& lane : last_lane) lane = -1;
  ForgetQuickLanes();
  first_ns = INT64_MAX;
  last_ns = INT64_MIN;
}

int Staging::LaneOf(LaneClass lane_class, Timing timing, uint32_t device, uint32_t context,
                    uint32_t stream) {
  int& last = last_lane[static_cast<size_t>(lane_class)];
  if (last >= 0) {  // most records follow one of their own lane
    const Lane& lane = lanes[last];
    if (lane.stream == stream && lane.context == context && lane.device == device &&
        lane.timing == timing) {
      return last;
    }
  }
  const FrameKey key = {
      static_cast<uint64_t>(device) << 32 | context,
      static_cast<uint64_t>(lane_class) << 40 | static_cast<uint64_t>(timing) << 32 | stream};
  if (const uint32_t* known = lane_index.Find(key)) return last = static_cast<int>(*known);
  if (lane_count == kMaxLanes) return -1;
  lanes[lane_count] = {lane_class, timing, device, context, stream, 0};
  lane_index.Insert(key, lane_count);
  return last = static_cast<int>(lane_count++);
}

}  // namespace gpuprobe::proto

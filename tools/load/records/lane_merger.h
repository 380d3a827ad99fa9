// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The lanes of a frame (GPU streams, host threads) -> one sequence in order of (start, end).
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_LANE_MERGER_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_LANE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuprobe::tools {

// The times of one lane, in order.
struct LaneTimes {
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;
};

class LaneMerger {
 public:
  // Calls emit(lane, first, last) for the records [first, last) of a lane, all lanes interleaved in
  // order of time. What is equal stays in the order of the lanes.
  template <typename Emit>
  void Merge(const std::vector<LaneTimes>& lanes, Emit emit) {
    heap_.clear();
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      if (lanes[lane].count == 0) continue;
      heap_.push_back({lanes[lane].start_ns[0], lanes[lane].end_ns[0], lane, 0});
    }
    for (size_t i = heap_.size() / 2; i-- > 0;) SiftDown(i);
    while (heap_.size() > 1) {
      const Head& next = heap_.size() > 2 && Before(heap_[2], heap_[1]) ? heap_[2] : heap_[1];
      const LaneTimes& times = lanes[heap_[0].lane];
      Head head = heap_[0];
      const size_t first = head.at;
      do {
        ++head.at;
        if (head.at == times.count) break;
        head.start_ns = times.start_ns[head.at];
        head.end_ns = times.end_ns[head.at];
      } while (Before(head, next));
      emit(head.lane, first, head.at);
      if (head.at == times.count) {
        head = heap_.back();
        heap_.pop_back();
      }
      heap_[0] = head;
      SiftDown(0);
    }
    if (!heap_.empty()) emit(heap_[0].lane, heap_[0].at, lanes[heap_[0].lane].count);
  }

 private:
  struct Head {  // the next record of a lane
    int64_t start_ns, end_ns;
    size_t lane, at;
  };
  static bool Before(const Head& a, const Head& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.end_ns != b.end_ns) return a.end_ns < b.end_ns;
    return a.lane < b.lane;
  }
  void SiftDown(size_t i) {
    const Head head = heap_[i];
    for (size_t child; (child = 2 * i + 1) < heap_.size(); i = child) {
      if (child + 1 < heap_.size() && Before(heap_[child + 1], heap_[child])) ++child;
      if (!Before(heap_[child], head)) break;
      heap_[i] = heap_[child];
    }
    heap_[i] = head;
  }

  std::vector<Head> heap_;  // the earliest on top
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_LANE_MERGER_H_

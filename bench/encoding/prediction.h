// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a reader of predicted columns would have to keep: the means of what usually follows in a
// context, and the ends of the calls that submitted the work.
#ifndef GPUPROBE_BENCH_ENCODING_PREDICTION_H_
#define GPUPROBE_BENCH_ENCODING_PREDICTION_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace gpuprobe::proto {

struct Mean {
  int32_t mean = 0;        // in 1/16
  uint32_t deviation = 0;  // in 1/16
  bool fresh = true;
  int64_t value() const { return mean >> 4; }
  uint32_t shift() const {
    const uint32_t width = static_cast<uint32_t>(std::bit_width(deviation >> 4));
    return width > 3 ? width - 3 : 0;
  }
  void Learn(int64_t x) {
    constexpr int64_t kMost = int64_t{1} << 26;
    x = std::clamp(x, -kMost, kMost);
    if (fresh) {
      fresh = false;
      mean = static_cast<int32_t>(x << 4);
      deviation = static_cast<uint32_t>(std::abs(x) << 4) >> 3;
      return;
    }
    const int64_t error = (x << 4) - mean;
    // An outlier moves the mean by no more than its deviation.
    const int64_t bound = int64_t{deviation} * 4 + 256;
    const int64_t step = std::clamp(error, -bound, bound);
    mean += static_cast<int32_t>(step >> 3);
    deviation += static_cast<uint32_t>((std::abs(step) - static_cast<int64_t>(deviation)) >> 3);
  }
};

struct Context {
  Mean gap, latency, duration;
};

class Contexts {
 public:
  Contexts() : contexts_(kContexts) {}
  void Reset() { std::fill(contexts_.begin(), contexts_.end(), Context{}); }
  // `history`: of the lane, changed. Older symbols fade: four of them count.
  Context& Of(uint32_t* history, uint32_t id) {
    *history = (*history << 8) + id * 0x9e3779b1u;
    return contexts_[(*history * 0x85ebca6bu) >> (32 - kBits)];
  }

 private:
  static constexpr uint32_t kBits = 12, kContexts = 1u << kBits;
  std::vector<Context> contexts_;
};

// End of the call by correlation id, open addressing; both sides build it from the calls.
class CallEnds {
 public:
  CallEnds() : slots_(kSlots) {}
  void Reset() { ++generation_; }
  void Add(uint32_t correlation, int64_t end_ns) {
    slots_[correlation & (kSlots - 1)] = {end_ns, correlation, generation_};
  }
  int64_t Find(uint32_t correlation) const {  // 0: unknown
    const Slot& slot = slots_[correlation & (kSlots - 1)];
    return slot.correlation == correlation && slot.generation == generation_ ? slot.end_ns : 0;
  }

 private:
  // Ids of one frame count up: the low bits hardly collide.
  static constexpr uint32_t kSlots = 1u << 18;
  struct Slot {
    int64_t end_ns;
    uint32_t correlation, generation;
  };
  std::vector<Slot> slots_;
  uint32_t generation_ = 1;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_BENCH_ENCODING_PREDICTION_H_

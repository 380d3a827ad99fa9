// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Start-up, steady part and wind-down (steady_part.h) of a run that is seen once: how many
// operations there will be is known from the outline, so that the ones at which the steady part
// begins and ends are known when they come by. Operations without usable times that the outline
// counts as timed (their columns are damaged, or of another clock) shift the borders by as many.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_PHASES_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_PHASES_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "tools/analysis/analysis.h"
#include "tools/steps/steady_part.h"

namespace gpuprobe::tools {

class RunPhases {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Of a run that has phases; else all is before the steady part.
  void Expect(uint64_t operations) { ranks_ = SteadyRanksOf(operations); }
  // One operation after the other, in order of start.
  void Count(int64_t start_ns) {
    if (!ranks_) return;
    if (counted_ == ranks_->first) steady_.start_ns = start_ns;
    if (counted_ == ranks_->last) steady_.end_ns = start_ns;
    ++counted_;
  }
  // So many operations, if the steady part neither begins nor ends with one of them; else false,
  // and they are to be counted one by one.
  bool Skip(uint64_t operations) {
    if (!ranks_) return true;
    const auto among = [&](uint64_t rank) {
      return rank >= counted_ && rank - counted_ < operations;
    };
    if (among(ranks_->first) || among(ranks_->last)) return false;
    counted_ += operations;
    return true;
  }
  // kNever: not reached.
  const Window& steady() const { return steady_; }
  bool has_begun() const { return steady_.start_ns != kNever; }
  bool is_over() const { return steady_.end_ns != kNever; }

 private:
  std::optional<SteadyRanks> ranks_;
  uint64_t counted_ = 0;
  Window steady_ = {kNever, kNever};
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_RUN_PHASES_H_

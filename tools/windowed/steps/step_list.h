// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The steps of one device of a run that is read in windows, in bounded memory. Up to
// kMostListedSteps all are kept; beyond, the slow ones and every N-th of the others, N doubling
// each time that there are too many. Counts and sums are of all; medians, percentiles and growth
// are those of what is kept, each step weighing as much as those that it stands for.
#ifndef GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_LIST_H_
#define GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {

inline constexpr size_t kMostListedSteps = 32'768;  // 208 bytes each
// What steps were idle for, by place: of those that may turn out to be slow. 16 bytes each.
inline constexpr size_t kMostStepPlaces = 524'288;

struct StepPlace {
  int64_t ns;
  int32_t where;  // index in Analysis::places
  Cause cause;
};

class StepList {
 public:
  explicit StepList(size_t most = kMostListedSteps) : most_(most) {}

  // May the step be slow, so that its places are asked for?
  bool MayBeSlow(int64_t duration_ns) const;
  // Sets the index; `places` may be empty.
  void Add(Step step, std::vector<StepPlace> places);
  uint64_t count() const { return total_.count; }
  int64_t span_ns() const { return total_.window().span(); }

  // Steps and their figures; those inside of `within` alone, where it is not null.
  void FillIn(const Window* within, const std::vector<std::string>& places,
              DeviceSteps* result) const;

 private:
  int64_t MedianNs() const;
  void ThinOut();
  void DropPlaces();
  std::string SlowPlace(const DeviceSteps& steps, Cause cause,
                        const std::vector<std::string>& places) const;

  size_t most_;
  std::vector<Step> steps_;
  DeviceSteps total_;                                                // count and sums
  std::vector<std::pair<uint64_t, std::vector<StepPlace>>> places_;  // by index of the step
  size_t place_count_ = 0;
  uint32_t every_ = 1;      // of ordinary steps, one is kept in so many
  uint64_t ordinary_ = 0;   // since every_ changed
  int64_t median_ns_ = 0;   // when last asked; 0: never
  uint64_t median_of_ = 0;  // of so many steps
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_LIST_H_

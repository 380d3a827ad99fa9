// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Cuts what was measured of a device into steps, as it comes: idle parts and the starts of
// operations in order of time, and times at which a step begins, each known some records later.
#ifndef GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_CUTTER_H_
#define GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_CUTTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/windowed/steps/step_list.h"

namespace gpuprobe::tools {

class StepCutter {
 public:
  void AddPart(int64_t begin_ns, int64_t end_ns, Cause cause, int32_t where) {
    parts_.push_back({begin_ns, end_ns, where, cause});
  }
  // The same, of parts that stay where they are until KeepParts() has copied what is left of them:
  // most are summed up by then. No AddPart() in between.
  void LendParts(std::span<const GapPart> parts) { lent_ = parts; }
  void KeepParts() {
    for (const GapPart& part : lent_)
      AddPart(std::max(part.begin_ns, lent_from_ns_), part.end_ns, part.cause, part.where);
    lent_ = {};
    lent_from_ns_ = kNever;
  }
  void AddStart(int64_t ns) { starts_.push_back(ns); }

  // A step begins, and the one before it ends; earlier or equal times than the last one do nothing.
  void Begin(int64_t ns, StepList* steps);
  // The last step may end here: End() at that time will be right even if more has been summed up.
  void MayEnd(int64_t ns);
  // The last step ends, if that is later than it began; nothing is begun.
  void End(int64_t ns, StepList* steps);
  // No step begins before `ns`: what lies before it needs no record of its own.
  void SumUpTo(int64_t ns);
  // Begins anew; what lies before `ns` belongs to no step.
  void Restart(int64_t ns);
  size_t waiting() const {
    return parts_.size() - first_part_ + lent_.size() + starts_.size() - first_start_;
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
  struct Part {
    int64_t begin_ns, end_ns;
    int32_t where;
    Cause cause;
  };
  struct Open {  // what has been summed up of the step that is under way
    Step step = {0, 0};
    std::vector<StepPlace> places;
  };

  void Count(const Part& part, int64_t until_ns, Open* open);
  void Sum(int64_t ns);
  void ForgetMayEnd();
  void Close(int64_t ns, Open open, StepList* steps);
  void SumUpLent(int64_t ns);
  void Compact();

  std::vector<Part> parts_;
  std::span<const GapPart> lent_;  // behind parts_, not summed up yet ...
  int64_t lent_from_ns_ = kNever;  // ... the first of them from here on
  std::vector<int64_t> starts_;
  size_t first_part_ = 0, first_start_ = 0;  // not summed up yet
  int64_t begun_ns_ = kNever;                // kNever: no step is under way
  int64_t summed_ns_ = kNever;
  Open open_;
  int64_t may_end_ns_ = kNever;
  std::optional<Open> may_end_;  // what was summed up to there; nothing: not that far yet
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_CUTTER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which times of a trace can be true. What lies outside was written by a broken clock or by
// somebody who means harm, and arithmetic on it would overflow.
#ifndef GPUPROBE_TOOLS_TIME_BUDGET_H_
#define GPUPROBE_TOOLS_TIME_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace gpuprobe::tools {

class TimeBudget {
 public:
  static constexpr int64_t kLatestNs = int64_t{1} << 62;  // 1970 to 2116

  static int64_t Bounded(int64_t ns) { return std::clamp<int64_t>(ns, 0, kLatestNs); }

  // Whether a record's times can be true; takes its duration off the budget of the run: 146 years
  // of durations in all. No real run comes near, and no sum over records can overflow.
  bool Believable(int64_t start_ns, int64_t end_ns) {
    if (start_ns < 0 || end_ns > kLatestNs || start_ns > end_ns) return false;
    if (end_ns - start_ns > left_ns_) return false;
    left_ns_ -= end_ns - start_ns;
    return true;
  }

 private:
  int64_t left_ns_ = kLatestNs;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIME_BUDGET_H_

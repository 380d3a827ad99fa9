// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which times of a trace can be true. What lies outside was written by a broken clock or by
// somebody who means harm, and arithmetic on it would overflow.
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_TIME_BUDGET_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_TIME_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::tools {

class TimeBudget {
 public:
  static constexpr int64_t kLatestNs = int64_t{1} << 62;  // 1970 to 2116

  static int64_t Bounded(int64_t ns) { return std::clamp<int64_t>(ns, 0, kLatestNs); }

  // From here on records are believed only within this time: that of the process, as far as its
  // other clocks tell, and an hour.
  void Within(int64_t earliest_ns, int64_t latest_ns) {
    earliest_ns_ = Bounded(earliest_ns);
    latest_ns_ = Bounded(latest_ns);
  }

  // Whether a record's times can be true.
  bool RecordBelievable(int64_t start_ns, int64_t end_ns) {
    return start_ns >= earliest_ns_ && end_ns <= latest_ns_ && Believable(start_ns, end_ns);
  }

  // Whether times can be true at all; takes their duration off the budget of the run: 146 years
  // of durations in all. No real run comes near, and no sum over records can overflow.
  bool Believable(int64_t start_ns, int64_t end_ns) {
    if (start_ns < 0 || end_ns > kLatestNs || start_ns > end_ns) return false;
    if (end_ns - start_ns > left_ns_) return false;
    left_ns_ -= end_ns - start_ns;
    return true;
  }
  // The same of many records at once, if that can be told cheaply and is true of each; else false,
  // and nothing is taken. As fast as reading them.
  bool AllRecordsBelievable(const int64_t* start_ns, const int64_t* end_ns, size_t count) {
    constexpr size_t kManyRecords = size_t{1} << 22;
    constexpr uint64_t kLongNs = uint64_t{1} << 40;  // 18 minutes: that many cannot overflow
    if (count > kManyRecords) return false;
    uint64_t times = 0, durations = 0, sum = 0, outside = 0;
    const auto earliest = static_cast<uint64_t>(earliest_ns_);
    const auto latest = static_cast<uint64_t>(latest_ns_);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t duration =
          static_cast<uint64_t>(end_ns[i]) - static_cast<uint64_t>(start_ns[i]);
      times |= static_cast<uint64_t>(start_ns[i]) | static_cast<uint64_t>(end_ns[i]);
      durations |= duration;
      // The uppermost bit, as long as all are below 2^62.
      outside |= (static_cast<uint64_t>(start_ns[i]) - earliest) |
                 (latest - static_cast<uint64_t>(end_ns[i]));
      sum += duration;
    }
    // Also an end before its start is a duration of more than that.
    if (times >= static_cast<uint64_t>(kLatestNs) || durations >= kLongNs) return false;
    if (outside >> 63 != 0) return false;
    if (sum > static_cast<uint64_t>(left_ns_)) return false;
    left_ns_ -= static_cast<int64_t>(sum);
    return true;
  }

 private:
  int64_t left_ns_ = kLatestNs;
  int64_t earliest_ns_ = 0, latest_ns_ = kLatestNs;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_TIME_BUDGET_H_

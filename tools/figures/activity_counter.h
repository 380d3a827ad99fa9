// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The tables of `kernels`, `copies` and `api` (activity_stats.h) for a run whose records come and
// go: counts, sums, least and most are exact, and so is the deviation (sums of squares in 128
// bits); the median is exact while a row has at most kMostDistinct different durations, beyond that
// it is the middle of a bucket: off by at most one part in 128.
#ifndef GPUPROBE_TOOLS_FIGURES_ACTIVITY_COUNTER_H_
#define GPUPROBE_TOOLS_FIGURES_ACTIVITY_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tools/figures/activity_stats.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class DurationCounter {
 public:
  static constexpr size_t kMostDistinct = 1024;

  void Add(int64_t ns);
  uint64_t count() const { return count_; }
  DurationStats Stats() const;
  bool exact() const { return exact_; }
  // How often each duration came; of those beyond kMostDistinct, the middles of buckets.
  const absl::flat_hash_map<int64_t, uint64_t>& values() const { return values_; }

 private:
  static int64_t BucketOf(int64_t ns);
  int64_t ValueAt(uint64_t rank, const std::vector<std::pair<int64_t, uint64_t>>& sorted) const;

  uint64_t count_ = 0;
  int64_t total_ns_ = 0, min_ns_ = INT64_MAX, max_ns_ = INT64_MIN;
  unsigned __int128 squares_ = 0;
  bool exact_ = true;
  absl::flat_hash_map<int64_t, uint64_t> values_;  // by duration, or by the bucket's middle
};

class ActivityCounter {
 public:
  // Counts what starts in the window and is of the process and device that `options` ask for.
  explicit ActivityCounter(const Options& options) : options_(options) {}

  void Add(const Timeline& timeline, const GpuOp& op);
  void Add(const Timeline& timeline, const HostCall& call);
  void Add(const Timeline& timeline, const UntimedOp& op);
  // `analysis`: of the run, for the windows of its devices.
  ActivityTables Take(const Timeline& timeline, const Analysis& analysis);

 private:
  struct Group {
    DurationCounter durations;
    uint64_t bytes = 0, failed = 0;
  };
  Group* CopyGroup(const Timeline& timeline, const GpuOp& op);
  bool WantsProcess(const Timeline& timeline, int32_t process) const;
  bool InWindow(int64_t start_ns, int64_t end_ns) const;
  static void AddRow(ActivityRow row, const Group& group, ActivityTable* table);

  const Options options_;
  std::vector<Group> kernels_, calls_;   // by name, symbol; first: none
  std::map<std::string, Group> copies_;  // and sets; shapes that read the same are one row
  std::vector<Group*> copies_by_shape_;
  std::map<std::pair<int32_t, uint32_t>, Group> graphs_;
  Group* sets_ = nullptr;
  uint64_t untimed_kernels_ = 0, untimed_copies_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_ACTIVITY_COUNTER_H_

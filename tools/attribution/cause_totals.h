// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_CAUSE_TOTALS_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_CAUSE_TOTALS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {

// Sums gap parts by cause and by place as they come, without keeping them.
class CauseTotals {
 public:
  // Gaps in ascending order; a part may come in pieces. `detail`: what Take() calls it, -1:
  // nothing. `sample`: instead of the part's.
  void Add(uint32_t gap, const GapPart& part, int32_t detail, int32_t sample);
  // Calls are numbered anew: renumber(call) for each example. -1 and below stay.
  template <typename F>
  void RenumberCalls(F renumber) {
    const auto apply = [&](Sum& sum) {
      if (sum.example_call >= 0) sum.example_call = renumber(sum.example_call);
    };
    for (Sum& cause : causes_) apply(cause);
    for (auto& sites : sites_) {
      for (Site& site : sites) apply(site);
    }
  }
  // For what comes after these in time: samples that have been counted here are known there.
  CauseTotals Next() const;
  // Adds what came after these, made by Next(); a gap that both have a part of counts once.
  void Merge(const CauseTotals& later);
  // By total, descending; causes without time are left out. Of the details of a site, the one that
  // took the most time is shown.
  std::vector<CauseTotal> Take(const std::vector<std::string>& places,
                               const std::vector<std::string>& details);

 private:
  struct Sum {
    int64_t total_ns = 0, longest_ns = 0, in_gap_ns = 0;
    uint64_t count = 0;
    int64_t gap = -1, first_gap = -1;
    int64_t in_first_gap_ns = 0;
    int32_t example_call = -1;
    uint64_t samples = 0;
    void Merge(const Sum& later);
    void Add(uint32_t in_gap, const GapPart& part) {
      const int64_t length_ns = part.end_ns - part.begin_ns;
      if (gap != in_gap) {
        gap = in_gap;
        in_gap_ns = 0;
        if (count++ == 0) first_gap = gap;
      }
      total_ns += length_ns;
      in_gap_ns += length_ns;
      if (count == 1) in_first_gap_ns = in_gap_ns;
      longest_ns = std::max(longest_ns, in_gap_ns);
      if (example_call == -1) example_call = part.call;
    }
  };
  struct Site : Sum {
    std::vector<std::pair<int32_t, int64_t>> details;  // ns by detail, few
  };
  static void AddDetail(int32_t detail, int64_t ns, Site* site);
  bool IsNewSample(size_t cause, size_t sample);
  std::array<Sum, kCauseCount> causes_;
  std::array<std::vector<Site>, kCauseCount> sites_;    // by place; few hundred places at most
  std::array<std::vector<bool>, kCauseCount> samples_;  // by sample: counted
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_CAUSE_TOTALS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TOOLS_CAUSE_TOTALS_H_
#define GPUPROBE_TOOLS_CAUSE_TOTALS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis.h"

namespace gpuprobe::tools {

// Sums gap parts by cause and by place as they come, without keeping them.
class CauseTotals {
 public:
  void Add(uint32_t gap, const GapPart& part);  // gaps in ascending order
  // By total, descending; causes without time are left out.
  std::vector<CauseTotal> Take(const std::vector<std::string>& places);

 private:
  struct Sum {
    int64_t total_ns = 0, longest_ns = 0, in_gap_ns = 0;
    uint64_t count = 0;
    int64_t gap = -1;
    int32_t example_call = -1;
    void Add(uint32_t in_gap, const GapPart& part);
  };
  std::array<Sum, kCauseCount> causes_;
  std::array<std::vector<Sum>, kCauseCount> sites_;  // by place; few hundred places at most
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_CAUSE_TOTALS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Correlation id -> index of a call, for the calls of one process. CUPTI numbers calls upwards
// without holes, so a plain array does; ids that are spread out (a damaged or hostile file) go into
// a hash map.
#ifndef GPUPROBE_TOOLS_CORRELATION_INDEX_H_
#define GPUPROBE_TOOLS_CORRELATION_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpuprobe::tools {

class CorrelationIndex {
 public:
  // First pass: what will be set.
  void Expect(uint32_t correlation) {
    lowest_ = std::min(lowest_, correlation);
    highest_ = std::max(highest_, correlation);
    ++expected_;
  }
  // Between the passes.
  void Prepare() {
    if (expected_ == 0) return;
    const size_t range = size_t{highest_} - lowest_ + 1;
    if (range <= 8 * expected_ + 1024) dense_.assign(range, -1);
  }
  void Set(uint32_t correlation, int32_t value) {
    if (dense_.empty()) {
      sparse_[correlation] = value;
    } else {
      dense_[correlation - lowest_] = value;
    }
  }
  // -1: none.
  int32_t Find(uint32_t correlation) const {
    if (!dense_.empty()) {
      return correlation < lowest_ || correlation > highest_ ? -1 : dense_[correlation - lowest_];
    }
    const auto at = sparse_.find(correlation);
    return at == sparse_.end() ? -1 : at->second;
  }

 private:
  uint32_t lowest_ = UINT32_MAX, highest_ = 0;
  size_t expected_ = 0;
  std::vector<int32_t> dense_;
  absl::flat_hash_map<uint32_t, int32_t> sparse_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_CORRELATION_INDEX_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Correlation id -> a number (an index, a thread), for the calls of one process. CUPTI numbers
// calls upwards without holes, and what is not recorded leaves holes of any size: pages of a plain
// array, made where ids are. Ids that are spread out thinly (a damaged or hostile file) go into a
// hash map, so that memory stays proportional to the calls.
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
  // First pass: what will be added.
  void Expect(uint32_t correlation) {
    lowest_ = std::min(lowest_, correlation);
    highest_ = std::max(highest_, correlation);
    ++expected_;
  }
  // Between the passes.
  void Prepare() {
    if (expected_ == 0) return;
    const size_t pages = PageOf(highest_) + 1;
    if (pages <= expected_ + 1) directory_.assign(pages, kNoPage);
    max_slots_ = kSlotsPerCall * expected_ + kPageSlots;
  }
  // Forgets what was added, keeps what is expected.
  void Clear() {
    std::fill(slots_.begin(), slots_.end(), kEmpty);
    sparse_.clear();
  }
  // `value` >= 0. Where several share an id, one that can submit work wins, else the first.
  void Add(uint32_t correlation, int32_t value, bool submits) {
    const uint32_t slot = static_cast<uint32_t>(value) << 1 | (submits ? 1 : 0);
    uint32_t& known = SlotOf(correlation);
    if (known == kEmpty || (submits && (known & 1) == 0)) known = slot;
  }
  // -1: none.
  int32_t Find(uint32_t correlation) const {
    const uint32_t slot = Slot(correlation);
    return slot == kEmpty ? -1 : static_cast<int32_t>(slot >> 1);
  }
  // The same, of one that can submit work only.
  int32_t FindSubmitting(uint32_t correlation) const {
    const uint32_t slot = Slot(correlation);
    return slot == kEmpty || (slot & 1) == 0 ? -1 : static_cast<int32_t>(slot >> 1);
  }

 private:
  static constexpr uint32_t kPageBits = 10;
  static constexpr size_t kPageSlots = size_t{1} << kPageBits;
  static constexpr size_t kSlotsPerCall = 8;  // 32 bytes a call at most
  static constexpr uint32_t kEmpty = UINT32_MAX, kNoPage = UINT32_MAX;

  size_t PageOf(uint32_t correlation) const {
    return (correlation >> kPageBits) - (lowest_ >> kPageBits);
  }
  static size_t InPage(uint32_t correlation) { return correlation & (kPageSlots - 1); }

  uint32_t& SlotOf(uint32_t correlation) {
    const size_t page = PageOf(correlation);
    if (page < directory_.size()) {
      if (directory_[page] == kNoPage && slots_.size() + kPageSlots <= max_slots_) {
        directory_[page] = static_cast<uint32_t>(slots_.size() >> kPageBits);
        slots_.resize(slots_.size() + kPageSlots, kEmpty);
      }
      if (directory_[page] != kNoPage) {
        return slots_[(size_t{directory_[page]} << kPageBits) + InPage(correlation)];
      }
    }
    return sparse_.try_emplace(correlation, kEmpty).first->second;
  }
  uint32_t Slot(uint32_t correlation) const {
    if (correlation < lowest_ || correlation > highest_) return kEmpty;
    const size_t page = PageOf(correlation);
    if (page < directory_.size() && directory_[page] != kNoPage) {
      return slots_[(size_t{directory_[page]} << kPageBits) + InPage(correlation)];
    }
    const auto at = sparse_.find(correlation);
    return at == sparse_.end() ? kEmpty : at->second;
  }

  uint32_t lowest_ = UINT32_MAX, highest_ = 0;
  size_t expected_ = 0, max_slots_ = 0;
  std::vector<uint32_t> directory_;  // page -> its place in slots_, in pages
  std::vector<uint32_t> slots_;      // value << 1 | submits
  absl::flat_hash_map<uint32_t, uint32_t> sparse_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_CORRELATION_INDEX_H_

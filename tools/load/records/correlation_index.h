// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Correlation id -> a number (an index, a thread), for the calls of one process. CUPTI numbers all
// calls upwards, also those that are not recorded: of PyTorch's every 16th to 26th id was in a
// trace, with holes of any size between. So a directory of short ranges of ids, each a chain of
// those in it; calls come nearly in order of their ids, and so the chains lie one behind the other.
// Where many ids are recorded a range is one id, and there are no chains.
// Ids that are spread out thinly (a damaged or hostile file) go into a hash map.
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_CORRELATION_INDEX_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_CORRELATION_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpuprobe::tools {

class CorrelationIndex {
 public:
  // First pass: what will be added, `count` of them.
  void Expect(uint32_t lowest, uint32_t highest, size_t count) {
    lowest_ = std::min(lowest_, lowest);
    highest_ = std::max(highest_, highest);
    expected_ += count;
  }
  // Between the passes.
  void Prepare() {
    if (expected_ == 0) return;
    const size_t last = highest_ - lowest_;
    each_ = last < kIdsOfEach * expected_;
    if (each_) return directory_.assign(last + 1, kNone);
    while (range_bits_ < kMostRangeBits && last >> range_bits_ > expected_) ++range_bits_;
    const size_t ranges = (last >> range_bits_) + 1;
    if (ranges > expected_ + kFewRanges) return;
    directory_.assign(ranges, kNone);
    entries_.reserve(expected_);
  }
  // Of what is expected.
  uint32_t highest() const { return highest_; }
  // Forgets what was added, keeps what is expected.
  void Clear() {
    std::fill(directory_.begin(), directory_.end(), kNone);
    entries_.clear();
    sparse_.clear();
  }
  // An expected id; `value` >= 0. Where several share an id, one that can submit work wins, else
  // the first.
  void Add(uint32_t correlation, int32_t value, bool submits) {
    const uint32_t slot = static_cast<uint32_t>(value) << 1 | (submits ? 1 : 0);
    if (!each_) return AddToRange(correlation, slot);
    uint32_t& known = directory_[correlation - lowest_];
    if (known == kNone || (submits && (known & 1) == 0)) known = slot;
  }
  // -1: none.
  int32_t Find(uint32_t correlation) const {
    const uint32_t slot = Slot(correlation);
    return slot == kNone ? -1 : static_cast<int32_t>(slot >> 1);
  }
  // The same, of one that can submit work only.
  int32_t FindSubmitting(uint32_t correlation) const {
    const uint32_t slot = Slot(correlation);
    return slot == kNone || (slot & 1) == 0 ? -1 : static_cast<int32_t>(slot >> 1);
  }

 private:
  struct Entry {
    uint32_t correlation;
    uint32_t slot;  // value << 1 | submits
    uint32_t next;  // of the same range
  };
  // A chain has no more than that many entries, as no id is in it twice.
  static constexpr uint32_t kMostRangeBits = 6;
  static constexpr size_t kFewRanges = 256;
  // With so many ids for each that is expected a directory of ids takes the memory of ranges with
  // chains.
  static constexpr size_t kIdsOfEach = 4;
  static constexpr uint32_t kNone = UINT32_MAX;

  void AddToRange(uint32_t correlation, uint32_t slot) {
    uint32_t* known = nullptr;
    if (directory_.empty()) {
      const auto [at, added] = sparse_.try_emplace(correlation, slot);
      if (added) return;
      known = &at->second;
    } else {
      uint32_t& first = directory_[(correlation - lowest_) >> range_bits_];
      uint32_t at = first;
      while (at != kNone && entries_[at].correlation != correlation) at = entries_[at].next;
      if (at == kNone) {
        entries_.push_back({correlation, slot, first});
        first = static_cast<uint32_t>(entries_.size() - 1);
        return;
      }
      known = &entries_[at].slot;
    }
    if ((slot & 1) != 0 && (*known & 1) == 0) *known = slot;
  }
  uint32_t Slot(uint32_t correlation) const {
    if (correlation < lowest_ || correlation > highest_) return kNone;
    return each_ ? directory_[correlation - lowest_] : SlotInRange(correlation);
  }
  uint32_t SlotInRange(uint32_t correlation) const {
    if (directory_.empty()) {
      const auto at = sparse_.find(correlation);
      return at == sparse_.end() ? kNone : at->second;
    }
    uint32_t at = directory_[(correlation - lowest_) >> range_bits_];
    while (at != kNone && entries_[at].correlation != correlation) at = entries_[at].next;
    return at == kNone ? kNone : entries_[at].slot;
  }

  uint32_t lowest_ = UINT32_MAX, highest_ = 0;
  size_t expected_ = 0;
  uint32_t range_bits_ = 0;
  bool each_ = false;  // a range is one id
  // Range of ids -> the entry that was added last; where a range is one id, its slot.
  std::vector<uint32_t> directory_;
  std::vector<Entry> entries_;
  absl::flat_hash_map<uint32_t, uint32_t> sparse_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_CORRELATION_INDEX_H_

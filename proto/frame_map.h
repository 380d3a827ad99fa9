// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Open-addressing table from a 128-bit key to a small number, emptied in constant time: every slot
// carries the generation in which it was filled. Fixed memory, never more than half full.
#ifndef GPUPROBE_PROTO_FRAME_MAP_H_
#define GPUPROBE_PROTO_FRAME_MAP_H_

#include <cstddef>
#include <cstdint>

#include "proto/arena.h"

namespace gpuprobe::proto {

// Folds the 128-bit product of two words that depend on all of the input: one multiplication mixes
// well enough for tables at half load, and costs about a nanosecond.
inline uint64_t Mix(uint64_t a, uint64_t b) {
  const __uint128_t product =
      static_cast<__uint128_t>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct FrameKey {
  uint64_t a, b;
  bool operator==(const FrameKey&) const = default;
};

template <size_t kMaxEntries>
class FrameMap {
 public:
  static constexpr size_t kSlots = 2 * kMaxEntries;
  static_assert((kSlots & (kSlots - 1)) == 0 && kMaxEntries <= 0x10000);

  void Take(Arena* arena) { slots_ = arena->Take<Slot>(kSlots); }

  void Clear() {
    size_ = 0;
    ++generation_;  // 2^32 generations: at two frames and 50 buffers a second, over two years
  }
  bool full() const { return size_ == kMaxEntries; }
  size_t size() const { return size_; }

  // The value of `key`, or nullptr.
  const uint32_t* Find(FrameKey key) const {
    for (size_t i = First(key);; i = (i + 1) & (kSlots - 1)) {
      if (slots_[i].generation != generation_) return nullptr;
      if (slots_[i].key == key) return &slots_[i].value;
    }
  }
  // `key` must be absent and the map not full.
  void Insert(FrameKey key, uint32_t value) {
    size_t i = First(key);
    while (slots_[i].generation == generation_) i = (i + 1) & (kSlots - 1);
    slots_[i] = {key, generation_, value};
    ++size_;
  }

 private:
  struct Slot {
    FrameKey key;
    uint32_t generation;
    uint32_t value;
  };
  static size_t First(FrameKey key) {
    return static_cast<size_t>(Mix(key.a, key.b)) & (kSlots - 1);
  }

  Slot* slots_ = nullptr;
  size_t size_ = 0;
  uint32_t generation_ = 1;  // the memory is zeroed: 0 is "never filled"
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_MAP_H_

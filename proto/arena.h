// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Hands out parts of one fixed memory block, once. It goes on counting when the block is used up,
// so that a first round without memory tells what a configuration needs.
#ifndef GPUPROBE_PROTO_ARENA_H_
#define GPUPROBE_PROTO_ARENA_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::proto {

class Arena {
 public:
  // `memory` is aligned to kAlignment; nullptr: count only.
  Arena(void* memory, size_t capacity)
      : memory_(static_cast<uint8_t*>(memory)), capacity_(capacity) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Not constructed: only for types that are valid when zeroed, as the block is. nullptr: does not
  // fit.
  template <class T>
  T* Take(size_t count) {
    static_assert(alignof(T) <= kAlignment);
    return static_cast<T*>(TakeBytes(count * sizeof(T)));
  }
  size_t used() const { return used_; }
  bool fits() const { return used_ <= capacity_; }

 private:
  static constexpr size_t kAlignment = 64;
  void* TakeBytes(size_t bytes) {
    const size_t at = used_;
    used_ += (bytes + kAlignment - 1) & ~(kAlignment - 1);
    return memory_ != nullptr && fits() ? memory_ + at : nullptr;
  }
  uint8_t* memory_;
  size_t capacity_;
  size_t used_ = 0;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_ARENA_H_

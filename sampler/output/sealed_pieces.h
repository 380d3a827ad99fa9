// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Finished messages on their way from the sampler thread to the drain thread: a ring of slots with
// one producer and one consumer. Neither waits for the other; a producer without a free slot drops
// its message and counts.
#ifndef GPUPROBE_SAMPLER_OUTPUT_SEALED_PIECES_H_
#define GPUPROBE_SAMPLER_OUTPUT_SEALED_PIECES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

class SealedPieces {
 public:
  // Four: two flush periods of the usual seal period. A piece of that time is rarely a tenth of a
  // slot.
  static constexpr uint32_t kSlots = 4;
  static constexpr size_t kSlotBytes = 256u << 10;
  static constexpr size_t kMemoryBytes = kSlots * kSlotBytes;

  constexpr SealedPieces() = default;
  void Init(void* memory) { memory_ = static_cast<uint8_t*>(memory); }

  // Producer: where the next message goes; nullptr: no slot is free.
  uint8_t* BeginWrite() {
    // acquire: partner is Release; the consumer has done with the slot's bytes.
    const uint32_t taken = taken_.load(std::memory_order_acquire);
    // relaxed: only this thread stores it.
    const uint32_t sealed = sealed_.load(std::memory_order_relaxed);
    return sealed - taken == kSlots ? nullptr : Slot(sealed);
  }
  void EndWrite(size_t bytes) {
    const uint32_t sealed = sealed_.load(std::memory_order_relaxed);  // ours
    bytes_[sealed % kSlots] = bytes;
    // release: partner is Take; size and bytes are complete.
    sealed_.store(sealed + 1, std::memory_order_release);
  }

  // Consumer: the oldest message, or the one so many `later`; valid until Release.
  bool Take(const uint8_t** data, size_t* bytes, uint32_t later = 0) const {
    const uint32_t number = taken_.load(std::memory_order_relaxed) + later;  // ours
    const uint32_t sealed = sealed_.load(std::memory_order_acquire);         // partner: EndWrite
    if (static_cast<int32_t>(sealed - number) <= 0) return false;
    *data = Slot(number);
    *bytes = bytes_[number % kSlots];
    return true;
  }
  void Release() {
    // release: partner is BeginWrite.
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  uint32_t waiting() const {
    // relaxed: a hint.
    return sealed_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_relaxed);
  }

 private:
  uint8_t* Slot(uint32_t number) const { return memory_ + number % kSlots * kSlotBytes; }

  uint8_t* memory_ = nullptr;
  size_t bytes_[kSlots] = {};
  std::atomic<uint32_t> sealed_{0}, taken_{0};
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_OUTPUT_SEALED_PIECES_H_

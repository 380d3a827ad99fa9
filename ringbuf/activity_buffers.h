// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Two pools as one: large buffers, and small ones for a process in which many threads launch. CUPTI
// keeps a buffer for each of them, however little it launches, so that a few hundred would take all
// of a pool of large ones. While CUPTI holds fewer than three quarters of the large buffers
// everybody gets one of them; from then on a small one. Where one kind has run out the other
// serves.
//
// Threads and guarantees are those of BufferPool.
#ifndef GPUPROBE_RINGBUF_ACTIVITY_BUFFERS_H_
#define GPUPROBE_RINGBUF_ACTIVITY_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ringbuf/buffer_pool.h"

namespace gpuprobe {

class ActivityBuffers {
 public:
  // The least that is of use: about a hundred launches.
  static constexpr size_t kSmallBytes = 16u << 10;
  // Below four times that there is one kind only.
  static constexpr size_t kLeastLargeBytes = 4 * kSmallBytes;
  // Of the memory, where there are two kinds.
  static constexpr size_t kLargeEighths = 4;

  constexpr ActivityBuffers() = default;
  ActivityBuffers(const ActivityBuffers&) = delete;
  ActivityBuffers& operator=(const ActivityBuffers&) = delete;

  // What there is for buffers of `large_bytes` out of `memory_bytes`.
  static size_t BytesForLarge(size_t memory_bytes, size_t large_bytes);
  // As BufferPool::Init; takes `memory_bytes` at most. `fewer`: large buffers to leave out.
  [[nodiscard]] bool Init(size_t memory_bytes, size_t large_bytes, uint32_t fewer);

  // A zeroed buffer and its size, or nullptr when none of either kind is free (counted).
  uint8_t* Acquire(size_t* bytes);
  bool PushCompleted(uint8_t* data, size_t valid_bytes, uint32_t context, uint32_t stream);
  // Oldest first within each kind.
  CompletedBuffer* PopAllCompleted();
  void Release(CompletedBuffer* buffer);

  // CUPTI holds more than half of all buffers: those of threads that have ended, which CUPTI
  // gives back at a flush alone, may be most of them.
  bool Low() const;

  size_t reserved_bytes() const { return large_.reserved_bytes() + small_.reserved_bytes(); }
  // Of both kinds together; `refused`: neither had one.
  BufferPool::Stats stats() const;
  const BufferPool& large() const { return large_; }
  const BufferPool& small() const { return small_; }

 private:
  BufferPool large_, small_;  // the second may have no buffers
  std::atomic<uint64_t> refused_{0};
};

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_ACTIVITY_BUFFERS_H_

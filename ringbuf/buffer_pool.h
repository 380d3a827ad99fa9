// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A fixed set of equally large, zeroed activity buffers, and the way of a buffer through the
// process:
//
//   Acquire()           any thread, lock-free           pool -> CUPTI   (bufferRequested)
//   PushCompleted()     any thread, lock-free           CUPTI -> queue  (bufferCompleted)
//   PopAllCompleted()   drain thread only               queue -> drain, oldest first
//   Release()           drain thread only               drain -> pool, zeroed up to the bytes used
//
// Guarantees: no allocation, no lock, no system call in Acquire and PushCompleted. A buffer belongs
// to CUPTI from Acquire to PushCompleted and is never touched, unmapped or handed out again
// meanwhile, also not after shutdown (CUPTI writes into unreturned buffers whenever it likes).
// Memory is reserved by one mmap at Init and becomes resident only when used. The object has
// process lifetime: no destructor.
//
// Every buffer has a state (free, outstanding, completed, draining) that only the calls above
// advance, in that order. A call that does not fit the state is refused and counted, so a buffer
// can be in one place only, whatever CUPTI or another client passes in. What cannot be told apart
// is a second completion that arrives when the same buffer is already outstanding again: CUPTI
// identifies buffers by address alone.
//
// Free buffers are kept in two lists. Warm ones have been used, are zero and resident, and are
// handed out first; cold ones cost the thread that writes into them a page fault every 4 KiB.
// Release zeroes with memset on the drain thread, because giving the pages to the kernel would move
// that cost to the application's thread. Only a buffer that recent demand has not needed is given
// back (see Release).
//
// After fork the child finds all buffers zero (MADV_WIPEONFORK, Linux 4.14): the pages are not
// shared, so a fork costs the parent's threads no copy-on-write faults in buffers that CUPTI is
// filling.
#ifndef GPUPROBE_RINGBUF_BUFFER_POOL_H_
#define GPUPROBE_RINGBUF_BUFFER_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ringbuf/index_stack.h"

namespace gpuprobe {

struct CompletedBuffer {
  uint8_t* data;
  size_t valid_bytes;
  uint32_t context, stream;  // as CUPTI passed them (0 with global or per-thread buffers)
  CompletedBuffer* next;     // next newer; nullptr: last. Read it before Release
};

class BufferPool {
 public:
  static constexpr uint32_t kMaxCount = 4096;

  struct Stats {
    uint64_t acquired, refused, completed, released;
    uint64_t given_back;        // of the released: pages returned to the kernel
    uint32_t outstanding;       // with CUPTI now
    uint32_t peak_outstanding;  // the most that CUPTI held at once
    uint32_t foreign;    // completions and releases of buffers that are not ours or not in that
                         // state: ignored, counted
    uint32_t oversized;  // completions that claimed more than buffer_bytes(): cut to it
  };

  constexpr BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Reserves `count` buffers of `buffer_bytes` (a multiple of the page size; count <= kMaxCount).
  // Once, before any other call; false if the arguments are wrong, the memory cannot be had (the
  // pool then refuses every Acquire) or it has been called before (the pool goes on as it was).
  [[nodiscard]] bool Init(size_t buffer_bytes, uint32_t count);

  // A zeroed buffer of buffer_bytes() or nullptr when none is free (counted).
  uint8_t* Acquire();
  // Hands a completed buffer to the drain thread. False (counted, not touched) if `data` is not one
  // of ours or is not outstanding.
  bool PushCompleted(uint8_t* data, size_t valid_bytes, uint32_t context, uint32_t stream);
  // All buffers completed so far, oldest first; nullptr if none. The nodes stay valid until
  // Release.
  CompletedBuffer* PopAllCompleted();
  // Takes back a buffer that PopAllCompleted returned; anything else is counted as foreign. One
  // call in 64 may give the buffer's pages to the kernel (madvise) instead of zeroing them: when
  // more buffers are resident than were in use at once during the last 128 releases.
  void Release(CompletedBuffer* buffer);

  bool Owns(const void* p) const;
  size_t buffer_bytes() const { return buffer_bytes_; }
  uint32_t count() const { return count_; }
  // With CUPTI now. Any thread; a hint: calls under way may be in it or not.
  uint32_t outstanding() const {
    // relaxed: statistics. `completed_` first, so that it is never ahead of `acquired`.
    const uint64_t completed = completed_.load(std::memory_order_relaxed);
    const uint64_t acquired = acquired_.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(acquired > completed ? acquired - completed : 0);
  }
  // All that Init has reserved, for the session's memory account.
  size_t reserved_bytes() const { return reserved_bytes_; }
  // Any thread. Each number is right by itself; taken while calls are under way they may differ by
  // those.
  Stats stats() const;

 private:
  enum class State : uint32_t { kFree = 0, kOutstanding, kCompleted, kDraining };

  // One per buffer, outside the buffer: CUPTI owns every byte of that.
  struct alignas(64) Node {
    CompletedBuffer completed;  // first, so that a CompletedBuffer* leads back to its node
    std::atomic<State> state;
    std::atomic<uint32_t> link;  // of the free list that it is in
  };
  static_assert(std::is_standard_layout_v<Node> && sizeof(Node) == 64);

  Node* PopFree(IndexStack* stack);
  void PushFree(IndexStack* stack, Node* node);
  Node* OutstandingNode(const uint8_t* data) const;
  Node* NodeOf(const CompletedBuffer* buffer) const;
  void CountAcquired();
  bool IsSurplus();

  // Written by Init alone.
  Node* nodes_ = nullptr;
  uint8_t* base_ = nullptr;
  size_t buffer_bytes_ = 0;
  size_t reserved_bytes_ = 0;
  uint32_t count_ = 0;

  // What both sides write, on one cache line. Buffers pass a hundred times a second at most, so a
  // caller finds each line that it needs on another core: the fewer the better, and nobody spins on
  // them.
  alignas(64) IndexStack warm_;
  IndexStack cold_;
  std::atomic<CompletedBuffer*> completed_head_{nullptr};  // newest first
  std::atomic<uint64_t> acquired_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint32_t> peak_outstanding_{0};
  std::atomic<uint32_t> cold_count_{0};
  std::atomic<uint32_t> foreign_{0};
  std::atomic<uint32_t> oversized_{0};

  // Written by the drain thread.
  alignas(64) std::atomic<uint64_t> released_{0};
  std::atomic<uint64_t> given_back_{0};
  uint32_t window_releases_ = 0;  // demand: the most buffers in use at once, in this window of
  uint32_t window_peak_ = 0;      // releases and in the one before
  uint32_t previous_window_peak_ = 0;
};

static_assert(std::is_trivially_destructible_v<BufferPool>);
static_assert(sizeof(BufferPool) == 3 * 64);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_BUFFER_POOL_H_

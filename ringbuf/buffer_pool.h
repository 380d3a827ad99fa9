// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A fixed set of equally large, zeroed activity buffers, and the way of a buffer through the process:
//
//   Acquire()           any thread, wait-free in practice   pool -> CUPTI   (bufferRequested)
//   PushCompleted()     any thread, lock-free               CUPTI -> queue  (bufferCompleted)
//   PopAllCompleted()   drain thread only                   queue -> drain, oldest first
//   Release()           drain thread only                   drain -> pool, zeroed up to the bytes used
//
// Guarantees: no allocation, no lock, no system call in Acquire and PushCompleted. A buffer belongs to
// CUPTI from Acquire to PushCompleted and is never touched, unmapped or handed out again meanwhile, also
// not after shutdown (CUPTI writes into unreturned buffers whenever it likes). Memory is reserved by one
// mmap at Init and becomes resident only when used. The object has process lifetime: no destructor.
#ifndef GPUPROBE_RINGBUF_BUFFER_POOL_H_
#define GPUPROBE_RINGBUF_BUFFER_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuprobe {

struct CompletedBuffer {
  uint8_t* data;
  size_t valid_bytes;
  uint32_t context, stream;   // as CUPTI passed them (0 with global or per-thread buffers)
  CompletedBuffer* next;      // next newer; nullptr: last
};

class BufferPool {
 public:
  struct Stats {
    uint64_t acquired, refused, completed, released;
    uint32_t outstanding;      // with CUPTI now
    uint32_t foreign;          // completions of buffers that are not ours: ignored, counted
  };

  constexpr BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Reserves `count` buffers of `buffer_bytes` (a multiple of the page size; count <= 4096). Once, before
  // any other call; false if the memory cannot be had (the pool then refuses every Acquire).
  [[nodiscard]] bool Init(size_t buffer_bytes, uint32_t count);

  // A zeroed buffer of buffer_bytes() or nullptr when none is free (counted).
  uint8_t* Acquire();
  // Hands a completed buffer to the drain thread. False (counted, not touched) if `data` is not one of
  // ours or is not outstanding.
  bool PushCompleted(uint8_t* data, size_t valid_bytes, uint32_t context, uint32_t stream);
  // All buffers completed so far, oldest first; nullptr if none. The nodes stay valid until Release.
  CompletedBuffer* PopAllCompleted();
  void Release(CompletedBuffer* buffer);

  bool Owns(const void* p) const;
  size_t buffer_bytes() const { return buffer_bytes_; }
  uint32_t count() const { return count_; }
  Stats stats() const;

 private:
  // The implementer of buffer_pool.cc adds what it needs here.
  uint8_t* base_ = nullptr;
  size_t buffer_bytes_ = 0;
  uint32_t count_ = 0;
};

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_BUFFER_POOL_H_

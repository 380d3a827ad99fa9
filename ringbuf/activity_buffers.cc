// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/activity_buffers.h"

#include <algorithm>

namespace gpuprobe {
namespace {

// What a buffer costs besides itself.
constexpr size_t kNodeBytes = 64;

uint32_t CountIn(size_t memory_bytes, size_t buffer_bytes) {
  return static_cast<uint32_t>(
      std::min<size_t>(memory_bytes / (buffer_bytes + kNodeBytes), BufferPool::kMaxCount));
}

}  // namespace

size_t ActivityBuffers::BytesForLarge(size_t memory_bytes, size_t large_bytes) {
  return large_bytes < kLeastLargeBytes ? memory_bytes : memory_bytes / 8 * kLargeEighths;
}

bool ActivityBuffers::Init(size_t memory_bytes, size_t large_bytes, uint32_t fewer) {
  const size_t for_large = BytesForLarge(memory_bytes, large_bytes);
  const uint32_t large_count = CountIn(for_large, large_bytes);
  if (!large_.Init(large_bytes, large_count > fewer ? large_count - fewer : large_count)) {
    return false;
  }
  const uint32_t small_count = CountIn(memory_bytes - for_large, kSmallBytes);
  return small_count == 0 || small_.Init(kSmallBytes, small_count);
}

uint8_t* ActivityBuffers::Acquire(size_t* bytes) {
  const bool small_first = small_.count() != 0 && large_.outstanding() >= large_.count() / 4 * 3;
  BufferPool& first = small_first ? small_ : large_;
  BufferPool& second = small_first ? large_ : small_;
  *bytes = first.buffer_bytes();
  if (uint8_t* data = first.Acquire()) return data;
  if (second.count() != 0) {
    *bytes = second.buffer_bytes();
    if (uint8_t* data = second.Acquire()) return data;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);  // statistics order nothing
  return nullptr;
}

bool ActivityBuffers::PushCompleted(uint8_t* data, size_t valid_bytes, uint32_t context,
                                    uint32_t stream) {
  BufferPool& pool = small_.Owns(data) ? small_ : large_;
  return pool.PushCompleted(data, valid_bytes, context, stream);
}

CompletedBuffer* ActivityBuffers::PopAllCompleted() {
  CompletedBuffer* const large = large_.PopAllCompleted();
  CompletedBuffer* const small = small_.PopAllCompleted();
  if (large == nullptr) return small;
  CompletedBuffer* last = large;
  while (last->next != nullptr) last = last->next;
  last->next = small;
  return large;
}

void ActivityBuffers::Release(CompletedBuffer* buffer) {
  BufferPool& pool = small_.Owns(buffer->data) ? small_ : large_;
  pool.Release(buffer);
}

bool ActivityBuffers::Low() const {
  const uint32_t count = large_.count() + small_.count();
  return large_.outstanding() + small_.outstanding() > count / 2;
}

BufferPool::Stats ActivityBuffers::stats() const {
  const BufferPool::Stats large = large_.stats(), small = small_.stats();
  BufferPool::Stats both = large;
  both.acquired += small.acquired;
  both.completed += small.completed;
  both.released += small.released;
  both.given_back += small.given_back;
  both.outstanding += small.outstanding;
  both.peak_outstanding += small.peak_outstanding;
  both.foreign += small.foreign;
  both.oversized += small.oversized;
  both.refused = refused_.load(std::memory_order_relaxed);  // a snapshot
  return both;
}

}  // namespace gpuprobe

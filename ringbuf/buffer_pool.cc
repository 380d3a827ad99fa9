// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace gpuprobe {
namespace {

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // linux/mman.h; missing in older libc headers
#endif

static_assert(BufferPool::kMaxCount <= IndexStack::kMaxIndex + 1);

// Zeroing ends on this border, so that a few bytes written past the valid ones are cleared as well.
constexpr size_t kZeroGrainBytes = 4096;

// Demand is looked at over this many releases, and one buffer at most is given back for each: a
// second when launching hard (a 4 MiB buffer holds about 50,000 records), half a minute when only
// the periodic flush returns buffers. The rise and fall within a training step is not mistaken for
// less demand, and madvise (page-table lock, interrupts to the other cores) and the page faults
// that follow a mistake stay rare.
constexpr uint32_t kDemandWindowReleases = 64;
// Kept resident beyond the demand seen, so that one more thread or a late drain costs no page
// faults.
constexpr uint32_t kSpareWarmBuffers = 1;

constexpr size_t RoundUp(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

}  // namespace

// The links are relaxed: IndexStack publishes them, and copes with one that is stale.
BufferPool::Node* BufferPool::PopFree(IndexStack* stack) {
  const uint32_t index =
      stack->Pop([this](uint32_t i) { return nodes_[i].link.load(std::memory_order_relaxed); });
  return index == IndexStack::kNone ? nullptr : nodes_ + index;
}

void BufferPool::PushFree(IndexStack* stack, Node* node) {
  stack->Push(static_cast<uint32_t>(node - nodes_), [this](uint32_t i, uint32_t below) {
    nodes_[i].link.store(below, std::memory_order_relaxed);
  });
}

bool BufferPool::Init(size_t buffer_bytes, uint32_t count) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (base_ != nullptr || buffer_bytes == 0 || buffer_bytes % page_bytes != 0 || count == 0 ||
      count > kMaxCount || buffer_bytes > SIZE_MAX / 2 / count) {
    return false;
  }
  const size_t nodes_bytes = RoundUp(sizeof(Node) * count, page_bytes);
  const size_t buffers_bytes = buffer_bytes * count;
  // NORESERVE: most of it is never touched, and a host under strict overcommit must not be charged
  // for it.
  void* memory = mmap(nullptr, nodes_bytes + buffers_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  nodes_ = static_cast<Node*>(memory);
  base_ = static_cast<uint8_t*>(memory) + nodes_bytes;
  // Without it (Linux before 4.14) a fork costs copy-on-write faults; nothing else changes.
  (void)madvise(base_, buffers_bytes, MADV_WIPEONFORK);
  buffer_bytes_ = buffer_bytes;
  reserved_bytes_ = nodes_bytes + buffers_bytes;
  count_ = count;
  cold_count_.store(count, std::memory_order_relaxed);  // no other thread yet
  // The mapping is zero, which is State::kFree. Pushed backwards: low addresses are used first.
  for (uint32_t i = count; i-- > 0;) {
    nodes_[i].completed.data = base_ + size_t{i} * buffer_bytes;
    PushFree(&cold_, nodes_ + i);
  }
  return true;
}

uint8_t* BufferPool::Acquire() {
  Node* node = PopFree(&warm_);
  if (node == nullptr) {
    node = PopFree(&cold_);
    if (node == nullptr) {
      refused_.fetch_add(1, std::memory_order_relaxed);  // statistics order nothing
      return nullptr;
    }
    cold_count_.fetch_sub(1, std::memory_order_relaxed);  // a hint for IsSurplus
  }
  CountAcquired();
  // release: partner is the CAS in PushCompleted, also for a completion by a thread that learned
  // the address without any synchronisation: it then sees the node as Release left it.
  node->state.store(State::kOutstanding, std::memory_order_release);
  return node->completed.data;
}

void BufferPool::CountAcquired() {
  // relaxed throughout: statistics. acquired_ is also read by IsSurplus, for buffers that the drain
  // thread got through completed_head_, whose release and acquire order this increment before it.
  // Completions between the two lines make `now` too small, a stale completed_ makes it too large;
  // no larger than count_.
  const uint64_t acquired = acquired_.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t completed = completed_.load(std::memory_order_relaxed);
  const uint32_t now = std::min(static_cast<uint32_t>(acquired - completed), count_);
  uint32_t peak = peak_outstanding_.load(std::memory_order_relaxed);
  while (peak < now &&
         !peak_outstanding_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

bool BufferPool::Owns(const void* p) const {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(base_);
  return offset < buffer_bytes_ * count_;  // below base_ the offset wraps to something huge
}

BufferPool::Node* BufferPool::OutstandingNode(const uint8_t* data) const {
  if (!Owns(data)) return nullptr;
  const size_t offset = static_cast<size_t>(data - base_);
  if (offset % buffer_bytes_ != 0) return nullptr;
  Node* node = nodes_ + offset / buffer_bytes_;
  State expected = State::kOutstanding;
  // The one transition that threads may race for (a completion delivered twice): one wins.
  // acquire: partner is the store in Acquire. relaxed on failure: the node is not touched then.
  return node->state.compare_exchange_strong(expected, State::kCompleted, std::memory_order_acquire,
                                             std::memory_order_relaxed)
             ? node
             : nullptr;
}

bool BufferPool::PushCompleted(uint8_t* data, size_t valid_bytes, uint32_t context,
                               uint32_t stream) {
  Node* node = OutstandingNode(data);
  if (node == nullptr) {
    foreign_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  completed_.fetch_add(1, std::memory_order_relaxed);
  if (valid_bytes > buffer_bytes_) {
    oversized_.fetch_add(1, std::memory_order_relaxed);
    valid_bytes = buffer_bytes_;
  }
  CompletedBuffer* buffer = &node->completed;
  buffer->valid_bytes = valid_bytes;
  buffer->context = context;
  buffer->stream = stream;
  CompletedBuffer* head =
      completed_head_.load(std::memory_order_relaxed);  // only a guess for the CAS
  do {
    buffer->next = head;
    // release: partner is the exchange in PopAllCompleted; publishes the node, and what CUPTI wrote
    // into the buffer. Pushers need no tag: none of them reads the node below its own.
  } while (!completed_head_.compare_exchange_weak(head, buffer, std::memory_order_release,
                                                  std::memory_order_relaxed));
  return true;
}

CompletedBuffer* BufferPool::PopAllCompleted() {
  // relaxed: only saves the exchange, and with it the cache line, when there is nothing.
  if (completed_head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // acquire: partner is the CAS in PushCompleted, for every node: each push continues the release
  // sequence of the ones below it.
  CompletedBuffer* newest_first = completed_head_.exchange(nullptr, std::memory_order_acquire);
  CompletedBuffer* oldest_first = nullptr;
  while (newest_first != nullptr) {
    CompletedBuffer* buffer = newest_first;
    newest_first = buffer->next;
    buffer->next = oldest_first;
    oldest_first = buffer;
    // relaxed: only this thread moves a buffer on from kCompleted, and who else looks wants
    // kOutstanding.
    NodeOf(buffer)->state.store(State::kDraining, std::memory_order_relaxed);
  }
  return oldest_first;
}

BufferPool::Node* BufferPool::NodeOf(const CompletedBuffer* buffer) const {
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(buffer) - reinterpret_cast<uintptr_t>(nodes_);
  if (offset >= sizeof(Node) * count_ || offset % sizeof(Node) != 0) return nullptr;
  return nodes_ + offset / sizeof(Node);
}

// Once in kDemandWindowReleases calls: whether more buffers are resident than the most that were in
// use at once in this window and the one before (in use: with CUPTI, completed or draining). In use
// is largest right before a release, so looking here misses no peak.
bool BufferPool::IsSurplus() {
  // relaxed: released_ is written by this thread only; the others may lag, which shifts the
  // decision by one release.
  const uint32_t in_use = static_cast<uint32_t>(acquired_.load(std::memory_order_relaxed) -
                                                released_.load(std::memory_order_relaxed));
  window_peak_ = std::max(window_peak_, in_use);
  if (++window_releases_ < kDemandWindowReleases) return false;
  const uint32_t needed = std::max(window_peak_, previous_window_peak_) + kSpareWarmBuffers;
  previous_window_peak_ = window_peak_;
  window_peak_ = 0;
  window_releases_ = 0;
  return count_ - cold_count_.load(std::memory_order_relaxed) > needed;
}

void BufferPool::Release(CompletedBuffer* buffer) {
  Node* node = NodeOf(buffer);
  // relaxed: the drain thread alone takes a buffer to kDraining and on from it.
  if (node == nullptr || node->state.load(std::memory_order_relaxed) != State::kDraining) {
    foreign_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // madvise fails on locked memory (mlockall in the host); then the buffer is zeroed like any
  // other.
  const bool give_back =
      IsSurplus() && madvise(node->completed.data, buffer_bytes_, MADV_DONTNEED) == 0;
  if (!give_back) {
    // CUPTI requires zeroed buffers under CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER.
    const size_t used_bytes = RoundUp(node->completed.valid_bytes, kZeroGrainBytes);
    memset(node->completed.data, 0, std::min(used_bytes, buffer_bytes_));
  }
  released_.fetch_add(1, std::memory_order_relaxed);
  // relaxed: published by PushFree, and not looked at before the next Acquire of this buffer.
  node->state.store(State::kFree, std::memory_order_relaxed);
  if (give_back) {
    given_back_.fetch_add(1, std::memory_order_relaxed);
    // Before the push: a thread that takes the buffer at once must not bring the count below 0.
    cold_count_.fetch_add(1, std::memory_order_relaxed);
    PushFree(&cold_, node);
  } else {
    PushFree(&warm_, node);
  }
}

BufferPool::Stats BufferPool::stats() const {
  // relaxed: a snapshot for reports, each number by itself.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t completed = completed_.load(kRelaxed);
  const uint64_t acquired = acquired_.load(kRelaxed);
  return {.acquired = acquired,
          .refused = refused_.load(kRelaxed),
          .completed = completed,
          .released = released_.load(kRelaxed),
          .given_back = given_back_.load(kRelaxed),
          .outstanding = static_cast<uint32_t>(acquired > completed ? acquired - completed : 0),
          .peak_outstanding = peak_outstanding_.load(kRelaxed),
          .foreign = foreign_.load(kRelaxed),
          .oversized = oversized_.load(kRelaxed)};
}

}  // namespace gpuprobe

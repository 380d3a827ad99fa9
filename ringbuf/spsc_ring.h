// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Bounded ring of trivially copyable elements for one producing and one consuming thread, in memory
// that the caller provides. Nothing in it waits, allocates or calls anything: a full ring is the
// producer's to know (TryPush returns false) and to count (Push does), and the count travels to the
// consumer.
//
// Threads. Producer: TryPush, TryPushWith, Push, CountDrop. Consumer: Consume, TakeDrops. Any:
// size, capacity, dropped. Either role may move to another thread if something orders the old
// thread's last call before the new one's first (a join, or the kernel saying that the thread is
// gone).
//
// Invariants
//   tail_ and head_ count all pushes and pops and are never masked, so all `capacity` places are
//   used and
//     full (tail - head == capacity) differs from empty (tail == head). They may wrap: the capacity
//     divides the range of Index, and differences are taken in Index.
//   Slots [head, tail) belong to the consumer, all others to the producer.
//   tail_ is stored by the producer with release and loaded by the consumer with acquire: the
//   elements are
//     visible before the count that covers them. head_ the same in the other direction: an element
//     has been read before its slot is written again.
//
// Cost. The producer remembers head_ and reloads it only when the ring looks full; the consumer
// takes all there is, so it loads tail_ once a batch. Three cache lines: what the producer writes
// and the consumer reads, what only the producer needs, what the consumer writes. A push stays
// within lines that the producer already owns, until the consumer comes and reads tail_.
#ifndef GPUPROBE_RINGBUF_SPSC_RING_H_
#define GPUPROBE_RINGBUF_SPSC_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace gpuprobe {

inline constexpr size_t kCacheLineBytes = 64;  // x86-64

// Not std::has_single_bit: without -mpopcnt that calls libgcc.
constexpr bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

// Elements that did not fit: how many, and the times at which the first and the last came.
struct DropRange {
  uint64_t count;
  int64_t first_ns, last_ns;
};

// Index is a parameter so that a test can run it past its wrap.
template <typename T, typename Index = uint64_t>
class SpscRing {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(std::is_unsigned_v<Index> && std::atomic<Index>::is_always_lock_free);

  constexpr SpscRing() = default;
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  static constexpr size_t BytesFor(size_t capacity) { return capacity * sizeof(T); }

  // `memory`: BytesFor(capacity) bytes aligned for T, owned by the caller, kept as long as the
  // ring. `capacity` is a power of two, at most half the range of Index. Once, before any other
  // call; false (and every push drops) if the arguments are wrong.
  [[nodiscard]] bool Init(void* memory, size_t capacity) {
    if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % alignof(T) != 0 ||
        !IsPowerOfTwo(capacity) || capacity > std::numeric_limits<Index>::max() / 2 + 1u) {
      return false;
    }
    slots_ = static_cast<T*>(memory);
    capacity_ = static_cast<Index>(capacity);
    return true;
  }

  // Producer. False: the ring is full, nothing was stored.
  [[nodiscard]] bool TryPush(const T& element) {
    return TryPushWith([&element](T* slot) { *slot = element; });
  }

  // Producer. The same for an element that fill(T*) writes in place (all of it: the slot holds an
  // old one).
  template <typename Fill>
  [[nodiscard]] bool TryPushWith(Fill&& fill) {
    const Index tail = tail_.load(std::memory_order_relaxed);  // ours alone to write
    // relaxed: ours alone, atomic only for a change of producer.
    if (Distance(head_seen_.load(std::memory_order_relaxed), tail) >= capacity_) {
      // acquire: partner is the store in Consume; the consumer is done with the slots up to here.
      const Index head = head_.load(std::memory_order_acquire);
      head_seen_.store(head, std::memory_order_relaxed);
      if (Distance(head, tail) >= capacity_) return false;
    }
    fill(slots_ + (tail & (capacity_ - 1)));
    // release: partner is the load of tail_ in Consume; publishes the element.
    tail_.store(static_cast<Index>(tail + 1), std::memory_order_release);
    return true;
  }

  // Producer. TryPush that counts what it could not store; `time_ns` is when that happened.
  bool Push(const T& element, int64_t time_ns) {
    if (TryPush(element)) [[likely]]
      return true;
    CountDrop(time_ns);
    return false;
  }

  // Producer. Counts an element that was not stored.
  void CountDrop(int64_t time_ns) {
    // A sequence lock with one writer: odd while the three words are being changed. The words are
    // atomics stored with release: partner is their acquire in ReadDrops, so whoever sees one of
    // them also sees the odd number before it. (A fence would do the same; ThreadSanitizer does not
    // know fences.)
    const uint32_t sequence =
        drop_sequence_.load(std::memory_order_relaxed);                  // ours alone to write
    const uint64_t count = drop_count_.load(std::memory_order_relaxed);  // ours alone to write
    drop_sequence_.store(sequence + 1, std::memory_order_relaxed);  // ordered by the releases below
    // relaxed: only decides where the range begins. A stale value makes it begin too early, not too
    // late.
    if (drops_taken_.load(std::memory_order_relaxed) == count) {
      first_drop_ns_.store(time_ns, std::memory_order_release);
    }
    last_drop_ns_.store(time_ns, std::memory_order_release);
    drop_count_.store(count + 1, std::memory_order_release);
    // release: partner is the first load of drop_sequence_ in ReadDrops.
    drop_sequence_.store(sequence + 2, std::memory_order_release);
  }

  // Consumer. Calls fn(std::span<const T>) for the elements present now, oldest first: once, or
  // twice where they run past the end of the memory. Their slots become free when it returns. At
  // most one ringful, however fast the producer is. Returns the number of elements.
  template <typename Fn>
  size_t Consume(Fn&& fn) {
    const Index head = head_.load(std::memory_order_relaxed);  // ours alone to write
    // acquire: partner is the store in TryPushWith; the elements up to here are visible.
    const Index tail = tail_.load(std::memory_order_acquire);
    const size_t count = Distance(head, tail);
    if (count == 0) return 0;
    const size_t begin = head & (capacity_ - 1);
    const size_t until_end = capacity_ - begin;
    const size_t first_run = count < until_end ? count : until_end;
    fn(std::span<const T>(slots_ + begin, first_run));
    if (count > first_run) fn(std::span<const T>(slots_, count - first_run));
    // release: partner is the load of head_ in TryPushWith; our reads come before the producer's
    // next writes.
    head_.store(tail, std::memory_order_release);
    return count;
  }

  // Consumer. What was dropped since the last call that returned true; false if nothing, or if the
  // producer was counting at each of a few attempts (the next call tells). A drop that races with
  // this call may be reported next time with a range that reaches back over the one reported now;
  // it is never lost or counted twice.
  bool TakeDrops(DropRange* out) {
    constexpr int kAttempts =
        16;  // bounded: the producer may be off its core in the middle of CountDrop
    for (int i = 0; i < kAttempts; ++i) {
      DropRange all;
      if (!ReadDrops(&all)) continue;
      const uint64_t taken = drops_taken_.load(std::memory_order_relaxed);  // ours alone to write
      if (all.count == taken) return false;
      // relaxed: tells CountDrop where the next range begins, nothing else.
      drops_taken_.store(all.count, std::memory_order_relaxed);
      *out = {.count = all.count - taken, .first_ns = all.first_ns, .last_ns = all.last_ns};
      return true;
    }
    return false;
  }

  // For statistics, from any thread: right if both sides rest, else somewhere near.
  size_t size() const {
    // relaxed: nothing is read on the strength of it. Head first, so that the difference is not
    // negative.
    const Index head = head_.load(std::memory_order_relaxed);
    const Index distance = Distance(head, tail_.load(std::memory_order_relaxed));
    return distance < capacity_ ? distance : capacity_;
  }
  size_t capacity() const { return capacity_; }
  // Any thread: all drops so far, taken or not. relaxed: a statistic.
  uint64_t dropped() const { return drop_count_.load(std::memory_order_relaxed); }

 private:
  // One reading of the three drop words; false if they changed meanwhile.
  bool ReadDrops(DropRange* out) const {
    // acquire: partner is the last store in CountDrop.
    const uint32_t sequence = drop_sequence_.load(std::memory_order_acquire);
    if (sequence % 2 != 0) return false;
    // acquire: partners are the stores in CountDrop. If one of these is newer than `sequence`, the
    // check below sees the producer's odd number or a later one.
    out->count = drop_count_.load(std::memory_order_acquire);
    out->first_ns = first_drop_ns_.load(std::memory_order_acquire);
    out->last_ns = last_drop_ns_.load(std::memory_order_acquire);
    return drop_sequence_.load(std::memory_order_relaxed) == sequence;
  }

  static constexpr Index Distance(Index head, Index tail) {
    return static_cast<Index>(tail - head);
  }

  // Written by the producer, read by the consumer. The capacity is 0 before Init: everything is
  // full.
  alignas(kCacheLineBytes) std::atomic<Index> tail_{0};

  // The producer's own; the drop words are read by the consumer now and then.
  alignas(kCacheLineBytes) std::atomic<Index> head_seen_{0};
  T* slots_ = nullptr;  // these two written by Init alone
  Index capacity_ = 0;
  std::atomic<uint32_t> drop_sequence_{0};
  std::atomic<uint64_t> drop_count_{0};
  std::atomic<int64_t> first_drop_ns_{0};
  std::atomic<int64_t> last_drop_ns_{0};

  // Written by the consumer, read by the producer.
  alignas(kCacheLineBytes) std::atomic<Index> head_{0};
  std::atomic<uint64_t> drops_taken_{0};
};

// Three lines, each starting one: neither side's writes take a line from the other more than once a
// batch.
static_assert(alignof(SpscRing<uint64_t>) == kCacheLineBytes);
static_assert(sizeof(SpscRing<uint64_t>) == 3 * kCacheLineBytes);
static_assert(std::is_trivially_destructible_v<SpscRing<uint64_t>>);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_SPSC_RING_H_

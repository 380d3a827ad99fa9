// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One small SPSC ring of SessionEvents per application thread that has something to tell, out of a
// fixed set. A thread takes a ring at its first Push and keeps it; the drain thread reads all
// rings, and takes back those whose thread has ended.
//
//   Push              any thread, lock-free; one gettid system call at a thread's first event, none
//   after stats             any thread everything else   drain thread only
//
// Nothing of ours runs when a thread ends: a thread_local destructor or a pthread key would put our
// code into the host's thread exit (and a key's first use may allocate). The drain thread asks the
// kernel instead, with signal number 0 to each tid that holds a ring, which works without /proc.
//
// Thread-local storage: 16 bytes in the global-dynamic model, so that the library loads by a late
// dlopen into a process whose static TLS is used up.
//
// Fork: the child's copy is dead. Push returns false there and counts nothing, because the word
// that it looks at first is wiped by the kernel (MADV_WIPEONFORK); for Linux before 4.14 call
// StopInForkChild from an atfork handler. The parent notices nothing. The object has process
// lifetime: no destructor.
#ifndef GPUPROBE_RINGBUF_THREAD_RINGS_H_
#define GPUPROBE_RINGBUF_THREAD_RINGS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "ringbuf/events.h"
#include "ringbuf/loss.h"
#include "ringbuf/spsc_ring.h"

namespace gpuprobe {

class ThreadRings {
 public:
  static constexpr uint32_t kMaxRings = 1024;
  // Threads that call CUDA: a PyTorch process has 2, a server some dozens.
  static constexpr uint32_t kDefaultRings = 64;
  // 16 KiB a ring: what a thread may say within one drain period.
  static constexpr uint32_t kDefaultRingEvents = 256;

  struct Stats {
    uint64_t claims, reclaims;  // rings taken by threads, rings taken back from ended ones
    uint64_t dropped;           // events, for whatever reason
    uint32_t rings_in_use;      // including those of ended threads that are not taken back yet
  };

  constexpr ThreadRings() = default;
  ThreadRings(const ThreadRings&) = delete;
  ThreadRings& operator=(const ThreadRings&) = delete;

  // Reserves the rings (one mmap, resident as used): `rings` <= kMaxRings, `events` per ring a
  // power of two. Once, before any other call; false (and every Push does nothing) if the arguments
  // are wrong or there is no memory.
  [[nodiscard]] bool Init(uint32_t rings = kDefaultRings, uint32_t events = kDefaultRingEvents);

  // Hands a copy of `event` to the drain thread, with the caller's tid in it. False if it was
  // dropped: the ring is full, no ring is free, or a signal handler interrupted a Push of the same
  // thread. All counted.
  bool Push(const SessionEvent& event);

  // Calls fn(const SessionEvent&) for all events present: in order for each thread, not between
  // threads. Returns their number, at most one ringful per ring.
  template <typename Fn>
  size_t Consume(Fn&& fn) {
    size_t count = 0;
    for (Slot& slot : slots()) {
      // No look at the owner: an empty ring costs two loads, and an ended thread's events count
      // too.
      count += slot.ring.Consume([&fn](std::span<const SessionEvent> events) {
        for (const SessionEvent& event : events) fn(event);
      });
    }
    return count;
  }

  // Frees the rings of ended threads; what they still hold is not lost, the next owner's events
  // come after it. One system call per ring in use: call it once a flush period, not once a drain.
  void ReclaimEnded();

  // Events dropped since the last call, of all threads, and the range of their times
  // (LossCause::kQueueFull). False: none. The range may be wider than the drops, never narrower
  // (spsc_ring.h, loss.h).
  bool TakeDrops(DropRange* out);

  // For an atfork child handler. Async-signal-safe.
  void StopInForkChild();

  // All that Init has reserved, for the session's memory account.
  size_t reserved_bytes() const { return reserved_bytes_; }
  Stats stats() const;

 private:
  struct alignas(kCacheLineBytes) Slot {
    std::atomic<uint32_t> owner_tid;  // 0: free
    SpscRing<SessionEvent> ring;
  };

  std::span<Slot> slots() const { return {slots_, slot_count_}; }
  bool Alive() const;
  Slot* ClaimSlot(uint32_t tid);

  // Written by Init alone.
  std::atomic<uint32_t>* alive_ = nullptr;
  Slot* slots_ = nullptr;
  uint32_t slot_count_ = 0;
  uint32_t id_ = 0;  // tells the threads' cached slots of different registries apart
  size_t reserved_bytes_ = 0;

  LossCounter no_ring_;  // drops of threads that have no ring, or are in the middle of using it
  std::atomic<uint64_t> claims_{0};
  std::atomic<uint64_t> reclaims_{0};
};

static_assert(std::is_trivially_destructible_v<ThreadRings>);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_THREAD_RINGS_H_

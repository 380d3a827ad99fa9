// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A LIFO of small numbers (indices of an array) for any number of threads on both ends: lock-free,
// one 64-bit word, no memory of its own. The links live with the caller, who passes the functions
// that read and write them; that also lets a test do something between the reading of a link and
// the use made of it.
//
// ABA: a thread reads the top and its link and is put off its core; others pop that index, pop the
// next, and push the first back. The top looks the same, but the link is old, and to install it
// would hand out an index that is in use. So the upper 48 bits of the word count the changes, and
// the compare-and-swap fails unless exactly 2^48 changes were missed (9 years at one a
// microsecond).
#ifndef GPUPROBE_RINGBUF_INDEX_STACK_H_
#define GPUPROBE_RINGBUF_INDEX_STACK_H_

#include <atomic>
#include <cstdint>

namespace gpuprobe {

class IndexStack {
 public:
  static constexpr uint32_t kNone = 0xffff;  // also the largest link value
  static constexpr uint32_t kMaxIndex = kNone - 1;

  constexpr IndexStack() = default;
  IndexStack(const IndexStack&) = delete;
  IndexStack& operator=(const IndexStack&) = delete;

  // The index on top, or kNone. `link_of(i)` returns what Push had link(i, ...) store; it may be
  // called for an index that another thread has just taken, so the links must be atomics (relaxed
  // is enough). What the pusher of an index did before Push is visible afterwards.
  template <typename LinkOf>
  uint32_t Pop(LinkOf&& link_of) {
    // acquire: partner is the CAS in Push. Every change of word_ is a read-modify-write, so this
    // sees the push of whatever is on top, its link included.
    uint64_t word = word_.load(std::memory_order_acquire);
    while (Top(word) != kNone) {
      const uint32_t top = Top(word);
      const uint32_t link =
          link_of(top);  // stale if another thread takes `top` now: then the CAS fails
      // acquire, both ways: as above. Nothing is published here, hence no release.
      if (word_.compare_exchange_weak(word, Next(word, link), std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        return top;
      }
    }
    return kNone;
  }

  // Puts `index` <= kMaxIndex on top. `link(index, below)` stores what is below it, perhaps several
  // times.
  template <typename Link>
  void Push(uint32_t index, Link&& link) {
    uint64_t word = word_.load(std::memory_order_relaxed);  // only a guess for the CAS
    do {
      link(index, Top(word));
      // release: partner is Pop. relaxed on failure: the value is only the next guess.
    } while (!word_.compare_exchange_weak(word, Next(word, index), std::memory_order_release,
                                          std::memory_order_relaxed));
  }

 private:
  // The low 16 bits hold the top inverted, so that a zero word is an empty stack.
  static constexpr uint32_t Top(uint64_t word) { return ~static_cast<uint32_t>(word) & 0xffff; }
  static constexpr uint64_t Next(uint64_t word, uint32_t top) {
    return ((word >> 16) + 1) << 16 | (~top & 0xffff);
  }

  std::atomic<uint64_t> word_{0};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_INDEX_STACK_H_

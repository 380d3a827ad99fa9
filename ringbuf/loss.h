// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What is missing, by cause: how much and between which times. Nothing that gpuprobe cannot record
// goes missing without passing through here on its way into the trace (LossCause, records.h).
//
// Threads: Add from any thread, also inside CUPTI's callbacks (no lock, no wait, no call); Take
// from one thread at a time. Times are nanoseconds on the trace clock.
//
// What Take may see while threads are in Add:
//   - a loss is in exactly one Take: none is lost, none is counted twice;
//   - every loss lies inside the range reported with it. The range may be wider: it may include the
//   time of
//     a loss that is still being added and is counted next time, and it is carried from each Take
//     that finds a loss being added into the next. With no Add under way it is exact (an Add takes
//     some 50 ns);
//   - `detail` is that of one of the losses, not necessarily of the last.
// A thread that dies inside Add (asynchronous cancellation) widens the ranges of that cause from
// then on; the counts stay right.
#ifndef GPUPROBE_RINGBUF_LOSS_H_
#define GPUPROBE_RINGBUF_LOSS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ringbuf/records.h"

namespace gpuprobe {

inline constexpr size_t kLossCauseCount = static_cast<size_t>(LossCause::kUntimed) + 1;

struct Loss {
  LossCause cause;
  uint64_t count;  // in the unit of the cause, see LossCause
  int64_t begin_ns, end_ns;
  int64_t detail;  // errno, activity kind, ...
};

// The counter of one cause. A cache line, so that causes do not disturb each other.
class alignas(64) LossCounter {
 public:
  constexpr LossCounter() = default;
  LossCounter(const LossCounter&) = delete;
  LossCounter& operator=(const LossCounter&) = delete;

  // Any thread. `count` of 0 is ignored. The two times may be equal and in any order.
  void Add(uint64_t count, int64_t begin_ns, int64_t end_ns, int64_t detail = 0) {
    if (count == 0) return;
    // relaxed: seen by Take with the range, which is stored with release below.
    adding_.fetch_add(1, std::memory_order_relaxed);
    detail_.store(detail, std::memory_order_relaxed);  // any of several will do
    Lower(&begin_ns_, std::min(begin_ns, end_ns));
    Raise(&end_ns_, std::max(begin_ns, end_ns));
    // release: partner is the exchange in Take; whoever takes the count sees the range.
    count_.fetch_add(count, std::memory_order_release);
    // release: partner is the load in Take; whoever sees us gone sees the count.
    adding_.fetch_sub(1, std::memory_order_release);
  }

  // One thread. False: nothing since the last Take. Does not set out->cause.
  bool Take(Loss* out) {
    // acquire: partner is the count in Add. First the count, then the range, the reverse of Add:
    // the range of all that is counted is in the words (or in the carried range) by now.
    const uint64_t count = count_.exchange(0, std::memory_order_acquire);
    if (count == 0) return false;  // a range without a count stays for the Take that has the count
    // acquire: partners are Lower and Raise; the adding_ of those whose times we take is visible
    // below. What is not there was not moved since the last Take, which then carried it.
    const int64_t begin_ns =
        std::min(carried_begin_ns_, begin_ns_.exchange(kNoBegin, std::memory_order_acquire));
    const int64_t end_ns =
        std::max(carried_end_ns_, end_ns_.exchange(kNoEnd, std::memory_order_acquire));
    // A thread whose time has just been taken, but whose count has not, is still adding, or has
    // added since. acquire: partner is the last step of Add. relaxed: made visible by it.
    const bool carry =
        adding_.load(std::memory_order_acquire) != 0 || count_.load(std::memory_order_relaxed) != 0;
    carried_begin_ns_ = carry ? begin_ns : kNoBegin;
    carried_end_ns_ = carry ? end_ns : kNoEnd;
    total_.fetch_add(count, std::memory_order_relaxed);  // a statistic
    out->count = count;
    out->begin_ns = begin_ns;
    out->end_ns = end_ns;
    out->detail = detail_.load(std::memory_order_relaxed);  // one of those that count_ made visible
    return true;
  }

  // Any thread: all that has been added so far. While Take runs, what it takes may be missing here.
  uint64_t total() const {
    return total_.load(std::memory_order_relaxed) + count_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kNoBegin = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::min();

  // Both write also where nothing changes: a Take that takes the range before us then finds,
  // through that write, that we are adding. A mere load would tell nobody.
  static void Lower(std::atomic<int64_t>* word, int64_t value) {
    int64_t now = word->load(std::memory_order_relaxed);  // only a guess for the CAS
    // release: partner is the exchange in Take. relaxed on failure: the value is only the next
    // guess.
    while (!word->compare_exchange_weak(now, std::min(now, value), std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  static void Raise(std::atomic<int64_t>* word, int64_t value) {
    int64_t now = word->load(std::memory_order_relaxed);  // all as in Lower
    while (!word->compare_exchange_weak(now, std::max(now, value), std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }

  std::atomic<uint64_t> count_{0};
  std::atomic<int64_t> begin_ns_{kNoBegin};
  std::atomic<int64_t> end_ns_{kNoEnd};
  std::atomic<int64_t> detail_{0};
  std::atomic<uint64_t> total_{0};   // taken
  std::atomic<uint32_t> adding_{0};  // threads inside Add
  // Take's own: the range of a loss that was being added when its time was taken.
  int64_t carried_begin_ns_ = kNoBegin;
  int64_t carried_end_ns_ = kNoEnd;
};

class LossCounters {
 public:
  constexpr LossCounters() = default;

  // Any thread. A cause that is not in LossCause is ignored.
  void Add(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns, int64_t detail = 0) {
    const size_t i = static_cast<size_t>(cause);
    if (i < counters_.size()) counters_[i].Add(count, begin_ns, end_ns, detail);
  }

  // One thread. Calls fn(const Loss&) for each cause with something new, and forgets it. If the
  // loss then cannot be written, Add it again.
  template <typename Fn>
  void TakeAll(Fn&& fn) {
    for (size_t i = 0; i < counters_.size(); ++i) {
      Loss loss;
      loss.cause = static_cast<LossCause>(i);
      if (counters_[i].Take(&loss)) fn(static_cast<const Loss&>(loss));
    }
  }

  // Any thread: everything that was ever added, taken or not.
  uint64_t total(LossCause cause) const {
    const size_t i = static_cast<size_t>(cause);
    return i < counters_.size() ? counters_[i].total() : 0;
  }

 private:
  std::array<LossCounter, kLossCauseCount> counters_{};
};

static_assert(std::is_trivially_destructible_v<LossCounters>);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_LOSS_H_

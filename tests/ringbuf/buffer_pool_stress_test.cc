// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Many threads, few buffers: the pool is exhausted most of the time, and the free lists' heads come
// back to the same node all the time. Counts are small enough for ThreadSanitizer on two busy
// cores.
#include <sched.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ringbuf/buffer_pool.h"

namespace gpuprobe {
namespace {

constexpr size_t kBytes = 4096;
constexpr uint32_t kProducers = 8;

// What a producer writes into its buffer: a number, and words that follow from it up to the valid
// size.
struct Content {
  static size_t ValidBytes(uint64_t stamp) { return 16 + stamp * 8 % (kBytes - 16) / 8 * 8; }

  static void Write(uint8_t* data, uint64_t stamp) {
    for (size_t at = 0; at < ValidBytes(stamp); at += 8) {
      const uint64_t word = stamp * 0x9e3779b97f4a7c15u + at;
      memcpy(data + at, &word, 8);
    }
  }
  static bool Matches(const uint8_t* data, uint64_t stamp) {
    for (size_t at = 0; at < ValidBytes(stamp); at += 8) {
      uint64_t word;
      memcpy(&word, data + at, 8);
      if (word != stamp * 0x9e3779b97f4a7c15u + at) return false;
    }
    return true;
  }
};

bool IsZero(const uint8_t* data) {
  static const uint8_t kZeros[kBytes] = {};
  return memcmp(data, kZeros, kBytes) == 0;
}

class PoolUnderContention {
 public:
  PoolUnderContention(uint32_t buffers, uint32_t per_producer) : per_producer_(per_producer) {
    EXPECT_TRUE(pool_.Init(kBytes, buffers));
    for (std::atomic<uint32_t>& holder : holders_) holder.store(0, std::memory_order_relaxed);
  }

  void Run() {
    std::vector<std::thread> producers;
    for (uint32_t p = 0; p < kProducers; ++p) producers.emplace_back([this, p] { Produce(p); });
    Drain();
    give_up_.store(true,
                   std::memory_order_relaxed);  // nobody drains any more, also if Drain has failed
    for (std::thread& thread : producers) thread.join();
    const uint64_t total = uint64_t{kProducers} * per_producer_;
    const BufferPool::Stats stats = pool_.stats();
    EXPECT_EQ(stats.acquired, total);
    EXPECT_EQ(stats.completed, total);
    EXPECT_EQ(stats.released, total);
    EXPECT_EQ(stats.refused, refused_.load());
    EXPECT_EQ(stats.outstanding, 0u);
    EXPECT_LE(stats.peak_outstanding, pool_.count());
    EXPECT_EQ(stats.foreign, 0u);
    EXPECT_EQ(handed_out_twice_.load(), 0u);
    EXPECT_EQ(not_zeroed_.load(), 0u);
    EXPECT_EQ(push_refused_.load(), 0u);
    std::set<uint8_t*> at_rest;
    while (uint8_t* data = pool_.Acquire()) EXPECT_TRUE(at_rest.insert(data).second);
    EXPECT_EQ(at_rest.size(), pool_.count()) << "a buffer got lost";
  }

 private:
  // Which producer has the buffer, + 1. relaxed, so that it lends the pool no ordering of its own.
  std::atomic<uint32_t>& Holder(const uint8_t* data) {
    return holders_[reinterpret_cast<uintptr_t>(data) / kBytes % holders_.size()];
  }

  void Produce(uint32_t producer) {
    for (uint64_t i = 0; i < per_producer_ && !give_up_.load(std::memory_order_relaxed);) {
      uint8_t* data = pool_.Acquire();
      if (data == nullptr) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        sched_yield();
        continue;
      }
      if (Holder(data).exchange(producer + 1, std::memory_order_relaxed) != 0) ++handed_out_twice_;
      if (!IsZero(data)) ++not_zeroed_;
      const uint64_t stamp = i * kProducers + producer;
      Content::Write(data, stamp);
      if (Holder(data).exchange(0, std::memory_order_relaxed) != producer + 1) ++handed_out_twice_;
      // The stamp travels in context and stream, so that the content can be checked against it.
      if (!pool_.PushCompleted(data, Content::ValidBytes(stamp), producer,
                               static_cast<uint32_t>(i))) {
        ++push_refused_;
      }
      ++i;
    }
  }

  void Drain() {
    std::array<uint32_t, kProducers> next = {};
    for (uint64_t left = uint64_t{kProducers} * per_producer_; left > 0;) {
      CompletedBuffer* buffer = pool_.PopAllCompleted();
      if (buffer == nullptr) sched_yield();
      while (buffer != nullptr) {
        ASSERT_LT(buffer->context, kProducers);
        ASSERT_EQ(buffer->stream, next[buffer->context]) << "lost, doubled or out of order";
        const uint64_t stamp = uint64_t{next[buffer->context]++} * kProducers + buffer->context;
        ASSERT_EQ(buffer->valid_bytes, Content::ValidBytes(stamp));
        ASSERT_TRUE(Content::Matches(buffer->data, stamp));
        CompletedBuffer* after = buffer->next;
        pool_.Release(buffer);
        buffer = after;
        --left;
      }
    }
  }

  const uint32_t per_producer_;
  BufferPool pool_;
  std::array<std::atomic<uint32_t>, 64> holders_;
  std::atomic<bool> give_up_{false};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint32_t> handed_out_twice_{0}, not_zeroed_{0}, push_refused_{0};
};

TEST(BufferPoolStressTest, EveryBufferOfEightProducersArrivesOnceIntactAndInOrder) {
  PoolUnderContention(5, 4000).Run();
}

TEST(BufferPoolStressTest, OneBufferForEightProducers) { PoolUnderContention(1, 500).Run(); }

// The same completion delivered by two threads at once: one wins, the buffer is queued once.
TEST(BufferPoolStressTest, RacingDoubleCompletionsQueueABufferOnce) {
  constexpr uint32_t kBuffers = 64, kRounds = 150;
  BufferPool pool;
  ASSERT_TRUE(pool.Init(kBytes, kBuffers));
  std::vector<uint8_t*> outstanding(kBuffers);
  std::atomic<uint32_t> round{0}, arrived{0}, accepted{0};
  const auto complete_all = [&] {
    for (uint32_t r = 1; r <= kRounds; ++r) {
      while (round.load(std::memory_order_acquire) < r) sched_yield();
      for (uint8_t* data : outstanding) accepted += pool.PushCompleted(data, r, 0, 0);
      arrived.fetch_add(1, std::memory_order_release);
    }
  };
  std::thread first(complete_all), second(complete_all);
  for (uint32_t r = 1; r <= kRounds; ++r) {
    for (uint8_t*& data : outstanding) data = pool.Acquire();
    round.store(r, std::memory_order_release);
    std::set<uint8_t*> queued;
    std::vector<CompletedBuffer*> popped;
    while (true) {
      const bool last = arrived.load(std::memory_order_acquire) == 2 * r;
      CompletedBuffer* buffer = pool.PopAllCompleted();
      for (; buffer != nullptr; buffer = buffer->next) {
        EXPECT_TRUE(queued.insert(buffer->data).second) << "queued twice";
        EXPECT_EQ(buffer->valid_bytes, r);
        popped.push_back(buffer);
      }
      if (last) break;
      sched_yield();
    }
    EXPECT_EQ(queued.size(), kBuffers);
    for (CompletedBuffer* b : popped) pool.Release(b);
  }
  first.join();
  second.join();
  EXPECT_EQ(accepted.load(), kBuffers * kRounds);
  EXPECT_EQ(pool.stats().foreign, kBuffers * kRounds);
  EXPECT_EQ(pool.stats().completed, uint64_t{kBuffers} * kRounds);
}

// Completions of buffers that are not outstanding, and of addresses that are not buffers, in the
// middle of the traffic. All are refused, and the traffic does not notice. (A completion of
// somebody else's outstanding buffer could not be told from the right one.)
TEST(BufferPoolStressTest, ForeignCompletionsDoNotDisturbTheTraffic) {
  constexpr uint32_t kRounds = 20'000;
  BufferPool pool;
  ASSERT_TRUE(pool.Init(kBytes, 4));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> attempts{0}, accepted{0};
  uint8_t* base = pool.Acquire();
  ASSERT_TRUE(pool.PushCompleted(base, 0, 0, 0));
  pool.Release(pool.PopAllCompleted());
  std::thread stranger([&] {
    uint64_t n = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      uint8_t* const address = base + (n % 4) * kBytes + 1 + n % (kBytes - 1);
      accepted += pool.PushCompleted(address, kBytes, 9, 9);
      attempts.store(++n, std::memory_order_relaxed);
      if (n % 64 == 0) sched_yield();
    }
  });
  while (attempts.load(std::memory_order_relaxed) == 0) sched_yield();
  for (uint32_t i = 0; i < kRounds; ++i) {
    uint8_t* data = pool.Acquire();
    ASSERT_NE(data, nullptr);
    memcpy(data, &i, sizeof(i));
    ASSERT_TRUE(pool.PushCompleted(data, sizeof(i), 0, i));
    CompletedBuffer* buffer = pool.PopAllCompleted();
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(buffer->stream, i);
    ASSERT_EQ(buffer->next, nullptr);
    ASSERT_EQ(memcmp(buffer->data, &i, sizeof(i)), 0);
    pool.Release(buffer);
  }
  stop = true;
  stranger.join();
  EXPECT_EQ(accepted.load(), 0u);
  EXPECT_EQ(pool.stats().foreign, attempts.load());
}

// A completion from a thread that has nothing but the address, without any ordering after the
// Acquire. The pool's own words must order its use of the node after the previous use (seen by
// ThreadSanitizer).
TEST(BufferPoolStressTest, CompletionNeedsNoOrderingButThePoolsOwn) {
  constexpr uint32_t kRounds = 3000;
  BufferPool pool;
  ASSERT_TRUE(pool.Init(kBytes, 2));
  uint8_t* first = pool.Acquire();
  uint8_t* second = pool.Acquire();
  std::atomic<bool> stop{false};
  std::thread completer([&] {
    for (uint32_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
      (void)pool.PushCompleted(n % 2 == 0 ? first : second, n % kBytes, n, n);
      if (n % 2 == 1) sched_yield();
    }
  });
  for (uint32_t released = 0; released < kRounds;) {
    CompletedBuffer* buffer = pool.PopAllCompleted();
    if (buffer == nullptr) sched_yield();
    while (buffer != nullptr) {
      EXPECT_EQ(buffer->context, buffer->stream);
      EXPECT_EQ(buffer->valid_bytes, buffer->context % kBytes);
      CompletedBuffer* next = buffer->next;
      pool.Release(buffer);
      EXPECT_NE(pool.Acquire(), nullptr);
      buffer = next;
      ++released;
    }
  }
  stop.store(true, std::memory_order_relaxed);
  completer.join();
}

}  // namespace
}  // namespace gpuprobe

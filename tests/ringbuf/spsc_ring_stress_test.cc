// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One producer and one consumer at full speed through rings that are full or empty most of the
// time. Every element and every drop is accounted for by name.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ringbuf/spsc_ring.h"

namespace gpuprobe {
namespace {

struct Wide {  // 64 bytes that must agree with each other
  uint64_t words[8];

  static Wide Of(uint64_t n) {
    Wide wide;
    for (uint64_t i = 0; i < 8; ++i) wide.words[i] = (n + i) * 0x9e3779b97f4a7c15u;
    return wide;
  }
  friend bool operator==(const Wide& a, const Wide& b) {
    for (int i = 0; i < 8; ++i) {
      if (a.words[i] != b.words[i]) return false;
    }
    return true;
  }
};

// The producer waits for room (the test does, not the ring), so nothing may be missing.
template <typename Index>
void PassAllInOrder(size_t capacity, uint64_t count) {
  std::vector<Wide> memory(capacity);
  SpscRing<Wide, Index> ring;
  ASSERT_TRUE(ring.Init(memory.data(), capacity));
  std::thread producer([&] {
    for (uint64_t i = 0; i < count; ++i) {
      while (!ring.TryPush(Wide::Of(i))) sched_yield();
    }
  });
  uint64_t next = 0, wrong = 0;
  while (next < count) {
    const size_t got = ring.Consume([&](std::span<const Wide> run) {
      for (const Wide& wide : run) wrong += !(wide == Wide::Of(next++));
    });
    EXPECT_LE(got, capacity);
    if (got == 0) sched_yield();
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(next, count);
  EXPECT_EQ(ring.size(), 0u);
}

TEST(SpscRingStressTest, EveryElementArrivesIntactAndInOrder) {
  PassAllInOrder<uint64_t>(256, 300'000);
  PassAllInOrder<uint64_t>(2, 30'000);
}

TEST(SpscRingStressTest, EveryElementArrivesAcrossIndexWraps) {
  PassAllInOrder<uint8_t>(128, 300'000);
}

// The producer never waits. The number n is pushed at time n, so the numbers that do not arrive
// must be as many as the drops reported, and each must lie inside a range reported for it.
TEST(SpscRingStressTest, EveryDropIsReportedOnceInsideItsRange) {
  constexpr uint64_t kCount = 400'000;
  std::vector<uint64_t> memory(64);
  SpscRing<uint64_t> ring;
  ASSERT_TRUE(ring.Init(memory.data(), memory.size()));
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      ring.Push(i, static_cast<int64_t>(i));
      if (i % 1000 == 0) sched_yield();
    }
    done.store(true, std::memory_order_release);
  });
  std::vector<bool> arrived(kCount), covered(kCount);
  uint64_t received = 0, dropped = 0, out_of_order = 0, torn = 0;
  int64_t last = -1;
  while (true) {
    const bool last_time = done.load(std::memory_order_acquire);
    received += ring.Consume([&](std::span<const uint64_t> run) {
      for (uint64_t n : run) {
        out_of_order += static_cast<int64_t>(n) <= last;
        last = static_cast<int64_t>(n);
        arrived[n] = true;
      }
    });
    DropRange drops;
    if (ring.TakeDrops(&drops)) {
      dropped += drops.count;
      const bool plausible =
          drops.first_ns >= 0 && drops.first_ns <= drops.last_ns &&
          drops.last_ns < static_cast<int64_t>(kCount) &&
          drops.count <= static_cast<uint64_t>(drops.last_ns - drops.first_ns) + 1;
      torn += !plausible;
      for (int64_t n = drops.first_ns; plausible && n <= drops.last_ns; ++n) covered[n] = true;
    }
    if (last_time) break;
    sched_yield();
  }
  producer.join();
  EXPECT_EQ(out_of_order, 0u);
  EXPECT_EQ(torn, 0u) << "ranges that begin after their end, or have fewer instants than drops";
  EXPECT_EQ(received + dropped, kCount);
  EXPECT_EQ(ring.dropped(), dropped);
  EXPECT_GT(dropped, 0u) << "the ring was never full: nothing was tested";
  EXPECT_GT(received, 0u);
  for (uint64_t n = 0; n < kCount; ++n) {
    ASSERT_TRUE(arrived[n] || covered[n]) << n << " is missing and nobody says so";
  }
}

// The producer's role passes from thread to thread, as it does when a ring is taken back.
TEST(SpscRingStressTest, ProducersMayFollowEachOther) {
  constexpr uint64_t kThreads = 50, kEach = 1000;
  std::vector<uint64_t> memory(128);
  SpscRing<uint64_t> ring;
  ASSERT_TRUE(ring.Init(memory.data(), memory.size()));
  std::thread producers([&] {
    for (uint64_t t = 0; t < kThreads; ++t) {
      std::thread([&ring, t] {
        for (uint64_t i = 0; i < kEach; ++i) {
          while (!ring.TryPush(t * kEach + i)) sched_yield();
        }
      }).join();
    }
  });
  uint64_t next = 0, wrong = 0;
  while (next < kThreads * kEach) {
    const size_t got = ring.Consume([&](std::span<const uint64_t> run) {
      for (uint64_t n : run) wrong += n != next++;
    });
    if (got == 0) sched_yield();
  }
  producers.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace gpuprobe

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ringbuf/loss.h"

namespace gpuprobe {
namespace {

// Four writers share the count: writer w adds 1 << (16 * w), so that a taken count tells how many
// losses of which writer it covers. Loss number i of a writer happens at time i. Hence each Take
// must cover, for each writer, the times of exactly the losses that it counts.
constexpr uint32_t kWriters = 4;
constexpr uint32_t kLosses = 20'000;
static_assert(kLosses < 1u << 16);

TEST(LossCounterStressTest, EveryLossIsCountedOnceInsideTheRangeReportedWithIt) {
  LossCounters counters;
  std::atomic<uint32_t> finished{0};
  std::vector<std::thread> writers;
  for (uint32_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (uint32_t i = 1; i <= kLosses; ++i) {
        counters.Add(LossCause::kQueueFull, uint64_t{1} << (16 * w), i, i, w);
        if (i % 512 == 0) sched_yield();
      }
      ++finished;
    });
  }
  std::array<int64_t, kWriters> seen = {};
  uint32_t takes = 0, wrong = 0, outside = 0;
  while (true) {
    const bool last = finished.load() == kWriters;
    counters.TakeAll([&](const Loss& loss) {
      ++takes;
      wrong += loss.cause != LossCause::kQueueFull || loss.detail < 0 || loss.detail >= kWriters;
      wrong += loss.begin_ns < 1 || loss.end_ns > kLosses;
      for (uint32_t w = 0; w < kWriters; ++w) {
        const int64_t count = static_cast<int64_t>(loss.count >> (16 * w) & 0xffff);
        if (count == 0) continue;
        outside += loss.begin_ns > seen[w] + 1 || loss.end_ns < seen[w] + count;
        seen[w] += count;
      }
    });
    if (last) break;
  }
  for (std::thread& thread : writers) thread.join();
  for (uint32_t w = 0; w < kWriters; ++w) EXPECT_EQ(seen[w], int64_t{kLosses});
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(outside, 0u) << "losses outside the range reported with them";
  EXPECT_GT(takes, 1u);
  uint64_t all = 0;
  for (uint32_t w = 0; w < kWriters; ++w) all += uint64_t{kLosses} << (16 * w);
  EXPECT_EQ(counters.total(LossCause::kQueueFull), all);
}

// What was carried from Take to Take, because a loss was being added at each, is dropped at the
// first quiet one.
TEST(LossCounterStressTest, RangesAreExactAgainOnceNothingRaces) {
  LossCounter counter;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int64_t i = 1; i <= kLosses; ++i) {
      counter.Add(1, i, i);
      if (i % 64 == 0) sched_yield();
    }
    done = true;
  });
  int64_t seen = 0;
  uint32_t wrong = 0;
  while (true) {
    const bool last = done.load();
    Loss loss;
    if (counter.Take(&loss)) {
      wrong += loss.begin_ns > seen + 1;
      seen += static_cast<int64_t>(loss.count);
      wrong += loss.end_ns < seen;
    }
    if (last) break;
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(seen, int64_t{kLosses});
  Loss loss;
  for (int64_t time_ns :
       {1'000'000, 2'000'000}) {  // the first Take may still have something carried
    counter.Add(1, time_ns, time_ns);
    ASSERT_TRUE(counter.Take(&loss));
    EXPECT_EQ(loss.count, 1u);
    EXPECT_EQ(loss.end_ns, time_ns);
  }
  EXPECT_EQ(loss.begin_ns, 2'000'000);
}

}  // namespace
}  // namespace gpuprobe

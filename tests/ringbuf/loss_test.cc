// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/loss.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace gpuprobe {
namespace {

constinit LossCounters g_constinit_counters;

std::vector<Loss> TakeAll(LossCounters* counters) {
  std::vector<Loss> taken;
  counters->TakeAll([&taken](const Loss& loss) { taken.push_back(loss); });
  return taken;
}

TEST(LossCountersTest, NothingLostReportsNothing) {
  EXPECT_TRUE(TakeAll(&g_constinit_counters).empty());
  for (size_t i = 0; i < kLossCauseCount; ++i) {
    EXPECT_EQ(g_constinit_counters.total(static_cast<LossCause>(i)), 0u);
  }
}

TEST(LossCountersTest, RangeCoversAllLossesOfTheCause) {
  LossCounters counters;
  counters.Add(LossCause::kPoolExhausted, 1, 500, 500);
  counters.Add(LossCause::kPoolExhausted, 10, 300, 350);
  counters.Add(LossCause::kPoolExhausted, 100, 400, 900, 7);
  const std::vector<Loss> taken = TakeAll(&counters);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].cause, LossCause::kPoolExhausted);
  EXPECT_EQ(taken[0].count, 111u);
  EXPECT_EQ(taken[0].begin_ns, 300);
  EXPECT_EQ(taken[0].end_ns, 900);
  EXPECT_EQ(taken[0].detail, 7);
}

TEST(LossCountersTest, CausesAreKeptApart) {
  LossCounters counters;
  for (size_t i = 1; i < kLossCauseCount; ++i) {
    const int64_t time_ns = static_cast<int64_t>(i) * 1000;
    counters.Add(static_cast<LossCause>(i), i, time_ns, time_ns, -static_cast<int64_t>(i));
  }
  const std::vector<Loss> taken = TakeAll(&counters);
  ASSERT_EQ(taken.size(), kLossCauseCount - 1);
  for (size_t i = 1; i < kLossCauseCount; ++i) {
    const Loss& loss = taken[i - 1];
    EXPECT_EQ(loss.cause, static_cast<LossCause>(i));
    EXPECT_EQ(loss.count, i);
    EXPECT_EQ(loss.begin_ns, static_cast<int64_t>(i) * 1000);
    EXPECT_EQ(loss.end_ns, static_cast<int64_t>(i) * 1000);
    EXPECT_EQ(loss.detail, -static_cast<int64_t>(i));
  }
}

TEST(LossCountersTest, TakeForgetsAndTheNextRangeBeginsAnew) {
  LossCounters counters;
  counters.Add(LossCause::kWriteFailed, 3, 10, 20, 28);
  ASSERT_EQ(TakeAll(&counters).size(), 1u);
  EXPECT_TRUE(TakeAll(&counters).empty());
  counters.Add(LossCause::kWriteFailed, 1, 70, 80, 5);
  const std::vector<Loss> taken = TakeAll(&counters);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].count, 1u);
  EXPECT_EQ(taken[0].begin_ns, 70);
  EXPECT_EQ(taken[0].end_ns, 80);
  EXPECT_EQ(taken[0].detail, 5);
}

TEST(LossCountersTest, TotalsAreNeverReset) {
  LossCounters counters;
  counters.Add(LossCause::kQueueFull, 4, 1, 1);
  EXPECT_EQ(counters.total(LossCause::kQueueFull), 4u);
  TakeAll(&counters);
  counters.Add(LossCause::kQueueFull, 5, 2, 2);
  EXPECT_EQ(counters.total(LossCause::kQueueFull), 9u);
  EXPECT_EQ(counters.total(LossCause::kCuptiDropped), 0u);
}

TEST(LossCountersTest, ALossThatCouldNotBeWrittenCanBeAddedAgain) {
  LossCounters counters;
  counters.Add(LossCause::kWriterFull, 6, 100, 200);
  const std::vector<Loss> unwritten = TakeAll(&counters);
  ASSERT_EQ(unwritten.size(), 1u);
  counters.Add(LossCause::kWriterFull, 1, 300, 300);
  counters.Add(unwritten[0].cause, unwritten[0].count, unwritten[0].begin_ns, unwritten[0].end_ns);
  const std::vector<Loss> taken = TakeAll(&counters);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].count, 7u);
  EXPECT_EQ(taken[0].begin_ns, 100);
  EXPECT_EQ(taken[0].end_ns, 300);
}

TEST(LossCountersTest, OddArgumentsDoNoHarm) {
  LossCounters counters;
  counters.Add(LossCause::kQueueFull, 0, 5, 5);
  counters.Add(static_cast<LossCause>(kLossCauseCount), 1, 5, 5);
  counters.Add(static_cast<LossCause>(255), 1, 5, 5);
  EXPECT_TRUE(TakeAll(&counters).empty());
  EXPECT_EQ(counters.total(static_cast<LossCause>(255)), 0u);
  counters.Add(LossCause::kQueueFull, 1, 9, 3);  // reversed
  counters.Add(LossCause::kUndecodable, 1, std::numeric_limits<int64_t>::min(),
               std::numeric_limits<int64_t>::max());
  const std::vector<Loss> taken = TakeAll(&counters);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].begin_ns, 3);
  EXPECT_EQ(taken[0].end_ns, 9);
  EXPECT_EQ(taken[1].begin_ns, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(taken[1].end_ns, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace gpuprobe

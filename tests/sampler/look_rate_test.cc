// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The rate of looks, fed with what a host would have cost.
#include "sampler/look_rate.h"

#include <gtest/gtest.h>

namespace gpuprobe::sampler {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;

// A host where every tick costs the same.
struct Host {
  LookRate rate;
  int64_t now_ns = 0, tick_ns, spent_ns = 0;
  int64_t ticks = 0;
  uint32_t busy = 0;
  int told = 0;

  explicit Host(int64_t tick_cost_ns, uint32_t hz = 100) : tick_ns(tick_cost_ns) {
    rate.Init(hz, 0);
  }
  void Run(int64_t seconds) {
    for (int64_t window_ns = 0; seconds > 0;) {
      now_ns += rate.pause_ns(/*gpu_in_use=*/true);
      ++ticks;
      window_ns += tick_ns;
      spent_ns += tick_ns;
      rate.NoteTick(/*any_has_run=*/true, now_ns);
      if (!rate.WindowIsOver(now_ns)) continue;
      told += rate.Spend(window_ns, 0, busy, now_ns) ? 1 : 0;
      window_ns = 0;
      --seconds;
    }
  }
};

TEST(LookRate, IsWhatWasAskedForWithinTheBudget) {
  Host host(45'000);
  host.Run(300);
  EXPECT_EQ(host.rate.slowdown_permille(), 1000u);
  EXPECT_EQ(host.rate.hz(), 100u);
  EXPECT_EQ(host.told, 0);
}

TEST(LookRate, IsWhatTheBudgetAllowsOnceTheCreditIsSpent) {
  Host host(80'000);
  host.Run(5);
  EXPECT_EQ(host.rate.hz(), 100u);
  host.Run(60);
  const int64_t begin_ns = host.now_ns, spent_ns = host.spent_ns;
  host.Run(60);
  const int64_t ppm = (host.spent_ns - spent_ns) * 1000 / ((host.now_ns - begin_ns) / 1000);
  EXPECT_LE(ppm, LookRate::kBudgetPpm);
  EXPECT_GE(ppm, LookRate::kBudgetPpm * 85 / 100);  // and no less often than that
}

// At no time may more have been spent than was allowed and lent.
TEST(LookRate, NoHostCostsMoreThanTheBudgetAndTheCredit) {
  for (const int64_t tick_ns : {55'000, 70'000, 100'000, 200'000, 350'000}) {
    Host host(tick_ns);
    for (int i = 0; i < 100; ++i) {
      host.Run(1);
      const int64_t late_ns = 4 * tick_ns * 100;  // until the average has followed
      EXPECT_LE(host.spent_ns,
                host.now_ns / 1'000'000 * LookRate::kBudgetPpm + LookRate::kCreditNs + late_ns)
          << tick_ns << " after " << i;
    }
  }
}

// From the first second after the credit's time on, looks that have just become dear and cost now
// more, now less: what is spent while the rate follows is saved again.
TEST(LookRate, StaysWithinTheBudgetWhereLooksBecomeDearAndDiffer) {
  for (const int64_t dear_ns : {56'000, 62'000, 75'000, 110'000}) {
    Host host(20'000);
    host.Run(LookRate::kCreditLastsSeconds + 1);
    const int64_t begin_ns = host.now_ns, spent_ns = host.spent_ns;
    for (int i = 0; i < 10; ++i) {
      host.tick_ns = dear_ns * (i % 3 == 0 ? 130 : 85) / 100;
      host.Run(1);
    }
    const int64_t ppm = (host.spent_ns - spent_ns) * 1000 / ((host.now_ns - begin_ns) / 1000);
    EXPECT_LE(ppm, LookRate::kBudgetPpm) << dear_ns;
    EXPECT_GE(ppm, LookRate::kBudgetPpm * 80 / 100) << dear_ns;
  }
}

TEST(LookRate, IsTheOldOneAgainWhenTicksAreCheapAgain) {
  Host host(150'000);
  host.Run(60);
  EXPECT_LT(host.rate.hz(), 50u);
  EXPECT_LE(host.told, 2);  // half the rate and, while what was spent too much is saved, a quarter
  EXPECT_GE(host.told, 1);
  host.tick_ns = 40'000;
  host.Run(30);
  EXPECT_EQ(host.rate.hz(), 100u);
}

TEST(LookRate, WhoAsksForMoreMayHaveIt) {
  Host host(45'000, 1000);
  host.Run(300);
  EXPECT_EQ(host.rate.hz(), 1000u);
}

TEST(LookRate, BusyThreadsAreLeftOutBeforeOthers) {
  Host host(200'000);
  host.busy = 8;
  int64_t seconds = 0;
  while (host.rate.busy_stride(1) == 1 && ++seconds < 100) {
    host.Run(1);
    EXPECT_EQ(host.rate.hz(), 100u);
  }
  EXPECT_LT(seconds, 100);
}

TEST(LookRate, MoreBusyThreadsThanOneTickTakesAreLookedAtInTurns) {
  LookRate rate;
  rate.Init(100, 0);
  EXPECT_EQ(rate.busy_stride(16), 1u);
  EXPECT_EQ(rate.busy_stride(17), 2u);
  EXPECT_EQ(rate.busy_stride(64), 4u);
}

TEST(LookRate, IsLowerWhileNothingRuns) {
  LookRate rate;
  rate.Init(100, 0);
  rate.NoteTick(false, kSecond);
  EXPECT_EQ(rate.pause_ns(true), 10 * kMs);
  rate.NoteTick(false, kSecond + 170 * kMs);
  EXPECT_EQ(rate.pause_ns(true), 20 * kMs);
  rate.NoteTick(false, kSecond + 330 * kMs);
  EXPECT_EQ(rate.pause_ns(true), 40 * kMs);
  EXPECT_EQ(rate.period_ns(true), 10 * kMs);
  rate.NoteTick(true, kSecond + 370 * kMs);
  EXPECT_EQ(rate.pause_ns(true), 10 * kMs);
}

TEST(LookRate, IsATenthWhileTheGpuIsNotInUse) {
  LookRate rate;
  rate.Init(100, 0);
  EXPECT_EQ(rate.pause_ns(false), 100 * kMs);
}

TEST(LookRate, ChildrenHaveABudgetOfTheirOwn) {
  LookRate rate;
  rate.Init(100, 0);
  int64_t now = 0;
  const auto spend = [&](int64_t children_ns) {
    now += kSecond;
    rate.Spend(kMs, children_ns, 0, now);
  };
  for (int i = 0; i < 5; ++i) spend(20 * kMs);
  EXPECT_EQ(rate.children_per_tick(), 1u);
  EXPECT_EQ(rate.hz(), 100u);
  for (int i = 0; i < 5; ++i) spend(kMs);
  EXPECT_EQ(rate.children_per_tick(), LookRate::kMaxChildrenPerTick);
}

}  // namespace
}  // namespace gpuprobe::sampler

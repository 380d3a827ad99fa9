// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/clock.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace gpuprobe::cupti {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kBoot = 1'000'000 * kSecond;                    // CLOCK_MONOTONIC at the start
constexpr int64_t kWall = 1'796'036'664 * kSecond + 114'978'722;  // CLOCK_REALTIME then

// Clocks of a made-up machine. A read takes 20 ns. Precondition: one test at a time.
struct Machine {
  int64_t monotonic = kBoot;
  int64_t wall_offset = kWall - kBoot;
  int64_t read_cost_ns = 20;
  int64_t ticks_per_us = 2'995;  // 2.995 GHz
  bool cupti_fails = false;
  bool cupti_in_ticks = false;

  int64_t Tick() { return monotonic += read_cost_ns; }
  void Sleep(int64_t ns) { monotonic += ns; }
  int64_t Ticks() const { return static_cast<int64_t>((__int128)monotonic * ticks_per_us / 1000); }
};
Machine* machine;

int64_t ReadMonotonic() { return machine->Tick(); }
int64_t ReadWall() { return machine->Tick() + machine->wall_offset; }
uint64_t ReadTicks() {
  machine->Tick();
  return static_cast<uint64_t>(machine->Ticks());
}
Result ReadCupti(uint64_t* ns) {
  if (machine->cupti_fails) return CUPTI_ERROR_UNKNOWN;
  *ns = machine->cupti_in_ticks ? ReadTicks() : static_cast<uint64_t>(ReadWall());
  return CUPTI_SUCCESS;
}

class ClockTest : public ::testing::Test {
 protected:
  ClockTest() {
    machine = &machine_;
    api_.GetTimestamp = &ReadCupti;
  }
  void Init() { clock_.Init(&api_, {&ReadMonotonic, &ReadWall}); }
  int64_t WallNow() const { return machine_.monotonic + machine_.wall_offset; }
  // What the trace clock should say: the wall clock as if it had never been stepped.
  int64_t TrueTrace() const { return machine_.monotonic + (kWall - kBoot); }
  void Run(int updates, int64_t period_ns = kSecond / 2) {
    for (int i = 0; i < updates; ++i) {
      machine_.Sleep(period_ns);
      clock_.Update(true);
    }
  }

  Machine machine_;
  CuptiApi api_;
  TraceClock clock_;
};

TEST_F(ClockTest, TraceClockIsTheWallClockOfTheStart) {
  Init();
  EXPECT_NEAR(clock_.Now(), WallNow(), 100);
  EXPECT_EQ(clock_.FromMonotonic(kBoot + 5) - clock_.FromMonotonic(kBoot), 5);
  EXPECT_EQ(clock_.ToTrace(kWall + 12345), kWall + 12345);
  EXPECT_FALSE(clock_.foreign());
}

TEST_F(ClockTest, WithoutCuptiItWorksTheSame) {
  clock_.Init(nullptr, {&ReadMonotonic, &ReadWall});
  EXPECT_EQ(clock_.ToTrace(kWall + 12345), kWall + 12345);
  EXPECT_EQ(clock_.Update(true).cupti_ns, 0);
}

TEST_F(ClockTest, SampleHoldsOneInstantOnAllClocks) {
  Init();
  machine_.Sleep(3 * kSecond);
  const ClockSample sample = clock_.Update(true);
  EXPECT_NEAR(sample.realtime_ns - sample.monotonic_ns, kWall - kBoot, 40);
  EXPECT_EQ(sample.trace_ns, clock_.FromMonotonic(sample.monotonic_ns));
  EXPECT_NEAR(sample.cupti_ns, sample.realtime_ns, 40);
  EXPECT_GE(sample.uncertainty_ns, 20u);
  EXPECT_LE(sample.uncertainty_ns, 100u);
  EXPECT_EQ(clock_.Update(false).cupti_ns, 0);
  machine_.cupti_fails = true;
  EXPECT_EQ(clock_.Update(true).cupti_ns, 0);
}

TEST_F(ClockTest, QuietWallClockNeverCountsAsStepped) {
  Init();
  Run(1000);
  EXPECT_EQ(clock_.step_count(), 0u);
  EXPECT_EQ(clock_.ToTrace(WallNow()), WallNow());
}

TEST_F(ClockTest, TimesAreTraceTimesUntilAStepOrAnotherClock) {
  Init();
  Run(10);
  EXPECT_TRUE(clock_.TimesAreTraceTimes());
  for (const int64_t time : {int64_t{1}, kWall, INT64_MAX}) EXPECT_EQ(clock_.ToTrace(time), time);
  machine_.wall_offset += kSecond;
  Run(1);
  EXPECT_FALSE(clock_.TimesAreTraceTimes());
}

TEST_F(ClockTest, TimesAreNotTraceTimesOnceAnotherClockWasThere) {
  Init();
  clock_.ForeignClock(&ReadTicks);
  Run(1);
  EXPECT_FALSE(clock_.TimesAreTraceTimes());
  clock_.ForeignClock(nullptr);
  Run(1);
  EXPECT_FALSE(clock_.TimesAreTraceTimes()) << "late records of that clock are still on their way";
}

TEST_F(ClockTest, APreemptedReadIsNotAStep) {
  Init();
  machine_.read_cost_ns = 40'000;  // every read of this Update is disturbed
  Run(3);
  EXPECT_EQ(clock_.step_count(), 0u);
  machine_.read_cost_ns = 20;
  machine_.wall_offset += 50'000;
  Run(1);
  EXPECT_EQ(clock_.step_count(), 1u);
}

TEST_F(ClockTest, ForwardStepMovesOnlyRecordsAfterIt) {
  Init();
  Run(4);
  const int64_t before = WallNow() - 1000;
  const int64_t true_before = TrueTrace() - 1000;
  machine_.Sleep(kSecond / 4);
  machine_.wall_offset += 3600 * kSecond;
  const int64_t after = WallNow() + 1000;
  const int64_t true_after = TrueTrace() + 1000;
  machine_.Sleep(kSecond / 4);
  clock_.Update(true);
  EXPECT_EQ(clock_.step_count(), 1u);
  EXPECT_NEAR(clock_.ToTrace(before), true_before, 40);
  EXPECT_NEAR(clock_.ToTrace(after), true_after, 40);
  EXPECT_EQ(clock_.ToTrace(after + 777) - clock_.ToTrace(after), 777);
  EXPECT_NEAR(clock_.Now(), TrueTrace(), 100) << "the trace clock itself does not jump";
}

TEST_F(ClockTest, BackwardStepKeepsLateRecordsOfBefore) {
  Init();
  Run(4);
  const int64_t before = WallNow() - 1000;
  const int64_t true_before = TrueTrace() - 1000;
  machine_.Sleep(kSecond / 4);
  machine_.wall_offset -= 60 * kSecond;
  const int64_t after = WallNow() + 1000;
  const int64_t true_after = TrueTrace() + 1000;
  machine_.Sleep(kSecond / 4);
  clock_.Update(true);
  EXPECT_NEAR(clock_.ToTrace(before), true_before, 40) << "later than now: before the step";
  EXPECT_NEAR(clock_.ToTrace(after), true_after, 40);
  Run(240);  // two minutes later the wall clock has passed the old times
  EXPECT_NEAR(clock_.ToTrace(WallNow()), TrueTrace(), 40);
}

TEST_F(ClockTest, StepsAddUpBeyondWhatIsRemembered) {
  Init();
  for (int i = 0; i < 40; ++i) {
    machine_.wall_offset += (i % 3 == 0 ? -1 : 1) * (10 + i) * kSecond;
    Run(100);
    ASSERT_NEAR(clock_.ToTrace(WallNow()), TrueTrace(), 1000) << i;
  }
  EXPECT_EQ(clock_.step_count(), 40u);
}

TEST_F(ClockTest, AmbiguousTimesOfASmallStepBackAreReadAsAfter) {
  Init();
  Run(4);
  machine_.wall_offset -= kSecond / 10;
  Run(1);
  EXPECT_NEAR(clock_.ToTrace(WallNow() - 50'000'000), TrueTrace() - 50'000'000, 40);
}

TEST_F(ClockTest, ForeignTicksAreConvertedOnceTwoPairsExist) {
  Init();
  machine_.Sleep(kSecond);
  clock_.ForeignClock(&ReadTicks);
  EXPECT_TRUE(clock_.foreign());
  Run(20);
  for (const int64_t ago_ns : {int64_t{0}, kSecond / 3, 2 * kSecond, 5 * kSecond}) {
    const int64_t then = machine_.monotonic - ago_ns;
    const int64_t ticks = static_cast<int64_t>((__int128)then * machine_.ticks_per_us / 1000);
    EXPECT_NEAR(clock_.ToTrace(ticks), TrueTrace() - ago_ns, 30) << ago_ns;
  }
}

TEST_F(ClockTest, ForeignDurationsKeepTheirNanoseconds) {
  Init();
  clock_.ForeignClock(&ReadTicks);
  Run(20);
  const int64_t start = machine_.Ticks() - 1'000'000;
  const int64_t end = start + 2'995'000;  // one millisecond
  EXPECT_NEAR(clock_.ToTrace(end) - clock_.ToTrace(start), 1'000'000, 1);
}

TEST_F(ClockTest, WithASinglePairTheSlopeIsOne) {
  Init();
  machine_.ticks_per_us = 1000;  // a clock in nanoseconds, as steady_clock would be
  clock_.ForeignClock(&ReadTicks);
  clock_.Update(false);
  const int64_t record = machine_.Ticks();
  EXPECT_NEAR(clock_.ToTrace(record), TrueTrace(), 200);
  EXPECT_NEAR(clock_.ToTrace(record + 1000) - clock_.ToTrace(record), 1000, 5);
}

TEST_F(ClockTest, LateRecordsOfTheClockBeforeAreRecognised) {
  Init();
  Run(4);
  const int64_t wall_record = WallNow();
  const int64_t true_wall = TrueTrace();
  clock_.ForeignClock(&ReadTicks);
  Run(4);
  EXPECT_NEAR(clock_.ToTrace(wall_record), true_wall, 40) << "made before the callback came";
  const int64_t tick_record = machine_.Ticks();
  const int64_t true_tick = TrueTrace();
  clock_.ForeignClock(nullptr);
  EXPECT_FALSE(clock_.foreign());
  Run(4);
  EXPECT_NEAR(clock_.ToTrace(tick_record), true_tick, 40) << "made before the callback went";
  EXPECT_NEAR(clock_.ToTrace(WallNow()), TrueTrace(), 40);
}

TEST_F(ClockTest, RecordsOfAnotherCuptiClockAreCopiedUnchanged) {
  // A recording that is replayed, say: any clock but CLOCK_REALTIME.
  machine_.cupti_in_ticks = true;
  Init();
  const int64_t record = machine_.Ticks();
  EXPECT_NEAR(clock_.Now(), record, 5'000);
  Run(4);
  machine_.wall_offset += kSecond;  // not this clock's business
  Run(4);
  EXPECT_EQ(record, clock_.ToTrace(record));
  EXPECT_EQ(record + 12345, clock_.ToTrace(record + 12345));
}

TEST_F(ClockTest, AnyRecordTimeIsConvertedWithoutOverflow) {
  Init();
  for (const int64_t time : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{0}, INT64_MAX}) {
    clock_.ToTrace(time);
  }
  machine_.wall_offset += 3600 * kSecond;
  clock_.ForeignClock(&ReadTicks);
  Run(20);
  for (const int64_t time : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{0}, INT64_MAX}) {
    clock_.ToTrace(time);
  }
}

TEST_F(ClockTest, AStoppedForeignClockDoesNotDivideByZero) {
  Init();
  clock_.ForeignClock([]() -> uint64_t { return 42; });
  Run(5);
  EXPECT_NEAR(clock_.ToTrace(42), TrueTrace(), 10 * kSecond);
}

TEST(Clock, RealClocksAgree) {
  TraceClock clock;
  EXPECT_GT(clock.Now(), 0) << "usable before Init";
  clock.Init(nullptr);
  const ClockSample sample = clock.Update(false);
  EXPECT_EQ(sample.trace_ns, clock.FromMonotonic(sample.monotonic_ns));
  EXPECT_GE(clock.Now(), sample.trace_ns);
}

uint64_t CountUp() {
  static std::atomic<uint64_t> ticks{1};
  return ticks.fetch_add(1000, std::memory_order_relaxed);
}

// Registrations come from application threads while the drain thread converts (for
// ThreadSanitizer).
TEST(Clock, ForeignClockMayComeFromAnotherThread) {
  TraceClock clock;
  clock.Init(nullptr);
  std::atomic<bool> done{false};
  std::thread application([&clock, &done] {
    for (int i = 0; i < 200; ++i) {
      clock.ForeignClock(i % 2 == 0 ? &CountUp : nullptr);
      clock.Now();
      clock.foreign();
    }
    done.store(true, std::memory_order_release);
  });
  do {
    clock.Update(false);
    clock.ToTrace(clock.Now());
  } while (!done.load(std::memory_order_acquire));
  application.join();
  clock.Update(false);  // sees the last one, a withdrawal
  const int64_t now = clock.Now();
  EXPECT_NEAR(clock.ToTrace(now), now, kSecond);
  EXPECT_FALSE(clock.foreign());
}

}  // namespace
}  // namespace gpuprobe::cupti

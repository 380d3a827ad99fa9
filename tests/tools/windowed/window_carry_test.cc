// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Of what lies far back only what is still asked for is carried on.
#include "tools/windowed/window_carry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/tools/timeline_builder.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000'000, kEachNs = 3 * kMs;
constexpr int kCalls = 1'000;

// Launches of two threads, one millisecond in each three; all is over before the window ends.
Timeline Launches() {
  TimelineBuilder b;
  const int32_t other = b.AddThread(12, "other");
  for (int i = 0; i < kCalls; ++i) {
    const int64_t ns = i * kEachNs;
    b.Kernel(ns + 20 * kUs, ns + 30 * kUs, b.Launch(ns, ns + kMs));
    b.Kernel(ns + 40 * kUs, ns + 50 * kUs, b.Launch(ns, ns + kMs, other));
  }
  return b.Build();
}

HostSample SampleAt(int64_t ns, int32_t thread) {
  HostSample sample = {};
  sample.time_ns = ns;
  sample.interval_ns = 10 * kMs;
  sample.thread = thread;
  return sample;
}

// When the calls began that are kept, in units of kEachNs.
std::vector<int64_t> Kept(std::vector<HostSample> samples, int32_t thread) {
  Timeline timeline = Launches();
  timeline.samples = std::move(samples);
  const HostView host(timeline);
  CarryRule rule;
  rule.end_ns = kCalls * kEachNs;
  rule.previous_ns = 0;
  rule.ops_from_ns = {rule.end_ns - kMs};
  rule.calls_from_ns = rule.end_ns - 2 * kEachNs;
  rule.samples_from_ns = rule.end_ns - 600 * kEachNs;
  rule.most_unmatched = 100;
  Timeline carried;
  CarryOn(rule, host, {}, timeline, &carried);
  std::vector<int64_t> kept;
  for (const HostCall& call : carried.calls) {
    if (call.thread == thread) kept.push_back(call.start_ns / kEachNs);
  }
  return kept;
}

TEST(CarryOn, KeepsOfCallsThatAreOverTheLast) {
  EXPECT_THAT(Kept({}, 0), testing::ElementsAre(997, 998, 999));
}

TEST(CarryOn, KeepsTheCallsAroundASampleOfTheirThread) {
  const std::vector<HostSample> samples = {SampleAt(450 * kEachNs + 2 * kMs, 0),
                                           SampleAt(700 * kEachNs + 500 * kUs, 0),
                                           SampleAt(900 * kEachNs + 2 * kMs, 1)};
  // In front of it and behind it; the one in which it was taken, and the one before.
  EXPECT_THAT(Kept(samples, 0), testing::ElementsAre(450, 451, 699, 700, 997, 998, 999));
  EXPECT_THAT(Kept(samples, 1), testing::ElementsAre(900, 901, 997, 998, 999));
}

TEST(CarryOn, KeepsNoCallsAroundSamplesThatNobodyAsksFor) {
  const int64_t first_ns = 400 * kEachNs;
  EXPECT_THAT(Kept({SampleAt(first_ns - 1, 0)}, 0), testing::ElementsAre(997, 998, 999));
  EXPECT_THAT(Kept({SampleAt(first_ns, 0)}, 0), testing::ElementsAre(399, 400, 997, 998, 999));
}

TEST(CarryOn, LooksForCallsAroundSamplesInThreadsThatHaveSome) {
  EXPECT_THAT(Kept({SampleAt(700 * kEachNs, -1), SampleAt(700 * kEachNs, 0)}, 1),
              testing::ElementsAre(997, 998, 999));
}

// One launch each millisecond, of which the first hundred have their work `lag` later, the others
// none yet; with or without a stream that waits.
int64_t AwaitedWith(int64_t lag_ns, bool waits, int64_t open_ns) {
  TimelineBuilder b;
  for (int i = 0; i < 200; ++i) {
    const int64_t ns = i * kMs;
    const uint32_t correlation = b.Launch(ns, ns + 5 * kUs);
    if (i < 100) b.Kernel(ns + lag_ns, ns + lag_ns + 10 * kUs, correlation);
  }
  if (waits) b.SyncRecord(b.Sync(0, kUs), 2, 0);
  const Timeline timeline = b.Build();
  const HostView host(timeline);
  return AwaitedSince(timeline, host, open_ns);
}

TEST(AwaitedSince, IsTheFirstCallWhoseWorkIsStillToCome) {
  EXPECT_EQ(AwaitedWith(10 * kUs, true, 150 * kMs), 100 * kMs);
  EXPECT_EQ(AwaitedWith(10 * kUs, true, 60 * kMs), 60 * kMs);
}

TEST(AwaitedSince, IsTheFirstCallWhoseWorkIsStillToBeMeasured) {
  // That of the 40th call starts at 90 ms, and is measured with what is open from there on.
  EXPECT_EQ(AwaitedWith(50 * kMs, true, 90 * kMs), 40 * kMs);
  EXPECT_EQ(AwaitedWith(50 * kMs, true, 90 * kMs + 1), 41 * kMs);
}

TEST(AwaitedSince, IsNowWhereNothingWaitsForOtherStreams) {
  EXPECT_EQ(AwaitedWith(50 * kMs, false, 90 * kMs), 90 * kMs);
}

TEST(AwaitedSince, IsNotBeforeManyCallsOrLongAgo) {
  TimelineBuilder b;
  b.SyncRecord(b.Sync(0, kUs), 2, 0);
  b.Launch(2 * kUs, 3 * kUs);  // never answered
  b.Launch(5'000 * kMs, 5'000 * kMs + kUs);
  for (int i = 1; i <= 70'000; ++i) {
    const int64_t ns = 5'000 * kMs + i * kUs;
    b.Kernel(ns + 500, ns + 600, b.Launch(ns, ns + 400));
  }
  const Timeline timeline = b.Build();
  const HostView host(timeline);
  EXPECT_EQ(AwaitedSince(timeline, host, 4'000 * kMs), 4'000 * kMs);
  EXPECT_EQ(AwaitedSince(timeline, host, 5'000 * kMs + 10'000 * kUs), 5'000 * kMs);
  EXPECT_EQ(AwaitedSince(timeline, host, 5'080 * kMs), 5'080 * kMs);
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Times in ms; looks every 10.
#include "tools/load/samples/late_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/tools/samples_fixture.h"
#include "tests/tools/trace_maker.h"

namespace gpuprobe::tools {
namespace {

using testing::ElementsAre;

HostSample Look(int64_t ms, HostState state, int64_t cpu_ms, int64_t runnable_ms,
                int32_t thread = 0) {
  HostSample sample = {};
  sample.time_ns = ms * kMs;
  sample.interval_ns = 10 * kMs;
  sample.cpu_ns = cpu_ms * kMs;
  sample.runnable_ns = runnable_ms * kMs;
  sample.state = state;
  sample.thread = thread;
  return sample;
}

std::vector<int64_t> RunnableMs(std::vector<HostSample> samples) {
  SpreadLateWaits(&samples);
  std::vector<int64_t> ms;
  for (const HostSample& sample : samples) ms.push_back(sample.runnable_ns / kMs);
  return ms;
}

constexpr HostState kReady = HostState::kRunning, kAsleep = HostState::kBlocked;

TEST(LateWaits, GoBackOverTheLooksInWhichTheThreadStoodInLine) {
  EXPECT_THAT(RunnableMs({Look(10, kReady, 8, 0), Look(20, kReady, 0, 0), Look(30, kReady, 0, 0),
                          Look(40, kReady, 1, 31), Look(50, kReady, 10, 0)}),
              ElementsAre(2, 10, 10, 9, 0));
}

TEST(LateWaits, StopAtALookThatSawItBlocked) {
  EXPECT_THAT(
      RunnableMs({Look(10, kReady, 0, 0), Look(20, kAsleep, 0, 0), Look(30, kReady, 0, 25)}),
      ElementsAre(0, 0, 25));
}

TEST(LateWaits, StopAtALookThatHadNoRoom) {
  EXPECT_THAT(
      RunnableMs({Look(10, kReady, 0, 0), Look(20, kReady, 10, 0), Look(30, kReady, 0, 25)}),
      ElementsAre(0, 0, 25));
}

TEST(LateWaits, StopAtAHoleAndAtAnotherThread) {
  EXPECT_THAT(RunnableMs({Look(10, kReady, 0, 0), Look(40, kReady, 0, 25)}), ElementsAre(0, 25));
  EXPECT_THAT(RunnableMs({Look(10, kReady, 0, 0, 0), Look(20, kReady, 0, 15, 1)}),
              ElementsAre(0, 15));
}

TEST(LateWaits, LeaveWhatFitsWhereItIs) {
  EXPECT_THAT(RunnableMs({Look(10, kReady, 0, 0), Look(20, kReady, 5, 5)}), ElementsAre(0, 5));
  EXPECT_THAT(RunnableMs({Look(10, kReady, 0, 12)}), ElementsAre(12));
}

TEST(LateWaits, AFirstLookHasNoIntervalToBeTooShort) {
  HostSample first = Look(20, kReady, 0, 5);
  first.interval_ns = 0;
  EXPECT_THAT(RunnableMs({Look(10, kReady, 0, 0), first}), ElementsAre(0, 5));
}

TEST_F(SamplesTest, WaitsForACpuThatATraceTellsLateAreSpread) {
  TraceMaker trace;
  PieceMaker piece(kT);
  piece.Process({.pid = kPid, .parent_pid = 1, .name = "python"});
  for (int look = 1; look <= 3; ++look) {
    proto::SampleRecord sample = At(kT + look * 10 * kMs);
    sample.cpu_ns = 0;
    sample.runnable_ns = look == 3 ? 30 * kMs : 0;
    piece.Sample(kPid, kPid, sample);
  }
  trace.Piece(piece.Seal(kT + 250 * kMs));
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.samples.size(), 3u);
  for (const HostSample& sample : run.timeline.samples) EXPECT_EQ(sample.runnable_ns, 10 * kMs);
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What others did while the device waited. One gap, 10 to 110 ms.
#include "tools/attribution/meanwhile.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kMs = 1'000'000;

class MeanwhileTest : public testing::Test {
 protected:
  MeanwhileTest() {
    b_.t.threads[0].main = true;
    b_.Kernel(0, 10 * kMs, b_.Launch(0, 5'000));
    b_.Kernel(110 * kMs, 120 * kMs, b_.Launch(110 * kMs, 110 * kMs + 5'000));
    b_.SampledTime(0, 200 * kMs);
  }
  // The main thread waits for its loader, or for the GIL, all along.
  void MainWaits(uint8_t flags = 0) {
    const int32_t stack =
        b_.Stack({"/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py:1 n",
                  "/job/train.py:27 main"});
    b_.AddSamples(0, 0, 120 * kMs, 10 * kMs, HostState::kBlocked, stack);
    for (HostSample& sample : b_.t.samples) {
      sample.syscall = 202;
      sample.flags = flags;
    }
  }
  int32_t AddWorker(uint32_t pid, uint32_t cpus) {
    const int32_t child = b_.AddSampledChild(pid);
    b_.t.processes[child].allowed_cpus = cpus;
    const int32_t thread = b_.AddThread(pid, "pt_data_worker", child);
    b_.t.threads[thread].main = true;
    return thread;
  }
  const std::vector<Meanwhile>& Of(Cause cause) {
    analysis_ = Analyse(b_.Build(), {});
    EXPECT_EQ(analysis_.internal_error, "");
    for (const CauseTotal& total : analysis_.devices[0].causes) {
      if (total.cause == cause) return total.meanwhile;
    }
    ADD_FAILURE() << "no " << CauseKey(cause);
    return none_;
  }
  TimelineBuilder b_;
  Analysis analysis_;
  std::vector<Meanwhile> none_;
};

TEST_F(MeanwhileTest, WorkersAreCountedWithTheirSharesAndLines) {
  MainWaits();
  const int32_t decode = b_.Stack({"/job/data.py:12 decode"});
  const int32_t wait = b_.Stack({"/job/data.py:20 fetch"});
  b_.AddSamples(AddWorker(200, 4), 0, 120 * kMs, 10 * kMs, HostState::kRunning, decode);
  const int32_t second = AddWorker(201, 4);
  b_.AddSamples(second, 0, 60 * kMs, 10 * kMs, HostState::kRunning, decode);
  b_.AddSamples(second, 60 * kMs, 120 * kMs, 10 * kMs, HostState::kBlocked, wait);
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "2 workers (children of 100)");
  EXPECT_EQ(meanwhile[0].thread_count, 2);
  EXPECT_EQ(meanwhile[0].samples, 20u);
  EXPECT_DOUBLE_EQ(meanwhile[0].on_cpu, 0.75);
  EXPECT_DOUBLE_EQ(meanwhile[0].runnable, 0);
  EXPECT_EQ(meanwhile[0].allowed_cpus, 4u);
  ASSERT_EQ(meanwhile[0].sites.size(), 2u);
  EXPECT_EQ(meanwhile[0].sites[0].where, "data.py:12 in decode");
  EXPECT_DOUBLE_EQ(meanwhile[0].sites[0].share, 0.75);
  EXPECT_TRUE(meanwhile[0].sites[0].on_cpu);
  EXPECT_EQ(meanwhile[0].sites[1].where, "data.py:20 in fetch");
  EXPECT_FALSE(meanwhile[0].sites[1].on_cpu);
}

TEST_F(MeanwhileTest, ALineAtWhichAWorkerHasNoCpuIsNoneThatItIsBlockedAt) {
  MainWaits();
  const int32_t decode = b_.Stack({"/job/data.py:12 decode"});
  b_.AddSamples(AddWorker(200, 1), 0, 120 * kMs, 10 * kMs, HostState::kRunning, decode);
  for (HostSample& sample : b_.t.samples) {
    if (sample.stack != decode) continue;
    sample.cpu_ns = kMs;
    sample.runnable_ns = 8 * kMs;
  }
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_NEAR(meanwhile[0].on_cpu, 0.1, 1e-9);
  EXPECT_NEAR(meanwhile[0].runnable, 0.8, 1e-9);
  ASSERT_EQ(meanwhile[0].sites.size(), 1u);
  EXPECT_TRUE(meanwhile[0].sites[0].on_cpu);
}

TEST_F(MeanwhileTest, AnIntervalThatReachesOutCountsForItsOverlap) {
  MainWaits();
  // Half of it lies before the gap: 10 of 20 ms, of which a quarter on a CPU, a quarter ready.
  b_.AddSample(AddWorker(200, 0), 20 * kMs, 20 * kMs, {5 * kMs, 5 * kMs}, HostState::kBlocked);
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "1 worker (child of 100)");
  EXPECT_DOUBLE_EQ(meanwhile[0].on_cpu, 0.25);
  EXPECT_DOUBLE_EQ(meanwhile[0].runnable, 0.25);
  EXPECT_TRUE(meanwhile[0].sites.empty());
}

TEST_F(MeanwhileTest, IdleHelpersOfAWorkerAndOfTheProcessAreLeftOut) {
  MainWaits();
  const int32_t worker = AddWorker(200, 0);
  b_.AddSamples(worker, 0, 120 * kMs, 10 * kMs, HostState::kRunning);
  const int32_t feeder = b_.AddThread(210, "QueueFeeder", b_.t.threads[worker].process);
  b_.AddSamples(feeder, 0, 120 * kMs, 10 * kMs, HostState::kBlocked);
  b_.AddSamples(b_.AddThread(12, "idle"), 0, 120 * kMs, 10 * kMs, HostState::kBlocked);
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].thread_count, 1);
  EXPECT_DOUBLE_EQ(meanwhile[0].on_cpu, 1);
}

TEST_F(MeanwhileTest, BusyThreadsOfTheProcessAreNamedOneByOne) {
  MainWaits();
  b_.AddSamples(b_.AddThread(12, "decoder"), 0, 120 * kMs, 10 * kMs, HostState::kRunning,
                b_.Stack({"/opt/libjpeg.so+0x10 decode_mcu"}));
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "thread 12 decoder");
  EXPECT_EQ(meanwhile[0].sites[0].where, "decode_mcu (libjpeg.so)");
}

// It waits for another process: whatever is busy in its own, nothing waits for that.
TEST_F(MeanwhileTest, BusyThreadsOfTheProcessFillNoPipeOfAWorker) {
  MainWaits();
  const int32_t pipe = b_.String("pipe");
  for (HostSample& sample : b_.t.samples) {
    sample.syscall = 0;
    sample.wait_target = pipe;
  }
  b_.AddSamples(AddWorker(200, 4), 0, 120 * kMs, 10 * kMs, HostState::kRunning, -1);
  b_.AddSamples(b_.AddThread(12, "metrics"), 0, 120 * kMs, 10 * kMs, HostState::kRunning, -1);
  const auto& meanwhile = Of(Cause::kInputWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "1 worker (child of 100)");
}

TEST_F(MeanwhileTest, ProcessesThatAreNoChildrenAreNotWorkers) {
  MainWaits();
  const int32_t stranger = b_.AddThread(300, "x", b_.AddProcess(300, "other"));
  b_.AddSamples(stranger, 0, 120 * kMs, 10 * kMs, HostState::kRunning);
  EXPECT_TRUE(Of(Cause::kInputWait).empty());
}

TEST_F(MeanwhileTest, TheHolderOfTheGilIsNamedWithItsLine) {
  MainWaits(kSampleWaitsForGil);
  const int32_t holder = b_.AddThread(12, "collate");
  b_.AddSamples(holder, 0, 120 * kMs, 10 * kMs, HostState::kRunning,
                b_.Stack({"/job/data.py:8 collate"}));
  for (HostSample& sample : b_.t.samples) {
    if (sample.thread == 0) sample.gil_holder = holder;
  }
  const auto& meanwhile = Of(Cause::kGilWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "thread 12 collate");
  EXPECT_DOUBLE_EQ(meanwhile[0].on_cpu, 1);
  ASSERT_EQ(meanwhile[0].sites.size(), 1u);
  EXPECT_EQ(meanwhile[0].sites[0].where, "data.py:8 in collate");
  EXPECT_DOUBLE_EQ(meanwhile[0].sites[0].share, 1);
}

TEST_F(MeanwhileTest, AHolderThatTheWaiterDidNotSeeIsFoundByItsOwnSamples) {
  MainWaits(kSampleWaitsForGil);
  b_.AddSamples(b_.AddThread(12, "a"), 0, 120 * kMs, 10 * kMs, HostState::kRunning);
  const int32_t holder = b_.AddThread(13, "b");
  b_.AddSamples(holder, 0, 120 * kMs, 10 * kMs, HostState::kRunning);
  for (HostSample& sample : b_.t.samples) {
    if (sample.thread == holder) sample.flags = kSampleHoldsGil;
  }
  const auto& meanwhile = Of(Cause::kGilWait);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "thread 13 b");
}

TEST_F(MeanwhileTest, WhoRanWhileTheThreadStarvedIsNamed) {
  b_.AddSample(0, 50 * kMs, 10 * kMs, {0, 10 * kMs}, HostState::kRunning,
               b_.Stack({"/job/train.py:27 main"}));
  b_.AddSamples(AddWorker(200, 1), 0, 120 * kMs, 10 * kMs, HostState::kRunning);
  const auto& meanwhile = Of(Cause::kCpuStarved);
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].who, "1 worker (child of 100)");
  EXPECT_EQ(meanwhile[0].allowed_cpus, 1u);
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/verdict.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict_facts.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

bool Contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// `count` kernels of 1 ms, each starting 2 ms after the one before: half of the time is idle.
// `between` adds what the host did, given the times at which the gap begins and ends.
template <typename F>
void HalfIdle(TimelineBuilder& b, int count, F between) {
  for (int i = 0; i < count; ++i) {
    const int64_t start = i * 2 * kMs;
    b.Kernel(start, start + kMs, b.Launch(start - 10 * kUs, start - 5 * kUs));
    between(start + kMs, start + 2 * kMs - 10 * kUs);
  }
}

TEST(Verdict, NoGpuWork) {
  TimelineBuilder b;
  b.Sync(0, 10);
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "no_gpu_work");
  EXPECT_EQ(v.action, "");
  EXPECT_EQ(v.upper_bound_speedup, 1.0);
}

TEST(Verdict, WorkWithoutTimesIsNotEnoughData) {
  TimelineBuilder b;
  b.Untimed(1, 1);
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "not_enough_data");
  EXPECT_TRUE(Contains(v.headline, "1 GPU operation recorded")) << v.headline;
}

TEST(Verdict, TooShortOrTooFewIsNotEnoughData) {
  TimelineBuilder few;
  for (uint64_t i = 0; i + 1 < kEnoughOps; ++i) few.Kernel(i * kMs, i * kMs + 10);
  EXPECT_EQ(Analyse(few.Build(), {}).verdict.kind, "not_enough_data");
  TimelineBuilder brief;
  for (int i = 0; i < 100; ++i) brief.Kernel(i * 10 * kUs, i * 10 * kUs + 5 * kUs);
  EXPECT_EQ(Analyse(brief.Build(), {}).verdict.kind, "not_enough_data");
}

TEST(Verdict, GpuBoundFromNinetyPercentOn) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) b.Kernel(i * kMs, i * kMs + 950 * kUs);
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_TRUE(Contains(v.headline, "busy 95 % of 100 ms")) << v.headline;
  // What could be gained is told once, as the bound.
  EXPECT_TRUE(v.headline.ends_with("; handing it work faster cannot gain much.")) << v.headline;
  EXPECT_TRUE(Contains(v.action, "probe-report kernels")) << v.action;
  EXPECT_NEAR(v.upper_bound_speedup, 1.05, 0.01);
}

TEST(Verdict, GpuBoundByCopiesSaysSo) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) {
    b.Copy(i * kMs, i * kMs + 700 * kUs);
    b.Kernel(i * kMs + 700 * kUs, i * kMs + 960 * kUs);
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_TRUE(Contains(v.action, "copies")) << v.action;
}

TEST(Verdict, ExposedCommunicationThatOutweighsEveryIdleCause) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) {
    b.Kernel(i * kMs, i * kMs + 500 * kUs);
    b.Kernel(i * kMs + 500 * kUs, i * kMs + 900 * kUs, 0, 0, "ncclDevKernel_AllReduce");
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "communication");
  EXPECT_TRUE(Contains(v.headline, "40 %")) << v.headline;
  EXPECT_NEAR(v.upper_bound_speedup, 100.0 / 60.0, 0.01);
}

// One rank's trace: its device is busy all the time, with waiting for another.
TEST(Verdict, ALateRankIsNotTakenForCompute) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) {
    const int64_t compute = i % 2 == 0 ? 970 * kUs : 700 * kUs;
    b.Kernel(i * kMs, i * kMs + compute);
    b.Kernel(i * kMs + compute, (i + 1) * kMs, 0, 0, "ncclDevKernel_AllReduce");
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "communication");
  EXPECT_TRUE(Contains(v.headline, "Waiting for other ranks")) << v.headline;
  EXPECT_TRUE(Contains(v.action, "rank that comes late")) << v.action;
  EXPECT_GT(v.upper_bound_speedup, 1.1);
  EXPECT_LT(v.upper_bound_speedup, 1.2);
}

TEST(Verdict, CollectivesThatAllTakeTheSameAreNoWaiting) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) {
    b.Kernel(i * kMs, i * kMs + 850 * kUs);
    b.Kernel(i * kMs + 850 * kUs, (i + 1) * kMs, 0, 0, "ncclDevKernel_AllReduce");
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_TRUE(Contains(v.action, "a rank comes late")) << v.action;
}

TEST(Verdict, SynchronisationNamesTheCallItsRateAndTheBound) {
  TimelineBuilder b;
  HalfIdle(b, 100, [&](int64_t begin, int64_t) { b.Sync(begin - 990 * kUs, begin + 5 * kUs); });
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "synchronisation");
  EXPECT_TRUE(Contains(v.headline, "idle 50 %")) << v.headline;
  EXPECT_TRUE(Contains(v.evidence, "cudaStreamSynchronize (thread 11 main)")) << v.evidence;
  EXPECT_TRUE(Contains(v.evidence, "100 calls (503 a second)")) << v.evidence;
  EXPECT_TRUE(Contains(v.action, "cudaStreamSynchronize")) << v.action;
  EXPECT_NEAR(v.upper_bound_speedup, 2.0, 0.05);
}

TEST(Verdict, HostOutsideCuda) {
  TimelineBuilder b;
  HalfIdle(b, 100, [](int64_t, int64_t) {});
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "host");
  EXPECT_TRUE(Contains(v.evidence, "outside CUDA (thread 11 main)")) << v.evidence;
}

TEST(Verdict, LaunchBoundAdvisesFewerSubmissions) {
  TimelineBuilder b;
  for (int i = 0; i < 2000; ++i) {
    const int64_t start = i * 16 * kUs;
    b.Kernel(start + 4 * kUs, start + 9 * kUs, b.Launch(start, start + 5 * kUs));
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "launch_bound");
  EXPECT_TRUE(Contains(v.action, "CUDA graphs")) << v.action;
  EXPECT_TRUE(Contains(v.evidence, "2,000 kernels of 5.00 us on average")) << v.evidence;
}

TEST(Verdict, GapsBetweenQueuedKernelsAreLaunchBoundToo) {
  TimelineBuilder b;
  for (int i = 0; i < 10'000; ++i) {
    b.Kernel(100 * kMs + i * 3 * kUs, 100 * kMs + i * 3 * kUs + 2 * kUs,
             b.Launch(i * 10, i * 10 + 5));
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "launch_bound");
  EXPECT_TRUE(Contains(v.headline, "Launch latency")) << v.headline;
}

TEST(Verdict, PageableCopiesAdvisePinnedMemoryOrFewerReads) {
  for (const bool to_host : {false, true}) {
    TimelineBuilder b;
    HalfIdle(b, 100, [&](int64_t begin, int64_t end) {
      b.Copy(end - 20 * kUs, end - 10 * kUs,
             b.Call("cudaMemcpyAsync", CallClass::kCopy, begin + 10 * kUs, end - 10 * kUs), true,
             to_host ? 2 : 1);
    });
    const Verdict v = Analyse(b.Build(), {}).verdict;
    EXPECT_EQ(v.kind, "pageable_copy");
    EXPECT_EQ(Contains(v.action, "pin_memory"), !to_host) << v.action;
    EXPECT_EQ(Contains(v.action, "reading results"), to_host) << v.action;
  }
}

TEST(Verdict, BlockingApiNamesTheCall) {
  TimelineBuilder b;
  HalfIdle(b, 100, [&](int64_t begin, int64_t end) {
    b.Call("cudaMalloc", CallClass::kAlloc, begin + 10 * kUs, end - 10 * kUs);
  });
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "blocking_api");
  EXPECT_TRUE(Contains(v.action, "cudaMalloc")) << v.action;
}

TEST(Verdict, LoadingAtTheBeginningIsWarmUpLaterItIsNot) {
  for (const bool early : {true, false}) {
    TimelineBuilder b;
    for (int i = 0; i < 100; ++i) {
      const int64_t start = (early ? i == 0 ? 0 : 300 + i : i == 99 ? 400 : i) * kMs;
      b.Kernel(start, start + 999 * kUs, b.Launch(start - 10 * kUs, start - 5 * kUs));
    }
    const int64_t load = early ? 2 * kMs : 101 * kMs;
    b.Call("cuLibraryLoadData", CallClass::kModule, load, load + 280 * kMs);
    EXPECT_EQ(Analyse(b.Build(), {}).verdict.kind, early ? "warmup" : "blocking_api");
  }
}

TEST(Verdict, DependencyNamesTheStreams) {
  TimelineBuilder b;
  const int32_t remote = b.AddStream(b.AddDevice(), 9);
  for (int i = 0; i < 50; ++i) {
    const int64_t start = i * 2 * kMs;
    b.Kernel(start, start + kMs, b.Launch(start - 40 * kUs, start - 35 * kUs));
    b.Kernel(start, start + 1990 * kUs, b.Launch(start - 30 * kUs, start - 25 * kUs), remote);
    b.EventRecord(1, remote, start + 1, start + 2);
    b.StreamWait(1, 0, start + 3, start + 4);
  }
  Options options;
  options.device = 0;
  Timeline t = b.Build();
  // Launches of the next round come before the wait ends: queue them early.
  for (HostCall& call : t.calls) {
    if (t.symbols[call.symbol].name == "cudaLaunchKernel" && call.start_ns > kMs) {
      call.start_ns -= kMs;
      call.end_ns -= kMs;
    }
  }
  const Verdict v = Analyse(t, options).verdict;
  EXPECT_EQ(v.kind, "dependency");
  EXPECT_TRUE(Contains(v.evidence, "stream 7 of GPU 0 waited for stream 9 of GPU 1")) << v.evidence;
}

TEST(Verdict, OtherProcess) {
  TimelineBuilder b;
  const int32_t stream = b.AddStream(0, 7, b.AddProcess(200, "/usr/bin/serve"));
  HalfIdle(b, 100, [&](int64_t begin, int64_t end) { b.Kernel(begin, end, 0, stream); });
  Options options;
  options.pid = 100;
  const Verdict v = Analyse(b.Build(), options).verdict;
  EXPECT_EQ(v.kind, "other_process");
  EXPECT_TRUE(Contains(v.action, "pid 200 serve")) << v.action;
}

TEST(Verdict, Profiler) {
  TimelineBuilder b;
  HalfIdle(b, 100, [&](int64_t begin, int64_t end) {
    b.Overhead(begin + 10 * kUs, end - 10 * kUs, 7u << 16, true);
  });
  EXPECT_EQ(Analyse(b.Build(), {}).verdict.kind, "profiler");
}

TEST(Verdict, IdleTimeThatCannotBeExplainedIsNotEnoughData) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) b.Kernel(i * kMs, i * kMs + 300 * kUs);
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "not_enough_data");
  EXPECT_TRUE(Contains(v.evidence, "launch call not recorded")) << v.evidence;
  EXPECT_EQ(v.action, "");
}

TEST(Verdict, StartAndEndOfAWindowAreNoFinding) {
  TimelineBuilder b;
  for (int i = 0; i < 100; ++i) b.Kernel(i * kMs, i * kMs + 950 * kUs);
  Options options;
  options.from_ns = -1'000 * kMs;
  options.to_ns = 2'000 * kMs;
  const Verdict v = Analyse(b.Build(), options).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_NEAR(v.upper_bound_speedup, 1.05, 0.01);
}

TEST(Verdict, TheRunnerUpIsTheNextCause) {
  TimelineBuilder b;
  HalfIdle(b, 100, [&](int64_t begin, int64_t) {
    b.Call("cudaMalloc", CallClass::kAlloc, begin + 10 * kUs, begin + 210 * kUs);
  });
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "host");
  EXPECT_TRUE(Contains(v.runner_up, "next is blocking API, 20 % of the idle time")) << v.runner_up;
  EXPECT_TRUE(Contains(v.runner_up, "cudaMalloc")) << v.runner_up;
}

TEST(Verdict, SumsOverDevices) {
  TimelineBuilder b;
  const int32_t remote = b.AddStream(b.AddDevice(), 9);
  for (int i = 0; i < 100; ++i) {
    b.Kernel(i * kMs, i * kMs + 990 * kUs);
    b.Kernel(i * kMs, i * kMs + 990 * kUs, 0, remote);
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_TRUE(Contains(v.headline, "of 2 GPUs x 100 ms")) << v.headline;
}

TEST(DurationText, HasThreeDigits) {
  EXPECT_EQ(DurationText(0), "0 ns");
  EXPECT_EQ(DurationText(999), "999 ns");
  EXPECT_EQ(DurationText(1'000), "1.00 us");
  EXPECT_EQ(DurationText(12'345), "12.3 us");
  EXPECT_EQ(DurationText(150'900'000), "151 ms");
  EXPECT_EQ(DurationText(999'600'000), "1.00 s");
  EXPECT_EQ(DurationText(6'410'000'000), "6.41 s");
  EXPECT_EQ(DurationText(86'400'000'000'000), "86400 s");
}

}  // namespace
}  // namespace gpuprobe::tools

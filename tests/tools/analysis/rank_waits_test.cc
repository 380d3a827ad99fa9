// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/rank_waits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;

// Two processes, rank 0 on the first device and rank 1 on the second.
struct TwoRanks {
  TwoRanks() {
    builder.t.processes[0].rank = 0;
    const int32_t process = builder.AddProcess(200, "/usr/bin/python3");
    builder.t.processes[static_cast<size_t>(process)].rank = 1;
    stream = builder.AddStream(builder.AddDevice(), 9, process);
  }
  void Kernel(int rank, int64_t begin_us, int64_t end_us, const std::string& name = "gemm") {
    builder.Kernel(begin_us * kUs, end_us * kUs, 0, rank == 0 ? 0 : stream, name);
  }
  TimelineBuilder builder;
  int32_t stream;
};

TEST(RankWaits, AWaitLastsUntilTheLastRankEnters) {
  for (const char* name : {"ncclKernel_AllReduce_RING_LL_Sum_float", "ncclDevKernel_AllReduce"}) {
    TwoRanks ranks;
    ranks.Kernel(0, 0, 100, name);
    ranks.Kernel(1, 90, 100, name);
    const Analysis analysis = Analyse(ranks.builder.Build(), {});
    ASSERT_TRUE(analysis.ranks.has_value()) << name;
    EXPECT_EQ(analysis.ranks->collectives, 1u);
    EXPECT_EQ(analysis.ranks->ranks[0].waited_ns, 90 * kUs);
    EXPECT_EQ(analysis.ranks->ranks[1].waited_ns, 0);
    EXPECT_EQ(analysis.ranks->ranks[1].caused_ns, 90 * kUs);
    EXPECT_EQ(analysis.ranks->ranks[1].entered_last, 1u);
    EXPECT_EQ(analysis.ranks->exposed_ns, 90 * kUs);
  }
}

TEST(RankWaits, AKernelOfAnUnknownNameIsNoCollective) {
  TwoRanks ranks;
  ranks.Kernel(0, 0, 100, "my_ring");
  ranks.Kernel(1, 90, 100, "my_ring");
  EXPECT_FALSE(Analyse(ranks.builder.Build(), {}).ranks.has_value());
}

TEST(RankWaits, OneRankAndTracesOfDifferentTimesTellNothing) {
  TimelineBuilder one;
  one.Kernel(0, 100 * kUs, 0, 0, "ncclDevKernel_AllReduce");
  EXPECT_FALSE(Analyse(one.Build(), {}).ranks.has_value());
  TwoRanks apart;
  apart.Kernel(0, 0, 100, "ncclDevKernel_AllReduce");
  apart.Kernel(1, 500, 600, "ncclDevKernel_AllReduce");
  EXPECT_FALSE(Analyse(apart.builder.Build(), {}).ranks.has_value());
}

TEST(RankWaits, OneRankMayHaveMoreCollectivesThanTheOther) {
  TwoRanks ranks;
  for (int64_t i = 0; i < 10; ++i)
    ranks.Kernel(0, i * 100, i * 100 + 50, "ncclDevKernel_AllReduce");
  for (int64_t i = 2; i < 10; ++i)
    ranks.Kernel(1, i * 100 + 20, i * 100 + 50, "ncclDevKernel_AllReduce");
  const Analysis analysis = Analyse(ranks.builder.Build(), {});
  ASSERT_TRUE(analysis.ranks.has_value());
  EXPECT_EQ(analysis.ranks->collectives, 8u);
  EXPECT_EQ(analysis.ranks->ranks[0].waited_ns, 8 * 20 * kUs);
}

TEST(RankWaits, TheVerdictNamesTheRankThatComesLate) {
  TwoRanks ranks;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t begin = i * 1'000;
    ranks.Kernel(0, begin, begin + 300);
    ranks.Kernel(0, begin + 300, begin + 1'000, "ncclDevKernel_AllReduce");
    ranks.Kernel(1, begin, begin + 850);
    ranks.Kernel(1, begin + 850, begin + 1'000, "ncclDevKernel_AllReduce");
  }
  const Analysis analysis = Analyse(ranks.builder.Build(), {});
  ASSERT_TRUE(analysis.ranks.has_value());
  EXPECT_EQ(analysis.ranks->ranks[0].waited_ns, 100 * 550 * kUs);
  const Verdict& verdict = analysis.verdict;
  EXPECT_EQ(verdict.kind, "communication");
  EXPECT_EQ(verdict.headline,
            "Late rank: for 28 % of 2 GPUs x 100 ms collectives waited for the last rank to "
            "enter, most of all for rank 1 (GPU 1).");
  EXPECT_NE(verdict.evidence.find("entered 100 of 100 collectives last"), std::string::npos)
      << verdict.evidence;
  EXPECT_NE(verdict.action.find("--device 1"), std::string::npos) << verdict.action;
  EXPECT_GT(verdict.upper_bound_speedup, 1.3);
}

TEST(RankWaits, RanksThatComeTogetherAreBoundByCommunicationItself) {
  TwoRanks ranks;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t begin = i * 1'000;
    for (const int rank : {0, 1}) {
      ranks.Kernel(rank, begin, begin + 500);
      ranks.Kernel(rank, begin + 500, begin + 1'000, "ncclDevKernel_AllReduce");
    }
  }
  const Verdict verdict = Analyse(ranks.builder.Build(), {}).verdict;
  EXPECT_EQ(verdict.kind, "communication");
  EXPECT_EQ(verdict.headline,
            "Communication-bound: for 50 % of 2 GPUs x 100 ms collectives ran and nothing else, "
            "waiting for the last rank to enter for 0 %.");
}

}  // namespace
}  // namespace gpuprobe::tools

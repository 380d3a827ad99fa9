// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/hot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

const HotRow* RowAt(const HotReport& report, const std::string& where) {
  for (const HotRow& row : report.rows) {
    if (row.where.find(where) != std::string::npos) return &row;
  }
  return nullptr;
}

HotReport Hot(const Timeline& timeline, const Options& options = {}) {
  return FindHotLines(timeline, Analyse(timeline, options), options);
}

TEST(HotTest, DividesEachLinesTimeAndKnowsWhatTheGpuWasIdleFor) {
  TimelineBuilder builder;
  builder.Kernel(0, 100 * kMs);
  builder.Kernel(200 * kMs, 210 * kMs);
  const int32_t busy = builder.Stack({"/job/train.py:12 tokenize", "/job/train.py:40 main"});
  const int32_t waiting = builder.Stack({"/job/train.py:30 fetch", "/job/train.py:40 main"});
  // While the GPU works, then while it is idle.
  builder.AddSample(0, 50 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, busy);
  builder.AddSample(0, 150 * kMs, 10 * kMs, {7 * kMs, 3 * kMs}, HostState::kRunning, busy);
  // It ran for most of the interval, elsewhere: a thread that is blocked burns no CPU at its line.
  builder.AddSample(0, 160 * kMs, 10 * kMs, {8 * kMs, 0}, HostState::kBlocked, waiting);
  const HotReport report = Hot(builder.Build());
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.samples, 3u);
  const HotRow& tokenize = report.rows[0];
  EXPECT_EQ(tokenize.where, "train.py:12 in tokenize");
  EXPECT_THAT(tokenize.who, HasSubstr("thread 11 main"));
  EXPECT_EQ(tokenize.on_cpu_ns, 17 * kMs);
  EXPECT_EQ(tokenize.runnable_ns, 3 * kMs);
  EXPECT_EQ(tokenize.blocked_ns, 0);
  EXPECT_EQ(tokenize.gpu_idle_ns, 10 * kMs);
  EXPECT_EQ(tokenize.samples, 2u);
  const HotRow& fetch = report.rows[1];
  EXPECT_EQ(fetch.where, "train.py:30 in fetch");
  EXPECT_EQ(fetch.blocked_ns, 10 * kMs);
  EXPECT_EQ(fetch.gpu_idle_ns, 10 * kMs);
}

TEST(HotTest, TheWorkersOfAProcessAreOneCrowd) {
  TimelineBuilder builder;
  builder.Kernel(0, 100 * kMs);
  const int32_t decode = builder.Stack({"/job/dataset.py:31 decode"});
  for (uint32_t pid : {201u, 202u}) {
    const int32_t child = builder.AddSampledChild(pid);
    const int32_t thread = builder.AddThread(pid, "python", child);
    builder.AddSample(thread, 50 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, decode);
  }
  const HotReport report = Hot(builder.Build());
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].who, "2 workers of 100");
  EXPECT_EQ(report.rows[0].on_cpu_ns, 20 * kMs);
  EXPECT_EQ(report.rows[0].gpu_idle_ns, 0);
}

TEST(HotTest, WindowAndProcessNarrowIt) {
  TimelineBuilder builder;
  builder.Kernel(0, 100 * kMs);
  const int32_t other = builder.AddProcess(500, "/usr/bin/python3");
  const int32_t thread = builder.AddThread(500, "other", other);
  const int32_t stack = builder.Stack({"/job/train.py:12 tokenize"});
  builder.AddSample(0, 50 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, stack);
  builder.AddSample(0, 70 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, stack);
  builder.AddSample(thread, 70 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, stack);
  builder.SampledTime(0, 80 * kMs);
  const Timeline timeline = builder.Build();
  EXPECT_EQ(Hot(timeline).samples, 3u);
  Options options;
  options.pid = 100;
  options.from_ns = 60 * kMs;
  const HotReport report = Hot(timeline, options);
  EXPECT_EQ(report.samples, 1u);
  EXPECT_EQ(report.sampled_ns, 20 * kMs);
}

TEST(HotTest, WithoutAStackItSaysSo) {
  TimelineBuilder builder;
  builder.Kernel(0, 100 * kMs);
  builder.AddSample(0, 50 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, -1);
  const HotReport report = Hot(builder.Build());
  ASSERT_NE(RowAt(report, "(no stack)"), nullptr);
  EXPECT_THAT(Hot(TimelineBuilder().Build()).rows, IsEmpty());
}

}  // namespace
}  // namespace gpuprobe::tools

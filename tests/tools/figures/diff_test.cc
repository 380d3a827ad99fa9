// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/figures/run_figures.h"
#include "tools/report/report_diff.h"

namespace gpuprobe::tools {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;

// Kernels of 1 ms, `idle_ms` apart because the host came late.
Timeline Loop(int kernels, int64_t idle_ms) {
  TimelineBuilder builder;
  int64_t at = 10 * kMs;
  for (int i = 0; i < kernels; ++i) {
    const uint32_t launch = builder.Call("cudaLaunchKernel", CallClass::kLaunch, at - 5'000, at);
    builder.Kernel(at + 1'000, at + 1'000 + kMs, launch);
    at += (1 + idle_ms) * kMs;
  }
  return builder.Build();
}

std::vector<Figure> FiguresOfLoop(int kernels, int64_t idle_ms) {
  const Timeline timeline = Loop(kernels, idle_ms);
  return FiguresOf(timeline, Analyse(timeline, {}));
}

double ValueOf(const std::vector<Figure>& figures, const std::string& name) {
  const Figure* figure = FindFigure(figures, name);
  EXPECT_NE(figure, nullptr) << name;
  return figure == nullptr ? -1 : figure->value;
}

TEST(RunFiguresTest, SharesAreOfTheWindowAndAddUp) {
  const auto figures = FiguresOfLoop(11, 3);  // 11 ms busy, 10 gaps of 3 ms
  EXPECT_THAT(ValueOf(figures, "window"), DoubleEq(41 * kMs));
  EXPECT_THAT(ValueOf(figures, "idle"), DoubleNear(30.0 / 41, 1e-12));
  EXPECT_THAT(ValueOf(figures, "compute"), DoubleNear(11.0 / 41, 1e-12));
  EXPECT_THAT(ValueOf(figures, "kernels"), DoubleEq(11));
  double causes = 0;
  for (const Figure& figure : figures) {
    if (figure.name.rfind("idle:", 0) == 0) causes += figure.value;
  }
  EXPECT_THAT(causes, DoubleNear(30.0 / 41, 1e-12));
}

TEST(RunFiguresTest, ARunWithoutGpuWorkTellsWhatTheProcessUsed) {
  Timeline timeline;
  timeline.processes.push_back({});
  timeline.processes[0].wall_ns = 5'000 * kMs;
  timeline.processes[0].user_cpu_ns = 3'000 * kMs;
  timeline.processes[0].system_cpu_ns = 500 * kMs;
  timeline.processes.push_back({});  // a worker: its time is in its parent's children_cpu_ns
  timeline.processes[1].sampled_only = true;
  timeline.processes[1].wall_ns = 9'000 * kMs;
  const auto figures = FiguresOf(timeline, Analyse(timeline, {}));
  EXPECT_THAT(ValueOf(figures, "wall"), DoubleEq(5'000 * kMs));
  EXPECT_THAT(ValueOf(figures, "cpu"), DoubleEq(3'500 * kMs));
  EXPECT_EQ(FindFigure(figures, "idle"), nullptr);
}

// What is not told must not read as "nothing lost": --fail-if 'lost>0' would pass.
TEST(RunFiguresTest, LossesAreThereOnlyWhereTheyAreTold) {
  Timeline timeline;
  timeline.processes.push_back({});
  timeline.inputs.push_back({});
  EXPECT_EQ(FindFigure(FiguresOf(timeline, Analyse(timeline, {})), "lost"), nullptr);  // no record
  timeline.inputs[0].records = 10;
  EXPECT_THAT(ValueOf(FiguresOf(timeline, Analyse(timeline, {})), "lost"), DoubleEq(0));
  timeline.processes[0].source = SourceKind::kKineto;
  EXPECT_EQ(FindFigure(FiguresOf(timeline, Analyse(timeline, {})), "lost"), nullptr);
}

TEST(CompareRunsTest, KeepsTheOrderOfAAndFillsInWhatBAloneHas) {
  const std::vector<Figure> a = {{"wall", 1, FigureUnit::kTime, Better::kLower},
                                 {"gone", 2, FigureUnit::kCount, Better::kNeither},
                                 {"lost", 0, FigureUnit::kCount, Better::kLower}};
  const std::vector<Figure> b = {{"wall", 2, FigureUnit::kTime, Better::kLower},
                                 {"new", 7, FigureUnit::kCount, Better::kNeither},
                                 {"lost", 0, FigureUnit::kCount, Better::kLower},
                                 {"last", 1, FigureUnit::kCount, Better::kNeither}};
  std::vector<std::string> names;
  for (const DiffRow& row : CompareRuns(a, b)) names.push_back(row.name);
  EXPECT_THAT(names, ElementsAre("wall", "gone", "new", "lost", "last"));
}

TEST(DiffRowTest, KnowsWhichDirectionIsBetter) {
  const DiffRow lower = {"wall", FigureUnit::kTime, Better::kLower, 10, 8};
  EXPECT_THAT(*lower.relative(), DoubleNear(-0.2, 1e-12));
  EXPECT_TRUE(*lower.improved());
  const DiffRow higher = {"steps_per_second", FigureUnit::kPerSecond, Better::kHigher, 10, 8};
  EXPECT_FALSE(*higher.improved());
  const DiffRow neither = {"kernels", FigureUnit::kCount, Better::kNeither, 10, 8};
  EXPECT_FALSE(neither.improved().has_value());
  const DiffRow from_zero = {"lost", FigureUnit::kCount, Better::kLower, 0, 8};
  EXPECT_FALSE(from_zero.relative().has_value());
  EXPECT_FALSE(*from_zero.improved());
}

TEST(DiffHeadlineTest, NamesSpeedAndTheCauseThatMoved) {
  const auto rows = CompareRuns(FiguresOfLoop(11, 3), FiguresOfLoop(11, 1));
  const std::string headline = DiffHeadline(rows);
  EXPECT_THAT(headline, HasSubstr("B is 1.95 times as fast as A"));
  EXPECT_THAT(headline, HasSubstr("was idle 73.2 % and is idle 47.6 %; host fell most"));
}

TEST(DiffHeadlineTest, CallsTheSameTheSame) {
  const auto figures = FiguresOfLoop(11, 3);
  EXPECT_THAT(DiffHeadline(CompareRuns(figures, figures)), HasSubstr("as long as A"));
  EXPECT_THAT(DiffHeadline(CompareRuns({}, figures)), HasSubstr("nothing can be compared"));
}

// --- conditions
// -----------------------------------------------------------------------------------

std::vector<DiffRow> Rows() {
  return {{"idle", FigureUnit::kShare, Better::kLower, 0.40, 0.43},
          {"step", FigureUnit::kTime, Better::kLower, 30e6, 33e6},
          {"lost", FigureUnit::kCount, Better::kLower, 0, 5},
          {"idle:input_wait", FigureUnit::kShare, Better::kLower, std::nullopt, 0.10},
          {"wall", FigureUnit::kTime, Better::kLower, 5e9, std::nullopt}};
}

bool HoldsIn(const std::string& text, const std::vector<DiffRow>& rows = Rows()) {
  const auto condition = ParseFailCondition(text);
  EXPECT_TRUE(condition.ok()) << condition.status();
  const auto holds = Holds(*condition, rows);
  EXPECT_TRUE(holds.ok()) << holds.status();
  return holds.ok() && *holds;
}

TEST(FailConditionTest, ComparesRelativelyInPointsAndByValue) {
  EXPECT_TRUE(HoldsIn("idle>+5%"));  // 7.5 % more
  EXPECT_FALSE(HoldsIn("idle>+8%"));
  EXPECT_TRUE(HoldsIn("idle > +2pp"));  // 3 points more
  EXPECT_FALSE(HoldsIn("idle>+4pp"));
  EXPECT_TRUE(HoldsIn("idle>40%"));
  EXPECT_FALSE(HoldsIn("idle>43.5%"));
  EXPECT_TRUE(HoldsIn("step>+5%"));
  EXPECT_TRUE(HoldsIn("step>32ms"));
  EXPECT_FALSE(HoldsIn("step>34ms"));
  EXPECT_TRUE(HoldsIn("step>+2ms"));
  EXPECT_FALSE(HoldsIn("step>+4ms"));
  EXPECT_FALSE(HoldsIn("step<-5%"));  // it did not become faster
  EXPECT_TRUE(HoldsIn("step<34ms"));
  EXPECT_TRUE(HoldsIn("lost>0"));
  EXPECT_TRUE(HoldsIn("lost>=5"));
  EXPECT_FALSE(HoldsIn("lost>5"));
  EXPECT_TRUE(HoldsIn("lost<=5"));
}

TEST(FailConditionTest, ACauseThatARunLacksTookNoTimeThere) {
  EXPECT_TRUE(HoldsIn("idle:input_wait>+5pp"));
  EXPECT_FALSE(HoldsIn("idle:gil_wait>+1pp"));
}

TEST(FailConditionTest, WhatCannotBeCheckedIsAnError) {
  for (const char* text : {"idel>+5%", "wall>+5%", "idle:nonsense>1%", "step>5", "idle>40ms",
                           "lost>5ms", "idle>0.4"}) {
    const auto condition = ParseFailCondition(text);
    ASSERT_TRUE(condition.ok()) << text << condition.status();
    EXPECT_FALSE(Holds(*condition, Rows()).ok()) << text;
  }
}

TEST(FailConditionTest, RefusesWhatIsNoCondition) {
  for (const char* text : {"", "idle", "idle>", ">5", "idle>five", "idle>++5%", "idle>5pp",
                           "idle>nan", "idle>inf%", "idle=5"}) {
    EXPECT_FALSE(ParseFailCondition(text).ok()) << text;
  }
}

// --- report
// ---------------------------------------------------------------------------------------

TEST(DiffReportTest, ShowsBothRunsTheChangeAndTheConditions) {
  LoadedRun run_a, run_b;
  run_a.name = "before";
  run_b.name = "after";
  run_a.timeline = Loop(11, 3);
  run_b.timeline = Loop(11, 1);
  const Analysis analysis_a = Analyse(run_a.timeline, {}), analysis_b = Analyse(run_b.timeline, {});
  const ReportInput a = {run_a, analysis_a, {}, std::nullopt};
  const ReportInput b = {run_b, analysis_b, {}, std::nullopt};
  DiffInput input = {
      a,
      b,
      CompareRuns(FiguresOf(run_a.timeline, analysis_a), FiguresOf(run_b.timeline, analysis_b)),
      {}};
  input.conditions.push_back({*ParseFailCondition("idle>+5%"), false});
  const std::string text = DiffText(input);
  EXPECT_THAT(text, HasSubstr("before"));
  EXPECT_THAT(text, HasSubstr("after"));
  EXPECT_THAT(text, HasSubstr("-25.6 points"));
  EXPECT_THAT(text, HasSubstr("pass  idle>+5%"));
  EXPECT_THAT(text, Not(HasSubstr("FAIL")));
  const std::string json = DiffJson(input);
  EXPECT_THAT(json, HasSubstr("\"schema\":\"gpuprobe.diff/1\""));
  EXPECT_THAT(json, HasSubstr("\"improved\":true"));
  EXPECT_THAT(DiffCsv(input), HasSubstr("idle,share,"));
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Sentences that reports share: numbers of devices, warnings, runs that were told to record
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/figures/trust.h"
#include "tools/report/report.h"
#include "tools/report/report_diff.h"
#include "tools/report/report_parts.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;

struct Made {
  explicit Made(const Timeline& timeline, const Options& chosen = {}) : options(chosen) {
    run.name = "run";
    run.timeline = timeline;
    run.captures.resize(timeline.processes.size());
    analysis = Analyse(run.timeline, options);
  }
  ReportInput Input() const { return {run, analysis, options, {}}; }
  LoadedRun run;
  Options options;
  Analysis analysis;
};

Timeline UsageOnly() {
  Timeline timeline;
  Process process = {};
  process.pid = 100;
  process.ended = true;
  process.wall_ns = 1'290 * kMs;
  process.user_cpu_ns = 230 * kMs;
  process.rank = -1;
  timeline.processes.push_back(process);
  return timeline;
}

Made MadeUsageOnly() {
  Made made(UsageOnly());
  made.run.captures[0].off_reason = "GPUPROBE_CAPTURE is off";
  made.run.captures[0].settings = {{"GPUPROBE_CAPTURE", "0", false}};
  made.run.captures[0].end_reason = "exit";
  return made;
}

TEST(DeviceNumber, IsTheOrdinalUnlessTwoDevicesShareOne) {
  TimelineBuilder builder;
  builder.t.devices[0].ordinal = 3;
  EXPECT_EQ(DeviceNumber(builder.t, 0), 3);
  EXPECT_EQ(DeviceOfNumber(builder.t, 3), 0);
  EXPECT_EQ(DeviceOfNumber(builder.t, 0), -1);
  builder.AddDevice();
  builder.t.devices[1].ordinal = 3;
  EXPECT_EQ(DeviceNumber(builder.t, 0), 0);
  EXPECT_EQ(DeviceNumber(builder.t, 1), 1);
  EXPECT_EQ(DeviceOfNumber(builder.t, 1), 1);
}

TEST(DeviceNumber, IsWhatEveryReportShows) {
  TimelineBuilder builder;
  builder.t.devices[0].ordinal = 3;
  builder.Kernel(0, 10 * kMs);
  builder.Kernel(20 * kMs, 30 * kMs);
  const Made made(builder.Build());
  const ReportInput input = made.Input();
  EXPECT_THAT(SummaryText(input), HasSubstr("\nGPU 3 "));
  EXPECT_THAT(SummaryJson(input), HasSubstr("\"device\":3"));
  EXPECT_THAT(GapsText(input), HasSubstr("GPU 3: 1 gap"));
  EXPECT_THAT(GapsJson(input), Not(HasSubstr("\"device\":0")));
  EXPECT_THAT(StepsText(input), HasSubstr("GPU 3"));
  EXPECT_THAT(InfoText(input), HasSubstr("GPU 3"));
}

TEST(Trust, NamesWhatTheLibraryWarnedOfOnce) {
  TimelineBuilder builder;
  builder.Kernel(0, 10 * kMs);
  builder.AddProcess(200, "/usr/bin/python3");
  Made made(builder.Build());
  for (ProcessCapture& capture : made.run.captures)
    capture.warnings = {"GPUPROBE_SAMPL_HZ ignored: no such setting"};
  const std::string text = TrustText(made.Input(), MeasureTrust(made.Input()));
  const size_t first = text.find("GPUPROBE_SAMPL_HZ ignored: no such setting");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("GPUPROBE_SAMPL_HZ", first + 1), std::string::npos) << text;
  EXPECT_THAT(SummaryJson(made.Input()), HasSubstr("GPUPROBE_SAMPL_HZ ignored"));
  made.run.captures[1].warnings = {"a", "b", "c", "d"};
  EXPECT_THAT(TrustText(made.Input(), MeasureTrust(made.Input())), HasSubstr("2 more warnings"));
}

TEST(UsageOnly, IsNoBrokenRunOfTheGpu) {
  const Made made = MadeUsageOnly();
  const std::string summary = SummaryText(made.Input());
  EXPECT_THAT(summary, HasSubstr("took 1.29 s and 230 ms of CPU time"));
  EXPECT_THAT(summary, HasSubstr("GPUPROBE_CAPTURE=off"));
  EXPECT_THAT(summary, Not(HasSubstr("0 GPUs")));
  EXPECT_THAT(summary, Not(HasSubstr("No GPU work")));
  EXPECT_THAT(SummaryJson(made.Input()), HasSubstr("\"kind\":\"not_enough_data\""));
  EXPECT_THAT(SummaryJson(made.Input()), HasSubstr("\"partial\":false"));
  const std::string info = InfoText(made.Input());
  EXPECT_THAT(info, HasSubstr("recorded    how long it took and what it used, as asked"));
  for (const char* claim : {"LOST", "BLIND", "COVERAGE", "CUPTI", "host calls", "off  "})
    EXPECT_THAT(info, Not(HasSubstr(claim))) << claim;
}

TEST(UsageOnly, ADifferenceToAFullRunSaysWhatOnlyOneHas) {
  const Made a = MadeUsageOnly();
  TimelineBuilder builder;
  builder.Kernel(0, 10 * kMs);
  builder.t.processes[0].wall_ns = 1'300 * kMs;
  const Made b(builder.Build());
  const ReportInput input_a = a.Input(), input_b = b.Input();
  const DiffInput input = {input_a,
                           input_b,
                           CompareRuns({{"wall", 1.29e9, FigureUnit::kTime, Better::kLower}},
                                       {{"wall", 1.3e9, FigureUnit::kTime, Better::kLower},
                                        {"idle", 0.5, FigureUnit::kShare, Better::kLower}}),
                           {}};
  const std::string text = DiffText(input);
  EXPECT_THAT(text, HasSubstr("wall"));
  EXPECT_THAT(text, HasSubstr("... 1 figure of B alone"));
  EXPECT_THAT(text, Not(HasSubstr("new")));
  EXPECT_THAT(text, HasSubstr("A: GPUPROBE_CAPTURE=off"));
}

TEST(Hot, IsOrderedByItsFirstColumn) {
  TimelineBuilder builder;
  builder.Kernel(0, 100 * kMs);
  const int32_t waiting = builder.Stack({"/job/train.py:30 fetch"});
  const int32_t busy = builder.Stack({"/job/train.py:12 tokenize"});
  builder.AddSample(0, 50 * kMs, 50 * kMs, {0, 0}, HostState::kBlocked, waiting);
  builder.AddSample(0, 60 * kMs, 10 * kMs, {10 * kMs, 0}, HostState::kRunning, busy);
  const Made made(builder.Build());
  const std::string text = HotText(made.Input());
  EXPECT_THAT(text, HasSubstr("most time awake first"));
  EXPECT_LT(text.find("tokenize"), text.find("fetch")) << text;
  EXPECT_THAT(text, HasSubstr("\n10.0 ms "));
  EXPECT_THAT(HotJson(made.Input()), HasSubstr("\"order\":\"awake_ns\""));
  EXPECT_THAT(HotCsv(made.Input()), HasSubstr("who,where,detail,awake_ns,"));
}

}  // namespace
}  // namespace gpuprobe::tools

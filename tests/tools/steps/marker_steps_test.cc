// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Steps by the ranges that an application marked itself.
#include "tools/steps/marker_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/load/marker_names.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;

// A host that runs ahead: submits at once, the device takes its time. Operations of differing
// names, so that no pattern can be found.
struct MarkedLoop {
  TimelineBuilder b;
  MarkerNamer namer{&b.t};
  int64_t host_ns = 0, device_ns = 50 * kUs;
  int kernels = 0;
  std::vector<int64_t> begins;  // of the steps on the device

  void Work(int count, int64_t each_ns = 10 * kUs, int32_t thread = 0) {
    for (int i = 0; i < count; ++i) {
      const uint32_t correlation = b.Launch(host_ns, host_ns + kUs, thread);
      b.Kernel(device_ns, device_ns + each_ns, correlation, 0,
               "kernel " + std::to_string(kernels++));
      host_ns += 2 * kUs;
      device_ns += each_ns;
    }
  }
  void Mark(const std::string& name, int64_t begin_ns, int64_t end_ns,
            MarkerKind kind = MarkerKind::kNvtx, int32_t thread = 0) {
    const auto named = namer.Intern(kind, "", name);
    b.t.markers.push_back({begin_ns, end_ns, 0, thread, -1, named.name, named.numbers});
  }
  void Step(const std::string& name, int count = 10, MarkerKind kind = MarkerKind::kNvtx) {
    const int64_t begin_ns = host_ns;
    begins.push_back(device_ns);
    Work(count);
    Mark(name, begin_ns, host_ns, kind);
  }
  DeviceSteps Find(const Options& options = {}) {
    Timeline timeline = b.Build();
    SortMarkers(&timeline);
    const Analysis analysis = Analyse(timeline, options);
    EXPECT_EQ(analysis.internal_error, "");
    return analysis.steps.at(0);
  }
};

std::vector<int64_t> Begins(const DeviceSteps& steps) {
  std::vector<int64_t> begins;
  for (const Step& step : steps.steps) begins.push_back(step.begin_ns);
  return begins;
}

TEST(MarkerSteps, AStepBeginsOnTheDeviceWithTheFirstOperationSubmittedInTheRange) {
  MarkedLoop loop;
  for (int i = 0; i < 5; ++i) loop.Step("train_step", 7 + i);
  const DeviceSteps steps = loop.Find();
  EXPECT_EQ(steps.source, StepSource::kNvtx);
  EXPECT_EQ(steps.marker, "train_step");
  EXPECT_EQ(Begins(steps), loop.begins);
  EXPECT_EQ(steps.steps.back().end_ns, loop.device_ns);
  EXPECT_EQ(steps.steps[0].ops, 7u);
  EXPECT_EQ(steps.steps[4].ops, 11u);
  EXPECT_EQ(steps.confidence, 1.0);
  EXPECT_EQ(steps.first_op, 0);
}

TEST(MarkerSteps, WithoutMarkersItIsThePattern) {
  MarkedLoop loop;
  for (int i = 0; i < 5; ++i) loop.Work(10);
  EXPECT_EQ(loop.Find().source, StepSource::kPattern);
  EXPECT_EQ(loop.Find().marker, "");
}

TEST(MarkerSteps, NumbersInNamesAreFolded) {
  MarkedLoop loop;
  for (int i = 0; i < 12; ++i) loop.Step("step " + std::to_string(i));
  const DeviceSteps steps = loop.Find();
  EXPECT_EQ(steps.marker, "step #");
  EXPECT_EQ(Begins(steps), loop.begins);
}

TEST(MarkerSteps, ProfilerStepComesFirst) {
  MarkedLoop loop;
  for (int i = 0; i < 4; ++i) {
    const int64_t begin_ns = loop.host_ns;
    loop.Step("train_step", 10, MarkerKind::kAnnotation);
    loop.Step("other_step", 10, MarkerKind::kAnnotation);
    loop.begins.pop_back();
    loop.Mark("ProfilerStep#" + std::to_string(i), begin_ns, loop.host_ns, MarkerKind::kAnnotation);
  }
  const DeviceSteps steps = loop.Find();
  EXPECT_EQ(steps.source, StepSource::kProfilerStep);
  EXPECT_EQ(Begins(steps), loop.begins);
}

TEST(MarkerSteps, WorkOfOtherThreadsOfTheProcessCounts) {
  MarkedLoop loop;
  const int32_t backward = loop.b.AddThread(12, "autograd");
  for (int i = 0; i < 4; ++i) {
    const int64_t begin_ns = loop.host_ns;
    loop.begins.push_back(loop.device_ns);
    loop.Work(3);
    loop.Work(9, 10 * kUs, backward);
    loop.Mark("iteration", begin_ns, loop.host_ns);
  }
  EXPECT_EQ(Begins(loop.Find()), loop.begins);
}

TEST(MarkerSteps, PartsOfAStepLoseAgainstTheStep) {
  MarkedLoop loop;
  for (int i = 0; i < 6; ++i) {
    const int64_t begin_ns = loop.host_ns;
    loop.begins.push_back(loop.device_ns);
    loop.Work(2);
    const int64_t forward_ns = loop.host_ns;
    loop.Work(9);
    loop.Mark("forward", forward_ns, loop.host_ns);
    const int64_t optimiser_ns = loop.host_ns;
    loop.Work(12);
    loop.Mark("Optimizer.step#AdamW.step", optimiser_ns, loop.host_ns, MarkerKind::kAnnotation);
    loop.Mark("main loop", begin_ns, loop.host_ns);
  }
  const DeviceSteps steps = loop.Find();
  EXPECT_EQ(steps.marker, "main loop");
  EXPECT_EQ(Begins(steps), loop.begins);
}

TEST(MarkerSteps, LayersThatComeAgainInEachStepAreNoSteps) {
  MarkedLoop loop;
  for (int i = 0; i < 4; ++i) {
    for (int layer = 0; layer < 6; ++layer) loop.Step("layer" + std::to_string(layer));
  }
  EXPECT_EQ(loop.Find().source, StepSource::kPattern);
}

TEST(MarkerSteps, OperatorsOfTheFrameworkAreNoSteps) {
  EXPECT_FALSE(MayMarkSteps("aten::linear, op_id = 77"));
  EXPECT_FALSE(MayMarkSteps("autograd::engine::evaluate_function: MmBackward0"));
  EXPECT_TRUE(MayMarkSteps("train_step"));
}

TEST(MarkerSteps, StepsWinAgainstTheEpochsAroundThem) {
  MarkedLoop loop;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const int64_t begin_ns = loop.host_ns;
    for (int i = 0; i < 8; ++i) loop.Step("step " + std::to_string(i));
    loop.Work(10);  // evaluation
    loop.Mark("epoch " + std::to_string(epoch), begin_ns, loop.host_ns);
  }
  const DeviceSteps steps = loop.Find();
  EXPECT_EQ(steps.marker, "step #");
  EXPECT_EQ(Begins(steps), loop.begins);
  EXPECT_NEAR(steps.confidence, 8.0 / 9, 1e-9);
  // What came between two ranges is of the step before.
  EXPECT_EQ(steps.steps[7].ops, 20u);
}

TEST(MarkerSteps, RangesThatHoldLittleOfTheTimeAreNoSteps) {
  MarkedLoop loop;
  for (int i = 0; i < 5; ++i) {
    loop.Step("step of the logger", 2);
    loop.Work(8);
  }
  EXPECT_EQ(loop.Find().source, StepSource::kPattern);
}

TEST(MarkerSteps, OverlappingRangesOfOneNameAreNoSteps) {
  MarkedLoop loop;
  for (int i = 0; i < 5; ++i) {
    const int64_t begin_ns = loop.host_ns;
    loop.Work(10);
    loop.Mark("request step", begin_ns, loop.host_ns + 10 * kUs);
  }
  EXPECT_EQ(loop.Find().source, StepSource::kPattern);
}

TEST(MarkerSteps, TwoRangesShowNoLoop) {
  MarkedLoop loop;
  loop.Step("step 1");
  loop.Step("step 2");
  EXPECT_EQ(loop.Find().source, StepSource::kPattern);
  loop.Step("step 3");
  EXPECT_EQ(loop.Find().source, StepSource::kNvtx);
}

TEST(MarkerSteps, ARangeWithoutWorkOnTheDeviceIsNoStepOfIt) {
  MarkedLoop loop;
  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      loop.Mark("step", loop.host_ns, loop.host_ns + 5 * kUs);
      loop.host_ns += 5 * kUs;
    }
    loop.Step("step");
  }
  EXPECT_EQ(Begins(loop.Find()), loop.begins);
}

TEST(MarkerSteps, TheUsersWindowHasItsPartOfThem) {
  MarkedLoop loop;
  for (int i = 0; i < 10; ++i) loop.Step("step");
  Options options;
  options.from_ns = loop.begins[2];
  options.to_ns = loop.begins[7];
  const DeviceSteps steps = loop.Find(options);
  EXPECT_EQ(Begins(steps), std::vector<int64_t>(loop.begins.begin() + 2, loop.begins.begin() + 7));
}

// Without host calls nothing tells what a range submitted; the profiler's own ranges on the device
// do, one for each stream.
TEST(MarkerSteps, RangesOnTheDeviceServeWhereCallsWereNotRecorded) {
  TimelineBuilder b;
  MarkerNamer namer(&b.t);
  std::vector<int64_t> begins;
  for (int i = 0; i < 5; ++i) {
    const int64_t at_ns = i * 100 * kUs;
    begins.push_back(at_ns);
    for (int k = 0; k < 9; ++k) {
      b.Kernel(at_ns + k * 10 * kUs, at_ns + (k + 1) * 10 * kUs, 0, 0,
               "kernel " + std::to_string(10 * i + k));
    }
    const auto named =
        namer.Intern(MarkerKind::kAnnotation, "", "ProfilerStep#" + std::to_string(i));
    b.t.markers.push_back({at_ns, at_ns + 90 * kUs, 0, -1, 0, named.name, named.numbers});
    b.t.markers.push_back(
        {at_ns + 20 * kUs, at_ns + 80 * kUs, 0, -1, 0, named.name, named.numbers});
  }
  Timeline timeline = b.Build();
  SortMarkers(&timeline);
  const DeviceSteps steps = Analyse(timeline, {}).steps.at(0);
  EXPECT_EQ(steps.source, StepSource::kProfilerStep);
  EXPECT_EQ(Begins(steps), begins);
}

TEST(MarkerNames, DigitsFoldAndTheirHashTellThemApart) {
  EXPECT_EQ(FoldNumbers("step 12 of 340").text, "step # of #");
  EXPECT_EQ(FoldNumbers("train").numbers, 0u);
  EXPECT_NE(FoldNumbers("step 1 23").numbers, FoldNumbers("step 12 3").numbers);
  EXPECT_EQ(FoldNumbers("step 7").numbers, FoldNumbers("step 7").numbers);
}

TEST(MarkerNames, MadeUpNamesAreBounded) {
  Timeline timeline;
  MarkerNamer namer(&timeline);
  for (size_t i = 0; i < 3 * kMostMarkerNames; ++i) {
    std::string name = "request ";
    for (size_t n = i; n > 0; n /= 26) name.push_back(static_cast<char>('a' + n % 26));
    namer.Intern(MarkerKind::kNvtx, "", name);
  }
  EXPECT_EQ(timeline.marker_names.size(), kMostMarkerNames + 1);
  EXPECT_EQ(timeline.marker_names.back().folded, kOtherMarkerNames);
  namer.Intern(MarkerKind::kNvtx, "", std::string(1 << 20, 'x'));
  EXPECT_EQ(timeline.marker_names.size(), kMostMarkerNames + 1);
}

TEST(MarkerNames, OneNameInTwoDomainsIsTwo) {
  Timeline timeline;
  MarkerNamer namer(&timeline);
  const int32_t mine = namer.Intern(MarkerKind::kNvtx, "", "step 1").name;
  const int32_t theirs = namer.Intern(MarkerKind::kNvtx, "NCCL", "step 1").name;
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(namer.Intern(MarkerKind::kNvtx, "", "step 2").name, mine);
  EXPECT_TRUE(timeline.marker_names[static_cast<size_t>(mine)].varies);
  EXPECT_FALSE(timeline.marker_names[static_cast<size_t>(theirs)].varies);
  // Another loader goes on where this one was.
  EXPECT_EQ(MarkerNamer(&timeline).Intern(MarkerKind::kNvtx, "NCCL", "step 9").name, theirs);
}

}  // namespace
}  // namespace gpuprobe::tools

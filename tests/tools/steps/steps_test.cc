// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/steps/step_pattern.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

// --- sequences
// ------------------------------------------------------------------------------------

// Tokens of a training loop: 1 input copy, then layers forward and backward, then the optimiser.
struct Loop {
  std::vector<StepToken> tokens;
  std::vector<size_t> begins;  // where iterations really begin

  void Add(uint32_t id, bool host = false, int64_t pause_ns = 0) {
    tokens.push_back({id, false, host, pause_ns});
  }
  void Layers(int layers, uint32_t first_id) {
    for (int layer = 0; layer < layers; ++layer) {
      for (uint32_t k = 0; k < 5; ++k) Add(first_id + k);
    }
  }
  void Forward(int layers) {
    Add(2);  // embedding
    Layers(layers, 100);
    Add(3);  // loss
  }
  void Step(int layers) {
    begins.push_back(tokens.size());
    Add(1, true, 1000);  // input copy, after waiting for it
    Forward(layers);
    Add(4);
    Layers(layers, 200);
    Add(5);
    for (uint32_t k = 0; k < 4; ++k) Add(10 + k);  // optimiser
  }
};

TEST(StepPattern, ATrainingLoopHasItsStepsNotItsLayers) {
  Loop loop;
  for (int i = 0; i < 50; ++i) loop.Step(12);
  const StepPattern pattern = FindPattern(loop.tokens);
  EXPECT_EQ(pattern.begins, loop.begins);
  EXPECT_EQ(pattern.typical_tokens, 129u);
  EXPECT_EQ(pattern.end, loop.tokens.size());
  EXPECT_EQ(pattern.confidence, 1.0);
}

TEST(StepPattern, InferenceOfManyLayersHasItsPasses) {
  Loop loop;
  for (int i = 0; i < 40; ++i) {
    loop.begins.push_back(loop.tokens.size());
    loop.Add(1, false, 500);
    for (uint32_t k = 20; k < 23; ++k) loop.Add(k);
    loop.Layers(80, 100);
    for (uint32_t k = 30; k < 36; ++k) loop.Add(k);
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, FewKernelsOutsideOfTheLayersAreEnough) {
  Loop loop;
  for (int i = 0; i < 40; ++i) {
    loop.begins.push_back(loop.tokens.size());
    loop.Add(1, true, 500);
    loop.Add(2);
    for (int half = 0; half < 2; ++half) {
      for (uint32_t layer = 0; layer < 40; ++layer) {
        for (uint32_t k = 0; k < 12; ++k) loop.Add(100 + k);
      }
    }
    loop.Add(3);
    loop.Add(4, true);
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, WhatComesEveryFewStepsDoesNotJoinThem) {
  Loop loop;
  for (int i = 0; i < 60; ++i) {
    loop.Step(4);
    if (i % 4 == 3) {
      loop.Add(50, true);  // loss.item()
      loop.Add(51, true);
    }
    if (i % 10 == 9) {
      for (int k = 0; k < 30; ++k) loop.Add(52, true);  // checkpoint
    }
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, AWaitEveryTenStepsIsNotTheStep) {
  Loop loop;
  for (int i = 0; i < 90; ++i) {
    loop.begins.push_back(loop.tokens.size());
    loop.Add(1, false, 10);
    for (uint32_t layer = 0; layer < 6; ++layer) {
      for (uint32_t k = 0; k < 5; ++k) loop.Add(100 + k);
    }
    for (uint32_t k = 0; k < 4; ++k) loop.Add(10 + k);
    if (i % 10 == 9) {
      loop.Add(50, true);
      loop.Add(51, true);
    }
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, EvaluationBetweenDoesNotCountAsSteps) {
  Loop loop;
  for (int i = 0; i < 60; ++i) {
    loop.Step(6);
    if (i % 20 != 19) continue;
    for (int batch = 0; batch < 5; ++batch) {
      loop.Add(60, true, 10);
      loop.Forward(6);
    }
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, SetUpBeforeTheLoopIsLeftOut) {
  Loop loop;
  for (uint32_t i = 0; i < 300; ++i) loop.Add(1000 + i % 37);
  for (int i = 0; i < 30; ++i) loop.Step(8);
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, AnUnfinishedLastStepIsNone) {
  Loop loop;
  for (int i = 0; i < 30; ++i) loop.Step(4);
  loop.tokens.resize(loop.tokens.size() - 20);
  const StepPattern pattern = FindPattern(loop.tokens);
  ASSERT_EQ(pattern.begins.size(), 29u);
  EXPECT_EQ(pattern.end, loop.begins.back());
}

TEST(StepPattern, BearsRandomNoise) {
  std::mt19937 random(7);
  for (int run = 0; run < 20; ++run) {
    Loop loop;
    for (int i = 0; i < 60; ++i) {
      const size_t begin = loop.tokens.size();
      loop.Step(5);
      // One operation in fifty is something else, some are dropped; never the input copy.
      for (size_t at = begin + 1; at < loop.tokens.size(); ++at) {
        if (random() % 100 == 0) loop.tokens[at].id = 900 + random() % 5;
        if (random() % 100 == 0) loop.tokens.erase(loop.tokens.begin() + static_cast<long>(at));
      }
    }
    EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins) << "run " << run;
  }
}

TEST(StepPattern, AStormOfLaunchesHasNoSteps) {
  Loop one, two;
  for (int i = 0; i < 2000; ++i) one.Add(1);
  for (int i = 0; i < 2000; ++i) two.Add(1 + i % 2);
  EXPECT_TRUE(FindPattern(one.tokens).begins.empty());
  EXPECT_TRUE(FindPattern(two.tokens).begins.empty());
}

TEST(StepPattern, ALoopOfOneKernelAndAWaitHas) {
  Loop loop;
  for (int i = 0; i < 100; ++i) {
    loop.begins.push_back(loop.tokens.size());
    loop.Add(1, false, 100);
    loop.Add(2, true);
  }
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

TEST(StepPattern, EqualKernelsBetweenWaitsAreOneStep) {
  Loop loop;
  for (int i = 0; i < 100; ++i) {
    loop.begins.push_back(loop.tokens.size());
    loop.Add(1, false, 100);
    for (int k = 0; k < 9; ++k) loop.Add(1);
    loop.Add(2, true);
    if (i % 4 == 3) loop.Add(3, true);
  }
  // It begins with the kernel after a wait: the first has none before it.
  loop.begins.erase(loop.begins.begin());
  EXPECT_EQ(FindPattern(loop.tokens).begins.size(), loop.begins.size());
}

TEST(StepPattern, EachReplayOfOneGraphIsAStep) {
  std::vector<StepToken> tokens(100, {1, true, false, 0});
  EXPECT_EQ(FindPattern(tokens).begins.size(), 100u);
}

TEST(StepPattern, RandomOrderHasNone) {
  for (uint32_t kinds : {5u, 50u}) {
    std::mt19937 random(11);
    Loop loop;
    for (int i = 0; i < 5000; ++i) loop.Add(random() % kinds, random() % 3 == 0);
    EXPECT_TRUE(FindPattern(loop.tokens).begins.empty()) << kinds;
  }
}

TEST(StepPattern, TooFewRepetitionsAreNone) {
  Loop loop;
  for (int i = 0; i < 3; ++i) loop.Step(4);
  EXPECT_TRUE(FindPattern(loop.tokens).begins.empty());
  EXPECT_TRUE(FindPattern({}).begins.empty());
}

TEST(StepPattern, ALongRunIsFoundWhole) {
  Loop loop;
  for (int i = 0; i < 10'000; ++i) loop.Step(5);
  ASSERT_GT(loop.tokens.size(), 500'000u);
  EXPECT_EQ(FindPattern(loop.tokens).begins, loop.begins);
}

// --- steps of a device
// ----------------------------------------------------------------------------

// A loop of `steps` steps of six kernels each; `between(i, begin, end)` says what the host does in
// the pause after step i, `pause(i)` how long that is.
template <typename Pause, typename Between>
Analysis RunLoop(TimelineBuilder& b, int steps, Pause pause, Between between) {
  int64_t now = kMs;
  for (int i = 0; i < steps; ++i) {
    for (int k = 0; k < 6; ++k) {
      b.Kernel(now, now + 100 * kUs, b.Launch(now - 12 * kUs, now - 6 * kUs), 0,
               "kernel" + std::to_string(k));
      now += 110 * kUs;
    }
    between(i, now, now + pause(i));
    now += pause(i);
  }
  return Analyse(b.Build(), {});
}

void ExpectSums(const DeviceSteps& steps) {
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const Step& step = steps.steps[i];
    int64_t causes_ns = 0;
    for (int64_t ns : step.cause_ns) causes_ns += ns;
    EXPECT_EQ(causes_ns, step.idle_ns) << "step " << i;
    EXPECT_EQ(step.idle_ns + step.busy_ns, step.duration_ns()) << "step " << i;
    EXPECT_GT(step.duration_ns(), 0) << "step " << i;
    const int64_t before_ns = i > 0 ? steps.steps[i - 1].end_ns : step.begin_ns;
    EXPECT_EQ(step.begin_ns, before_ns) << "step " << i;
  }
}

TEST(Steps, BeginAfterThePauseAndPartitionTheirWindow) {
  TimelineBuilder b;
  const Analysis analysis = RunLoop(
      b, 40, [](int) { return 2 * kMs; }, [](int, int64_t, int64_t) {});
  ASSERT_EQ(analysis.steps.size(), 1u);
  const DeviceSteps& steps = analysis.steps[0];
  ASSERT_EQ(steps.steps.size(), 40u);
  ExpectSums(steps);
  EXPECT_EQ(steps.steps[0].begin_ns, kMs);
  EXPECT_EQ(steps.typical_ops, 6u);
  EXPECT_EQ(steps.median_ns, 6 * 110 * kUs + 2 * kMs);
  EXPECT_EQ(steps.steps[7].busy_ns, 600 * kUs);
  EXPECT_EQ(steps.slow_steps, 0u);
  EXPECT_EQ(steps.why_none, "");
}

TEST(Steps, SlowStepsComeWithTheirRhythmTheirCauseAndItsPlace) {
  TimelineBuilder b;
  const Analysis analysis = RunLoop(
      b, 60, [](int i) { return i % 10 == 9 ? 30 * kMs : 2 * kMs; },
      [&](int i, int64_t begin, int64_t end) {
        if (i % 10 == 9) b.Call("cudaMalloc", CallClass::kAlloc, begin + kMs, end - 200 * kUs);
      });
  const DeviceSteps& steps = analysis.steps[0];
  ASSERT_EQ(steps.steps.size(), 60u);
  EXPECT_TRUE(steps.steps[19].slow);
  EXPECT_FALSE(steps.steps[20].slow);
  // The last one's pause is after the last operation, and nobody's.
  EXPECT_EQ(steps.slow_steps, 5u);
  EXPECT_EQ(steps.slow_period, 10u);
  ASSERT_FALSE(steps.growth.empty());
  EXPECT_EQ(steps.growth[0].cause, Cause::kBlockingApi);
  EXPECT_EQ(steps.growth[0].where, "cudaMalloc (thread 11 main)");
  EXPECT_GT(steps.growth[0].extra_ns, 25 * kMs);
  ExpectSums(steps);
}

TEST(Steps, SlowBecauseTheGpuHadMoreToDo) {
  TimelineBuilder b;
  int64_t now = 0;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 6; ++k) {
      const int64_t length = i % 8 == 5 ? 400 * kUs : 100 * kUs;
      b.Kernel(now, now + length, b.Launch(now - 12 * kUs, now - 6 * kUs), 0,
               "kernel" + std::to_string(k));
      now += length + 10 * kUs;
    }
  }
  const DeviceSteps steps = Analyse(b.Build(), {}).steps[0];
  EXPECT_EQ(steps.slow_period, 8u);
  ASSERT_EQ(steps.growth.size(), 1u);
  EXPECT_EQ(steps.growth[0].cause, std::nullopt);
}

TEST(Steps, IrregularSlowStepsHaveNoPeriod) {
  TimelineBuilder b;
  const Analysis analysis = RunLoop(
      b, 60,
      [](int i) { return i == 8 || i == 11 || i == 25 || i == 27 || i == 44 ? 30 * kMs : 2 * kMs; },
      [](int, int64_t, int64_t) {});
  EXPECT_EQ(analysis.steps[0].slow_steps, 5u);
  EXPECT_EQ(analysis.steps[0].slow_period, 0u);
}

TEST(Steps, TwoSlowStepsAreARhythmOnlyIfTheRunAgrees) {
  for (const auto& [first, second, period] :
       {std::tuple(14, 29, 15), std::tuple(20, 25, 0), std::tuple(5, 14, 0)}) {
    TimelineBuilder b;
    const Analysis analysis = RunLoop(
        b, 44, [&](int i) { return i == first || i == second ? 30 * kMs : 2 * kMs; },
        [](int, int64_t, int64_t) {});
    EXPECT_EQ(analysis.steps[0].slow_steps, 2u);
    EXPECT_EQ(analysis.steps[0].slow_period, static_cast<uint64_t>(period)) << first;
  }
}

TEST(Steps, RequestsAtIrregularTimesAreSteps) {
  TimelineBuilder b;
  std::mt19937 random(3);
  const Analysis analysis = RunLoop(
      b, 80, [&](int) { return static_cast<int64_t>(kMs + random() % (200 * kMs)); },
      [](int, int64_t, int64_t) {});
  EXPECT_EQ(analysis.steps[0].steps.size(), 80u);
}

TEST(Steps, SequencesOfVaryingLengthAreSteps) {
  TimelineBuilder b;
  std::mt19937 random(3);
  int64_t now = 0;
  for (int i = 0; i < 50; ++i) {
    const uint64_t length = 1 + random() % 40;
    b.Copy(now, now + 5 * kUs,
           b.Call("cudaMemcpyAsync", CallClass::kCopy, now - 9 * kUs, now - 4 * kUs), false, 1,
           length * 1024);
    for (int k = 0; k < 6; ++k) {
      now += 20 * kUs;
      GpuOp& op = b.Kernel(now, now + 10 * kUs, b.Launch(now - 9 * kUs, now - 4 * kUs), 0,
                           "kernel" + std::to_string(k));
      op.shape = static_cast<int32_t>(length);
    }
    now += 100 * kUs;
  }
  b.t.shapes.resize(64);
  EXPECT_EQ(Analyse(b.Build(), {}).steps[0].steps.size(), 50u);
}

TEST(Steps, GraphReplays) {
  TimelineBuilder one, several;
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    one.Graph(i * kMs, i * kMs + 900 * kUs).graph_id = 7;
    several.Graph(i * kMs, i * kMs + 900 * kUs).graph_id = 1 + random() % 6;
    if (random() % 3 == 0) several.Copy(i * kMs + 910 * kUs, i * kMs + 920 * kUs);
  }
  EXPECT_EQ(Analyse(one.Build(), {}).steps[0].steps.size(), 40u);
  EXPECT_EQ(Analyse(several.Build(), {}).steps[0].steps.size(), 40u);
}

TEST(Steps, ALaunchStormHasNone) {
  TimelineBuilder b;
  for (int i = 0; i < 1000; ++i) b.Kernel(i * 10 * kUs, i * 10 * kUs + 5 * kUs);
  const DeviceSteps steps = Analyse(b.Build(), {}).steps[0];
  EXPECT_TRUE(steps.steps.empty());
  EXPECT_EQ(steps.why_none, "nothing repeats as a loop's steps do in 1000 operations");
  EXPECT_EQ(steps.first_op, -1);
}

TEST(Steps, EachDeviceHasItsOwn) {
  TimelineBuilder b;
  const int32_t other = b.AddStream(b.AddDevice(), 9);
  for (int i = 0; i < 60; ++i) {
    for (int k = 0; k < 5; ++k) {
      const int64_t at = i * kMs + k * 100 * kUs;
      b.Kernel(at, at + 50 * kUs, 0, 0, "kernel" + std::to_string(k));
      if (i % 3 == 0) b.Kernel(at, at + 50 * kUs, 0, other, "other" + std::to_string(k));
    }
  }
  const Analysis analysis = Analyse(b.Build(), {});
  ASSERT_EQ(analysis.steps.size(), 2u);
  EXPECT_EQ(analysis.steps[0].steps.size(), 60u);
  EXPECT_EQ(analysis.steps[1].steps.size(), 20u);
}

TEST(Steps, AWindowOfTheUsersHoldsItsOwnStepsOnly) {
  TimelineBuilder b;
  RunLoop(
      b, 40, [](int) { return 2 * kMs; }, [](int, int64_t, int64_t) {});
  Options options;
  options.from_ns = 20 * kMs;
  options.to_ns = 60 * kMs;
  const DeviceSteps steps = Analyse(b.Build(), options).steps[0];
  ASSERT_FALSE(steps.steps.empty());
  EXPECT_GE(steps.window().start_ns, 20 * kMs);
  EXPECT_LE(steps.window().end_ns, 60 * kMs);
  EXPECT_NEAR(static_cast<double>(steps.steps.size()), 40 / 2.66, 1.5);
  ExpectSums(steps);
}

TEST(Steps, CausesAddUpInAnyLoop) {
  std::mt19937 random(99);
  for (int run = 0; run < 30; ++run) {
    TimelineBuilder b;
    const Analysis analysis = RunLoop(
        b, 20 + static_cast<int>(random() % 30),
        [&](int i) { return 50 * kUs + (i * 7919 + run) % 5 * kMs; },
        [&](int, int64_t begin, int64_t end) {
          const int64_t middle = (begin + end) / 2;
          if (random() % 2 == 0) b.Sync(begin - 300 * kUs, begin + 5 * kUs);
          if (random() % 3 == 0) b.Call("cudaFree", CallClass::kFree, middle, middle + 15 * kUs);
        });
    EXPECT_FALSE(analysis.steps[0].steps.empty()) << "run " << run;
    ExpectSums(analysis.steps[0]);
  }
}

// Of a graph that holds a whole iteration, node by node, all operations are of one launch.
TEST(Steps, LayersOfOneGraphLaunchAreNoSteps) {
  TimelineBuilder b;
  const uint32_t launch = b.Call("cudaGraphLaunch", CallClass::kGraph, 0, 10);
  for (int layer = 0; layer < 40; ++layer) {
    for (int k = 0; k < 6; ++k) {
      const int64_t at = 100 + 100 * (6 * layer + k);
      b.Kernel(at, at + 100, launch, 0, "layer kernel " + std::to_string(k));
    }
  }
  const DeviceSteps steps = Analyse(b.Build(), {}).steps.at(0);
  EXPECT_TRUE(steps.steps.empty());
}

TEST(Steps, EachLaunchOfSuchAGraphIsAStep) {
  TimelineBuilder b;
  std::vector<int64_t> begins;
  for (int replay = 0; replay < 10; ++replay) {
    const int64_t begin = 100'000 * replay;
    const uint32_t launch = b.Call("cudaGraphLaunch", CallClass::kGraph, begin, begin + 10);
    begins.push_back(begin + 100);
    for (int layer = 0; layer < 40; ++layer) {
      for (int k = 0; k < 6; ++k) {
        const int64_t at = begin + 100 + 100 * (6 * layer + k);
        b.Kernel(at, at + 100, launch, 0, "layer kernel " + std::to_string(k)).graph_id = 7;
      }
    }
  }
  const DeviceSteps steps = Analyse(b.Build(), {}).steps.at(0);
  ASSERT_EQ(steps.steps.size(), begins.size());
  for (size_t i = 0; i < begins.size(); ++i) EXPECT_EQ(steps.steps[i].begin_ns, begins[i]);
  EXPECT_EQ(steps.typical_ops, 240u);
}

}  // namespace
}  // namespace gpuprobe::tools

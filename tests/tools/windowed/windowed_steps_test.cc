// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Steps and steady part of a run in windows are those of the run at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tests/tools/windowed/window_cutter.h"
#include "tools/load/marker_names.h"
#include "tools/load/records/link_calls.h"
#include "tools/windowed/steps/step_list.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000'000;

// Training loops by chance: several streams and threads, waits, copies, graphs, slow steps,
// evaluation now and then, a start-up of its own, markers or none. The host runs ahead.
class RandomLoop {
 public:
  // `lead_percent`: of the operations are on the first stream at least; where that is less than
  // half of them, the steps are told in order of submission.
  explicit RandomLoop(uint32_t seed, int lead_percent = 70)
      : random_(seed), lead_percent_(lead_percent) {}

  Timeline Make() {
    for (int i = Int(0, 2); i > 0; --i) streams_.push_back(b_.AddStream(0, 10 + i));
    if (Chance(40)) streams_.push_back(b_.AddStream(b_.AddDevice(), 7));
    if (Chance(50)) threads_.push_back(b_.AddThread(12, "backward"));
    StartUp();
    const int steps = Int(10, 90), layers = Int(1, 6), every = Int(4, 20), evaluate = Int(8, 40);
    const bool slow = Chance(50), marked = Chance(40), graph = Chance(25), waits = Chance(60);
    const int64_t pause_ns = Int(10, 3'000) * kUs;
    for (int step = 0; step < steps; ++step) {
      const int64_t begin_ns = host_ns_;
      if (Chance(80)) Copy();
      if (graph) {
        Graph(3 + Int(0, 1));
      } else {
        for (int layer = 0; layer < layers; ++layer) Layer();
      }
      Launch("loss", 1);
      if (Chance(95)) Launch("optimizer", 2);
      if (marked) Mark(step, begin_ns);
      if (waits) Wait();
      host_ns_ += pause_ns;
      if (slow && step % every == every - 1) Slow();
      if (step % evaluate == evaluate - 1) Evaluate();
    }
    return b_.Build();
  }

 private:
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Int(1, 100) <= percent; }
  int32_t Stream() {
    return streams_[static_cast<size_t>(Chance(lead_percent_) ? 0 : Int(0, Last()))];
  }
  int Last() const { return static_cast<int>(streams_.size()) - 1; }
  int32_t Thread() {
    return threads_[static_cast<size_t>(Int(0, static_cast<int>(threads_.size()) - 1))];
  }

  void StartUp() {
    for (int i = Int(0, 30); i > 0; --i) {
      if (Chance(30)) {
        const int64_t length_ns = Int(1, 400) * kMs;
        b_.Call(Chance(50) ? "cuModuleLoadData" : "cudaMalloc",
                Chance(50) ? CallClass::kModule : CallClass::kAlloc, host_ns_,
                host_ns_ + length_ns);
        host_ns_ += length_ns;
      }
      Launch("init" + std::to_string(Int(0, 9)), Int(1, 4));
    }
  }

  int64_t On(int32_t stream, int64_t length_ns) {
    if (busy_ns_.size() <= static_cast<size_t>(stream)) busy_ns_.resize(stream + 1, 0);
    int64_t& busy_ns = busy_ns_[static_cast<size_t>(stream)];
    const int64_t start_ns = std::max(busy_ns + Int(0, 2) * kUs, host_ns_ + Int(1, 6) * kUs);
    busy_ns = start_ns + length_ns;
    latest_ns_ = std::max(latest_ns_, busy_ns);
    return start_ns;
  }

  void Launch(const std::string& name, int scale) {
    const int64_t call_ns = Int(2, 6) * kUs;
    const uint32_t correlation = b_.Launch(host_ns_, host_ns_ + call_ns, Thread());
    host_ns_ += call_ns;
    const int32_t stream = Stream();
    const int64_t length_ns = Int(1, 30) * scale * kUs, start_ns = On(stream, length_ns);
    b_.Kernel(start_ns, start_ns + length_ns, Chance(97) ? correlation : 0, stream, name);
    host_ns_ += Int(0, 3) * kUs;
  }
  void Layer() {
    for (const char* name : {"qkv", "attention", "mlp", "norm"}) Launch(name, 1);
    if (Chance(20)) Launch("ncclDevKernel_AllReduce", 3);
  }
  void Copy() {
    const uint32_t correlation =
        b_.Call("cudaMemcpyAsync", CallClass::kCopy, host_ns_, host_ns_ + 4 * kUs, Thread());
    host_ns_ += 5 * kUs;
    const int64_t start_ns = On(0, 9 * kUs);
    b_.Copy(start_ns, start_ns + 9 * kUs, correlation, Chance(10), 1, 64 * Int(1, 3));
  }
  void Graph(uint32_t graph) {
    const uint32_t correlation =
        b_.Call("cudaGraphLaunch", CallClass::kLaunch, host_ns_, host_ns_ + 8 * kUs, Thread());
    host_ns_ += 9 * kUs;
    for (int i = Int(1, 9); i > 0; --i) {
      const int64_t start_ns = On(0, 20 * kUs);
      GpuOp& op = b_.Graph(start_ns, start_ns + 20 * kUs, correlation);
      op.graph_id = graph;
    }
  }
  void Wait() {
    const int64_t until_ns = std::max(host_ns_ + 2 * kUs, latest_ns_ + 3 * kUs);
    b_.Sync(host_ns_, until_ns, threads_[0]);
    host_ns_ = until_ns;
  }
  void Slow() {
    const int64_t length_ns = Int(10, 60) * kMs;
    b_.Call("cudaMalloc", CallClass::kAlloc, host_ns_ + kUs, host_ns_ + length_ns, threads_[0]);
    host_ns_ += length_ns + kUs;
  }
  void Evaluate() {
    for (int i = Int(3, 20); i > 0; --i) Launch("evaluate" + std::to_string(i % 3), 1);
    if (Chance(50)) Wait();
  }
  void Mark(int step, int64_t begin_ns) {
    const auto named = namer_.Intern(MarkerKind::kNvtx, "", "step " + std::to_string(step));
    b_.t.markers.push_back({begin_ns, host_ns_, 0, 0, -1, named.name, named.numbers});
  }

  std::mt19937 random_;
  int lead_percent_;
  TimelineBuilder b_;
  MarkerNamer namer_{&b_.t};
  std::vector<int32_t> streams_ = {0}, threads_ = {0};
  std::vector<int64_t> busy_ns_;
  int64_t host_ns_ = kMs, latest_ns_ = 0;
};

// Windows of differing lengths that reach further than work lags behind its call.
std::vector<int64_t> Horizons(const Timeline& timeline, uint32_t seed) {
  std::mt19937 random(seed * 31 + 7);
  const int64_t end_ns = std::max(timeline.ops.back().end_ns, timeline.calls.back().end_ns);
  const int windows = std::uniform_int_distribution<int>(2, 8)(random);
  std::vector<int64_t> horizons;
  for (int64_t i = 1; i < windows; ++i) {
    horizons.push_back(end_ns * i / windows +
                       std::uniform_int_distribution<int64_t>(0, end_ns / windows / 3)(random));
  }
  return horizons;
}

std::string OpText(const Timeline& t, int32_t op) {
  if (op < 0) return "none";
  const GpuOp& o = t.ops[static_cast<size_t>(op)];
  return std::to_string(static_cast<int>(o.kind)) + " " + std::to_string(o.name) + " " +
         std::to_string(o.bytes) + " " + std::to_string(o.graph_id);
}

std::string StepsText(const Timeline& t, const DeviceSteps& steps) {
  std::string text = std::to_string(steps.device) + " " + std::to_string(steps.count) + " " +
                     steps.why_none + " " + steps.marker + " " + std::to_string(steps.confidence) +
                     " " + OpText(t, steps.first_op) + " " + std::to_string(steps.typical_ops);
  for (const int64_t ns : {steps.median_ns, steps.p90_ns, steps.p99_ns, steps.min_ns, steps.max_ns,
                           steps.all.begin_ns, steps.all.end_ns, steps.all.idle_ns}) {
    text += " " + std::to_string(ns);
  }
  text += " slow " + std::to_string(steps.slow_steps) + " " + std::to_string(steps.slow_period);
  for (const StepGrowth& growth : steps.growth) {
    text += "\n  " + std::string(growth.cause ? CauseKey(*growth.cause) : "busy") + " " +
            std::to_string(growth.extra_ns) + " " + growth.where;
  }
  for (const Step& step : steps.steps) {
    text += "\n" + std::to_string(step.index) + " " + std::to_string(step.begin_ns) + "-" +
            std::to_string(step.end_ns) + " " + std::to_string(step.ops) + " " +
            std::to_string(step.busy_ns) + (step.slow ? " slow" : "");
    for (const int64_t ns : step.cause_ns) text += " " + std::to_string(ns);
  }
  return text;
}

// What a person acts on. Amounts of the steady part may differ a little (windowed_analysis.h).
std::string VerdictText(const Verdict& v) {
  return v.kind + "\n" + v.where + "\n" + v.action + "\n" + v.left_out + "\n" +
         (v.steady ? std::to_string(v.steady->start_ns) + " " + std::to_string(v.steady->end_ns)
                   : v.headline + "\n" + v.evidence + "\n" + v.runner_up);
}

WindowedResult InWindows(const Timeline& timeline, const Options& options,
                         const std::vector<int64_t>& horizons, const WindowLimits& limits) {
  const Cutter cutter(timeline, horizons);
  WindowedAnalysis windowed(cutter.Outline(), options, limits);
  for (size_t w = 0; w < cutter.count(); ++w) windowed.Add(cutter.Window(w));
  return windowed.Finish();
}

struct Compared {
  int steps = 0, steady = 0, warm_up = 0, stalls = 0, marked = 0, other_verdicts = 0;
};

void ExpectSame(const Timeline& unlinked, const Options& options,
                const std::vector<int64_t>& horizons, Compared* compared, size_t cpus = 8) {
  if (cpus == 8) {
    Compared twice;
    ExpectSame(unlinked, options, horizons, &twice, 1);
  }
  LoadedRun whole;
  whole.timeline = unlinked;
  Unlink(&whole.timeline);
  const Timeline raw = whole.timeline;
  LinkCalls(&whole);
  const Analysis expected = Analyse(whole.timeline, options);
  WindowLimits limits;
  limits.look_ahead = SIZE_MAX;
  limits.cpus = cpus;
  const WindowedResult found = InWindows(raw, options, horizons, limits);
  ASSERT_EQ(found.analysis.internal_error, "");
  ASSERT_EQ(found.analysis.steps.size(), expected.steps.size());
  for (size_t d = 0; d < expected.steps.size(); ++d) {
    EXPECT_EQ(StepsText(found.timeline, found.analysis.steps[d]),
              StepsText(whole.timeline, expected.steps[d]));
    compared->steps += !expected.steps[d].steps.empty();
    compared->marked += expected.steps[d].source == StepSource::kNvtx;
  }
  const double speedup =
      found.analysis.verdict.upper_bound_speedup / expected.verdict.upper_bound_speedup;
  if (expected.verdict.steady && found.analysis.verdict.steady) {
    // Near a limit of the verdict it may fall on the other side.
    compared->other_verdicts += found.analysis.verdict.kind != expected.verdict.kind;
    if (found.analysis.verdict.kind != expected.verdict.kind) return;
  }
  EXPECT_EQ(VerdictText(found.analysis.verdict), VerdictText(expected.verdict));
  EXPECT_NEAR(speedup, 1, 0.02);
  compared->steady += expected.verdict.steady.has_value();
  compared->warm_up += expected.verdict.kind == "warmup";
  compared->stalls += expected.verdict.kind == "periodic_stall";
}

TEST(WindowedSteps, AreThoseOfTheWholeAndSoIsTheVerdict) {
  Compared compared;
  for (uint32_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomLoop(seed).Make();
    ExpectSame(timeline, {}, Horizons(timeline, seed), &compared);
  }
  // The cases are worth something.
  EXPECT_GT(compared.steps, 100);
  EXPECT_GT(compared.steady, 50);
  EXPECT_GT(compared.marked, 20);
  EXPECT_GT(compared.stalls, 10);
  EXPECT_LE(compared.other_verdicts, compared.steady / 50);
}

TEST(WindowedSteps, AreThoseOfTheWholeInAWindowOfTheUsers) {
  Compared compared;
  for (uint32_t seed = 1'800; seed < 2'100 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomLoop(seed).Make();
    const int64_t span_ns = timeline.ops.back().end_ns;
    Options options;
    if (seed % 3 != 0) options.from_ns = span_ns / 5 + seed;
    if (seed % 3 != 1) options.to_ns = span_ns / 5 * 4 - seed;
    ExpectSame(timeline, options, Horizons(timeline, seed), &compared);
  }
  EXPECT_GT(compared.steps, 50);
  EXPECT_GT(compared.marked, 10);
}

// Of several streams a step may begin with an operation that started before the one that may have
// ended the step before it.
TEST(WindowedSteps, AreThoseOfTheWholeWhereNoStreamLeads) {
  Compared compared;
  for (uint32_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomLoop(seed, 0).Make();
    const int64_t tenth_ns = timeline.ops.back().start_ns / 10;
    Options options;
    options.from_ns = tenth_ns * (seed % 6);
    options.to_ns = *options.from_ns + tenth_ns * 4 + 1;
    ExpectSame(timeline, options, Horizons(timeline, seed), &compared);
  }
  EXPECT_GT(compared.steps, 100);
}

// A regular loop, as networks train: the host waits once a step.
struct RegularLoop {
  TimelineBuilder b;
  int64_t now_ns = kMs;

  void Step(const std::string& prefix, int kernels, int64_t pause_ns) {
    for (int k = 0; k < kernels; ++k) {
      b.Kernel(now_ns, now_ns + 20 * kUs, b.Launch(now_ns - 9 * kUs, now_ns - 5 * kUs), 0,
               prefix + std::to_string(k));
      now_ns += 22 * kUs;
    }
    b.Sync(now_ns - 3 * kUs, now_ns + kUs);
    if (pause_ns > kMs)
      b.Call("cudaMalloc", CallClass::kAlloc, now_ns + 2 * kUs, now_ns + pause_ns);
    now_ns += 20 * kUs + pause_ns;
  }
  // Windows of some thirty operations.
  std::vector<int64_t> Horizons() const {
    std::vector<int64_t> horizons;
    for (int64_t at_ns = kMs; at_ns < now_ns; at_ns += 900 * kUs) horizons.push_back(at_ns);
    return horizons;
  }
};

TEST(WindowedSteps, AreMatchedBehindTheOperationsThatTheyWereLearntFrom) {
  for (const int streams : {1, 3}) {
    RegularLoop loop;
    for (int i = 0; i < 300; ++i) loop.Step("k", 8, i % 20 == 19 ? 5 * kMs : 100 * kUs);
    Timeline timeline = loop.b.Build();
    for (int s = 1; s < streams; ++s) {
      timeline.streams.push_back(timeline.streams[0]);
      timeline.streams.back().stream = static_cast<uint32_t>(20 + s);
    }
    for (size_t i = 0; i < timeline.ops.size(); ++i)
      timeline.ops[i].stream = static_cast<int32_t>(i % static_cast<size_t>(streams));
    LoadedRun whole;
    whole.timeline = timeline;
    LinkCalls(&whole);
    const Analysis expected = Analyse(whole.timeline, {});
    WindowLimits limits;
    limits.learnt_ops = 200;
    limits.look_ahead = 64;
    Unlink(&timeline);
    const WindowedResult found = InWindows(timeline, {}, loop.Horizons(), limits);
    ASSERT_GE(expected.steps[0].steps.size(), 299u);
    EXPECT_EQ(StepsText(found.timeline, found.analysis.steps[0]),
              StepsText(whole.timeline, expected.steps[0]));
    EXPECT_EQ(found.analysis.steps[0].slow_period, 20u);
    EXPECT_EQ(found.counts.other_loops, 0u);
    EXPECT_EQ(VerdictText(found.analysis.verdict), VerdictText(expected.verdict));
  }
}

// What is one more in some steps starts on its own stream behind the first work of the next step.
TEST(WindowedSteps, BeginWhereTheirWorkDoesWhateverStillRunsOfTheStepBefore) {
  RegularLoop loop;
  const std::vector<int32_t> streams = {0, loop.b.AddStream(0, 21), loop.b.AddStream(0, 22)};
  for (int i = 0; i < 60; ++i) {
    for (size_t k = 0; k < 6; ++k) {
      loop.b.Kernel(loop.now_ns, loop.now_ns + 20 * kUs,
                    loop.b.Launch(loop.now_ns - 9 * kUs, loop.now_ns - 8 * kUs), streams[k % 3],
                    "k" + std::to_string(k));
      loop.now_ns += 22 * kUs;
    }
    if (i % 5 == 3) {
      loop.b.Kernel(loop.now_ns + 40 * kUs, loop.now_ns + 44 * kUs,
                    loop.b.Launch(loop.now_ns - 25 * kUs, loop.now_ns - 24 * kUs), streams[1],
                    "extra");
    }
    loop.now_ns += 10 * kUs;
  }
  Compared compared;
  ExpectSame(loop.b.Build(), {}, {10 * kMs}, &compared);
  EXPECT_EQ(compared.steps, 1);
}

TEST(WindowedSteps, AreThoseOfTheLoopThatTookLongest) {
  RegularLoop loop;
  for (int i = 0; i < 100; ++i) loop.Step("first", 8, 100 * kUs);
  for (int i = 0; i < 400; ++i) loop.Step("second", 9, 100 * kUs);
  WindowLimits limits;
  limits.learnt_ops = 200;
  const WindowedResult found = InWindows(loop.b.Build(), {}, loop.Horizons(), limits);
  const DeviceSteps& steps = found.analysis.steps[0];
  EXPECT_EQ(found.counts.other_loops, 1u);
  // What was looked through until the first loop was given up is in neither.
  EXPECT_GT(steps.count, 350u);
  EXPECT_LT(steps.count, 400u);
  EXPECT_EQ(steps.typical_ops, 9u);
}

TEST(WindowedSteps, AreLookedForAgainWhereNothingRepeats) {
  RegularLoop loop;
  for (int i = 0; i < 60; ++i) loop.Step("once" + std::to_string(i) + "_", 8, 0);
  for (int i = 0; i < 400; ++i) loop.Step("k", 8, 100 * kUs);
  WindowLimits limits;
  limits.learnt_ops = 200;
  const WindowedResult found = InWindows(loop.b.Build(), {}, loop.Horizons(), limits);
  EXPECT_GT(found.analysis.steps[0].count, 250u);
  EXPECT_EQ(found.analysis.steps[0].typical_ops, 8u);
}

TEST(StepList, KeepsSlowStepsAndSomeOfTheOthers) {
  StepList list(100);
  for (int64_t i = 0; i < 5'000; ++i) {
    const bool slow = i % 200 == 150;
    Step step = {i * 10 * kMs, i * 10 * kMs + (slow ? 9 : 2) * kMs};
    step.ops = 5;
    step.cause_ns[0] = step.idle_ns = (slow ? 8 : 1) * kMs;
    step.busy_ns = kMs;
    list.Add(step, {{step.idle_ns, slow ? 1 : 0, static_cast<Cause>(0)}});
  }
  DeviceSteps steps;
  list.FillIn(nullptr, {"usual", "slow place"}, &steps);
  EXPECT_LE(steps.steps.size(), 100u);
  EXPECT_EQ(steps.count, 5'000u);
  EXPECT_EQ(steps.all.ops, 25'000u);
  EXPECT_EQ(steps.all.idle_ns, (25 * 8 + 4'975) * kMs);
  EXPECT_EQ(steps.slow_steps, 25u);
  EXPECT_EQ(steps.slow_period, 200u);
  EXPECT_EQ(steps.median_ns, 2 * kMs);
  EXPECT_EQ(steps.p90_ns, 2 * kMs);
  EXPECT_EQ(steps.max_ns, 9 * kMs);
  ASSERT_FALSE(steps.growth.empty());
  EXPECT_EQ(steps.growth[0].extra_ns, 7 * kMs);
  EXPECT_EQ(steps.growth[0].where, "slow place");
  uint64_t stand_for = 0;
  for (const Step& step : steps.steps) stand_for += step.stands_for;
  EXPECT_NEAR(static_cast<double>(stand_for), 5'000, 128);
}

}  // namespace
}  // namespace gpuprobe::tools

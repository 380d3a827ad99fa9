// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What is lent to a StepCutter counts as what is given to it, at every border.
#include "tools/windowed/steps/step_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gpuprobe::tools {
namespace {

constexpr Cause kOne = static_cast<Cause>(0), kOther = static_cast<Cause>(1);

GapPart Part(int64_t begin_ns, int64_t end_ns, Cause cause = kOne, int32_t where = 0) {
  GapPart part = {};
  part.begin_ns = begin_ns;
  part.end_ns = end_ns;
  part.cause = cause;
  part.where = where;
  return part;
}

std::string TextOf(const StepList& list) {
  DeviceSteps steps;
  list.FillIn(nullptr, {"a", "b", "c"}, &steps);
  std::string text;
  for (const Step& step : steps.steps) {
    text += std::to_string(step.begin_ns) + "-" + std::to_string(step.end_ns) + " ops " +
            std::to_string(step.ops) + " busy " + std::to_string(step.busy_ns);
    for (size_t c = 0; c < step.cause_ns.size(); ++c) {
      if (step.cause_ns[c] != 0)
        text += " " + std::to_string(c) + ":" + std::to_string(step.cause_ns[c]);
    }
    text += "\n";
  }
  return text;
}

// Of the places nothing else is told.
std::string GrowthOf(const StepList& list) {
  DeviceSteps steps;
  list.FillIn(nullptr, {"a", "b", "c"}, &steps);
  std::string text;
  for (const StepGrowth& growth : steps.growth)
    text += std::to_string(growth.extra_ns) + " " + growth.where + "\n";
  return text;
}

TEST(StepCutter, KeepsOfALentPartWhatHasNotBeenSummedUp) {
  StepCutter cutter;
  StepList steps;
  auto lent = std::make_unique<std::vector<GapPart>>();
  *lent = {Part(10, 20), Part(20, 50, kOther), Part(60, 90)};
  cutter.LendParts(*lent);
  EXPECT_EQ(cutter.waiting(), 3u);
  cutter.Begin(0, &steps);
  cutter.Begin(30, &steps);
  EXPECT_EQ(cutter.waiting(), 2u);
  cutter.KeepParts();
  lent.reset();
  EXPECT_EQ(cutter.waiting(), 2u);
  cutter.Begin(70, &steps);
  cutter.End(100, &steps);
  EXPECT_EQ(TextOf(steps),
            "0-30 ops 0 busy 10 0:10 1:10\n"
            "30-70 ops 0 busy 10 0:10 1:20\n"
            "70-100 ops 0 busy 10 0:20\n");
}

TEST(StepCutter, SumsUpALentPartInAsManyPiecesAsItTakes) {
  StepCutter cutter;
  StepList steps;
  const std::vector<GapPart> lent = {Part(0, 100), Part(100, 110, kOther)};
  cutter.LendParts(lent);
  for (const int64_t begin_ns : {0, 10, 25, 99, 100}) cutter.Begin(begin_ns, &steps);
  cutter.End(105, &steps);
  cutter.KeepParts();
  EXPECT_EQ(TextOf(steps),
            "0-10 ops 0 busy 0 0:10\n"
            "10-25 ops 0 busy 0 0:15\n"
            "25-99 ops 0 busy 0 0:74\n"
            "99-100 ops 0 busy 0 0:1\n"
            "100-105 ops 0 busy 0 1:5\n");
}

// What was cut of one window's last part is no border in the next one.
TEST(StepCutter, KnowsNoBorderOfPartsThatWereLentBefore) {
  StepCutter cutter;
  StepList steps;
  const std::vector<GapPart> first = {Part(0, 100)};
  cutter.LendParts(first);
  cutter.Begin(0, &steps);
  cutter.SumUpTo(40);
  cutter.KeepParts();
  const std::vector<GapPart> second = {Part(120, 130)};
  cutter.LendParts(second);
  cutter.End(140, &steps);
  cutter.KeepParts();
  EXPECT_EQ(TextOf(steps), "0-140 ops 0 busy 30 0:110\n");
  EXPECT_EQ(cutter.waiting(), 0u);
}

// Parts that wait come before those that are lent, and are not passed by.
TEST(StepCutter, LeavesWhatIsLentBehindAPartThatGoesOn) {
  StepCutter cutter;
  StepList steps;
  cutter.AddPart(0, 50, kOne, 0);
  const std::vector<GapPart> lent = {Part(50, 60, kOther)};
  cutter.LendParts(lent);
  cutter.Begin(0, &steps);
  cutter.Begin(50, &steps);
  EXPECT_EQ(cutter.waiting(), 1u);
  cutter.End(60, &steps);
  EXPECT_EQ(TextOf(steps),
            "0-50 ops 0 busy 0 0:50\n"
            "50-60 ops 0 busy 0 1:10\n");
}

TEST(StepCutter, CountsNothingOfLentPartsBeforeItBegins) {
  StepCutter cutter;
  StepList steps;
  const std::vector<GapPart> lent = {Part(0, 30), Part(40, 80)};
  cutter.LendParts(lent);
  cutter.Restart(50);
  cutter.KeepParts();
  EXPECT_EQ(cutter.waiting(), 1u);
  cutter.Begin(60, &steps);
  cutter.End(100, &steps);
  EXPECT_EQ(TextOf(steps), "60-100 ops 0 busy 20 0:20\n");
}

// A step ends where it may even if more has been summed up, of parts that were lent since.
TEST(StepCutter, EndsWhereAStepMayEndWhateverWasLentSince) {
  StepCutter cutter;
  StepList steps;
  const std::vector<GapPart> first = {Part(10, 40)};
  cutter.LendParts(first);
  cutter.Begin(0, &steps);
  cutter.MayEnd(30);
  cutter.SumUpTo(35);
  cutter.KeepParts();
  const std::vector<GapPart> second = {Part(50, 90, kOther)};
  cutter.LendParts(second);
  cutter.SumUpTo(70);
  cutter.KeepParts();
  cutter.End(30, &steps);
  EXPECT_EQ(TextOf(steps), "0-30 ops 0 busy 10 0:20\n");
}

// A run by chance: what is idle, when operations start, and when steps begin.
struct RandomRun {
  std::vector<GapPart> parts;
  std::vector<int64_t> starts, begins;
  int64_t end_ns = 0;

  explicit RandomRun(uint32_t seed) {
    std::mt19937 random(seed);
    const auto chosen = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    int64_t ns = 0;
    for (int i = chosen(1, 200); i > 0; --i) {
      ns += chosen(0, 2) * chosen(0, 5);  // busy, often for no time
      const int64_t begin_ns = ns;
      ns += chosen(0, 9);
      parts.push_back(Part(begin_ns, ns, chosen(0, 1) == 0 ? kOne : kOther, chosen(0, 2)));
      starts.push_back(ns);
    }
    end_ns = ns + 3;
    for (int64_t at = chosen(0, 9); at < end_ns; at += chosen(1, 40)) begins.push_back(at);
  }
};

std::string Cut(const RandomRun& run, uint32_t seed, bool lend) {
  std::mt19937 random(seed);
  const auto chosen = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  StepCutter cutter;
  StepList steps;
  size_t part = 0, start = 0, begin = 0;
  for (int64_t until_ns = 0; until_ns <= run.end_ns;) {
    until_ns += chosen(1, 60);
    std::vector<GapPart> fresh;
    for (; part < run.parts.size() && run.parts[part].end_ns <= until_ns; ++part)
      fresh.push_back(run.parts[part]);
    for (; start < run.starts.size() && run.starts[start] < until_ns; ++start)
      cutter.AddStart(run.starts[start]);
    if (lend) {
      cutter.LendParts(fresh);
    } else {
      for (const GapPart& p : fresh) cutter.AddPart(p.begin_ns, p.end_ns, p.cause, p.where);
    }
    // What is known lags behind; what lies in the open gap has not been lent.
    const int64_t open_ns = part == run.parts.size() ? run.end_ns : run.parts[part].begin_ns;
    const int64_t known_ns = std::min(until_ns, open_ns) - chosen(0, 30);
    for (; begin < run.begins.size() && run.begins[begin] < known_ns; ++begin) {
      cutter.Begin(run.begins[begin], &steps);
      // The last one ends with the run.
      if (begin + 1 < run.begins.size() && chosen(0, 2) == 0)
        cutter.MayEnd(run.begins[begin] + chosen(1, 20));
    }
    cutter.SumUpTo(known_ns);
    if (lend) {
      cutter.KeepParts();
      // Nobody may look at them from here on.
      for (GapPart& p : fresh) p = Part(-1'000'000, 1'000'000);
    }
  }
  for (; begin < run.begins.size(); ++begin) cutter.Begin(run.begins[begin], &steps);
  cutter.End(run.end_ns, &steps);
  return TextOf(steps) + GrowthOf(steps);
}

// By looking at all parts for each step.
std::string Counted(const RandomRun& run) {
  StepList steps;
  for (size_t s = 0; s < run.begins.size(); ++s) {
    Step step = {run.begins[s], s + 1 < run.begins.size() ? run.begins[s + 1] : run.end_ns};
    std::vector<StepPlace> places;
    for (const GapPart& part : run.parts) {
      const int64_t ns =
          std::min(part.end_ns, step.end_ns) - std::max(part.begin_ns, step.begin_ns);
      if (ns <= 0) continue;
      step.idle_ns += ns;
      step.cause_ns[static_cast<size_t>(part.cause)] += ns;
      places.push_back({ns, part.where, part.cause});
    }
    step.busy_ns = step.duration_ns() - step.idle_ns;
    for (const int64_t ns : run.starts) step.ops += ns >= step.begin_ns && ns < step.end_ns;
    steps.Add(step, std::move(places));
  }
  return TextOf(steps) + GrowthOf(steps);
}

TEST(StepCutter, CutsWhatIsLentAsWhatIsGiven) {
  for (uint32_t seed = 0; seed < 2'000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const RandomRun run(seed);
    const std::string expected = Counted(run);
    EXPECT_EQ(Cut(run, seed, false), expected);
    EXPECT_EQ(Cut(run, seed, true), expected);
  }
}

}  // namespace
}  // namespace gpuprobe::tools

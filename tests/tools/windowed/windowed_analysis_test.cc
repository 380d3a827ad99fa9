// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A run in windows gives the figures of the run at once.
#include "tools/windowed/windowed_analysis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/tools/random_timeline.h"
#include "tests/tools/windowed/window_cutter.h"
#include "tools/figures/activity_counter.h"
#include "tools/figures/activity_stats.h"
#include "tools/load/records/link_calls.h"

namespace gpuprobe::tools {
namespace {

using Site = std::tuple<std::string, int64_t, uint64_t, int64_t, std::string, uint64_t>;
std::multiset<Site> SitesOf(const CauseTotal& cause) {
  std::multiset<Site> sites;
  for (const SiteTotal& s : cause.sites)
    sites.insert({s.where, s.total_ns, s.count, s.longest_ns, s.detail, s.samples});
  return sites;
}

using Row = std::tuple<std::string, std::string, std::string, uint64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t>;
std::multiset<Row> RowsOf(const std::vector<WaitRow>& waits) {
  std::multiset<Row> rows;
  for (const WaitRow& w : waits) {
    rows.insert({w.api, w.where, w.detail, w.count, w.total_ns, w.device_busy_ns, w.device_idle_ns,
                 w.idle_after_ns, w.longest_ns});
  }
  return rows;
}

std::string OpText(const Timeline& t, int32_t op) {
  if (op < 0) return "none";
  const GpuOp& o = t.ops[static_cast<size_t>(op)];
  return std::to_string(o.start_ns) + "-" + std::to_string(o.end_ns) + " " +
         std::to_string(o.correlation);
}

std::vector<std::string> GapsOf(const Timeline& t, const Analysis& a, const DeviceReport& d) {
  std::vector<std::string> gaps;
  for (const Gap& gap : d.gaps) {
    std::string text = std::to_string(gap.begin_ns) + "-" + std::to_string(gap.end_ns) + " " +
                       OpText(t, gap.previous_op) + " | " + OpText(t, gap.next_op);
    for (const GapPart& part : d.PartsOf(gap)) {
      text += "; " + std::to_string(part.begin_ns) + "-" + std::to_string(part.end_ns) + " " +
              CauseKey(part.cause) + " " + a.places[static_cast<size_t>(part.where)];
      if (part.call >= 0)
        text += " " + std::to_string(t.calls[static_cast<size_t>(part.call)].start_ns);
      if (part.overhead >= 0)
        text += " o" + std::to_string(t.overheads[static_cast<size_t>(part.overhead)].start_ns);
    }
    gaps.push_back(text);
  }
  return gaps;
}

void ExpectSameMoves(const MoveStats& a, const MoveStats& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.sum_ns, b.sum_ns);
  EXPECT_EQ(a.union_ns, b.union_ns);
}

void ExpectSameDevice(const DeviceReport& a, const DeviceReport& b) {
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.window.start_ns, b.window.start_ns);
  EXPECT_EQ(a.window.end_ns, b.window.end_ns);
  EXPECT_EQ(a.kernels.count, b.kernels.count);
  EXPECT_EQ(a.kernels.zero_length, b.kernels.zero_length);
  EXPECT_EQ(a.kernels.sum_ns, b.kernels.sum_ns);
  EXPECT_EQ(a.kernels.union_ns, b.kernels.union_ns);
  ExpectSameMoves(a.copies, b.copies);
  ExpectSameMoves(a.sets, b.sets);
  ExpectSameMoves(a.graphs, b.graphs);
  EXPECT_EQ(a.untimed, b.untimed);
  EXPECT_EQ(a.busy_ns, b.busy_ns);
  EXPECT_EQ(a.idle_ns, b.idle_ns);
  EXPECT_EQ(a.compute_ns, b.compute_ns);
  EXPECT_EQ(a.communication_ns, b.communication_ns);
  EXPECT_EQ(a.copy_ns, b.copy_ns);
  EXPECT_EQ(a.all_gaps, b.all_gaps);
  EXPECT_EQ(a.listed_gaps, b.listed_gaps);
  EXPECT_EQ(a.listed_gaps_ns, b.listed_gaps_ns);
  EXPECT_EQ(a.ops, b.ops);
  EXPECT_EQ(a.ops_with_submission, b.ops_with_submission);
  EXPECT_EQ(a.ops_before_submission, b.ops_before_submission);
  EXPECT_EQ(a.largest_skew_ns, b.largest_skew_ns);
}

void ExpectSameMeanwhile(const std::vector<Meanwhile>& a, const std::vector<Meanwhile>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].who, b[i].who);
    EXPECT_EQ(a[i].samples, b[i].samples);
    EXPECT_DOUBLE_EQ(a[i].on_cpu, b[i].on_cpu);
    EXPECT_DOUBLE_EQ(a[i].runnable, b[i].runnable);
    EXPECT_EQ(a[i].sites.size(), b[i].sites.size());
  }
}

void ExpectSameCauses(const DeviceReport& a, const DeviceReport& b) {
  std::map<Cause, const CauseTotal*> whole;
  for (const CauseTotal& cause : a.causes) whole[cause.cause] = &cause;
  ASSERT_EQ(a.causes.size(), b.causes.size());
  for (const CauseTotal& cause : b.causes) {
    ASSERT_TRUE(whole.contains(cause.cause)) << CauseKey(cause.cause);
    const CauseTotal& other = *whole[cause.cause];
    EXPECT_EQ(cause.total_ns, other.total_ns) << CauseKey(cause.cause);
    EXPECT_EQ(cause.count, other.count) << CauseKey(cause.cause);
    EXPECT_EQ(cause.longest_ns, other.longest_ns) << CauseKey(cause.cause);
    EXPECT_EQ(cause.samples, other.samples) << CauseKey(cause.cause);
    EXPECT_EQ(SitesOf(cause), SitesOf(other)) << CauseKey(cause.cause);
    ExpectSameMeanwhile(other.meanwhile, cause.meanwhile);
  }
}

void ExpectSameTable(const ActivityTable& a, const ActivityTable& b) {
  EXPECT_EQ(a.total_ns, b.total_ns);
  EXPECT_EQ(a.wall_ns, b.wall_ns);
  EXPECT_EQ(a.untimed, b.untimed);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i) {
    EXPECT_EQ(a.rows[i].name, b.rows[i].name);
    EXPECT_EQ(a.rows[i].bytes, b.rows[i].bytes);
    EXPECT_EQ(a.rows[i].failed, b.rows[i].failed);
    EXPECT_EQ(a.rows[i].stats.count, b.rows[i].stats.count);
    EXPECT_EQ(a.rows[i].stats.total_ns, b.rows[i].stats.total_ns);
    EXPECT_EQ(a.rows[i].stats.avg_ns, b.rows[i].stats.avg_ns);
    EXPECT_EQ(a.rows[i].stats.med_ns, b.rows[i].stats.med_ns);
    EXPECT_EQ(a.rows[i].stats.min_ns, b.rows[i].stats.min_ns);
    EXPECT_EQ(a.rows[i].stats.max_ns, b.rows[i].stats.max_ns);
    EXPECT_NEAR(a.rows[i].stats.stddev_ns, b.rows[i].stats.stddev_ns, 1);
  }
}

void ExpectSameAsWhole(const Timeline& unlinked, const Options& options,
                       const std::vector<int64_t>& horizons, size_t look_ahead, size_t cpus) {
  SCOPED_TRACE(testing::Message() << cpus << " CPUs");
  LoadedRun whole;
  whole.timeline = unlinked;
  Unlink(&whole.timeline);
  const Timeline raw = whole.timeline;
  LinkCalls(&whole);
  const Analysis expected = Analyse(whole.timeline, options);
  ASSERT_EQ(expected.internal_error, "");

  const Cutter cutter(raw, horizons);
  ActivityCounter activity(options);
  WindowLimits limits;
  limits.look_ahead = look_ahead;
  limits.cpus = cpus;
  WindowedAnalysis windowed(cutter.Outline(), options, limits, &activity);
  for (size_t w = 0; w < cutter.count(); ++w) windowed.Add(cutter.Window(w));
  const WindowedResult result = windowed.Finish();
  const Analysis& found = result.analysis;
  EXPECT_EQ(found.internal_error, "");
  EXPECT_EQ(found.blind_ns, expected.blind_ns);
  ASSERT_EQ(found.devices.size(), expected.devices.size());
  for (size_t d = 0; d < found.devices.size(); ++d) {
    SCOPED_TRACE("device " + std::to_string(d));
    ExpectSameDevice(expected.devices[d], found.devices[d]);
    EXPECT_EQ(GapsOf(whole.timeline, expected, expected.devices[d]),
              GapsOf(result.timeline, found, found.devices[d]));
    ExpectSameCauses(expected.devices[d], found.devices[d]);
  }
  EXPECT_EQ(RowsOf(expected.waits), RowsOf(found.waits));
  // Where the user's window ends before a device's first operation, the tables of the whole hold
  // one that takes no time.
  for (const DeviceReport& device : expected.devices) {
    if (device.window.span() == 0) return;
  }
  const ActivityTables tables = activity.Take(result.timeline, found);
  ExpectSameTable(KernelTable(whole.timeline, expected, options), tables.kernels);
  ExpectSameTable(CopyTable(whole.timeline, expected, options), tables.copies);
  ExpectSameTable(ApiTable(whole.timeline, expected, options), tables.api);
}

// By one thread, by some that share the work of a window, and window over window.
void ExpectSameAsWhole(const Timeline& unlinked, const Options& options,
                       const std::vector<int64_t>& horizons, size_t look_ahead = SIZE_MAX) {
  for (const size_t cpus : {1, 3, 8})
    ExpectSameAsWhole(unlinked, options, horizons, look_ahead, cpus);
}

class RandomWindows : public testing::TestWithParam<int64_t> {};

// 4 to 12 windows of 50 ticks and more, so that what an operation needs lies in the next at most.
std::vector<int64_t> Horizons(uint32_t seed, int64_t tick) {
  std::mt19937 random(seed * 31 + 1);
  const int step = std::uniform_int_distribution<int>(70, 150)(random);
  std::vector<int64_t> horizons;
  for (int at = step / 2; at < kTicks; at += step) horizons.push_back(at * tick);
  return horizons;
}

TEST_P(RandomWindows, GiveTheFiguresOfTheWhole) {
  for (uint32_t seed = 0; seed < 1'700 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Case c = RandomTimeline(seed, GetParam()).Make();
    c.options.min_gap_ns = 0;
    ExpectSameAsWhole(c.timeline, c.options, Horizons(seed, GetParam()));
  }
}

// The user's window begins long before the first operation of a device, which others use.
TEST_P(RandomWindows, KeepWhatOthersDidBeforeTheFirstOperation) {
  Case c = RandomTimeline(4'774, GetParam()).Make();
  c.options.min_gap_ns = 0;
  ExpectSameAsWhole(c.timeline, c.options, Horizons(4'774, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Ticks, RandomWindows, testing::Values(1, 7'000, 40'000, 10'000'000));

// 150 records last longer than any operation lags its call, here.
TEST_P(RandomWindows, NeedToLookAheadNoFurtherThanTheWorkLags) {
  for (uint32_t seed = 400; seed < 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Case c = RandomTimeline(seed, GetParam()).Make();
    c.options.min_gap_ns = 0;
    ExpectSameAsWhole(c.timeline, c.options, Horizons(seed, GetParam()), 150);
  }
}

// A sample speaks for kSampleReachNs around it: windows are longer than that.
TEST(RandomWindowsWithSamples, GiveTheFiguresOfTheWhole) {
  constexpr int64_t kTick = 40'000'000;
  for (uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Case c = RandomTimeline(seed, kTick, true).Make();
    c.options.min_gap_ns = 0;
    ExpectSameAsWhole(c.timeline, c.options, Horizons(seed, kTick));
  }
}

// The only sample of a call is one of its end, long after the last record of the window: of a wait
// (1'216), and of a call that goes on beyond what is measured (4'699).
TEST(RandomWindowsWithSamples, KnowACallByTheSampleOfItsEnd) {
  constexpr int64_t kTick = 40'000'000;
  for (const uint32_t seed : {1'216u, 4'699u}) {
    SCOPED_TRACE(seed);
    Case c = RandomTimeline(seed, kTick, true).Make();
    c.options.min_gap_ns = 0;
    ExpectSameAsWhole(c.timeline, c.options, Horizons(seed, kTick));
  }
}

// The call that ends a stretch in which a sample was taken begins behind the next window.
TEST(RandomWindowsWithSamples, LookTwoWindowsAhead) {
  constexpr int64_t kTick = 40'000'000;
  for (const uint32_t seed : {7'521u, 8'786u, 9'400u}) {
    SCOPED_TRACE(seed);
    Case c = RandomTimeline(seed, kTick, true).Make();
    c.options.min_gap_ns = 0;
    ExpectSameAsWhole(c.timeline, c.options, Horizons(seed, kTick));
  }
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does not add up in a stretch of a device is seen, whichever of its two halves is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/windowed/sums/device_in_windows.h"

namespace gpuprobe::tools {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Busy, idle for 30, busy, idle for 20.
DeviceWindow Stretch() {
  DeviceWindow stretch{{}, true, 1'000, {}, {}};
  DeviceReport& report = stretch.report;
  report.window = {1'000, 1'100};
  report.parts.resize(3);
  const int64_t borders[][2] = {{1'010, 1'025}, {1'025, 1'040}, {1'080, 1'100}};
  for (size_t i = 0; i < report.parts.size(); ++i) {
    report.parts[i].begin_ns = borders[i][0];
    report.parts[i].end_ns = borders[i][1];
    report.parts[i].cause = Cause::kUnknown;
  }
  report.gaps = {{1'010, 1'040, -1, -1, 0, 2}, {1'080, 1'100, -1, -1, 2, 1}};
  DeviceReport& sums = stretch.sums;
  sums.window = report.window;
  sums.idle_ns = 50;
  sums.busy_ns = sums.compute_ns = 50;
  return stretch;
}

TEST(CheckStretch, FindsNothingWhereAllAddsUp) { EXPECT_EQ(CheckStretch(Stretch()), ""); }

TEST(CheckStretch, FindsPartsOfNoGap) {
  DeviceWindow stretch = Stretch();
  stretch.report.parts.push_back(stretch.report.parts.back());
  EXPECT_EQ(CheckStretch(stretch), "parts of idle time are of no gap");
  stretch = Stretch();
  stretch.report.gaps.pop_back();
  EXPECT_EQ(CheckStretch(stretch), "parts of idle time are of no gap");
}

TEST(CheckStretch, FindsAHoleBetweenParts) {
  DeviceWindow stretch = Stretch();
  ++stretch.report.parts[1].begin_ns;
  EXPECT_THAT(CheckStretch(stretch), Not(IsEmpty()));
}

TEST(CheckStretch, FindsPartsThatEndBeforeOrBehindTheirGap) {
  for (const int64_t off_ns : {-1, 1}) {
    DeviceWindow stretch = Stretch();
    stretch.report.parts[2].end_ns += off_ns;
    EXPECT_THAT(CheckStretch(stretch), Not(IsEmpty())) << off_ns;
  }
}

TEST(CheckStretch, FindsGapsThatAreNotTheIdleTimeOfTheSums) {
  for (const int64_t off_ns : {-1, 1}) {
    DeviceWindow stretch = Stretch();
    stretch.sums.idle_ns += off_ns;
    EXPECT_THAT(CheckStretch(stretch), HasSubstr("gaps")) << off_ns;
  }
}

TEST(CheckStretch, FindsBusyTimeThatDoesNotFillTheWindow) {
  DeviceWindow stretch = Stretch();
  --stretch.sums.busy_ns;
  EXPECT_THAT(CheckStretch(stretch), HasSubstr("busy and idle time"));
}

TEST(CheckStretch, FindsABreakdownThatDoesNotFillTheWindow) {
  DeviceWindow stretch = Stretch();
  --stretch.sums.compute_ns;
  EXPECT_THAT(CheckStretch(stretch), HasSubstr("compute"));
}

}  // namespace
}  // namespace gpuprobe::tools

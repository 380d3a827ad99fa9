// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "tools/interval_set.h"

namespace gpuprobe::tools {
namespace {

TEST(UnionLength, CountsOverlapAndContainmentOnce) {
  UnionLength length;
  length.Add(0, 10);
  length.Add(2, 5);
  length.Add(8, 12);
  length.Add(12, 13);
  length.Add(20, 20);
  length.Add(20, 25);
  EXPECT_EQ(length.total(), 18);
}

TEST(UnionLength, WorksBelowZeroAndNearTheEdgesOfTime) {
  UnionLength length;
  length.Add(-1'000'000'000'000'000'000, -999'999'999'999'999'990);
  length.Add(1'796'036'664'114'978'722, 1'796'036'664'114'978'723);
  EXPECT_EQ(length.total(), 11);
}

TEST(IntervalSet, MergesTouchingSpansAndMeasuresAnyPiece) {
  IntervalSet set;
  set.Add(10, 20);
  set.Add(15, 18);
  set.Add(20, 30);
  set.Add(40, 40);
  set.Add(50, 60);
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(set.Overlap(0, 100), 30);
  EXPECT_EQ(set.Overlap(12, 14), 2);
  EXPECT_EQ(set.Overlap(25, 55), 10);
  EXPECT_EQ(set.Overlap(30, 50), 0);
  EXPECT_EQ(set.Overlap(60, 70), 0);
  EXPECT_EQ(set.Overlap(20, 10), 0);
  EXPECT_EQ(IntervalSet().Overlap(0, 10), 0);
}

using Pieces = std::vector<std::tuple<int64_t, int64_t, int32_t>>;

TEST(Lane, KeepsTimeWithWhatBeganFirst) {
  Lane lane;
  lane.Add(0, 10, 1);
  lane.Add(2, 5, 2);  // inside: nothing left of it
  lane.Add(8, 15, 3);
  lane.Add(20, 20, 4);  // empty
  Pieces pieces;
  for (const Lane::Piece& p : lane.pieces()) pieces.emplace_back(p.begin, p.end, p.id);
  EXPECT_EQ(pieces, (Pieces{{0, 10, 1}, {10, 15, 3}}));
}

TEST(Lane, FindsThePieceAtOrBeforeATime) {
  Lane lane;
  lane.Add(10, 20, 1);
  lane.Add(30, 40, 2);
  EXPECT_EQ(lane.AtOrBefore(9), nullptr);
  EXPECT_EQ(lane.AtOrBefore(10)->id, 1);
  EXPECT_EQ(lane.AtOrBefore(25)->id, 1);
  EXPECT_EQ(lane.AtOrBefore(99)->id, 2);
}

TEST(LaneReader, CutsAtPiecesInOrderOfTime) {
  Lane lane;
  lane.Add(10, 20, 1);
  lane.Add(20, 25, 2);
  lane.Add(40, 50, 3);
  LaneReader reader(&lane);
  Pieces pieces;
  const auto collect = [&](int64_t begin, int64_t end, int32_t id) {
    pieces.emplace_back(begin, end, id);
  };
  reader.Split(0, 12, collect);
  reader.Split(12, 12, collect);
  reader.Split(15, 45, collect);
  reader.Split(60, 70, collect);
  EXPECT_EQ(pieces, (Pieces{{0, 10, -1},
                            {10, 12, 1},
                            {15, 20, 1},
                            {20, 25, 2},
                            {25, 40, -1},
                            {40, 45, 3},
                            {60, 70, -1}}));
}

TEST(LaneReader, WithoutALaneLeavesEverythingUncut) {
  LaneReader reader;
  Pieces pieces;
  reader.Split(3, 9, [&](int64_t b, int64_t e, int32_t id) { pieces.emplace_back(b, e, id); });
  EXPECT_EQ(pieces, (Pieces{{3, 9, -1}}));
}

}  // namespace
}  // namespace gpuprobe::tools

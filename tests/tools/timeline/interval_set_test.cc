// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/interval_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/timeline/flat_map.h"
#include "tools/timeline/nearly_sorted.h"

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

TEST(IntervalSet, TakesBackWhatWasAddedSinceAMark) {
  IntervalSet set, without;
  for (IntervalSet* both : {&set, &without}) {
    both->Add(10, 20);
    both->Add(30, 40);
  }
  const IntervalSet::Mark mark = set.mark();
  set.Add(35, 50);
  set.Add(60, 70);
  EXPECT_EQ(set.Overlap(0, 100), 40);
  set.TakeBack(mark);
  for (IntervalSet* both : {&set, &without}) both->Add(38, 45);
  for (int64_t t = 0; t < 80; ++t) EXPECT_EQ(set.Overlap(0, t), without.Overlap(0, t)) << t;
  EXPECT_EQ(set.size(), without.size());
}

TEST(IntervalSet, KeepsTheSumsThatMayBeAskedForWhenItIsCoarsened) {
  std::mt19937 random(3);
  const auto below = [&](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    IntervalSet exact, coarse;
    int64_t at = 0;
    const auto add = [&](int64_t count) {
      for (; count > 0; --count) {
        const int64_t length = below(20);
        exact.Add(at, at + length);
        coarse.Add(at, at + length);
        at += below(30);
      }
    };
    add(below(40));
    // Twice: what is coarse becomes coarser still.
    std::set<int64_t> asked;
    for (int again = 0; again < 2; ++again) {
      std::set<int64_t> kept = {
          std::min(at, asked.empty() ? below(at + 1) : *asked.rbegin() + below(50))};
      for (const int64_t ns : asked) {
        if (below(2) == 0) kept.insert(ns);
      }
      if (again == 0) kept.insert(below(at + 1));
      asked = kept;
      coarse.Coarsen({asked.begin(), asked.end()});
      add(below(20));
      for (const int64_t from : asked) {
        EXPECT_EQ(coarse.Overlap(-1'000'000, from), exact.Overlap(-1'000'000, from));
        for (const int64_t to : asked) EXPECT_EQ(coarse.Overlap(from, to), exact.Overlap(from, to));
        for (int64_t to = *asked.rbegin(); to < at + 30; ++to)
          EXPECT_EQ(coarse.Overlap(from, to), exact.Overlap(from, to));
      }
    }
  }
}

TEST(IntervalSet, AnswersTheSameWhereverTheSearchBegins) {
  std::mt19937 random(1);
  IntervalSet set;
  std::vector<bool> covered(3000, false);
  for (int64_t at = 0; at < 2900; at += static_cast<int64_t>(random() % 9)) {
    const int64_t end = at + static_cast<int64_t>(random() % 12);
    set.Add(at, end);
    std::fill(covered.begin() + at, covered.begin() + end, true);
  }
  for (int i = 0; i < 2000; ++i) {
    const int64_t begin = random() % 3000, end = random() % 3000;
    const int64_t expected =
        begin < end ? std::count(covered.begin() + begin, covered.begin() + end, true) : 0;
    size_t near = random() % 2000;  // beyond the last, too
    EXPECT_EQ(set.Overlap(begin, end, &near), expected);
    EXPECT_EQ(set.Overlap(begin, end), expected);
  }
}

TEST(IntervalSet, KnowsWhereTheLastSpanBegins) {
  IntervalSet set;
  set.Add(10, 20);
  set.Add(15, 30);
  set.Add(50, 60);
  EXPECT_EQ(set.LastBeginBy(9), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(set.LastBeginBy(10), 10);
  EXPECT_EQ(set.LastBeginBy(49), 10);
  EXPECT_EQ(set.LastBeginBy(100), 50);
}

TEST(PartitionNear, FindsWhatPartitionPointFinds) {
  for (size_t size = 0; size < 40; ++size) {
    std::vector<size_t> items(size);
    for (size_t i = 0; i < size; ++i) items[i] = i;
    for (size_t answer = 0; answer <= size; ++answer) {
      for (size_t near = 0; near <= size + 2; ++near) {
        EXPECT_EQ(PartitionNear(items, near, [=](size_t i) { return i < answer; }), answer)
            << size << " from " << near;
      }
    }
  }
}

TEST(SortNearlySorted, SortsStablyWhateverTheOrder) {
  std::mt19937 random(2);
  for (const int disorder : {0, 2, 1000}) {
    std::vector<std::pair<int, int>> items;
    for (int i = 0; i < 500; ++i)
      items.emplace_back(i / 3 + static_cast<int>(random() % (disorder + 1)), i);
    std::vector<std::pair<int, int>> expected = items;
    const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::stable_sort(expected.begin(), expected.end(), less);
    SortNearlySorted(std::span(items), less);
    EXPECT_EQ(items, expected) << disorder;
  }
}

TEST(MixBits, KeepsPairsApartThatAreAlike) {
  for (const auto& [same, crossed] : {std::pair(true, false), std::pair(false, true)}) {
    std::set<uint64_t> slots;  // of a table of 4,096 that is a quarter full
    for (uint64_t i = 0; i < 1024; ++i) {
      const uint64_t a = crossed ? i / 32 : i, b = same ? i : i % 32;
      slots.insert(MixBits(a, b) % 4096);
    }
    EXPECT_GT(slots.size(), 800u);
  }
}

TEST(FlatMap, FindsWhatWasAddedAndNothingElse) {
  struct Key {
    uint64_t value;
    bool operator==(const Key&) const = default;
    uint64_t Hash() const { return value % 7; }  // every slot is fought for
  };
  FlatMap<Key, int> map;
  EXPECT_EQ(map.Find({1}), nullptr);
  std::map<uint64_t, int> expected;
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t key = random() % 300;
    const auto [value, is_new] = map.FindOrAdd({key});
    EXPECT_EQ(is_new, !expected.contains(key));
    *value = expected[key] = i;
  }
  EXPECT_EQ(map.size(), expected.size());
  for (const auto& [key, value] : expected) {
    ASSERT_NE(map.Find({key}), nullptr);
    EXPECT_EQ(*map.Find({key}), value);
  }
  EXPECT_EQ(map.Find({300}), nullptr);
  size_t seen = 0;
  map.ForEach([&](const Key& key, int value) { seen += expected.at(key.value) == value; });
  EXPECT_EQ(seen, expected.size());
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

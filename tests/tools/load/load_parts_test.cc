// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What loading is made of, each against a plain way to the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tests/tools/trace_maker.h"
#include "tools/load/frame_prefetcher.h"
#include "tools/load/records/correlation_index.h"
#include "tools/load/records/lane_merger.h"
#include "tools/load/records/merge_runs.h"
#include "tools/load/records/record_order.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

// Start, end, and the place that it had: few values, so that many are equal.
using Record = std::tuple<int64_t, int64_t, size_t>;

bool Before(const Record& a, const Record& b) {
  return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
}

std::vector<Record> Some(std::mt19937_64* random, size_t count, int64_t values) {
  std::vector<Record> records;
  for (size_t i = 0; i < count; ++i) {
    const auto start = static_cast<int64_t>((*random)() % static_cast<uint64_t>(values));
    records.emplace_back(start, start + static_cast<int64_t>((*random)() % 3), i);
  }
  return records;
}

TEST(MergeRunsTest, IsAStableSortOfThePieces) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Record> records = Some(&random, random() % 200, 1 + round % 50);
    std::vector<Record> expected = records;
    std::stable_sort(expected.begin(), expected.end(), Before);
    std::vector<tools::Run> runs;
    for (size_t at = 0; at < records.size();) {
      const size_t end = std::min(records.size(), at + random() % 40);
      const bool sorted = random() % 2 == 0;
      if (sorted) {
        std::stable_sort(records.begin() + static_cast<ptrdiff_t>(at),
                         records.begin() + static_cast<ptrdiff_t>(end), Before);
      }
      runs.push_back({end, sorted});
      at = end;
    }
    if (!runs.empty() && random() % 3 == 0) runs.pop_back();  // what is behind is a piece, too
    MergeRuns(&records, runs, Before);
    EXPECT_EQ(records, expected);
  }
}

TEST(LaneMergerTest, InterleavesTheLanesInOrderOfTime) {
  std::mt19937_64 random(2);
  LaneMerger merger;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<int64_t>> starts(random() % 9), ends(starts.size());
    std::vector<Record> expected;
    std::vector<LaneTimes> lanes;
    for (size_t lane = 0; lane < starts.size(); ++lane) {
      std::vector<Record> records = Some(&random, random() % 60, 1 + round % 100);
      std::stable_sort(records.begin(), records.end(), Before);
      for (const auto& [start, end, place] : records) {
        starts[lane].push_back(start);
        ends[lane].push_back(end);
        expected.emplace_back(start, end, lane);
      }
      lanes.push_back({starts[lane].data(), ends[lane].data(), starts[lane].size()});
    }
    std::stable_sort(expected.begin(), expected.end(), Before);
    std::vector<Record> merged;
    merger.Merge(lanes, [&](size_t lane, size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        merged.emplace_back(starts[lane][i], ends[lane][i], lane);
      }
    });
    EXPECT_EQ(merged, expected);
  }
}

proto::ApiColumns ColumnsOf(const std::vector<Record>& records) {
  proto::ApiColumns columns;
  columns.count = records.size();
  for (const auto& [start, end, place] : records) {
    columns.start_ns.push_back(start);
    columns.end_ns.push_back(end);
    columns.correlation.push_back(static_cast<uint32_t>(place));
    columns.symbol.push_back(0);
    columns.result.push_back(0);
  }
  return columns;
}

void ExpectSortedSelection(const std::vector<Record>& records) {
  proto::ApiColumns columns = ColumnsOf(records);
  std::vector<uint32_t> order(records.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  SortByTime(columns, &order);
  Select(order, &columns);
  std::vector<Record> expected = records;
  std::stable_sort(expected.begin(), expected.end(), Before);
  ASSERT_EQ(columns.count, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(Record(columns.start_ns[i], columns.end_ns[i], columns.correlation[i]), expected[i]);
  }
}

TEST(RecordOrderTest, SortsNestedCallsAndAnyOtherOrder) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    // More than insertion will do for.
    ExpectSortedSelection(Some(&random, 1 + random() % 500, 1 + round));
    std::vector<Record> nested;
    for (size_t i = 0; i < 100; ++i) {
      nested.emplace_back(static_cast<int64_t>(10 * i + 1), static_cast<int64_t>(10 * i + 2),
                          2 * i);
      nested.emplace_back(static_cast<int64_t>(10 * i), static_cast<int64_t>(10 * i + 3),
                          2 * i + 1);
    }
    ExpectSortedSelection(nested);
  }
}

TEST(RecordOrderTest, CutsIntoFewPiecesOrNone) {
  std::vector<size_t> ends;
  const auto split = [&ends](const std::vector<Record>& records) {
    return SplitInOrder(ColumnsOf(records), &ends);
  };
  ASSERT_TRUE(split({{1, 2, 0}, {1, 2, 0}, {1, 3, 0}}));
  EXPECT_EQ(ends, (std::vector<size_t>{3}));
  ASSERT_TRUE(split({{5, 6, 0}, {7, 8, 0}, {1, 3, 0}, {1, 2, 0}}));
  EXPECT_EQ(ends, (std::vector<size_t>{2, 3, 4}));
  ASSERT_TRUE(split({}));
  EXPECT_EQ(ends, (std::vector<size_t>{0}));
  std::vector<Record> falling;
  for (int64_t i = 0; i < 100; ++i) falling.emplace_back(100 - i, 100 - i, 0);
  EXPECT_FALSE(split(falling));
}

TEST(CorrelationIndexTest, TheFirstThatCanSubmitWinsElseTheFirst) {
  std::mt19937_64 random(4);
  // How far apart the ids are, up to what only the hash map takes.
  for (const uint32_t step : {1u, 2u, 5u, 9u, 16u, 60u, 1'000u, 40'000'000u}) {
    CorrelationIndex index;
    std::vector<std::pair<uint32_t, bool>> calls;
    uint32_t id = 1 + static_cast<uint32_t>(random() % 1000);
    for (int i = 0; i < 100; ++i) {
      calls.emplace_back(id, random() % 3 == 0);
      if (random() % 4 != 0) id += static_cast<uint32_t>(random() % step) + 1;
    }
    std::shuffle(calls.begin() + 40, calls.begin() + 60, random);
    for (const auto& [correlation, submits] : calls) index.Expect(correlation, correlation, 1);
    index.Prepare();
    for (int pass = 0; pass < 2; ++pass) {
      std::map<uint32_t, std::pair<int32_t, bool>> expected;
      for (size_t i = 0; i < calls.size(); ++i) {
        const auto& [correlation, submits] = calls[i];
        index.Add(correlation, static_cast<int32_t>(i), submits);
        const auto [at, added] =
            expected.try_emplace(correlation, static_cast<int32_t>(i), submits);
        if (!added && submits && !at->second.second) at->second = {static_cast<int32_t>(i), true};
      }
      for (const auto& [correlation, call] : expected) {
        EXPECT_EQ(index.Find(correlation), call.first);
        EXPECT_EQ(index.FindSubmitting(correlation), call.second ? call.first : -1);
        for (const uint32_t other : {correlation - 1, correlation + 1}) {
          if (expected.contains(other)) continue;
          EXPECT_EQ(index.Find(other), -1);
        }
      }
      EXPECT_EQ(index.Find(0), -1);
      EXPECT_EQ(index.Find(UINT32_MAX), -1);
      index.Clear();
      EXPECT_EQ(index.Find(calls[0].first), -1);
    }
  }
}

TEST(CorrelationIndexTest, KnowsNothingBeforeAnythingIsExpected) {
  CorrelationIndex index;
  index.Prepare();
  EXPECT_EQ(index.Find(0), -1);
  EXPECT_EQ(index.Find(7), -1);
}

class PrefetchTest : public ::testing::Test {
 protected:
  // Times that do not compress, so that the file is worth a thread.
  std::string SaveTrace(int frames, int kernels_per_frame) {
    std::mt19937_64 random(5);
    TraceMaker trace;
    trace.Device(0, 0xab, "device");
    int64_t now_ns = 1'000'000'000'000;
    uint32_t correlation = 0;
    for (int frame = 0; frame < frames; ++frame) {
      for (int i = 0; i < kernels_per_frame; ++i) {
        ++correlation;
        const auto length_ns = static_cast<int64_t>(random() % 100'000);
        trace.Call("cudaLaunchKernel", MadeClass::kLaunch, now_ns, now_ns + 50, correlation);
        trace.Kernel("kernel", now_ns + 100, now_ns + 100 + length_ns, correlation);
        now_ns += length_ns + static_cast<int64_t>(random() % 100'000);
      }
      trace.CloseFrame();
    }
    trace.Finish();
    const std::string path = folder_.Path("many.gpuprobe");
    trace.Save(path);
    return path;
  }
  std::unique_ptr<proto::TraceReader> Open(const std::string& path) {
    auto reader = proto::TraceReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  TempFolder folder_;
};

TEST_F(PrefetchTest, FramesComeAsTheReaderHasThem) {
  const std::string path = SaveTrace(20, 1'000);
  const auto plain = Open(path), ahead = Open(path);
  EXPECT_GT(ahead->file_bytes(), 64u << 10);
  FramePrefetcher frames(ahead.get());
  proto::Frame expected;
  while (plain->Next(&expected)) {
    const proto::Frame* frame = frames.Next();
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(frame->offset, expected.offset);
    EXPECT_EQ(frame->header().sequence(), expected.header().sequence());
    EXPECT_EQ(frame->trace.packet_size(), expected.trace.packet_size());
  }
  EXPECT_EQ(frames.Next(), nullptr);
  EXPECT_EQ(frames.Next(), nullptr);
  EXPECT_TRUE(ahead->ended());
  EXPECT_EQ(ahead->counts().frames, plain->counts().frames);
}

TEST_F(PrefetchTest, MayBeLeftAtAnyFrame) {
  const std::string path = SaveTrace(6, 1'000);
  for (int taken = 0; taken < 5; ++taken) {
    const auto reader = Open(path);
    FramePrefetcher frames(reader.get());
    for (int i = 0; i < taken; ++i) ASSERT_NE(frames.Next(), nullptr);
  }
}

TEST_F(PrefetchTest, EveryRecordOfALargeTraceIsLoadedAndLinked) {
  const absl::StatusOr<LoadedRun> run = LoadRun(FindInputFiles({SaveTrace(20, 1'000)}));
  ASSERT_TRUE(run.ok()) << run.status();
  const Timeline& t = run->timeline;
  ASSERT_EQ(t.ops.size(), 20'000u);
  ASSERT_EQ(t.calls.size(), 20'000u);
  EXPECT_TRUE(run->complete());
  for (size_t i = 0; i < t.ops.size(); ++i) {
    ASSERT_EQ(t.ops[i].submission, static_cast<int32_t>(i));
    ASSERT_EQ(t.ops[i].correlation, i + 1);
    ASSERT_EQ(t.ops[i].start_ns, t.calls[i].start_ns + 100);
  }
}

}  // namespace
}  // namespace gpuprobe::tools

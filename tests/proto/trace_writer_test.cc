// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Records, frames and memory: what goes in comes back.
#include "proto/trace_writer.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/format.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_facts.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

class RoundTripTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RoundTripTest, EveryKindOfRecordComesBackInTheOrderOfItsLane) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  RecordLog written;
  RandomRecords random(&harness, &written, GetParam());
  for (int i = 0; i < 20000; ++i) {
    random.Any();
    if (i % 3000 == 2999) {
      harness.writer.BeginBuffer();
      ASSERT_TRUE(harness.writer.CloseFrame());
    }
  }
  ASSERT_TRUE(harness.writer.Finish("exit", 3));
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_TRUE(read.damage.empty());
  EXPECT_TRUE(read.ended);
  ASSERT_EQ(read.log.size(), written.size());
  for (const auto& [lane, rows] : written) {
    const auto found = read.log.find(lane);
    ASSERT_NE(found, read.log.end()) << lane;
    ASSERT_EQ(found->second.size(), rows.size()) << lane;
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(found->second[i], rows[i]) << lane << i;
  }
  EXPECT_EQ(read.records(), 20000u);
  EXPECT_EQ(harness.writer.stats().records, 20000u);
  EXPECT_EQ(read.counts.unknown_fields, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RoundTripTest, testing::Values(1, 2, 3, 4));

// Records of runs as they are: long stretches of one thread and one stream, few names.
void WriteSteps(WriterHarness* harness, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<const char*> names;
  for (int i = 0; i < 20; ++i) names.push_back(harness->Name("kernel" + std::to_string(i)));
  harness->unreadable = {names[19]};
  int64_t now = kTestStartNs;
  for (uint32_t i = 0; i < 20000; ++i) {
    if (i % 2500 == 0) harness->writer.BeginBuffer();
    if (i % 7000 == 6999) harness->writer.CloseFrame();
    now += static_cast<int64_t>(random() % 3000);
    const bool odd = random() % 100 == 0;
    if (random() % 3 != 0) {
      ApiRecord r = {};
      r.start_ns = odd && random() % 4 == 0 ? -5 : now;
      r.end_ns = odd && random() % 4 == 0 ? now - 1 : now + static_cast<int64_t>(random() % 9000);
      r.domain = i % 5 == 0 ? ApiDomain::kDriver : ApiDomain::kRuntime;
      r.cbid = odd ? static_cast<uint32_t>(random() % 3000) : static_cast<uint32_t>(random() % 9);
      r.thread = 50 + i / 500 % 2;
      r.correlation = i;
      r.result = odd ? static_cast<int32_t>(random() % 3) : 0;
      harness->writer.OnApi(r);
      continue;
    }
    KernelRecord r = {};
    r.start_ns = now;
    r.end_ns = now + static_cast<int64_t>(random() % 30000);
    r.timing = odd && random() % 2 == 0 ? Timing::kUnfinished : Timing::kValid;
    r.context = 1;
    r.stream = 7 + (odd ? 1 : 0);
    r.correlation = i;
    r.name = names[random() % names.size()];
    r.grid_x = static_cast<uint32_t>(random() % 3);
    r.registers_per_thread = static_cast<uint32_t>(random() % 2);
    r.device_launched = odd;
    if (odd) r.graph_id = static_cast<uint32_t>(random() % 2);
    if (odd) r.queued_ns = now - static_cast<int64_t>(random() % 2);
    harness->writer.OnKernel(r);
  }
  harness->writer.Finish("exit", 0);
}

TEST(TraceWriterTest, TheShortWayOfCommonRecordsLeadsToTheSameFile) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    WriterHarness asked, told, not_told;
    asked.hooks.to_trace_ns = [](void*, int64_t ns) { return ns + 1000; };
    told.hooks.to_trace_ns = not_told.hooks.to_trace_ns = asked.hooks.to_trace_ns;
    told.hooks.constant_offset = [](void*) {
      return ConstantOffset{1, kTestStartNs + 10'000'000, 1000};  // part of the records
    };
    not_told.hooks.constant_offset = [](void*) { return ConstantOffset{1, 0, 0}; };
    for (WriterHarness* harness : {&asked, &told, &not_told}) {
      ASSERT_TRUE(harness->Init());
      WriteSteps(harness, seed);
      EXPECT_EQ(harness->writer.stats().records, 20000u);
    }
    EXPECT_EQ(told.File(), asked.File());
    EXPECT_EQ(not_told.File(), asked.File());
    EXPECT_EQ(told.writer.stats().names_replaced, asked.writer.stats().names_replaced);
    EXPECT_EQ(told.names_read, asked.names_read);
  }
}

// Lanes of a few blocks and a rest, with gaps and durations of one to five bytes, back in time,
// over two seconds, and correlation ids that leap and wrap.
TEST(TraceWriterTest, GapsDurationsAndCorrelationsOfAnySizeComeBack) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 random(seed);
    WriterHarness harness;
    ASSERT_TRUE(harness.Init());
    std::map<uint32_t, std::vector<std::string>> written;
    int64_t now = kTestStartNs;
    uint32_t correlation = 0xffffff00u;
    for (int i = 0; i < 1000; ++i) {
      const auto any = [&](int most_bits) {
        return static_cast<int64_t>(random() >> (64 - 1 - random() % most_bits));
      };
      const bool rarely = random() % 200 == 0;
      ApiRecord r = {};
      now += any(rarely ? 36 : 16) - (random() % 10 == 0 ? 50'000 : 0);
      r.start_ns = now;
      r.end_ns = now + any(rarely ? 36 : 16);
      r.cbid = 1 + static_cast<uint32_t>(random() % (seed * 60));
      r.thread = 50 + static_cast<uint32_t>(random() % seed);
      r.correlation = correlation += rarely ? static_cast<uint32_t>(random()) : 1;
      harness.writer.OnApi(r);
      written[r.thread].push_back(Text(r.start_ns, r.end_ns, r.correlation));
    }
    ASSERT_TRUE(harness.writer.CloseFrame());
    const ReadResult read = ReadBytes(harness.File());
    for (const auto& [thread, rows] : written) {
      const auto lane = read.log.find("api " + Text(thread));
      ASSERT_NE(lane, read.log.end());
      ASSERT_EQ(lane->second.size(), rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(lane->second[i].substr(0, rows[i].size()), rows[i]) << seed << ' ' << i;
      }
    }
  }
}

TEST(TraceWriterTest, TheOffsetIsAskedAgainForEachBufferAndFrame) {
  static int64_t offset_ns;
  offset_ns = 0;
  WriterHarness harness;
  harness.hooks.to_trace_ns = [](void*, int64_t ns) { return ns + offset_ns; };
  harness.hooks.constant_offset = [](void*) {
    return ConstantOffset{1, int64_t{1} << 62, offset_ns};
  };
  ASSERT_TRUE(harness.Init());
  const char* name = harness.Name("k");
  const auto two = [&] {
    harness.writer.OnKernel(SomeKernel(name));
    harness.writer.OnKernel(SomeKernel(name));
  };
  two();
  offset_ns = 300;
  harness.writer.BeginBuffer();
  two();
  offset_ns = 500;
  ASSERT_TRUE(harness.writer.CloseFrame());
  two();
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  std::vector<int64_t> starts;
  for (const auto& [lane, rows] : read.log) {
    for (const std::string& row : rows) starts.push_back(std::stoll(row) - kTestStartNs);
  }
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 0, 300, 300, 500, 500}));
}

TEST(TraceWriterTest, FrameHeaderTellsSequenceRangeAndRecords) {
  WriterHarness harness;
  harness.clock.trace_ns = kTestStartNs + 777;
  ASSERT_TRUE(harness.Init());
  harness.writer.OnKernel(SomeKernel(harness.Name("k"), kTestStartNs + 500));
  harness.writer.OnKernel(SomeKernel(harness.Name("k"), kTestStartNs + 100));
  ASSERT_TRUE(harness.writer.CloseFrame());
  ASSERT_TRUE(harness.writer.CloseFrame());  // heartbeat
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_EQ(read.headers.size(), 2u);
  const FrameHeader& first = read.headers[0];
  EXPECT_EQ(first.format_version(), kFormatVersion);
  EXPECT_EQ(first.file_id(), 0x1122334455667788u);
  EXPECT_EQ(first.sequence(), 0u);
  EXPECT_EQ(first.first_ns(), kTestStartNs + 100);
  EXPECT_EQ(first.last_ns(), kTestStartNs + 1500);
  EXPECT_EQ(first.records(), 2u);
  EXPECT_EQ(first.clock().trace_ns(), kTestStartNs + 777);
  EXPECT_EQ(first.clock().monotonic_ns(), 1000);
  EXPECT_EQ(first.clock().uncertainty_ns(), 40u);
  EXPECT_EQ(first.written_ns(), kTestStartNs + 777);
  EXPECT_EQ(first.flush_period_ms(), 500u);
  EXPECT_EQ(read.headers[1].sequence(), 1u);
  EXPECT_EQ(read.headers[1].first_ns(), 0);
  EXPECT_EQ(read.headers[1].last_ns(), 0);
}

TEST(TraceWriterTest, UsesAllTheMemoryItIsGivenAndNoMore) {
  // AddressSanitizer watches the end of the block in every test; here the limits of Init.
  WriterHarness enough(SmallOptions());
  EXPECT_TRUE(enough.Init());
  WriterOptions options = SmallOptions();
  options.memory_bytes = 2u << 20;
  WriterHarness too_small(options);
  EXPECT_FALSE(too_small.Init());
  too_small.writer.OnKernel(SomeKernel(too_small.Name("k")));
  EXPECT_FALSE(too_small.writer.HasData());
  EXPECT_FALSE(too_small.writer.CloseFrame());
  options.memory_bytes = 100;
  EXPECT_FALSE(WriterHarness(options).Init());
}

TEST(TraceWriterTest, FailsWithoutASink) {
  WriterHarness harness;
  harness.hooks.write_frame = nullptr;
  EXPECT_FALSE(harness.Init());
}

TEST(TraceWriterTest, ClosesTheFrameByItselfWhenStagingIsFullAndLosesNothing) {
  WriterHarness harness(SmallOptions(256));
  ASSERT_TRUE(harness.Init());
  RecordLog written;
  RandomRecords random(&harness, &written, 5);
  for (int i = 0; i < 20000; ++i) random.Any();
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  EXPECT_GT(harness.frames.size(), 20u);
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(read.log, written);
  for (const Trace& trace : read.frames) EXPECT_TRUE(LossesOf(trace).empty());
}

// Records as large as they can get: AddressSanitizer sees whether the bounds of column_encoder.h
// hold.
TEST(TraceWriterTest, RecordsOfTheGreatestEncodedSizeFitTheirBounds) {
  for (uint32_t max_records : {1000u, 100000u}) {
    WriterOptions options = SmallOptions(max_records);
    options.memory_bytes = max_records == 1000 ? 6u << 20 : 30u << 20;
    WriterHarness harness(options);
    ASSERT_TRUE(harness.Init());
    const int count = 40000;
    for (int i = 0; i < count; ++i) {
      const int64_t wild = i % 2 == 0 ? INT64_MAX - 1 : 1;
      KernelRecord k = SomeKernel(harness.Name("k"), i % 2 == 0 ? 1 : INT64_MAX - 5);
      k.end_ns = k.start_ns + (i % 2 == 0 ? INT64_MAX - 5 : 1);
      k.correlation = i % 2 == 0 ? 0 : UINT32_MAX;
      k.graph_id = UINT32_MAX;
      k.graph_node_id = UINT64_MAX;
      k.queued_ns = i % 3 == 0 ? INT64_MIN / 2 : 1;
      k.submitted_ns = INT64_MIN / 2;
      k.grid_x = static_cast<uint32_t>(i % 7000);
      if (i % 4 == 0) {
        k.graph_id = 0;
        k.graph_node_id = 0;
      }
      harness.writer.OnKernel(k);
      harness.writer.OnApi({wild, INT64_MAX, ApiDomain::kDriver, static_cast<uint32_t>(i % 1900), 1,
                            1, k.correlation, INT32_MIN});
      SyncRecord sync = {wild,           INT64_MAX,     255,        UINT32_MAX - 1, UINT32_MAX - 1,
                         UINT32_MAX - 1, k.correlation, UINT64_MAX, INT32_MIN};
      harness.writer.OnSync(sync);
      harness.writer.OnCudaEvent(
          {UINT32_MAX, UINT32_MAX - 1, UINT32_MAX, k.correlation, UINT64_MAX});
      OverheadRecord overhead = {
          wild,           INT64_MAX,      UINT32_MAX,     255,          1, UINT32_MAX,
          UINT32_MAX - 1, UINT32_MAX - 1, UINT32_MAX - 1, k.correlation};
      harness.writer.OnOverhead(overhead);
      harness.writer.OnMarker({wild, k.correlation, 255, UINT32_MAX, nullptr, nullptr});
      CopyRecord copy = {};
      copy.start_ns = k.start_ns;
      copy.end_ns = k.end_ns;
      copy.bytes = copy.graph_node_id = UINT64_MAX;
      copy.correlation = k.correlation;
      copy.graph_id = UINT32_MAX;
      harness.writer.OnCopy(copy);
      SetRecord set = {};
      set.start_ns = k.start_ns;
      set.end_ns = k.end_ns;
      set.bytes = set.graph_node_id = UINT64_MAX;
      set.correlation = k.correlation;
      set.graph_id = set.value = UINT32_MAX;
      set.memory_kind = set.flags = 255;
      harness.writer.OnSet(set);
      harness.writer.OnGraph(
          {k.start_ns, k.end_ns, Timing::kValid, 1, 1, 1, k.correlation, UINT32_MAX, 0});
    }
    ASSERT_TRUE(harness.writer.Finish("exit", 0));
    EXPECT_EQ(harness.writer.stats().records, 9u * count);
    const ReadResult read = ReadBytes(harness.File());
    EXPECT_TRUE(read.damage.empty());
    EXPECT_EQ(read.records(), 9u * count);
  }
}

TEST(TraceWriterTest, SixteenLanesInManyFramesKeepTheirOrder) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* name = harness.Name("k");
  constexpr uint32_t kLanes = 16, kFrames = 50, kRounds = 40;
  for (uint32_t frame = 0, n = 0; frame < kFrames; ++frame) {
    for (uint32_t i = 0; i < kRounds * kLanes; ++i, ++n) {
      KernelRecord r = SomeKernel(name, kTestStartNs + n);
      r.stream = n * 7 % kLanes;
      r.correlation = n;
      harness.writer.OnKernel(r);
    }
    ASSERT_TRUE(harness.writer.CloseFrame());
  }
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(read.log.size(), kLanes);
  EXPECT_EQ(read.records(), uint64_t{kLanes} * kFrames * kRounds);
  for (const auto& [lane, rows] : read.log) {
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end())) << lane;  // times of equal length
  }
}

TEST(TraceWriterTest, MoreLanesThanAFrameHoldsLoseNothing) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* name = harness.Name("k");
  constexpr uint32_t kStreams = 10000;
  for (uint32_t i = 0; i < kStreams; ++i) {
    KernelRecord r = SomeKernel(name);
    r.stream = i;
    harness.writer.OnKernel(r);
  }
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_GT(read.frames.size(), 1u);
  EXPECT_EQ(read.log.size(), kStreams);
}

TEST(TraceWriterTest, TimesGoThroughTheClockFunctionAndStayOrdered) {
  WriterHarness harness;
  harness.hooks.to_trace_ns = [](void*, int64_t ns) {
    return ns == kTestStartNs + 1000 ? ns - 5000 : ns + 7;
  };
  ASSERT_TRUE(harness.Init());
  harness.writer.OnKernel(SomeKernel(harness.Name("k"), kTestStartNs + 1));
  harness.writer.OnKernel(
      SomeKernel(harness.Name("k"), kTestStartNs));  // its end would come before its start
  KernelRecord missing = SomeKernel(harness.Name("k"), 0);
  missing.end_ns = 0;
  missing.timing = Timing::kMissing;
  harness.writer.OnKernel(missing);
  KernelRecord reversed = SomeKernel(harness.Name("k"), kTestStartNs);
  reversed.end_ns = reversed.start_ns - 1;  // claims to be valid
  harness.writer.OnKernel(reversed);
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const auto& valid = read.log.at("kernel " + Text(0, 1, 7, 0));
  EXPECT_EQ(valid[0].rfind(Text(kTestStartNs + 8, kTestStartNs + 1008), 0), 0u);
  EXPECT_EQ(valid[1].rfind(Text(kTestStartNs + 7, kTestStartNs + 7), 0), 0u);
  EXPECT_EQ(read.log.at("kernel " + Text(0, 1, 7, 1)).size(), 1u);
  EXPECT_EQ(read.log.at("kernel " + Text(0, 1, 7, 3)).size(), 1u);
  EXPECT_EQ(read.headers[0].first_ns(), kTestStartNs + 7);
}

TEST(TraceWriterTest, CallsAfterFinishDoNothing) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  ASSERT_TRUE(harness.writer.Finish("off", 2));
  harness.writer.OnKernel(SomeKernel(harness.Name("k")));
  EXPECT_FALSE(harness.writer.HasData());
  EXPECT_FALSE(harness.writer.CloseFrame());
  EXPECT_EQ(harness.frames.size(), 1u);
}

}  // namespace
}  // namespace gpuprobe::proto

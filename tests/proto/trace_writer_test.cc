// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/trace_writer.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/format.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

WriterOptions SmallOptions(uint32_t max_frame_records = 1024) {
  WriterOptions options = WriterHarness::DefaultOptions();
  options.memory_bytes = 6u << 20;
  options.max_frame_records = max_frame_records;
  return options;
}

KernelRecord SomeKernel(const char* name, int64_t start_ns = kTestStartNs) {
  KernelRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = start_ns > INT64_MAX - 1000 ? INT64_MAX : start_ns + 1000;
  r.context = 1;
  r.stream = 7;
  r.grid_x = 64;
  r.name = name;
  return r;
}

Dictionary DictionaryOf(const Trace& trace) {
  for (const Packet& packet : trace.packet()) {
    if (packet.has_dictionary()) return packet.dictionary();
  }
  return {};
}

template <class Has>
int CountPackets(const Trace& trace, Has has) {
  int count = 0;
  for (const Packet& packet : trace.packet()) count += has(packet);
  return count;
}

std::vector<Loss> LossesOf(const Trace& trace) {
  std::vector<Loss> losses;
  for (const Packet& packet : trace.packet()) {
    if (packet.has_loss()) losses.push_back(packet.loss());
  }
  return losses;
}

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

TEST(TraceWriterTest, MarkersKeepTheirNamesAndThreads) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* step = harness.Name("step 1");
  const char* domain = harness.Name("NCCL");
  harness.writer.OnMarker({kTestStartNs + 5, 7, 2, 11, step, nullptr});
  harness.writer.OnMarker({kTestStartNs + 9, 8, 2, 12, harness.Name("sum"), domain});
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.OnMarker({kTestStartNs + 20, 8, 4, 12, nullptr, domain});
  harness.writer.OnMarker({kTestStartNs + 15, 7, 4, 11, nullptr, nullptr});
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_EQ(read.frames.size(), 2u);
  const auto row = [](int64_t after_ns, uint32_t id, int flags, int thread, const char* names) {
    const int64_t ns = kTestStartNs + after_ns;
    return Text(ns, ns, id) + Text(flags, thread) + names;
  };
  EXPECT_EQ(read.log.at("marker"),
            (std::vector<std::string>{row(5, 7, 2, 11, "step 1 -"), row(9, 8, 2, 12, "sum NCCL"),
                                      row(20, 8, 4, 12, "- NCCL"), row(15, 7, 4, 11, "- -")}));
  EXPECT_EQ(read.headers[0].first_ns(), kTestStartNs + 5);
  EXPECT_EQ(read.headers[1].last_ns(), kTestStartNs + 20);
  EXPECT_EQ(read.counts.unknown_fields, 0u);
}

TEST(TraceWriterTest, MarkerNamesWithoutEndAreCutAndNothingIsLost) {
  WriterHarness harness(SmallOptions(256));
  ASSERT_TRUE(harness.Init());
  constexpr uint32_t kCount = 12'000;
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string name = "request " + std::to_string(i) + std::string(i % 700, 'x');
    harness.writer.OnMarker(
        {kTestStartNs + i, i, 2, UINT32_MAX, harness.Name(name), harness.Name("domain")});
  }
  harness.writer.OnMarker({kTestStartNs, UINT32_MAX, 255, 0, nullptr, nullptr});
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(read.log.at("marker").size(), kCount + 1);
  for (const Trace& trace : read.frames) {
    EXPECT_TRUE(LossesOf(trace).empty());
    for (const Packet& packet : trace.packet()) {
      for (const std::string& name : packet.dictionary().marker_names()) {
        EXPECT_LE(name.size(), kMaxMarkerNameBytes);
      }
    }
  }
}

TEST(TraceWriterTest, AMarkersNameThatCannotBeReadIsSaid) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* gone = harness.Name("gone");
  harness.unreadable.insert(gone);
  harness.writer.OnMarker({kTestStartNs, 1, 2, 1, gone, nullptr});
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_NE(read.log.at("marker")[0].find("could not be read"), std::string::npos);
  EXPECT_EQ(harness.writer.stats().names_replaced, 1u);
  EXPECT_EQ(LossesOf(read.frames[0]).size(), 1u);
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

TEST(TraceWriterTest, DictionaryIdsAreDenseAndInFirstUseOrder) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* a = harness.Name("a");
  const char* b = harness.Name("b");
  const char* same_as_a = harness.Name("a");
  for (const char* name : {b, a, b, same_as_a}) harness.writer.OnKernel(SomeKernel(name));
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.OnKernel(SomeKernel(a));
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const Dictionary first = DictionaryOf(read.frames[0]);
  ASSERT_EQ(first.names_size(), 2);
  EXPECT_EQ(first.names(0), "b");
  EXPECT_EQ(first.names(1), "a");
  EXPECT_EQ(first.shapes(0).name(), 1u);
  const Dictionary second = DictionaryOf(read.frames[1]);
  ASSERT_EQ(second.names_size(), 1);
  EXPECT_EQ(second.names(0), "a");
  EXPECT_EQ(second.shapes_size(), 1);
}

TEST(TraceWriterTest, ReadsANameOncePerBuffer) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  std::string text = "first";
  const char* pointer = text.c_str();
  for (int i = 0; i < 10; ++i) harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 1);
  text.replace(0, text.size(),
               "other");  // same memory: the module was unloaded, the pointer reused
  ASSERT_EQ(pointer, text.c_str());
  harness.writer.OnKernel(SomeKernel(pointer));
  harness.writer.BeginBuffer();
  for (int i = 0; i < 10; ++i) harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 2);
  harness.writer.BeginBuffer();
  harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 3);
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const std::vector<std::string>& rows = read.log.begin()->second;
  ASSERT_EQ(rows.size(), 22u);
  int first = 0, other = 0;
  for (const std::string& row : rows) {
    first += row.find("'first'") != std::string::npos;
    other += row.find("'other'") != std::string::npos;
  }
  EXPECT_EQ(first, 11);
  EXPECT_EQ(other, 11);
  EXPECT_EQ(DictionaryOf(read.frames[0]).names_size(), 2);
}

TEST(TraceWriterTest, MoreNamesThanAFrameHoldsLoseNothing) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  constexpr int kNames = 30000;
  for (int i = 0; i < kNames; ++i) {
    harness.writer.OnKernel(
        SomeKernel(harness.Name("kernel_" + std::to_string(i) + std::string(100, 'x'))));
  }
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  std::set<std::string> names;
  for (const Trace& trace : read.frames) {
    const Dictionary dictionary = DictionaryOf(trace);
    names.insert(dictionary.names().begin(), dictionary.names().end());
    EXPECT_TRUE(LossesOf(trace).empty());
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNames));
  EXPECT_EQ(read.records(), static_cast<uint64_t>(kNames));
  EXPECT_EQ(harness.writer.stats().names_replaced, 0u);
}

TEST(TraceWriterTest, NamesOfAnyLengthAndBytesAreStored) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const std::string longest(kMaxNameBytes - 1, 'l');
  const std::string cut_at_a_character = std::string(kMaxNameBytes - 1, 'c') + "\xe2\x82\xac";
  for (const std::string& name : {std::string(), longest, cut_at_a_character,
                                  std::string("bad\xff\x01 name"), std::string(1 << 20, 'm')}) {
    harness.writer.OnKernel(SomeKernel(harness.Name(name)));
  }
  harness.writer.OnKernel(SomeKernel(nullptr));
  for (int i = 0; i < 30; ++i)
    harness.writer.OnKernel(SomeKernel(harness.Name(longest + std::to_string(i))));
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_TRUE(read.damage.size() == 1 && read.Count(Damage::Kind::kNoEnd) == 1);
  const Dictionary dictionary = DictionaryOf(read.frames[0]);
  ASSERT_GE(dictionary.names_size(), 5);
  EXPECT_EQ(dictionary.names(0), "");
  EXPECT_EQ(dictionary.names(1), longest);
  EXPECT_EQ(dictionary.names(2), std::string(kMaxNameBytes - 1, 'c'));
  EXPECT_EQ(dictionary.names(3), "bad?\x01 name");
  EXPECT_EQ(dictionary.names(4).size(), kMaxNameBytes);
  EXPECT_EQ(read.records(), 36u);
}

TEST(TraceWriterTest, UnreadableNamesAreReplacedAndCounted) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* gone = harness.Name("gone");
  harness.unreadable.insert(gone);
  for (int i = 0; i < 3; ++i) harness.writer.OnKernel(SomeKernel(gone, kTestStartNs + i));
  harness.writer.OnKernel(SomeKernel(harness.Name("fine")));
  ASSERT_TRUE(harness.writer.CloseFrame());
  EXPECT_EQ(harness.writer.stats().names_replaced, 3u);
  const ReadResult read = ReadBytes(harness.File());
  const std::vector<Loss> losses = LossesOf(read.frames[0]);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].cause(), static_cast<uint32_t>(LossCause::kNameTableFull));
  EXPECT_EQ(losses[0].count(), 3u);
  EXPECT_EQ(losses[0].begin_ns(), kTestStartNs);
  EXPECT_EQ(losses[0].end_ns(), kTestStartNs + 1002);
  EXPECT_EQ(DictionaryOf(read.frames[0]).names(0), "(name could not be read)");
}

TEST(TraceWriterTest, FactsAreRepeatedInTheFramesThatUseThem) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  for (uint32_t device : {0u, 1u}) {
    DeviceRecord d = {};
    d.device = device;
    d.uuid[0] = static_cast<uint8_t>(1 + device);
    d.name = harness.Name("GPU " + std::to_string(device));
    d.sm_count = 132;
    d.memory_bytes = 1ull << 37;
    d.mig = device == 1;
    harness.writer.OnDevice(d);
    harness.writer.OnContext({1 + device, device, 7});
    harness.writer.OnStream({1 + device, 13, 2, 1});
    harness.writer.OnStream({1 + device, 14, 2, 1});
  }
  EXPECT_TRUE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());  // 0: all are news
  EXPECT_FALSE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());  // 1: nothing used
  KernelRecord r = SomeKernel(harness.Name("k"));
  r.device = 1;
  r.context = 2;
  r.stream = 14;
  harness.writer.OnKernel(r);
  ASSERT_TRUE(harness.writer.CloseFrame());  // 2: one stream of device 1
  SyncRecord sync = {kTestStartNs, kTestStartNs + 5, 3, 1, 13, kInvalidId, 4, 0, 0};
  harness.writer.OnSync(sync);
  ASSERT_TRUE(harness.writer.CloseFrame());  // 3: through the context of a synchronisation
  const ReadResult read = ReadBytes(harness.File());
  const Dictionary all = DictionaryOf(read.frames[0]);
  ASSERT_EQ(all.devices_size(), 2);
  EXPECT_EQ(all.contexts_size(), 2);
  EXPECT_EQ(all.streams_size(), 4);
  EXPECT_EQ(all.devices(1).name(), "GPU 1");
  EXPECT_EQ(all.devices(1).uuid(), std::string("\x02", 1) + std::string(15, '\0'));
  EXPECT_EQ(all.devices(1).memory_bytes(), 1ull << 37);
  EXPECT_TRUE(all.devices(1).mig());
  EXPECT_EQ(CountPackets(read.frames[1], [](const Packet& p) { return p.has_dictionary(); }), 0);
  const Dictionary used = DictionaryOf(read.frames[2]);
  ASSERT_EQ(used.devices_size(), 1);
  EXPECT_EQ(used.devices(0).device(), 1u);
  ASSERT_EQ(used.contexts_size(), 1);
  EXPECT_EQ(used.contexts(0).null_stream(), 7u);
  ASSERT_EQ(used.streams_size(), 1);
  EXPECT_EQ(used.streams(0).stream(), 14u);
  const Dictionary by_sync = DictionaryOf(read.frames[3]);
  ASSERT_EQ(by_sync.devices_size(), 1);
  EXPECT_EQ(by_sync.devices(0).device(), 0u);
  ASSERT_EQ(by_sync.streams_size(), 1);
  EXPECT_EQ(by_sync.streams(0).stream(), 13u);
}

TEST(TraceWriterTest, LatestFactsSurviveMoreStreamsThanTheTableHolds) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  for (uint32_t i = 0; i < 5000; ++i) harness.writer.OnStream({1, i, 0, 1});
  ASSERT_TRUE(harness.writer.CloseFrame());
  KernelRecord r = SomeKernel(harness.Name("k"));
  r.stream = 4999;
  harness.writer.OnKernel(r);
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(DictionaryOf(read.frames[1]).streams_size(), 1);
}

TEST(TraceWriterTest, ARefusedFrameLosesItsRecordsButNotTheLossesToldInIt) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* name = harness.Name("k");
  harness.writer.OnKernel(SomeKernel(name));
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.OnKernel(SomeKernel(name, kTestStartNs + 5000));
  harness.writer.OnKernel(SomeKernel(name, kTestStartNs + 9000));
  harness.writer.AddLoss(LossCause::kCuptiDropped, 7, 10, 20, 0);
  harness.writer.AddBlind(100, 200, "libother.so", "cuptiActivityRegisterCallbacks");
  harness.refuse_frames = true;
  EXPECT_FALSE(harness.writer.CloseFrame());
  EXPECT_EQ(harness.writer.stats().records_lost, 2u);
  EXPECT_TRUE(harness.writer.HasData());
  harness.refuse_frames = false;
  harness.writer.OnKernel(SomeKernel(name, kTestStartNs + 20000));
  ASSERT_TRUE(harness.writer.CloseFrame());
  EXPECT_FALSE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_EQ(read.frames.size(), 3u);
  EXPECT_EQ(read.headers[1].sequence(), 2u);
  const std::vector<Loss> losses = LossesOf(read.frames[1]);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].cause(), static_cast<uint32_t>(LossCause::kCuptiDropped));
  EXPECT_EQ(losses[0].count(), 7u);
  EXPECT_EQ(losses[1].cause(), static_cast<uint32_t>(LossCause::kWriteFailed));
  EXPECT_EQ(losses[1].count(), 2u);
  EXPECT_EQ(losses[1].begin_ns(), kTestStartNs + 5000);
  EXPECT_EQ(losses[1].end_ns(), kTestStartNs + 10000);
  EXPECT_EQ(losses[1].detail(), ENOSPC);
  EXPECT_EQ(CountPackets(read.frames[1], [](const Packet& p) { return p.has_blind(); }), 1);
  EXPECT_TRUE(LossesOf(read.frames[2]).empty());
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kMissing);
  EXPECT_EQ(read.damage[0].frames, 1u);
  const Packet& last = read.frames[2].packet(read.frames[2].packet_size() - 1);
  EXPECT_EQ(last.end().reason(), "exit");
  EXPECT_EQ(last.end().frames(), 3u);
  EXPECT_EQ(last.end().records(), 2u);
}

TEST(TraceWriterTest, LossesAreMergedByCause) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  EXPECT_FALSE(harness.writer.HasData());
  harness.writer.AddLoss(LossCause::kPoolExhausted, 0, 1, 2, 3);
  EXPECT_FALSE(harness.writer.HasData());
  harness.writer.AddLoss(LossCause::kPoolExhausted, 2, 100, 200, 0);
  harness.writer.AddLoss(LossCause::kPoolExhausted, 3, 50, 150, 9);
  harness.writer.AddLoss(static_cast<LossCause>(200), 4, 1, 2, 0);  // from a version to come
  EXPECT_TRUE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());
  const std::vector<Loss> losses = LossesOf(ReadBytes(harness.File()).frames[0]);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].cause(), 0u);
  EXPECT_EQ(losses[0].count(), 4u);
  EXPECT_EQ(losses[1].count(), 5u);
  EXPECT_EQ(losses[1].begin_ns(), 50);
  EXPECT_EQ(losses[1].end_ns(), 200);
  EXPECT_EQ(losses[1].detail(), 9);
}

TEST(TraceWriterTest, ABlindPeriodIsToldInEveryFrameUntilItIsOver) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  harness.writer.AddBlind(100, 0, "libkineto.so", "cuptiSubscribe");
  EXPECT_TRUE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());
  EXPECT_FALSE(harness.writer.HasData());  // nothing new to tell
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.AddBlind(100, 250, "libkineto.so", "cuptiSubscribe");
  EXPECT_TRUE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const int64_t expected_end[] = {0, 0, 250};
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(read.frames[i].packet_size(), 2) << i;
    EXPECT_EQ(read.frames[i].packet(1).blind().begin_ns(), 100);
    EXPECT_EQ(read.frames[i].packet(1).blind().end_ns(), expected_end[i]);
    EXPECT_EQ(read.frames[i].packet(1).blind().who(), "libkineto.so");
  }
  EXPECT_EQ(read.frames[3].packet_size(), 1);
}

TEST(TraceWriterTest, MoreBlindPeriodsThanItHoldsAreWidenedNotForgotten) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  for (int64_t i = 0; i < 100; ++i) harness.writer.AddBlind(1000 + i * 10, 1005 + i * 10, "x", "y");
  ASSERT_TRUE(harness.writer.CloseFrame());
  const Trace trace = ReadBytes(harness.File()).frames[0];
  int64_t latest = 0;
  for (const Packet& packet : trace.packet()) latest = std::max(latest, packet.blind().end_ns());
  EXPECT_EQ(latest, 1005 + 990);
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

// A full disk may have room for a small frame.
TEST(TraceWriterTest, ARefusedEndIsTriedAgainWithoutItsRecordsWhichAreCounted) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  harness.writer.OnKernel(SomeKernel(harness.Name("k")));
  harness.refuse_frames = true;
  EXPECT_FALSE(harness.writer.Finish("exit", 0));
  harness.refuse_frames = false;
  EXPECT_TRUE(harness.writer.Finish("exit", 0));
  EXPECT_FALSE(harness.writer.Finish("exit", 0));
  ASSERT_EQ(harness.frames.size(), 1u);
  EXPECT_EQ(harness.writer.stats().records, 0u);
  EXPECT_EQ(harness.writer.stats().records_lost, 1u);
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/sample_encoder.h"

#include "gtest/gtest.h"
#include "proto/gpuprobe.pb.h"
#include "proto/sample_columns.h"
#include "tests/proto/sample_maker.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {
namespace {

constexpr int64_t kBaseNs = kTestStartNs;

TEST(SampleEncoderTest, AnEmptyPieceIsAMessageWithTimesAndTotalsOnly) {
  SampleMaker maker(kBaseNs);
  EXPECT_TRUE(maker.encoder.empty());
  const HostSamples piece = maker.Seal(kBaseNs + 5, {1, 2, 3, 4, 5});
  EXPECT_EQ(piece.base_ns(), kBaseNs);
  EXPECT_EQ(piece.begin_ns(), kBaseNs);
  EXPECT_EQ(piece.end_ns(), kBaseNs + 5);
  EXPECT_EQ(piece.sampler_cpu_ns(), 1u);
  EXPECT_EQ(piece.looks(), 2u);
  EXPECT_EQ(piece.ticks_missed(), 3u);
  EXPECT_EQ(piece.samples_dropped(), 4u);
  EXPECT_EQ(piece.stacks_unreadable(), 5u);
  EXPECT_EQ(piece.threads_size() + piece.processes_size() + piece.strings_size(), 0);
}

TEST(SampleEncoderTest, TextsLocationsAndStacksAreWrittenOnce) {
  SampleMaker maker(kBaseNs);
  SampleEncoder& e = maker.encoder;
  const uint32_t inner = maker.Location(17, "decode", "dataset.py", 12);
  const uint32_t outer = maker.Location(18, "main", "dataset.py", 40);
  EXPECT_EQ(e.FindLocation(17), inner);
  EXPECT_EQ(e.FindLocation(19), 0u);
  EXPECT_EQ(e.AddLocation(17, 0, 0, 0, 0, 0), inner);
  const uint32_t both[] = {inner, outer};
  const uint32_t stack = e.InternStack(both, 2);
  EXPECT_NE(stack, 0u);
  EXPECT_EQ(e.InternStack(both, 2), stack);
  EXPECT_EQ(e.InternStack(both + 1, 1), 1u);
  EXPECT_EQ(e.InternStack(both, 0), 0u);
  const HostSamples piece = maker.Seal(kBaseNs + 5);
  EXPECT_THAT(piece.strings(), testing::ElementsAre("decode", "dataset.py", "main"));
  SampleTables tables;
  Decode(piece, &tables);
  ASSERT_EQ(tables.locations.size(), 2u);
  EXPECT_EQ(tables.locations[0].function, 1u);
  EXPECT_EQ(tables.locations[1].function, 3u);
  EXPECT_EQ(tables.locations[1].file, 2u);
  EXPECT_EQ(tables.locations[1].line, 40u);
  ASSERT_EQ(tables.nodes.size(), 2u);
  EXPECT_EQ(tables.nodes[0].parent, 0u);
  EXPECT_EQ(tables.nodes[0].location, 2u);
  EXPECT_EQ(tables.nodes[1].parent, 1u);
  EXPECT_EQ(tables.nodes[1].location, 1u);
}

TEST(SampleEncoderTest, BeginForgetsThePieceBefore) {
  SampleMaker maker(kBaseNs);
  const uint32_t location = maker.Location(17, "f", "a.py", 1);
  maker.encoder.InternStack(&location, 1);
  maker.encoder.AddSample(1, 2, {.time_ns = kBaseNs});
  maker.encoder.AddProcess({.pid = 1});
  maker.encoder.Begin(kBaseNs + 100);
  EXPECT_TRUE(maker.encoder.empty());
  EXPECT_EQ(maker.encoder.FindLocation(17), 0u);
  EXPECT_EQ(maker.encoder.InternText("other"), 1u);
  const HostSamples piece = maker.Seal(kBaseNs + 200);
  EXPECT_THAT(piece.strings(), testing::ElementsAre("other"));
  EXPECT_EQ(piece.threads_size() + piece.processes_size() + piece.node_location_delta_size(), 0);
}

TEST(SampleEncoderTest, WhatIsSaidOfAProcessLastIsWhatIsWritten) {
  SampleMaker maker(kBaseNs);
  const std::string_view reason = "no";
  EXPECT_TRUE(maker.encoder.AddProcess({.pid = 1, .name = "a", .start_ticks = 5}));
  EXPECT_TRUE(maker.encoder.AddProcess({.pid = 1, .name = "b", .start_ticks = 6}));
  EXPECT_TRUE(maker.encoder.AddProcess({.pid = 1,
                                        .name = "a",
                                        .python_version = "3.12.1",
                                        .unreadable = &reason,
                                        .unreadable_count = 1,
                                        .start_ticks = 5}));
  const HostSamples piece = maker.Seal(kBaseNs);
  ASSERT_EQ(piece.processes_size(), 2);
  EXPECT_EQ(piece.processes(0).python_version(), "3.12.1");
  EXPECT_EQ(piece.processes(0).unreadable(0), "no");
  EXPECT_EQ(piece.processes(1).name(), "b");
}

TEST(SampleEncoderTest, BytesThatAreNoUtf8BecomeQuestionMarksAndAreStillFoundAgain) {
  SampleMaker maker(kBaseNs);
  const uint32_t id = maker.encoder.InternText(
      "a\xff"
      "b");
  EXPECT_EQ(maker.encoder.InternText("a\xff"
                                     "b"),
            id);
  EXPECT_EQ(maker.encoder.InternText("a?b"), id);
  maker.encoder.InternText(std::string(2000, 'x'));
  maker.encoder.AddSample(1, 1, {.time_ns = kBaseNs});
  maker.encoder.NameThread(1, 1, "t\x80", true);
  const std::string_view reason = "no\xfe";
  maker.encoder.AddProcess(
      {.pid = 1, .name = "\xc3", .unreadable = &reason, .unreadable_count = 1});
  const HostSamples piece = maker.Seal(kBaseNs);
  EXPECT_EQ(piece.strings(0), "a?b");
  EXPECT_EQ(piece.strings(1), std::string(1024, 'x'));
  EXPECT_EQ(piece.threads(0).name(), "t?");
  EXPECT_EQ(piece.processes(0).name(), "?");
  EXPECT_EQ(piece.processes(0).unreadable(0), "no?");
}

TEST(SampleEncoderTest, IdsOutOfRangeCountAsNone) {
  SampleMaker maker(kBaseNs);
  maker.encoder.AddLocation(5, 77, 0x10001, 3, 0, 0);
  const uint32_t locations[] = {9, 1, 0x10001};
  maker.encoder.InternStack(locations, 3);
  maker.encoder.AddSample(1, 2, {.time_ns = kBaseNs, .stack = 0x10001, .wait_target = 8});
  const HostSamples piece = maker.Seal(kBaseNs);
  SampleTables tables;
  Decode(piece, &tables);
  ASSERT_EQ(tables.locations.size(), 1u);
  EXPECT_EQ(tables.locations[0].function, 0u);
  EXPECT_EQ(tables.locations[0].file, 0u);
  ASSERT_EQ(tables.nodes.size(), 3u);
  EXPECT_EQ(tables.nodes[0].location, 0u);
  EXPECT_EQ(tables.nodes[1].location, 1u);
  EXPECT_EQ(tables.nodes[2].location, 0u);
  EXPECT_EQ(tables.invalid_ids, 0u);
  EXPECT_EQ(piece.threads(0).stack_size(), 0);
  EXPECT_EQ(piece.threads(0).wait_target_size(), 0);
}

TEST(SampleEncoderTest, ModulesKeepTheirBuildIds) {
  SampleMaker maker(kBaseNs);
  const uint32_t path = maker.encoder.InternText("/lib/libc.so.6");
  const std::string id("\x01\xff\x00\x80", 4), long_id(65, 'x');
  EXPECT_TRUE(maker.encoder.AddModule(path, id.data(), id.size()));
  EXPECT_FALSE(maker.encoder.AddModule(0, id.data(), id.size()));
  EXPECT_FALSE(maker.encoder.AddModule(path + 1, id.data(), id.size()));
  EXPECT_FALSE(maker.encoder.AddModule(path, id.data(), 0));
  EXPECT_FALSE(maker.encoder.AddModule(path, long_id.data(), long_id.size()));
  EXPECT_FALSE(maker.encoder.full());
  const HostSamples piece = maker.Seal(kBaseNs);
  ASSERT_EQ(piece.modules_size(), 1);
  EXPECT_EQ(piece.modules(0).file(), path);
  EXPECT_EQ(piece.modules(0).build_id(), id);
}

TEST(SampleEncoderTest, TwentyThreadsAt100HzWithDeepStacksLeaveMoreThanHalfOfTheRoom) {
  SampleMaker maker(kBaseNs);
  std::mt19937_64 random(3);
  const auto piece = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      for (uint32_t tid = 0; tid < 20; ++tid) {
        uint32_t frames[64];
        for (uint32_t i = 0; i < 64; ++i) {
          // The inner 16 frames wander among 40 lines each, the outer ones stand.
          const uint32_t line = i < 16 ? static_cast<uint32_t>(random() % 40) : 0;
          frames[i] = maker.Location(
              1 + i * 64 + line, "Module.function_of_some_length" + std::to_string(i),
              "/usr/lib/python3/dist-packages/m" + std::to_string(i) + ".py", line + 1);
        }
        SampleRecord sample = {.time_ns = kBaseNs + tick * 10'000'000, .interval_ns = 10'000'000};
        sample.stack = maker.encoder.InternStack(frames, 64);
        if (!maker.encoder.AddSample(4711, tid, sample)) return false;
      }
    }
    return !maker.encoder.full();
  };
  EXPECT_TRUE(piece(25));
  EXPECT_LT(maker.SealedBytes(kBaseNs), SampleEncoder::kMaxSealedBytes / 2);
}

// Whatever is full first: nothing is half added, and what is there can always be sealed.
class SampleEncoderFullTest : public testing::TestWithParam<int> {};

TEST_P(SampleEncoderFullTest, RefusesAndStillSealsIntoTheStatedBytes) {
  SampleMaker maker(kBaseNs);
  SampleEncoder& e = maker.encoder;
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  uint64_t samples = 0, processes = 0;
  uint32_t number = 0;
  for (int i = 0; i < 30000; ++i) {
    ++number;
    const uint64_t wild = ~uint64_t{0} >> (GetParam() % 2 == 0 ? 1 : 40);
    const uint32_t wide = static_cast<uint32_t>(wild);
    if (GetParam() != 1) {
      e.InternText(std::to_string(number) + std::string(GetParam() < 4 ? random() % 300 : 0, 'n'));
    }
    if (GetParam() != 2) e.AddLocation(number, 4000, 4000, wide, wild, 1);
    uint32_t frames[8];
    for (uint32_t& frame : frames) frame = static_cast<uint32_t>(random() % 4096);
    const uint32_t stack = GetParam() == 3 ? 0 : e.InternStack(frames, 8);
    const SampleRecord sample = {
        static_cast<int64_t>(random()),  wild, wild, wild, wide, wide, stack,
        static_cast<int32_t>(wide >> 1), 4000, wide};
    samples += e.AddSample(wide, GetParam() == 4 ? number : number % 7, sample);
    e.NameThread(wide, number % 7, std::string(70, 'n'), true);
    const std::string text(GetParam() == 5 ? 0 : 300, 't');
    const std::string_view reasons[] = {text, text};
    e.AddModule(1, text.data(), text.empty() ? 0 : 64);
    processes += e.AddProcess({number, wide, text, text, text, reasons, 2, wild, wide, true});
  }
  EXPECT_TRUE(e.full());
  const HostSamples piece = maker.Seal(INT64_MAX, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull});
  uint64_t found = 0;
  for (const ThreadSamples& thread : piece.threads()) {
    found += static_cast<uint64_t>(thread.time_delta_size());
  }
  EXPECT_EQ(found, samples);
  EXPECT_EQ(static_cast<uint64_t>(piece.processes_size()), processes);
  EXPECT_GT(samples, 0u);
  e.Begin(kBaseNs);
  EXPECT_FALSE(e.full());
  EXPECT_NE(e.InternText("again"), 0u);
}
INSTANTIATE_TEST_SUITE_P(Kinds, SampleEncoderFullTest, testing::Range(0, 6));

TEST(PacketBuilderTest, ASerialisedPacketStandsInTheFrameAsItIs) {
  SampleMaker maker(kBaseNs);
  maker.encoder.AddSample(1, 2, {.time_ns = kBaseNs + 7'000});
  const std::string piece = maker.SealBytes(kBaseNs + 10'000);
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  bool added = false, too_large = true, again = false;
  harness.add_packets = [&](PacketBuilder* out) {
    added = out->AddSerializedPacket(23, piece.data(), piece.size());
    const std::string huge(2u << 20, 'x');
    too_large = out->AddSerializedPacket(23, huge.data(), huge.size());
    again = out->AddSerializedPacket(23, piece.data(), piece.size());
  };
  ASSERT_TRUE(harness.writer.CloseFrame() || harness.writer.Finish("exit", 0));
  EXPECT_TRUE(added);
  EXPECT_FALSE(too_large);
  EXPECT_TRUE(again);
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_GE(read.frames.size(), 1u);
  int pieces = 0;
  for (const Packet& packet : read.frames[0].packet()) {
    if (!packet.has_host_samples()) continue;
    EXPECT_EQ(packet.host_samples().SerializeAsString().size(), piece.size());
    EXPECT_EQ(packet.host_samples().threads(0).time_delta(0), 7);  // microseconds
    ++pieces;
  }
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(harness.writer.stats().packets_left_out, 1u);
}

// The largest piece that can be has a place in a frame.
TEST(PacketBuilderTest, APieceOfTheGreatestSizeFitsIntoAFrame) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  bool added = false;
  const std::string piece(SampleEncoder::kMaxSealedBytes, '\x12');
  harness.add_packets = [&](PacketBuilder* out) {
    added = out->AddSerializedPacket(99, piece.data(), piece.size());
  };
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  EXPECT_TRUE(added);
}

}  // namespace
}  // namespace gpuprobe::proto

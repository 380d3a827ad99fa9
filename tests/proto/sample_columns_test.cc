// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/sample_columns.h"

#include <map>
#include <tuple>

#include "gtest/gtest.h"
#include "proto/format.h"
#include "tests/proto/sample_load.h"
#include "tests/proto/sample_maker.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {
namespace {

constexpr int64_t kBaseNs = kTestStartNs;

struct Decoded {
  explicit Decoded(const HostSamples& piece) {
    Decode(piece, &tables);
    for (const ThreadSamples& thread : piece.threads()) {
      SampleColumns& columns = threads[{thread.pid(), thread.tid()}];
      Decode(thread, piece, tables, &columns);
    }
  }
  SampleTables tables;
  std::map<std::pair<uint32_t, uint32_t>, SampleColumns> threads;
};

int64_t Micro(uint64_t ns) {
  return ns == 0 ? 0 : std::max<int64_t>(1000, static_cast<int64_t>((ns + 500) / 1000 * 1000));
}

TEST(SampleColumnsTest, WhatWasAddedComesBackToTheMicrosecond) {
  SampleMaker maker(kBaseNs);
  SampleLoad load(kBaseNs);
  std::map<std::pair<uint32_t, uint32_t>, std::vector<SampleRecord>> added;
  for (int tick = 0; tick < 25; ++tick) {
    load.Tick(&maker, [&](uint32_t pid, uint32_t tid, const SampleRecord& sample) {
      ASSERT_TRUE(maker.encoder.AddSample(pid, tid, sample));
      added[{pid, tid}].push_back(sample);
    });
  }
  const Decoded read(maker.Seal(kBaseNs + 250'000'000));
  ASSERT_EQ(read.threads.size(), SampleLoad::kThreads);
  for (const auto& [key, columns] : read.threads) {
    const std::vector<SampleRecord>& samples = added[key];
    ASSERT_EQ(columns.count, samples.size());
    EXPECT_EQ(columns.clipped + columns.invalid_ids + columns.invalid_times, 0u);
    for (size_t i = 0; i < columns.count; ++i) {
      EXPECT_NEAR(columns.time_ns[i] - samples[i].time_ns, 0, 1000);
      EXPECT_NEAR(columns.interval_ns[i] - static_cast<int64_t>(samples[i].interval_ns), 0, 1000);
      EXPECT_NEAR(columns.cpu_ns[i] - static_cast<int64_t>(samples[i].cpu_ns), 0, 1000);
      EXPECT_NEAR(columns.runnable_ns[i] - static_cast<int64_t>(samples[i].runnable_ns), 0, 1500);
      EXPECT_LE(columns.cpu_ns[i] + columns.runnable_ns[i], columns.interval_ns[i]);
      EXPECT_EQ(columns.cpu_ns[i] == 0, samples[i].cpu_ns == 0);
      EXPECT_EQ(columns.state[i], samples[i].state);
      EXPECT_EQ(columns.stack[i], samples[i].stack);
      EXPECT_EQ(columns.syscall[i], samples[i].syscall);
      EXPECT_EQ(columns.wait_target[i], samples[i].wait_target);
      EXPECT_EQ(columns.flags[i], samples[i].flags);
    }
  }
}

// Whatever the encoder is given; values are exact where they are whole microseconds.
TEST(SampleColumnsTest, WildSamplesComeBack) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    SampleMaker maker(kBaseNs);
    maker.encoder.InternText("a");
    const uint32_t location = maker.Location(1, "f", "a.py", 1);
    maker.encoder.InternStack(&location, 1);
    std::map<std::pair<uint32_t, uint32_t>, std::vector<SampleRecord>> added;
    const auto below = [&](uint64_t n) { return random() % n; };
    int64_t time_ns = kBaseNs;
    for (int i = 0; i < 200; ++i) {
      SampleRecord sample = {};
      time_ns += (static_cast<int64_t>(below(20'000'000)) - 5'000'000) / 1000 * 1000;
      sample.time_ns = time_ns;
      sample.interval_ns = (below(2) ? random() >> 3 >> below(60) : 10'000) / 1000 * 1000;
      sample.cpu_ns = (random() >> 3 >> below(60)) / 1000 * 1000;
      sample.runnable_ns = (random() >> 3 >> below(60)) / 1000 * 1000;
      sample.state = static_cast<uint32_t>(random() >> 32 >> below(32));
      sample.flags = static_cast<uint32_t>(random() >> 32 >> below(32));
      sample.stack = static_cast<uint32_t>(below(2));
      sample.syscall = static_cast<int32_t>(below(500)) - 1;
      sample.wait_target = static_cast<uint32_t>(below(2));
      sample.gil_holder = static_cast<uint32_t>(random() >> 32 >> below(32));
      const std::pair<uint32_t, uint32_t> key = {1 + static_cast<uint32_t>(below(2)),
                                                 10 + static_cast<uint32_t>(below(3))};
      ASSERT_TRUE(maker.encoder.AddSample(key.first, key.second, sample));
      added[key].push_back(sample);
    }
    const Decoded read(maker.Seal(kBaseNs));
    ASSERT_EQ(read.threads.size(), added.size());
    for (const auto& [key, columns] : read.threads) {
      const std::vector<SampleRecord>& samples = added[key];
      ASSERT_EQ(columns.count, samples.size());
      EXPECT_EQ(columns.invalid_ids + columns.invalid_times, 0u);
      for (size_t i = 0; i < columns.count; ++i) {
        const SampleRecord& s = samples[i];
        ASSERT_EQ(
            std::tuple(columns.time_ns[i], columns.interval_ns[i], columns.cpu_ns[i],
                       columns.runnable_ns[i]),
            std::tuple(s.time_ns, Micro(s.interval_ns), Micro(s.cpu_ns), Micro(s.runnable_ns)));
        ASSERT_EQ(std::tuple(columns.state[i], columns.flags[i], columns.stack[i],
                             columns.syscall[i], columns.wait_target[i], columns.gil_holder[i]),
                  std::tuple(s.state, s.flags, s.stack, s.syscall, s.wait_target, s.gil_holder));
      }
    }
  }
}

TEST(SampleColumnsTest, TwoPiecesOfRealisticLoadTakeLessThan13BytesASample) {
  SampleLoad load(kBaseNs);
  SampleMaker maker(kBaseNs);
  uint64_t samples = 0, bytes = 0;
  for (int frame = 0; frame < 4; ++frame) {
    std::string content;
    for (int piece = 0; piece < 2; ++piece) {
      maker.encoder.Begin(kBaseNs + (frame * 2 + piece) * 250'000'000);
      for (int tick = 0; tick < 25; ++tick) {
        load.Tick(&maker, [&](uint32_t pid, uint32_t tid, const SampleRecord& sample) {
          samples += maker.encoder.AddSample(pid, tid, sample);
        });
      }
      content += maker.SealBytes(kBaseNs + (frame * 2 + piece + 1) * 250'000'000);
    }
    bytes += Compress(content).size();
  }
  EXPECT_EQ(samples, 4u * 2 * 25 * SampleLoad::kThreads);
  RecordProperty("bytes_per_1000_samples", static_cast<int>(bytes * 1000 / samples));
  EXPECT_LT(bytes, samples * 13);
}

TEST(SampleColumnsTest, AbsentColumnsAreZero) {
  HostSamples piece;
  piece.set_base_ns(100);
  ThreadSamples& thread = *piece.add_threads();
  thread.add_time_delta(5);
  thread.add_time_delta(6);
  thread.add_state(2);
  const Decoded read(piece);
  const SampleColumns& columns = read.threads.begin()->second;
  ASSERT_EQ(columns.count, 2u);
  EXPECT_EQ(columns.time_ns, (std::vector<int64_t>{105, 111}));  // no unit: nanoseconds
  EXPECT_EQ(columns.interval_ns, (std::vector<int64_t>{0, 6}));
  EXPECT_EQ(columns.state, (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(columns.syscall, (std::vector<int32_t>{-1, -1}));
  EXPECT_EQ(columns.stack, (std::vector<uint32_t>{0, 0}));
}

TEST(SampleColumnsTest, IdsThatPointNowhereBecomeNone) {
  HostSamples piece;
  piece.add_strings("only");
  for (int delta : {1, 1, -3, INT32_MIN}) piece.add_location_function_delta(delta);
  piece.add_location_file_delta(9);
  piece.add_location_kind(7);
  for (int i = 0; i < 5; ++i) piece.add_location_line(1);  // one too many
  for (int delta : {1, 3, 1, -10}) piece.add_node_location_delta(delta);
  for (uint32_t distance : {1u, 1u, 3u, 4u}) piece.add_node_parent_distance(distance);
  ThreadSamples& thread = *piece.add_threads();
  thread.add_time_delta(0);
  thread.add_stack(5);
  thread.add_wait_target(2);
  thread.add_syscall_plus1(0x80000000u);
  thread.add_flags(1);
  thread.add_flags(1);  // one too many
  const Decoded read(piece);
  const SampleTables& tables = read.tables;
  ASSERT_EQ(tables.locations.size(), 4u);
  EXPECT_EQ(tables.clipped, 1u);
  EXPECT_EQ(tables.locations[0].function, 1u);
  EXPECT_EQ(tables.locations[1].function, 0u);
  EXPECT_EQ(tables.locations[0].file, 0u);
  EXPECT_FALSE(tables.locations[0].native);
  ASSERT_EQ(tables.nodes.size(), 4u);
  EXPECT_EQ(tables.nodes[0].parent, 0u);  // nothing stands before the first
  EXPECT_EQ(tables.nodes[1].parent, 1u);
  EXPECT_EQ(tables.nodes[2].parent, 0u);
  EXPECT_EQ(tables.nodes[3].parent, 0u);
  EXPECT_EQ(tables.nodes[1].location, 4u);
  EXPECT_EQ(tables.nodes[2].location, 0u);
  EXPECT_GT(tables.invalid_ids, 5u);
  const SampleColumns& columns = read.threads.begin()->second;
  EXPECT_EQ(columns.clipped, 1u);
  EXPECT_EQ(columns.invalid_ids, 3u);
  EXPECT_EQ(columns.stack[0], 0u);
  EXPECT_EQ(columns.wait_target[0], 0u);
  EXPECT_EQ(columns.syscall[0], -1);
}

TEST(SampleColumnsTest, AnyMessageDecodesToTablesThatHold) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    HostSamples piece;
    const auto below = [&](uint64_t n) { return random() % n; };
    const auto wild = [&] { return random() >> below(64); };
    const auto fill = [&](auto* column) {
      using Column = std::remove_pointer_t<decltype(column)>;
      for (uint64_t n = below(20); n > 0; --n) {
        column->Add(static_cast<typename Column::value_type>(below(3) ? below(8) : wild()));
      }
    };
    piece.set_base_ns(static_cast<int64_t>(wild()));
    piece.set_unit_ns(static_cast<uint32_t>(wild()));
    for (uint64_t n = below(5); n > 0; --n) piece.add_strings("s");
    fill(piece.mutable_location_function_delta());
    fill(piece.mutable_location_file_delta());
    fill(piece.mutable_location_line());
    fill(piece.mutable_location_offset());
    fill(piece.mutable_location_kind());
    fill(piece.mutable_node_parent_distance());
    fill(piece.mutable_node_location_delta());
    ThreadSamples& thread = *piece.add_threads();
    fill(thread.mutable_time_delta());
    fill(thread.mutable_interval_excess());
    fill(thread.mutable_cpu());
    fill(thread.mutable_runnable());
    fill(thread.mutable_state());
    fill(thread.mutable_stack());
    fill(thread.mutable_syscall_plus1());
    fill(thread.mutable_wait_target());
    fill(thread.mutable_flags());
    fill(thread.mutable_gil_holder());
    const Decoded read(piece);
    for (const auto& location : read.tables.locations) {
      ASSERT_LE(location.function, read.tables.strings);
      ASSERT_LE(location.file, read.tables.strings);
    }
    for (size_t i = 0; i < read.tables.nodes.size(); ++i) {
      ASSERT_LE(read.tables.nodes[i].parent, i);
      ASSERT_LE(read.tables.nodes[i].location, read.tables.locations.size());
    }
    const SampleColumns& columns = read.threads.begin()->second;
    ASSERT_EQ(columns.count, static_cast<size_t>(thread.time_delta_size()));
    for (size_t i = 0; i < columns.count; ++i) {
      ASSERT_GE(columns.interval_ns[i], 0);
      ASSERT_GE(columns.cpu_ns[i], 0);
      ASSERT_GE(columns.runnable_ns[i], 0);
      ASSERT_LE(columns.stack[i], read.tables.nodes.size());
      ASSERT_LE(columns.wait_target[i], read.tables.strings);
      ASSERT_GE(columns.syscall[i], -1);
    }
  }
}

// libprotobuf takes some hundred bytes for what takes two in the file.
TEST(SampleColumnsTest, AFrameOfTooManyThreadsOrTextsIsRefused) {
  for (const int kind : {0, 1, 2}) {
    Trace trace;
    trace.add_packet()->mutable_frame_header()->set_format_version(1);
    HostSamples& piece = *trace.add_packet()->mutable_host_samples();
    SampledProcess& process = *piece.add_processes();
    for (size_t i = 0; i <= kMaxFrameMessages; ++i) {
      if (kind == 0) piece.add_threads();
      if (kind == 1) process.add_unreadable("");
      if (kind == 2) piece.add_strings("");
    }
    const ReadResult read = ReadBytes(Compress(trace.SerializeAsString()));
    EXPECT_EQ(read.frames.size(), 0u) << kind;
    EXPECT_EQ(read.Count(Damage::Kind::kCorrupt), 1u) << kind;
  }
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Losses and blind periods: told once, in a frame that arrives.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "proto/trace_writer.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_facts.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

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

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_batches.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "proto/frame_validation.h"

namespace gpuprobe::proto {
namespace {

constexpr int64_t kBaseNs = 1'796'036'664'114'978'722;

FrameHeader Header() {
  FrameHeader header;
  header.set_base_ns(kBaseNs);
  return header;
}

// Numbers of all lengths that a varint can have, mostly short ones.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}
  uint64_t Any() { return random_() >> (random_() % 4 == 0 ? random_() % 64 : 56 + random_() % 8); }
  int64_t Signed() { return static_cast<int64_t>(Any()) * (random_() % 2 == 0 ? 1 : -1); }
  size_t Count() { return 1 + random_() % 700; }
  bool Coin() { return random_() % 2 == 0; }

 private:
  std::mt19937_64 random_;
};

template <class Batch>
void FillCommon(Numbers* numbers, size_t count, Batch* batch) {
  batch->set_count(static_cast<uint32_t>(count));
  const bool split = numbers->Coin();
  if (split) batch->set_time_shift(8);
  for (size_t i = 0; i < count; ++i) {
    batch->add_start_delta(numbers->Signed());
    batch->add_duration(numbers->Any());
    batch->add_correlation_delta(numbers->Signed());
    if (split) batch->mutable_start_low()->push_back(static_cast<char>(numbers->Any()));
    if (split) batch->mutable_duration_low()->push_back(static_cast<char>(numbers->Any()));
  }
}

KernelBatch SomeKernels(uint64_t seed) {
  Numbers numbers(seed);
  KernelBatch batch;
  const size_t count = numbers.Count();
  FillCommon(&numbers, count, &batch);
  batch.set_device(numbers.Coin() ? 0 : 3);
  batch.set_context(1);
  batch.set_stream(static_cast<uint32_t>(numbers.Any()));
  const bool graphs = numbers.Coin(), shapes = !graphs || numbers.Coin();
  for (size_t i = 0; i < count; ++i) {
    if (shapes) batch.add_shape(static_cast<uint32_t>(numbers.Any()));
    if (graphs) batch.add_graph_id(static_cast<uint32_t>(numbers.Any()));
    if (graphs) batch.add_graph_node_id(numbers.Any());
  }
  return batch;
}

ApiBatch SomeCalls(uint64_t seed) {
  Numbers numbers(seed);
  ApiBatch batch;
  const size_t count = numbers.Count();
  FillCommon(&numbers, count, &batch);
  batch.set_thread(static_cast<uint32_t>(numbers.Any()));
  for (size_t i = 0; i < count; ++i) batch.add_symbol(static_cast<uint32_t>(numbers.Any()));
  for (size_t i = 0; numbers.Coin(); ++i) {
    batch.add_failed_index(static_cast<uint32_t>(numbers.Coin() ? i % count : numbers.Any()));
    batch.add_failed_result(static_cast<int32_t>(numbers.Signed()));
  }
  return batch;
}

void ExpectSame(const BatchColumns& a, const BatchColumns& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.clipped_records, b.clipped_records);
  EXPECT_EQ(a.invalid_times, b.invalid_times);
  EXPECT_EQ(a.start_ns, b.start_ns);
  EXPECT_EQ(a.end_ns, b.end_ns);
  EXPECT_EQ(a.correlation, b.correlation);
}

TEST(FrameBatchesTest, KernelsComeOutAsFromTheMessage) {
  KernelColumns usual, decoded;  // used again and again, as readers do
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const KernelBatch batch = SomeKernels(seed);
    ASSERT_TRUE(DecodeUsual(batch.SerializeAsString(), kBaseNs, &usual)) << seed;
    Decode(batch, Header(), &decoded);
    ExpectSame(usual, decoded);
    EXPECT_EQ(usual.device, decoded.device);
    EXPECT_EQ(usual.context, decoded.context);
    EXPECT_EQ(usual.stream, decoded.stream);
    EXPECT_EQ(usual.timing, decoded.timing);
    EXPECT_EQ(usual.shape, decoded.shape);
    EXPECT_EQ(usual.graph_id, decoded.graph_id);
    EXPECT_EQ(usual.graph_node_id, decoded.graph_node_id);
    EXPECT_EQ(usual.queued_before_ns, decoded.queued_before_ns);
    EXPECT_EQ(usual.submitted_before_ns, decoded.submitted_before_ns);
  }
}

TEST(FrameBatchesTest, CallsComeOutAsFromTheMessage) {
  ApiColumns usual, decoded;
  int taken = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const ApiBatch batch = SomeCalls(seed);
    ASSERT_TRUE(DecodeUsual(batch.SerializeAsString(), kBaseNs, &usual)) << seed;
    Decode(batch, Header(), &decoded);
    ExpectSame(usual, decoded);
    EXPECT_EQ(usual.thread, decoded.thread);
    EXPECT_EQ(usual.symbol, decoded.symbol);
    EXPECT_EQ(usual.result, decoded.result);
    ++taken;
  }
  EXPECT_EQ(taken, 300);
}

TEST(FrameBatchesTest, WhatTheWriterDoesNotMakeIsLeftToLibprotobuf) {
  const KernelBatch good = SomeKernels(1);
  KernelColumns columns;
  const auto taken = [&columns](const KernelBatch& batch, const std::string& more = "") {
    return DecodeUsual(batch.SerializeAsString() + more, kBaseNs, &columns);
  };
  ASSERT_TRUE(taken(good));
  KernelBatch other = good;
  other.set_count(good.count() + 1);
  EXPECT_FALSE(taken(other)) << "claims more than there is";
  other.set_count(good.count() - 1);
  EXPECT_FALSE(taken(other)) << "claims less than there is";
  other.clear_count();
  EXPECT_FALSE(taken(other)) << "claims nothing";
  other = good;
  other.add_shape(1);
  EXPECT_FALSE(taken(other)) << "a column of another length";
  other = good;
  other.set_timing(2);
  EXPECT_FALSE(taken(other)) << "no valid times";
  other = good;
  other.set_start_low("x");
  other.set_duration_low("x");
  EXPECT_FALSE(taken(other)) << "low bytes of another length";
  other = good;
  other.add_queued_before(1);
  EXPECT_FALSE(taken(other)) << "a column that is not taken";
  EXPECT_FALSE(taken(good, "\x68\x01")) << "a field twice";
  EXPECT_FALSE(taken(good, std::string("\xf8\x01\x01", 3))) << "an unknown field";
  EXPECT_FALSE(taken(good, "\x08")) << "cut off";
  EXPECT_FALSE(taken(good, "\x4a\x7f")) << "longer than it is";
}

TEST(FrameBatchesTest, NoPrefixOfABatchIsTakenForAnother) {
  const std::string batch = SomeCalls(2).SerializeAsString();
  ApiColumns columns;
  for (size_t bytes = 0; bytes < batch.size(); ++bytes) {
    const bool taken = DecodeUsual(std::string_view(batch).substr(0, bytes), kBaseNs, &columns);
    ApiBatch message;
    if (!taken) continue;
    // Where whole fields are missing at the end it is a batch still.
    ASSERT_TRUE(message.ParseFromString(batch.substr(0, bytes))) << bytes;
    ApiColumns decoded;
    Decode(message, Header(), &decoded);
    ExpectSame(columns, decoded);
    EXPECT_EQ(columns.result, decoded.result);
  }
}

std::string FrameOf(const std::vector<Packet>& packets) {
  Trace trace;
  *trace.add_packet()->mutable_frame_header() = Header();
  for (const Packet& packet : packets) *trace.add_packet() = packet;
  return trace.SerializeAsString();
}

TEST(FrameBatchesTest, BatchesKeepTheirPlaceAmongThePackets) {
  std::vector<Packet> packets(5);
  packets[0].mutable_dictionary()->add_names("name");
  *packets[1].mutable_kernels() = SomeKernels(3);
  *packets[2].mutable_copies() = CopyBatch();
  *packets[3].mutable_api() = SomeCalls(4);
  *packets[4].mutable_kernels() = SomeKernels(5);
  packets[4].mutable_kernels()->set_timing(1);  // not taken
  Trace trace;
  FrameBatches batches;
  ASSERT_EQ(ParseFrame(FrameOf(packets), &trace, &batches), nullptr);
  ASSERT_EQ(trace.packet_size(), 6);
  EXPECT_TRUE(trace.packet(1).has_dictionary());
  EXPECT_EQ(trace.packet(2).data_case(), Packet::DATA_NOT_SET);
  EXPECT_TRUE(trace.packet(3).has_copies());
  EXPECT_EQ(trace.packet(4).data_case(), Packet::DATA_NOT_SET);
  EXPECT_TRUE(trace.packet(5).has_kernels());
  ASSERT_EQ(batches.batches().size(), 2u);
  EXPECT_EQ(batches.batches()[0].packet, 2);
  EXPECT_EQ(batches.batches()[0].kernels->count, packets[1].kernels().count());
  EXPECT_EQ(batches.batches()[1].packet, 4);
  EXPECT_EQ(batches.batches()[1].api->count, packets[3].api().count());
  uint64_t unknown_packets = 0, unknown_fields = 0;
  CountUnknown(trace, batches, &unknown_packets, &unknown_fields);
  EXPECT_EQ(unknown_packets, 0u);
  EXPECT_EQ(unknown_fields, 0u);
}

TEST(FrameBatchesTest, DamagedFramesAreJudgedAsLibprotobufJudgesThem) {
  std::vector<Packet> packets(2);
  *packets[0].mutable_kernels() = SomeKernels(6);
  *packets[1].mutable_api() = SomeCalls(7);
  const std::string good = FrameOf(packets);
  std::mt19937_64 random(8);
  int refused = 0, taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string frame = good;
    frame[random() % frame.size()] = static_cast<char>(random());
    Trace whole, rest;
    FrameBatches batches;
    const char* const by_protobuf = ParseFrame(frame, &whole);
    const char* const by_both = ParseFrame(frame, &rest, &batches);
    ASSERT_EQ(by_protobuf == nullptr, by_both == nullptr) << i;
    refused += by_both != nullptr ? 1 : 0;
    if (by_both != nullptr) continue;
    ASSERT_EQ(whole.packet_size(), rest.packet_size());
    for (const FrameBatches::Batch& batch : batches.batches()) {
      const Packet& packet = whole.packet(batch.packet);
      ++taken;
      if (batch.kernels != nullptr) {
        KernelColumns decoded;
        Decode(packet.kernels(), whole.packet(0).frame_header(), &decoded);
        ExpectSame(*batch.kernels, decoded);
        EXPECT_EQ(batch.kernels->shape, decoded.shape);
      } else {
        ApiColumns decoded;
        Decode(packet.api(), whole.packet(0).frame_header(), &decoded);
        ExpectSame(*batch.api, decoded);
        EXPECT_EQ(batch.api->result, decoded.result);
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}

TEST(FrameBatchesTest, TakesNoMoreThanAFewRealFramesHold) {
  ApiBatch calls;
  calls.set_count(kMaxBatchRecords);
  for (size_t i = 0; i < kMaxBatchRecords; ++i) calls.add_correlation_delta(1);
  std::vector<Packet> packets(4);
  for (Packet& packet : packets) *packet.mutable_api() = calls;
  Trace trace;
  FrameBatches batches;
  ASSERT_EQ(ParseFrame(FrameOf(packets), &trace, &batches), nullptr);
  EXPECT_EQ(batches.batches().size(), 2u);
  EXPECT_EQ(trace.packet(3).api().count(), kMaxBatchRecords);
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/wire.h"

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "gtest/gtest.h"
#include "proto/gpuprobe.pb.h"
#include "proto/packed_blocks.h"
#include "proto/packet_builder.h"
#include "proto/utf8.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {
namespace {

std::vector<uint64_t> InterestingValues() {
  std::vector<uint64_t> values = {0};
  for (int bit = 0; bit < 64; ++bit) {
    for (int64_t off : {-1, 0, 1})
      values.push_back((uint64_t{1} << bit) + static_cast<uint64_t>(off));
  }
  return values;
}

TEST(VarintTest, EncodesLikeProtobuf) {
  for (uint64_t value : InterestingValues()) {
    uint8_t ours[kMaxVarintBytes + 4] = {};
    uint8_t theirs[kMaxVarintBytes + 4] = {};
    const size_t size = static_cast<size_t>(PutVarint(ours, value) - ours);
    uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, theirs);
    ASSERT_EQ(size, static_cast<size_t>(end - theirs)) << value;
    ASSERT_EQ(size, VarintBytes(value)) << value;
    ASSERT_EQ(std::memcmp(ours, theirs, size), 0) << value;
  }
}

TEST(VarintTest, TheWayWithoutABranchWritesTheSameBytes) {
  for (uint64_t value : InterestingValues()) {
    uint8_t usual[kMaxVarintBytes] = {}, mixed[kMaxVarintBytes] = {};
    const size_t size = static_cast<size_t>(PutVarint(usual, value) - usual);
    ASSERT_EQ(static_cast<size_t>(PutMixedVarint(mixed, value) - mixed), size) << value;
    ASSERT_EQ(std::memcmp(usual, mixed, size), 0) << value;
  }
}

TEST(PackedBlocksTest, SixteenVarintsAreThoseOfEachValue) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    uint32_t values[kPackedValues];
    const uint32_t bits = random() % 33;
    for (uint32_t& value : values) {
      value = bits == 0 ? 0 : static_cast<uint32_t>(random()) >> (32 - bits);
    }
    std::vector<uint8_t> each(kPackedValues * kMaxVarintBytes), together(each.size());
    uint8_t* end = each.data();
    uint32_t all = 0;
    for (const uint32_t value : values) {
      end = PutVarint(end, value);
      all |= value;
    }
    const size_t size = static_cast<size_t>(end - each.data());
    __m128i any = _mm_setzero_si128();
    end = PutVarints(together.data(), LoadSixteen(values), &any);
    ASSERT_EQ(static_cast<size_t>(end - together.data()), size);
    ASSERT_EQ(std::memcmp(each.data(), together.data(), size), 0);
    ASSERT_EQ(IsZero(any), all == 0);
  }
}

TEST(PackedBlocksTest, LowBytesAndZigZagAreThoseOfEachValue) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    int32_t values[kPackedValues];
    for (int32_t& value : values) value = static_cast<int32_t>(random()) >> (random() % 32);
    uint8_t low[kPackedValues], high[kPackedValues * kMaxVarintBytes];
    StoreLowBytes(LoadSixteen(values), low);
    __m128i any = _mm_setzero_si128();
    PutVarints(high, ZigZag(ShiftRightSigned<8>(LoadSixteen(values))), &any);
    const uint8_t* at = high;
    for (size_t i = 0; i < kPackedValues; ++i) {
      ASSERT_EQ(low[i], static_cast<uint8_t>(values[i]));
      uint8_t expected[kMaxVarintBytes];
      const size_t size =
          static_cast<size_t>(PutVarint(expected, ZigZag(int64_t{values[i] >> 8})) - expected);
      ASSERT_EQ(std::memcmp(at, expected, size), 0) << values[i];
      at += size;
    }
  }
}

TEST(VarintTest, ZigZagsLikeProtobuf) {
  for (uint64_t value : InterestingValues()) {
    const int64_t v = static_cast<int64_t>(value);
    ASSERT_EQ(ZigZag(v), google::protobuf::internal::WireFormatLite::ZigZagEncode64(v));
  }
}

// Memory of exactly the given size, so that AddressSanitizer sees one byte too many.
struct ExactBuffer {
  explicit ExactBuffer(size_t size) : bytes(new uint8_t[size]), writer(bytes.get(), size) {}
  std::unique_ptr<uint8_t[]> bytes;
  WireWriter writer;
};

TEST(WireWriterTest, FillsItsMemoryToTheLastByte) {
  ExactBuffer buffer(2);
  buffer.writer.Varint(1);
  buffer.writer.Varint(2);
  EXPECT_FALSE(buffer.writer.overflowed());
  buffer.writer.Varint(3);
  EXPECT_TRUE(buffer.writer.overflowed());
  EXPECT_EQ(buffer.writer.size(), 2u);
}

TEST(WireWriterTest, WritesNothingAfterAnOverflowUntilItIsCutBack) {
  ExactBuffer buffer(4);
  buffer.writer.Append("abc", 3);
  buffer.writer.Append("de", 2);
  buffer.writer.Append("f", 1);
  EXPECT_TRUE(buffer.writer.overflowed());
  EXPECT_EQ(buffer.writer.size(), 3u);
  buffer.writer.CutTo(3);
  buffer.writer.Append("g", 1);
  EXPECT_FALSE(buffer.writer.overflowed());
  EXPECT_EQ(std::memcmp(buffer.bytes.get(), "abcg", 4), 0);
}

// Whatever length was expected of the body, the result is minimal protobuf.
TEST(WireWriterTest, CorrectsWrongGuessesOfALength) {
  for (size_t guess : {0u, 200u, 100000u}) {
    for (size_t size : {0u, 1u, 127u, 128u, 16383u, 16384u, 70000u}) {
      ExactBuffer buffer(size + 8);
      const std::string body(size, 'x');
      const WireWriter::Mark mark = buffer.writer.Open(1, guess);
      buffer.writer.Append(body.data(), body.size());
      buffer.writer.Close(mark);
      ASSERT_FALSE(buffer.writer.overflowed());
      ASSERT_EQ(buffer.writer.size(), 1 + VarintBytes(size) + size);
      Dictionary dictionary;
      ASSERT_TRUE(
          dictionary.ParseFromArray(buffer.bytes.get(), static_cast<int>(buffer.writer.size())));
      ASSERT_EQ(dictionary.names(0), body);
    }
  }
}

std::string Replaced(std::string text) {
  ReplaceInvalidUtf8(text.data(), text.size());
  return text;
}

TEST(Utf8Test, KeepsWellFormedText) {
  for (const char* text : {"", "plain", "Gr\xc3\xb6\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "\x01\x7f"}) {
    EXPECT_EQ(Replaced(text), text);
  }
}

TEST(Utf8Test, ReplacesEachByteThatIsNoPartOfWellFormedText) {
  EXPECT_EQ(Replaced("a\xff\xfe"
                     "b"),
            "a??b");
  EXPECT_EQ(Replaced("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(Replaced("\xe0\x80\x80"), "???");       // overlong
  EXPECT_EQ(Replaced("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(Replaced("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
  EXPECT_EQ(Replaced("ab\xe2\x82"), "ab??");        // cut off
  EXPECT_EQ(Replaced("\xe2\x28\xa1"), "?(?");
  EXPECT_EQ(Replaced("\x80"), "?");
}

TEST(Utf8Test, EveryResultIsAcceptedByProtobuf) {
  uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525 + 1013904223;
      text += static_cast<char>(state >> 24 | (state >> 8 & 0x80));
    }
    Dictionary dictionary;
    dictionary.add_names(Replaced(text));
    Dictionary parsed;
    ASSERT_TRUE(parsed.ParseFromString(dictionary.SerializeAsString()));
  }
}

// PacketBuilder is made by TraceWriter alone: packets go through a frame.
Trace FrameWith(const std::function<void(PacketBuilder*)>& add_packets, WriterHarness* harness) {
  harness->add_packets = add_packets;
  EXPECT_TRUE(harness->Init());
  EXPECT_TRUE(harness->writer.CloseFrame());
  const ReadResult result = ReadBytes(harness->File());
  EXPECT_EQ(result.frames.size(), 1u);
  return result.frames.empty() ? Trace() : result.frames[0];
}

TEST(PacketBuilderTest, BuildsNestedMessagesThatProtobufReads) {
  WriterHarness harness;
  const std::string long_value(500, 'v');
  const Trace trace = FrameWith(
      [&](PacketBuilder* out) {
        out->BeginPacket(16);
        out->AddUint(1, 4242);
        out->AddString(3, "host\xff");
        out->AddInt(5, -7);
        out->AddString(7, "train.py");
        out->AddString(7, "");
        out->AddString(7, "lr=1", 2);
        out->AddInt(9, -1);
        out->EndPacket();
        out->BeginPacket(17);
        out->AddString(1, "0.1.0");
        out->BeginMessage(6);
        out->AddString(1, "GPUPROBE_X");
        out->AddString(2, long_value.c_str());
        out->AddUint(3, 1);
        out->EndMessage();
        out->BeginMessage(7);
        out->AddString(1, "KERNEL");
        out->AddInt(2, 15);
        out->EndMessage();
        out->EndPacket();
      },
      &harness);
  ASSERT_EQ(trace.packet_size(), 3);
  const ProcessInfo& process = trace.packet(1).process();
  EXPECT_EQ(process.pid(), 4242u);
  EXPECT_EQ(process.host(), "host?");
  EXPECT_EQ(process.start_time_ns(), -7);
  EXPECT_EQ(process.rank(), -1);
  ASSERT_EQ(process.command_line_size(), 3);
  EXPECT_EQ(process.command_line(1), "");
  EXPECT_EQ(process.command_line(2), "lr");
  const CaptureInfo& capture = trace.packet(2).capture();
  ASSERT_EQ(capture.settings_size(), 1);
  EXPECT_EQ(capture.settings(0).value(), long_value);
  EXPECT_TRUE(capture.settings(0).is_default());
  ASSERT_EQ(capture.kinds_size(), 1);
  EXPECT_EQ(capture.kinds(0).result(), 15);
  EXPECT_EQ(harness.writer.stats().packets_left_out, 0u);
}

TEST(PacketBuilderTest, LeavesOutWholePacketsThatDoNotFitAndCountsThem) {
  WriterHarness harness;
  const std::string big(500'000, 'b');
  bool overflowed = false;
  const Trace trace = FrameWith(
      [&](PacketBuilder* out) {
        for (int i = 0; i < 3; ++i) {  // the second and third do not fit
          out->BeginPacket(16);
          out->AddUint(1, static_cast<uint64_t>(i + 1));
          out->AddString(3, big.c_str());
          out->EndPacket();
        }
        out->BeginPacket(22);
        out->AddUint(1, 99);
        out->EndPacket();
        overflowed = out->overflowed();
      },
      &harness);
  EXPECT_TRUE(overflowed);
  EXPECT_EQ(harness.writer.stats().packets_left_out, 2u);
  ASSERT_EQ(trace.packet_size(), 3);
  EXPECT_EQ(trace.packet(1).process().pid(), 1u);
  EXPECT_EQ(trace.packet(2).thread().tid(), 99u);
}

TEST(PacketBuilderTest, LeavesOutPacketsThatAreUnbalancedOrTooDeep) {
  WriterHarness harness;
  const Trace trace = FrameWith(
      [&](PacketBuilder* out) {
        out->AddUint(1, 5);  // outside any packet
        out->EndMessage();
        out->EndPacket();
        out->BeginPacket(16);
        for (int i = 0; i < 5; ++i) out->BeginMessage(1);
        out->AddUint(1, 1);
        for (int i = 0; i < 5; ++i) out->EndMessage();
        out->EndPacket();
        out->BeginPacket(17);
        out->BeginMessage(6);
        out->EndPacket();  // message still open
        out->BeginPacket(22);
        out->AddUint(1, 7);
        out->EndPacket();
        out->BeginPacket(22);  // never ended
        out->AddUint(1, 8);
      },
      &harness);
  EXPECT_EQ(harness.writer.stats().packets_left_out, 3u);
  ASSERT_EQ(trace.packet_size(), 2);
  EXPECT_EQ(trace.packet(1).thread().tid(), 7u);
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/block_plan.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/format.h"
#include "proto/gpuprobe.pb.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

std::vector<size_t> EndsOf(const std::string& content) {
  BlockPlan plan(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  std::vector<size_t> ends;
  do {
    ends.push_back(plan.Next());
  } while (ends.back() < content.size() && ends.size() < 1000);
  return ends;
}

TEST(BlockPlanTest, LargeColumnsStandAloneAndTheRestTogether) {
  Trace trace;
  trace.add_packet()->mutable_process()->set_host(std::string(500, 'h'));
  ApiBatch* api = trace.add_packet()->mutable_api();
  api->set_start_low(std::string(kOwnBlockBytes, 's'));
  api->set_duration_low(std::string(kOwnBlockBytes, 'd'));
  trace.add_packet()->mutable_process()->set_host(std::string(700, 'h'));
  const std::string content = trace.SerializeAsString();
  const std::vector<size_t> ends = EndsOf(content);
  ASSERT_EQ(ends.size(), 4u);
  // In front of the first column: the packet before and its own tag and length.
  EXPECT_EQ(content.substr(ends[0], 10), std::string(10, 's'));
  EXPECT_EQ(content.substr(ends[0] - 10, 10).find('s'), std::string::npos);
  EXPECT_EQ(content.substr(ends[1] - 10, 10), std::string(10, 's'));
  EXPECT_EQ(ends[1] - ends[0], kOwnBlockBytes);
  // The few bytes between two large columns go with the second.
  EXPECT_EQ(content.substr(ends[2] - 10, 10), std::string(10, 'd'));
  EXPECT_LT(ends[2] - ends[1], kOwnBlockBytes + 10);
  EXPECT_EQ(ends[3], content.size());
}

TEST(BlockPlanTest, SmallFramesAreOneBlock) {
  Trace trace;
  for (int i = 0; i < 20; ++i) {
    trace.add_packet()->mutable_api()->set_start_low(std::string(kOwnBlockBytes - 1, 's'));
  }
  const std::string content = trace.SerializeAsString();
  EXPECT_EQ(EndsOf(content), std::vector<size_t>{content.size()});
  EXPECT_EQ(EndsOf(""), std::vector<size_t>{0});
}

TEST(BlockPlanTest, AnyBytesEndWhereTheyEnd) {
  std::mt19937 random(5);
  Trace trace;
  trace.add_packet()->mutable_api()->set_start_low(std::string(20000, 's'));
  trace.add_packet()->mutable_kernels()->set_start_low(std::string(20000, 's'));
  const std::string good = trace.SerializeAsString();
  for (int i = 0; i < 20000; ++i) {
    std::string content = good;
    for (int edits = 0; edits < 3; ++edits) {
      // Mostly in the tags and lengths.
      const size_t at = random() % 4 == 0 ? random() % content.size() : random() % 16;
      content[at] = static_cast<char>(random());
    }
    content.resize(random() % content.size());
    const std::vector<size_t> ends = EndsOf(content);
    EXPECT_EQ(ends.back(), content.size());
    for (size_t k = 1; k < ends.size(); ++k) ASSERT_GT(ends[k], ends[k - 1]);
  }
}

// What a written frame consists of.
struct Block {
  uint32_t type;  // 0 raw, 1 one byte repeated, 2 compressed
  size_t bytes;
};
std::vector<Block> BlocksOf(const std::string& frame) {
  ZSTD_frameHeader header;
  EXPECT_EQ(ZSTD_getFrameHeader(&header, frame.data(), frame.size()), 0u);
  std::vector<Block> blocks;
  for (size_t at = header.headerSize; at + 3 <= frame.size();) {
    uint32_t word = 0;
    std::memcpy(&word, frame.data() + at, 3);
    const uint32_t type = word >> 1 & 3, bytes = word >> 3;
    blocks.push_back({type, bytes});
    at += 3 + (type == 1 ? 1 : bytes);
    if ((word & 1) != 0) break;
  }
  return blocks;
}

TEST(BlockPlanTest, NoiseIsStoredAndTheColumnsBesideItStillShrink) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  std::mt19937_64 random(1);
  constexpr uint32_t kRecords = 20000;
  for (uint32_t i = 0; i < kRecords; ++i) {
    ApiRecord r = {};
    r.start_ns = kTestStartNs + int64_t{i} * 100000 + static_cast<int64_t>(random() % 50000);
    r.end_ns = r.start_ns + 1000 + static_cast<int64_t>(random() % 4096);
    r.cbid = 1 + i % 4;
    r.thread = 7;
    r.correlation = i;
    harness.writer.OnApi(r);
  }
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  ASSERT_EQ(harness.frames.size(), 1u);
  const std::string& frame = harness.frames[0];
  size_t stored = 0, stored_columns = 0;
  for (const Block& block : BlocksOf(frame)) {
    if (block.type != 0 || block.bytes < kOwnBlockBytes) continue;
    stored += block.bytes;
    ++stored_columns;
  }
  EXPECT_EQ(stored_columns, 2u);  // start_low, duration_low
  EXPECT_LT(stored, 2 * kRecords + 20);
  EXPECT_LT(frame.size(), stored + 2 * kRecords);
  // One frame all the same, with what readers ask for.
  EXPECT_EQ(ZSTD_findFrameCompressedSize(frame.data(), frame.size()), frame.size());
  ZSTD_frameHeader header;
  ASSERT_EQ(ZSTD_getFrameHeader(&header, frame.data(), frame.size()), 0u);
  EXPECT_NE(header.frameContentSize, ZSTD_CONTENTSIZE_UNKNOWN);
  EXPECT_EQ(header.checksumFlag, 1u);
  EXPECT_EQ(ReadBytes(frame).records(), kRecords);
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/columns.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace gpuprobe::proto {
namespace {

FrameHeader HeaderAt(int64_t base_ns) {
  FrameHeader header;
  header.set_base_ns(base_ns);
  return header;
}

TEST(ColumnsTest, UndoesTheDeltasOfALane) {
  KernelBatch batch;
  batch.set_device(3);
  batch.set_context(4);
  batch.set_stream(5);
  batch.set_count(3);
  for (int64_t v : {10, 5, -20}) batch.add_start_delta(v);
  for (uint64_t v : {100, 50, 7}) batch.add_duration(v);
  for (uint32_t v : {1, 0, 2}) batch.add_shape(v);
  for (int64_t v : {1000, 3, -1}) batch.add_correlation_delta(v);
  KernelColumns c;
  Decode(batch, HeaderAt(1000), &c);
  EXPECT_EQ(c.device, 3u);
  EXPECT_EQ(c.context, 4u);
  EXPECT_EQ(c.stream, 5u);
  EXPECT_EQ(c.timing, RecordTiming::kValid);
  EXPECT_EQ(c.start_ns, (std::vector<int64_t>{1010, 1115, 1145}));
  EXPECT_EQ(c.end_ns, (std::vector<int64_t>{1110, 1165, 1152}));
  EXPECT_EQ(c.shape, (std::vector<uint32_t>{1, 0, 2}));
  EXPECT_EQ(c.correlation, (std::vector<uint32_t>{1000, 1003, 1002}));
  EXPECT_EQ(c.graph_id, (std::vector<uint32_t>{0, 0, 0}));
  EXPECT_EQ(c.clipped_records, 0u);
  EXPECT_EQ(c.invalid_times, 0u);
}

TEST(ColumnsTest, JoinsSplitTimes) {
  ApiBatch batch;
  batch.set_count(2);
  batch.set_time_shift(8);
  batch.add_start_delta(1);
  batch.add_start_delta(-1);
  batch.set_start_low(std::string("\x05\xff", 2));
  batch.add_duration(0);
  batch.add_duration(2);
  batch.set_duration_low(std::string("\x80\x01", 2));
  ApiColumns c;
  Decode(batch, HeaderAt(0), &c);
  EXPECT_EQ(c.start_ns, (std::vector<int64_t>{261, 261 + 128 - 1}));
  EXPECT_EQ(c.end_ns, (std::vector<int64_t>{261 + 128, 388 + 513}));
}

TEST(ColumnsTest, MissingAndShortColumnsAreZeroFromThereOn) {
  CopyBatch batch;
  batch.set_count(4);
  for (int i = 0; i < 4; ++i) batch.add_correlation_delta(1);
  batch.set_time_shift(8);
  batch.add_start_delta(1);
  batch.set_start_low("\x02\x03");
  batch.add_duration(1);
  batch.add_bytes(77);
  CopyColumns c;
  Decode(batch, HeaderAt(0), &c);
  ASSERT_EQ(c.count, 4u);
  EXPECT_EQ(c.start_ns, (std::vector<int64_t>{258, 517, 517, 517}));
  EXPECT_EQ(c.end_ns, (std::vector<int64_t>{514, 517, 517, 517}));
  EXPECT_EQ(c.bytes, (std::vector<uint64_t>{77, 0, 0, 0}));
  EXPECT_EQ(c.shape, (std::vector<uint32_t>{0, 0, 0, 0}));
  EXPECT_EQ(c.correlation, (std::vector<uint32_t>{1, 2, 3, 4}));
}

TEST(ColumnsTest, SurplusElementsAreIgnored) {
  SetBatch batch;
  batch.set_count(1);
  for (int i = 0; i < 3; ++i) {
    batch.add_start_delta(5);
    batch.add_duration(5);
    batch.add_bytes(9);
    batch.add_correlation_delta(1);
    batch.add_value(4);
  }
  SetColumns c;
  Decode(batch, HeaderAt(0), &c);
  EXPECT_EQ(c.count, 1u);
  EXPECT_EQ(c.start_ns.size(), 1u);
  EXPECT_EQ(c.value, (std::vector<uint32_t>{4}));
}

TEST(ColumnsTest, ACountBeyondAllColumnsIsClippedAndTold) {
  SyncBatch batch;
  batch.set_count(UINT32_MAX);
  batch.add_correlation_delta(1);
  batch.add_type(3);
  batch.add_type(2);
  SyncColumns c;
  Decode(batch, HeaderAt(0), &c);
  EXPECT_EQ(c.count, 2u);
  EXPECT_EQ(c.clipped_records, UINT32_MAX - 2u);

  OverheadBatch huge;
  for (size_t i = 0; i < kMaxBatchRecords + 10; ++i) huge.add_correlation_delta(0);
  OverheadColumns o;
  Decode(huge, HeaderAt(0), &o);
  EXPECT_EQ(o.count, kMaxBatchRecords);
  EXPECT_EQ(o.clipped_records, 10u);
}

TEST(ColumnsTest, TimesThatOverflowBecomeInstantsAndAreCounted) {
  const int64_t values[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
  for (int64_t base : values) {
    for (int64_t delta : values) {
      for (int64_t duration : values) {
        for (uint32_t shift : {0u, 8u, 63u, 64u, UINT32_MAX}) {
          GraphBatch batch;
          batch.set_time_shift(shift);
          batch.set_start_low("\xff\xff");
          batch.set_duration_low("\xff\xff");
          for (int i = 0; i < 3; ++i) {
            batch.add_start_delta(delta);
            batch.add_duration(static_cast<uint64_t>(duration));
            batch.add_correlation_delta(delta);
          }
          GraphColumns c;
          Decode(batch, HeaderAt(base), &c);
          ASSERT_EQ(c.count, 3u);
          for (size_t i = 0; i < c.count; ++i) ASSERT_LE(c.start_ns[i], c.end_ns[i]);
        }
      }
    }
  }
  ApiBatch batch;
  batch.add_start_delta(INT64_MAX);
  batch.add_duration(1);
  ApiColumns c;
  Decode(batch, HeaderAt(0), &c);
  EXPECT_EQ(c.end_ns[0], INT64_MAX);
  EXPECT_EQ(c.invalid_times, 1u);
}

TEST(ColumnsTest, RecordsWithoutValidTimesHaveNone) {
  KernelBatch batch;
  for (int i = 0; i < 2; ++i) {
    batch.add_start_delta(10);
    batch.add_duration(5);
    batch.add_correlation_delta(1);
  }
  KernelColumns c;
  const struct {
    uint32_t timing;
    RecordTiming expected;
    std::vector<int64_t> starts;
  } kCases[] = {{1, RecordTiming::kMissing, {0, 0}},
                {2, RecordTiming::kUnfinished, {110, 120}},
                {3, RecordTiming::kInvalid, {0, 0}},
                {77, RecordTiming::kInvalid, {0, 0}}};
  for (const auto& expected : kCases) {
    batch.set_timing(expected.timing);
    Decode(batch, HeaderAt(100), &c);
    EXPECT_EQ(c.timing, expected.expected);
    EXPECT_EQ(c.start_ns, expected.starts);
    EXPECT_EQ(c.end_ns, expected.starts);
  }
}

TEST(ColumnsTest, FailedResultsStandAtTheirRecordsAndNowhereElse) {
  ApiBatch batch;
  batch.set_count(3);
  for (int i = 0; i < 3; ++i) batch.add_correlation_delta(1);
  for (uint32_t index : {1u, 3u, UINT32_MAX}) batch.add_failed_index(index);
  for (int32_t result : {-5, 6, 7}) batch.add_failed_result(result);
  batch.add_failed_index(2);  // without a result
  ApiColumns c;
  Decode(batch, HeaderAt(0), &c);
  EXPECT_EQ(c.result, (std::vector<int32_t>{0, -5, 0}));
}

TEST(ColumnsTest, AResultThatIsReusedHoldsNothingOfTheBatchBefore) {
  KernelBatch full;
  ApiBatch failed;
  for (int i = 0; i < 5; ++i) {
    full.add_correlation_delta(1);
    full.add_graph_id(9);
    full.add_graph_node_id(9);
    full.add_queued_before(9);
    full.add_submitted_before(9);
    full.add_shape(9);
    full.add_duration(9);
    failed.add_correlation_delta(1);
    failed.add_failed_index(static_cast<uint32_t>(i));
    failed.add_failed_result(9);
  }
  KernelBatch empty;
  ApiBatch succeeded;
  for (int i = 0; i < 5; ++i) {
    empty.add_correlation_delta(0);
    succeeded.add_correlation_delta(0);
  }
  KernelColumns k;
  ApiColumns a;
  for (const KernelBatch& batch : {empty, full, empty, full, empty}) {
    Decode(batch, HeaderAt(0), &k);
    const bool is_full = batch.shape_size() != 0;
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(k.graph_id[i], is_full ? 9u : 0u);
      ASSERT_EQ(k.graph_node_id[i], is_full ? 9u : 0u);
      ASSERT_EQ(k.queued_before_ns[i], is_full ? 9 : 0);
      ASSERT_EQ(k.submitted_before_ns[i], is_full ? 9 : 0);
      ASSERT_EQ(k.shape[i], is_full ? 9u : 0u);
    }
  }
  for (const ApiBatch& batch : {succeeded, failed, succeeded}) {
    Decode(batch, HeaderAt(0), &a);
    for (size_t i = 0; i < 5; ++i) ASSERT_EQ(a.result[i], batch.failed_index_size() != 0 ? 9 : 0);
  }
}

TEST(ColumnsTest, AnEmptyBatchHasNoRecords) {
  CudaEventColumns c;
  Decode(CudaEventBatch(), HeaderAt(5), &c);
  EXPECT_EQ(c.count, 0u);
  EXPECT_TRUE(c.correlation.empty());
}

}  // namespace
}  // namespace gpuprobe::proto

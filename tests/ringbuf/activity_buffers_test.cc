// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/activity_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace gpuprobe {
namespace {

constexpr size_t kMemory = 4u << 20;
constexpr size_t kLarge = 128u << 10, kSmall = ActivityBuffers::kSmallBytes;

struct Taken {
  uint8_t* data;
  size_t bytes;
};

class ActivityBuffersTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(buffers_.Init(kMemory, kLarge, 0)); }

  Taken Take() {
    Taken taken = {nullptr, 0};
    taken.data = buffers_.Acquire(&taken.bytes);
    return taken;
  }
  std::vector<Taken> TakeAll() {
    std::vector<Taken> all;
    for (Taken taken = Take(); taken.data != nullptr; taken = Take()) all.push_back(taken);
    return all;
  }
  void Return(const Taken& taken, size_t valid_bytes) {
    ASSERT_TRUE(buffers_.PushCompleted(taken.data, valid_bytes, 0, 0));
  }
  size_t DrainAll() {
    size_t count = 0;
    CompletedBuffer* next;
    for (CompletedBuffer* b = buffers_.PopAllCompleted(); b != nullptr; b = next, ++count) {
      next = b->next;
      buffers_.Release(b);
    }
    return count;
  }

  ActivityBuffers buffers_;
};

TEST_F(ActivityBuffersTest, AFewThreadsGetLargeOnes) {
  const uint32_t few = buffers_.large().count() / 4 * 3;
  for (uint32_t i = 0; i < few; ++i) EXPECT_EQ(Take().bytes, kLarge);
  EXPECT_EQ(Take().bytes, kSmall);
}

// What waits to be drained is nobody's: a thread that fills one after the other keeps large ones.
TEST_F(ActivityBuffersTest, ALargeOneIsGivenAgainHoweverManyWaitToBeDrained) {
  for (uint32_t i = 0; i + 1 < buffers_.large().count(); ++i) {
    const Taken taken = Take();
    EXPECT_EQ(taken.bytes, kLarge);
    Return(taken, kLarge);
  }
}

TEST_F(ActivityBuffersTest, AllMemoryIsOfUseAndNoneIsGivenTwice) {
  const std::vector<Taken> all = TakeAll();
  std::set<uint8_t*> different;
  size_t bytes = 0, large = 0;
  for (const Taken& taken : all) {
    different.insert(taken.data);
    bytes += taken.bytes;
    large += taken.bytes == kLarge ? 1 : 0;
  }
  EXPECT_EQ(different.size(), all.size());
  EXPECT_EQ(large, buffers_.large().count());
  EXPECT_EQ(all.size(), buffers_.large().count() + buffers_.small().count());
  EXPECT_GT(bytes, kMemory / 100 * 90);
  EXPECT_LE(buffers_.reserved_bytes(), kMemory + 8192);  // two rounded up
  EXPECT_EQ(buffers_.stats().refused, 1u);
}

TEST_F(ActivityBuffersTest, BothKindsComeBackZeroedAndAreGivenAgain) {
  for (int round = 0; round < 3; ++round) {
    const std::vector<Taken> all = TakeAll();
    for (const Taken& taken : all) {
      for (size_t i = 0; i < taken.bytes; i += 512) ASSERT_EQ(taken.data[i], 0);
      std::fill_n(taken.data, taken.bytes, uint8_t{0xee});
      Return(taken, taken.bytes);
    }
    EXPECT_EQ(buffers_.stats().outstanding, 0u);
    EXPECT_EQ(DrainAll(), all.size());
  }
  EXPECT_EQ(buffers_.stats().foreign, 0u);
}

TEST_F(ActivityBuffersTest, AForeignBufferIsRefused) {
  uint8_t foreign[64];
  EXPECT_FALSE(buffers_.PushCompleted(foreign, 64, 0, 0));
  EXPECT_EQ(buffers_.stats().foreign, 1u);
  EXPECT_EQ(buffers_.PopAllCompleted(), nullptr);
}

TEST_F(ActivityBuffersTest, RunsLowWhenMoreThanHalfAreOut) {
  const size_t half = (buffers_.large().count() + buffers_.small().count()) / 2;
  std::vector<Taken> out;
  for (size_t i = 0; i < half; ++i) out.push_back(Take());
  EXPECT_FALSE(buffers_.Low());
  out.push_back(Take());
  EXPECT_TRUE(buffers_.Low());
  Return(out.back(), 64);
  EXPECT_FALSE(buffers_.Low());
}

TEST(ActivityBuffersOfOneKind, AreTheOnesThatWereAskedFor) {
  ActivityBuffers buffers;
  ASSERT_TRUE(buffers.Init(kMemory, 32u << 10, 1));
  EXPECT_EQ(buffers.small().count(), 0u);
  uint32_t count = 0;
  size_t bytes;
  while (buffers.Acquire(&bytes) != nullptr) {
    EXPECT_EQ(bytes, 32u << 10);
    ++count;
  }
  EXPECT_EQ(count, kMemory / ((32u << 10) + 64) - 1);
}

}  // namespace
}  // namespace gpuprobe

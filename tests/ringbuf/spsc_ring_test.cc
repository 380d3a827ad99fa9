// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/spsc_ring.h"

#include <cstdint>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace gpuprobe {
namespace {

constinit SpscRing<uint64_t> g_constinit_ring;

template <typename Index>
class Ring {
 public:
  explicit Ring(size_t capacity) : memory_(capacity) {
    EXPECT_TRUE(ring_.Init(memory_.data(), capacity));
  }
  bool Push(uint32_t value) { return ring_.TryPush(value); }
  // All elements present, and how many runs they came in.
  std::vector<uint32_t> Pop(int* runs = nullptr) {
    std::vector<uint32_t> out;
    int calls = 0;
    const size_t count = ring_.Consume([&](std::span<const uint32_t> run) {
      EXPECT_FALSE(run.empty());
      out.insert(out.end(), run.begin(), run.end());
      ++calls;
    });
    EXPECT_EQ(count, out.size());
    if (runs != nullptr) *runs = calls;
    return out;
  }
  SpscRing<uint32_t, Index>* operator->() { return &ring_; }

 private:
  std::vector<uint32_t> memory_;
  SpscRing<uint32_t, Index> ring_;
};

std::vector<uint32_t> Sequence(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> values;
  for (uint32_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

TEST(SpscRingTest, BeforeInitEveryPushDropsAndNothingIsThere) {
  EXPECT_FALSE(g_constinit_ring.TryPush(1));
  EXPECT_FALSE(g_constinit_ring.Push(1, 77));
  EXPECT_EQ(g_constinit_ring.Consume([](std::span<const uint64_t>) { FAIL(); }), 0u);
  DropRange drops;
  ASSERT_TRUE(g_constinit_ring.TakeDrops(&drops));
  EXPECT_EQ(drops.count, 1u);
}

TEST(SpscRingTest, WrongArgumentsAreRefused) {
  alignas(8) uint8_t memory[64 * 8];
  SpscRing<uint64_t> ring;
  EXPECT_FALSE(ring.Init(nullptr, 8));
  EXPECT_FALSE(ring.Init(memory + 1, 8));
  EXPECT_FALSE(ring.Init(memory, 0));
  EXPECT_FALSE(ring.Init(memory, 3));
  SpscRing<uint8_t, uint8_t> small;
  EXPECT_FALSE(small.Init(memory, 256)) << "a full ring would look empty";
  EXPECT_TRUE(small.Init(memory, 128));
}

TEST(SpscRingTest, UsesItsFullCapacityAndRefusesOneMore) {
  Ring<uint64_t> ring(8);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(ring.Push(i));
  EXPECT_FALSE(ring.Push(8));
  EXPECT_EQ(ring->size(), 8u);
  EXPECT_EQ(ring.Pop(), Sequence(0, 8));
  EXPECT_EQ(ring->size(), 0u);
  for (uint32_t i = 8; i < 16; ++i)
    EXPECT_TRUE(ring.Push(i)) << "full capacity again after a drain";
  EXPECT_FALSE(ring.Push(16));
  EXPECT_EQ(ring.Pop(), Sequence(8, 16));
}

TEST(SpscRingTest, CapacityOneWorks) {
  Ring<uint64_t> ring(1);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(ring.Push(i));
    EXPECT_FALSE(ring.Push(99));
    EXPECT_EQ(ring.Pop(), Sequence(i, i + 1));
  }
}

TEST(SpscRingTest, BatchAcrossTheEndComesInTwoRunsInOrder) {
  Ring<uint64_t> ring(8);
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(ring.Push(i));
  int runs = 0;
  EXPECT_EQ(ring.Pop(&runs), Sequence(0, 5));
  EXPECT_EQ(runs, 1);
  for (uint32_t i = 5; i < 12; ++i) ASSERT_TRUE(ring.Push(i));
  EXPECT_EQ(ring.Pop(&runs), Sequence(5, 12));
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(ring.Pop(&runs).empty());
  EXPECT_EQ(runs, 0);
}

TEST(SpscRingTest, SlotsStayTheConsumersUntilTheBatchIsDone) {
  Ring<uint64_t> ring(4);
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(ring.Push(i));
  ring->Consume([&](std::span<const uint32_t> run) {
    EXPECT_FALSE(ring.Push(99)) << "would overwrite what is being read";
    EXPECT_EQ(std::vector<uint32_t>(run.begin(), run.end()), Sequence(0, 4));
  });
  EXPECT_TRUE(ring.Push(4));
}

TEST(SpscRingTest, ElementPushedDuringABatchComesWithTheNext) {
  Ring<uint64_t> ring(4);
  ASSERT_TRUE(ring.Push(0));
  EXPECT_EQ(ring->Consume([&](std::span<const uint32_t>) { EXPECT_TRUE(ring.Push(1)); }), 1u);
  EXPECT_EQ(ring.Pop(), Sequence(1, 2));
}

TEST(SpscRingTest, FillWritesInPlaceAndIsNotCalledWhenFull) {
  Ring<uint64_t> ring(2);
  EXPECT_TRUE(ring->TryPushWith([](uint32_t* slot) { *slot = 7; }));
  EXPECT_TRUE(ring.Push(8));
  EXPECT_FALSE(ring->TryPushWith([](uint32_t*) { FAIL(); }));
  EXPECT_EQ(ring.Pop(), Sequence(7, 9));
}

// An 8-bit index wraps 400 times here, a 64-bit one never will.
TEST(SpscRingTest, IndicesMayWrap) {
  for (size_t capacity : {1, 2, 64, 128}) {
    Ring<uint8_t> ring(capacity);
    uint32_t pushed = 0, popped = 0;
    for (uint32_t round = 0; pushed < 100'000; ++round) {
      const uint32_t batch = round * 7 % (capacity + 2);
      for (uint32_t i = 0; i < batch; ++i) {
        const bool fits = pushed - popped < capacity;
        ASSERT_EQ(ring.Push(pushed), fits) << pushed;
        pushed += fits;
      }
      ASSERT_EQ(ring->size(), pushed - popped);
      if (round % 3 == 0) continue;
      for (uint32_t value : ring.Pop()) ASSERT_EQ(value, popped++);
      ASSERT_EQ(popped, pushed);
    }
  }
}

TEST(SpscRingTest, DropsAreCountedWithTheTimesOfTheFirstAndTheLast) {
  Ring<uint64_t> ring(2);
  DropRange drops = {};
  EXPECT_TRUE(ring->Push(0, 10));
  EXPECT_TRUE(ring->Push(1, 11));
  EXPECT_FALSE(ring->TakeDrops(&drops)) << "stored elements are no drops";
  EXPECT_FALSE(ring->Push(2, 12));
  EXPECT_FALSE(ring->Push(3, 13));
  EXPECT_FALSE(ring->Push(4, 14));
  EXPECT_EQ(ring->dropped(), 3u);
  ASSERT_TRUE(ring->TakeDrops(&drops));
  EXPECT_EQ(drops.count, 3u);
  EXPECT_EQ(drops.first_ns, 12);
  EXPECT_EQ(drops.last_ns, 14);
  EXPECT_EQ(ring.Pop(), Sequence(0, 2)) << "what was there before the drops is kept";
}

TEST(SpscRingTest, EachTakeReportsOnlyWhatIsNew) {
  Ring<uint64_t> ring(1);
  DropRange drops = {};
  ASSERT_TRUE(ring.Push(0));
  ring->CountDrop(100);
  ASSERT_TRUE(ring->TakeDrops(&drops));
  EXPECT_FALSE(ring->TakeDrops(&drops));
  ring->CountDrop(500);
  ring->CountDrop(600);
  ASSERT_TRUE(ring->TakeDrops(&drops));
  EXPECT_EQ(drops.count, 2u);
  EXPECT_EQ(drops.first_ns, 500) << "the range begins anew";
  EXPECT_EQ(drops.last_ns, 600);
  EXPECT_EQ(ring->dropped(), 3u);
}

}  // namespace
}  // namespace gpuprobe

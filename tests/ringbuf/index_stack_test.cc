// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/index_stack.h"

#include <array>
#include <cstdint>

#include "gtest/gtest.h"

namespace gpuprobe {
namespace {

constinit IndexStack g_constinit_stack;

class IndexStackTest : public testing::Test {
 protected:
  void Push(uint32_t i) {
    stack_.Push(i, [this](uint32_t index, uint32_t below) { links_[index] = below; });
  }
  uint32_t Pop() {
    return stack_.Pop([this](uint32_t index) { return links_[index]; });
  }

  IndexStack stack_;
  std::array<uint32_t, 65536> links_ = {};
};

TEST(IndexStackInitTest, StartsEmptyWithoutAConstructor) {
  EXPECT_EQ(g_constinit_stack.Pop([](uint32_t) { return 0u; }), IndexStack::kNone);
}

TEST_F(IndexStackTest, LastInFirstOut) {
  for (uint32_t i : {7u, 0u, 3u}) Push(i);
  EXPECT_EQ(Pop(), 3u);
  EXPECT_EQ(Pop(), 0u);
  Push(5);
  EXPECT_EQ(Pop(), 5u);
  EXPECT_EQ(Pop(), 7u);
  EXPECT_EQ(Pop(), IndexStack::kNone);
  EXPECT_EQ(Pop(), IndexStack::kNone);
}

TEST_F(IndexStackTest, HoldsEveryIndexUpToTheLargest) {
  for (uint32_t i = 0; i <= IndexStack::kMaxIndex; ++i) Push(i);
  for (uint32_t i = IndexStack::kMaxIndex + 1; i-- > 0;) ASSERT_EQ(Pop(), i);
  EXPECT_EQ(Pop(), IndexStack::kNone);
}

// ABA, forced: between a Pop's look at the link of the top and its exchange, others pop the top and
// the one below, and push the top back.
TEST_F(IndexStackTest, PopIsNotFooledByATopThatReturned) {
  for (uint32_t i : {2u, 1u, 0u}) Push(i);  // 0 on 1 on 2
  bool interfered = false;
  const uint32_t popped = stack_.Pop([&](uint32_t index) {
    const uint32_t link = links_[index];
    if (!interfered) {
      interfered = true;
      EXPECT_EQ(Pop(), 0u);
      EXPECT_EQ(Pop(), 1u);  // in use from here on
      Push(0);
    }
    return link;
  });
  EXPECT_TRUE(interfered);
  EXPECT_EQ(popped, 0u);
  EXPECT_EQ(Pop(), 2u) << "1 is in use";
  EXPECT_EQ(Pop(), IndexStack::kNone);
}

TEST_F(IndexStackTest, PushIsNotFooledByATopThatReturned) {
  for (uint32_t i : {1u, 0u}) Push(i);  // 0 on 1
  bool interfered = false;
  stack_.Push(9, [&](uint32_t index, uint32_t below) {
    links_[index] = below;
    if (!interfered) {
      interfered = true;
      EXPECT_EQ(Pop(), 0u);
      EXPECT_EQ(Pop(), 1u);
      Push(0);
    }
  });
  EXPECT_EQ(Pop(), 9u);
  EXPECT_EQ(Pop(), 0u);
  EXPECT_EQ(Pop(), IndexStack::kNone);
}

}  // namespace
}  // namespace gpuprobe

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Eight threads take indices from a stack of three and put them back at once. Now and then one of
// them gives up its core between reading a link and using it, which is where ABA happens: without
// the change count in the word this fails within a few hundred rounds.
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ringbuf/index_stack.h"

namespace gpuprobe {
namespace {

TEST(IndexStackStressTest, NoIndexIsHandedOutTwiceOrLost) {
  constexpr uint32_t kThreads = 8, kIndices = 3, kRounds = 15'000;
  IndexStack stack;
  std::array<std::atomic<uint32_t>, kIndices> links = {};
  std::array<std::atomic<uint32_t>, kIndices> held = {};
  std::array<uint64_t, kIndices> uses =
      {};  // written by the holder alone: TSan checks Pop's acquire
  std::atomic<uint32_t> handed_out_twice{0}, empty{0};
  const auto push = [&](uint32_t i) {
    stack.Push(i, [&](uint32_t index, uint32_t below) {
      links[index].store(below, std::memory_order_relaxed);
    });
  };
  for (uint32_t i = 0; i < kIndices; ++i) push(i);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint32_t round = 0; round < kRounds; ++round) {
        const uint32_t index = stack.Pop([&](uint32_t i) {
          const uint32_t link = links[i].load(std::memory_order_relaxed);
          if (round % 16 == 0) sched_yield();
          return link;
        });
        if (index == IndexStack::kNone) {
          ++empty;
          sched_yield();
          continue;
        }
        if (held[index].exchange(1, std::memory_order_relaxed) != 0) ++handed_out_twice;
        ++uses[index];
        held[index].store(0, std::memory_order_relaxed);
        push(index);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handed_out_twice.load(), 0u);
  EXPECT_EQ(uses[0] + uses[1] + uses[2] + empty.load(), uint64_t{kThreads} * kRounds);
  uint32_t at_rest = 0;
  while (stack.Pop([&](uint32_t i) { return links[i].load(std::memory_order_relaxed); }) !=
             IndexStack::kNone &&
         at_rest <= kIndices) {
    ++at_rest;
  }
  EXPECT_EQ(at_rest, kIndices);
}

}  // namespace
}  // namespace gpuprobe

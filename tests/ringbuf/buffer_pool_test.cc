// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/buffer_pool.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace gpuprobe {
namespace {

constinit BufferPool g_constinit_pool;

bool IsZero(const uint8_t* data, size_t bytes) {
  return data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;  // each byte equals the next
}

class BufferPoolTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 16384;
  static constexpr uint32_t kCount = 4;

  void SetUp() override { ASSERT_TRUE(pool_.Init(kBytes, kCount)); }

  std::vector<uint8_t*> AcquireAll() {
    std::vector<uint8_t*> all;
    while (uint8_t* data = pool_.Acquire()) all.push_back(data);
    return all;
  }
  // Acquires, fills and completes one buffer, and returns its node as the drain thread gets it.
  CompletedBuffer* Pass(size_t valid_bytes = kBytes) {
    uint8_t* data = pool_.Acquire();
    memset(data, 0xab, valid_bytes);
    EXPECT_TRUE(pool_.PushCompleted(data, valid_bytes, 0, 0));
    return pool_.PopAllCompleted();
  }

  BufferPool pool_;
};

TEST(BufferPoolInitTest, RefusesEverythingBeforeInit) {
  EXPECT_EQ(g_constinit_pool.Acquire(), nullptr);
  uint8_t byte = 0;
  EXPECT_FALSE(g_constinit_pool.PushCompleted(&byte, 1, 0, 0));
  EXPECT_FALSE(g_constinit_pool.PushCompleted(nullptr, 0, 0, 0));
  EXPECT_EQ(g_constinit_pool.PopAllCompleted(), nullptr);
  EXPECT_FALSE(g_constinit_pool.Owns(&byte));
  EXPECT_FALSE(g_constinit_pool.Owns(nullptr));
  EXPECT_EQ(g_constinit_pool.stats().refused, 1u);
  EXPECT_EQ(g_constinit_pool.stats().foreign, 2u);
}

TEST(BufferPoolInitTest, WrongArgumentsAreRefusedAndLeaveThePoolUsable) {
  BufferPool pool;
  EXPECT_FALSE(pool.Init(0, 1));
  EXPECT_FALSE(pool.Init(4096, 0));
  EXPECT_FALSE(pool.Init(4097, 1));
  EXPECT_FALSE(pool.Init(4096, BufferPool::kMaxCount + 1));
  EXPECT_FALSE(pool.Init(SIZE_MAX / 4096 * 4096, 2));
  EXPECT_FALSE(pool.Init(size_t{1} << 50, 4)) << "more than the address space";
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_TRUE(pool.Init(4096, 1));
  EXPECT_NE(pool.Acquire(), nullptr);
}

TEST_F(BufferPoolTest, SecondInitIsRefusedAndChangesNothing) {
  EXPECT_FALSE(pool_.Init(4096, 1));
  EXPECT_EQ(pool_.buffer_bytes(), kBytes);
  EXPECT_EQ(AcquireAll().size(), kCount);
}

TEST_F(BufferPoolTest, BuffersAreZeroedDistinctAndAligned) {
  const std::vector<uint8_t*> all = AcquireAll();
  ASSERT_EQ(all.size(), kCount);
  EXPECT_EQ(std::set<uint8_t*>(all.begin(), all.end()).size(), kCount);
  for (uint8_t* data : all) {
    EXPECT_TRUE(IsZero(data, kBytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4096, 0u);
    EXPECT_TRUE(pool_.Owns(data));
    EXPECT_TRUE(pool_.Owns(data + kBytes - 1));
    memset(data, static_cast<int>(data - all[0]),
           kBytes);  // ASan and the next buffer's check would notice
  }
  EXPECT_GE(pool_.reserved_bytes(), kBytes * kCount);
}

TEST_F(BufferPoolTest, LargestCountWorks) {
  BufferPool pool;
  ASSERT_TRUE(pool.Init(4096, BufferPool::kMaxCount));
  std::set<uint8_t*> seen;
  while (uint8_t* data = pool.Acquire()) EXPECT_TRUE(seen.insert(data).second);
  EXPECT_EQ(seen.size(), BufferPool::kMaxCount);
}

TEST_F(BufferPoolTest, ExhaustionIsRefusedAndCountedUntilABufferIsReleased) {
  const std::vector<uint8_t*> all = AcquireAll();
  EXPECT_EQ(pool_.Acquire(), nullptr);
  EXPECT_EQ(pool_.stats().refused, 2u);
  ASSERT_TRUE(pool_.PushCompleted(all[2], 8, 0, 0));
  EXPECT_EQ(pool_.Acquire(), nullptr) << "completed is not free";
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  EXPECT_EQ(pool_.Acquire(), nullptr) << "draining is not free";
  pool_.Release(buffer);
  EXPECT_EQ(pool_.Acquire(), all[2]);
}

TEST_F(BufferPoolTest, CompletedBuffersComeOutOldestFirstWithWhatCuptiSaid) {
  const std::vector<uint8_t*> all = AcquireAll();
  const uint32_t order[kCount] = {2, 0, 3, 1};
  for (uint32_t i : order) ASSERT_TRUE(pool_.PushCompleted(all[i], 100 + i, 10 + i, 20 + i));
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  for (uint32_t i : order) {
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->data, all[i]);
    EXPECT_EQ(buffer->valid_bytes, 100u + i);
    EXPECT_EQ(buffer->context, 10u + i);
    EXPECT_EQ(buffer->stream, 20u + i);
    buffer = buffer->next;
  }
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(pool_.PopAllCompleted(), nullptr);
}

TEST_F(BufferPoolTest, BuffersCompletedWhileOthersAreDrainedComeWithTheNextPop) {
  const std::vector<uint8_t*> all = AcquireAll();
  ASSERT_TRUE(pool_.PushCompleted(all[0], 1, 0, 0));
  CompletedBuffer* first = pool_.PopAllCompleted();
  ASSERT_TRUE(pool_.PushCompleted(all[1], 1, 0, 0));
  EXPECT_EQ(first->next, nullptr);
  CompletedBuffer* second = pool_.PopAllCompleted();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->data, all[1]);
  EXPECT_EQ(second->next, nullptr);
}

TEST_F(BufferPoolTest, ReleasedBufferIsZeroWhateverWasUsed) {
  for (size_t used : {size_t{0}, size_t{8}, size_t{4095}, size_t{4096}, size_t{4097}, kBytes}) {
    CompletedBuffer* buffer = Pass(used);
    ASSERT_NE(buffer, nullptr);
    uint8_t* data = buffer->data;
    pool_.Release(buffer);
    EXPECT_EQ(pool_.Acquire(), data) << "the warm buffer comes first";
    EXPECT_TRUE(IsZero(data, kBytes)) << used;
    ASSERT_TRUE(pool_.PushCompleted(data, 0, 0, 0));
    pool_.Release(pool_.PopAllCompleted());
  }
}

TEST_F(BufferPoolTest, BytesPastTheValidOnesAreZeroedToTheEndOfTheirPage) {
  uint8_t* data = pool_.Acquire();
  memset(data, 0xab, 4096);
  ASSERT_TRUE(pool_.PushCompleted(data, 40, 0, 0));
  pool_.Release(pool_.PopAllCompleted());
  ASSERT_EQ(pool_.Acquire(), data);
  EXPECT_TRUE(IsZero(data, kBytes));
}

TEST_F(BufferPoolTest, OversizedCompletionIsCutAndCounted) {
  uint8_t* data = pool_.Acquire();
  ASSERT_TRUE(pool_.PushCompleted(data, SIZE_MAX, 0, 0));
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  EXPECT_EQ(buffer->valid_bytes, kBytes);
  EXPECT_EQ(pool_.stats().oversized, 1u);
  pool_.Release(buffer);
  EXPECT_EQ(pool_.stats().released, 1u);
}

TEST_F(BufferPoolTest, DoubleCompletionIsRefusedInEveryLaterState) {
  uint8_t* data = pool_.Acquire();
  ASSERT_TRUE(pool_.PushCompleted(data, 1, 0, 0));
  EXPECT_FALSE(pool_.PushCompleted(data, 2, 0, 0)) << "completed";
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  EXPECT_FALSE(pool_.PushCompleted(data, 3, 0, 0)) << "draining";
  EXPECT_EQ(buffer->valid_bytes, 1u);
  EXPECT_EQ(buffer->next, nullptr);
  pool_.Release(buffer);
  EXPECT_FALSE(pool_.PushCompleted(data, 4, 0, 0)) << "free";
  EXPECT_EQ(pool_.PopAllCompleted(), nullptr);
  EXPECT_EQ(pool_.stats().foreign, 3u);
  EXPECT_EQ(pool_.stats().completed, 1u);
  EXPECT_EQ(pool_.stats().outstanding, 0u);
}

TEST_F(BufferPoolTest, ForeignPointersAreRefusedAndUntouched) {
  const std::vector<uint8_t*> all = AcquireAll();
  uint8_t* lowest = *std::min_element(all.begin(), all.end());
  uint8_t* end = lowest + kBytes * kCount;
  std::vector<uint8_t> host(kBytes, 0x5a);
  uint8_t* const foreign[] = {nullptr,
                              host.data(),
                              lowest + 8,
                              lowest + kBytes - 1,
                              lowest - 1,
                              end,
                              reinterpret_cast<uint8_t*>(UINTPTR_MAX)};
  for (uint8_t* p : foreign)
    EXPECT_FALSE(pool_.PushCompleted(p, kBytes, 0, 0)) << static_cast<void*>(p);
  EXPECT_EQ(pool_.stats().foreign, std::size(foreign));
  EXPECT_EQ(pool_.stats().outstanding, kCount);
  EXPECT_EQ(pool_.PopAllCompleted(), nullptr);
  EXPECT_EQ(std::count(host.begin(), host.end(), 0x5a), static_cast<ptrdiff_t>(kBytes));
  EXPECT_FALSE(pool_.Owns(lowest - 1));
  EXPECT_FALSE(pool_.Owns(end));
}

TEST_F(BufferPoolTest, WrongReleasesAreRefused) {
  CompletedBuffer* buffer = Pass();
  pool_.Release(buffer);
  pool_.Release(buffer);  // free
  uint8_t* data = pool_.Acquire();
  ASSERT_EQ(data, buffer->data);
  memset(data, 0xcd, kBytes);
  pool_.Release(buffer);  // outstanding
  EXPECT_EQ(std::count(data, data + kBytes, 0xcd), static_cast<ptrdiff_t>(kBytes));
  ASSERT_TRUE(pool_.PushCompleted(data, kBytes, 0, 0));
  pool_.Release(buffer);  // completed, not popped
  CompletedBuffer stranger = {};
  pool_.Release(&stranger);
  pool_.Release(nullptr);
  EXPECT_EQ(pool_.stats().foreign, 5u);
  EXPECT_EQ(pool_.stats().released, 1u);
  EXPECT_EQ(pool_.PopAllCompleted(), buffer);
  std::set<uint8_t*> free_now;
  for (uint8_t* p : AcquireAll()) EXPECT_TRUE(free_now.insert(p).second) << "handed out twice";
  EXPECT_EQ(free_now.size(), kCount - 1);
}

TEST_F(BufferPoolTest, UnreturnedBuffersAreNeverTouchedOrHandedOutAgain) {
  uint8_t* kept = pool_.Acquire();
  memset(kept, 0x77, kBytes);
  for (int i = 0; i < 500; ++i) {
    CompletedBuffer* buffer = Pass();
    ASSERT_NE(buffer->data, kept);
    pool_.Release(buffer);
  }
  EXPECT_EQ(std::count(kept, kept + kBytes, 0x77), static_cast<ptrdiff_t>(kBytes));
  EXPECT_EQ(pool_.stats().outstanding, 1u);
}

TEST_F(BufferPoolTest, StatsFollowABuffer) {
  uint8_t* a = pool_.Acquire();
  uint8_t* b = pool_.Acquire();
  EXPECT_EQ(pool_.stats().outstanding, 2u);
  ASSERT_TRUE(pool_.PushCompleted(a, 1, 0, 0));
  ASSERT_TRUE(pool_.PushCompleted(b, 1, 0, 0));
  ASSERT_NE(pool_.Acquire(), nullptr);
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  while (buffer != nullptr) {
    CompletedBuffer* next = buffer->next;
    pool_.Release(buffer);
    buffer = next;
  }
  const BufferPool::Stats stats = pool_.stats();
  EXPECT_EQ(stats.acquired, 3u);
  EXPECT_EQ(stats.completed, 2u);
  EXPECT_EQ(stats.released, 2u);
  EXPECT_EQ(stats.outstanding, 1u);
  EXPECT_EQ(stats.peak_outstanding, 2u);
  EXPECT_EQ(stats.refused + stats.foreign + stats.oversized + stats.given_back, 0u);
}

// Residency and the way back of pages to the kernel.

size_t ResidentBytes(const std::vector<uint8_t*>& buffers, size_t bytes) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page_bytes);
  size_t resident = 0;
  for (uint8_t* data : buffers) {
    EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
    resident += page_bytes * std::count_if(pages.begin(), pages.end(), [](int p) { return p & 1; });
  }
  return resident;
}

class BufferPoolDemandTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 65536;
  static constexpr uint32_t kCount = 8;

  void SetUp() override { ASSERT_TRUE(pool_.Init(kBytes, kCount)); }

  // Has `in_use` buffers outstanding at once, filled, and then releases them all.
  void Burst(uint32_t in_use) {
    std::vector<uint8_t*> held;
    for (uint32_t i = 0; i < in_use; ++i) {
      held.push_back(pool_.Acquire());
      ASSERT_NE(held.back(), nullptr);
      ASSERT_TRUE(IsZero(held.back(), kBytes));
      memset(held.back(), 1, kBytes);
    }
    for (uint8_t* data : held) ASSERT_TRUE(pool_.PushCompleted(data, kBytes, 0, 0));
    for (CompletedBuffer* b = pool_.PopAllCompleted(); b != nullptr;) {
      CompletedBuffer* next = b->next;
      buffers_.insert(b->data);
      pool_.Release(b);
      b = next;
    }
  }
  size_t Resident() const { return ResidentBytes({buffers_.begin(), buffers_.end()}, kBytes); }

  BufferPool pool_;
  std::set<uint8_t*> buffers_;
};

TEST_F(BufferPoolDemandTest, SteadyUseOfOneBufferTouchesOnlyOne) {
  for (int i = 0; i < 300; ++i) Burst(1);
  EXPECT_EQ(buffers_.size(), 1u);
  EXPECT_EQ(pool_.stats().given_back, 0u);
}

TEST_F(BufferPoolDemandTest, DemandThatRisesAndFallsKeepsItsBuffers) {
  for (int i = 0; i < 100; ++i) {
    Burst(kCount);
    for (int j = 0; j < 16; ++j) Burst(1);
  }
  EXPECT_EQ(pool_.stats().given_back, 0u);
}

TEST_F(BufferPoolDemandTest, PagesThatDemandNoLongerNeedsGoBackToTheKernel) {
  Burst(kCount);
  if (Resident() != kCount * kBytes) GTEST_SKIP() << "mincore does not tell here";
  for (int i = 0; i < 1000; ++i) Burst(1);
  // One in use and one spare stay; each of the others is given back once, not again and again.
  EXPECT_EQ(pool_.stats().given_back, kCount - 2);
  EXPECT_EQ(Resident(), 2 * kBytes);
  Burst(kCount);  // checks that buffers given back are zero
  EXPECT_EQ(Resident(), kCount * kBytes);
}

TEST_F(BufferPoolDemandTest, LockedMemoryIsZeroedInsteadOfGivenBack) {
  Burst(kCount);
  for (uint8_t* data : buffers_) {
    if (mlock(data, kBytes) != 0) GTEST_SKIP() << "mlock is not permitted here";
  }
  for (int i = 0; i < 300; ++i) Burst(1);
  Burst(kCount);  // checks that all are zero
  for (uint8_t* data : buffers_) munlock(data, kBytes);
}

// Fork.

bool KernelWipesOnFork() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool wipes = page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) == 0;
  munmap(page, 4096);
  return wipes;
}

TEST_F(BufferPoolTest, ForkedChildSeesZeroedBuffersAndCannotDisturbTheParent) {
  uint8_t* outstanding = pool_.Acquire();
  uint8_t* completed = pool_.Acquire();
  memset(outstanding, 0x11, kBytes);
  memset(completed, 0x22, kBytes);
  ASSERT_TRUE(pool_.PushCompleted(completed, kBytes, 0, 0));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool wiped = IsZero(outstanding, kBytes) && IsZero(completed, kBytes);
    memset(outstanding, 0x33, kBytes);  // what CUPTI's copy in the child may do
    memset(completed, 0x33, kBytes);
    while (pool_.Acquire() != nullptr) {
    }
    (void)pool_.PushCompleted(outstanding, kBytes, 0, 0);
    _exit(wiped ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child crashed";
  EXPECT_EQ(std::count(outstanding, outstanding + kBytes, 0x11), static_cast<ptrdiff_t>(kBytes));
  CompletedBuffer* buffer = pool_.PopAllCompleted();
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(buffer->next, nullptr);
  EXPECT_EQ(std::count(buffer->data, buffer->data + kBytes, 0x22), static_cast<ptrdiff_t>(kBytes));
  EXPECT_EQ(pool_.stats().outstanding, 1u);
  if (!KernelWipesOnFork()) GTEST_SKIP() << "MADV_WIPEONFORK needs Linux 4.14";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child saw the parent's bytes";
}

}  // namespace
}  // namespace gpuprobe

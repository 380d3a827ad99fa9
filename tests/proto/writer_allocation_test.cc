// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The writer lives in somebody else's process and must not touch its heap. This program stands in
// front of malloc (which sanitizers do themselves, so it is not built with them).
#include <atomic>
#include <cstddef>

#include "gtest/gtest.h"
#include "tests/proto/writer_harness.h"

namespace {
std::atomic<bool> g_watching{false};
std::atomic<int> g_allocations{0};

void Note() {
  // One thread in this program: no order is needed.
  if (g_watching.load(std::memory_order_relaxed))
    g_allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* malloc(size_t size) {
  Note();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Note();
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  Note();
  return __libc_realloc(old, size);
}
}

namespace gpuprobe::proto {
namespace {

TEST(WriterAllocationTest, AllocatesNothingFromInitToFinish) {
  WriterHarness harness;
  // A sink and names that allocate nothing themselves.
  static uint64_t bytes = 0;
  harness.hooks.write_frame = [](void*, const uint8_t*, size_t size) {
    bytes += size;
    return true;
  };
  harness.hooks.api_name = [](void*, ApiDomain, uint32_t, uint32_t*) -> const char* {
    return "cudaCall";
  };
  static const char* const kNames[] = {"_Z1aPf", "_Z1bPf", "_Z1cPf"};

  g_watching.store(true, std::memory_order_relaxed);
  const bool ok = harness.Init();
  for (uint32_t i = 0; i < 300000; ++i) {
    const int64_t now = kTestStartNs + i * 1000;
    harness.writer.OnApi({now, now + 300, ApiDomain::kRuntime, i % 50, 1, i % 7, i, 0});
    KernelRecord kernel = {};
    kernel.start_ns = now + 500;
    kernel.end_ns = now + 900;
    kernel.stream = i % 5;
    kernel.correlation = i;
    kernel.name = kNames[i % 3];
    kernel.grid_x = i % 1000;
    harness.writer.OnKernel(kernel);
    if (i % 50000 == 0) harness.writer.BeginBuffer();
  }
  harness.writer.AddLoss(LossCause::kCuptiDropped, 1, 2, 3, 4);
  harness.writer.AddBlind(1, 2, "who", "why");
  const bool finished = harness.writer.Finish("exit", 0);
  g_watching.store(false, std::memory_order_relaxed);

  EXPECT_TRUE(ok);
  EXPECT_TRUE(finished);
  EXPECT_GT(bytes, 1000u);
  EXPECT_EQ(g_allocations.load(std::memory_order_relaxed), 0);

  g_watching.store(true, std::memory_order_relaxed);
  delete new WriterHarness;  // the counter counts
  g_watching.store(false, std::memory_order_relaxed);
  EXPECT_GT(g_allocations.load(std::memory_order_relaxed), 0);
}

}  // namespace
}  // namespace gpuprobe::proto

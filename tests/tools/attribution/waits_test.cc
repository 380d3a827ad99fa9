// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/waits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;

std::vector<std::string> RowsText(const Analysis& a) {
  std::vector<std::string> lines;
  for (const WaitRow& row : a.waits) {
    lines.push_back(row.api + " | " + row.where + " | " + std::to_string(row.count) + " calls " +
                    std::to_string(row.total_ns) + " = busy " + std::to_string(row.device_busy_ns) +
                    " + idle " + std::to_string(row.device_idle_ns) + ", after " +
                    std::to_string(row.idle_after_ns) + ", longest " +
                    std::to_string(row.longest_ns));
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(Waits, SplitBlockedTimeAndCountTheIdleTimeThatFollows) {
  TimelineBuilder b;
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.SyncRecord(b.Sync(600, 1010), 3, 0, 0);
  b.Kernel(1700, 1800, b.Launch(1690, 1695));
  b.SyncRecord(b.Sync(1750, 1850), 3, 0, 0);
  EXPECT_EQ(RowsText(Analyse(b.Build(), {})),
            (Lines{"cudaStreamSynchronize | thread 11 main | 2 calls 510 = busy 450 + idle 60, "
                   "after 690, longest 410"}));
}

TEST(Waits, IdleAfterEndsAtTheThreadsOwnNextOperationAndCountsIdleTimeOnly) {
  TimelineBuilder b;
  const int32_t second = b.AddThread(12, "other");
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.SyncRecord(b.Sync(600, 1000), 3, 0, 0);
  b.Kernel(1100, 1300, b.Launch(1050, 1060, second));  // busy meanwhile, by another thread
  b.Kernel(1700, 1800, b.Launch(1690, 1695));
  EXPECT_EQ(Analyse(b.Build(), {}).waits.at(0).idle_after_ns, 100 + 400);
}

TEST(Waits, IdleAfterIsNothingWhereTheThreadSubmitsNothingMore) {
  TimelineBuilder b;
  const int32_t second = b.AddThread(12, "other");
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Sync(600, 1000);
  b.Kernel(1700, 1800, b.Launch(1690, 1695, second));
  EXPECT_EQ(Analyse(b.Build(), {}).waits.at(0).idle_after_ns, 0);
}

TEST(Waits, OverlappingOnSeveralThreadsStandInRowsOfTheirOwn) {
  TimelineBuilder b;
  const int32_t second = b.AddThread(12, "b"), third = b.AddThread(13, "c");
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Sync(100, 1000);
  b.Sync(200, 900, second);
  b.Sync(300, 400, third);
  b.Sync(320, 350, third);  // inside the other
  EXPECT_EQ(RowsText(Analyse(b.Build(), {})),
            (Lines{"cudaStreamSynchronize | thread 11 main | 1 calls 900 = busy 900 + idle 0, "
                   "after 0, longest 900",
                   "cudaStreamSynchronize | thread 12 b | 1 calls 700 = busy 700 + idle 0, after "
                   "0, longest 700",
                   "cudaStreamSynchronize | thread 13 c | 2 calls 130 = busy 130 + idle 0, after "
                   "0, longest 100"}));
}

TEST(Waits, AnAsynchronousCopyToPageableMemoryIsOne) {
  TimelineBuilder b;
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Copy(1000, 1010, b.Call("cudaMemcpyAsync", CallClass::kCopy, 50, 1020), true, 2);
  b.Copy(1030, 1040, b.Call("cudaMemcpyAsync", CallClass::kCopy, 1025, 1028), false, 2);
  EXPECT_EQ(
      RowsText(Analyse(b.Build(), {})),
      (Lines{"cudaMemcpyAsync | DtoH, pageable, thread 11 main | 1 calls 970 = busy 960 + idle "
             "10, after 10, longest 970"}));
}

TEST(Waits, FreesAndAllocationsCountOnlyWhereTheDeviceWasBusy) {
  TimelineBuilder b;
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Call("cudaFree", CallClass::kFree, 900, 1100);
  b.Call("cudaMalloc", CallClass::kAlloc, 1100, 1200);
  b.Kernel(1300, 1400, b.Launch(1250, 1260));
  EXPECT_EQ(
      RowsText(Analyse(b.Build(), {})),
      (Lines{"cudaFree | thread 11 main | 1 calls 200 = busy 100 + idle 100, after 200, longest "
             "200"}));
}

TEST(Waits, ALaunchThatBlocksWhileTheDeviceIsBusyIsAFullQueue) {
  TimelineBuilder b;
  b.Kernel(0, 900 * kUs, b.Launch(0, 5 * kUs));
  b.Kernel(900 * kUs, 901 * kUs, b.Launch(100 * kUs, 100 * kUs + kQueueFullNs));
  b.Kernel(901 * kUs, 902 * kUs, b.Launch(300 * kUs, 300 * kUs + kQueueFullNs - 1));
  b.Kernel(1500 * kUs, 1600 * kUs, b.Launch(1200 * kUs, 1500 * kUs));  // idle: not that
  EXPECT_EQ(RowsText(Analyse(b.Build(), {})),
            (Lines{"cudaLaunchKernel | launch queue full, thread 11 main | 1 calls 100000 = busy "
                   "100000 + idle 0, after 0, longest 100000"}));
}

TEST(Waits, GoToTheDeviceOfTheRecordThenOfTheLastSubmissionThenTheProcessesFirst) {
  TimelineBuilder b;
  const int32_t remote = b.AddStream(b.AddDevice(), 9);
  const int32_t idle_thread = b.AddThread(12, "never submits");
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Kernel(0, 500, b.Launch(6, 9), remote);
  const uint32_t by_record = b.Call("cudaDeviceSynchronize", CallClass::kSync, 100, 200);
  b.SyncRecord(by_record, 4, -1, 0);
  b.Call("cudaEventSynchronize", CallClass::kSync, 400, 600);  // last submission: device 1
  b.Call("cuCtxSynchronize", CallClass::kSync, 900, 1100, idle_thread);
  for (const int32_t device : {0, 1}) {
    Options options;
    options.device = device;
    const Lines rows = RowsText(Analyse(b.Build(), options));
    if (device == 0) {
      EXPECT_EQ(rows,
                (Lines{"cuCtxSynchronize | thread 12 never submits | 1 calls 200 = busy 100 + "
                       "idle 100, after 0, longest 200",
                       "cudaDeviceSynchronize | thread 11 main | 1 calls 100 = busy 100 + idle "
                       "0, after 0, longest 100"}));
    } else {
      EXPECT_EQ(rows,
                (Lines{"cudaEventSynchronize | thread 11 main | 1 calls 200 = busy 100 + idle "
                       "100, after 0, longest 200"}));
    }
  }
}

TEST(Waits, OfManyThreadsAndDevicesTakeMemoryForThePairsThatOccur) {
  // A table of all pairs would be 2^18 * 2^18 * 8 bytes.
  constexpr int kMany = 1 << 18;
  TimelineBuilder b;
  for (int i = 1; i < kMany; ++i) {
    b.AddDevice();
    b.AddThread(static_cast<uint32_t>(i) + 100, "");
  }
  const int32_t stream = b.AddStream(kMany - 1);
  b.Kernel(0, 1000, b.Launch(0, 5, kMany - 1), stream);
  b.SyncRecord(b.Sync(600, 1000, kMany - 1), 3, stream);
  b.Kernel(1700, 1800, b.Launch(1690, 1695, kMany - 1), stream);
  EXPECT_EQ(Analyse(b.Build(), {}).waits.at(0).idle_after_ns, 700);
}

TEST(Waits, AreClippedToTheUsersWindowAndScope) {
  TimelineBuilder b;
  const int32_t other = b.AddProcess(200, "other");
  const int32_t thread = b.AddThread(21, "t", other);
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Sync(100, 1100);
  b.Sync(100, 200, thread);
  b.Sync(2000, 2100);
  Options options;
  options.pid = 100;
  options.from_ns = 500;
  options.to_ns = 1050;
  EXPECT_EQ(
      RowsText(Analyse(b.Build(), options)),
      (Lines{"cudaStreamSynchronize | pid 100, thread 11 main | 1 calls 550 = busy 500 + idle "
             "50, after 0, longest 550"}));
}

TEST(Waits, OfAProcessWithoutGpuWorkAreAllIdle) {
  TimelineBuilder b;
  b.Sync(100, 200);
  EXPECT_EQ(
      RowsText(Analyse(b.Build(), {})),
      (Lines{"cudaStreamSynchronize | thread 11 main | 1 calls 100 = busy 0 + idle 100, after 0, "
             "longest 100"}));
}

}  // namespace
}  // namespace gpuprobe::tools

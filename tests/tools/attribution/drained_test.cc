// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Rule 6: a device that a blocking call had run dry. Times in the hundreds stand for back-to-back
// submission.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/attribution/attribution.h"

namespace gpuprobe::tools {
namespace {

using Lines = std::vector<std::string>;
constexpr int64_t kUs = 1'000;

TEST(Drained, IdleAfterAWaitIsItsUpToTheTimeItBlockedWhileTheDeviceWorked) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5 * kUs));
  b.Sync(600 * kUs, 1010 * kUs);  // 400 us of it while the device was busy
  b.Kernel(1700 * kUs, 1800 * kUs, b.Launch(1690 * kUs, 1695 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{// 10 us inside it, then the 400 us by which the host would have been ahead
                   "1000000-1410000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "1410000-1690000 host: outside CUDA (thread 11 main)",
                   "1690000-1695000 launch_bound: cudaLaunchKernel (thread 11 main)",
                   "1695000-1700000 launch_latency: queued, nothing to wait for"}));
}

TEST(Drained, EachBlockedNanosecondIsChargedOnceOverSeveralGaps) {
  TimelineBuilder b;
  b.Kernel(0, 1000, b.Launch(0, 5));
  b.Sync(900, 1010);  // 100 to charge
  int64_t at = 1010;
  for (int i = 0; i < 5; ++i) {
    b.Kernel(at + 50, at + 60, b.Launch(at + 40, at + 70));
    at += 70;
  }
  const Analysis a = Analyse(b.Build(), {});
  const DeviceReport& r = a.devices[0];
  EXPECT_EQ(r.idle_ns, 10 + 50 + 4 * 60);
  EXPECT_EQ(CauseNs(r, Cause::kSynchronisation), 10 + 100);
  EXPECT_EQ(CauseNs(r, Cause::kLaunchBound), r.idle_ns - 110);
}

TEST(Drained, IsOverOnceTheHostIsAheadAgain) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5 * kUs));
  b.Sync(100 * kUs, 1000 * kUs);
  b.Kernel(1020 * kUs, 2000 * kUs, b.Launch(1010 * kUs, 1020 * kUs));
  b.Kernel(2000 * kUs, 3000 * kUs, b.Launch(1030 * kUs, 1040 * kUs));  // queued behind
  b.Kernel(3300 * kUs, 3400 * kUs, b.Launch(3290 * kUs, 3300 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000000-1020000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "3000000-3290000 host: outside CUDA (thread 11 main)",
                   "3290000-3300000 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(Drained, AWaitThatFoundTheDeviceIdleHasNothingToCharge) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 5));
  b.Sync(200, 300);
  b.Kernel(500, 600, b.Launch(400, 500));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-200 launch_bound: between submissions (thread 11 main)",
                   "200-300 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "300-400 launch_bound: between submissions (thread 11 main)",
                   "400-500 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(Drained, AWaitThatEndedWhileTheDeviceWentOnDidNotDrainIt) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5));
  b.Call("cudaEventSynchronize", CallClass::kSync, 100 * kUs, 500 * kUs);
  b.Kernel(1300 * kUs, 1400 * kUs, b.Launch(1290 * kUs, 1300 * kUs));
  EXPECT_EQ(CauseNs(Analyse(b.Build(), {}).devices[0], Cause::kSynchronisation), 0);
}

TEST(Drained, AWaitThatSeemsToEndJustBeforeTheDeviceDidDrainedIt) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5));
  b.Sync(100 * kUs, 1000 * kUs - kClockSkewNs);
  b.Kernel(1300 * kUs, 1400 * kUs, b.Launch(1290 * kUs, 1300 * kUs));
  EXPECT_EQ(CauseNs(Analyse(b.Build(), {}).devices[0], Cause::kSynchronisation), 300 * kUs);
}

TEST(Drained, ByAPageableCopyOrAFreeIsTheirs) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5));
  b.Copy(1000 * kUs, 1010 * kUs, b.Call("cudaMemcpyAsync", CallClass::kCopy, 500 * kUs, 1015 * kUs),
         true, 2, 4);
  b.Kernel(1300 * kUs, 2000 * kUs, b.Launch(1290 * kUs, 1300 * kUs));
  b.Call("cudaFree", CallClass::kFree, 1500 * kUs, 2005 * kUs);
  b.Kernel(2300 * kUs, 2400 * kUs, b.Launch(2290 * kUs, 2300 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1010000-1300000 pageable_copy: cudaMemcpyAsync DtoH, pageable (thread 11 main)",
                   "2000000-2300000 blocking_api: cudaFree (thread 11 main)"}));
}

TEST(Drained, ABlockingCallAfterTheWaitKeepsItsOwnTime) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5));
  b.Sync(500 * kUs, 1000 * kUs);
  b.Call("cudaMalloc", CallClass::kAlloc, 1100 * kUs, 1200 * kUs);
  b.Kernel(1300 * kUs, 1400 * kUs, b.Launch(1290 * kUs, 1300 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000000-1100000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "1100000-1200000 blocking_api: cudaMalloc (thread 11 main)",
                   "1200000-1300000 synchronisation: cudaStreamSynchronize (thread 11 main)"}));
}

TEST(Drained, AShortCallAfterALongWaitDoesNotTakeItsPlace) {
  TimelineBuilder b;
  b.Kernel(0, 1000 * kUs, b.Launch(0, 5));
  b.Sync(600 * kUs, 1000 * kUs);
  b.Kernel(1060 * kUs, 1070 * kUs, b.Launch(1050 * kUs, 1065 * kUs));
  b.Call("cudaMalloc", CallClass::kAlloc, 1066 * kUs, 1072 * kUs);
  b.Kernel(1300 * kUs, 1400 * kUs, b.Launch(1290 * kUs, 1300 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000000-1060000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "1070000-1072000 blocking_api: cudaMalloc (thread 11 main)",
                   "1072000-1300000 synchronisation: cudaStreamSynchronize (thread 11 main)"}));
}

TEST(Drained, TheFeedingThreadsWaitIsChargedWhenAnotherThreadTakesOver) {
  // The main thread reads the loss, then hands over to the backward thread, long outside CUDA.
  TimelineBuilder b;
  const int32_t backward = b.AddThread(12, "autograd");
  b.Kernel(0, 10, b.Launch(0, 5, backward), 0);
  b.Kernel(10, 1000 * kUs, b.Launch(5, 10));
  b.Sync(800 * kUs, 1050 * kUs);
  b.Kernel(1400 * kUs, 1500 * kUs, b.Launch(1390 * kUs, 1400 * kUs, backward));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000000-1250000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "1250000-1390000 host: outside CUDA (thread 12 autograd)",
                   "1390000-1400000 launch_bound: cudaLaunchKernel (thread 12 autograd)"}));
}

TEST(Drained, AWaitOfAThreadThatDoesNotFeedTheDeviceIsNotCharged) {
  TimelineBuilder b;
  const int32_t watcher = b.AddThread(12, "watcher");
  b.Kernel(0, 1000, b.Launch(980, 990));
  b.Sync(0, 1100, watcher);
  b.Kernel(1500, 1600, b.Launch(1400, 1500));
  EXPECT_EQ(CauseNs(Analyse(b.Build(), {}).devices[0], Cause::kSynchronisation), 0);
}

}  // namespace
}  // namespace gpuprobe::tools

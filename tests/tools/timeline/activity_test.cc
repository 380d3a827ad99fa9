// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Busy, idle, breakdown, gaps and windows: everything that needs the GPU side alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(Busy, IsTheUnionOverStreamsNeverASum) {
  // Three streams idle together for 270 ms of 310 ms.
  TimelineBuilder b;
  const int32_t s2 = b.AddStream(0, 13), s3 = b.AddStream(0, 14);
  for (const int32_t stream : {0, s2, s3}) {
    b.Kernel(0, 20 * kMs, 0, stream);
    b.Kernel(290 * kMs, 310 * kMs, 0, stream);
  }
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.window.span(), 310 * kMs);
  EXPECT_EQ(r.idle_ns, 270 * kMs);
  EXPECT_EQ(r.kernels.sum_ns, 120 * kMs);
  EXPECT_EQ(r.kernels.union_ns, 40 * kMs);
  EXPECT_EQ(r.kernels.count, 6u);
}

TEST(Busy, AlternatingStreamsLeaveNoGap) {
  TimelineBuilder b;
  const int32_t other = b.AddStream(0, 13);
  for (int i = 0; i < 10; ++i) b.Kernel(i * 10, (i + 1) * 10, 0, i % 2 ? other : 0);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.idle_ns, 0);
  EXPECT_TRUE(r.gaps.empty());
  EXPECT_TRUE(r.causes.empty());
}

TEST(Busy, TheSameStreamIdOnFourDevicesStaysApart) {
  TimelineBuilder b;
  std::vector<int32_t> streams{0};
  for (int i = 1; i < 4; ++i) streams.push_back(b.AddStream(b.AddDevice(), 7));
  for (const int32_t stream : streams) {
    b.Kernel(0, 90, 0, stream);
    b.Kernel(95, 100, 0, stream);
  }
  b.Kernel(5, 10).stream = -1;  // a stream that could not be resolved
  const Analysis a = Analyse(b.Build(), {});
  ASSERT_EQ(a.devices.size(), 4u);
  for (const DeviceReport& r : a.devices) {
    EXPECT_EQ(r.busy_ns, 95);
    EXPECT_EQ(r.window.span(), 100);
  }
}

TEST(Busy, SynchronisationsAreNoGpuWork) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  b.Kernel(100, 110);
  const uint32_t sync = b.Sync(5, 200);
  b.SyncRecord(sync, 3, 0, 0);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.busy_ns, 20);
  EXPECT_EQ(r.window.end_ns, 110);
}

TEST(Breakdown, CopiesCountOnlyWhereNoKernelRuns) {
  TimelineBuilder b;
  b.Copy(0, 30, 0, false, 1, 1000);
  b.Kernel(20, 50);
  b.Set(60, 70, 0, 500);
  b.Kernel(80, 100);
  b.Copy(85, 95, 0, false, 2, 24);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.compute_ns, 50);
  EXPECT_EQ(r.copy_ns, 30);
  EXPECT_EQ(r.communication_ns, 0);
  EXPECT_EQ(r.idle_ns, 20);
  EXPECT_EQ(r.copies.count, 2u);
  EXPECT_EQ(r.copies.bytes, 1024u);
  EXPECT_EQ(r.copies.sum_ns, 40);
  EXPECT_EQ(r.sets.bytes, 500u);
  EXPECT_EQ(r.sets.union_ns, 10);
}

TEST(Breakdown, CommunicationCountsOnlyWhereNothingComputes) {
  TimelineBuilder b;
  b.Kernel(0, 40);
  b.Kernel(30, 100, 0, 0,
           "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)");
  b.Copy(90, 120);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.compute_ns, 40);
  EXPECT_EQ(r.communication_ns, 60);
  EXPECT_EQ(r.copy_ns, 20);
  EXPECT_EQ(r.idle_ns, 0);
}

TEST(Breakdown, AGraphLaunchIsCompute) {
  TimelineBuilder b;
  b.Graph(0, 50);
  b.Kernel(70, 80);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.compute_ns, 60);
  EXPECT_EQ(r.graphs.count, 1u);
  EXPECT_EQ(r.graphs.union_ns, 50);
  EXPECT_EQ(r.kernels.union_ns, 10);
}

TEST(Communication, IsToldByName) {
  for (const char* name :
       {"ncclKernel_AllGather_RING_LL_Sum_int8_t", "ncclDevKernel_Generic_4",
        "_Z35ncclDevKernel_AllReduce_Sum_f32_RING", "nvshmemi_barrier_on_stream_kernel",
        "void vllm::cross_device_reduce_1stage<__half, 2>(...)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8>(...)",
        "one_shot_all_reduce_kernel", "multimem_all_reduce_kernel", "rcclGenericKernel",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel(...)"}) {
    EXPECT_TRUE(IsCommunicationKernel(name)) << name;
  }
  for (const char* name :
       {"void at::native::reduce_kernel<512, 1>(...)", "nvjet_sm90_tst_64x32_64x16_2x4_h_bz_NNT",
        "void cub::DeviceReduceKernel(...)", "broadcast_elementwise", "gather_kernel", ""}) {
    EXPECT_FALSE(IsCommunicationKernel(name)) << name;
  }
}

TEST(Gaps, AZeroLengthOperationDividesAGap) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  b.Kernel(20, 20);
  b.Kernel(35, 40);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  ASSERT_EQ(r.gaps.size(), 2u);
  EXPECT_EQ(r.gaps[0].begin_ns, 10);
  EXPECT_EQ(r.gaps[0].end_ns, 20);
  EXPECT_EQ(r.gaps[1].begin_ns, 20);
  EXPECT_EQ(r.gaps[1].end_ns, 35);
  EXPECT_EQ(r.kernels.zero_length, 1u);
  EXPECT_EQ(r.idle_ns, 25);
}

TEST(Gaps, TheThresholdListsButNeverHides) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  b.Kernel(15, 20);
  b.Kernel(40, 50);
  Options options;
  options.min_gap_ns = 20;
  const DeviceReport r = Analyse(b.Build(), options).devices.at(0);
  EXPECT_EQ(r.gaps.size(), 2u);
  EXPECT_EQ(r.idle_ns, 25);
  EXPECT_EQ(r.listed_gaps, 1u);
  EXPECT_EQ(r.listed_gaps_ns, 20);
}

TEST(Gaps, NameTheOperationsAroundThem) {
  TimelineBuilder b;
  b.Kernel(0, 30);
  b.Kernel(5, 10);
  const int32_t other = b.AddStream(0, 13);
  // Both end the gap; the one whose submission began first is the one that ended the wait.
  const uint32_t late = b.Launch(42, 44), early = b.Launch(40, 41);
  b.Kernel(50, 60, late);
  b.Kernel(50, 61, early, other);
  const Timeline t = b.Build();
  const DeviceReport r = Analyse(t, {}).devices.at(0);
  ASSERT_EQ(r.gaps.size(), 1u);
  EXPECT_EQ(t.ops[r.gaps[0].previous_op].end_ns, 30);
  EXPECT_EQ(t.ops[r.gaps[0].next_op].correlation, early);
}

TEST(Gaps, PreferANextOperationOfKnownSubmission) {
  TimelineBuilder b;
  b.Kernel(0, 30);
  b.Kernel(50, 55);
  const uint32_t launch = b.Launch(42, 44);
  b.Kernel(50, 60, launch);
  const Timeline t = b.Build();
  EXPECT_EQ(t.ops[Analyse(t, {}).devices.at(0).gaps.at(0).next_op].correlation, launch);
}

TEST(Window, IsFirstStartToLastEndSoTheTimeBeforeTheFirstKernelIsNotIdle) {
  constexpr int64_t kStart = 60'000 * kMs;  // a minute of imports
  TimelineBuilder b;
  b.Call("cudaMalloc", CallClass::kAlloc, 10, 20);
  b.Kernel(kStart, kStart + 10);
  b.Kernel(kStart + 15, kStart + 20);
  b.Sync(kStart + 15, kStart + 5'000 * kMs);
  const DeviceReport r = Analyse(b.Build(), {}).devices.at(0);
  EXPECT_EQ(r.window.start_ns, kStart);
  EXPECT_EQ(r.window.span(), 20);
  EXPECT_EQ(r.idle_ns, 5);
  EXPECT_EQ(CauseNs(r, Cause::kStart), 0);
}

TEST(Window, OfTheUserShowsStartAndEndApart) {
  TimelineBuilder b;
  b.Kernel(100, 110);
  b.Kernel(120, 130);
  Options options;
  options.from_ns = 0;
  options.to_ns = 200;
  const Analysis a = Analyse(b.Build(), options);
  EXPECT_EQ(PartsText(a), (std::vector<std::string>{"0-100 start: before the first GPU operation",
                                                    "110-120 unknown: launch call not recorded",
                                                    "130-200 end: after the last GPU operation"}));
  EXPECT_EQ(a.devices[0].window.span(), 200);
}

TEST(Window, OfTheUserClipsOperationsAndGaps) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  b.Kernel(20, 40);
  b.Kernel(50, 60);
  b.Kernel(90, 100);
  Options options;
  options.from_ns = 15;
  options.to_ns = 80;
  const DeviceReport r = Analyse(b.Build(), options).devices.at(0);
  EXPECT_EQ(r.kernels.count, 2u);
  EXPECT_EQ(r.busy_ns, 30);
  ASSERT_EQ(r.gaps.size(), 3u);
  EXPECT_EQ(r.gaps[0].begin_ns, 15);
  EXPECT_EQ(r.gaps[0].end_ns, 20);
  EXPECT_EQ(r.gaps[2].end_ns, 80);
  EXPECT_GE(r.gaps[2].next_op, 0);  // the gap goes on: it is no end
  EXPECT_EQ(CauseNs(r, Cause::kEnd), 0);
}

TEST(Window, AdjacentWindowsAddUp) {
  TimelineBuilder b;
  for (int i = 0; i < 20; ++i) b.Kernel(i * 10, i * 10 + i % 7);
  const Timeline t = b.Build();
  Options first, second, all;
  all.from_ns = first.from_ns = 3;
  first.to_ns = second.from_ns = 100;
  all.to_ns = second.to_ns = 171;
  const DeviceReport a = Analyse(t, first).devices.at(0), c = Analyse(t, second).devices.at(0),
                     whole = Analyse(t, all).devices.at(0);
  EXPECT_EQ(a.busy_ns + c.busy_ns, whole.busy_ns);
  EXPECT_EQ(a.idle_ns + c.idle_ns, whole.idle_ns);
  EXPECT_EQ(a.kernels.zero_length + c.kernels.zero_length, whole.kernels.zero_length);
}

TEST(Window, EmptyOrBackwardsHoldsNothing) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  b.Kernel(20, 30);
  Options options;
  options.from_ns = 25;
  options.to_ns = 5;
  const Analysis a = Analyse(b.Build(), options);
  EXPECT_EQ(a.devices.at(0).window.span(), 0);
  EXPECT_TRUE(a.devices[0].gaps.empty());
  EXPECT_EQ(a.internal_error, "");
}

TEST(Scope, TwoProcessesThatAlternateLeaveTheDeviceBusy) {
  TimelineBuilder b;
  const int32_t other = b.AddProcess(200, "/opt/serve");
  const int32_t stream = b.AddStream(0, 7, other);
  for (int i = 0; i < 10; ++i) b.Kernel(i * 10, (i + 1) * 10, 0, i % 2 ? stream : 0);
  const Timeline t = b.Build();
  const Analysis together = Analyse(t, {});
  EXPECT_EQ(together.devices.at(0).idle_ns, 0);

  Options options;
  options.pid = 100;
  const Analysis alone = Analyse(t, options);
  const DeviceReport& r = alone.devices.at(0);
  EXPECT_EQ(r.window.span(), 90);
  EXPECT_EQ(r.busy_ns, 50);
  EXPECT_EQ(r.idle_ns, 40);
  EXPECT_EQ(CauseNs(r, Cause::kOtherProcess), 40);
  EXPECT_EQ(PartsText(alone).front(), "10-20 other_process: pid 200 serve");
}

TEST(Scope, APidThatRanNothingHasNoDevice) {
  TimelineBuilder b;
  b.Kernel(0, 10);
  Options options;
  options.pid = 4711;
  const Analysis a = Analyse(b.Build(), options);
  EXPECT_TRUE(a.devices.empty());
  EXPECT_EQ(a.verdict.kind, "no_gpu_work");
}

TEST(Scope, ADeviceAskedForIsReportedEvenWithoutWork) {
  TimelineBuilder b;
  b.AddDevice();
  b.Kernel(0, 10);
  Options options;
  options.device = 1;
  options.from_ns = 0;
  options.to_ns = 50;
  const Analysis a = Analyse(b.Build(), options);
  ASSERT_EQ(a.devices.size(), 1u);
  EXPECT_EQ(a.devices[0].device, 1);
  EXPECT_EQ(CauseNs(a.devices[0], Cause::kStart), 50);
  EXPECT_EQ(a.verdict.kind, "no_gpu_work");
}

TEST(Untimed, AreCountedAndTheirTimeIsUnknownNotIdleOfTheApplication) {
  TimelineBuilder b;
  const uint32_t first = b.Launch(0, 5);
  b.Kernel(10, 20, first);
  const uint32_t lost = b.Launch(25, 30);
  b.Untimed(1, lost);
  const uint32_t next = b.Launch(60, 65);
  b.Kernel(70, 80, next);
  const Analysis a = Analyse(b.Build(), {});
  const DeviceReport& r = a.devices.at(0);
  EXPECT_EQ(r.untimed, 1u);
  EXPECT_EQ(r.untimed_missing, 1u);
  EXPECT_EQ(r.busy_ns, 20);
  // It can have run from its launch to the start of the next operation of its stream.
  EXPECT_EQ(PartsText(a), (std::vector<std::string>{
                              "20-25 launch_bound: between submissions (thread 11 main)",
                              "25-70 unknown: GPU work whose times could not be collected"}));
}

TEST(Untimed, UnfinishedWorkIsUnknownFromItsStart) {
  TimelineBuilder b;
  b.Kernel(10, 20, b.NextCorrelation());
  b.Untimed(2, b.NextCorrelation(), 0, 30);
  const uint32_t next = b.Launch(35, 65);
  b.Kernel(70, 80, next);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(a.devices[0].untimed_unfinished, 1u);
  EXPECT_EQ(PartsText(a).back(), "30-70 unknown: GPU work whose times could not be collected");
}

TEST(Untimed, OfWhichNothingIsKnownAreOnlyCounted) {
  TimelineBuilder b;
  b.Kernel(10, 20);
  b.Kernel(30, 40);
  b.Untimed(3, 0);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(a.devices[0].untimed_invalid, 1u);
  EXPECT_EQ(PartsText(a), (std::vector<std::string>{"20-30 unknown: launch call not recorded"}));
}

}  // namespace
}  // namespace gpuprobe::tools

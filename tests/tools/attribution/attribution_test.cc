// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Why the device was idle, rule by rule (rule 6: drained_test.cc). Times in the hundreds stand for
// back-to-back submission; a host that is busy with something else takes longer than kBackToBackNs.
#include "tools/attribution/attribution.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

using Lines = std::vector<std::string>;
constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

// --- rule 1: other processes and times that were not seen
// -----------------------------------------

TEST(Unseen, BlindTimeIsUnknownAndTheRestKeepsItsCause) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(500, 600, b.Launch(450, 460));
  b.BlindTime(200, 300, Blind::Why::kOtherClient, "libkineto");
  b.BlindTime(250, 320, Blind::Why::kLoss, "ring full");
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(PartsText(a), (Lines{"100-200 launch_bound: between submissions (thread 11 main)",
                                 "200-300 unknown: blind: libkineto had CUPTI",
                                 "300-320 unknown: records lost: ring full",
                                 "320-450 launch_bound: between submissions (thread 11 main)",
                                 "450-460 launch_bound: cudaLaunchKernel (thread 11 main)",
                                 "460-500 launch_latency: queued, nothing to wait for"}));
  EXPECT_EQ(a.blind_ns, 120);
}

TEST(Unseen, BlindTimeOfAProcessThatDoesNotUseTheDeviceDoesNotCount) {
  TimelineBuilder b;
  const int32_t other = b.AddProcess(200, "other");
  b.AddStream(b.AddDevice(), 7, other);
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(500, 600, b.Launch(450, 460));
  b.BlindTime(0, 1000, Blind::Why::kDamage, "x.gpuprobe: 12 bytes", other);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(CauseNs(a.devices[0], Cause::kUnknown), 0);
  EXPECT_EQ(a.blind_ns, 0);
}

TEST(Unseen, BlindTimeOfAnyProcessOfTheDeviceCounts) {
  TimelineBuilder b;
  const int32_t other = b.AddProcess(200, "other");
  b.Kernel(0, 100, 0, b.AddStream(0, 7, other));
  b.Kernel(500, 600, b.Launch(450, 460));
  b.BlindTime(200, 300, Blind::Why::kDamage, "x.gpuprobe: 12 bytes", other);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(CauseNs(a.devices[0], Cause::kUnknown), 100);
}

TEST(OtherProcess, TakesItsTimeOutOfTheGap) {
  TimelineBuilder b;
  const int32_t other = b.AddProcess(200, "/usr/bin/serve");
  const int32_t stream = b.AddStream(0, 7, other);
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(150, 250, 0, stream);
  b.Kernel(200, 300, 0, stream);
  b.Kernel(500, 600, b.Launch(450, 460));
  Options options;
  options.pid = 100;
  const Analysis a = Analyse(b.Build(), options);
  EXPECT_EQ(PartsText(a),
            (Lines{"100-150 launch_bound: between submissions (pid 100, thread 11 main)",
                   "150-300 other_process: pid 200 serve",
                   "300-450 launch_bound: between submissions (pid 100, thread 11 main)",
                   "450-460 launch_bound: cudaLaunchKernel (pid 100, thread 11 main)",
                   "460-500 launch_latency: queued, nothing to wait for"}));
}

// --- rule 2: the submission
// -----------------------------------------------------------------------

TEST(Submission, NotRecordedIsUnknown) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(200, 300, 0);                    // no correlation
  b.Kernel(400, 500, b.NextCorrelation());  // one that no call has
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-200 unknown: launch call not recorded",
                   "300-400 unknown: launch call not recorded"}));
}

TEST(Submission, NodesOfOneGraphLaunchShareItsCorrelation) {
  TimelineBuilder b;
  const uint32_t launch = b.Call("cudaGraphLaunch", CallClass::kLaunch, 0, 5);
  constexpr int kNodes = 1049;
  for (int i = 0; i < kNodes; ++i) {
    b.Kernel(10 + i * 3000, 10 + i * 3000 + 1000, launch).graph_node_id = 1 + i;
  }
  const Analysis a = Analyse(b.Build(), {});
  const DeviceReport& r = a.devices[0];
  EXPECT_EQ(r.kernels.count, 1049u);
  EXPECT_EQ(r.busy_ns, kNodes * 1000);
  EXPECT_EQ(CauseNs(r, Cause::kLaunchLatency), r.idle_ns);
  EXPECT_EQ(a.places[r.parts[0].where], "between nodes of one graph launch");
}

TEST(Submission, GraphNodesWithoutALaunchRecordAreStillOneLaunch) {
  TimelineBuilder b;
  const uint32_t unseen = b.NextCorrelation();
  b.Kernel(0, 1000, unseen).graph_node_id = 1;
  b.Kernel(4000, 5000, unseen).graph_node_id = 2;
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000-4000 launch_latency: between nodes of one graph launch"}));
}

TEST(Submission, GapsBetweenNodesNoLongerThanTheTracingCostAreTheProfilers) {
  TimelineBuilder b;
  const uint32_t launch = b.Call("cudaGraphLaunch", CallClass::kLaunch, 0, 5);
  for (int i = 0; i < 100; ++i) {
    b.Kernel(10 + i * 2 * kGraphFloorNs, 10 + (i * 2 + 1) * kGraphFloorNs, launch).graph_node_id =
        1 + i;
  }
  const DeviceReport r = Analyse(b.Build(), {}).devices[0];
  EXPECT_EQ(r.idle_ns, 99 * kGraphFloorNs);
  EXPECT_EQ(CauseNs(r, Cause::kProfiler), r.idle_ns);
}

TEST(Submission, OfOneCallWithoutRecordIsLaunchLatency) {
  TimelineBuilder b;
  const uint32_t unseen = b.NextCorrelation();
  b.Copy(0, 100, unseen);
  b.Copy(150, 200, unseen);
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-150 launch_latency: between operations of one call"}));
}

TEST(Submission, AKernelBeforeItsLaunchIsClampedAndCounted) {
  // 300 ns ... 50 us of skew; nothing wraps, nothing becomes negative.
  for (const int64_t skew : {int64_t{300}, 2 * kUs, 50 * kUs}) {
    TimelineBuilder b;
    b.Kernel(0, 10 * kUs, b.Launch(0, 5));
    b.Kernel(60 * kUs, 70 * kUs, b.Launch(60 * kUs + skew, 65 * kUs + skew));
    const Analysis a = Analyse(b.Build(), {});
    const DeviceReport& r = a.devices[0];
    EXPECT_EQ(r.ops_before_submission, 1u);
    EXPECT_EQ(r.largest_skew_ns, skew);
    EXPECT_EQ(PartsText(a),
              (Lines{"10000-60000 launch_bound: between submissions (thread 11 main)"}));
  }
}

TEST(Submission, AKernelLongBeforeItsLaunchIsUnknown) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 5));
  b.Kernel(200, 300, b.Launch(200 + kImpossibleSkewNs + 1, 300 + kImpossibleSkewNs));
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(PartsText(a),
            (Lines{"100-200 unknown: launch call recorded after its operation (clocks disagree)"}));
  EXPECT_EQ(a.devices[0].largest_skew_ns, kImpossibleSkewNs + 1);
}

// --- rule 3: queued
// -------------------------------------------------------------------------------

TEST(Queued, WithNothingToWaitForIsLaunchLatency) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(110, 200, b.Launch(20, 30));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-110 launch_latency: queued, nothing to wait for"}));
}

TEST(Queued, BehindAnEventOfAnotherStreamIsDependency) {
  TimelineBuilder b;
  const int32_t second = b.AddStream(0, 13);
  b.Kernel(0, 50, b.Launch(0, 2), second);
  b.Kernel(0, 100, b.Launch(3, 5));
  b.EventRecord(1, 0, 6, 7);
  b.StreamWait(1, second, 8, 9);
  b.Kernel(120, 200, b.Launch(10, 12), second);
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-120 dependency: stream 13 waited for stream 7"}));
}

// Nothing hits a call of a microsecond: the line is that of the dispatch around it.
TEST(Queued, ADependencyIsPutToTheLineThatDispatchedIt) {
  TimelineBuilder b;
  const int32_t second = b.AddStream(0, 13);
  b.Kernel(0, 50, b.Launch(0, 2), second);
  b.Kernel(0, 100, b.Launch(3, 5));
  b.EventRecord(1, 0, 6, 7);
  b.StreamWait(1, second, 8, 9);
  b.Kernel(120, 200, b.Launch(10, 12), second);
  b.AddSample(0, 4, 4, {4, 0}, HostState::kRunning, b.Stack({"/job/train.py:55 transform"}));
  const Analysis analysis = Analyse(b.Build(), {});
  EXPECT_EQ(PartsText(analysis), (Lines{"100-120 dependency: train.py:55 in transform"}));
  ASSERT_EQ(analysis.devices[0].causes.size(), 1u);
  EXPECT_EQ(analysis.devices[0].causes[0].sites[0].detail, "stream 13 waited for stream 7");
}

TEST(Queued, BehindAnEventOfAnotherDeviceIsDependency) {
  TimelineBuilder b;
  const int32_t remote = b.AddStream(b.AddDevice(), 9);
  b.Kernel(0, 100, b.Launch(0, 2));
  b.Kernel(0, 400, b.Launch(3, 5), remote);
  b.EventRecord(1, remote, 6, 7);
  b.StreamWait(1, 0, 8, 9);
  b.Kernel(410, 500, b.Launch(10, 12));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-410 dependency: stream 7 of GPU 0 waited for stream 9 of GPU 1"}));
}

TEST(Queued, AnEventThatWasCompleteBeforeTheSubmissionIsNoDependency) {
  TimelineBuilder b;
  const int32_t second = b.AddStream(0, 13);
  b.Kernel(0, 10, b.Launch(0, 2));
  b.EventRecord(1, 0, 6, 7);
  b.Kernel(15, 100, b.Launch(12, 14), second);
  b.StreamWait(1, second, 20, 21);
  b.Kernel(110, 200, b.Launch(22, 24), second);
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"10-12 launch_bound: between submissions (thread 11 main)",
                   "12-14 launch_bound: cudaLaunchKernel (thread 11 main)",
                   "14-15 launch_latency: queued, nothing to wait for",
                   "100-110 launch_latency: queued, nothing to wait for"}));
}

TEST(Queued, AnEventWithoutItsRecordIsDependencyOnAnEvent) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 2));
  b.StreamWait(5, 0, 8, 9);
  b.Kernel(120, 200, b.Launch(10, 12));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-120 dependency: stream 7 waited for an event"}));
}

TEST(Queued, AWaitThatAnEarlierOperationOfTheStreamHadToPassIsNotThisOnes) {
  TimelineBuilder b;
  b.StreamWait(5, 0, 0, 1);
  b.Kernel(10, 100, b.Launch(2, 3));
  b.Kernel(120, 200, b.Launch(10, 12));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-120 launch_latency: queued, nothing to wait for"}));
}

TEST(Queued, WithoutSyncRecordsAStreamWaitRightBeforeTheSubmissionIsEvidence) {
  for (const bool submission_between : {false, true}) {
    TimelineBuilder b;
    b.t.processes[0].has_sync_records = false;
    const int32_t second = b.AddStream(0, 13);
    b.Kernel(0, 100, b.Launch(0, 2));
    b.Call("cudaStreamWaitEvent", CallClass::kStreamWait, 8, 9);
    if (submission_between) b.Kernel(0, 90, b.Launch(9, 10), second);
    b.Kernel(120, 200, b.Launch(10, 12));
    EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
              submission_between ? (Lines{"100-120 launch_latency: queued, nothing to wait for"})
                                 : (Lines{"100-120 dependency: stream 7 waited for an event"}));
  }
}

TEST(Queued, BehindAHostFunctionIsDependency) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 2));
  b.Call("cudaLaunchHostFunc", CallClass::kHostFunc, 8, 9);
  b.Kernel(300, 400, b.Launch(10, 12));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-300 dependency: host function on the stream (thread 11 main)"}));
}

// --- rule 4: inside the submitting call
// -----------------------------------------------------------

TEST(InsideTheCall, ALaunchIsLaunchBound) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(130, 200, b.Launch(90, 150));  // it starts before its launch returns, as kernels do
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-130 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(InsideTheCall, ALaunchThatWasHeldUpIsNotDispatch) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(3 * kMs, 4 * kMs, b.Launch(100, 3 * kMs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-3000000 blocking_api: cudaLaunchKernel, blocked (thread 11 main)"}));
}

TEST(InsideTheCall, LoadingAndProfilerOverheadAreCutOut) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(1000, 1100, b.Launch(100, 900));
  b.Overhead(200, 300, 5u << 16, false);
  b.Overhead(250, 400, 1u << 16, true);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(
      PartsText(a),
      (Lines{"100-200 launch_bound: cudaLaunchKernel (thread 11 main)",
             "200-300 blocking_api: lazy function loading in cudaLaunchKernel (thread 11 main)",
             "300-400 profiler: CUPTI buffer flush (thread 11 main)",
             "400-900 launch_bound: cudaLaunchKernel (thread 11 main)",
             "900-1000 launch_latency: queued, nothing to wait for"}));
  EXPECT_EQ(a.devices[0].parts[1].overhead, 0);
}

TEST(InsideTheCall, OverheadOfAnotherThreadIsNotThisOnes) {
  TimelineBuilder b;
  const int32_t drain = b.AddThread(12, "drain");
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(1000, 1100, b.Launch(100, 900));
  b.Overhead(200, 300, 1u << 16, true, drain);
  EXPECT_EQ(CauseNs(Analyse(b.Build(), {}).devices[0], Cause::kProfiler), 0);
}

TEST(InsideTheCall, OverheadOfTheWholeProcessCounts) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 10));
  b.Kernel(1000, 1100, b.Launch(500, 900));
  b.Overhead(200, 300, 3u << 16, true, -1);
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(PartsText(a)[1], "200-300 profiler: CUPTI resource creation");
  EXPECT_EQ(CauseNs(a.devices[0], Cause::kProfiler), 100);
}

TEST(InsideTheCall, APageableOrSynchronousCopyIsTheCopys) {
  TimelineBuilder b;
  b.Kernel(0, 100 * kUs, b.Launch(0, 10 * kUs));
  b.Copy(300 * kUs, 400 * kUs, b.Call("cudaMemcpyAsync", CallClass::kCopy, 150 * kUs, 320 * kUs),
         true, 1);
  b.Copy(600 * kUs, 700 * kUs, b.Call("cudaMemcpy", CallClass::kCopyBlocking, 450 * kUs, 710 * kUs),
         false, 2);
  // Pinned and asynchronous: a submission like any other.
  b.Copy(950 * kUs, 960 * kUs, b.Call("cudaMemcpyAsync", CallClass::kCopy, 900 * kUs, 950 * kUs),
         false, 1);
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100000-150000 host: outside CUDA (thread 11 main)",
                   "150000-300000 pageable_copy: cudaMemcpyAsync HtoD, pageable (thread 11 main)",
                   "400000-450000 host: outside CUDA (thread 11 main)",
                   "450000-600000 pageable_copy: cudaMemcpy DtoH (thread 11 main)",
                   "700000-810000 pageable_copy: cudaMemcpy DtoH (thread 11 main)",
                   "810000-900000 host: outside CUDA (thread 11 main)",
                   "900000-950000 launch_bound: cudaMemcpyAsync HtoD (thread 11 main)"}));
}

// --- rule 5: before the call
// ----------------------------------------------------------------------

TEST(BeforeTheCall, ShortStretchesBetweenSubmissionsAreLaunchBoundLongOnesTheHosts) {
  for (const int64_t stretch : {kBackToBackNs, kBackToBackNs + 1}) {
    TimelineBuilder b;
    b.Kernel(5, 100, b.Launch(0, 10));
    b.Kernel(20 + stretch, 40 + stretch, b.Launch(10 + stretch, 20 + stretch));
    const Lines parts = PartsText(Analyse(b.Build(), {}));
    EXPECT_EQ(parts[0],
              "100-" + std::to_string(10 + stretch) +
                  (stretch == kBackToBackNs ? " launch_bound: between submissions (thread 11 main)"
                                            : " host: outside CUDA (thread 11 main)"));
  }
}

TEST(BeforeTheCall, NeutralCallsBelongToTheTimeAroundThem) {
  TimelineBuilder b;
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Call("cudaEventRecord", CallClass::kEventRecord, 150, 250);
  b.Call("cudaEventQuery", CallClass::kOther, 90 * kUs, 91 * kUs);
  b.Kernel(300 * kUs, 400 * kUs, b.Launch(299 * kUs, 300 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-299000 host: outside CUDA (thread 11 main)",
                   "299000-300000 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(BeforeTheCall, AThreadThatNeverSubmittedIsNotBackToBack) {
  TimelineBuilder b;
  const int32_t second = b.AddThread(12, "worker");
  b.Kernel(0, 1 * kMs, b.Launch(0, 10));
  b.Kernel(1 * kMs + 500, 2 * kMs, b.Launch(1 * kMs + 400, 1 * kMs + 450, second));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {}))[0],
            "1000000-1000400 host: outside CUDA (thread 12 worker)");
}

TEST(BeforeTheCall, AHandOverBetweenThreadsThatSubmitIsBackToBack) {
  // Forward on the main thread, backward on another: the submissions follow each other closely.
  TimelineBuilder b;
  const int32_t backward = b.AddThread(12, "autograd");
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Kernel(60 * kUs, 70 * kUs, b.Launch(50 * kUs, 60 * kUs, backward));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {}))[0],
            "100-50000 launch_bound: between submissions (thread 12 autograd)");
}

TEST(BeforeTheCall, CallsCutTheHostTime) {
  TimelineBuilder b;
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Call("cudaMalloc", CallClass::kAlloc, 200, 300);
  b.Call("cudaModuleLoadData", CallClass::kModule, 400, 500);
  b.Call("cudaGraphInstantiate", CallClass::kGraph, 500, 600);
  b.Call("cudaHostRegister", CallClass::kHostMemory, 600, 700);
  b.Call("cudaStreamCreate", CallClass::kContext, 700, 800);
  b.Call("cudaFree", CallClass::kFree, 800, 900);
  b.Sync(900, 1000);
  b.Kernel(2000, 2100, b.Launch(1200, 1300));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-200 launch_bound: between submissions (thread 11 main)",
                   "200-300 blocking_api: cudaMalloc (thread 11 main)",
                   "300-400 launch_bound: between submissions (thread 11 main)",
                   "400-500 blocking_api: cudaModuleLoadData (thread 11 main)",
                   "500-600 blocking_api: cudaGraphInstantiate (thread 11 main)",
                   "600-700 blocking_api: cudaHostRegister (thread 11 main)",
                   "700-800 blocking_api: cudaStreamCreate (thread 11 main)",
                   "800-900 blocking_api: cudaFree (thread 11 main)",
                   "900-1000 synchronisation: cudaStreamSynchronize (thread 11 main)",
                   "1000-1200 launch_bound: between submissions (thread 11 main)",
                   "1200-1300 launch_bound: cudaLaunchKernel (thread 11 main)",
                   "1300-2000 launch_latency: queued, nothing to wait for"}));
}

TEST(BeforeTheCall, SubmissionsToAnotherDeviceAreLaunchBound) {
  TimelineBuilder b;
  const int32_t remote = b.AddStream(b.AddDevice(), 9);
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Kernel(300, 900, b.Launch(200, 250), remote);
  b.Kernel(500, 600, b.Launch(400, 450));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-200 launch_bound: between submissions (thread 11 main)",
                   "200-250 launch_bound: cudaLaunchKernel (thread 11 main)",
                   "250-400 launch_bound: between submissions (thread 11 main)",
                   "400-450 launch_bound: cudaLaunchKernel (thread 11 main)",
                   "450-500 launch_latency: queued, nothing to wait for"}));
}

TEST(BeforeTheCall, CallsInsideOthersDoNotCountTwice) {
  TimelineBuilder b;
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Call("cudaDeviceReset", CallClass::kContext, 150, 400);
  b.Sync(200, 300);
  b.Call("cudaFree", CallClass::kFree, 380, 420);  // overlaps: clocks or a broken record
  b.Kernel(2000, 2100, b.Launch(500, 2000));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-150 launch_bound: between submissions (thread 11 main)",
                   "150-400 blocking_api: cudaDeviceReset (thread 11 main)",
                   "400-420 blocking_api: cudaFree (thread 11 main)",
                   "420-500 launch_bound: between submissions (thread 11 main)",
                   "500-2000 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(BeforeTheCall, AnotherThreadsBlockingCallExplainsAThreadOutsideCuda) {
  TimelineBuilder b;
  const int32_t second = b.AddThread(12, "worker");
  b.Kernel(5, 100, b.Launch(0, 10));
  b.Call("cudaFree", CallClass::kFree, 200 * kUs, 500 * kUs, second);
  b.Kernel(900 * kUs, 901 * kUs, b.Launch(899 * kUs, 900 * kUs));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"100-200000 host: outside CUDA (thread 11 main)",
                   "200000-500000 blocking_api: cudaFree (thread 12 worker)",
                   "500000-899000 host: outside CUDA (thread 11 main)",
                   "899000-900000 launch_bound: cudaLaunchKernel (thread 11 main)"}));
}

TEST(BeforeTheCall, ACallWithoutThreadLeavesTheTimeBeforeItUnknown) {
  TimelineBuilder b;
  b.Kernel(5, 100, b.Launch(0, 10));
  const uint32_t launch = b.Launch(200, 300);
  b.Kernel(400, 500, launch);
  Timeline t = b.Build();
  t.calls[1].thread = -1;
  EXPECT_EQ(PartsText(Analyse(t, {})),
            (Lines{"100-200 unknown: launch call not recorded",
                   "200-300 launch_bound: cudaLaunchKernel (unknown thread)",
                   "300-400 launch_latency: queued, nothing to wait for"}));
}

// --- sums
// -----------------------------------------------------------------------------------------

TEST(Totals, CountGapsAndNameSites) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 5));
  b.Kernel(300, 400, b.Launch(200, 250));
  b.Kernel(700, 800, b.Launch(600, 650));
  const DeviceReport r = Analyse(b.Build(), {}).devices[0];
  ASSERT_EQ(r.causes.size(), 2u);
  const CauseTotal& launch = r.causes[0];
  EXPECT_EQ(launch.cause, Cause::kLaunchBound);
  EXPECT_EQ(launch.total_ns, 150 + 250);
  EXPECT_EQ(launch.count, 2u);  // gaps, though each has two parts of this cause
  EXPECT_EQ(launch.longest_ns, 250);
  ASSERT_EQ(launch.sites.size(), 2u);
  EXPECT_EQ(launch.sites[0].where, "between submissions (thread 11 main)");
  EXPECT_EQ(launch.sites[0].total_ns, 300);
  EXPECT_EQ(launch.sites[0].longest_ns, 200);
  EXPECT_EQ(launch.sites[1].total_ns, 100);
}

TEST(CheckSums, NoticesWhatDoesNotAddUp) {
  TimelineBuilder b;
  b.Kernel(0, 100, b.Launch(0, 5));
  b.Kernel(300, 400, b.Launch(200, 250));
  const DeviceReport good = Analyse(b.Build(), {}).devices[0];
  EXPECT_EQ(CheckSums(good), "");

  DeviceReport hole = good;
  hole.parts[1].begin_ns += 1;
  EXPECT_NE(CheckSums(hole), "");
  DeviceReport overlap = good;
  overlap.parts[1].begin_ns -= 1;
  EXPECT_NE(CheckSums(overlap), "");
  DeviceReport short_gap = good;
  short_gap.gaps[0].part_count -= 1;
  EXPECT_NE(CheckSums(short_gap), "");
  DeviceReport idle = good;
  idle.idle_ns += 1;
  EXPECT_NE(CheckSums(idle), "");
  DeviceReport cause = good;
  cause.causes[0].total_ns -= 1;
  EXPECT_NE(CheckSums(cause), "");
  DeviceReport compute = good;
  compute.compute_ns += 1;
  EXPECT_NE(CheckSums(compute), "");
  DeviceReport window = good;
  window.window.end_ns += 1;
  EXPECT_NE(CheckSums(window), "");
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What samples make of the time in which the submitting thread was outside CUDA. Times in ms: a gap
// from 10 to 100, the thread launches at 0 and at 100.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/sample_judge.h"

namespace gpuprobe::tools {
namespace {

using Lines = std::vector<std::string>;
constexpr int64_t kMs = 1'000'000;

constexpr const char* kMain = "/job/train.py:27 main";
constexpr const char* kLoaderNext =
    "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py:631 __next__";
constexpr const char* kQueueGet = "/usr/lib/python3.11/queue.py:171 Queue.get";
constexpr const char* kThreadingWait = "/usr/lib/python3.11/threading.py:320 Condition.wait";

constexpr int32_t kRead = 0, kWrite = 1, kPoll = 7, kSelect = 23, kFutex = 202, kNanosleep = 230,
                  kEpollWait = 232, kRecvFrom = 45, kFcntl = 72, kFlock = 73;

class HostTime : public testing::Test {
 protected:
  HostTime() {
    b_.t.threads[0].main = true;
    b_.Kernel(0, 10 * kMs, b_.Launch(0, 5'000));
    b_.Kernel(100 * kMs, 110 * kMs, b_.Launch(100 * kMs, 100 * kMs + 5'000));
  }

  // A sample of the main thread in the gap.
  HostSample& Look(int64_t ms, HostState state, int32_t stack, int32_t thread = 0) {
    return b_.AddSample(thread, ms * kMs, 10 * kMs, {}, state, stack);
  }
  HostSample& Blocked(int64_t ms, int32_t stack, int32_t syscall, const std::string& target = "",
                      int32_t thread = 0) {
    HostSample& sample = Look(ms, HostState::kBlocked, stack, thread);
    sample.syscall = syscall;
    if (!target.empty()) sample.wait_target = b_.String(target);
    return sample;
  }
  // Somebody else who is at work all along.
  void Busy(int32_t thread, int32_t stack = -1) {
    b_.AddSamples(thread, 0, 120 * kMs, 10 * kMs, HostState::kRunning, stack);
  }
  int32_t AddWorker(uint32_t pid) {
    const int32_t child = b_.AddSampledChild(pid);
    const int32_t thread = b_.AddThread(pid, "pt_data_worker", child);
    b_.t.threads[thread].main = true;
    return thread;
  }
  void WatchAll() {
    for (size_t p = 0; p < b_.t.processes.size(); ++p)
      b_.SampledTime(0, 200 * kMs, static_cast<int32_t>(p));
  }
  const Analysis& Run() {
    analysis_ = Analyse(b_.Build(), {});
    EXPECT_EQ(analysis_.internal_error, "");
    return analysis_;
  }
  // Parts of the gap in ms, without the last call: "10-100 input_wait: train.py:27 in main".
  Lines Parts() {
    Lines lines;
    for (const GapPart& part : Run().devices[0].parts) {
      lines.push_back(std::to_string(part.begin_ns / kMs) + "-" +
                      std::to_string(part.end_ns / kMs) + " " + CauseKey(part.cause) + ": " +
                      analysis_.places[part.where]);
    }
    return lines;
  }
  const CauseTotal* Total(Cause cause) const {
    for (const CauseTotal& total : analysis_.devices[0].causes) {
      if (total.cause == cause) return &total;
    }
    return nullptr;
  }
  // "cause where | detail" of the only cause of the gap.
  std::string Only() {
    Run();
    const auto& causes = analysis_.devices[0].causes;
    if (causes.size() != 1 || causes[0].sites.size() != 1) return "several causes";
    return std::string(CauseKey(causes[0].cause)) + " " + causes[0].sites[0].where + " | " +
           causes[0].sites[0].detail;
  }

  TimelineBuilder b_;
  Analysis analysis_;
};

TEST_F(HostTime, WithoutSamplesStaysHost) {
  EXPECT_EQ(Only(), "host outside CUDA (thread 11 main) | ");
}

TEST_F(HostTime, WithSamplesOfOthersAloneIsNotSampled) {
  const int32_t other = b_.AddThread(12, "other");
  Busy(other);
  Look(50, HostState::kUnknown, -1);  // says nothing, and that it was looked at
  EXPECT_EQ(Only(), "host outside CUDA (thread 11 main) | not sampled");
}

TEST_F(HostTime, RunningPythonIsHostPython) {
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Only(), "host_python train.py:27 in main | ");
  EXPECT_EQ(Total(Cause::kHostPython)->total_ns, 90 * kMs);
  EXPECT_EQ(Total(Cause::kHostPython)->samples, 1u);
  EXPECT_EQ(Total(Cause::kHostPython)->sites[0].samples, 1u);
}

// A second thread is in cudaMallocHost from 20 to 90.
class BesideABlockedThread : public HostTime {
 protected:
  BesideABlockedThread() {
    b_.Call("cudaMallocHost", CallClass::kHostMemory, 20 * kMs, 90 * kMs,
            b_.AddThread(12, "pinner"));
  }
  const Lines kTheCalls = {"10-20 host: outside CUDA (thread 11 main)",
                           "20-90 blocking_api: cudaMallocHost (thread 12 pinner)",
                           "90-100 host: outside CUDA (thread 11 main)"};
};

TEST_F(BesideABlockedThread, WithoutSamplesThatOnesCallIsTakenForTheReason) {
  EXPECT_EQ(Parts(), kTheCalls);
}

TEST_F(BesideABlockedThread, AThreadThatWasSeenRunningDidNotWaitForIt) {
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Parts(), Lines({"10-100 host_python: train.py:27 in main"}));
}

TEST_F(BesideABlockedThread, NorOneThatWasAsleep) {
  Blocked(50, b_.Stack({kMain}), kNanosleep);
  EXPECT_EQ(Parts(), Lines({"10-100 host_native: train.py:27 in main"}));
}

TEST_F(BesideABlockedThread, NorForTheShareInWhichItHadNoCpu) {
  HostSample& sample = Look(50, HostState::kRunning, b_.Stack({kMain}));
  sample.runnable_ns = sample.interval_ns / 2;
  Run();
  ASSERT_NE(Total(Cause::kCpuStarved), nullptr);
  EXPECT_EQ(Total(Cause::kCpuStarved)->total_ns, 45 * kMs);
  EXPECT_EQ(Total(Cause::kHostPython)->total_ns, 45 * kMs);
}

TEST_F(BesideABlockedThread, OneThatWaitedForAThreadMayHaveWaitedForIt) {
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  const Lines parts = Parts();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1], kTheCalls[1]);
}

TEST_F(BesideABlockedThread, OneThatWaitedForTheGilMayHaveWaitedForIt) {
  Look(50, HostState::kBlocked, b_.Stack({kMain})).flags = kSampleWaitsForGil;
  const Lines parts = Parts();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1], kTheCalls[1]);
}

TEST_F(BesideABlockedThread, AStackWithoutStateSaysNothingAgainstIt) {
  Look(50, HostState::kUnknown, b_.Stack({kMain}));
  const Lines parts = Parts();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1], kTheCalls[1]);
}

TEST_F(HostTime, AnUnknownStateWithPythonIsHostPython) {
  Look(50, HostState::kUnknown, b_.Stack({kMain}));
  EXPECT_EQ(Only(), "host_python train.py:27 in main | ");
}

TEST_F(HostTime, RunningInACFunctionIsHostNative) {
  Look(50, HostState::kRunning, b_.Stack({kMain})).flags = kSampleInCFunction;
  EXPECT_EQ(Only(), "host_native train.py:27 in main | in a C function");
}

TEST_F(HostTime, RunningWithoutPythonIsHostNative) {
  Look(50, HostState::kRunning, b_.Stack({"/opt/libloop.so+0x1a2b"}));
  EXPECT_EQ(Only(), "host_native libloop.so+0x1a2b | ");
}

TEST_F(HostTime, RunningInAnInterpreterWhoseLinesAreNotReadIsHostPython) {
  b_.t.processes[0].python_unread = "this Python version (3.16.0) is not known";
  Look(50, HostState::kRunning, b_.Stack({"/usr/bin/python3.16+0x44ca63"}));
  EXPECT_EQ(Only(), "host_python python3.16+0x44ca63 | Python, line not read");
}

TEST_F(HostTime, RunningInAnotherLibraryWhereLinesAreNotReadIsHostNative) {
  b_.t.processes[0].python_unread = "this Python version (3.16.0) is not known";
  Look(50, HostState::kRunning, b_.Stack({"/opt/libtorch_cpu.so+0x1a2b"}));
  EXPECT_EQ(Only(), "host_native libtorch_cpu.so+0x1a2b | ");
}

TEST_F(HostTime, RunningInAnInterpreterThatIsReadAndHasNoFramesIsHostNative) {
  Look(50, HostState::kRunning, b_.Stack({"/usr/lib/libpython3.11.so.1.0+0x44ca63"}));
  EXPECT_EQ(Only(), "host_native libpython3.11.so.1.0+0x44ca63 | ");
}

TEST_F(HostTime, RunningInALibraryShowsTheUsersLineAndTheLibrarys) {
  Look(50, HostState::kRunning,
       b_.Stack({"/usr/lib/python3/dist-packages/torch/optim/adamw.py:312 AdamW.step", kMain}));
  EXPECT_EQ(Only(), "host_python train.py:27 in main | torch/optim/adamw.py:312 in AdamW.step");
}

TEST_F(HostTime, EachInstantBelongsToTheNearestSample) {
  Look(20, HostState::kRunning, b_.Stack({"/job/train.py:1 a"}));
  Look(50, HostState::kRunning, b_.Stack({"/job/train.py:2 b"}));
  Look(60, HostState::kRunning, b_.Stack({"/job/train.py:3 c"})).flags = kSampleInCFunction;
  EXPECT_EQ(Parts(),
            (Lines{"10-35 host_python: train.py:1 in a", "35-55 host_python: train.py:2 in b",
                   "55-100 host_native: train.py:3 in c"}));
}

TEST_F(HostTime, SamplesOfTheSameLineAreOnePartAndCountedAll) {
  b_.AddSamples(0, 10 * kMs, 90 * kMs, 10 * kMs, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Parts(), (Lines{"10-100 host_python: train.py:27 in main"}));
  EXPECT_EQ(Total(Cause::kHostPython)->samples, 8u);
}

TEST_F(HostTime, SamplesInsideTheGapGoBeforeThoseOfTheBusyTime) {
  Look(9, HostState::kRunning, b_.Stack({"/job/train.py:1 a"}));
  Look(99, HostState::kRunning, b_.Stack({"/job/train.py:2 b"}));
  EXPECT_EQ(Parts(), (Lines{"10-100 host_python: train.py:2 in b"}));
}

TEST_F(HostTime, WithoutASampleInsideTheSameStretchSpeaks) {
  Look(5, HostState::kRunning, b_.Stack({"/job/train.py:1 a"}));
  EXPECT_EQ(Parts(), (Lines{"10-100 host_python: train.py:1 in a"}));
}

TEST_F(HostTime, ASampleInACallSaysNothingOfTheTimeOutside) {
  b_.AddSample(0, 2'000, 10 * kMs, {}, HostState::kRunning, b_.Stack({"/job/train.py:1 a"}));
  EXPECT_EQ(Only(), "host outside CUDA (thread 11 main) | not sampled");
}

// An unchanged look is as old as its interval: whether it was made in the call is told by when the
// thread entered that.
TEST_F(HostTime, AnUnchangedLookTestifiesOnlyOfTheCallThatItWasMadeIn) {
  for (const bool made_in_it : {false, true}) {
    TimelineBuilder b;
    b.Kernel(0, 10 * kMs, b.Launch(0, 5'000));
    b.Kernel(100 * kMs, 110 * kMs, b.Launch(100 * kMs, 100 * kMs + 5'000));
    b.Call("cudaMalloc", CallClass::kAlloc, 40 * kMs, 80 * kMs);
    const int64_t looked = (made_in_it ? 45 : 35) * kMs;
    const int32_t line = b.Stack({kMain});
    b.AddSample(0, looked, 10 * kMs, {}, HostState::kBlocked, line).cpu_ns = 0;
    HostSample& told = b.AddSample(0, 60 * kMs, 60 * kMs - looked, {}, HostState::kBlocked, line);
    told.cpu_ns = told.runnable_ns = 0;
    told.flags |= kSampleUnchanged;
    const Analysis a = Analyse(b.Build(), {});
    const auto& causes = a.devices[0].causes;
    const auto found = std::find_if(causes.begin(), causes.end(), [](const CauseTotal& c) {
      return c.cause == Cause::kBlockingApi;
    });
    ASSERT_NE(found, causes.end());
    EXPECT_EQ(found->sites[0].where,
              made_in_it ? "train.py:27 in main" : "cudaMalloc (thread 11 main)");
  }
}

TEST_F(HostTime, NoSampleReachesFurtherThanItsBound) {
  TimelineBuilder b;
  b.Kernel(0, 10 * kMs, b.Launch(0, 5'000));
  b.Kernel(3000 * kMs, 3010 * kMs, b.Launch(3000 * kMs, 3000 * kMs + 5'000));
  b.AddSample(0, 1500 * kMs, 0, {}, HostState::kRunning, b.Stack({kMain}));
  const Analysis a = Analyse(b.Build(), {});
  EXPECT_EQ(PartsText(a), (Lines{"10000000-500000000 host: outside CUDA (thread 11 main)",
                                 "500000000-2500000000 host_python: train.py:27 in main",
                                 "2500000000-3000000000 host: outside CUDA (thread 11 main)"}));
}

TEST_F(HostTime, BlindTimeStaysUnknownUnderSamples) {
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  b_.BlindTime(40 * kMs, 60 * kMs, Blind::Why::kLoss, "ring full");
  EXPECT_EQ(Parts(), (Lines{"10-40 host_python: train.py:27 in main",
                            "40-60 unknown: records lost: ring full",
                            "60-100 host_python: train.py:27 in main"}));
}

TEST_F(HostTime, BetweenTwoRunsNobodyKeptTheDeviceWaiting) {
  const int32_t later = b_.AddProcess(101, "/usr/bin/python3");
  const int32_t thread = b_.AddThread(12, "main", later);
  const int32_t stream = b_.AddStream(0, 7, later);
  b_.Kernel(500 * kMs, 510 * kMs, b_.Launch(500 * kMs, 500 * kMs + 5'000, thread), stream);
  b_.t.processes[0].capture_end_ns = 200 * kMs;
  b_.t.processes[later].capture_begin_ns = 450 * kMs;
  b_.t.processes[later].capture_end_ns = 600 * kMs;
  const Lines parts = Parts();
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[2], "200-450 unknown: no process was being recorded");
  EXPECT_TRUE(parts[3].starts_with("450-500 host: ")) << parts[3];
}

// Gaps between the same two calls, each too short to be hit often.
TEST(ShortStretches, TakeTheNearestSampleOfAStretchLikeThem) {
  TimelineBuilder b;
  const int64_t step = 2 * kMs;
  for (int i = 0; i < 8; ++i) {
    const int64_t at = i * step;
    b.Kernel(at, at + kMs / 2, b.Launch(at, at + 1'000));
  }
  b.AddSample(0, 2 * step + kMs, 0, {}, HostState::kRunning, b.Stack({"/job/a.py:1 f"}));
  b.AddSample(0, 5 * step + kMs, 0, {}, HostState::kRunning, b.Stack({"/job/a.py:2 g"}));
  const Analysis a = Analyse(b.Build(), {});
  ASSERT_EQ(a.devices[0].causes.size(), 1u);
  const CauseTotal& total = a.devices[0].causes[0];
  EXPECT_EQ(total.cause, Cause::kHostPython);
  EXPECT_EQ(total.samples, 2u);
  ASSERT_EQ(total.sites.size(), 2u);  // gaps 0..3 and 4..6; the middle is gap 3.5's
  EXPECT_EQ(total.sites[0].where, "a.py:1 in f");
  EXPECT_EQ(total.sites[0].count, 4u);
  EXPECT_EQ(total.sites[1].count, 3u);
}

TEST(ShortStretches, OfAnotherKindAreNotAlike) {
  TimelineBuilder b;
  b.Kernel(0, kMs, b.Launch(0, 1'000));
  b.Call("cudaMalloc", CallClass::kAlloc, 2 * kMs, 2 * kMs + 1'000);
  b.Kernel(4 * kMs, 5 * kMs, b.Launch(4 * kMs, 4 * kMs + 1'000));
  b.AddSample(0, 3 * kMs, 0, {}, HostState::kRunning, b.Stack({"/job/a.py:1 f"}));
  EXPECT_EQ(PartsText(Analyse(b.Build(), {})),
            (Lines{"1000000-2000000 host: outside CUDA (thread 11 main)",
                   "2000000-2001000 blocking_api: cudaMalloc (thread 11 main)",
                   "2001000-4000000 host_python: a.py:1 in f"}));
}

// --- blocked ------------------------------------------------------------------------------------

TEST_F(HostTime, BlockedUnderADataLoaderIsInputWait) {
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kLoaderNext, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
}

TEST_F(HostTime, ReadingAFileUnderADataLoaderIsInputWait) {
  HostSample& sample =
      Blocked(50, b_.Stack({"/job/data.py:12 decode", kLoaderNext, kMain}), kRead, "/data/x.jpg");
  sample.state = HostState::kBlockedIo;
  EXPECT_EQ(Only(), "input_wait data.py:12 in decode | reading /data/x.jpg");
}

TEST_F(HostTime, RunningUnderADataLoaderIsTheHosts) {
  Look(50, HostState::kRunning, b_.Stack({"/job/data.py:12 decode", kLoaderNext, kMain}));
  EXPECT_EQ(Only(), "host_python data.py:12 in decode | ");
}

TEST_F(HostTime, AQueueIsInputWaitWhileAChildIsBusy) {
  Busy(AddWorker(200));
  WatchAll();
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
}

TEST_F(HostTime, AQueueIsInputWaitWhileAnotherThreadIsBusy) {
  Busy(b_.AddThread(12, "reader"));
  WatchAll();
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
}

TEST_F(HostTime, AQueueIsInputWaitWhileAChildWaitsForStorage) {
  b_.AddSamples(AddWorker(200), 0, 120 * kMs, 10 * kMs, HostState::kBlockedIo);
  WatchAll();
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
}

// A server: its http thread waits for requests, the thread that feeds the GPU for the http thread.
TEST_F(HostTime, AQueueIsRequestWaitWhileTheThreadThatFillsItWaitsForOutside) {
  b_.AddSamples(AddWorker(200), 0, 120 * kMs, 10 * kMs, HostState::kBlocked);
  b_.AddSamples(b_.AddThread(300, "stranger", b_.AddProcess(300, "other")), 0, 120 * kMs, 10 * kMs,
                HostState::kRunning);
  WatchAll();
  Blocked(49, b_.Stack({"/srv/http.py:5 loop"}), kEpollWait, "epoll", b_.AddThread(12, "http"));
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "request_wait train.py:27 in main | queue.get, blocked on a futex");
}

TEST_F(HostTime, AQueueThatNobodyIsSeenToFillIsInputWaitAndSaysSo) {
  WatchAll();
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(
      Only(),
      "input_wait train.py:27 in main | queue.get, blocked on a futex, for whom was not seen");
}

TEST_F(HostTime, AQueueIsInputWaitWhileAThreadThatMayFillItSleeps) {
  WatchAll();
  Blocked(49, b_.Stack({"/srv/http.py:5 loop"}), kEpollWait, "epoll", b_.AddThread(12, "http"));
  Blocked(49, b_.Stack({"/job/read.py:5 read"}), kNanosleep, "", b_.AddThread(13, "reader"));
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_TRUE(Only().starts_with("input_wait "));
}

// Workers that fetch from a server over the network, or are throttled.
TEST_F(HostTime, AQueueOfWorkersThatAreHeldUpIsInputWait) {
  WatchAll();
  const int32_t worker = AddWorker(200);
  for (const int32_t call : {kRecvFrom, kNanosleep}) {
    b_.t.samples.clear();
    Blocked(49, b_.Stack({"/job/read.py:7 fetch"}), call, call == kRecvFrom ? "socket" : "",
            worker);
    Blocked(49, b_.Stack({"/srv/http.py:5 loop"}), kEpollWait, "epoll", b_.AddThread(12, "http"));
    Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
    EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
  }
}

TEST_F(HostTime, APipeIsInputWaitEvenIfNobodyIsBusy) {
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kRead, "pipe");
  EXPECT_EQ(Only(),
            "input_wait train.py:27 in main | blocked in read on a pipe, for whom was not seen");
}

TEST_F(HostTime, APairOfSocketsOfTheStandardLibraryIsNoRequest) {
  WatchAll();
  Blocked(
      50,
      b_.Stack({"/usr/lib/python3.11/multiprocessing/connection.py:395 Connection._recv", kMain}),
      kRead, "socket");
  EXPECT_TRUE(Only().starts_with("input_wait train.py:27 in main | "));
}

TEST_F(HostTime, AUnixSocketIsNoEvidenceOfTheOutside) {
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kRecvFrom, "unix socket");
  EXPECT_EQ(Only(),
            "input_wait train.py:27 in main | blocked in recvfrom on a unix socket, for "
            "whom was not seen");
}

TEST_F(HostTime, ASocketIsRequestWaitThoughAChildSleeps) {
  WatchAll();
  Blocked(49, b_.Stack({"/job/client.py:7 pace"}), kNanosleep, "", AddWorker(200));
  Blocked(50, b_.Stack({kMain}), kRecvFrom, "socket");
  EXPECT_EQ(Only(), "request_wait train.py:27 in main | blocked in recvfrom on a socket");
}

TEST_F(HostTime, AnEventLoopIsInputWaitWhileAWorkerIsHeldUp) {
  WatchAll();
  Blocked(49, b_.Stack({"/job/read.py:7 fetch"}), kNanosleep, "", AddWorker(200));
  Blocked(50, b_.Stack({kMain}), kEpollWait, "epoll");
  EXPECT_TRUE(Only().starts_with("input_wait "));
}

TEST_F(HostTime, ALockIsTheHostsThoughNobodyIsBusy) {
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "host_native train.py:27 in main | waiting for a lock");
}

TEST_F(HostTime, AQueueOfAJobThatWasNotWatchedIsInputWait) {
  Blocked(50, b_.Stack({kThreadingWait, kQueueGet, kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | queue.get, blocked on a futex");
}

TEST_F(HostTime, WhatTheThreadItselfDidBeforeDoesNotMakeTheJobBusy) {
  WatchAll();
  b_.AddSample(0, 49 * kMs, 40 * kMs, {20 * kMs, 0}, HostState::kUnknown);
  HostSample& sample = Blocked(50, b_.Stack({kMain}), kEpollWait, "");
  sample.interval_ns = kMs;
  EXPECT_EQ(Only(), "request_wait train.py:27 in main | blocked in epoll_wait");
}

TEST_F(HostTime, ASocketIsRequestWaitWhileTheJobIsIdle) {
  WatchAll();
  Blocked(50,
          b_.Stack({"/usr/lib/python3.11/selectors.py:468 EpollSelector.select",
                    "/usr/lib/python3.11/asyncio/base_events.py:1871 BaseEventLoop._run_once",
                    "/srv/serve.py:9 main"}),
          kEpollWait, "socket");
  EXPECT_EQ(
      Only(),
      "request_wait serve.py:9 in main | asyncio.base_events._run_once, blocked in epoll_wait "
      "on a socket");
}

TEST_F(HostTime, ANativeThreadOnAFutexIsRequestWaitWhileAnotherWaitsForOutside) {
  WatchAll();
  Blocked(49, -1, kEpollWait, "epoll", b_.AddThread(12, "grpc"));
  Blocked(50, b_.Stack({"/opt/libserve.so+0x10 NextRequest"}), kFutex, "futex");
  EXPECT_EQ(Only(), "request_wait NextRequest (libserve.so) | blocked on a futex");
}

TEST_F(HostTime, APipeIsInputWaitWhileAChildIsBusy) {
  Busy(AddWorker(200));
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kPoll, "pipe");
  EXPECT_EQ(Only(), "input_wait train.py:27 in main | blocked in poll on a pipe");
}

TEST_F(HostTime, WritingAFileIsHostNativeAndSaysWhich) {
  Blocked(50, b_.Stack({kMain}), kWrite, "/ckpt/x.pt").state = HostState::kBlockedIo;
  EXPECT_EQ(Only(), "host_native train.py:27 in main | writing /ckpt/x.pt");
}

TEST_F(HostTime, ALockOfAFileIsNoFileThatIsRead) {
  Blocked(50, b_.Stack({"/job/cache.py:80 lock", kMain}), kFlock, "/job/cache.lock");
  EXPECT_EQ(Only(),
            "host_native cache.py:80 in lock | waiting in flock for the lock of /job/cache.lock");
}

TEST_F(HostTime, ALockOfAFileUnderADataLoaderIsInputWait) {
  Blocked(50, b_.Stack({"/job/cache.py:80 lock", kLoaderNext, kMain}), kFcntl);
  EXPECT_EQ(Only(), "input_wait cache.py:80 in lock | waiting in fcntl for the lock of a file");
}

// 10 to 30 and 80 to 100 it slept, 30 to 80 it could not run.
TEST_F(HostTime, WhileTheProcessWasStoppedItIsNotKnownWhatItWouldHaveDone) {
  const int32_t line = b_.Stack({kMain});
  Blocked(20, line, kNanosleep, "nanosleep");
  HostSample& stopped = b_.AddSample(0, 80 * kMs, 50 * kMs, {}, HostState::kStopped, -1);
  stopped.runnable_ns = 50 * kMs;
  Blocked(85, line, kNanosleep, "nanosleep");
  EXPECT_EQ(Parts(), (Lines{"10-30 host_native: train.py:27 in main",
                            "30-80 unknown: the process was stopped (signal, debugger or freezer)",
                            "80-100 host_native: train.py:27 in main"}));
}

// The device is fed by two: what holds one up does not hold up the other.
TEST_F(HostTime, AnotherProcessThatWasStoppedIsNoReason) {
  const int32_t other = b_.AddThread(300, "other", b_.AddProcess(300, "other"));
  b_.AddSample(other, 80 * kMs, 70 * kMs, {}, HostState::kStopped, -1);
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Only(), "host_python train.py:27 in main | ");
}

TEST_F(HostTime, SleepIsHostNative) {
  Blocked(50, b_.Stack({kMain}), kNanosleep);
  EXPECT_EQ(Only(), "host_native train.py:27 in main | asleep in time.sleep");
}

TEST_F(HostTime, OldPythonsSleepInSelectIsHostNative) {
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kSelect);
  EXPECT_EQ(Only(), "host_native train.py:27 in main | asleep in time.sleep");
}

TEST_F(HostTime, ASelectOrPollOfNothingIsASleep) {
  WatchAll();
  for (const int32_t call : {kSelect, kPoll}) {
    b_.t.samples.clear();
    Blocked(50, b_.Stack({kMain}), call, "timeout");
    EXPECT_EQ(Only(), std::string("host_native train.py:27 in main | asleep in ") +
                          (call == kSelect ? "select" : "poll"));
  }
}

TEST_F(HostTime, ALockThatAnotherThreadHoldsIsHostNative) {
  Busy(b_.AddThread(12, "holder"));
  WatchAll();
  Blocked(50, b_.Stack({kMain}), kFutex, "futex");
  EXPECT_EQ(Only(), "host_native train.py:27 in main | waiting for a lock");
}

TEST_F(HostTime, TheGilIsGilWait) {
  Blocked(50, b_.Stack({kMain}), kFutex, "futex").flags = kSampleWaitsForGil;
  EXPECT_EQ(Only(), "gil_wait train.py:27 in main | waiting for the GIL");
}

// --- CPU starvation -----------------------------------------------------------------------------

TEST_F(HostTime, TheShareWithoutACpuIsSplitOffToTheNanosecond) {
  HostSample& sample = Look(50, HostState::kRunning, b_.Stack({kMain}));
  sample.interval_ns = 7;
  sample.runnable_ns = 3;
  sample.cpu_ns = 4;
  Run();
  EXPECT_EQ(Total(Cause::kCpuStarved)->total_ns, 90 * kMs * 3 / 7);
  EXPECT_EQ(Total(Cause::kHostPython)->total_ns, 90 * kMs - 90 * kMs * 3 / 7);
  EXPECT_EQ(Total(Cause::kCpuStarved)->sites[0].where, "train.py:27 in main");
  EXPECT_EQ(Total(Cause::kCpuStarved)->sites[0].detail, "ready to run, waiting for a CPU");
}

TEST_F(HostTime, LessThanATwentiethIsNotStarvation) {
  for (const int64_t runnable : {49, 50}) {
    b_.t.samples.clear();
    HostSample& sample = Look(50, HostState::kRunning, b_.Stack({kMain}));
    sample.interval_ns = 1000;
    sample.runnable_ns = runnable;
    Run();
    EXPECT_EQ(Total(Cause::kCpuStarved) != nullptr, runnable == 50);
  }
}

// --- several threads ----------------------------------------------------------------------------

// The usual PyTorch step: forward from the main thread, backward from autograd's.
class Autograd : public HostTime {
 protected:
  Autograd() : backward_(b_.AddThread(12, "pt_autograd_0")) {}
  const int32_t backward_;
};

TEST_F(Autograd, AGapThatTheBackwardThreadEndsIsTheMainThreadsThatFedIt) {
  b_.Kernel(200 * kMs, 210 * kMs, b_.Launch(200 * kMs, 200 * kMs + 5'000, backward_));
  b_.AddSamples(backward_, 0, 200 * kMs, 10 * kMs, HostState::kBlocked,
                b_.Stack({"/usr/lib/libc.so.6+0x98d61"}));
  for (HostSample& sample : b_.t.samples) sample.syscall = kFutex;
  Look(150, HostState::kRunning, b_.Stack({"/job/train.py:30 loss"}));
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Parts(), (Lines{"10-100 host_python: train.py:27 in main",
                            "110-200 host_python: train.py:30 in loss"}));
}

TEST_F(Autograd, AGapThatAThreadWithoutSamplesEndsIsTheFeedersToo) {
  b_.Kernel(200 * kMs, 210 * kMs, b_.Launch(200 * kMs, 200 * kMs + 5'000, backward_));
  Look(150, HostState::kRunning, b_.Stack({"/job/train.py:30 loss"}));
  Look(50, HostState::kRunning, b_.Stack({kMain}));
  EXPECT_EQ(Parts().back(), "110-200 host_python: train.py:30 in loss");
}

TEST_F(Autograd, AGapInWhichTheMainThreadWaitsForBackwardIsTheBackwardThreads) {
  b_.Kernel(5 * kMs, 10 * kMs, b_.Launch(5 * kMs, 5 * kMs + 5'000, backward_));
  const int32_t stack = b_.Stack(
      {"/usr/lib/python3/dist-packages/torch/autograd/graph.py:744 _engine_run_backward", kMain});
  Blocked(50, stack, kFutex, "futex");
  Look(50, HostState::kRunning, b_.Stack({"/opt/libtorch.so+0x10 Engine"}), backward_);
  EXPECT_EQ(
      Only(),
      "host_native train.py:27 in main | torch/autograd/graph.py:744 in _engine_run_backward, "
      "for thread 12 pt_autograd_0");
}

TEST_F(Autograd, TheBackwardThreadsOwnPythonIsShown) {
  b_.Kernel(5 * kMs, 10 * kMs, b_.Launch(5 * kMs, 5 * kMs + 5'000, backward_));
  const int32_t stack = b_.Stack(
      {"/usr/lib/python3/dist-packages/torch/autograd/graph.py:744 _engine_run_backward", kMain});
  Blocked(50, stack, kFutex, "futex");
  Look(50, HostState::kRunning, b_.Stack({"/job/ops.py:8 Fused.backward"}), backward_);
  EXPECT_EQ(Only(), "host_python ops.py:8 in Fused.backward | ");
}

TEST_F(Autograd, TwoThreadsThatWaitForEachOtherExplainNothingMore) {
  b_.Kernel(5 * kMs, 10 * kMs, b_.Launch(5 * kMs, 5 * kMs + 5'000, backward_));
  const int32_t stack = b_.Stack(
      {"/usr/lib/python3/dist-packages/torch/autograd/graph.py:744 _engine_run_backward", kMain});
  Blocked(50, stack, kFutex, "futex");
  Blocked(50, -1, kFutex, "futex", backward_);
  EXPECT_EQ(
      Only(),
      "host_native train.py:27 in main | torch/autograd/graph.py:744 in _engine_run_backward, "
      "waiting for a lock");
}

// --- exact stacks -------------------------------------------------------------------------------

TEST_F(HostTime, ExactStacksDivideTheTimeAtTheirEnds) {
  for (const auto& [from, to, line] :
       {std::tuple{0, 40, "/job/train.py:1 a"}, std::tuple{40, 70, "/job/train.py:2 b"}}) {
    HostSample& sample =
        b_.AddSample(0, to * kMs, (to - from) * kMs, {}, HostState::kUnknown, b_.Stack({line}));
    sample.flags = kSampleExact;
  }
  EXPECT_EQ(Parts(),
            (Lines{"10-40 host_python: train.py:1 in a", "40-70 host_python: train.py:2 in b",
                   "70-100 host: outside CUDA (thread 11 main)"}));
}

TEST_F(HostTime, IsDeterministic) {
  Busy(AddWorker(200), b_.Stack({"/job/data.py:12 decode"}));
  WatchAll();
  b_.AddSamples(0, 10 * kMs, 90 * kMs, 7 * kMs, HostState::kRunning, b_.Stack({kMain}));
  const Lines first = Parts();
  EXPECT_EQ(Parts(), first);
}

}  // namespace
}  // namespace gpuprobe::tools

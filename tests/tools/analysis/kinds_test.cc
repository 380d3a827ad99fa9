// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The verdict from hand-made analyses: what host samples, steps and launch shapes lead to. Each
// kind has its whole text here; those that CUDA records alone lead to are in
// verdict_test.cc, by way of the attribution.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/advice.h"
#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict.h"
#include "tools/analysis/verdict_facts.h"
#include "tools/steps/step_figures.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

bool Contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// One device for a second, idle for 80 %, 800 ms of it for one cause at one place.
struct Made {
  explicit Made(Cause cause, std::string where = "", std::string detail = "") {
    DeviceReport d;
    d.device = 0;
    d.window = {0, 1000 * kMs};
    d.busy_ns = d.compute_ns = 200 * kMs;
    d.idle_ns = 800 * kMs;
    d.ops = 1000;
    d.kernels = {1000, 0, 200 * kMs, 200 * kMs};
    CauseTotal total{cause, 800 * kMs, 50, 20 * kMs, {}};
    SiteTotal site{std::move(where), 800 * kMs, 50, 20 * kMs, -1, std::move(detail)};
    total.sites.push_back(std::move(site));
    d.causes.push_back(std::move(total));
    analysis.devices.push_back(std::move(d));
    analysis.steps.resize(1);
    timeline = TimelineBuilder().Build();
  }

  CauseTotal& cause() { return analysis.devices[0].causes[0]; }
  Made& Helped(std::string who, int threads, double on_cpu, double runnable, uint32_t cpus,
               std::vector<Meanwhile::Site> sites = {}) {
    Meanwhile group;
    group.who = std::move(who);
    group.thread_count = threads;
    group.on_cpu = on_cpu;
    group.runnable = runnable;
    group.allowed_cpus = cpus;
    group.samples = 100;
    group.sites = std::move(sites);
    cause().meanwhile.push_back(std::move(group));
    return *this;
  }
  // The first call is evidence of the site, made by the only thread.
  Made& Through(const char* api, CallClass call_class) {
    TimelineBuilder b;
    b.Call(api, call_class, 10, 20);
    timeline = b.Build();
    cause().sites[0].example_call = 0;
    return *this;
  }
  Verdict Judged() const { return Judge(timeline, analysis); }

  Timeline timeline;
  Analysis analysis;
};

const char* const kNext = "train.py:27 in main";

// input

TEST(Kinds, InputWaitWithBusyWorkersWantsMoreOfThemOrACheaperLine) {
  Made made(Cause::kInputWait, kNext, "queue.get, blocked in a pipe read");
  made.Helped("4 workers (children of 411)", 4, 0.98, 0.01, 16,
              {{"dataset.py:12 in decode", 0.91, true}});
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "input_wait");
  EXPECT_EQ(v.headline,
            "Input-bound: the GPU was idle 80 % of 1.00 s; for 100 % of the idle time it waited "
            "for data.");
  EXPECT_EQ(v.where, kNext);
  EXPECT_EQ(v.evidence,
            "train.py:27 in main (queue.get, blocked in a pipe read): 800 ms in 50 gaps, the "
            "longest 20.0 ms");
  EXPECT_EQ(v.meanwhile,
            "meanwhile 4 workers (children of 411) were 98 % of that time on a CPU, 91 % in "
            "dataset.py:12 in "
            "decode");
  EXPECT_EQ(v.action,
            "raise num_workers (4 of 16 CPUs used) or make dataset.py:12 in decode cheaper");
  EXPECT_NEAR(v.upper_bound_speedup, 5.0, 1e-9);
}

// A line that makes several calls: the one named has most of the time, and the counts are its own.
TEST(Kinds, TheCallsCountedAreThoseOfTheCallNamedAtItsLine) {
  TimelineBuilder b;
  b.Call("cudaLaunchKernel", CallClass::kLaunch, 10, 20);
  b.Call("cudaEventSynchronize", CallClass::kSync, 30, 40);
  Made made(Cause::kSynchronisation, kNext, "cudaEventSynchronize");
  made.timeline = b.Build();
  made.cause().sites[0].example_call = 0;  // the first that it made
  made.cause().sites[0].detail_ns = 600 * kMs;
  made.analysis.waits = {{"cudaLaunchKernel", kNext, 900, 50 * kMs},
                         {"cudaEventSynchronize", kNext, 7, 610 * kMs, 10 * kMs, 600 * kMs},
                         {"cudaEventSynchronize", "other.py:3 in f", 40, 99 * kMs}};
  const Verdict v = made.Judged();
  EXPECT_EQ(
      v.evidence,
      "train.py:27 in main (cudaEventSynchronize for 75 %): 800 ms in 50 gaps, the longest 20.0 "
      "ms; 7 calls of cudaEventSynchronize (7 a second) blocked 610 ms, the GPU busy for "
      "10.0 ms of it");
  EXPECT_TRUE(Contains(v.action, "call cudaEventSynchronize less often at train.py:27"))
      << v.action;
}

// Among the waits are only those of its calls during which the device was busy.
TEST(Kinds, OfABlockingApiNoCallsAreCounted) {
  TimelineBuilder b;
  b.Call("cudaLaunchKernel", CallClass::kLaunch, 10, 20);
  b.Call("cudaFree", CallClass::kFree, 30, 40);
  Made made(Cause::kBlockingApi, kNext, "cudaFree");
  made.timeline = b.Build();
  made.cause().sites[0].example_call = 0;
  made.analysis.waits = {{"cudaLaunchKernel", kNext, 900, 50 * kMs},
                         {"cudaFree", kNext, 7, 2 * kMs, kMs, kMs}};
  const Verdict v = made.Judged();
  EXPECT_EQ(v.evidence, "train.py:27 in main (cudaFree): 800 ms in 50 gaps, the longest 20.0 ms");
  EXPECT_TRUE(Contains(v.action, "cudaFree at train.py:27")) << v.action;
}

TEST(Kinds, WithoutALineTheCallsCountedAreThoseOfTheThreadNamed) {
  Made made(Cause::kSynchronisation, "cudaStreamSynchronize (pid 9, thread 11 main)");
  made.Through("cudaStreamSynchronize", CallClass::kSync);
  made.analysis.waits = {{"cudaStreamSynchronize", "pid 9, thread 11 main", 5, 50 * kMs},
                         {"cudaStreamSynchronize", "pid 8, thread 11 main", 70, 60 * kMs}};
  const Verdict v = made.Judged();
  EXPECT_TRUE(Contains(v.evidence, "; 5 calls (5 a second) blocked 50.0 ms")) << v.evidence;
}

TEST(Kinds, UnknownTimeThatIsMoreThanTheFindingIsNotNext) {
  Made made(Cause::kUnknown, "queued");
  DeviceReport& d = made.analysis.devices[0];
  d.busy_ns = 700 * kMs;
  d.compute_ns = 410 * kMs;
  d.communication_ns = 290 * kMs;
  d.idle_ns = 300 * kMs;
  for (const int64_t unknown : {300 * kMs, 100 * kMs}) {
    made.cause().total_ns = made.cause().sites[0].total_ns = unknown;
    const Verdict v = made.Judged();
    EXPECT_EQ(v.kind, "communication");
    const bool more = unknown > d.communication_ns;
    EXPECT_TRUE(v.headline.starts_with(more ? "Communication-bound, as far as is known: for 29 %"
                                            : "Communication-bound: for 29 %"))
        << v.headline;
    EXPECT_EQ(v.runner_up, more ? "no cause is known for 30 % of 1.00 s (queued)"
                                : "next is unknown, 10 % of 1.00 s (queued)");
  }
}

TEST(Kinds, InputWaitWithAllCpusTakenDoesNotAskForWorkers) {
  Made made(Cause::kInputWait, kNext);
  made.Helped("4 workers", 4, 0.97, 0.02, 4, {{"dataset.py:12 in decode", 0.9, true}});
  EXPECT_EQ(made.Judged().action,
            "all of the 4 CPUs that they may use are taken: make dataset.py:12 in decode cheaper");
}

TEST(Kinds, InputWaitWithWorkersThatWaitThemselves) {
  Made made(Cause::kInputWait, kNext);
  made.Helped("4 workers", 4, 0.05, 0.0, 16, {{"dataset.py:9 in read", 0.9, false}});
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "input_wait");
  EXPECT_EQ(v.action,
            "the helpers were blocked themselves in dataset.py:9 in read: more of them, "
            "prefetching, or faster storage behind it");
  EXPECT_TRUE(Contains(v.meanwhile, "95 % blocked")) << v.meanwhile;
}

TEST(Kinds, InputWaitWithoutHelpersSeenAdvisesNothing) {
  const Verdict v = Made(Cause::kInputWait, kNext).Judged();
  EXPECT_EQ(v.kind, "input_wait");
  EXPECT_EQ(v.action, "");
  EXPECT_EQ(v.meanwhile, "");
}

TEST(Kinds, WorkersThatStandInLineForOneCpuAreStarved) {
  Made made(Cause::kInputWait, kNext);
  made.Helped("8 workers (children of 411)", 8, 0.12, 0.87, 1,
              {{"dataset.py:12 in decode", 1.0, true}});
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "cpu_starved");
  EXPECT_EQ(v.headline,
            "Short of CPUs: the GPU was idle 80 % of 1.00 s; for 100 % of the idle time it waited "
            "for data (input wait), because those who make it stood in line for a CPU.");
  EXPECT_EQ(v.meanwhile,
            "meanwhile 8 workers (children of 411) were 12 % of that time on a CPU, 87 % waiting "
            "for one, 100 % "
            "in dataset.py:12 in decode");
  EXPECT_EQ(v.action,
            "8 workers share 1 CPU: remove the affinity (taskset, cpuset, container limit) or use "
            "fewer workers");
}

TEST(Kinds, WorkersOnACrowdedMachineAreStarvedByOthers) {
  Made made(Cause::kInputWait, kNext);
  made.Helped("4 workers", 4, 0.5, 0.5, 16);
  EXPECT_EQ(made.Judged().kind, "cpu_starved");
  EXPECT_EQ(made.Judged().action,
            "they may use 16 CPUs: other work takes those; give the job its own");
}

TEST(Kinds, RequestWait) {
  const Verdict v = Made(Cause::kRequestWait, "server.py:34 in serve", "recv").Judged();
  EXPECT_EQ(v.kind, "request_wait");
  EXPECT_EQ(v.headline,
            "Waiting for requests: the GPU was idle 80 % of 1.00 s; for 100 % of the idle time the "
            "feeding thread waited for work from outside, and nobody in the job was busy.");
  EXPECT_EQ(v.evidence, "server.py:34 in serve (recv): 800 ms in 50 gaps, the longest 20.0 ms");
}

// the feeding thread

TEST(Kinds, HostPythonAdvisesByItsPlace) {
  const Verdict v = Made(Cause::kHostPython, "train.py:26 in tokenize").Judged();
  EXPECT_EQ(v.kind, "host_python");
  EXPECT_EQ(v.headline,
            "Python-bound: the GPU was idle 80 % of 1.00 s; for 100 % of the idle time the feeding "
            "thread "
            "ran Python.");
  EXPECT_EQ(v.action,
            "make train.py:26 in tokenize cheaper, or move it off the thread that feeds the GPU");
  EXPECT_EQ(Made(Cause::kHostPython, kNext, "torch/utils/data/_utils/fetch.py:54 in fetch")
                .Judged()
                .action,
            "the main thread loads the data itself: DataLoader(num_workers > 0) moves it into "
            "workers");
  EXPECT_EQ(Made(Cause::kHostPython, kNext, "torch/optim/adamw.py:312 in _single_tensor_adamw")
                .Judged()
                .action,
            "the optimiser updates one tensor at a time: foreach=True or fused=True");
  EXPECT_EQ(Made(Cause::kHostPython, "thread 411 python").Judged().action, "");
}

TEST(Kinds, HostNative) {
  const Verdict v = Made(Cause::kHostNative, "train.py:39 in parse", "json.loads").Judged();
  EXPECT_EQ(v.kind, "host_native");
  EXPECT_TRUE(Contains(v.action, "make train.py:39 in parse cheaper")) << v.action;
  EXPECT_EQ(Made(Cause::kHostNative, "train.py:55 in save", "os.fsync").Judged().action,
            "write in the background, or less often at train.py:55 in save");
}

// What shows of Python that could not be read is the interpreter's own code.
TEST(Kinds, PythonThatWasNotReadIsNotCalledNativeCode) {
  Made python(Cause::kHostPython, "python3.16+0x44ca63", "Python, line not read");
  python.timeline.processes[0].python_unread = "this Python version (3.16.0) is not known";
  Verdict v = python.Judged();
  EXPECT_EQ(v.kind, "host_python");
  EXPECT_TRUE(v.headline.starts_with("Python-bound: ")) << v.headline;
  EXPECT_TRUE(Contains(v.headline, "the feeding thread ran Python whose lines could not be read."))
      << v.headline;
  EXPECT_EQ(
      v.action,
      "record it with CPython 3.9 to 3.15, not free-threaded: the report then names the line");
  Made native(Cause::kHostNative, "libtorch_cpu.so+0x1a2b");
  native.timeline.processes[0].python_unread = "its memory cannot be read (EPERM)";
  v = native.Judged();
  EXPECT_EQ(v.kind, "host_native");
  EXPECT_TRUE(v.headline.starts_with("Host-bound: ")) << v.headline;
  EXPECT_TRUE(Contains(v.headline,
                       "in Python whose lines could not be read or in native code that it calls."))
      << v.headline;
  EXPECT_TRUE(Contains(v.action, "process_vm_readv")) << v.action;
  // A line that shows is another process's.
  native.cause().sites[0].where = "train.py:39 in parse";
  EXPECT_TRUE(native.Judged().headline.starts_with("Host-bound, native code: "));
  // What workers could not be read does not change what the feeding thread did.
  native.cause().sites[0].where = "libtorch_cpu.so+0x1a2b";
  native.timeline.processes[0].sampled_only = true;
  EXPECT_TRUE(native.Judged().headline.starts_with("Host-bound, native code: "));
}

// A loop of bytecode that calls small C functions: one line, two causes.
TEST(Kinds, PythonAndNativeCodeOfOneLineAreOneFinding) {
  for (const auto& [cause, other, words] :
       {std::tuple{Cause::kHostPython, Cause::kHostNative, "native code that it calls"},
        std::tuple{Cause::kHostNative, Cause::kHostPython, "Python"}}) {
    Made made(cause, "train.py:26 in tokenize");
    DeviceReport& d = made.analysis.devices[0];
    d.causes[0].total_ns = d.causes[0].sites[0].total_ns = 500 * kMs;
    CauseTotal second{other, 300 * kMs, 40, 10 * kMs, {}};
    second.sites.push_back({"train.py:26 in tokenize", 250 * kMs, 40, 10 * kMs, -1});
    d.causes.push_back(second);
    d.causes.push_back({Cause::kSynchronisation, 20 * kMs, 4, 10 * kMs, {}});
    const Verdict v = made.Judged();
    EXPECT_TRUE(Contains(v.evidence, std::string("; another 250 ms there in ") + words))
        << v.evidence;
    EXPECT_NEAR(v.upper_bound_speedup, 4.0, 1e-9);
    EXPECT_EQ(v.runner_up_cause, Cause::kSynchronisation);

    d.causes[1].sites[0].where = "train.py:44 in collate";
    const Verdict apart = made.Judged();
    EXPECT_FALSE(Contains(apart.evidence, "another")) << apart.evidence;
    EXPECT_NEAR(apart.upper_bound_speedup, 2.0, 1e-9);
    EXPECT_EQ(apart.runner_up_cause, other);

    d.causes[1].sites[0] = {"train.py:26 in tokenize", 9 * kMs, 1, 9 * kMs, -1};
    EXPECT_NEAR(made.Judged().upper_bound_speedup, 2.0, 1e-9);  // crumbs
  }
}

TEST(Kinds, GilWaitBlamesTheHolder) {
  Made made(Cause::kGilWait, "train.py:45 in forward");
  EXPECT_EQ(made.Judged().action, "");
  made.Helped("thread 415 statistics", 1, 1.0, 0, 16, {{"train.py:27 in run", 0.99, true}});
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "gil_wait");
  EXPECT_EQ(v.meanwhile,
            "meanwhile thread 415 statistics was 100 % of that time on a CPU, 99 % in train.py:27 "
            "in run");
  EXPECT_EQ(v.action,
            "move train.py:27 in run (thread 415 statistics) into a process of its own: it held "
            "the interpreter lock");
}

TEST(Kinds, CpuStarvedOfTheFeedingThread) {
  Made made(Cause::kCpuStarved, kNext);
  EXPECT_EQ(made.Judged().kind, "cpu_starved");
  EXPECT_TRUE(Contains(made.Judged().action, "give the feeding thread a CPU"));
  made.timeline.processes[0].allowed_cpus = 2;
  EXPECT_EQ(
      made.Judged().action,
      "the job may use 2 CPUs: run fewer threads on them, allow more, or move other work off the "
      "machine");
}

// CUDA calls, with the line they were made from

TEST(Kinds, ASynchronisationThatReadsAResultBack) {
  Made made(Cause::kSynchronisation, "train.py:31 in main", "cudaStreamSynchronize");
  TimelineBuilder b;
  b.Copy(15, 16, b.Call("cudaMemcpyAsync", CallClass::kCopy, 10, 12), false, 2, 4);
  b.Sync(13, 30);
  made.timeline = b.Build();
  made.cause().sites[0].example_call = 1;
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "synchronisation");
  EXPECT_EQ(v.action,
            "read the result at train.py:31 in main every N steps, or keep it on the GPU (4 bytes "
            "read back before each wait)");
}

TEST(Kinds, ASynchronisationOfTheWholeDevice) {
  Made made(Cause::kSynchronisation, "train.py:31 in main", "cudaDeviceSynchronize");
  made.Through("cudaDeviceSynchronize", CallClass::kSync);
  EXPECT_EQ(made.Judged().action,
            "drop the synchronisation at train.py:31 in main, or wait for an event of the step "
            "before");
}

TEST(Kinds, EmptyCacheIsNamed) {
  Made made(Cause::kBlockingApi, "train.py:25 in step",
            "cudaFree, torch/cuda/memory.py:162 in empty_cache");
  made.Through("cudaFree", CallClass::kFree);
  const Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "blocking_api");
  EXPECT_EQ(v.action,
            "remove empty_cache() at train.py:25 in step: it hands the memory back that the next "
            "step takes again");
}

TEST(Kinds, OneLongCallIsNoHabitOfTheLoop) {
  Made made(Cause::kBlockingApi, "train.py:25 in step", "cudaFree, aten::cudnn_convolution");
  made.Through("cudaFree", CallClass::kFree);
  made.cause().sites[0].longest_ns = 700 * kMs;
  EXPECT_EQ(made.Judged().action,
            "the longest of it took 700 ms at train.py:25 in step, once: a first use (context, "
            "libraries, modules); let a warm-up step make it before the loop, and measure without "
            "it");
}

TEST(Kinds, PageableCopyAtItsLine) {
  Made made(Cause::kPageableCopy, "train.py:20 in main", "cudaMemcpyAsync HtoD, pageable");
  EXPECT_EQ(made.Judged().kind, "pageable_copy");
  EXPECT_EQ(made.Judged().action,
            "use pinned memory and asynchronous copies at train.py:20 in main (pin_memory=True and "
            "non_blocking=True in PyTorch)");
}

TEST(Kinds, AdviceThatNeedsEvidenceIsAbsentWithoutIt) {
  for (Cause cause : {Cause::kInputWait, Cause::kHostPython, Cause::kHostNative, Cause::kGilWait,
                      Cause::kSynchronisation, Cause::kBlockingApi, Cause::kUnknown}) {
    EXPECT_EQ(Made(cause, "").Judged().action, "") << CauseKey(cause);
  }
}

TEST(Kinds, EveryCauseHasAKind) {
  const std::array<std::pair<Cause, const char*>, 16> kinds = {{
      {Cause::kSynchronisation, "synchronisation"},
      {Cause::kBlockingApi, "blocking_api"},
      {Cause::kLaunchBound, "launch_bound"},
      {Cause::kPageableCopy, "pageable_copy"},
      {Cause::kDependency, "dependency"},
      {Cause::kLaunchLatency, "launch_bound"},
      {Cause::kProfiler, "profiler"},
      {Cause::kOtherProcess, "other_process"},
      {Cause::kHost, "host"},
      {Cause::kUnknown, "not_enough_data"},
      {Cause::kInputWait, "input_wait"},
      {Cause::kRequestWait, "request_wait"},
      {Cause::kHostPython, "host_python"},
      {Cause::kHostNative, "host_native"},
      {Cause::kGilWait, "gil_wait"},
      {Cause::kCpuStarved, "cpu_starved"},
  }};
  for (const auto& [cause, kind] : kinds) {
    const Verdict v = Made(cause, kNext).Judged();
    EXPECT_EQ(v.kind, kind);
    EXPECT_EQ(v.where, kNext) << kind;
    EXPECT_FALSE(v.headline.empty()) << kind;
    // Of what is not known nothing can be promised.
    EXPECT_NEAR(v.upper_bound_speedup, cause == Cause::kUnknown ? 1.0 : 5.0, 1e-9) << kind;
  }
}

// the runner-up

TEST(Kinds, TheRunnerUpHasItsParts) {
  Made made(Cause::kInputWait, kNext);
  DeviceReport& d = made.analysis.devices[0];
  d.causes[0].total_ns = d.causes[0].sites[0].total_ns = 770 * kMs;
  d.causes.push_back({Cause::kSynchronisation,
                      30 * kMs,
                      4,
                      10 * kMs,
                      {{"train.py:31 in main", 30 * kMs, 4, 10 * kMs, -1}}});
  const Verdict v = made.Judged();
  EXPECT_EQ(v.runner_up, "next is synchronisation, 3.8 % of the idle time (train.py:31 in main)");
  EXPECT_EQ(v.runner_up_cause, Cause::kSynchronisation);
  EXPECT_NEAR(v.runner_up_share, 0.03, 1e-9);
  EXPECT_EQ(v.runner_up_where, "train.py:31 in main");
}

// periodic stalls

// 100 steps of 8 ms, 2 ms of it idle; every `period`-th idles 60 ms more for `cause`.
Made Stalled(uint64_t period, Cause cause) {
  Made made(cause, "train.py:55 in save", "os.fsync");
  DeviceSteps& steps = made.analysis.steps[0];
  steps.device = 0;
  steps.median_ns = 8 * kMs;
  int64_t now = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const bool slow = i % period == period - 1;
    Step step{now, now + (slow ? 68 : 8) * kMs};
    step.slow = slow;
    step.idle_ns = (slow ? 62 : 2) * kMs;
    step.busy_ns = 6 * kMs;
    now = step.end_ns;
    steps.slow_steps += slow;
    steps.steps.push_back(step);
    CountStep(step, &steps);
  }
  steps.slow_period = period;
  steps.growth.push_back({cause, 60 * kMs, "train.py:55 in save"});
  return made;
}

TEST(Kinds, PeriodicStallOfOneStepInN) {
  const Verdict v = Stalled(10, Cause::kHostNative).Judged();
  EXPECT_EQ(v.kind, "periodic_stall");
  EXPECT_EQ(
      v.headline,
      "Periodic stall: the GPU was idle 80 % of 1.00 s; 75 % of the idle time in one step of 10, "
      "which does more than the others.");
  EXPECT_EQ(v.where, "train.py:55 in save");
  EXPECT_EQ(v.evidence,
            "10 slow steps of 100 (median 8.00 ms), each with 60.0 ms more of host native in "
            "train.py:55 in save");
  EXPECT_EQ(v.action,
            "write in the background (train.py:55 in save on a copy, in another thread), or less "
            "often");
  EXPECT_NEAR(v.upper_bound_speedup, 1.0 / (1.0 - 0.6), 1e-9);
}

// A checkpoint copies, writes and waits; the wait of the loop that comes before it is charged with
// some of that.
TEST(Kinds, AStallIsOfTheFunctionThatDoesMostOfDifferentKinds) {
  Made made = Stalled(10, Cause::kSynchronisation);
  made.analysis.steps[0].growth = {{Cause::kSynchronisation, 30 * kMs, "train.py:40 in main"},
                                   {Cause::kPageableCopy, 20 * kMs, "train.py:52 in save"},
                                   {Cause::kHostNative, 9 * kMs, "train.py:55 in save"}};
  Verdict v = made.Judged();
  EXPECT_EQ(v.kind, "periodic_stall");
  EXPECT_EQ(v.where, "train.py:52 in save");
  EXPECT_EQ(v.action,
            "write in the background (train.py:52 in save on a copy, in another thread), or less "
            "often");
  EXPECT_EQ(v.runner_up, "");                            // none of the three is a second finding
  made.analysis.steps[0].growth[0].extra_ns = 40 * kMs;  // the rest is less than 0.8 of that
  EXPECT_EQ(made.Judged().where, "train.py:40 in main");
}

TEST(Kinds, ARhythmOfTheInputIsInputWait) {
  EXPECT_EQ(Stalled(10, Cause::kInputWait).Judged().kind, "input_wait");
  EXPECT_EQ(Stalled(4, Cause::kHostNative).Judged().kind, "host_native");
}

TEST(Kinds, StallsThatAreASmallPartOfTheIdleTimeAreNoVerdict) {
  EXPECT_EQ(Stalled(20, Cause::kHostNative).Judged().kind, "host_native");
}

// busy but empty

// 100 kernels of 950 us every millisecond, with `blocks` blocks each.
Timeline Kernels(uint32_t blocks, uint32_t sms = 132, int streams = 1) {
  TimelineBuilder b;
  b.t.devices[0].sm_count = sms;
  b.t.shapes.push_back({{blocks, 1, 1}, {256, 1, 1}, {0, 0, 0}, 0, 0, 32, 0});
  for (int s = 1; s < streams; ++s) b.AddStream(0, 7 + static_cast<uint32_t>(s));
  for (int i = 0; i < 100; ++i) {
    for (int s = 0; s < streams; ++s) b.Kernel(i * kMs, i * kMs + 950 * kUs, 0, s).shape = 0;
  }
  return b.Build();
}

TEST(Kinds, BusyWithKernelsOfFewBlocksIsEmpty) {
  const Verdict v = Analyse(Kernels(4), {}).verdict;
  EXPECT_EQ(v.kind, "busy_but_empty");
  EXPECT_EQ(v.headline,
            "Busy but empty: the GPU was busy 95 % of 100 ms, but for 100 % of its busy time with "
            "kernels "
            "that use few of its 132 multiprocessors.");
  EXPECT_TRUE(Contains(v.evidence, "100 kernels, by time mostly of 4 blocks or fewer"))
      << v.evidence;
  EXPECT_TRUE(Contains(v.action, "a larger batch")) << v.action;
  EXPECT_GT(v.upper_bound_speedup, 10);
}

TEST(Kinds, FullKernelsAndUnknownDevicesAreNotEmpty) {
  EXPECT_EQ(Analyse(Kernels(33), {}).verdict.kind, "gpu_bound");
  EXPECT_EQ(Analyse(Kernels(4, 0), {}).verdict.kind, "gpu_bound");
}

TEST(Kinds, FewBlocksOnManyStreamsFillTheDeviceTogether) {
  EXPECT_EQ(Analyse(Kernels(4, 132, 2), {}).verdict.kind, "busy_but_empty");
  EXPECT_EQ(Analyse(Kernels(4, 132, 10), {}).verdict.kind, "gpu_bound");
}

TEST(Kinds, CollectivesAreMeantToHaveFewBlocks) {
  Timeline t = Kernels(4);
  t.names[0] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
  EXPECT_EQ(Analyse(t, {}).verdict.kind, "communication");
}

TEST(Kinds, ADeviceThatCopiesFromPageableMemoryAllTheTime) {
  for (const bool pageable : {true, false}) {
    TimelineBuilder b;
    for (int i = 0; i < 50; ++i) {
      const int64_t at = i * 2 * kMs;
      b.Copy(at, at + 1800 * kUs,
             b.Call("cudaMemcpyAsync", CallClass::kCopy, at - 10 * kUs, at + 1750 * kUs), pageable);
      b.Kernel(at + 1810 * kUs, at + 1990 * kUs, b.Launch(at + 1760 * kUs, at + 1765 * kUs));
    }
    const Verdict v = Analyse(b.Build(), {}).verdict;
    EXPECT_EQ(v.kind, pageable ? "pageable_copy" : "gpu_bound");
    if (!pageable) continue;
    EXPECT_EQ(v.headline,
              "Pageable copies: for 90 % of 100 ms the GPU did nothing but copy; 100 % of all "
              "copying was from or to pageable memory, which the driver stages in pieces.");
    EXPECT_TRUE(Contains(v.evidence, "cudaMemcpyAsync (HtoD, pageable, thread 11 main): 50 calls"))
        << v.evidence;
    EXPECT_TRUE(Contains(v.action, "pin_memory=True")) << v.action;
  }
}

// warm-up

// Ten steps that load a kernel each, then a healthy loop of `busy_us` in each millisecond.
Timeline WarmUp(int64_t busy_us) {
  TimelineBuilder b;
  int64_t now = 0;
  for (int i = 0; i < 10; ++i) {
    b.Kernel(now, now + kMs, b.Launch(now - 10 * kUs, now - 5 * kUs));
    b.Call("cuModuleLoadData", CallClass::kModule, now + kMs + 10 * kUs, now + 100 * kMs);
    now += 100 * kMs + 20 * kUs;
  }
  for (int i = 0; i < 500; ++i) {
    b.Kernel(now, now + busy_us * kUs, b.Launch(now - 10 * kUs, now - 5 * kUs));
    now += kMs;
  }
  return b.Build();
}

TEST(Kinds, WarmUpBeforeAHealthyLoop) {
  const Verdict v = Analyse(WarmUp(990), {}).verdict;
  EXPECT_EQ(v.kind, "warmup");
  EXPECT_TRUE(Contains(v.headline,
                       "Warm-up: the GPU was idle 66 % of 1.50 s; 100 % of the idle time lies "
                       "in the first 1.02 s, and after it the GPU idled 1.0 % only."))
      << v.headline;
  EXPECT_TRUE(Contains(v.evidence, "blocking API")) << v.evidence;
  EXPECT_TRUE(Contains(v.evidence, "loading of kernels")) << v.evidence;
  EXPECT_TRUE(Contains(v.where, "cuModuleLoadData")) << v.where;
  EXPECT_TRUE(Contains(v.action, "load early")) << v.action;
  EXPECT_FALSE(v.steady.has_value());
}

TEST(Kinds, OneLongGapOutsideCudaBeforeTheLoopIsSetUp) {
  TimelineBuilder b;
  int64_t now = 0;
  for (int i = 0; i < 500; ++i) {
    b.Kernel(now, now + 990 * kUs, b.Launch(now - 10 * kUs, now - 5 * kUs));
    now += i == 5 ? 1000 * kMs : kMs;
  }
  const Verdict v = Analyse(b.Build(), {}).verdict;
  EXPECT_EQ(v.kind, "gpu_bound");
  EXPECT_TRUE(Contains(v.left_out, "start-up, GPU idle 97 % of it")) << v.left_out;
}

TEST(Kinds, WarmUpBeforeALoopWithATroubleOfItsOwnIsLeftOut) {
  const Verdict v = Analyse(WarmUp(400), {}).verdict;
  EXPECT_EQ(v.kind, "host");
  EXPECT_TRUE(v.steady.has_value());
  EXPECT_TRUE(Contains(v.left_out, "start-up")) << v.left_out;
}

TEST(Kinds, AnEvenRunHasNoStartUp) {
  TimelineBuilder b;
  for (int i = 0; i < 1000; ++i) b.Kernel(i * kMs, i * kMs + 990 * kUs);
  EXPECT_EQ(Analyse(b.Build(), {}).verdict.left_out, "");
}

}  // namespace
}  // namespace gpuprobe::tools

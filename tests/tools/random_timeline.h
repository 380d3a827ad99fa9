// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Timelines by chance: two processes, two devices, several streams and threads, nested and blocking
// calls, graphs, overhead, times without a view, host samples. All times are multiples of the tick.
#ifndef GPUPROBE_TESTS_TOOLS_RANDOM_TIMELINE_H_
#define GPUPROBE_TESTS_TOOLS_RANDOM_TIMELINE_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {

inline constexpr int kTicks = 600;

struct Case {
  Timeline timeline;
  Options options;
  int64_t tick = 1;
};

class RandomTimeline {
 public:
  RandomTimeline(uint32_t seed, int64_t tick, bool with_samples = false)
      : random_(seed), tick_(tick), with_samples_(with_samples) {}

  Case Make() {
    const int32_t second_process = b_.AddProcess(200, "other");
    const int32_t second_device = b_.AddDevice();
    // Streams and threads of both processes.
    std::vector<std::vector<int32_t>> streams{{0}, {}};
    streams[0].push_back(b_.AddStream(0, 13, 0));
    streams[0].push_back(b_.AddStream(second_device, 7, 0));
    streams[1].push_back(b_.AddStream(0, 7, second_process));
    std::vector<std::vector<int32_t>> threads{{0}, {}};
    threads[0].push_back(b_.AddThread(12, "b", 0));
    threads[1].push_back(b_.AddThread(21, "c", second_process));
    for (int32_t process : {0, second_process}) {
      for (const int32_t thread : threads[process]) AddCalls(thread, streams[process]);
      for (int i = Int(0, 2); i > 0; --i) {
        const int64_t at = Time();
        b_.BlindTime(at, at + Ticks(0, 40), Blind::Why::kLoss, "test", process);
      }
    }
    for (int i = Int(0, 4); i > 0; --i) {
      const int64_t at = Time();
      b_.Overhead(at, at + Ticks(0, 20), Int(1, 7) << 16, Chance(50), Int(-1, 2), Int(0, 1));
    }
    for (OverheadOp& overhead : b_.t.overheads) {
      if (overhead.thread >= 0) overhead.process = b_.t.threads[overhead.thread].process;
    }
    if (with_samples_) {
      AddSamplesTo(threads);
    }
    Case c;
    c.timeline = b_.Build();
    c.tick = tick_;
    if (Chance(25)) c.options.pid = Chance(50) ? 100 : 200;
    if (Chance(25)) c.options.from_ns = Time();
    if (Chance(25)) c.options.to_ns = Time();
    if (Chance(15)) c.options.device = Int(0, 1);
    return c;
  }

 private:
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Int(1, 100) <= percent; }
  int64_t Ticks(int low, int high) { return Int(low, high) * tick_; }
  int64_t Time() { return Ticks(0, kTicks - 60); }

  // One thread's calls, one after the other, sometimes one inside the one before.
  void AddCalls(int32_t thread, const std::vector<int32_t>& streams) {
    static const std::vector<std::pair<const char*, CallClass>> kApis = {
        {"cudaLaunchKernel", CallClass::kLaunch},
        {"cudaLaunchKernel", CallClass::kLaunch},
        {"cudaLaunchKernel", CallClass::kLaunch},
        {"cudaMemcpyAsync", CallClass::kCopy},
        {"cudaMemcpy", CallClass::kCopyBlocking},
        {"cudaStreamSynchronize", CallClass::kSync},
        {"cudaMalloc", CallClass::kAlloc},
        {"cudaFree", CallClass::kFree},
        {"cudaEventRecord", CallClass::kEventRecord},
        {"cudaFuncGetAttributes", CallClass::kOther}};
    int64_t at = Ticks(0, 60), before = at;
    while (at < (kTicks - 100) * tick_) {
      const auto& [api, call_class] = kApis[Int(0, static_cast<int>(kApis.size()) - 1)];
      const int64_t start = Chance(5) ? before : at;
      const int64_t end = start + (Chance(10) ? Ticks(0, 60) : Ticks(0, 8));
      const uint32_t correlation = b_.Call(api, call_class, start, end, thread);
      AddOp(call_class, start, end, Chance(10) ? 0 : correlation, streams);
      before = start;
      at = std::max(at, end) + (Chance(20) ? Ticks(0, 60) : Ticks(0, 5));
    }
  }

  void AddOp(CallClass call_class, int64_t start, int64_t end, uint32_t correlation,
             const std::vector<int32_t>& streams) {
    const int32_t stream = streams[Int(0, static_cast<int>(streams.size()) - 1)];
    const int64_t begin = std::max<int64_t>(0, start + Ticks(Chance(10) ? -3 : 0, 12));
    const int64_t finish = begin + (Chance(10) ? 0 : Ticks(0, Chance(10) ? 50 : 8));
    switch (call_class) {
      case CallClass::kLaunch:
        if (Chance(10)) {
          b_.Graph(begin, finish, correlation).stream = stream;
          b_.t.ops.back().device = b_.t.streams[stream].device;
          b_.t.ops.back().process = b_.t.streams[stream].process;
        } else {
          b_.Kernel(begin, finish, correlation, stream,
                    Chance(20) ? "ncclDevKernel_AllReduce" : "gemm");
        }
        break;
      case CallClass::kCopy:
        b_.Copy(begin, finish, correlation, Chance(50), 1, 64, stream);
        break;
      case CallClass::kCopyBlocking:
        b_.Copy(begin, std::min(end, finish) < begin ? begin : std::min(end, finish), correlation,
                Chance(50), 2, 64, stream);
        break;
      default:
        break;
    }
  }

  // Looks of every kind at all threads and at a worker, some processes watched, some calls with
  // their stacks.
  void AddSamplesTo(const std::vector<std::vector<int32_t>>& threads) {
    const int32_t child = b_.AddSampledChild(300, Int(0, 1));
    std::vector<int32_t> all = {b_.AddThread(300, "worker", child)};
    for (const auto& of_process : threads)
      all.insert(all.end(), of_process.begin(), of_process.end());
    const std::vector<int32_t> stacks = {
        -1,
        b_.Stack({"/job/train.py:1 f"}),
        b_.Stack({"/job/train.py:2 g", "/job/train.py:1 f"}),
        b_.Stack({"/usr/lib/libc.so.6+0x10"}),
        b_.Stack({"/usr/lib/python3.11/queue.py:1 get", "/job/train.py:1 f"}),
        b_.Stack({"/p/site-packages/torch/utils/data/dataloader.py:1 n", "/job/train.py:1 f"}),
        b_.Stack({"/p/site-packages/torch/autograd/graph.py:1 b", "/job/train.py:1 f"})};
    const std::vector<int32_t> targets = {-1, b_.String("pipe"), b_.String("socket"),
                                          b_.String("/data/x")};
    const std::vector<int32_t> syscalls = {-1, 0, 1, 7, 35, 61, 202, 202, 232};
    const auto one_of = [&](const std::vector<int32_t>& from) {
      return from[Int(0, static_cast<int>(from.size()) - 1)];
    };
    for (const int32_t thread : all) {
      if (Chance(15)) continue;
      for (int64_t at = Ticks(0, 40); at < kTicks * tick_; at += Ticks(1, 40)) {
        const int64_t interval = Ticks(0, 30);
        const int64_t cpu = interval * Int(0, 100) / 100;
        HostSample& sample =
            b_.AddSample(thread, at, interval, {cpu, (interval - cpu) * Int(0, 100) / 100},
                         static_cast<HostState>(Int(0, 4)), one_of(stacks));
        sample.syscall = one_of(syscalls);
        sample.wait_target = one_of(targets);
        sample.gil_holder = Chance(10) ? one_of(all) : -1;
        sample.flags = static_cast<uint8_t>(Chance(30) ? Int(0, 63) : 0);
      }
    }
    for (int32_t process = 0; process < 3; ++process) {
      if (Chance(70)) b_.SampledTime(Time(), kTicks * tick_, process);
    }
    for (HostCall& call : b_.t.calls) {
      if (Chance(5)) call.site = one_of(stacks);
    }
  }

  TimelineBuilder b_;
  std::mt19937 random_;
  int64_t tick_;
  bool with_samples_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_RANDOM_TIMELINE_H_

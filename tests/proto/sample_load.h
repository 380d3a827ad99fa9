// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a sampler would see of a training process with eight data-loader workers, made up but with
// the noise of real clocks: 16 threads, 100 looks a second, stacks of 12 to 30 frames.
#ifndef GPUPROBE_TESTS_PROTO_SAMPLE_LOAD_H_
#define GPUPROBE_TESTS_PROTO_SAMPLE_LOAD_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/proto/sample_maker.h"

namespace gpuprobe::proto {

class SampleLoad {
 public:
  static constexpr uint32_t kPid = 4711, kThreads = 16, kFirstWorker = 8;

  explicit SampleLoad(int64_t begin_ns, uint64_t seed = 1) : random_(seed), now_ns_(begin_ns) {
    for (uint32_t i = 0; i < kThreads; ++i) {
      Thread thread;
      thread.pid = i < kFirstWorker ? kPid : kPid + 100 + i;
      thread.tid = i < kFirstWorker ? kPid + i : thread.pid;
      thread.depth = 12 + Below(6);
      threads_.push_back(thread);
    }
  }

  // One look at every thread. `each`(pid, tid, sample) takes it.
  template <class Each>
  void Tick(SampleMaker* maker, Each each) {
    now_ns_ += 10'000'000;
    int64_t at_ns = now_ns_ + static_cast<int64_t>(Exponential(40'000));
    for (size_t i = 0; i < threads_.size(); ++i) {
      at_ns += 12'000 + static_cast<int64_t>(Exponential(6'000));
      Thread& thread = threads_[i];
      SampleRecord sample = {};
      sample.time_ns = at_ns;
      if (thread.seen_ns != 0) sample.interval_ns = static_cast<uint64_t>(at_ns - thread.seen_ns);
      thread.seen_ns = at_ns;
      Live(i, &thread, &sample);
      sample.stack = Stack(maker, thread);
      each(thread.pid, thread.tid, sample);
    }
  }

 private:
  struct Thread {
    uint32_t pid, tid;
    uint64_t depth;
    int64_t seen_ns = 0;
    bool running = false;
    uint32_t inner[12] = {};
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  double Exponential(double mean) {
    // Not std::exponential_distribution: its results differ between libraries.
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(Below(1000)) / 2000 * mean;
    return sum;
  }

  void Live(size_t index, Thread* thread, SampleRecord* sample) {
    // The main thread and the workers are busy most of the time; the rest wakes up now and then.
    const bool busy = index == 0 || index >= kFirstWorker;
    const bool was_running = thread->running;
    if (Below(busy ? 3 : 12) == 0) thread->running = Below(10) < (busy ? 8 : 3);
    if (thread->running) {
      for (int changed = static_cast<int>(Below(4)); changed >= 0; --changed) {
        thread->inner[11 - Below(Below(12) + 1)] = static_cast<uint32_t>(Below(3));
      }
      sample->state = 1;
      const uint64_t lost =
          std::min<uint64_t>(sample->interval_ns, static_cast<uint64_t>(Exponential(4'000)));
      sample->runnable_ns = Below(4) == 0 ? lost / 2 : 0;
      sample->cpu_ns = was_running ? sample->interval_ns - lost : Below(sample->interval_ns + 1);
    } else {
      sample->state = 2;
      sample->syscall = busy ? 0 : 202;
      sample->wait_target = busy ? 1 : 2;
      sample->flags = was_running ? 0 : 8;
      if (was_running) sample->cpu_ns = Below(sample->interval_ns + 1);
    }
  }

  uint32_t Stack(SampleMaker* maker, const Thread& thread) {
    maker->encoder.InternText("pipe");
    maker->encoder.InternText("futex");
    uint32_t frames[32];
    const uint32_t role = thread.pid == kPid ? thread.tid - kPid : 8;
    for (uint32_t i = 0; i < thread.depth; ++i)
      Frame(maker, role, i, 0, &frames[thread.depth + 11 - i]);
    for (uint32_t i = 0; i < 12; ++i) Frame(maker, role, 20 + i, thread.inner[i], &frames[11 - i]);
    return maker->encoder.InternStack(frames, thread.depth + 12);
  }
  void Frame(SampleMaker* maker, uint32_t role, uint32_t level, uint32_t line, uint32_t* out) {
    static const char* const kWords[] = {"forward",     "_call_impl", "decode", "collate",
                                         "_next_data",  "convert",    "load",   "apply",
                                         "__getitem__", "run"};
    const uint32_t id = 1 + (role * 40 + level) * 4 + line;
    *out = maker->Location(
        id, std::string("Module") + kWords[(role + level) % 10] + "." + kWords[level % 10],
        "/usr/lib/python3/dist-packages/library/" +
            std::string(kWords[(role * 7 + level / 3) % 10]) + std::to_string(level / 3) + ".py",
        100 + level * 37 + line * 5);
  }

  std::mt19937_64 random_;
  int64_t now_ns_;
  std::vector<Thread> threads_;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_SAMPLE_LOAD_H_

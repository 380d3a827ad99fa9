// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Times the sampler's system calls by what they are for, for the benchmark alone, which compiles
// the sampler a second time with GPUPROBE_TIME_CALLS. In the library a CallTimer is nothing.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_CALL_CLOCK_H_
#define GPUPROBE_SAMPLER_CALL_CLOCK_H_

#include <cstddef>
#include <cstdint>

#ifdef GPUPROBE_TIME_CALLS
#include <time.h>
#include <x86intrin.h>
#endif

namespace gpuprobe::sampler {

enum class CallKind : uint8_t {
  kClock,   // CPU time of a thread or the process
  kKept,    // reads of /proc through a descriptor that stays open
  kOpened,  // opens, closes and other reads of /proc
  kMemory,  // reads of the process's memory
  kOther,
  kCount
};

#ifdef GPUPROBE_TIME_CALLS

// Of the ticks since `ticks` was last set to 0, CPU time: between going to sleep and being awake,
// in system calls, and in all but waking up. A thread that is not running does not count, a
// machine that is busy with others does: hence each tick's own figures, for a median.
struct TickTimes {
  static constexpr uint32_t kMost = 8192;
  uint32_t ticks = 0;
  float waking_us[kMost], calls_us[kMost], tick_us[kMost];
  uint64_t calls[static_cast<size_t>(CallKind::kCount)];
  double call_us[static_cast<size_t>(CallKind::kCount)];
};
inline constinit TickTimes g_tick_times = {};
inline constinit double g_cycles_per_us = 0;  // set before Run
inline constinit uint64_t g_cycles[static_cast<size_t>(CallKind::kCount)] = {},
                          g_calls[static_cast<size_t>(CallKind::kCount)] = {};

class CallTimer {
 public:
  explicit CallTimer(CallKind kind) : kind_(static_cast<size_t>(kind)), begin_(__rdtsc()) {}
  ~CallTimer() {
    g_cycles[kind_] += __rdtsc() - begin_;
    ++g_calls[kind_];
  }

 private:
  size_t kind_;
  uint64_t begin_;
};

class TickTimer {
 public:
  explicit TickTimer(int64_t* slept_ns) : slept_ns_(slept_ns), begin_ns_(CpuNs()) {
    for (size_t i = 0; i < static_cast<size_t>(CallKind::kCount); ++i) g_cycles[i] = g_calls[i] = 0;
  }
  ~TickTimer() {
    const int64_t now_ns = CpuNs();
    TickTimes& t = g_tick_times;
    if (t.ticks < TickTimes::kMost && *slept_ns_ != 0) {
      uint64_t cycles = 0;
      for (size_t i = 0; i < static_cast<size_t>(CallKind::kCount); ++i) {
        if (t.ticks == 0) t.calls[i] = 0, t.call_us[i] = 0;
        t.calls[i] += g_calls[i];
        t.call_us[i] += static_cast<double>(g_cycles[i]) / g_cycles_per_us;
        cycles += g_cycles[i];
      }
      t.waking_us[t.ticks] = static_cast<float>(begin_ns_ - *slept_ns_) / 1e3f;
      t.tick_us[t.ticks] = static_cast<float>(now_ns - begin_ns_) / 1e3f;
      t.calls_us[t.ticks++] = static_cast<float>(static_cast<double>(cycles) / g_cycles_per_us);
    }
    *slept_ns_ = now_ns;
  }

 private:
  static int64_t CpuNs() {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
  }
  int64_t* slept_ns_;
  int64_t begin_ns_;
};

#else

class CallTimer {
 public:
  explicit CallTimer(CallKind) {}
  ~CallTimer() {}  // a variable of it is not unused
};
class TickTimer {
 public:
  explicit TickTimer(int64_t*) {}
  ~TickTimer() {}
};

#endif

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_CALL_CLOCK_H_

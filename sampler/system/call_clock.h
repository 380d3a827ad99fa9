// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a tick consists of: waking up, system calls by what they are for, and the rest. For the
// benchmark alone, which compiles the sampler a second time with GPUPROBE_TIME_CALLS; in the
// library the timers are nothing.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_SYSTEM_CALL_CLOCK_H_
#define GPUPROBE_SAMPLER_SYSTEM_CALL_CLOCK_H_

#include <cstddef>
#include <cstdint>

#ifdef GPUPROBE_TIME_CALLS
#include <time.h>
#include <x86intrin.h>

#include <atomic>
#endif

namespace gpuprobe::sampler {

enum class CallKind : uint8_t {
  kClock,   // CPU time of a thread
  kKept,    // reads of /proc through a descriptor that stays open
  kOpened,  // opens, closes and other reads of /proc
  kMemory,  // reads of the process's memory
  kOther,
};
inline constexpr size_t kCallKinds = 5;

#ifdef GPUPROBE_TIME_CALLS

// Of each tick its own figures, for a median: a virtual machine whose host is busy with others
// bills a tick in ten for that, five times over.
struct TickTimes {
  static constexpr uint32_t kMost = 8192;
  uint32_t ticks;
  // CPU time: from the end of the tick before to this one's begin, and of the tick.
  float waking_us[kMost], tick_us[kMost];
  float calls_us[kMost];  // of the tick, elapsed time in system calls
  uint64_t calls[kCallKinds];
  uint64_t cycles[kCallKinds];
};
inline constinit TickTimes g_tick_times = {};
inline constinit double g_cycles_per_us = 0;  // set before Run
// Begin anew with the next tick. relaxed: stands alone.
inline constinit std::atomic<bool> g_restart_tick_times{false};
// Of the tick that is going on.
inline constinit uint64_t g_cycles[kCallKinds] = {}, g_calls[kCallKinds] = {};

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
  // `slept_ns`: CPU time at the end of the tick before; 0: there was none.
  explicit TickTimer(int64_t* slept_ns) : slept_ns_(slept_ns), begin_ns_(OwnNs()) {
    if (g_restart_tick_times.exchange(false, std::memory_order_relaxed)) g_tick_times = {};
    for (size_t i = 0; i < kCallKinds; ++i) g_cycles[i] = g_calls[i] = 0;
  }
  ~TickTimer() {
    const int64_t now_ns = OwnNs();
    if (*slept_ns_ != 0 && g_tick_times.ticks < TickTimes::kMost) Note(now_ns);
    *slept_ns_ = now_ns;
  }

 private:
  static int64_t OwnNs() {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
  }
  void Note(int64_t now_ns) const {
    TickTimes& t = g_tick_times;
    uint64_t cycles = 0;
    for (size_t i = 0; i < kCallKinds; ++i) {
      t.calls[i] += g_calls[i];
      t.cycles[i] += g_cycles[i];
      cycles += g_cycles[i];
    }
    t.waking_us[t.ticks] = static_cast<float>(begin_ns_ - *slept_ns_) / 1e3f;
    t.tick_us[t.ticks] = static_cast<float>(now_ns - begin_ns_) / 1e3f;
    t.calls_us[t.ticks++] = static_cast<float>(static_cast<double>(cycles) / g_cycles_per_us);
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

#endif  // GPUPROBE_SAMPLER_SYSTEM_CALL_CLOCK_H_

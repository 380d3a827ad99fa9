// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The sampler's clocks, in nanoseconds.
//
// Thread: the sampler thread; MonotonicNs any.
#ifndef GPUPROBE_SAMPLER_SYSTEM_CLOCKS_H_
#define GPUPROBE_SAMPLER_SYSTEM_CLOCKS_H_

#include <cstdint>
#include <ctime>

#include "sampler/system/call_clock.h"
#include "sampler/system/proc_files.h"

namespace gpuprobe::sampler {

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

inline int64_t NsOf(const struct timespec& t) { return t.tv_sec * kNsPerSecond + t.tv_nsec; }

inline int64_t MonotonicNs() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return NsOf(t);
}

// CPU time of a thread by its clock, a system call: the vDSO does not have it. -1: the clock is of
// no thread of this process.
inline int64_t CpuNs(clockid_t clock) {
  ++TheProcCounters().others;
  const CallTimer timer(CallKind::kClock);
  struct timespec t;
  return clock_gettime(clock, &t) == 0 ? NsOf(t) : -1;
}
inline int64_t OwnCpuNs() { return CpuNs(CLOCK_THREAD_CPUTIME_ID); }
// As pthread_getcpuclockid() makes it of a thread's number.
inline clockid_t CpuClockOf(uint32_t tid) {
  constexpr uint32_t kThreadCpuClock = 6;
  return static_cast<clockid_t>(~tid << 3 | kThreadCpuClock);
}

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_CLOCKS_H_

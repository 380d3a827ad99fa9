// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A bounded wait on a word. pthread condition variables are out: a host may be killed or forked
// while one is held, and the final wait must end in any case.
#ifndef GPUPROBE_INJECT_FUTEX_H_
#define GPUPROBE_INJECT_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace gpuprobe::inject {

// Sleeps until `word` is no longer `expected`, somebody wakes it, or `timeout_ns` have passed.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  struct timespec timeout = {static_cast<time_t>(timeout_ns / 1'000'000'000),
                             static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, &timeout,
          nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

inline int64_t MonotonicNs() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_FUTEX_H_

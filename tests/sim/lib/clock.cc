// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/clock.h"

#include <time.h>

#include <cstdlib>
#include <cstring>

namespace gpuprobe::sim {
namespace {

// As many digits as a real time, so that nothing that works here breaks on real records.
constexpr int64_t kDefaultEpochNs = 1'800'000'000'000'000'000;

int64_t RealtimeNs() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return ts.tv_sec * int64_t{1'000'000'000} + ts.tv_nsec;
}

}  // namespace

Clock& Clock::Get() {
  static Clock* clock = new Clock;  // never destroyed: calls come in after static destruction
  return *clock;
}

Clock::Clock() {
  const char* mode = getenv("GPUSIM_CLOCK");
  virtual_ = mode != nullptr && strcmp(mode, "virtual") == 0;
  const char* epoch = getenv("GPUSIM_EPOCH_NS");
  virtual_now_ = epoch != nullptr && *epoch != '\0' ? strtoll(epoch, nullptr, 10) : kDefaultEpochNs;
}

int64_t Clock::Now() const {
  // Relaxed: the counter publishes nothing but itself.
  return virtual_ ? virtual_now_.load(std::memory_order_relaxed) : RealtimeNs();
}

void Clock::Spend(int64_t ns) {
  if (ns <= 0) return;
  if (virtual_) {
    virtual_now_.fetch_add(ns, std::memory_order_relaxed);
    return;
  }
  const int64_t until = RealtimeNs() + ns;
  while (RealtimeNs() < until) {
  }
}

void Clock::WaitUntil(int64_t until_ns) {
  if (virtual_) {
    int64_t now = virtual_now_.load(std::memory_order_relaxed);
    while (now < until_ns &&
           !virtual_now_.compare_exchange_weak(now, until_ns, std::memory_order_relaxed)) {
    }
    return;
  }
  // Relative sleeps on the monotonic clock: a step of the wall clock may not turn into a long
  // sleep.
  for (int64_t left = until_ns - RealtimeNs(); left > 0; left = until_ns - RealtimeNs()) {
    timespec ts{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
  }
}

}  // namespace gpuprobe::sim

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The trace clock and the way to it.
//
// trace clock = CLOCK_MONOTONIC + a constant of the session, chosen so that it equals CUPTI's default
// record clock at session start. That clock is CLOCK_REALTIME (CUPTI on Linux), whose difference to
// CLOCK_MONOTONIC is constant except for clock steps: NTP slews both alike. So the normal conversion of
// a record time is the addition of a constant (0 until the wall clock is stepped): durations and gaps
// stay exact to the nanosecond, and a step of the wall clock cannot corrupt a trace.
//
// When another client has registered a timestamp callback with CUPTI (Kineto does, with TSC ticks), all
// records, ours too, carry that clock; its function is known to us because the registration passed
// through our export. The conversion is then affine, fitted over pairs (callback(), CLOCK_MONOTONIC).
//
// Threads: Init and Update on one thread; ToTrace on the drain thread; ForeignClock on any thread.
#ifndef GPUPROBE_CUPTI_CLOCK_H_
#define GPUPROBE_CUPTI_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::cupti {

struct ClockSample {
  int64_t trace_ns, monotonic_ns, realtime_ns, cupti_ns;
  uint32_t uncertainty_ns;
};

class TraceClock {
 public:
  constexpr TraceClock() = default;
  TraceClock(const TraceClock&) = delete;
  TraceClock& operator=(const TraceClock&) = delete;

  // Fixes the session's constant. `api` may be nullptr (no CUPTI: CLOCK_REALTIME is used).
  void Init(const CuptiApi* api);
  // Now on the trace clock. Any thread, no system call (vDSO).
  int64_t Now() const;
  int64_t FromMonotonic(int64_t monotonic_ns) const;

  // Reads all clocks, notices steps of the wall clock, feeds the fit of a foreign clock. Call twice a
  // second or so. `read_cupti`: also cuptiGetTimestamp (not while another client is being served).
  ClockSample Update(bool read_cupti);

  // Another client registered (nullptr: withdrew) its timestamp callback. Records completed from now on
  // are in that clock.
  void ForeignClock(TimestampFn callback);
  bool foreign() const;

  // A record time on the clock that was in force when its buffer was completed.
  int64_t ToTrace(int64_t record_ns) const;

 private:
  const CuptiApi* api_ = nullptr;
  int64_t constant_ns_ = 0;   // trace - CLOCK_MONOTONIC
  // The implementer adds what it needs here.
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_CLOCK_H_

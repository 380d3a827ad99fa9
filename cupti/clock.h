// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The trace clock and the way to it.
//
// trace clock = CLOCK_MONOTONIC + a constant of the session, chosen so that it equals CUPTI's
// default record clock at session start. That clock is CLOCK_REALTIME (CUPTI on Linux), whose
// difference to CLOCK_MONOTONIC is constant except for clock steps: NTP slews both alike. So the
// normal conversion of a record time is the addition of a constant (0 until the wall clock is
// stepped): durations and gaps stay exact to the nanosecond, and a step of the wall clock cannot
// corrupt a trace.
//
// A step is noticed by the first Update after it and is taken to have happened half way between
// that Update and the one before. Record times up to there are of the old wall clock, later ones of
// the new one. Where a time exists on both (the clock was set back, or forward by less than one
// Update period) it is read as one after the step; a time later than now is one before it.
//
// When another client has registered a timestamp callback with CUPTI (Kineto does, with TSC ticks),
// all records, ours too, carry that clock; its function is known to us because the registration
// passed through our export. The conversion is then piecewise linear through pairs (callback(),
// CLOCK_MONOTONIC) that Update takes. If CUPTI's clock turns out not to be CLOCK_REALTIME at Init
// (a recording that is replayed, a virtual clock), the trace clock starts from that clock instead,
// and record times are copied unchanged for the whole session. Records that were made before the
// change and are converted after it would be far outside the session on the clock in force; they
// are then read on the other one.
//
// Threads: Init first, before all others. Update and ToTrace on the drain thread. Now and
// FromMonotonic on any thread. ForeignClock on any thread, one call at a time (it is part of
// stepping aside).
#ifndef GPUPROBE_CUPTI_CLOCK_H_
#define GPUPROBE_CUPTI_CLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::cupti {

struct ClockSample {
  int64_t trace_ns, monotonic_ns, realtime_ns, cupti_ns;  // cupti_ns 0: not read
  uint32_t uncertainty_ns;  // width of the bracket in which the clocks were read
};

// The clocks that TraceClock reads; tests put their own in.
struct ClockReads {
  int64_t (*monotonic_ns)();
  int64_t (*realtime_ns)();
};

class TraceClock {
 public:
  constexpr TraceClock() = default;
  TraceClock(const TraceClock&) = delete;
  TraceClock& operator=(const TraceClock&) = delete;

  // Fixes the session's constant. `api` may be nullptr (no CUPTI: CLOCK_REALTIME is used).
  void Init(const CuptiApi* api);
  void Init(const CuptiApi* api, const ClockReads& reads);  // for tests
  // Now on the trace clock. Any thread, no system call (vDSO).
  int64_t Now() const { return FromMonotonic(reads_.monotonic_ns()); }
  int64_t FromMonotonic(int64_t monotonic_ns) const { return monotonic_ns + constant_ns_; }

  // Reads all clocks, notices steps of the wall clock, feeds the fit of a foreign clock. Call twice
  // a second or so, and before decoding what was completed meanwhile. `read_cupti`: also
  // cuptiGetTimestamp (not while another client is being served).
  ClockSample Update(bool read_cupti);

  // Another client registered (nullptr: withdrew) its timestamp callback. Records completed from
  // now on are in that clock. Calls `callback` here and in every Update until it is withdrawn.
  void ForeignClock(TimestampFn callback);
  bool foreign() const { return callback_.load(std::memory_order_relaxed) != nullptr; }

  // A record time on the clock that was in force when its buffer was completed.
  int64_t ToTrace(int64_t record_ns) const;

  // Whether ToTrace leaves every time as it is, up to the next Update: so as long as there was no
  // other clock and no step of the wall clock.
  bool TimesAreTraceTimes() const { return pair_count_ == 0 && steps_kept_ == 0; }

  // Steps of the wall clock noticed so far.
  uint32_t step_count() const { return step_count_; }

 private:
  // A step of CLOCK_REALTIME: record times on the new side of it are `size_ns` too large.
  struct Step {
    int64_t size_ns;
    int64_t last_old_ns;   // the wall clock when it was stepped, as it was just before ...
    int64_t first_new_ns;  // ... and just after
  };
  // The same instant on a record clock that is not CLOCK_REALTIME, and on CLOCK_MONOTONIC.
  struct Pair {
    int64_t record;
    int64_t monotonic_ns;
  };
  struct Bracketed {
    int64_t value;
    int64_t monotonic_ns;
    int64_t width_ns;
  };

  static constexpr size_t kMaxSteps = 8;
  static constexpr size_t kMaxPairs = 16;

  static int64_t ReadMonotonic();
  static int64_t ReadRealtime();
  template <class Read>
  Bracketed ReadBracketed(int tries, const Read& read) const;
  Bracketed ReadCupti() const;
  void NoteStep(const Bracketed& realtime);
  void AddStep(const Step& step);
  bool IsAfter(const Step& step, int64_t record_ns) const;
  void FollowForeignClock();
  void FollowCuptiClock();
  void StartPairs(const Pair& first);
  void AddPair(const Pair& pair);
  void Fit();
  int64_t FromWallClock(int64_t record_ns) const;
  int64_t FromPairs(int64_t record) const;
  bool Plausible(int64_t trace_ns) const;

  const CuptiApi* api_ = nullptr;
  ClockReads reads_ = {&ReadMonotonic, &ReadRealtime};
  int64_t constant_ns_ = 0;  // trace - CLOCK_MONOTONIC
  int64_t start_trace_ns_ = 0;
  bool cupti_is_realtime_ = true;

  // Drain thread.
  int64_t realtime_offset_ns_ = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC at the last Update
  int64_t last_monotonic_ns_ = 0;   // of the last Update
  Step steps_[kMaxSteps] = {};      // oldest first
  uint32_t steps_kept_ = 0;
  uint32_t step_count_ = 0;
  int64_t forgotten_steps_ns_ = 0;  // sum of the steps that had to make room
  bool pairs_in_force_ = false;
  Pair pairs_[kMaxPairs] = {};  // oldest first
  int64_t slopes_[kMaxPairs] =
      {};  // of the piece that starts at the pair: kSlopeOne is 1 ns a unit
  size_t pair_count_ = 0;
  uint32_t epoch_seen_ = 0;

  // Written by ForeignClock, read by the drain thread: epoch_ is stored last with release, loaded
  // first with acquire (FollowForeignClock).
  std::atomic<TimestampFn> callback_{nullptr};
  std::atomic<int64_t> first_record_{0};
  std::atomic<int64_t> first_monotonic_ns_{0};
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_CLOCK_H_

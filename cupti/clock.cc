// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/clock.h"

#include <time.h>

#include <cstdint>

namespace gpuprobe::cupti {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Reads between two readings of CLOCK_MONOTONIC; the narrowest of several is used, so that one
// preemption does not count. A vDSO read takes about 25 ns.
constexpr int kTries = 5;

// CLOCK_REALTIME - CLOCK_MONOTONIC is constant in the kernel between two steps, so whatever exceeds
// the error of reading it is a step. The error is half a bracket (kTrustedBracketNs at most); time
// daemons step by milliseconds and more (ntpd 128 ms, chrony and systemd-timesyncd 0.4 to 1 s by
// default).
constexpr int64_t kTrustedBracketNs = 5'000;
constexpr int64_t kStepThresholdNs = 10'000;

// Further from CLOCK_REALTIME than this, CUPTI's clock is another one; a bracket of 1 ms is already
// a preempted read, and TSC ticks or CLOCK_MONOTONIC are decades away.
constexpr int64_t kSameClockNs = 1'000'000;

// Record times lie between the start of the session and now. An hour of slack allows for everything
// but another clock.
constexpr int64_t kPlausibilitySlackNs = 3600 * kNsPerSecond;

// Record times may be this much later than the last Update without being "in the future".
constexpr int64_t kUpdateSlackNs = 2 * kNsPerSecond;

// Slopes are fixed-point with 40 fractional bits: the error after an hour of 3 GHz ticks since the
// nearest pair is 10 ns.
constexpr int kSlopeBits = 40;
constexpr int64_t kSlopeOne = int64_t{1} << kSlopeBits;

int64_t ReadClock(clockid_t id) {
  timespec time;
  clock_gettime(id, &time);
  return int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}
int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

int64_t Distance(int64_t a, int64_t b) {
  const __int128 difference = static_cast<__int128>(a) - b;
  const __int128 distance = difference < 0 ? -difference : difference;
  return distance > INT64_MAX ? INT64_MAX : static_cast<int64_t>(distance);
}

// a + b, held inside int64_t: times read from records can be anything.
int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? INT64_MAX : INT64_MIN;
}

// Monotonic time that passes while the record clock advances by `units`.
int64_t Scale(int64_t units, int64_t slope) {
  const __int128 product = static_cast<__int128>(units) * slope;
  const __int128 rounded = (product + (__int128{1} << (kSlopeBits - 1))) >> kSlopeBits;
  if (rounded > INT64_MAX) return INT64_MAX;
  if (rounded < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(rounded);
}

int64_t SlopeBetween(int64_t record_a, int64_t ns_a, int64_t record_b, int64_t ns_b) {
  const __int128 units = static_cast<__int128>(record_b) - record_a;
  const __int128 ns = static_cast<__int128>(ns_b) - ns_a;
  if (units <= 0 || ns <= 0) return kSlopeOne;
  const __int128 slope = ((ns << kSlopeBits) + units / 2) / units;
  return slope > INT64_MAX ? INT64_MAX : static_cast<int64_t>(slope);
}

}  // namespace

int64_t TraceClock::ReadMonotonic() { return ReadClock(CLOCK_MONOTONIC); }
int64_t TraceClock::ReadRealtime() { return ReadClock(CLOCK_REALTIME); }

template <class Read>
TraceClock::Bracketed TraceClock::ReadBracketed(int tries, const Read& read) const {
  Bracketed best = {0, 0, INT64_MAX};
  for (int i = 0; i < tries; ++i) {
    const int64_t before_ns = reads_.monotonic_ns();
    const int64_t value = read();
    const int64_t width_ns = reads_.monotonic_ns() - before_ns;
    if (width_ns < best.width_ns) best = {value, before_ns + width_ns / 2, width_ns};
  }
  return best;
}

// value 0: CUPTI does not tell.
TraceClock::Bracketed TraceClock::ReadCupti() const {
  if (api_ == nullptr || api_->GetTimestamp == nullptr) return {0, 0, 0};
  return ReadBracketed(kTries, [this] {
    uint64_t now = 0;
    return api_->GetTimestamp(&now) == kSuccess ? static_cast<int64_t>(now) : int64_t{0};
  });
}

void TraceClock::Init(const CuptiApi* api) { Init(api, {&ReadMonotonic, &ReadRealtime}); }

void TraceClock::Init(const CuptiApi* api, const ClockReads& reads) {
  api_ = api;
  reads_ = reads;
  const Bracketed realtime = ReadBracketed(kTries, reads_.realtime_ns);
  realtime_offset_ns_ = realtime.value - realtime.monotonic_ns;
  last_monotonic_ns_ = realtime.monotonic_ns;
  constant_ns_ = realtime_offset_ns_;
  start_trace_ns_ = FromMonotonic(realtime.monotonic_ns);

  FollowCuptiClock();
}

// CUPTI's clock is CLOCK_REALTIME. Should it be another one, the trace clock follows that one
// instead, so that record times are copied unchanged here too; steps of the wall clock then mean
// nothing.
void TraceClock::FollowCuptiClock() {
  const Bracketed cupti = ReadCupti();
  if (cupti.value == 0) return;
  const int64_t expected_ns = SaturatingAdd(cupti.monotonic_ns, realtime_offset_ns_);
  cupti_is_realtime_ = Distance(cupti.value, expected_ns) < kSameClockNs;
  if (cupti_is_realtime_) return;
  constant_ns_ = Difference(cupti.value, cupti.monotonic_ns);
  start_trace_ns_ = cupti.value;
}

ClockSample TraceClock::Update(bool read_cupti) {
  const Bracketed realtime = ReadBracketed(kTries, reads_.realtime_ns);
  NoteStep(realtime);
  last_monotonic_ns_ = realtime.monotonic_ns;

  ClockSample sample = {};
  sample.monotonic_ns = realtime.monotonic_ns;
  sample.trace_ns = FromMonotonic(realtime.monotonic_ns);
  sample.realtime_ns = realtime.value;
  int64_t width_ns = realtime.width_ns;
  // With another client's callback in force cuptiGetTimestamp answers in that client's units.
  if (read_cupti && !foreign()) {
    const Bracketed cupti = ReadCupti();
    if (cupti.value != 0) {
      sample.cupti_ns = Difference(cupti.value, cupti.monotonic_ns - realtime.monotonic_ns);
      if (cupti.width_ns > width_ns) width_ns = cupti.width_ns;
    }
  }
  sample.uncertainty_ns = width_ns > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(width_ns);
  FollowForeignClock();
  return sample;
}

// ---- The wall clock ----

void TraceClock::NoteStep(const Bracketed& realtime) {
  if (!cupti_is_realtime_) return;
  if (realtime.width_ns > kTrustedBracketNs) return;  // looked at again by the next Update
  const int64_t offset_ns = realtime.value - realtime.monotonic_ns;
  const int64_t size_ns = offset_ns - realtime_offset_ns_;
  if (Distance(size_ns, 0) <= kStepThresholdNs) return;
  const int64_t step_monotonic_ns =
      last_monotonic_ns_ + (realtime.monotonic_ns - last_monotonic_ns_) / 2;
  AddStep({size_ns, step_monotonic_ns + realtime_offset_ns_, step_monotonic_ns + offset_ns});
  realtime_offset_ns_ = offset_ns;
}

void TraceClock::AddStep(const Step& step) {
  ++step_count_;
  if (steps_kept_ == kMaxSteps) {
    // Records as old as the oldest step are long written.
    forgotten_steps_ns_ += steps_[0].size_ns;
    for (size_t i = 1; i < kMaxSteps; ++i) steps_[i - 1] = steps_[i];
    --steps_kept_;
  }
  steps_[steps_kept_++] = step;
}

bool TraceClock::IsAfter(const Step& step, int64_t record_ns) const {
  if (step.size_ns > 0) {
    // Nothing lies between the two readings; half way leaves room for the uncertain instant of the
    // step.
    return record_ns >= step.last_old_ns + step.size_ns / 2;
  }
  const int64_t now_ns = last_monotonic_ns_ + realtime_offset_ns_;
  return record_ns >= step.first_new_ns && record_ns <= now_ns + kUpdateSlackNs;
}

int64_t TraceClock::FromWallClock(int64_t record_ns) const {
  // Newest step first: a time after it has all of them behind it.
  int64_t excess_ns = forgotten_steps_ns_;
  size_t passed = steps_kept_;
  while (passed > 0 && !IsAfter(steps_[passed - 1], record_ns)) --passed;
  for (size_t i = 0; i < passed; ++i) excess_ns += steps_[i].size_ns;
  return SaturatingAdd(record_ns, -excess_ns);
}

// ---- Another clock ----

void TraceClock::ForeignClock(TimestampFn callback) {
  // Kineto registers its callback again for every profiling window: what the pairs know stays
  // right.
  if (callback != nullptr && callback == callback_.load(std::memory_order_relaxed)) return;
  if (callback != nullptr) {
    const Bracketed first =
        ReadBracketed(kTries, [callback] { return static_cast<int64_t>(callback()); });
    // Relaxed: published by the release store of epoch_ below.
    first_record_.store(first.value, std::memory_order_relaxed);
    first_monotonic_ns_.store(first.monotonic_ns, std::memory_order_relaxed);
  }
  callback_.store(callback, std::memory_order_relaxed);
  // Pairs with the acquire load in FollowForeignClock.
  epoch_.fetch_add(1, std::memory_order_release);
}

void TraceClock::FollowForeignClock() {
  const uint32_t epoch =
      epoch_.load(std::memory_order_acquire);  // pairs with ForeignClock's release
  const TimestampFn callback = callback_.load(std::memory_order_relaxed);
  if (epoch != epoch_seen_) {
    epoch_seen_ = epoch;
    if (callback == nullptr) {
      // The pairs stay for records of that clock that are still on their way.
      pairs_in_force_ = false;
      return;
    }
    StartPairs({first_record_.load(std::memory_order_relaxed),
                first_monotonic_ns_.load(std::memory_order_relaxed)});
  }
  if (callback == nullptr) return;
  const Bracketed now =
      ReadBracketed(kTries, [callback] { return static_cast<int64_t>(callback()); });
  AddPair({now.value, now.monotonic_ns});
}

void TraceClock::StartPairs(const Pair& first) {
  pairs_[0] = first;
  pair_count_ = 1;
  pairs_in_force_ = true;
  Fit();
}

void TraceClock::AddPair(const Pair& pair) {
  const Pair& last = pairs_[pair_count_ - 1];
  if (pair.record <= last.record || pair.monotonic_ns <= last.monotonic_ns) return;
  if (pair_count_ == kMaxPairs) {
    for (size_t i = 1; i < kMaxPairs; ++i) pairs_[i - 1] = pairs_[i];
    --pair_count_;
  }
  pairs_[pair_count_++] = pair;
  Fit();
}

// Straight pieces between neighbouring pairs. Before the first and after the last pair the slope of
// the whole is used: over the longest distance the error of a single reading matters least.
void TraceClock::Fit() {
  for (size_t i = 0; i + 1 < pair_count_; ++i) {
    slopes_[i] = SlopeBetween(pairs_[i].record, pairs_[i].monotonic_ns, pairs_[i + 1].record,
                              pairs_[i + 1].monotonic_ns);
  }
  const Pair& last = pairs_[pair_count_ - 1];
  slopes_[pair_count_ - 1] =
      SlopeBetween(pairs_[0].record, pairs_[0].monotonic_ns, last.record, last.monotonic_ns);
}

int64_t TraceClock::FromPairs(int64_t record) const {
  size_t piece = pair_count_ - 1;  // nearly all records belong to the last pieces
  while (piece > 0 && record < pairs_[piece].record) --piece;
  const int64_t slope = record < pairs_[0].record ? slopes_[pair_count_ - 1] : slopes_[piece];
  const int64_t monotonic_ns = SaturatingAdd(
      pairs_[piece].monotonic_ns, Scale(Difference(record, pairs_[piece].record), slope));
  return SaturatingAdd(monotonic_ns, constant_ns_);
}

bool TraceClock::Plausible(int64_t trace_ns) const {
  return trace_ns >= start_trace_ns_ - kPlausibilitySlackNs &&
         trace_ns <= FromMonotonic(last_monotonic_ns_) + kPlausibilitySlackNs;
}

int64_t TraceClock::ToTrace(int64_t record_ns) const {
  if (pair_count_ == 0) return FromWallClock(record_ns);
  const int64_t by_pairs_ns = FromPairs(record_ns);
  const int64_t by_wall_clock_ns = FromWallClock(record_ns);
  const int64_t in_force_ns = pairs_in_force_ ? by_pairs_ns : by_wall_clock_ns;
  const int64_t other_ns = pairs_in_force_ ? by_wall_clock_ns : by_pairs_ns;
  return !Plausible(in_force_ns) && Plausible(other_ns) ? other_ns : in_force_ns;
}

}  // namespace gpuprobe::cupti

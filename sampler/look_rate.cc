// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/look_rate.h"

#include <algorithm>

namespace gpuprobe::sampler {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kPermille = 1'000;

// While no thread that is looked at has run, nothing is lost by looking less often. What follows a
// wait, though, is met later, and so the pause is an eighth of the time that nothing has run at
// most, and a twenty-fifth of a second.
constexpr int64_t kQuietNsPerStride = 160'000'000;

// Busy threads that are looked at in one tick.
constexpr uint32_t kBusyPerTick = 16;
// Leaving fewer than these out saves next to nothing.
constexpr uint32_t kManyBusy = 4;

// Of the budget, where the rate is lowered: what one window takes differs from the next. With 90,
// loops were measured at 0.42 to 0.44 % of a core for a budget of 0.5 % (bench/gpu/sampler_cost.py
// on an H200's host); with 95 ten seconds in which looks become dear can take 0.51.
constexpr int64_t kAimPercent = 90;
// Windows that the needed slowdown is an average of, rising and falling: finding the interpreter
// and reading the maps cost some milliseconds, once.
constexpr int64_t kRisingWindows = 4, kFallingWindows = 2;

// While the average follows a host whose looks have become dear, and where it falls faster than it
// rises, more is spent than aimed at: 0.49 to 0.54 % of a core on an H200's host. That is saved
// again: half as often, if it is what this many windows may take.
constexpr int64_t kWindowsToSaveIn = 3, kMostDebtWindows = 4;

}  // namespace

void LookRate::Init(uint32_t hz, int64_t now_ns) {
  hz_ = hz;
  if (hz > 100) budget_ppm_ = kBudgetPpm * hz / 100;
  window_begin_ns_ = now_ns;
}

int64_t LookRate::period_ns(bool gpu_in_use) const {
  return kNsPerSecond / hz_ * slowdown_ / kPermille * (gpu_in_use ? 1 : kIdleFactor);
}

int64_t LookRate::pause_ns(bool gpu_in_use) const {
  return period_ns(gpu_in_use) * (gpu_in_use ? quiet_stride_ : 1);
}

uint32_t LookRate::busy_stride(uint32_t count) const {
  return std::max(busy_stride_, (count + kBusyPerTick - 1) / kBusyPerTick);
}

uint32_t LookRate::hz() const { return static_cast<uint32_t>(hz_ * kPermille / slowdown_); }

void LookRate::NoteTick(bool any_has_run, int64_t now_ns) {
  if (any_has_run) {
    quiet_since_ns_ = 0;
    quiet_stride_ = 1;
    return;
  }
  if (quiet_since_ns_ == 0) quiet_since_ns_ = now_ns;
  const int64_t strides = (now_ns - quiet_since_ns_) / kQuietNsPerStride;
  quiet_stride_ = strides >= 2 ? kMaxQuietStride : strides >= 1 ? 2 : 1;
}

// Costs go with the rate: at full rate they are slowdown_ times as much.
void LookRate::SlowDown(int64_t own_ns, int64_t elapsed_us, uint32_t busy_count) {
  const int64_t aim_ppm = budget_ppm_ * kAimPercent / 100;
  const int64_t own_ppm = own_ns * 1'000 / elapsed_us;
  const int64_t needed = own_ppm * slowdown_ / aim_ppm;
  const int64_t windows = needed > needed_ ? kRisingWindows : kFallingWindows;
  needed_ = needed_ == 0 ? needed : needed_ + (needed - needed_) / windows;
  if (credit_ns_ > 0) return;
  const int64_t aim_ns = kWindowNs / 1'000'000 * aim_ppm;  // a window's
  debt_ns_ = std::clamp<int64_t>(debt_ns_ + own_ns - elapsed_us * aim_ppm / 1'000, 0,
                                 kMostDebtWindows * aim_ns);
  const bool over = own_ppm > budget_ppm_;
  if (over && busy_count >= kManyBusy && busy_stride_ < kMaxBusyStride) {
    if (was_over_) {
      busy_stride_ *= 2;
      needed_ = 0;  // what it will be is not known
    }
  } else if (own_ppm * 3 < budget_ppm_ && slowdown_ == kPermille && busy_stride_ > 1) {
    busy_stride_ /= 2;
  } else {
    const int64_t saving = needed_ + needed_ * debt_ns_ / (kWindowsToSaveIn * aim_ns);
    slowdown_ = static_cast<uint32_t>(std::clamp<int64_t>(saving, kPermille, kMaxSlowdownPermille));
  }
  was_over_ = over;
}

bool LookRate::Spend(int64_t own_ns, int64_t children_ns, uint32_t busy_count, int64_t now_ns) {
  const int64_t elapsed_us = std::max<int64_t>((now_ns - window_begin_ns_) / 1'000, 1);
  window_begin_ns_ = now_ns;
  const int64_t lapsed_ns = kCreditNs / kCreditLastsSeconds * elapsed_us / 1'000'000;
  credit_ns_ -= std::max(own_ns - elapsed_us * budget_ppm_ / 1'000, lapsed_ns);
  SlowDown(own_ns, elapsed_us, busy_count);
  const int64_t children_ppm = children_ns * 1'000 / elapsed_us;
  if (children_ppm > budget_ppm_ && children_per_tick_ > 1) {
    children_per_tick_ /= 2;
  } else if (children_ppm * 3 < budget_ppm_ && children_per_tick_ < kMaxChildrenPerTick) {
    children_per_tick_ *= 2;
  }
  if (slowdown_ < 2 * told_) return false;
  told_ *= 2;
  return true;
}

}  // namespace gpuprobe::sampler

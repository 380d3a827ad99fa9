// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// How often the host is looked at. The rate that was asked for is the highest; it is lowered
// - while nothing that is looked at has run: how long a wait was is known at its end;
// - where looking, waking up for it included, would take more than the budget: first at busy
//   threads that call no CUDA, if there are several, then at all;
// - while the GPU is not in use.
// Every sample tells how long it stands for, so that a lower rate makes shares coarser, not wrong.
//
// No clock and no system call in here: what was spent is told by the caller. All times are
// CLOCK_MONOTONIC.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOOK_RATE_H_
#define GPUPROBE_SAMPLER_LOOK_RATE_H_

#include <cstdint>

namespace gpuprobe::sampler {

class LookRate {
 public:
  // Of a core, of this process's threads; their children may cost as much again. Who asks for more
  // than 100 looks a second may have them.
  static constexpr int64_t kBudgetPpm = 5'000;
  static constexpr int64_t kWindowNs = 1'000'000'000;
  // May be spent beyond it, once: while a program imports its modules every stack is deep and new
  // (a PyTorch process on an H200 machine: 90 ms in the first 5 s), and a rate that was lowered
  // there would leave the loop behind it with a quarter of its samples.
  static constexpr int64_t kCreditNs = 60'000'000;
  static constexpr int64_t kCreditLastsSeconds = 6;  // whether it is used or not
  static constexpr uint32_t kMaxSlowdownPermille = 8'000;
  static constexpr uint32_t kMaxBusyStride = 8, kMaxQuietStride = 4;
  static constexpr uint32_t kMaxChildrenPerTick = 8;
  // Without use of the GPU everything is this much slower: a notebook that idles over night must
  // neither wake up all the time nor fill a disk.
  static constexpr int64_t kIdleFactor = 10;

  void Init(uint32_t hz, int64_t now_ns);

  // A look every so often, whether anything runs or not; and until the next.
  int64_t period_ns(bool gpu_in_use) const;
  int64_t pause_ns(bool gpu_in_use) const;
  // Busy threads that call no CUDA are looked at every so many ticks: `count` of them.
  uint32_t busy_stride(uint32_t count) const;
  uint32_t children_per_tick() const { return children_per_tick_; }

  // After each tick: whether any thread that was looked at has run.
  void NoteTick(bool any_has_run, int64_t now_ns);

  // A window is over: Spend is due.
  bool WindowIsOver(int64_t now_ns) const { return now_ns - window_begin_ns_ >= kWindowNs; }
  // What the thread has spent since the window began, and how much of it for children. True: the
  // rate has come down to hz() for the first time.
  bool Spend(int64_t own_ns, int64_t children_ns, uint32_t busy_count, int64_t now_ns);
  uint32_t hz() const;
  int64_t budget_ppm() const { return budget_ppm_; }
  uint32_t slowdown_permille() const { return slowdown_; }

 private:
  void SlowDown(int64_t own_ns, int64_t elapsed_us, uint32_t busy_count);

  uint32_t hz_ = 0;
  int64_t budget_ppm_ = kBudgetPpm;
  int64_t credit_ns_ = kCreditNs;
  int64_t window_begin_ns_ = 0, quiet_since_ns_ = 0;  // the latter 0: something has run
  int64_t needed_ = 0;   // slowdown in permille that would fit, of late; 0: not known
  int64_t debt_ns_ = 0;  // spent beyond what the rate aims at, and not saved since
  uint32_t slowdown_ = 1'000, told_ = 1'000;
  uint32_t busy_stride_ = 1, quiet_stride_ = 1;
  uint32_t children_per_tick_ = kMaxChildrenPerTick;
  bool was_over_ = false;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOOK_RATE_H_

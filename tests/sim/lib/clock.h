// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The simulation's clock. Real: CLOCK_REALTIME, the default record clock of CUPTI on Linux; waiting
// really sleeps. Virtual: one counter for the whole process that moves only by Spend and WaitUntil,
// so that a single-threaded script has exactly reproducible times.
#ifndef GPUPROBE_TESTS_SIM_LIB_CLOCK_H_
#define GPUPROBE_TESTS_SIM_LIB_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace gpuprobe::sim {

class Clock {
 public:
  static Clock& Get();  // process lifetime

  bool is_virtual() const { return virtual_; }
  int64_t Now() const;
  // The calling thread computes for `ns`.
  void Spend(int64_t ns);
  // The calling thread is blocked until `until_ns`; returns at once if that is past.
  void WaitUntil(int64_t until_ns);

 private:
  Clock();
  bool virtual_ = false;
  std::atomic<int64_t> virtual_now_{0};
};

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_CLOCK_H_

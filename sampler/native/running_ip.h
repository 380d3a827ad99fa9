// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where in native code a running thread is. Nothing in /proc tells it; the kernel does, to whoever
// may call perf_event_open: every so many milliseconds of the thread's CPU time it writes the
// address (and those that the frame pointers lead to) into a ring that is read here. User code
// only, no wake-up, no signal; the thread pays for an interrupt at each of these times (a
// microsecond or two). Needs a descriptor table of our own: a descriptor for each thread stays
// open.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_NATIVE_RUNNING_IP_H_
#define GPUPROBE_SAMPLER_NATIVE_RUNNING_IP_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

class RunningIp {
 public:
  static constexpr int kMaxThreads = 32;
  static constexpr size_t kMaxAddresses = 8;

  struct Chain {
    uint64_t addresses[kMaxAddresses];  // innermost first
    size_t count = 0;
  };

  constexpr RunningIp() = default;
  RunningIp(const RunningIp&) = delete;
  RunningIp& operator=(const RunningIp&) = delete;

  // `period_ns`: of the thread's CPU time, between two readings.
  void Init(uint64_t period_ns) { period_ns_ = period_ns; }

  // Begins with a thread: a slot for Read and Close; -1: not possible (forbidden(), full(), or the
  // thread has ended).
  int Open(uint32_t tid);
  void Close(int slot);
  // The last reading since the call before. False: none, the thread has not run for long enough.
  bool Read(int slot, Chain* out);

  // kMaxThreads are open: of other threads nothing is known until one of them is closed.
  bool full() const;
  // errno of a refusal that holds for every thread; 0: none so far.
  int forbidden() const { return forbidden_; }

 private:
  int FreeSlot() const;  // kMaxThreads: none

  struct Slot {
    void* ring;  // nullptr: free
    int fd;
  };
  Slot slots_[kMaxThreads] = {};
  uint64_t period_ns_ = 0;
  int forbidden_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_NATIVE_RUNNING_IP_H_

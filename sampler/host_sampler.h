// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host sampler: a thread of its own that looks, at a fixed rate, at the threads that feed the
// GPU, at other threads that burn CPU, and at child processes (data-loader workers): on CPU, ready
// or blocked and in what, and where in Python. It takes no lock of the host, sends no signal, stops
// nobody, and opens its files in a descriptor table of its own where the system allows
// (unshare(CLONE_FILES)).
//
// Cost: a thread that has not run since the look before costs one system call; others a few, and
// the reading of their stacks. While none of them runs the rate is a half or a quarter of what was
// asked for: that costs no accuracy of how long a wait was. Where all that, waking up included,
// exceeds the budget (0.5 % of a core at 100 Hz for the threads of the process, as much for its
// children) the rate is lowered until it does not (look_rate.h); the interval of each sample tells
// how long it stands for.
//
// Times: `cpu` of a sample is booked by the kernel at scheduler ticks, so that a running slice
// shows up to a tick (1-4 ms) late; `runnable` is booked when the thread gets its CPU, so that it
// can be longer than the interval of the sample that shows it. Sums are right.
//
// Threads: Run is the body of the sampler thread; NoteCudaThread, TakeSealed, Stop belong to the
// drain thread. What goes between the two is lock-free.
#ifndef GPUPROBE_SAMPLER_HOST_SAMPLER_H_
#define GPUPROBE_SAMPLER_HOST_SAMPLER_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

struct SamplerOptions {
  uint32_t hz = 100;
  bool python = true;
  bool native = true;
  bool children = true;
  // At most this much memory, if it can be: what is left of it reads the Python of children.
  size_t memory_bytes = 8u << 20;
  int64_t trace_minus_monotonic_ns = 0;  // trace clock = CLOCK_MONOTONIC + this
  uint32_t seal_period_ms = 250;  // at most this much is lost with a SIGKILL besides a flush period
};

class HostSampler {
 public:
  constexpr HostSampler() = default;
  HostSampler(const HostSampler&) = delete;
  HostSampler& operator=(const HostSampler&) = delete;

  static size_t MemoryBytes(const SamplerOptions& options);
  // `memory` zeroed, owned by the caller, kept for ever.
  [[nodiscard]] bool Init(const SamplerOptions& options, void* memory);

  // Sampler thread: returns after Stop.
  void Run();

  // A thread of ours besides the sampler's own: never looked at, whatever it is called. Before Run,
  // or from the thread itself.
  void NoteOwnThread(uint32_t tid);
  // A thread that calls CUDA: looked at every tick from now on. Costs one load if it is known.
  void NoteCudaThread(uint32_t tid);
  // The GPU is in use: child processes are looked at for a while from now on.
  void NoteGpuActivity(int64_t monotonic_ns);

  // The oldest sealed piece, or the one so many `later`: a serialised HostSamples message
  // (gpuprobe.proto), valid until Release, which gives back the oldest. False: none.
  bool TakeSealed(const uint8_t** data, size_t* bytes, uint32_t later = 0);
  void Release();
  // How many are waiting; from kNearlyFull on the next ones may find no room.
  uint32_t waiting() const;
  static constexpr uint32_t kNearlyFull = 3;

  // Asks Run to seal what it has and to return; does not wait.
  void Stop();
  bool stopped() const;  // Run has returned
  // Waits for that, at most so long. False: it has not.
  bool WaitStopped(int64_t limit_ns);
  uint32_t tid() const;  // of the sampler thread; 0: has not begun

  // What it did; after Run.
  struct Stats {
    uint64_t ticks, missed, looks, unchanged;
    uint64_t visits;        // of the rounds over all threads
    uint64_t proc_calls;    // opens, reads, closes and links of /proc
    uint64_t system_calls;  // those, reads of memory, waits and readings of its own CPU time
    uint64_t switches;      // of its thread, of its own accord or not
    uint64_t cpu_ns;
    uint32_t watched, promoted, children;
    bool private_descriptors;
  };
  Stats stats() const;

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_HOST_SAMPLER_H_

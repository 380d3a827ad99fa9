// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host sampler: a thread of its own that looks, at a fixed rate, at the threads that feed the
// GPU, at other threads that burn CPU, and at child processes (data-loader workers): on CPU, ready
// or blocked and in what, and where in Python. It takes no lock of the host, sends no signal, stops
// nobody, and opens its files in a descriptor table of its own where the system allows
// (unshare(CLONE_FILES)).
//
// Threads: Run is the body of the sampler thread; NoteCudaThread, TakeSealed, Stop belong to the
// drain thread. What goes between the two is lock-free.
#ifndef GPUPROBE_SAMPLER_HOST_SAMPLER_H_
#define GPUPROBE_SAMPLER_HOST_SAMPLER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

struct SamplerOptions {
  uint32_t hz = 100;
  bool python = true;
  bool native = true;
  bool children = true;
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

  // A thread that calls CUDA: looked at every tick from now on.
  void NoteCudaThread(uint32_t tid);

  // The next sealed piece: a serialised HostSamples message (gpuprobe.proto), valid until Release.
  // False: none.
  bool TakeSealed(const uint8_t** data, size_t* bytes);
  void Release();

  // Asks Run to seal what it has and to return; does not wait.
  void Stop();
  bool stopped() const;  // Run has returned

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_HOST_SAMPLER_H_

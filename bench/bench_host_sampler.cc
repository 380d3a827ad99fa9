// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does the host sampler cost? A process of 100 threads at 100 Hz: two that call CUDA (asleep,
// waking a thousand times a second, or spinning), 98 that sleep, and, apart, 16 child processes.
// Share of one core that the sampler thread takes, and the system calls on /proc that it makes.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "sampler/host_sampler.h"

namespace gpuprobe::bench {
namespace {

enum class Cuda : uint8_t { kAsleep, kWaking, kSpinning };

std::atomic<bool> g_end{false};
std::atomic<uint32_t> g_cuda_tids[2];

void IdleThread() {
  while (!g_end.load()) usleep(500'000);
}

void CudaThread(int index, Cuda what) {
  g_cuda_tids[index].store(static_cast<uint32_t>(syscall(SYS_gettid)));
  while (!g_end.load(std::memory_order_relaxed)) {
    if (what == Cuda::kAsleep) usleep(500'000);
    if (what == Cuda::kWaking) usleep(1000);
  }
}

std::vector<pid_t> StartChildren(int count) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) usleep(2000);
    }
    children.push_back(pid);
  }
  return children;
}

// What any thread pays that wakes up a hundred times a second, whatever it does then.
void MeasureBareTimer(double seconds) {
  timespec next, used;
  const int wakes = static_cast<int>(seconds * 100);
  std::thread([&] {
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int i = 0; i < wakes; ++i) {
      next.tv_nsec += 10'000'000;
      if (next.tv_nsec >= 1'000'000'000) {
        next.tv_nsec -= 1'000'000'000;
        ++next.tv_sec;
      }
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  }).join();
  const double cpu_us =
      static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
  std::printf("%-30s %10.3f %% of a core %7.1f us a wake-up\n", "a bare timer, 100 Hz",
              cpu_us / seconds / 1e4, cpu_us / wakes);
}

void Measure(const char* name, Cuda what, int child_count, double seconds) {
  const std::vector<pid_t> children = StartChildren(child_count);
  g_end.store(false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(CudaThread, i, what);
  for (int i = 0; i < 98; ++i) threads.emplace_back(IdleThread);

  sampler::SamplerOptions options;
  const size_t bytes = sampler::HostSampler::MemoryBytes(options);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sampler::HostSampler sampler;
  if (memory == MAP_FAILED || !sampler.Init(options, memory)) std::abort();
  std::thread thread([&sampler] { sampler.Run(); });
  size_t written = 0;
  const int64_t begin = NowNs();
  while (NowNs() - begin < static_cast<int64_t>(seconds * 1e9)) {
    for (const auto& tid : g_cuda_tids) {
      if (tid.load() != 0) sampler.NoteCudaThread(tid.load());
    }
    const uint8_t* data;
    size_t piece;
    while (sampler.TakeSealed(&data, &piece)) {
      written += piece;
      sampler.Release();
    }
    usleep(100'000);
  }
  const double elapsed_ns = static_cast<double>(NowNs() - begin);
  sampler.Stop();
  thread.join();
  const sampler::HostSampler::Stats s = sampler.stats();
  std::printf(
      "%-34s %6.3f %% of a core  %5.1f us a tick  %5.1f calls a tick  %4.0f Hz  %6.0f B/s\n", name,
      100.0 * static_cast<double>(s.cpu_ns) / elapsed_ns,
      static_cast<double>(s.cpu_ns) / 1000.0 / static_cast<double>(s.ticks),
      static_cast<double>(s.proc_calls) / static_cast<double>(s.ticks),
      static_cast<double>(s.ticks) * 1e9 / elapsed_ns,
      static_cast<double>(written) * 1e9 / elapsed_ns);
  g_end.store(true);
  for (std::thread& t : threads) t.join();
  munmap(memory, bytes);
  for (const pid_t pid : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace gpuprobe::bench

int main(int argc, char** argv) {
  using namespace gpuprobe::bench;  // NOLINT: a benchmark's main
  const double seconds = argc > 1 && std::strcmp(argv[1], "--smoke") == 0 ? 0.2 : 5;
  PrintMachine();
  MeasureBareTimer(seconds);
  Measure("100 threads, CUDA asleep", Cuda::kAsleep, 0, seconds);
  Measure("100 threads, CUDA waking", Cuda::kWaking, 0, seconds);
  Measure("100 threads, CUDA spinning", Cuda::kSpinning, 0, seconds);
  Measure("100 threads, 16 children", Cuda::kWaking, 16, seconds);
  return 0;
}

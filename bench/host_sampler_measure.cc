// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "bench/host_sampler_measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/bench_util.h"
#include "sampler/call_clock.h"
#include "sampler/host_sampler.h"

namespace {

using gpuprobe::bench::NowNs;

int64_t ThreadCpuNs(uint32_t tid) {
  timespec t;
  // The clock of another thread's CPU time: CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
  clock_gettime(static_cast<clockid_t>(~tid << 3 | 6), &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

using gpuprobe::sampler::CallKind;
using gpuprobe::sampler::g_tick_times;

double CyclesPerUs() {
  const int64_t begin = NowNs();
  const uint64_t cycles = __rdtsc();
  usleep(20'000);
  return static_cast<double>(__rdtsc() - cycles) * 1e3 / static_cast<double>(NowNs() - begin);
}

double Median(float* values, uint32_t count) {
  if (count == 0) return 0;
  std::nth_element(values, values + count / 2, values + count);
  return static_cast<double>(values[count / 2]);
}

// The part of a tick that is over budget can be told from its median, whatever else the machine
// does; of calls how many there are and what one takes, interruptions included.
void PrintSplit() {
  auto& t = g_tick_times;
  const uint32_t n = t.ticks;
  float rest[gpuprobe::sampler::TickTimes::kMost];
  for (uint32_t i = 0; i < n; ++i) rest[i] = t.tick_us[i] - t.calls_us[i];
  float all[gpuprobe::sampler::TickTimes::kMost];
  for (uint32_t i = 0; i < n; ++i) all[i] = t.waking_us[i] + t.tick_us[i];
  std::printf("    median %5.1f us = waking up %.1f + calls %.1f + rest %.1f;", Median(all, n),
              Median(t.waking_us, n), Median(t.calls_us, n), Median(rest, n));
  constexpr const char* kNames[] = {"clock", "kept", "opened", "memory", "other"};
  for (size_t i = 0; i < static_cast<size_t>(CallKind::kCount); ++i) {
    const double calls = static_cast<double>(t.calls[i]);
    std::printf(" %s %.1f x %.2f", kNames[i], calls / n, calls == 0 ? 0 : t.call_us[i] / calls);
  }
  std::printf("\n");
}

}  // namespace

void MeasureSampler(const char* host, int sampled, double seconds, const uint32_t* tids,
                    int tid_count) {
  using gpuprobe::sampler::HostSampler;
  constexpr const char* kNames[] = {"threads only", "+ python", "+ native", "+ children (all)"};
  gpuprobe::sampler::SamplerOptions options;
  options.python = sampled >= kBenchPython;
  options.native = sampled >= kBenchNative;
  options.children = sampled >= kBenchAll;
  const size_t bytes = HostSampler::MemoryBytes(options);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HostSampler sampler;
  if (memory == MAP_FAILED || !sampler.Init(options, memory)) std::abort();
  if (gpuprobe::sampler::g_cycles_per_us == 0) gpuprobe::sampler::g_cycles_per_us = CyclesPerUs();
  std::thread thread([&sampler] { sampler.Run(); });
  size_t written = 0;
  bool warm = false;
  int64_t begin = NowNs(), warm_cpu = 0;
  HostSampler::Stats w = {};
  const int64_t warm_ns = static_cast<int64_t>(seconds > 1 ? 2e9 : seconds * 3e8);
  while (!warm || static_cast<double>(NowNs() - begin) < seconds * 1e9) {
    if (!warm && NowNs() - begin > warm_ns) {
      begin = NowNs();
      warm = true;
      w = sampler.stats();
      warm_cpu = ThreadCpuNs(sampler.tid());
      g_tick_times.ticks = 0;
      written = 0;
    }
    for (int i = 0; i < tid_count; ++i) sampler.NoteCudaThread(tids[i]);
    sampler.NoteGpuActivity(NowNs());
    const uint8_t* data;
    size_t piece;
    while (sampler.TakeSealed(&data, &piece)) {
      written += piece;
      sampler.Release();
    }
    usleep(100'000);
  }
  const int64_t cpu_end = ThreadCpuNs(sampler.tid());
  const HostSampler::Stats e = sampler.stats();
  const double elapsed_s = static_cast<double>(NowNs() - begin) / 1e9;
  sampler.Stop();
  thread.join();
  HostSampler::Stats s = sampler.stats();
  s.ticks = e.ticks - w.ticks;
  s.system_calls = e.system_calls - w.system_calls;
  s.looks = e.looks - w.looks;
  s.unchanged = e.unchanged - w.unchanged;
  s.switches = e.switches - w.switches;
  s.cpu_ns = static_cast<uint64_t>(cpu_end - warm_cpu);
  const double ticks = static_cast<double>(s.ticks);
  std::printf("%-22s %-17s %6.1f %7.1f %8.1f %8.1f %7.3f %9.1f %8.0f\n", host, kNames[sampled],
              ticks / elapsed_s, static_cast<double>(s.system_calls) / ticks,
              static_cast<double>(s.switches) / elapsed_s,
              static_cast<double>(s.cpu_ns) / 1000 / ticks,
              static_cast<double>(s.cpu_ns) / 1e7 / elapsed_s,
              100 * static_cast<double>(s.unchanged) / static_cast<double>(s.looks),
              static_cast<double>(written) / elapsed_s);
  PrintSplit();
  std::fflush(stdout);
  munmap(memory, bytes);
}

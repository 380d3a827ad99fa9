// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "bench/host_sampler_measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "sampler/host_sampler.h"
#include "sampler/system/call_clock.h"
#include "sampler/system/clocks.h"

namespace {

using gpuprobe::bench::NowNs;

using gpuprobe::sampler::CpuClockOf;
using gpuprobe::sampler::CpuNs;
using gpuprobe::sampler::g_tick_times;
using gpuprobe::sampler::HostSampler;

double CyclesPerUs() {
  const int64_t begin = NowNs();
  const uint64_t cycles = __rdtsc();
  usleep(20'000);
  return static_cast<double>(__rdtsc() - cycles) * 1e3 / static_cast<double>(NowNs() - begin);
}

double Median(float* values, uint32_t count) {
  std::nth_element(values, values + count / 2, values + count);
  return static_cast<double>(values[count / 2]);
}

// The part of a tick that is over budget can be told from its median, whatever else the machine
// does; of calls how many there are and what one takes, interruptions included.
void PrintSplit() {
  auto& t = g_tick_times;
  const uint32_t n = t.ticks;
  if (n == 0) return;
  std::vector<float> rest(n), all(n);
  for (uint32_t i = 0; i < n; ++i) {
    rest[i] = t.tick_us[i] - t.calls_us[i];
    all[i] = t.waking_us[i] + t.tick_us[i];
  }
  std::printf("    median %5.1f us = waking up %.1f + calls %.1f + rest %.1f;",
              Median(all.data(), n), Median(t.waking_us, n), Median(t.calls_us, n),
              Median(rest.data(), n));
  constexpr const char* kNames[] = {"clock", "kept", "opened", "memory", "other"};
  for (size_t i = 0; i < gpuprobe::sampler::kCallKinds; ++i) {
    if (t.calls[i] == 0) continue;
    const double calls = static_cast<double>(t.calls[i]);
    std::printf(" %s %.1f x %.2f", kNames[i], calls / n,
                static_cast<double>(t.cycles[i]) / gpuprobe::sampler::g_cycles_per_us / calls);
  }
  std::printf("\n");
}

// While it runs: counts that are a tick old at most.
HostSampler::Stats StatsNow(const HostSampler& sampler) {
  HostSampler::Stats stats = sampler.stats();
  stats.cpu_ns = static_cast<uint64_t>(CpuNs(CpuClockOf(sampler.tid())));
  return stats;
}

// What the drain thread does, for so long. Bytes that were sealed.
size_t Attend(HostSampler* sampler, double seconds, const uint32_t* tids, int tid_count) {
  size_t written = 0;
  const int64_t begin = NowNs();
  while (static_cast<double>(NowNs() - begin) < seconds * 1e9) {
    for (int i = 0; i < tid_count; ++i) sampler->NoteCudaThread(tids[i]);
    sampler->NoteGpuActivity(NowNs());
    const uint8_t* data;
    size_t piece;
    while (sampler->TakeSealed(&data, &piece)) {
      written += piece;
      sampler->Release();
    }
    usleep(100'000);
  }
  return written;
}

void PrintLine(const char* host, const char* sampled, const HostSampler::Stats& before,
               const HostSampler::Stats& after, size_t written, double elapsed_s) {
  const auto count = [&](uint64_t HostSampler::Stats::*field) {
    return static_cast<double>(after.*field - before.*field);
  };
  const double ticks = count(&HostSampler::Stats::ticks);
  const double cpu_ns = count(&HostSampler::Stats::cpu_ns);
  std::printf("%-22s %-17s %6.1f %7.1f %8.1f %7.3f %9.1f %8.0f\n", host, sampled, ticks / elapsed_s,
              count(&HostSampler::Stats::system_calls) / ticks, cpu_ns / 1000 / ticks,
              cpu_ns / 1e7 / elapsed_s,
              100 * count(&HostSampler::Stats::unchanged) / count(&HostSampler::Stats::looks),
              static_cast<double>(written) / elapsed_s);
}

}  // namespace

void MeasureSampler(const char* host, int sampled, double seconds, const uint32_t* tids,
                    int tid_count) {
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
  // Finding the interpreter and reading the maps happens once, and is not what is asked.
  Attend(&sampler, std::min(seconds, 2.0), tids, tid_count);
  const HostSampler::Stats before = StatsNow(sampler);
  gpuprobe::sampler::g_restart_tick_times.store(true, std::memory_order_relaxed);
  const int64_t begin = NowNs();
  const size_t written = Attend(&sampler, seconds, tids, tid_count);
  const HostSampler::Stats after = StatsNow(sampler);
  const double elapsed_s = static_cast<double>(NowNs() - begin) / 1e9;
  sampler.Stop();
  thread.join();
  PrintLine(host, kNames[sampled], before, after, written, elapsed_s);
  PrintSplit();
  std::fflush(stdout);
  munmap(memory, bytes);
}

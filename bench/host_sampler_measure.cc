// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "bench/host_sampler_measure.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/bench_util.h"
#include "sampler/host_sampler.h"

void MeasureSampler(const char* host, int sampled, double seconds, const uint32_t* tids,
                    int tid_count) {
  using gpuprobe::bench::NowNs;
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
  std::thread thread([&sampler] { sampler.Run(); });
  size_t written = 0;
  const int64_t begin = NowNs();
  while (static_cast<double>(NowNs() - begin) < seconds * 1e9) {
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
  const double elapsed_s = static_cast<double>(NowNs() - begin) / 1e9;
  sampler.Stop();
  thread.join();
  const HostSampler::Stats s = sampler.stats();
  const double ticks = static_cast<double>(s.ticks);
  std::printf("%-22s %-17s %6.1f %7.1f %8.1f %8.1f %7.3f %9.1f %8.0f\n", host, kNames[sampled],
              ticks / elapsed_s, static_cast<double>(s.system_calls) / ticks,
              static_cast<double>(s.switches) / elapsed_s,
              static_cast<double>(s.cpu_ns) / 1000 / ticks,
              static_cast<double>(s.cpu_ns) / 1e7 / elapsed_s,
              100 * static_cast<double>(s.unchanged) / static_cast<double>(s.looks),
              static_cast<double>(written) / elapsed_s);
  std::fflush(stdout);
  munmap(memory, bytes);
}

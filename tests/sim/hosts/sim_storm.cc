// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// N threads launch M kernels each, on streams of their own.
//
//   sim_storm [--threads 8] [--kernels 100000] [--driver] [--sync-every 0] [--kernel-ns 1000]
//             [--copies 0] [--burst 0 --pause-us 1000]
//
// --driver: cuLaunchKernel instead of cudaLaunchKernel; --sync-every K: stream synchronisation
// after every K launches; --copies K: one pinned copy after every K launches; --burst B: a pause
// after every B launches. Prints one line:
// {"threads":..,"launched":..,"copies":..,"syncs":..,"elapsed_ns":..,"ns_per_launch":..}
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/sim/gpusim.h"

namespace {

struct Options {
  long threads = 8, kernels = 100'000, sync_every = 0, kernel_ns = 1000, copies = 0, burst = 0,
       pause_us = 1000;
  bool driver = false;
};

struct Totals {
  std::atomic<int64_t> launched{0}, copies{0}, syncs{0}, failed{0};
};

bool Parse(int argc, char** argv, Options* options) {
  const struct {
    const char* name;
    long* value;
  } numbers[] = {{"--threads", &options->threads},       {"--kernels", &options->kernels},
                 {"--sync-every", &options->sync_every}, {"--kernel-ns", &options->kernel_ns},
                 {"--copies", &options->copies},         {"--burst", &options->burst},
                 {"--pause-us", &options->pause_us}};
  for (int i = 1; i < argc; ++i) {
    bool known = false;
    if (strcmp(argv[i], "--driver") == 0) known = options->driver = true;
    for (const auto& number : numbers) {
      if (strcmp(argv[i], number.name) != 0 || i + 1 >= argc) continue;
      *number.value = strtol(argv[++i], nullptr, 10);
      known = true;
      break;
    }
    if (!known) return false;
  }
  return true;
}

int64_t MonotonicNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * int64_t{1'000'000'000} + ts.tv_nsec;
}

void Launch(const Options& options, int thread, Totals* totals) {
  char name[64];
  snprintf(name, sizeof name, "storm_kernel_%d", thread);
  gpusim_define_kernel(name, options.kernel_ns);
  cudaStream_t stream;
  CUmodule module;
  CUfunction function = nullptr;
  void *device = nullptr, *pinned = nullptr;
  constexpr size_t kCopyBytes = 4096;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
  if (options.driver) {
    cuModuleLoadData(&module, "");
    cuModuleGetFunction(&function, module, name);
  }
  if (options.copies > 0) {
    cudaMalloc(&device, kCopyBytes);
    cudaMallocHost(&pinned, kCopyBytes);
  }
  const void* symbol = gpusim_kernel(name);
  for (long i = 1; i <= options.kernels; ++i) {
    const bool ok =
        options.driver
            ? cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr) ==
                  CUDA_SUCCESS
            : cudaLaunchKernel(symbol, dim3(1), dim3(32), nullptr, 0, stream) == cudaSuccess;
    (ok ? totals->launched : totals->failed).fetch_add(1, std::memory_order_relaxed);
    if (options.copies > 0 && i % options.copies == 0) {
      cudaMemcpyAsync(device, pinned, kCopyBytes, cudaMemcpyHostToDevice, stream);
      totals->copies.fetch_add(1, std::memory_order_relaxed);
    }
    if (options.sync_every > 0 && i % options.sync_every == 0) {
      cudaStreamSynchronize(stream);
      totals->syncs.fetch_add(1, std::memory_order_relaxed);
    }
    if (options.burst > 0 && i % options.burst == 0)
      usleep(static_cast<useconds_t>(options.pause_us));
  }
  cudaStreamSynchronize(stream);
  totals->syncs.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    fprintf(stderr, "sim_storm: unknown option; see the head of sim_storm.cc\n");
    return 1;
  }
  Totals totals;
  cudaFree(nullptr);
  const int64_t start = MonotonicNs();
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t)
    threads.emplace_back(Launch, std::cref(options), t, &totals);
  for (std::thread& thread : threads) thread.join();
  const int64_t elapsed = MonotonicNs() - start;
  const int64_t launched = totals.launched;
  printf("{\"threads\":%ld,\"launched\":%" PRId64 ",\"failed\":%" PRId64 ",\"copies\":%" PRId64
         ",\"syncs\":%" PRId64 ",\"elapsed_ns\":%" PRId64 ",\"ns_per_launch\":%.1f}\n",
         options.threads, launched, totals.failed.load(), totals.copies.load(), totals.syncs.load(),
         elapsed,
         launched > 0 ? static_cast<double>(elapsed) / static_cast<double>(launched) : 0.0);
  return totals.failed == 0 ? 0 : 2;
}

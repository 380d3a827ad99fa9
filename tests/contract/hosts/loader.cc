// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Threads that open and close libraries, throw and allocate, while another launches: whoever takes
// the loader's locks in the wrong order stops here.
//   contract_loader MS LIBRARY...
// Prints progress=1 when every thread has got somewhere. A watchdog ends the process with status 70
// when one of them makes no step for some seconds.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::NowNs;
using gpuprobe::contract::SleepMs;

namespace {

constexpr int kWorkers = 4;
constexpr int64_t kPatienceMs = 15'000;
std::atomic<int64_t> g_steps[kWorkers + 1];
std::atomic<bool> g_stop{false};

void OpenAndClose(const char* library) {
  if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    static_cast<void>(dlsym(handle, "no_such_symbol"));
    dlclose(handle);
  }
}

void Throw() {
  try {
    throw std::runtime_error("caught at once");
  } catch (const std::runtime_error&) {
  }
}

void Watch() {
  int64_t last[kWorkers + 1] = {};
  int64_t stuck_ms = 0;
  while (!g_stop.load()) {
    SleepMs(100);
    bool all_moved = true;
    for (int i = 0; i <= kWorkers; ++i) all_moved &= g_steps[i].load() != last[i];
    stuck_ms = all_moved ? 0 : stuck_ms + 100;
    if (all_moved) {
      for (int i = 0; i <= kWorkers; ++i) last[i] = g_steps[i].load();
    }
    if (stuck_ms > kPatienceMs) _exit(70);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 97;
  const int64_t end = NowNs() + atoll(argv[1]) * 1'000'000;
  static Gpu gpu;
  gpu.Open();
  std::thread watchdog(&Watch);
  std::vector<std::thread> workers;
  workers.reserve(kWorkers);
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&, i] {
      for (int n = 0; NowNs() < end; ++n) {
        OpenAndClose(argv[2 + (n + i) % (argc - 2)]);
        Throw();
        free(malloc(static_cast<size_t>(n % 5000)));
        ++g_steps[i];
      }
    });
  }
  while (NowNs() < end) {
    gpu.Launches(20);
    gpu.Synchronize();
    ++g_steps[kWorkers];
  }
  for (std::thread& worker : workers) worker.join();
  bool progress = true;
  for (const auto& steps : g_steps) progress &= steps.load() > 0;
  g_stop = true;
  watchdog.join();
  printf("progress=%d\n", progress);
  return 0;
}

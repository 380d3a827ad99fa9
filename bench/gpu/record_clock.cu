// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which clock CUPTI puts on its records, what that clock costs a launch, and what becomes of the
// times when it is changed: goes through the clocks named, one after the other, in one process.
//
//   record_clock PHASE ...    default: CUPTI's own (no registration; only before any other)
//                             monotonic, ticks: cuptiActivityRegisterTimestampCallback with
//                             CLOCK_MONOTONIC (ns), with the time stamp counter
//                             null: registers no function
//                             swap-monotonic, swap-ticks: the function that is registered answers
//                             with that clock from now on, CUPTI is not told
//
// Kernels of about 20 us, a wait after every 20; between phases everything is disabled and flushed,
// and nothing happens for two seconds. A line a phase: ns a launch (of empty kernels, in bursts), and
// for the kernels, in ns on the record clock: start - begin of the launch call (smallest, median,
// largest: at least 0 where the clocks agree), median duration, share of durations that are a
// multiple of 32 ns, kernels without times, and kernels that end after the wait for them did.
#include <cupti.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr int kLaunches = 2000, kBetweenWaits = 20, kBurst = 500;

__global__ void Spin(int clocks) {
  const long long end = clock64() + clocks;
  while (clock64() < end) {
  }
}
__global__ void Empty() {}

struct Call {
  uint64_t begin, end;
  bool launch;
};
struct Kernel {
  uint64_t start, end;
  uint32_t correlation;
};
std::unordered_map<uint32_t, Call> calls;
std::vector<Kernel> kernels;
std::vector<Call> waits;
bool keep = false;

void Requested(uint8_t** buffer, size_t* size, size_t* records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *records = 0;
}

void Completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (keep && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
      const auto* api = reinterpret_cast<CUpti_ActivityAPI*>(record);
      const bool launch = api->cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
      calls[api->correlationId] = {api->start, api->end, launch};
      if (api->cbid == CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020) {
        waits.push_back({api->start, api->end, false});
      }
    } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* kernel = reinterpret_cast<CUpti_ActivityKernel10*>(record);
      kernels.push_back({kernel->start, kernel->end, kernel->correlationId});
    }
  }
  std::free(buffer);
}

uint64_t Monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}
uint64_t Ticks() { return __builtin_ia32_rdtsc(); }
std::atomic<bool> swapped_to_ticks{false};
uint64_t Swapping() { return swapped_to_ticks ? Ticks() : Monotonic(); }

double NsPerTick() {
  const uint64_t ns = Monotonic(), ticks = Ticks();
  usleep(200'000);
  return double(Monotonic() - ns) / (Ticks() - ticks);
}

double NsALaunch() {
  double best = 1e18;
  for (int round = 0; round < 20; ++round) {
    cudaDeviceSynchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBurst; ++i) Empty<<<1, 1>>>();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kBurst);
  }
  cudaDeviceSynchronize();
  return best;
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

void Register(const std::string& phase) {
  if (phase == "default") return;
  if (phase == "swap-ticks" || phase == "swap-monotonic") {
    swapped_to_ticks = phase == "swap-ticks";
    static bool registered = false;
    if (!registered) cuptiActivityRegisterTimestampCallback(&Swapping);
    registered = true;
    return;
  }
  const CUptiResult result = cuptiActivityRegisterTimestampCallback(
      phase == "null" ? nullptr : phase == "ticks" ? &Ticks : &Monotonic);
  if (result != CUPTI_SUCCESS) std::printf("register %s: %d\n", phase.c_str(), result);
}

void Phase(const std::string& phase, double ns_per_tick) {
  Register(phase);
  calls.clear();
  kernels.clear();
  waits.clear();
  keep = false;
  cuptiActivityRegisterCallbacks(&Requested, &Completed);
  for (const auto kind : kKinds) cuptiActivityEnable(kind);
  const double ns = NsALaunch();
  cuptiActivityFlushAll(1);
  keep = true;
  for (int i = 0; i < kLaunches; ++i) {
    Spin<<<1, 1>>>(30'000);
    if (i % kBetweenWaits == kBetweenWaits - 1) cudaDeviceSynchronize();
    if (i == kLaunches / 2) usleep(1'000'000);
  }
  cuptiActivityFlushAll(1);
  for (const auto kind : kKinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(1);
  keep = false;
  const double off_ns = NsALaunch();

  const double unit = phase.find("ticks") != std::string::npos ? ns_per_tick : 1;
  std::vector<double> lags, durations;
  size_t untimed = 0, late = 0, grid = 0;
  std::sort(waits.begin(), waits.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (const Kernel& kernel : kernels) {
    const auto call = calls.find(kernel.correlation);
    if (kernel.start == 0 || kernel.end <= kernel.start) {
      ++untimed;
      continue;
    }
    if (call == calls.end() || !call->second.launch) continue;
    lags.push_back((double(kernel.start) - double(call->second.begin)) * unit);
    durations.push_back(double(kernel.end - kernel.start) * unit);
    if ((kernel.end - kernel.start) % 32 == 0) ++grid;
    const auto wait = std::lower_bound(waits.begin(), waits.end(), call->second.begin,
                                       [](auto& w, uint64_t t) { return w.begin < t; });
    if (wait != waits.end() && kernel.end > wait->end) ++late;
  }
  std::sort(lags.begin(), lags.end());
  std::sort(durations.begin(), durations.end());
  if (lags.empty()) {
    std::printf("| %s | %.0f | %.0f | no kernel of %zu with times |\n", phase.c_str(), ns, off_ns,
                kernels.size());
    return;
  }
  std::printf("| %s | %.0f | %.0f | %zu | %.0f | %.0f | %.0f | %.0f | %.2f | %zu | %zu |\n",
              phase.c_str(), ns, off_ns, lags.size(), lags.front(), lags[lags.size() / 2],
              lags.back(), durations[durations.size() / 2], double(grid) / lags.size(), untimed,
              late);
}

double TimestampNs() {
  uint64_t now = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) cuptiGetTimestamp(&now);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         10'000;
}

}  // namespace

int main(int argc, char** argv) {
  cudaFree(nullptr);
  const double ns_per_tick = NsPerTick();
  const double before_ns = NsALaunch();
  std::printf("\n%.0f ns a launch before; cuptiGetTimestamp %.0f ns; %.4f ns a tick\n", before_ns,
              TimestampNs(), ns_per_tick);
  std::printf("| clock | ns a launch | disabled | kernels | lag min | median | max | duration | of 32 ns "
              "| untimed | late |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (int i = 1; i < argc; ++i) {
    if (i > 1) usleep(2'000'000);
    Phase(argv[i], ns_per_tick);
  }
  return 0;
}

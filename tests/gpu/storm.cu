// SPDX-License-Identifier: Apache-2.0
// Launches THREADS x LAUNCHES empty kernels, optionally spread over one stream a thread, and prints what it
// launched: the count to hold against the trace. Usage: storm THREADS LAUNCHES [exit code]
#include <cstdio>
#include <cstdlib>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

__global__ void Empty() {}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  const int launches = argc > 2 ? atoi(argv[2]) : 10000;
  std::atomic<long> launched{0}, failed{0};
  cudaFree(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      cudaStream_t stream;
      cudaStreamCreate(&stream);
      for (int i = 0; i < launches; ++i) {
        Empty<<<1, 1, 0, stream>>>();
        (cudaGetLastError() == cudaSuccess ? launched : failed).fetch_add(1, std::memory_order_relaxed);
      }
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    });
  }
  for (auto& w : workers) w.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("launched=%ld failed=%ld ns_per_launch=%.0f\n", launched.load(), failed.load(),
              seconds * 1e9 / launches);
  return argc > 3 ? atoi(argv[3]) : 0;
}

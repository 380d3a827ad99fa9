// SPDX-License-Identifier: Apache-2.0
// Two spinning kernels of about 50 ms on two streams. Prints the wall time in ms: about 50 if they overlap,
// about 100 if something (a profiler) has serialised them.
#include <chrono>
#include <cstdio>

__global__ void Spin(long long ns) {
  const long long begin = [] { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }();
  for (;;) {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - begin > ns) return;
  }
}

int main() {
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  Spin<<<1, 1, 0, a>>>(1000);
  Spin<<<1, 1, 0, b>>>(1000);
  cudaDeviceSynchronize();
  const auto begin = std::chrono::steady_clock::now();
  Spin<<<1, 1, 0, a>>>(50'000'000);
  Spin<<<1, 1, 0, b>>>(50'000'000);
  cudaDeviceSynchronize();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  std::printf("wall_ms=%.1f\n", ms);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}

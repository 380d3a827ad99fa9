// SPDX-License-Identifier: Apache-2.0
// Two streams in turn, each kernel waiting for the other stream's event: 100 hand-overs, all queued ahead
// behind a first long kernel. What idle time there is between the kernels is dependency, not the host's.
#include <cstdio>

__global__ void Spin(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

int main() {
  cudaStream_t stream[2];
  cudaEvent_t event[2];
  for (int i = 0; i < 2; ++i) {
    cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event[i], cudaEventDisableTiming);
  }
  Spin<<<1, 1, 0, stream[0]>>>(1000);
  Spin<<<1, 1, 0, stream[1]>>>(1000);
  cudaDeviceSynchronize();
  Spin<<<1, 1, 0, stream[0]>>>(50'000'000);
  cudaEventRecord(event[0], stream[0]);
  for (int i = 1; i <= 100; ++i) {
    const int self = i % 2, other = 1 - self;
    cudaStreamWaitEvent(stream[self], event[other], 0);
    Spin<<<1, 1, 0, stream[self]>>>(20'000);
    cudaEventRecord(event[self], stream[self]);
  }
  cudaDeviceSynchronize();
  std::printf("kernels=%d error=%d\n", 103, static_cast<int>(cudaGetLastError()));
  return 0;
}

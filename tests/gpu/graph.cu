// SPDX-License-Identifier: Apache-2.0
// Captures 24 kernels into a graph and replays it 100 times. Prints graph launches and node kernels.
// Usage: graph [reset|slow]   reset: resets the device afterwards and launches again; slow: the capture,
// in its strictest mode, takes 2 s, so that flushes of a recorder fall into it.
#include <unistd.h>
#include <cstdio>
#include <cstring>

__global__ void Node(float* x) { x[threadIdx.x] += 1; }

int main(int argc, char** argv) {
  const bool reset = argc > 1 && std::strcmp(argv[1], "reset") == 0;
  const bool slow = argc > 1 && std::strcmp(argv[1], "slow") == 0;
  float* x;
  cudaMalloc(&x, 1024);
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaGraph_t graph;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < 24; ++i) {
    Node<<<1, 32, 0, s>>>(x);
    if (slow) usleep(2'000'000 / 24);
  }
  cudaStreamEndCapture(s, &graph);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  for (int i = 0; i < 100; ++i) cudaGraphLaunch(exec, s);
  cudaStreamSynchronize(s);
  int plain = 0;
  for (int i = 0; i < 10; ++i, ++plain) Node<<<1, 32, 0, s>>>(x);
  cudaStreamSynchronize(s);
  if (reset) {
    cudaDeviceReset();
    cudaMalloc(&x, 1024);
    for (int i = 0; i < 10; ++i, ++plain) Node<<<1, 32>>>(x);
    cudaDeviceSynchronize();
  }
  std::printf("graph_launches=100 nodes=2400 plain=%d error=%d\n", plain, static_cast<int>(cudaGetLastError()));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Captures 24 kernels into a graph and replays it 100 times; also resets the device in between when asked.
// Prints graph launches and node kernels. Usage: graph [reset]
#include <cstdio>

__global__ void Node(float* x) { x[threadIdx.x] += 1; }

int main(int argc, char**) {
  float* x;
  cudaMalloc(&x, 1024);
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaGraph_t graph;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < 24; ++i) Node<<<1, 32, 0, s>>>(x);
  cudaStreamEndCapture(s, &graph);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  for (int i = 0; i < 100; ++i) cudaGraphLaunch(exec, s);
  cudaStreamSynchronize(s);
  int plain = 0;
  for (int i = 0; i < 10; ++i, ++plain) Node<<<1, 32, 0, s>>>(x);
  cudaStreamSynchronize(s);
  if (argc > 1) {
    cudaDeviceReset();
    cudaMalloc(&x, 1024);
    for (int i = 0; i < 10; ++i, ++plain) Node<<<1, 32>>>(x);
    cudaDeviceSynchronize();
  }
  std::printf("graph_launches=100 nodes=2400 plain=%d error=%d\n", plain, static_cast<int>(cudaGetLastError()));
  return 0;
}

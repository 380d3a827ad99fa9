// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What one CUDA call costs the host, in blocks, so that one process gives many figures:
//
//   micro launch THREADS BLOCKS OPS    empty kernels, OPS a block and thread, drained between blocks
//   micro sync 1 BLOCKS OPS            launch and cudaStreamSynchronize, each time
//   micro copy 1 BLOCKS OPS            4 KiB cudaMemcpyAsync from pinned memory
//   micro graph 1 BLOCKS OPS           replays of a graph of 20 kernels
//
// Prints "ns_per_op a b c ..." (one figure a block: wall time of the slowest thread / OPS, the time
// of draining not counted), "rss_kib N", "cpu_s N".
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

__global__ void Empty() {}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "micro: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Lane {
  cudaStream_t stream;
  void *host, *device;
  cudaGraphExec_t graph;
};

constexpr size_t kCopyBytes = 4096;
constexpr int kGraphKernels = 20;
// The launch queue holds 1,024 operations, and a graph of 20 kernels keeps the device busy for longer
// than its launch takes: longer bursts would measure the device.
constexpr int kBurst = 512, kGraphBurst = 32;

Lane MakeLane(const std::string& mode) {
  Lane lane = {};
  Check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "stream");
  if (mode == "copy") {
    Check(cudaMallocHost(&lane.host, kCopyBytes), "host memory");
    Check(cudaMalloc(&lane.device, kCopyBytes), "device memory");
  }
  if (mode == "graph") {
    cudaGraph_t graph;
    Check(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kGraphKernels; ++i) Empty<<<1, 1, 0, lane.stream>>>();
    Check(cudaStreamEndCapture(lane.stream, &graph), "capture");
    Check(cudaGraphInstantiate(&lane.graph, graph, 0), "instantiate");
  }
  return lane;
}

// Seconds of submitting `ops` operations.
double Submit(const std::string& mode, const Lane& lane, int ops) {
  double seconds = 0;
  const int longest = mode == "graph" ? kGraphBurst : kBurst;
  for (int done = 0; done < ops;) {
    const int burst = std::min(longest, ops - done);
    const auto begin = Clock::now();
    if (mode == "launch") {
      for (int i = 0; i < burst; ++i) Empty<<<1, 1, 0, lane.stream>>>();
    } else if (mode == "sync") {
      for (int i = 0; i < burst; ++i) {
        Empty<<<1, 1, 0, lane.stream>>>();
        cudaStreamSynchronize(lane.stream);
      }
    } else if (mode == "copy") {
      for (int i = 0; i < burst; ++i) {
        cudaMemcpyAsync(lane.device, lane.host, kCopyBytes, cudaMemcpyHostToDevice, lane.stream);
      }
    } else {
      for (int i = 0; i < burst; ++i) cudaGraphLaunch(lane.graph, lane.stream);
    }
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    Check(cudaStreamSynchronize(lane.stream), mode.c_str());
    done += burst;
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: micro launch|sync|copy|graph THREADS BLOCKS OPS\n");
    return 2;
  }
  const std::string mode = argv[1];
  const int threads = std::atoi(argv[2]), blocks = std::atoi(argv[3]), ops = std::atoi(argv[4]);
  Check(cudaFree(nullptr), "start");
  std::vector<Lane> lanes;
  for (int t = 0; t < threads; ++t) lanes.push_back(MakeLane(mode));
  for (const Lane& lane : lanes) Submit(mode, lane, ops / 4 + 1);  // first use of everything
  std::printf("ns_per_op");
  for (int b = 0; b < blocks; ++b) {
    std::vector<double> seconds(threads);
    if (threads == 1) {
      seconds[0] = Submit(mode, lanes[0], ops);
    } else {
      std::vector<std::thread> workers;
      for (int t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] { seconds[t] = Submit(mode, lanes[t], ops); });
      }
      for (auto& worker : workers) worker.join();
    }
    std::printf(" %.0f", *std::max_element(seconds.begin(), seconds.end()) * 1e9 / ops);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("\nrss_kib %ld\ncpu_s %.3f\n", usage.ru_maxrss,
              usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                  (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
  return 0;
}

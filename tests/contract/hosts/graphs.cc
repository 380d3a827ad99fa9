// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// CUDA graphs around the windows of the CUPTI client of client.h: one that is made before them, one
// in each, one after them; all that exist are replayed in every stretch.
//   contract_graphs [REPLAYS] [KERNELS]
// Two windows. Prints a line a window, then what was launched outside of them: graphs before the
// first, kernels in graphs since.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/contract/hosts/client.h"
#include "tests/contract/hosts/cuda_host.h"

int main(int argc, char** argv) {
  const int64_t replays = argc > 1 ? atoll(argv[1]) : 20, kernels = argc > 2 ? atoll(argv[2]) : 5;
  static gpuprobe::contract::Gpu gpu;
  gpu.Open();
  const CUstream stream = gpu.NewStream();
  std::vector<CUgraphExec> graphs;
  int64_t replayed = 0;
  const auto stretch = [&] {
    graphs.push_back(gpu.NewGraph(stream, kernels));
    for (const CUgraphExec graph : graphs) gpu.Replays(graph, replays, stream);
    replayed += static_cast<int64_t>(graphs.size()) * replays;
  };
  stretch();
  const int64_t before = replayed;
  int64_t inside = 0;
  for (int window = 0; window < 2; ++window) {
    gpuprobe::contract::ContractClientBegin();
    const int64_t begin = replayed;
    stretch();
    inside += replayed - begin;
    const gpuprobe::contract::ClientCounts c = gpuprobe::contract::ContractClientEnd();
    printf("window %d: kernels %" PRId64 " failures %" PRId64 "\n", window, c.kernels, c.failures);
    stretch();
  }
  printf("before=%" PRId64 " since=%" PRId64 "\n", before, (replayed - before - inside) * kernels);
  return 0;
}

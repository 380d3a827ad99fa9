// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Uses the CUPTI client of client.h for three windows.
//   contract_clients [LAUNCHES] [PAUSE_MS]
// LAUNCHES kernels (default 200) before, inside, between and after the windows, PAUSE_MS after each stretch.
// Prints a line a window, and launched=N.
#include <cstdio>
#include <cstdlib>

#include "tests/contract/hosts/client.h"
#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::ClientCounts;

int main(int argc, char** argv) {
  const int64_t launches = argc > 1 ? atoll(argv[1]) : 200;
  const int64_t pause_ms = argc > 2 ? atoll(argv[2]) : 0;
  static gpuprobe::contract::Gpu gpu;
  gpu.Open();
  const auto work = [&] {
    gpu.Launches(launches);
    gpu.Synchronize();
    gpuprobe::contract::SleepMs(pause_ms);
  };
  work();
  for (int window = 0; window < 3; ++window) {
    gpuprobe::contract::ContractClientBegin();
    work();
    const ClientCounts c = gpuprobe::contract::ContractClientEnd();
    printf("window %d: kernels %lld runtime %lld driver %lld unfinished %lld unknown buffers %lld failures %lld\n",
           window, static_cast<long long>(c.kernels), static_cast<long long>(c.runtime),
           static_cast<long long>(c.driver), static_cast<long long>(c.unfinished),
           static_cast<long long>(c.unknown_buffers), static_cast<long long>(c.failures));
    work();
  }
  printf("launched=%lld outside=%lld\n", static_cast<long long>(7 * launches), static_cast<long long>(4 * launches));
  return 0;
}

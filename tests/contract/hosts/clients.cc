// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Uses the CUPTI client of client.h for three windows.
//   contract_clients [LAUNCHES] [PAUSE_MS] [LIBRARY|-] [open|finalize]
// LAUNCHES kernels (default 200) before, inside, between and after the windows, PAUSE_MS after each
// stretch. The client is the one that this program is linked with, or LIBRARY, opened after the
// first stretch. With "open" the program ends inside the third window, with "finalize" the client
// calls cuptiFinalize after it. Prints a line a window, and launched=N.
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/contract/hosts/client.h"
#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::ClientCounts;
using gpuprobe::contract::ContractClientBegin;
using gpuprobe::contract::ContractClientEnd;
using gpuprobe::contract::ContractClientFinalize;

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
  const std::string path = argc > 3 ? argv[3] : "-", ending = argc > 4 ? argv[4] : "";
  void* library = path != "-" ? dlopen(path.c_str(), RTLD_NOW) : RTLD_DEFAULT;
  const auto begin =
      reinterpret_cast<decltype(&ContractClientBegin)>(dlsym(library, "ContractClientBegin"));
  const auto end =
      reinterpret_cast<decltype(&ContractClientEnd)>(dlsym(library, "ContractClientEnd"));
  const auto finalize =
      reinterpret_cast<decltype(&ContractClientFinalize)>(dlsym(library, "ContractClientFinalize"));
  if (begin == nullptr || end == nullptr || finalize == nullptr) return 98;
  gpuprobe::contract::SleepMs(pause_ms);
  for (int window = 0; window < 3; ++window) {
    begin();
    work();
    if (window == 2 && ending == "open") return 0;
    const ClientCounts c = end();
    printf(
        "window %d: kernels %lld runtime %lld driver %lld unfinished %lld unknown buffers %lld "
        "failures %lld\n",
        window, static_cast<long long>(c.kernels), static_cast<long long>(c.runtime),
        static_cast<long long>(c.driver), static_cast<long long>(c.unfinished),
        static_cast<long long>(c.unknown_buffers), static_cast<long long>(c.failures));
    if (window == 2 && ending == "finalize") finalize();
    work();
  }
  printf("launched=%" PRId64 " outside=%" PRId64 "\n", 7 * launches, 4 * launches);
  return 0;
}

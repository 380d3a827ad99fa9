// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Launches small kernels in batches, each followed by a synchronisation, for a given time.
//   contract_launch [key=value]...
//     ms=N          for so long (default 500); 0: until killed
//     batch=N       kernels between two synchronisations (default 64)
//     pause_ms=N    sleep after each batch (default 0)
//     threads=N     launching threads, each on a stream of its own (default 1)
//     progress=FILE a file that is mapped and holds (kernels that are complete, CLOCK_MONOTONIC)
//     after each
//                   batch, as two int64; it outlives SIGKILL. One thread only.
//     end=KIND      return (default), abort, _exit
// Prints launched=N.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::NowNs;
using gpuprobe::contract::SleepMs;

namespace {

struct Progress {
  int64_t complete, when_ns;
};

constexpr size_t kMostBatches = 1 << 20;

struct Options {
  int64_t ms = 500, batch = 64, pause_ms = 0, threads = 1;
  std::string progress, end = "return";
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const char* equals = strchr(argv[i], '=');
    if (equals == nullptr) return false;
    const std::string key(argv[i], static_cast<size_t>(equals - argv[i]));
    const char* value = equals + 1;
    if (key == "progress") {
      options->progress = value;
    } else if (key == "end") {
      options->end = value;
    } else {
      int64_t* number = key == "ms"         ? &options->ms
                        : key == "batch"    ? &options->batch
                        : key == "pause_ms" ? &options->pause_ms
                        : key == "threads"  ? &options->threads
                                            : nullptr;
      if (number == nullptr) return false;
      *number = atoll(value);
    }
  }
  return true;
}

Progress* MapProgress(const std::string& path) {
  if (path.empty()) return nullptr;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const size_t bytes = kMostBatches * sizeof(Progress);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) _exit(98);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Progress*>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) return 97;
  Progress* progress = MapProgress(options.progress);
  static Gpu gpu;
  gpu.Open();
  std::atomic<int64_t> launched{0};
  const int64_t end_ns = NowNs() + options.ms * 1'000'000;
  const auto work = [&] {
    gpu.MakeCurrent();
    const CUstream stream = options.threads > 1 ? gpu.NewStream() : nullptr;
    int64_t complete = 0;
    for (size_t i = 0; options.ms == 0 || NowNs() < end_ns; ++i) {
      gpu.Launches(options.batch, stream);
      gpu.Synchronize(stream);
      complete += options.batch;
      if (progress != nullptr && i < kMostBatches) progress[i] = {complete, NowNs()};
      if (options.pause_ms != 0) SleepMs(options.pause_ms);
    }
    launched += complete;
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < options.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  printf("launched=%lld\n", static_cast<long long>(launched.load()));
  if (options.end == "abort") abort();
  if (options.end == "_exit") {
    fflush(stdout);
    _exit(0);
  }
  return 0;
}

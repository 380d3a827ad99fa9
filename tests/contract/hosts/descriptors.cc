// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A host that closes every descriptor it finds, as daemons do, and then uses all numbers for a file
// of its own.
//   contract_descriptors FILE [stderr | loop]
// Launches for some flush periods, closes descriptors 3 and up, opens FILE on every number up to
// the limit (with "stderr": on 2 as well) and launches on. Exit status 0 when FILE holds what it
// was given and nothing else, 1 otherwise. With "loop" it only closes them all, again and again for
// a second (not while libraries are loaded: the loader needs one), and launches meanwhile and
// after.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::SleepMs;

namespace {

constexpr int kMostDescriptors = 1024;
constexpr int kRounds = 12;
constexpr int64_t kLaunches = 200;

std::string ReadAll(const char* path) {
  std::string text;
  char buffer[4096];
  const int fd = open(path, O_RDONLY);
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text;
}

int CloseInALoop() {
  static Gpu gpu;
  gpu.Open();
  std::atomic<bool> end{false};
  std::thread closer([&end] {
    while (!end.load(std::memory_order_relaxed)) {
      for (int fd = 3; fd < kMostDescriptors; ++fd) close(fd);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    gpu.Launches(kLaunches);
    gpu.Synchronize();
    SleepMs(80);
  }
  end.store(true);
  closer.join();
  gpu.Launches(kLaunches);
  gpu.Synchronize();
  SleepMs(100);
  printf("launched=%" PRId64 "\n", (kRounds + 1) * kLaunches);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 97;
  const bool take_stderr = argc > 2 && strcmp(argv[2], "stderr") == 0;
  if (argc > 2 && strcmp(argv[2], "loop") == 0) return CloseInALoop();
  const char* path = argv[1];
  const rlimit limit = {kMostDescriptors, kMostDescriptors};
  setrlimit(RLIMIT_NOFILE, &limit);
  static Gpu gpu;
  gpu.Open();
  gpu.Launches(kLaunches);
  gpu.Synchronize();
  SleepMs(200);

  for (int fd = 3; fd < kMostDescriptors; ++fd) close(fd);
  if (take_stderr) close(2);
  const int first = open(path, O_CREAT | O_RDWR | O_APPEND, 0666);
  if (first != (take_stderr ? 2 : 3)) return 96;
  // Some numbers stay free for whoever opens files.
  for (int fd = first + 1; fd < kMostDescriptors - 16; ++fd) dup2(first, fd);

  std::string expected;
  for (int round = 0; round < kRounds; ++round) {
    gpu.Launches(kLaunches);
    gpu.Synchronize();
    const std::string line = "line " + std::to_string(round) + " of the host\n";
    for (int fd = first; fd < kMostDescriptors - 16; fd += 50) {
      if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 95;
      expected += line;
    }
    SleepMs(60);
  }
  printf("launched=%" PRId64 "\n", (kRounds + 1) * kLaunches);
  return ReadAll(path) == expected ? 0 : 1;
}

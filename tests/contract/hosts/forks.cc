// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Processes that split.
//   contract_forks storm N     four threads launch while main forks N children that end in five
//   ways contract_forks inspect     one child looks at itself for longer than a flush period and
//   ends in order contract_forks child       the child alone initialises CUDA contract_forks daemon
//   so does a grandchild in a session of its own; prints its process id contract_forks exec N
//   launches, then becomes itself again, N times; the last one lists descriptors
#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
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

constexpr int64_t kLaunches = 500;
constexpr int kPatienceSeconds = 20;
// Far more than an exit takes, less than the 2 s that the library may wait for its own thread,
// which a child does not have.
constexpr int64_t kPromptNs = 1'500'000'000;

Gpu* g_gpu = new Gpu;  // process lifetime

int CountEntries(const char* path) {
  int count = 0;
  DIR* directory = opendir(path);
  if (directory == nullptr) return -1;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

// Status of the child, or -1 after kPatienceSeconds (it is killed then).
int WaitFor(pid_t child) {
  int status = -1;
  for (int i = 0; i < kPatienceSeconds * 100; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    SleepMs(10);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

[[noreturn]] void EndChild(int i) {
  if (CountEntries("/proc/self/task") != 1) _exit(50);
  switch (i % 5) {
    case 0:
      _exit(0);
    case 1:
      exit(0);
    case 2:
      execl("/bin/true", "true", nullptr);
      _exit(51);
    case 3:
      quick_exit(0);
    default:
      SleepMs(20);
      exit(0);
  }
}

int Storm(int count) {
  constexpr int kThreads = 4;
  g_gpu->Open();
  std::atomic<bool> stop{false};
  std::atomic<int64_t> launched{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const CUstream stream = g_gpu->NewStream();
      while (!stop.load()) {
        g_gpu->Launches(50, stream);
        g_gpu->Synchronize(stream);
        launched += 50;
      }
    });
  }
  int good = 0, hung = 0;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) EndChild(i);
    const int status = WaitFor(child);
    good += status == 0;
    hung += status == -1;
    if (status != 0) fprintf(stderr, "child %d: status %d\n", i, status);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  printf("good=%d hung=%d launched=%lld\n", good, hung, static_cast<long long>(launched.load()));
  return 0;
}

int Inspect() {
  g_gpu->Open();
  g_gpu->Launches(kLaunches);
  g_gpu->Synchronize();
  fflush(stdout);
  auto* shared = static_cast<int64_t*>(
      mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    const int before = CountEntries("/proc/self/task");
    SleepMs(300);
    printf("threads=%d,%d\n", before, CountEntries("/proc/self/task"));
    fflush(stdout);
    *shared = NowNs();
    exit(4);
  }
  const int status = WaitFor(child);
  fprintf(stderr, "exit took %s\n", NowNs() - *shared < kPromptNs ? "no time" : "long");
  g_gpu->Launches(kLaunches);
  g_gpu->Synchronize();
  printf("child=%d launched=%" PRId64 "\n", WEXITSTATUS(status), 2 * kLaunches);
  return 0;
}

void Work() {
  g_gpu->Open();
  g_gpu->Launches(kLaunches);
  g_gpu->Synchronize();
}

int Child() {
  const pid_t child = fork();
  if (child == 0) {
    Work();
    exit(6);
  }
  const int status = WaitFor(child);
  printf("pid=%d child=%d launched=%lld\n", child, WEXITSTATUS(status),
         static_cast<long long>(kLaunches));
  return 0;
}

int Daemon() {
  int ends[2];
  if (pipe(ends) != 0) return 98;
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    close(ends[0]);
    Work();
    const pid_t self = getpid();
    // The other end closes when this process is gone: the reader knows then that its trace is
    // complete.
    if (write(ends[1], &self, sizeof self) != sizeof self) _exit(98);
    exit(0);
  }
  close(ends[1]);
  pid_t grandchild = 0;
  if (read(ends[0], &grandchild, sizeof grandchild) != sizeof grandchild) return 98;
  char byte;
  if (read(ends[0], &byte, 1) != 0) return 98;
  wait(nullptr);
  printf("pid=%d launched=%lld\n", grandchild, static_cast<long long>(kLaunches));
  return 0;
}

int Exec(const char* self, int left) {
  Work();
  SleepMs(400);  // many flush periods: no exit handler runs before an exec
  if (left > 1) {
    const std::string next = std::to_string(left - 1);
    execl(self, self, "exec", next.c_str(), nullptr);
    return 98;
  }
  printf("pid=%d descriptors=%d launched=%lld\n", getpid(), CountEntries("/proc/self/fd"),
         static_cast<long long>(kLaunches));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (mode == "storm") return Storm(number);
  if (mode == "inspect") return Inspect();
  if (mode == "child") return Child();
  if (mode == "daemon") return Daemon();
  if (mode == "exec") return Exec("/proc/self/exe", number);
  return 97;
}

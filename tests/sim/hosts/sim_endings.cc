// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Does a little GPU work and then ends in the way that its argument names.
//
//   sim_endings ENDING [KERNELS [nosync]]
//
// Without an argument: prints one line an ending, "NAME exit CODE" or "NAME signal NUMBER": what a
// parent must see. KERNELS (default 200) are launched before; nosync: they are not waited for.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/sim/gpusim.h"

namespace {

void LaunchSome(long kernels) {
  const void* kernel = gpusim_kernel("ending_kernel");
  for (long i = 0; i < kernels; ++i)
    cudaLaunchKernel(kernel, dim3(1), dim3(32), nullptr, 0, nullptr);
}

[[noreturn]] void Forever() {
  while (true) pause();
}

int Return() { return 7; }
int Exit() { exit(8); }
int ExitFromThread() {
  std::thread([] { exit(9); }).detach();
  Forever();
}
int UnderscoreExit() { _exit(10); }
int QuickExit() { quick_exit(11); }
int Abort() { abort(); }
int Segfault() {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
  return 0;
}
int Terminated() {
  raise(SIGTERM);
  return 0;
}
int Killed() {
  kill(getpid(), SIGKILL);
  Forever();
}
int Exec() {
  execl("/bin/sh", "sh", "-c", "exit 12", static_cast<char*>(nullptr));
  return 1;
}
int ExecSelf() {
  execl("/proc/self/exe", "sim_endings", "return", "50", static_cast<char*>(nullptr));
  return 1;
}
int UncaughtException() { throw std::runtime_error("nobody catches this"); }
int UncaughtInThread() {
  std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
  return 0;
}
int PthreadExit() {
  std::thread([] {
    usleep(20'000);
    exit(13);
  }).detach();
  pthread_exit(nullptr);
}
int ExitInAtexit() {
  atexit([] { exit(14); });
  return 0;
}
int WorkInAtexit() {
  atexit([] { LaunchSome(20); });
  return 15;
}
int ExitInHostFunction() {
  cudaLaunchHostFunc(
      nullptr, [](void*) { exit(16); }, nullptr);
  cudaDeviceSynchronize();
  Forever();
}
int ExitWhileThreadsLaunch() {
  for (int i = 0; i < 4; ++i)
    std::thread([] {
      while (true) LaunchSome(1);
    }).detach();
  usleep(30'000);
  exit(17);
}
int ExitWhileThreadSyncs() {
  gpusim_next_duration(60'000'000'000);
  LaunchSome(1);
  std::thread([] { cudaDeviceSynchronize(); }).detach();
  usleep(30'000);
  exit(18);
}
int ForkThenReturn() {
  const pid_t child = fork();
  if (child == 0) exit(19);
  return 20;
}

// Work from a static destructor, after main and after most exit handlers.
struct WorksLate {
  bool armed = false;
  ~WorksLate() {
    if (armed) LaunchSome(20);
  }
} g_works_late;
int WorkInStaticDestructor() {
  g_works_late.armed = true;
  return 21;
}

struct Ending {
  const char* name;
  int (*run)();
  int code, signal;  // what the parent sees; signal 0: normal exit
};

constexpr Ending kEndings[] = {
    {"return", Return, 7, 0},
    {"exit", Exit, 8, 0},
    {"exit_from_thread", ExitFromThread, 9, 0},
    {"_exit", UnderscoreExit, 10, 0},
    {"quick_exit", QuickExit, 11, 0},
    {"abort", Abort, 0, SIGABRT},
    {"segfault", Segfault, 0, SIGSEGV},
    {"sigterm", Terminated, 0, SIGTERM},
    {"sigkill", Killed, 0, SIGKILL},
    {"exec", Exec, 12, 0},
    {"exec_self", ExecSelf, 7, 0},
    {"exception", UncaughtException, 0, SIGABRT},
    {"exception_in_thread", UncaughtInThread, 0, SIGABRT},
    {"pthread_exit", PthreadExit, 13, 0},
    {"exit_in_atexit", ExitInAtexit, 14, 0},
    {"work_in_atexit", WorkInAtexit, 15, 0},
    {"exit_in_host_function", ExitInHostFunction, 16, 0},
    {"exit_while_threads_launch", ExitWhileThreadsLaunch, 17, 0},
    {"exit_while_thread_syncs", ExitWhileThreadSyncs, 18, 0},
    {"fork", ForkThenReturn, 20, 0},
    {"work_in_static_destructor", WorkInStaticDestructor, 21, 0},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const Ending& e : kEndings) {
      printf("%s %s %d\n", e.name, e.signal != 0 ? "signal" : "exit",
             e.signal != 0 ? e.signal : e.code);
    }
    return 0;
  }
  for (const Ending& e : kEndings) {
    if (strcmp(argv[1], e.name) != 0) continue;
    LaunchSome(argc > 2 ? strtol(argv[2], nullptr, 10) : 200);
    if (argc <= 3 || strcmp(argv[3], "nosync") != 0) cudaDeviceSynchronize();
    gpusim_write_truth();  // most endings leave no time for it later
    return e.run();
  }
  fprintf(stderr, "sim_endings: no ending '%s'\n", argv[1]);
  return 1;
}

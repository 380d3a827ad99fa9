// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Launches kernels and ends in one of many ways.
//   contract_endings ENDING [LAUNCHES] [THREADS]
// THREADS others launch on and on while the process ends. Prints one line on stdout through stdio
// (flushed only by an orderly end) and one on stderr.
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;

namespace {

Gpu* g_gpu = new Gpu;  // process lifetime: threads launch while main is gone
int64_t g_launches = 1000;
pthread_t g_main_thread;

// A destructor that runs at exit and uses CUDA, as caching allocators have it.
struct LateUser {
  bool wanted = false;
  ~LateUser() {
    if (!wanted) return;
    CUdeviceptr memory = 0;
    g_gpu->cuda().MemAlloc(&memory, 4096);
    g_gpu->Launches(10);
    g_gpu->Synchronize();
    g_gpu->cuda().MemFree(memory);
    fprintf(stderr, "late user is done\n");
  }
};
LateUser g_late_user;

void* LaunchForEver(void*) {
  for (;;) g_gpu->Launches(100);
}

void* CallExit(void*) { exit(21); }

void ExitOnSignal(int) { exit(22); }

void AtExitLaunch() {
  g_gpu->Launches(10);
  g_gpu->Synchronize();
}

void AtExitExit() { exit(23); }

void* OutliveMain(void*) {
  pthread_join(g_main_thread, nullptr);
  g_gpu->Launches(100);
  g_gpu->Synchronize();
  fprintf(stderr, "outlived main\n");
  return nullptr;
}

void* OutliveMainAndExit(void*) {
  usleep(100'000);
  g_gpu->Launches(100);
  g_gpu->Synchronize();
  exit(25);
}

pthread_t StartThread(void* (*function)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, function, nullptr) != 0) _exit(98);
  return thread;
}

[[noreturn]] void WaitForTheEnd() {
  for (;;) pause();
}

void DieBy(int number) {
  signal(number, SIG_DFL);
  kill(getpid(), number);
  WaitForTheEnd();
}

struct Ending {
  const char* name;
  int (*run)();  // the value that main returns, where it gets there
};

const Ending kEndings[] = {
    {"return", [] { return 0; }},
    {"return_synchronized", [] { return g_gpu->Synchronize(), 4; }},
    {"exit", []() -> int { exit(3); }},
    {"_exit", []() -> int { _exit(5); }},
    {"exit_group", []() -> int { return static_cast<int>(syscall(SYS_exit_group, 6)); }},
    {"quick_exit", []() -> int { quick_exit(7); }},
    {"abort", []() -> int { abort(); }},
    {"throw", []() -> int { throw std::runtime_error("nobody catches this"); }},
    {"segmentation_fault", []() -> int { return DieBy(SIGSEGV), 0; }},
    {"null_pointer", []() -> int { return *static_cast<volatile int*>(nullptr); }},
    {"sigterm", []() -> int { return DieBy(SIGTERM), 0; }},
    {"sigint", []() -> int { return DieBy(SIGINT), 0; }},
    {"sigkill", []() -> int { return DieBy(SIGKILL), 0; }},
    {"sigpipe", []() -> int { return DieBy(SIGPIPE), 0; }},
    {"exit_in_thread", []() -> int { return pthread_join(StartThread(&CallExit), nullptr); }},
    {"exit_in_signal_handler",
     []() -> int {
       signal(SIGUSR1, &ExitOnSignal);
       raise(SIGUSR1);
       return 0;
     }},
    {"exit_in_exit_handler", []() -> int { return atexit(&AtExitExit), 0; }},
    {"exit_in_host_function",
     []() -> int {
       g_gpu->cuda().LaunchHostFunc(
           nullptr, [](void*) { exit(24); }, nullptr);
       WaitForTheEnd();
     }},
    {"cuda_in_exit_handler", []() -> int { return atexit(&AtExitLaunch), 8; }},
    {"cuda_in_static_destructor", []() -> int { return g_late_user.wanted = true, 9; }},
    {"main_thread_leaves_first",
     []() -> int {
       g_main_thread = pthread_self();
       StartThread(&OutliveMain);
       pthread_exit(nullptr);
     }},
    // glibc does not hear of it: it still counts the thread.
    {"raw_exit_of_the_main_thread",
     []() -> int {
       StartThread(&OutliveMainAndExit);
       return static_cast<int>(syscall(SYS_exit, 12));
     }},
    {"raw_exit_of_all_threads",
     []() -> int {
       g_main_thread = pthread_self();
       StartThread(&OutliveMain);
       return static_cast<int>(syscall(SYS_exit, 13));
     }},
    {"main_thread_leaves_last", []() -> int { pthread_exit(nullptr); }},
    {"exec",
     []() -> int {
       return execl("/bin/sh", "sh", "-c", "echo another program; exit 11", nullptr);
     }},
    {"alarm", []() -> int { return alarm(1), pause(); }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const Ending& ending : kEndings) puts(ending.name);
    return 0;
  }
  if (argc > 2) g_launches = atoll(argv[2]);
  const int threads = argc > 3 ? atoi(argv[3]) : 0;
  for (const Ending& ending : kEndings) {
    if (strcmp(ending.name, argv[1]) != 0) continue;
    g_gpu->Open();
    g_gpu->Launches(g_launches);
    for (int i = 0; i < threads; ++i) StartThread(&LaunchForEver);
    printf("launched %lld\n", static_cast<long long>(g_launches));
    fprintf(stderr, "ends by %s\n", ending.name);
    return ending.run();
  }
  return 97;
}

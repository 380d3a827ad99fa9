// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Threads in blocking calls, none of which retries, while another launches. Counts EINTR and calls
// that came back early. Prints calls=N interrupted=N early=N.
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::NowNs;

namespace {

constexpr int64_t kRunNs = 1'500'000'000;
constexpr int kWaitMs = 60;
int g_never_readable[2];

int Poll() {
  pollfd p = {g_never_readable[0], POLLIN, 0};
  return poll(&p, 1, kWaitMs);
}

int Select() {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(g_never_readable[0], &set);
  timeval timeout = {0, kWaitMs * 1000};
  return select(g_never_readable[0] + 1, &set, nullptr, nullptr, &timeout);
}

int Epoll() {
  thread_local const int fd = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event;
  return epoll_wait(fd, &event, 1, kWaitMs);
}

int Sleep() {
  const timespec time = {0, kWaitMs * 1'000'000};
  return nanosleep(&time, nullptr);
}

int Semaphore() {
  static sem_t semaphore;  // never posted
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kWaitMs * 1'000'000;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  return sem_timedwait(&semaphore, &until);
}

int Receive() {
  // One socket a thread, with a time limit: SO_RCVTIMEO calls are never restarted after a handler.
  thread_local int ends[2] = {-1, -1};
  if (ends[0] < 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
    const timeval timeout = {0, kWaitMs * 1000};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  char byte;
  return static_cast<int>(recv(ends[0], &byte, 1, 0));
}

}  // namespace

int main() {
  if (pipe(g_never_readable) != 0) return 98;
  static Gpu gpu;
  gpu.Open();
  std::atomic<int64_t> calls{0}, interrupted{0}, early{0};
  const int64_t end = NowNs() + kRunNs;
  std::vector<std::thread> threads;
  for (int (*call)() : {&Poll, &Select, &Epoll, &Sleep, &Semaphore, &Receive}) {
    for (int copy = 0; copy < 2; ++copy) {
      threads.emplace_back([&, call] {
        while (NowNs() < end) {
          const int64_t begin = NowNs();
          errno = 0;
          call();
          ++calls;
          interrupted += errno == EINTR;
          early += NowNs() - begin < (kWaitMs - 5) * 1'000'000;
        }
      });
    }
  }
  while (NowNs() < end) {
    gpu.Launches(20);
    gpu.Synchronize();
    const timespec pause = {0, 1'000'000};
    if (nanosleep(&pause, nullptr) != 0) ++interrupted;
  }
  for (std::thread& thread : threads) thread.join();
  printf("calls=%lld interrupted=%lld early=%lld\n", static_cast<long long>(calls.load()),
         static_cast<long long>(interrupted.load()), static_cast<long long>(early.load()));
  return 0;
}

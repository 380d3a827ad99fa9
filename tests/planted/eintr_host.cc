// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A host full of blocking calls, none of which retries: what a library beside it must never cut
// short. tests/contract/hosts/interrupts.cc asks the same of six calls; here are those that
// signals, ptrace and freezers cut short each in a way of their own, and those whose work is
// counted:
//
//   timed    calls that nothing ever ends but their time limit. Counted: EINTR, and early returns.
//   counted  calls that move something from one thread or process to another. Counted: EINTR, and
//            what got lost or came twice.
//
// Meanwhile the main thread launches and waits, on whatever libcuda.so.1 is there.
//
//   eintr_host [SECONDS]     (default 1.5)
//
// Prints a line for each call, "poll calls=N interrupted=N early=N wrong=N", and the sums as
// "total ...". Exit code 0; 99 where there is no CUDA.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::NowNs;

namespace {

constexpr int kWaitMs = 40;
constexpr int64_t kWaitNs = kWaitMs * 1'000'000LL;
// Time limits on the wall clock may be a clock step short of the monotonic time that is measured.
constexpr int64_t kEarlyNs = 1'000'000;

struct Counts {
  const char* name;
  std::atomic<int64_t> calls{0}, interrupted{0}, early{0}, wrong{0};
  void Add(bool was_interrupted, bool was_early, bool was_wrong) {
    calls.fetch_add(1);
    interrupted.fetch_add(was_interrupted);
    early.fetch_add(was_early);
    wrong.fetch_add(was_wrong);
  }
};

// ---- timed: each returns after kWaitMs, or something has cut it short ----

timespec WaitTime() { return {kWaitMs / 1000, (kWaitMs % 1000) * 1'000'000L}; }

timespec WaitUntil(clockid_t clock) {
  timespec until;
  clock_gettime(clock, &until);
  const int64_t ns = until.tv_nsec + kWaitNs;
  until.tv_sec += ns / 1'000'000'000;
  until.tv_nsec = ns % 1'000'000'000;
  return until;
}

int NeverReadable() {
  static int ends[2] = {-1, -1};
  static const int result = pipe2(ends, O_CLOEXEC);
  return result == 0 ? ends[0] : -1;
}

void Poll() {
  pollfd p = {NeverReadable(), POLLIN, 0};
  poll(&p, 1, kWaitMs);
}

void Ppoll() {
  pollfd p = {NeverReadable(), POLLIN, 0};
  const timespec time = WaitTime();
  ppoll(&p, 1, &time, nullptr);
}

void Select() {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(NeverReadable(), &set);
  timeval time = {0, kWaitMs * 1000};
  select(NeverReadable() + 1, &set, nullptr, nullptr, &time);
}

void Epoll() {
  thread_local const int fd = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event;
  epoll_wait(fd, &event, 1, kWaitMs);
}

void Nanosleep() {
  const timespec time = WaitTime();
  nanosleep(&time, nullptr);
}

void ClockNanosleep() {
  const timespec until = WaitUntil(CLOCK_MONOTONIC);
  errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

void Usleep() { usleep(kWaitMs * 1000); }

void SemTimedwait() {
  static sem_t semaphore;  // never posted
  const timespec until = WaitUntil(CLOCK_REALTIME);
  sem_timedwait(&semaphore, &until);
}

void Futex() {
  static uint32_t word = 0;  // never woken
  const timespec time = WaitTime();
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
}

void CondTimedwait() {
  thread_local pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  thread_local pthread_cond_t condition = PTHREAD_COND_INITIALIZER;  // never signalled
  const timespec until = WaitUntil(CLOCK_REALTIME);
  pthread_mutex_lock(&mutex);
  errno = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
}

void Sigtimedwait() {
  sigset_t set;  // of a signal that nobody sends
  sigemptyset(&set);
  sigaddset(&set, SIGRTMAX - 3);
  const timespec time = WaitTime();
  sigtimedwait(&set, nullptr, &time);
}

void SetTimeLimit(int fd, int option) {
  const timeval time = {0, kWaitMs * 1000};
  setsockopt(fd, SOL_SOCKET, option, &time, sizeof time);
}

// Calls on sockets with a time limit are never restarted after a handler, whatever SA_RESTART says.
void RecvWithLimit() {
  thread_local int ends[2] = {-1, -1};
  if (ends[0] < 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    SetTimeLimit(ends[0], SO_RCVTIMEO);
  }
  char byte;
  recv(ends[0], &byte, 1, 0);
}

int Listener(int backlog, sockaddr_in* address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *address = {};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof *address;
  if (bind(fd, reinterpret_cast<sockaddr*>(address), length) != 0 || listen(fd, backlog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(address), &length) != 0) {
    perror("eintr_host: listener");
    exit(98);
  }
  return fd;
}

void AcceptWithLimit() {
  thread_local int fd = -1;
  if (fd < 0) {
    sockaddr_in address;
    fd = Listener(1, &address);
    SetTimeLimit(fd, SO_RCVTIMEO);
  }
  accept(fd, nullptr, nullptr);
}

// connect() to a local listener whose queue is full blocks until the time limit.
void ConnectWithLimit() {
  thread_local int listener = -1;
  thread_local sockaddr_un address = {};
  thread_local socklen_t length = sizeof(sa_family_t);
  if (listener < 0) {
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sun_family = AF_UNIX;  // without a path: the kernel gives an abstract one
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0) return;
    length = sizeof address;
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    listen(listener, 0);
    const int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);  // fills the queue, stays
    if (connect(first, reinterpret_cast<sockaddr*>(&address), length) != 0) return;
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SetTimeLimit(fd, SO_SNDTIMEO);
  connect(fd, reinterpret_cast<sockaddr*>(&address), length);
  const int error = errno;
  close(fd);
  errno = error;
}

struct Timed {
  const char* name;
  void (*call)();
};
constexpr Timed kTimed[] = {
    {"poll", Poll},
    {"ppoll", Ppoll},
    {"select", Select},
    {"epoll_wait", Epoll},
    {"nanosleep", Nanosleep},
    {"clock_nanosleep", ClockNanosleep},
    {"usleep", Usleep},
    {"sem_timedwait", SemTimedwait},
    {"futex_wait", Futex},
    {"cond_timedwait", CondTimedwait},
    {"sigtimedwait", Sigtimedwait},
    {"recv_limit", RecvWithLimit},
    {"accept_limit", AcceptWithLimit},
    {"connect_limit", ConnectWithLimit},
};

void RunTimed(const Timed& timed, int64_t end_ns, Counts& counts) {
  while (NowNs() < end_ns) {
    errno = 0;
    const int64_t begin = NowNs();
    timed.call();
    const int error = errno;
    counts.Add(error == EINTR, NowNs() - begin < kWaitNs - kEarlyNs,
               error != 0 && error != EINTR && error != EAGAIN && error != ETIMEDOUT);
  }
}

// ---- counted: both ends are ours, and each value arrives once ----

// Reads or writes all of it in one call, or it is wrong.
void Move(Counts& counts, ssize_t moved, size_t wanted) {
  const bool interrupted = moved < 0 && errno == EINTR;
  counts.Add(interrupted, false, !interrupted && moved != static_cast<ssize_t>(wanted));
}

// A reader that waits for a slow writer.
void PipeRead(int64_t end_ns, Counts& counts) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  std::thread writer([&] {
    for (uint64_t value = 0; NowNs() < end_ns; ++value) {
      Move(counts, write(ends[1], &value, sizeof value), sizeof value);
      usleep(3'000);
    }
    close(ends[1]);
  });
  for (uint64_t expected = 0;; ++expected) {
    uint64_t value = 0;
    errno = 0;
    const ssize_t got = read(ends[0], &value, sizeof value);
    if (got == 0) break;
    Move(counts, got, sizeof value);
    if (got > 0 && value != expected) counts.wrong.fetch_add(1);
  }
  writer.join();
  close(ends[0]);
}

// A writer that waits for a slow reader, in the middle of a large write: cut short, it has written
// less.
void PipeWrite(int64_t end_ns, Counts& counts) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  static char block[512 << 10];  // several times what a pipe holds
  std::thread reader([&] {
    static char piece[16 << 10];
    while (read(ends[0], piece, sizeof piece) > 0) usleep(500);
  });
  while (NowNs() < end_ns) {
    errno = 0;
    Move(counts, write(ends[1], block, sizeof block), sizeof block);
  }
  close(ends[1]);
  reader.join();
  close(ends[0]);
}

// connect and accept of TCP connections, one after the other.
void ConnectAccept(int64_t end_ns, Counts& counts) {
  sockaddr_in address;
  const int listener = Listener(8, &address);
  std::atomic<bool> done{false};
  std::thread server([&] {
    while (!done.load()) {
      errno = 0;
      const int fd = accept(listener, nullptr, nullptr);
      counts.Add(fd < 0 && errno == EINTR, false, fd < 0 && errno != EINTR);
      if (fd >= 0) close(fd);
    }
  });
  for (bool last = false; !last;) {
    last = NowNs() >= end_ns;
    if (last) done.store(true);  // the server is in accept, or will be once more
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    errno = 0;
    const int result = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    counts.Add(result != 0 && errno == EINTR, false, result != 0 && errno != EINTR);
    char byte;
    if (result == 0) read(fd, &byte, 1);  // until the server has closed it: it is at accept again
    close(fd);
    usleep(3'000);
  }
  server.join();
  close(listener);
}

// Two threads that wake each other by futex: 0 and 1 take turns, and no turn is skipped.
void FutexTurns(int64_t end_ns, Counts& counts) {
  std::atomic<uint32_t> turn{0};
  std::atomic<bool> done{false};
  auto wait_for = [&](uint32_t mine) {
    while (turn.load() % 2 != mine && !done.load()) {
      const uint32_t seen = turn.load();
      if (seen % 2 == mine) break;
      const timespec time = {1, 0};  // so that the end is seen
      errno = 0;
      const long result = syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
      counts.Add(result != 0 && errno == EINTR, false, false);
    }
  };
  auto pass_on = [&] {
    turn.fetch_add(1);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  };
  uint32_t taken = 0;
  std::thread other([&] {
    while (!done.load()) {
      wait_for(1);
      if (turn.load() % 2 == 1) {
        ++taken;
        pass_on();
      }
    }
  });
  uint32_t given = 0;
  while (NowNs() < end_ns) {
    wait_for(0);
    usleep(2'000);
    ++given;
    pass_on();
  }
  wait_for(0);
  done.store(true);
  syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 2, nullptr, nullptr, 0);
  other.join();
  if (taken != given) counts.wrong.fetch_add(1);
}

// Children that sleep and leave; their parent waits for them.
void Waitpid(int64_t end_ns, Counts& counts) {
  while (NowNs() < end_ns) {
    const pid_t child = fork();
    if (child == 0) {
      const timespec time = {0, 10'000'000};
      _exit(nanosleep(&time, nullptr) == 0 ? 7 : 8);
    }
    int status = 0;
    errno = 0;
    const pid_t ended = waitpid(child, &status, 0);
    const bool interrupted = ended < 0 && errno == EINTR;
    counts.Add(interrupted, false,
               !interrupted && (ended != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7));
    if (interrupted) waitpid(child, &status, 0);
  }
}

struct Counted {
  const char* name;
  void (*run)(int64_t end_ns, Counts& counts);
};
constexpr Counted kCounted[] = {
    {"pipe_read", PipeRead},     {"pipe_write", PipeWrite}, {"connect_accept", ConnectAccept},
    {"futex_turns", FutexTurns}, {"waitpid", Waitpid},
};

void Print(const char* name, int64_t calls, int64_t interrupted, int64_t early, int64_t wrong) {
  printf("%s calls=%lld interrupted=%lld early=%lld wrong=%lld\n", name,
         static_cast<long long>(calls), static_cast<long long>(interrupted),
         static_cast<long long>(early), static_cast<long long>(wrong));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1.5;
  NeverReadable();
  static Gpu gpu;
  gpu.Open();
  const int64_t end_ns = NowNs() + static_cast<int64_t>(seconds * 1e9);
  static std::deque<Counts> all;  // addresses stay
  std::vector<std::thread> threads;
  for (const Timed& timed : kTimed) {
    Counts& counts = all.emplace_back();
    counts.name = timed.name;
    threads.emplace_back([&timed, &counts, end_ns] { RunTimed(timed, end_ns, counts); });
  }
  for (const Counted& counted : kCounted) {
    Counts& counts = all.emplace_back();
    counts.name = counted.name;
    threads.emplace_back([&counted, &counts, end_ns] { counted.run(end_ns, counts); });
  }
  Counts& pauses = all.emplace_back();
  pauses.name = "main_pause";
  while (NowNs() < end_ns) {
    gpu.Launches(20);
    gpu.Synchronize();
    const timespec pause = {0, 1'000'000};
    const int64_t begin = NowNs();
    const bool cut = nanosleep(&pause, nullptr) != 0;
    pauses.Add(cut && errno == EINTR, NowNs() - begin < pause.tv_nsec, cut && errno != EINTR);
  }
  for (std::thread& thread : threads) thread.join();
  int64_t calls = 0, interrupted = 0, early = 0, wrong = 0;
  for (const Counts& c : all) {
    Print(c.name, c.calls, c.interrupted, c.early, c.wrong);
    calls += c.calls;
    interrupted += c.interrupted;
    early += c.early;
    wrong += c.wrong;
  }
  Print("total", calls, interrupted, early, wrong);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the sampler says that a blocked thread is blocked on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>

#include "sampler/look/thread_look.h"
#include "tests/sampler/host_run.h"
#include "tests/sampler/planted_thread.h"

namespace gpuprobe::sampler {
namespace {

// Blocks a thread by `block`, and expects the samples to say in what.
void ExpectBlocked(const std::function<void()>& block, const std::function<void()>& wake,
                   long number, const std::string& target) {
  Planted planted([&](std::atomic<bool>*) { block(); });
  planted.WakeBy(wake);
  HostRun run;
  run.sampler().NoteCudaThread(planted.tid());
  ASSERT_TRUE(run.UntilSamples(planted.tid(), 10));
  run.Stop();
  const SeenThread& seen = run.thread(planted.tid());
  EXPECT_EQ(seen.name, "planted");
  EXPECT_FALSE(seen.main);
  // The first look may be early.
  for (size_t i = 5; i < seen.samples.size(); ++i) {
    const SeenSample& s = seen.samples[i];
    EXPECT_EQ(s.state, kStateBlocked);
    EXPECT_EQ(s.syscall, number);
    EXPECT_EQ(s.target, target);
    EXPECT_TRUE(Unchanged(s));
    EXPECT_EQ(s.cpu_ns, 0u);
    EXPECT_EQ(s.runnable_ns, 0u);
    EXPECT_GT(s.interval_ns, 0u);
  }
}

TEST(HostWaits, AReadOfAPipeIsBlockedOnAPipe) {
  Ends pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(read(pipe_ends.fds[0], &c, 1), 1); },
                [&] { EXPECT_EQ(write(pipe_ends.fds[1], "x", 1), 1); }, SYS_read, "pipe");
}

TEST(HostWaits, AReceiveFromAPairIsBlockedOnAUnixSocket) {
  Ends pair;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(recv(pair.fds[0], &c, 1, 0), 1); },
                [&] { EXPECT_EQ(send(pair.fds[1], "x", 1, 0), 1); }, SYS_recvfrom, "unix socket");
}

TEST(HostWaits, AReadOfAPairIsBlockedOnAUnixSocket) {
  Ends pair;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(read(pair.fds[0], &c, 1), 1); },
                [&] { EXPECT_EQ(send(pair.fds[1], "x", 1, 0), 1); }, SYS_read, "unix socket");
}

TEST(HostWaits, AReceiveOverTheNetworkIsBlockedOnASocket) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* name = reinterpret_cast<struct sockaddr*>(&address);
  ASSERT_EQ(bind(fd, name, size), 0);
  ASSERT_EQ(getsockname(fd, name, &size), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(recv(fd, &c, 1, 0), 1); },
                [&] { EXPECT_EQ(sendto(fd, "x", 1, 0, name, size), 1); }, SYS_recvfrom, "socket");
  close(fd);
}

TEST(HostWaits, ALockOfAFileThatIsHeldIsNamed) {
  char path[] = "/tmp/host_waits_lock.XXXXXX";
  const int held = mkstemp(path), waiting = open(path, O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  ExpectBlocked([&] { EXPECT_EQ(flock(waiting, LOCK_EX), 0); },
                [&] { EXPECT_EQ(flock(held, LOCK_UN), 0); }, SYS_flock, path);
  close(held);
  close(waiting);
  unlink(path);
}

// The sampler is stopped with it, and tells when it runs again.
TEST(HostWaits, AProcessThatWasStoppedIsToldOf) {
  HostRun run;
  const uint32_t main = static_cast<uint32_t>(getpid());
  ASSERT_TRUE(run.UntilSamples(main, 20));
  const pid_t stopper = fork();
  if (stopper == 0) {
    const pid_t parent = getppid();
    kill(parent, SIGSTOP);
    usleep(600'000);
    kill(parent, SIGCONT);
    _exit(0);
  }
  ASSERT_EQ(waitpid(stopper, nullptr, 0), stopper);
  const auto stopped = [](const SeenSample& s) { return s.state == kStateStopped; };
  ASSERT_TRUE(run.Until([&] { return run.thread(main).Count(stopped) != 0; }));
  const size_t seen = run.thread(main).samples.size();
  ASSERT_TRUE(run.UntilSamples(main, seen + 20));
  run.Stop();
  const auto is_long = [](const SeenSample& s) { return s.interval_ns > 400'000'000; };
  ASSERT_EQ(run.thread(main).Count(is_long), 1u);
  for (const SeenSample& s : run.thread(main).samples) {
    if (!is_long(s)) continue;
    EXPECT_EQ(s.state, kStateStopped);
    EXPECT_LT(s.interval_ns, 900'000'000u);
    EXPECT_LT(s.cpu_ns, 50'000'000u);
  }
  // The first look after it may still find the thread stopped.
  EXPECT_EQ(run.thread(main).samples.back().state, kStateBlocked);
}

TEST(HostWaits, APollOfOneKindNamesIt) {
  const int event = eventfd(0, 0);
  ExpectBlocked(
      [&] {
        struct pollfd entries[2] = {{event, POLLIN, 0}, {-1, POLLIN, 0}};
        EXPECT_EQ(poll(entries, 2, -1), 1);
      },
      [&] { EXPECT_EQ(eventfd_write(event, 1), 0); }, SYS_poll, "eventfd");
  close(event);
}

TEST(HostWaits, APollOfSeveralKindsSaysSo) {
  const int event = eventfd(0, 0);
  Ends pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  ExpectBlocked(
      [&] {
        struct pollfd entries[2] = {{event, POLLIN, 0}, {pipe_ends.fds[0], POLLIN, 0}};
        EXPECT_EQ(poll(entries, 2, -1), 1);
      },
      [&] { EXPECT_EQ(eventfd_write(event, 1), 0); }, SYS_poll, "several");
  close(event);
}

TEST(HostWaits, ASelectNamesWhatIsInItsSets) {
  Ends pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  ExpectBlocked(
      [&] {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(pipe_ends.fds[0], &set);
        EXPECT_EQ(syscall(SYS_select, pipe_ends.fds[0] + 1, &set, nullptr, nullptr, nullptr), 1);
      },
      [&] { EXPECT_EQ(write(pipe_ends.fds[1], "x", 1), 1); }, SYS_select, "pipe");
}

TEST(HostWaits, AnEpollIsOne) {
  const int event = eventfd(0, 0), epoll = epoll_create1(0);
  struct epoll_event wanted = {EPOLLIN, {}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted), 0);
  ExpectBlocked(
      [&] {
        struct epoll_event got;
        EXPECT_EQ(epoll_wait(epoll, &got, 1, -1), 1);
      },
      [&] { EXPECT_EQ(eventfd_write(event, 1), 0); }, SYS_epoll_wait, "epoll");
  close(epoll);
  close(event);
}

TEST(HostWaits, AFutexIsAFutex) {
  std::atomic<uint32_t> word{0};
  ExpectBlocked(
      [&] {
        while (word.load() == 0)
          syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
      },
      [&] {
        word.store(1);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      },
      SYS_futex, "futex");
}

TEST(HostWaits, ASleepIsASleep) {
  Planted planted(&Sleep);
  HostRun run;
  run.sampler().NoteCudaThread(planted.tid());
  ASSERT_TRUE(run.UntilSamples(planted.tid(), 100));
  run.Stop();
  const SeenThread& seen = run.thread(planted.tid());
  // It wakes five times a second: most samples are the same as the one before, and some are not.
  EXPECT_GT(seen.Count(&Unchanged), seen.samples.size() / 2);
  EXPECT_LT(seen.Count(&Unchanged), seen.samples.size());
  EXPECT_GT(seen.Count([](const SeenSample& s) {
    return s.syscall == SYS_clock_nanosleep && s.target == "nanosleep";
  }),
            seen.samples.size() * 9 / 10);
}

}  // namespace
}  // namespace gpuprobe::sampler

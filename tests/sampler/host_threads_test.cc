// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the sampler says about threads whose doings are known: its own process's.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sampler/thread_look.h"
#include "tests/sampler/host_run.h"

namespace gpuprobe::sampler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

// A thread that does `body` until the test lets it go.
class Planted {
 public:
  explicit Planted(std::function<void(std::atomic<bool>*)> body, const char* name = "planted") {
    thread_ = std::thread([this, body, name] {
      pthread_setname_np(pthread_self(), name);
      tid_.store(Tid());
      body(&end_);
    });
    while (tid_.load() == 0) std::this_thread::yield();
  }
  ~Planted() { End(); }
  void End() {
    end_.store(true);
    if (wake_) wake_();
    if (thread_.joinable()) thread_.join();
  }
  void WakeBy(std::function<void()> wake) { wake_ = std::move(wake); }
  uint32_t tid() const { return tid_.load(); }

 private:
  std::atomic<uint32_t> tid_{0};
  std::atomic<bool> end_{false};
  std::function<void()> wake_;
  std::thread thread_;
};

void Spin(std::atomic<bool>* end) {
  while (!end->load(std::memory_order_relaxed)) {
  }
}

void Sleep(std::atomic<bool>* end) {
  while (!end->load()) usleep(200'000);
}

bool Unchanged(const SeenSample& s) { return (s.flags & kSampleUnchanged) != 0; }

struct Ends {
  int fds[2] = {-1, -1};
  ~Ends() {
    close(fds[0]);
    close(fds[1]);
  }
};

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

TEST(HostSampler, AReadOfAPipeIsBlockedOnAPipe) {
  Ends pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(read(pipe_ends.fds[0], &c, 1), 1); },
                [&] { EXPECT_EQ(write(pipe_ends.fds[1], "x", 1), 1); }, SYS_read, "pipe");
}

TEST(HostSampler, AReceiveFromAPairIsBlockedOnAUnixSocket) {
  Ends pair;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(recv(pair.fds[0], &c, 1, 0), 1); },
                [&] { EXPECT_EQ(send(pair.fds[1], "x", 1, 0), 1); }, SYS_recvfrom, "unix socket");
}

TEST(HostSampler, AReadOfAPairIsBlockedOnAUnixSocket) {
  Ends pair;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fds), 0);
  char c;
  ExpectBlocked([&] { EXPECT_EQ(read(pair.fds[0], &c, 1), 1); },
                [&] { EXPECT_EQ(send(pair.fds[1], "x", 1, 0), 1); }, SYS_read, "unix socket");
}

TEST(HostSampler, AReceiveOverTheNetworkIsBlockedOnASocket) {
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

TEST(HostSampler, APollOfOneKindNamesIt) {
  const int event = eventfd(0, 0);
  ExpectBlocked(
      [&] {
        struct pollfd entries[2] = {{event, POLLIN, 0}, {-1, POLLIN, 0}};
        EXPECT_EQ(poll(entries, 2, -1), 1);
      },
      [&] { EXPECT_EQ(eventfd_write(event, 1), 0); }, SYS_poll, "eventfd");
  close(event);
}

TEST(HostSampler, APollOfSeveralKindsSaysSo) {
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

TEST(HostSampler, ASelectNamesWhatIsInItsSets) {
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

TEST(HostSampler, AnEpollIsOne) {
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

TEST(HostSampler, AFutexIsAFutex) {
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

TEST(HostSampler, ASleepIsASleep) {
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

TEST(HostSampler, ASpinningThreadRunsAndIsBilledForIt) {
  Planted planted(&Spin);
  HostRun run;
  run.sampler().NoteCudaThread(planted.tid());
  ASSERT_TRUE(run.UntilSamples(planted.tid(), 100));
  run.Stop();
  const SeenThread& seen = run.thread(planted.tid());
  EXPECT_EQ(seen.samples[0].interval_ns, 0u);  // the first look
  EXPECT_EQ(seen.Count(&Unchanged), 0u);
  EXPECT_EQ(seen.Count([](const SeenSample& s) { return s.state == kStateRunning; }),
            seen.samples.size());
  const uint64_t whole = seen.Sum(&SeenSample::interval_ns);
  // Without a hole, but for the rounding of the file's times.
  EXPECT_NEAR(static_cast<double>(whole),
              static_cast<double>(seen.samples.back().time_ns - seen.samples[0].time_ns),
              1000.0 * static_cast<double>(seen.samples.size()));
  const uint64_t ready = seen.Sum(&SeenSample::cpu_ns) + seen.Sum(&SeenSample::runnable_ns);
  EXPECT_GT(ready, whole * 8 / 10);
  EXPECT_LT(ready, whole * 11 / 10);
}

TEST(HostSampler, ThreadsThatShareACpuWaitForIt) {
  const auto spin_on_first_cpu = [](std::atomic<bool>* end) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &one);
      break;
    }
    sched_setaffinity(0, sizeof one, &one);
    Spin(end);
  };
  Planted a(spin_on_first_cpu), b(spin_on_first_cpu);
  HostRun run;
  run.sampler().NoteCudaThread(a.tid());
  run.sampler().NoteCudaThread(b.tid());
  ASSERT_TRUE(run.UntilSamples(a.tid(), 100));
  ASSERT_TRUE(run.UntilSamples(b.tid(), 100));
  run.Stop();
  for (const uint32_t tid : {a.tid(), b.tid()}) {
    const SeenThread& seen = run.thread(tid);
    const uint64_t whole = seen.Sum(&SeenSample::interval_ns);
    EXPECT_GT(seen.Sum(&SeenSample::runnable_ns), whole / 4);
    EXPECT_LT(seen.Sum(&SeenSample::cpu_ns), whole * 3 / 4);
  }
}

TEST(HostSampler, TheMainThreadIsAlwaysLookedAt) {
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(static_cast<uint32_t>(getpid()), 5));
  EXPECT_TRUE(run.thread(static_cast<uint32_t>(getpid())).main);
}

TEST(HostSampler, TheProcessIsDescribed) {
  HostRun run;
  const uint32_t pid = static_cast<uint32_t>(getpid());
  ASSERT_TRUE(run.Until([&] { return run.KnowsProcess(pid); }));
  const auto& facts = run.processes().at(pid);
  EXPECT_EQ(facts.parent_pid(), static_cast<uint32_t>(getppid()));
  EXPECT_THAT(facts.command_line(), testing::HasSubstr("host_threads_test"));
  EXPECT_GT(facts.start_ticks(), 0u);
  EXPECT_GT(facts.allowed_cpus(), 0u);
  EXPECT_FALSE(facts.ended());
}

TEST(HostSampler, AThreadThatBurnsCpuIsFoundAndOneThatIsIdleIsNot) {
  Planted busy(&Spin), idle(&Sleep);
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(busy.tid(), 20));
  EXPECT_FALSE(run.Knows(idle.tid()));
}

TEST(HostSampler, AThreadThatHasBecomeIdleIsLetGoOf) {
  std::atomic<bool> spin{true};
  Planted planted([&](std::atomic<bool>* end) {
    Spin(end);
    (void)spin;
  });
  Planted turns([&](std::atomic<bool>* end) {
    while (spin.load(std::memory_order_relaxed)) {
    }
    Sleep(end);
  });
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(turns.tid(), 20));
  spin.store(false);
  // Seconds pass; the other thread shows that looks go on.
  ASSERT_TRUE(run.Until([&] {
    const auto& a = run.thread(planted.tid()).samples;
    const auto& b = run.thread(turns.tid()).samples;
    return !a.empty() && !b.empty() && a.back().time_ns - b.back().time_ns > 500'000'000;
  }));
}

TEST(HostSampler, AThreadOfTheHostIsLookedAtWhateverItIsCalled) {
  Planted drain(&Spin, "gpuprobe"), sampler(&Spin, "gpuprobe-sample"), other(&Spin, "gpuprobes");
  HostRun run;
  for (const Planted* thread : {&drain, &sampler, &other}) {
    run.sampler().NoteCudaThread(thread->tid());
    EXPECT_TRUE(run.UntilSamples(thread->tid(), 5));
  }
}

// A limit of two open files is less than what is kept for two threads.
TEST(HostSampler, AHostAtItsLimitOfOpenFilesIsLookedAtAndSaidToBe) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers open files, and start no threads in a forked process";
#endif
  const pid_t pid = fork();
  if (pid == 0) {
    Planted one(&Spin), two(&Sleep), three(&Sleep);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 2;
    setrlimit(RLIMIT_NOFILE, &limit);
    HostRun run;
    for (const Planted* thread : {&one, &two, &three}) {
      run.sampler().NoteCudaThread(thread->tid());
      const auto known = [](const SeenSample& s) { return s.state != kStateUnknown; };
      EXPECT_TRUE(run.Until([&] { return run.thread(thread->tid()).Count(known) >= 20; }));
    }
    run.Stop();
    const auto& notes = run.processes().at(static_cast<uint32_t>(getpid())).unreadable();
    EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find("EMFILE") != std::string::npos;
    }));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// Nothing can be opened at all: the descriptors are the host's to give. Why there is nothing to see
// is said.
TEST(HostSampler, AHostThatMayOpenNoFileIsSaidToBe) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers open files, and start no threads in a forked process";
#endif
  const pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    HostRun run;
    const auto said = [&run] {
      const auto it = run.processes().find(static_cast<uint32_t>(getpid()));
      if (it == run.processes().end()) return false;
      const auto& notes = it->second.unreadable();
      return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
        return note.find("cannot be opened: EMFILE") != std::string::npos;
      });
    };
    EXPECT_TRUE(run.Until(said));
    run.Stop();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(HostSampler, NoThreadOfOursIsLookedAt) {
  Planted ours(&Spin);
  Planted other(&Spin);
  HostRun run;
  run.sampler().NoteOwnThread(ours.tid());
  run.sampler().NoteCudaThread(ours.tid());
  ASSERT_TRUE(run.UntilSamples(other.tid(), 100));
  EXPECT_FALSE(run.Knows(ours.tid()));
  EXPECT_FALSE(run.Knows(run.sampler().tid()));
}

// 20,000 a minute, a good part of them noted: none may stay in a table.
TEST(HostSampler, ThreadsThatComeAndGoLeaveNothingBehind) {
  HostRun run;
  for (int i = 0; i < 1500; ++i) {
    std::thread thread([&run] { run.sampler().NoteCudaThread(Tid()); });
    thread.join();
    run.Collect();
  }
  Planted last(&Sleep);
  ASSERT_TRUE(run.Until([&] {
    run.sampler().NoteCudaThread(last.tid());
    return run.thread(last.tid()).samples.size() >= 5;
  }));
  run.Stop();
  EXPECT_LE(run.sampler().stats().watched, 5u);
}

TEST(HostSampler, IdleThreadsCostOneCallATickAndTheOthersNone) {
  Ends pipe_ends;  // closed when nobody reads any more
  std::vector<std::unique_ptr<Planted>> idle;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  for (int i = 0; i < 98; ++i) {
    idle.push_back(std::make_unique<Planted>([&](std::atomic<bool>*) {
      char c;
      while (read(pipe_ends.fds[0], &c, 1) < 0) {
      }
    }));
  }
  HostRun run;
  run.sampler().NoteCudaThread(idle[0]->tid());
  run.sampler().NoteCudaThread(idle[1]->tid());
  EXPECT_TRUE(run.UntilSamples(idle[0]->tid(), 300));
  run.Stop();
  for (size_t i = 0; i < idle.size(); ++i) EXPECT_EQ(write(pipe_ends.fds[1], "x", 1), 1);
  const HostSampler::Stats stats = run.sampler().stats();
  // Two of the three watched threads never run; the third, this one, wakes at each tick.
  EXPECT_GT(stats.unchanged, stats.looks / 2);
  // A look at a thread that has not run is one call; at one that has: two files more and a link.
  const uint64_t changed = stats.looks - stats.unchanged;
  const uint64_t looks = stats.looks + 8 * changed;
  // The round over all threads: two files each, a second, whatever the rate is.
  const auto& samples = run.thread(idle[0]->tid()).samples;
  const uint64_t seconds =
      static_cast<uint64_t>(samples.back().time_ns - samples[0].time_ns) / 1'000'000'000 + 1;
  EXPECT_LE(stats.visits, 105 * (seconds + 1));
  EXPECT_LE(stats.proc_calls, looks + 6 * stats.visits + 40 * (seconds + 1));
}

// Four waits of 0.4 s, each followed by some work. Nothing else that is looked at runs: the main
// thread waits for this one.
TEST(HostSampler, WhileNothingRunsLooksAreFewerAndNoTimeIsMissing) {
  const SamplerOptions options;
  const uint64_t period_ns = 1'000'000'000 / options.hz;
  constexpr int64_t kFileNs = 2000;  // times are written in microseconds
  std::thread([&] {
    Planted planted([](std::atomic<bool>* end) {
      for (int i = 0; i < 4; ++i) {
        usleep(400'000);
        timespec used;
        do {
          clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        } while (used.tv_sec == 0 && used.tv_nsec < (i + 1) * 20'000'000);
      }
      Sleep(end);
    });
    HostRun run(options);
    run.sampler().NoteCudaThread(planted.tid());
    const auto worked = [&] {
      return run.thread(planted.tid()).Sum(&SeenSample::cpu_ns) >= 75'000'000;
    };
    EXPECT_TRUE(run.Until(worked));
    run.Stop();
    const auto& samples = run.thread(planted.tid()).samples;
    ASSERT_GT(samples.size(), 2u);
    const auto span_ns = static_cast<uint64_t>(samples.back().time_ns - samples[0].time_ns);
    EXPECT_LT(run.sampler().stats().ticks, span_ns / period_ns * 8 / 10);
    for (size_t i = 1; i < samples.size(); ++i) {
      const SeenSample &before = samples[i - 1], &now = samples[i];
      EXPECT_NEAR(static_cast<double>(now.time_ns - before.time_ns),
                  static_cast<double>(now.interval_ns), kFileNs);
      // What follows a wait is told from where it can have begun on.
      if (before.state == kStateBlocked && !Unchanged(now)) {
        EXPECT_LE(now.interval_ns,
                  std::max(period_ns, now.cpu_ns + now.runnable_ns) + period_ns / 2 + kFileNs);
      }
    }
  }).join();
}

TEST(HostSampler, FiveHundredThreadsFitIntoTheRound) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 500; ++i) {
    threads.emplace_back([&end] {
      while (!end.load()) usleep(300'000);
    });
  }
  {
    Planted busy(&Spin);
    HostRun run;
    EXPECT_TRUE(run.UntilSamples(busy.tid(), 20));
  }
  end.store(true);
  for (std::thread& thread : threads) thread.join();
}

bool EndsIn(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A sanitizer's own library is what such code stands in most of the time.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST(HostSampler, NativeCodeOfARunningThreadIsNamed) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  Planted busy(&Spin);
  HostRun run;
  run.sampler().NoteCudaThread(busy.tid());
  // Where it may not be asked for a note says so. A thread that gets little of a CPU is read at few
  // looks.
  std::string forbidden;
  const auto is_forbidden = [&] {
    const auto it = run.processes().find(static_cast<uint32_t>(getpid()));
    if (it == run.processes().end()) return false;
    for (const std::string& note : it->second.unreadable()) {
      if (note.find("perf_event_open") != std::string::npos) forbidden = note;
    }
    return !forbidden.empty();
  };
  const auto is_named = [](const SeenSample& s) {
    return !s.stack.empty() && EndsIn(s.stack[0], "sampler_host_threads_test");
  };
  EXPECT_TRUE(
      run.Until([&] { return is_forbidden() || run.thread(busy.tid()).Count(is_named) >= 20; }));
  if (!forbidden.empty()) GTEST_SKIP() << forbidden;
}

TEST(HostSampler, NativeCodeOfABlockedThreadIsNamed) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  Planted idle(&Sleep);
  HostRun run;
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(idle.tid(), 20));
  run.Stop();
  const SeenSample& last = run.thread(idle.tid()).samples.back();
  ASSERT_FALSE(last.stack.empty());
  EXPECT_TRUE(EndsIn(last.stack[0], "sampler_host_threads_test")) << last.stack[0];
}

// The build id of the program itself, as the loader has it.
std::string OwnBuildId() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE || segment.p_align == 8) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          for (const char* end = at + segment.p_memsz; at < end;) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const char* content = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID) {
              static_cast<std::string*>(out)->assign(content, note.n_descsz);
            }
            at = content + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the program comes first
      },
      &id);
  return id;
}

TEST(HostSampler, AModuleHasItsBuildIdInEveryPiece) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  const std::string own = OwnBuildId();
  if (own.empty()) GTEST_SKIP() << "linked without a build id";
  Planted idle(&Sleep);
  HostRun run;
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(idle.tid(), 20));
  run.Stop();
  const std::string& path = run.thread(idle.tid()).samples.back().stack.at(0);
  ASSERT_GT(run.pieces(), 1u);
  EXPECT_THAT(run.modules(), Contains(Pair(path, ElementsAre(own))));
}

TEST(HostSampler, NativeCodeIsLeftOutWhereItIsNotWanted) {
  Planted busy(&Spin), idle(&Sleep);
  SamplerOptions options;
  options.native = false;
  HostRun run(options);
  run.sampler().NoteCudaThread(busy.tid());
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(busy.tid(), 30));
  for (const uint32_t tid : {busy.tid(), idle.tid()}) {
    EXPECT_EQ(run.thread(tid).Count([](const SeenSample& s) { return !s.stack.empty(); }), 0u);
  }
}

TEST(HostSampler, OffMeansNoSample) {
  SamplerOptions options;
  options.hz = 0;
  HostRun run(options);
  EXPECT_TRUE(run.sampler().WaitStopped(10'000'000'000));
  EXPECT_EQ(run.pieces(), 0u);
}

TEST(HostSampler, StopsWithinATickAndSealsWhatItHas) {
  SamplerOptions options;
  options.hz = 1;
  HostRun run(options);
  while (run.sampler().tid() == 0) std::this_thread::yield();
  run.sampler().Stop();
  EXPECT_TRUE(run.sampler().WaitStopped(900'000'000));
  run.Stop();
  EXPECT_EQ(run.pieces(), 1u);
}

// Nobody takes the pieces: they are counted, and the sampler goes on.
TEST(HostSampler, SamplesWithoutASlotAreCounted) {
  HostRun run;
  while (run.sampler().waiting() < HostSampler::kNearlyFull) usleep(10'000);
  usleep(3'000'000);
  run.Collect();
  ASSERT_TRUE(run.Until([&] { return run.last().samples_dropped() > 0; }));
}

TEST(HostSampler, StaysWithinItsMemory) {
  EXPECT_LE(HostSampler::MemoryBytes(SamplerOptions()), SamplerOptions().memory_bytes);
}

// ---- Descriptors ----

size_t OpenDescriptors() {
  size_t n = 0;
  for (int fd = 0; fd < 4096; ++fd) n += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return n;
}

TEST(HostSampler, OpensNothingInTheHostsTable) {
  const size_t before = OpenDescriptors();
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(static_cast<uint32_t>(getpid()), 5));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(OpenDescriptors(), before);
    usleep(2000);
  }
  run.Stop();
  if (!run.sampler().stats().private_descriptors) GTEST_SKIP() << "a table of its own is forbidden";
}

TEST(HostSampler, KeepsNoPipeOfTheHostOpen) {
  Ends pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.fds), 0);
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(static_cast<uint32_t>(getpid()), 5));
  close(pipe_ends.fds[1]);
  char c;
  EXPECT_EQ(read(pipe_ends.fds[0], &c, 1), 0);  // the end, at once
}

// A POSIX record lock falls when its owner closes any descriptor of the file; the sampler's closing
// of its copies is not that.
TEST(HostSampler, RecordLocksOfTheHostStay) {
  char path[] = "/tmp/gpuprobe-lock-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(fd, F_SETLK, &lock), 0);
  HostRun run;
  ASSERT_TRUE(run.UntilSamples(static_cast<uint32_t>(getpid()), 5));
  const pid_t child = fork();
  if (child == 0) {
    struct flock other = {};
    other.l_type = F_WRLCK;
    _exit(fcntl(fd, F_GETLK, &other) == 0 && other.l_type == F_WRLCK ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(fd);
  unlink(path);
}

}  // namespace
}  // namespace gpuprobe::sampler

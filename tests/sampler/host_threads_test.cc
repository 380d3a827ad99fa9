// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the sampler says about threads whose doings are known: its own process's.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "sampler/look/thread_look.h"
#include "sampler/python/python_reader.h"
#include "tests/sampler/host_run.h"
#include "tests/sampler/planted_thread.h"

namespace gpuprobe::sampler {
namespace {

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

TEST(HostSampler, HasRoomForItsOwnStacksAndThoseOfThreeChildren) {
  SamplerOptions options;
  const size_t all = HostSampler::MemoryBytes(options);
  options.python = false;
  EXPECT_GE((all - HostSampler::MemoryBytes(options)) / PythonReader::MemoryBytes(), 4u);
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

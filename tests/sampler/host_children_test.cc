// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the sampler says about child processes whose doings are known.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "sampler/look/thread_look.h"
#include "tests/sampler/host_run.h"

namespace gpuprobe::sampler {
namespace {

class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      _exit(0);
    }
  }
  Child(Child&& other) noexcept : pid_(other.pid_) { other.pid_ = -1; }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  pid_t pid_ = -1;
};

[[noreturn]] void Spin() {
  for (;;) asm volatile("");
}
void SleepLong() {
  for (;;) sleep(100);
}

bool Seen(HostRun* run, uint32_t pid, size_t samples) {
  return run->Until([&] { return run->thread(pid, pid).samples.size() >= samples; });
}

// In whatever call it stands.
TEST(HostSamplerChildren, AChildThatIsStoppedIsNotAsleep) {
  Child child(&SleepLong);
  HostRun run;
  ASSERT_TRUE(Seen(&run, child.pid(), 10));
  ASSERT_EQ(kill(static_cast<pid_t>(child.pid()), SIGSTOP), 0);
  const auto stopped = [](const SeenSample& s) { return s.state == kStateStopped; };
  EXPECT_TRUE(run.Until([&] { return run.thread(child.pid(), child.pid()).Count(stopped) >= 10; }));
}

TEST(HostSamplerChildren, WhatAChildDoesIsSeen) {
  Child busy(&Spin), idle(&SleepLong);
  HostRun run;
  ASSERT_TRUE(Seen(&run, busy.pid(), 50));
  ASSERT_TRUE(Seen(&run, idle.pid(), 50));
  run.Stop();
  const SeenThread& spinning = run.thread(busy.pid(), busy.pid());
  EXPECT_TRUE(spinning.main);
  EXPECT_EQ(spinning.samples.back().state, kStateRunning);
  const uint64_t whole = spinning.Sum(&SeenSample::interval_ns);
  EXPECT_GT(spinning.Sum(&SeenSample::cpu_ns) + spinning.Sum(&SeenSample::runnable_ns), whole / 2);
  const SeenSample& sleeping = run.thread(idle.pid(), idle.pid()).samples.back();
  EXPECT_EQ(sleeping.state, kStateBlocked);
  EXPECT_EQ(sleeping.target, "nanosleep");
  EXPECT_NE(sleeping.flags & kSampleUnchanged, 0u);
  const auto& facts = run.processes().at(busy.pid());
  EXPECT_EQ(facts.parent_pid(), static_cast<uint32_t>(getpid()));
  EXPECT_GT(facts.start_ticks(), 0u);
}

TEST(HostSamplerChildren, AChildThatIsKilledHasEndedAndItsSuccessorIsFound) {
  HostRun run;
  for (int i = 0; i < 3; ++i) {
    Child child(&Spin);
    const uint32_t pid = child.pid();
    ASSERT_TRUE(Seen(&run, pid, 5));
    EXPECT_FALSE(run.processes().at(pid).ended());
    child.Kill();
    ASSERT_TRUE(run.Until([&] { return run.processes().at(pid).ended(); }));
  }
  run.Stop();
  EXPECT_EQ(run.sampler().stats().children, 0u);
}

TEST(HostSamplerChildren, SixtyFourWorkersAreAllSeen) {
  std::vector<Child> workers;
  for (int i = 0; i < 64; ++i) workers.emplace_back(&SleepLong);
  HostRun run;
  for (const Child& worker : workers) ASSERT_TRUE(Seen(&run, worker.pid(), 3));
}

TEST(HostSamplerChildren, AGrandchildOfAForkServerIsFound) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Child server([&] {
    const pid_t worker = fork();
    if (worker == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Spin();
    }
    if (write(ends[1], &worker, sizeof worker) < 0) _exit(1);
    SleepLong();
  });
  pid_t worker = 0;
  ASSERT_EQ(read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  HostRun run;
  ASSERT_TRUE(Seen(&run, static_cast<uint32_t>(worker), 5));
  EXPECT_EQ(run.processes().at(static_cast<uint32_t>(worker)).parent_pid(), server.pid());
  close(ends[0]);
  close(ends[1]);
}

TEST(HostSamplerChildren, ABusyThreadOfAChildIsFound) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Child child([&] {
    std::thread([&] {
      const uint32_t tid = Tid();
      if (write(ends[1], &tid, sizeof tid) < 0) _exit(1);
      Spin();
    }).detach();
    SleepLong();
  });
  uint32_t tid = 0;
  ASSERT_EQ(read(ends[0], &tid, sizeof tid), static_cast<ssize_t>(sizeof tid));
  HostRun run;
  ASSERT_TRUE(run.Until([&] { return run.thread(child.pid(), tid).samples.size() >= 5; }));
  EXPECT_FALSE(run.thread(child.pid(), tid).main);
  close(ends[0]);
  close(ends[1]);
}

TEST(HostSamplerChildren, AChildThatRecordsItselfIsLeftAlone) {
  Child recorded([] {
    std::thread([] {
      pthread_setname_np(pthread_self(), "gpuprobe");
      SleepLong();
    }).detach();
    Spin();
  });
  usleep(100'000);
  Child other(&Spin);
  HostRun run;
  ASSERT_TRUE(Seen(&run, other.pid(), 50));
  EXPECT_TRUE(run.thread(recorded.pid(), recorded.pid()).samples.empty());
}

// Runs `check` in a process without privileges (root may read anything), whose memory its
// children's watcher may read: 0 where it holds.
int Unprivileged(const std::function<bool()>& check) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
    prctl(PR_SET_DUMPABLE, 1);
    _exit(check() && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

TEST(HostSamplerChildren, AChildThatMayNotBeReadIsSaidToBe) {
  EXPECT_EQ(0, Unprivileged([] {
              Child child([] {
                prctl(PR_SET_DUMPABLE, 0);
                SleepLong();
              });
              HostRun run;
              if (!Seen(&run, child.pid(), 20)) return false;
              run.Stop();
              // What anybody may know is known.
              EXPECT_EQ(run.thread(child.pid(), child.pid()).samples.back().state, kStateBlocked);
              EXPECT_THAT(run.processes().at(child.pid()).unreadable(),
                          testing::Contains(testing::HasSubstr("memory: E")));
              return true;
            }));
}

// After a change of its user a process's own /proc is root's.
TEST(HostSamplerChildren, AHostThatMayNotReadItsOwnSystemCallsStillHasStates) {
  EXPECT_EQ(0, Unprivileged([] {
              if (getuid() == 0) return true;
              prctl(PR_SET_DUMPABLE, 0);
              HostRun run;
              const uint32_t main_thread = static_cast<uint32_t>(getpid());
              if (!run.UntilSamples(main_thread, 20)) return false;
              run.Stop();
              EXPECT_GT(run.thread(main_thread).Count([](const SeenSample& s) {
                return s.state == kStateBlocked;
              }),
                        0u);
              return true;
            }));
}

// What filters of old container runtimes do (`unshare`), and kernels before 5.9.
bool Forbid(bool unshare) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 436 /* close_range */, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unshare ? SYS_unshare : ~0u, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const struct sock_fprog filter = {sizeof program / sizeof program[0], program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Samples itself and a child; expects a table of its own or none, and the host's as it was.
bool SampleInSandbox(bool forbid_unshare) {
  if (!Forbid(forbid_unshare)) return true;
  int ends[2];
  if (pipe(ends) != 0) return false;
  Child child(&SleepLong);
  HostRun run;
  const uint32_t pid = static_cast<uint32_t>(getpid());
  if (!run.UntilSamples(pid, 20) || !Seen(&run, child.pid(), 5)) return false;
  // Nobody but the host (and the child) holds the pipe.
  child.Kill();
  if (!forbid_unshare) {
    close(ends[1]);
    char c;
    EXPECT_EQ(read(ends[0], &c, 1), 0);
  }
  run.Stop();
  EXPECT_EQ(run.sampler().stats().private_descriptors, !forbid_unshare);
  bool noted = false;
  for (const std::string& note : run.processes().at(pid).unreadable()) {
    noted |= note.find("descriptor table") != std::string::npos;
  }
  EXPECT_EQ(noted, forbid_unshare);
  EXPECT_GE(fcntl(ends[0], F_GETFD), 0);
  EXPECT_EQ(fcntl(ends[1] + 1, F_GETFD), -1);  // none of ours is left
  return true;
}

TEST(HostSamplerChildren, WithoutATableOfItsOwnItKeepsNoDescriptor) {
  EXPECT_EQ(0, Unprivileged([] { return SampleInSandbox(/*forbid_unshare=*/true); }));
}

TEST(HostSamplerChildren, WithoutCloseRangeItsTableIsStillEmpty) {
  EXPECT_EQ(0, Unprivileged([] { return SampleInSandbox(/*forbid_unshare=*/false); }));
}

// Where the interpreter is absent the child ends at once.
TEST(HostSamplerChildren, TheLineOfAPythonWorkerIsSeen) {
  if (std::system("python3 -c pass 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  Child worker([] {
    execlp("python3", "python3", "-c",
           "def decode():\n while True: sum(i for i in range(1000))\ndecode()", nullptr);
  });
  HostRun run;
  const auto in_decode = [&] {
    return run.thread(worker.pid(), worker.pid()).Count([](const SeenSample& s) {
      for (const std::string& frame : s.stack) {
        if (frame.find("decode") != std::string::npos) return true;
      }
      return false;
    });
  };
  ASSERT_TRUE(run.Until([&] {
    return in_decode() >= 20 || (run.KnowsProcess(worker.pid()) &&
                                 run.processes().at(worker.pid()).unreadable_size() != 0);
  }));
  const auto& facts = run.processes().at(worker.pid());
  if (facts.unreadable_size() != 0) GTEST_SKIP() << facts.unreadable(0);
  EXPECT_EQ(facts.python_version().substr(0, 2), "3.");
}

// A thread of ours that forks keeps its children in a list of its own.
TEST(HostSamplerChildren, AChildOfAnotherThreadIsFound) {
  std::atomic<uint32_t> pid{0};
  std::atomic<bool> end{false};
  std::thread forker([&] {
    const pid_t child = fork();
    if (child == 0) Spin();
    pid.store(static_cast<uint32_t>(child));
    while (!end.load()) usleep(1000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  });
  while (pid.load() == 0) usleep(1000);
  {
    HostRun run;
    EXPECT_TRUE(Seen(&run, pid.load(), 5));
  }
  end.store(true);
  forker.join();
}

TEST(HostSamplerChildren, AreLeftOutWhereTheyAreNotWanted) {
  Child child(&Spin);
  SamplerOptions options;
  options.children = false;
  HostRun run(options);
  ASSERT_TRUE(run.UntilSamples(static_cast<uint32_t>(getpid()), 150));
  EXPECT_FALSE(run.KnowsProcess(child.pid()));
}

}  // namespace
}  // namespace gpuprobe::sampler

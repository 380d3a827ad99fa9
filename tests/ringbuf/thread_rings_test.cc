// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/thread_rings.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gpuprobe {
namespace {

constinit ThreadRings g_constinit_rings;

uint32_t Tid() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

SessionEvent Event(int64_t time_ns, const char* text = "") {
  SessionEvent event = {};
  event.time_ns = time_ns;
  event.kind = EventKind::kCallSite;
  event.SetText(text);
  return event;
}

std::vector<SessionEvent> Drain(ThreadRings* rings) {
  std::vector<SessionEvent> events;
  const size_t count = rings->Consume([&events](const SessionEvent& e) { events.push_back(e); });
  EXPECT_EQ(count, events.size());
  return events;
}

// Runs `f` on a thread of its own and returns when the kernel no longer knows that thread: join
// returns a little earlier, when the thread has told its joiner but not yet gone.
template <typename F>
void RunToTheEnd(F f) {
  uint32_t tid = 0;
  std::thread thread([&] {
    tid = Tid();
    f();
  });
  thread.join();
  while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) usleep(100);
}

TEST(SessionEventTest, TextIsCutTerminatedAndPaddedWithZeros) {
  SessionEvent event;
  memset(&event, 0xff, sizeof(event));
  event.SetText("libtorch_cpu.so");
  EXPECT_STREQ(event.text, "libtorch_cpu.so");
  EXPECT_EQ(event.text[SessionEvent::kTextBytes - 1], '\0');
  event.SetText(std::string(100, 'x').c_str());
  EXPECT_EQ(std::string(event.text), std::string(SessionEvent::kTextBytes - 1, 'x'));
  event.SetText(nullptr);
  EXPECT_EQ(std::string(event.text, sizeof(event.text)), std::string(sizeof(event.text), '\0'));
}

TEST(ThreadRingsTest, BeforeInitNothingHappens) {
  EXPECT_FALSE(g_constinit_rings.Push(Event(1)));
  EXPECT_TRUE(Drain(&g_constinit_rings).empty());
  g_constinit_rings.ReclaimEnded();
  g_constinit_rings.StopInForkChild();
  DropRange drops;
  EXPECT_FALSE(g_constinit_rings.TakeDrops(&drops));
  EXPECT_EQ(g_constinit_rings.stats().rings_in_use, 0u);
}

TEST(ThreadRingsTest, WrongArgumentsAreRefused) {
  ThreadRings rings;
  EXPECT_FALSE(rings.Init(0, 8));
  EXPECT_FALSE(rings.Init(ThreadRings::kMaxRings + 1, 8));
  EXPECT_FALSE(rings.Init(1, 0));
  EXPECT_FALSE(rings.Init(1, 12));
  EXPECT_FALSE(rings.Init(1, 1u << 31));
  EXPECT_FALSE(rings.Push(Event(1)));
  EXPECT_TRUE(rings.Init());
  EXPECT_FALSE(rings.Init()) << "twice";
  EXPECT_TRUE(rings.Push(Event(1)));
}

TEST(ThreadRingsTest, EventsArriveInOrderWithTheThreadThatMadeThem) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(2, 8));
  EXPECT_TRUE(rings.Push(Event(10, "a")));
  EXPECT_TRUE(rings.Push(Event(11, "b")));
  uint32_t other = 0;
  RunToTheEnd([&] {
    other = Tid();
    EXPECT_TRUE(rings.Push(Event(5, "c")));
  });
  const std::vector<SessionEvent> events = Drain(&rings);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].time_ns, 10);
  EXPECT_EQ(events[1].time_ns, 11);
  EXPECT_EQ(events[2].time_ns, 5);
  EXPECT_STREQ(events[1].text, "b");
  EXPECT_EQ(events[0].kind, EventKind::kCallSite);
  EXPECT_EQ(events[0].thread, Tid());
  EXPECT_EQ(events[1].thread, Tid());
  EXPECT_EQ(events[2].thread, other);
  EXPECT_TRUE(Drain(&rings).empty());
  EXPECT_EQ(rings.stats().claims, 2u);
  EXPECT_EQ(rings.stats().dropped, 0u);
}

TEST(ThreadRingsTest, FullRingDropsAndTellsWhen) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(1, 4));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rings.Push(Event(100 + i)), i < 4);
  DropRange drops;
  ASSERT_TRUE(rings.TakeDrops(&drops));
  EXPECT_EQ(drops.count, 6u);
  EXPECT_EQ(drops.first_ns, 104);
  EXPECT_EQ(drops.last_ns, 109);
  EXPECT_FALSE(rings.TakeDrops(&drops));
  EXPECT_EQ(Drain(&rings).size(), 4u);
  EXPECT_TRUE(rings.Push(Event(200)));
}

TEST(ThreadRingsTest, ThreadWithoutARingDropsAndTellsWhen) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(1, 1));
  EXPECT_TRUE(rings.Push(Event(50)));
  EXPECT_FALSE(rings.Push(Event(60)));  // this thread's ring is full
  RunToTheEnd([&] {
    EXPECT_FALSE(rings.Push(Event(40)));
    EXPECT_FALSE(rings.Push(Event(45)));
  });
  DropRange drops;
  ASSERT_TRUE(rings.TakeDrops(&drops));
  EXPECT_EQ(drops.count, 3u);
  EXPECT_EQ(drops.first_ns, 40);
  EXPECT_EQ(drops.last_ns, 60);
  EXPECT_EQ(rings.stats().dropped, 3u);
  EXPECT_EQ(rings.stats().claims, 1u);
}

TEST(ThreadRingsTest, RingOfAnEndedThreadServesAnotherAndLosesNothing) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(1, 8));
  RunToTheEnd([&] { EXPECT_TRUE(rings.Push(Event(1, "first"))); });
  RunToTheEnd([&] { EXPECT_FALSE(rings.Push(Event(2, "no ring"))) << "not taken back yet"; });
  rings.ReclaimEnded();
  EXPECT_EQ(rings.stats().rings_in_use, 0u);
  RunToTheEnd([&] { EXPECT_TRUE(rings.Push(Event(3, "second"))); });
  const std::vector<SessionEvent> events = Drain(&rings);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].text, "first");
  EXPECT_STREQ(events[1].text, "second");
  EXPECT_NE(events[0].thread, events[1].thread);
  EXPECT_EQ(rings.stats().claims, 2u);
  EXPECT_EQ(rings.stats().reclaims, 1u);
}

TEST(ThreadRingsTest, RingOfALivingThreadIsNotTakenBack) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(4, 8));
  std::atomic<int> step{0};
  std::thread sleeper([&] {
    EXPECT_TRUE(rings.Push(Event(1)));
    step = 1;
    while (step != 2) usleep(100);
    EXPECT_TRUE(rings.Push(Event(2)));
  });
  EXPECT_TRUE(rings.Push(Event(3)));
  while (step != 1) usleep(100);
  rings.ReclaimEnded();
  EXPECT_EQ(rings.stats().reclaims, 0u);
  EXPECT_EQ(rings.stats().rings_in_use, 2u);
  step = 2;
  sleeper.join();
  EXPECT_EQ(rings.stats().claims, 2u);
  EXPECT_EQ(Drain(&rings).size(), 3u);
}

TEST(ThreadRingsTest, OneThreadMayUseSeveralRegistries) {
  ThreadRings a, b;
  ASSERT_TRUE(a.Init(2, 64));
  ASSERT_TRUE(b.Init(2, 64));
  RunToTheEnd([&] { EXPECT_TRUE(b.Push(Event(-1))); });  // so that the slots differ
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(a.Push(Event(i)));
    EXPECT_TRUE(b.Push(Event(100 + i)));
  }
  EXPECT_EQ(a.stats().claims, 1u);
  EXPECT_EQ(b.stats().claims, 2u);
  const std::vector<SessionEvent> from_a = Drain(&a), from_b = Drain(&b);
  ASSERT_EQ(from_a.size(), 10u);
  ASSERT_EQ(from_b.size(), 11u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(from_a[i].time_ns, i);
    EXPECT_EQ(from_b[i + 1].time_ns, 100 + i);
  }
}

// A signal handler that records while the interrupted thread is recording. The interruption is
// forced: the event lies in a page that cannot be read until the handler has run.
struct Interruption {
  ThreadRings* rings;
  void* page;
  bool pushed;
} g_interruption;

TEST(ThreadRingsTest, PushFromASignalHandlerInsideAPushIsDroppedAndCounted) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(1, 8));
  ASSERT_TRUE(rings.Push(Event(1)));
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  *static_cast<SessionEvent*>(page) = Event(2, "interrupted");
  ASSERT_EQ(mprotect(page, 4096, PROT_NONE), 0);
  g_interruption = {&rings, page, true};
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {
    g_interruption.pushed = g_interruption.rings->Push(Event(3, "handler"));
    mprotect(g_interruption.page, 4096, PROT_READ);
  };
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  const bool pushed = rings.Push(*static_cast<SessionEvent*>(page));
  ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  EXPECT_TRUE(pushed);
  EXPECT_FALSE(g_interruption.pushed);
  const std::vector<SessionEvent> events = Drain(&rings);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[1].text, "interrupted");
  DropRange drops;
  ASSERT_TRUE(rings.TakeDrops(&drops));
  EXPECT_EQ(drops.count, 1u);
  EXPECT_EQ(drops.first_ns, 3);
  EXPECT_TRUE(rings.Push(Event(4))) << "the guard is open again";
  munmap(page, 4096);
}

// Runs `f` in a forked child and returns its exit code, -1 for a crash.
template <typename F>
int InForkedChild(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ThreadRingsTest, ForkedChildDoesNothingAndTheParentGoesOn) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    GTEST_SKIP() << "MADV_WIPEONFORK needs Linux 4.14; StoppedCopyDoesNothing covers the rest";
  }
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(2, 8));
  ASSERT_TRUE(rings.Push(Event(1)));
  const ThreadRings::Stats before = rings.stats();
  const int result = InForkedChild([&] {
    for (int i = 0; i < 20; ++i) {
      if (rings.Push(Event(100))) return 1;
    }
    rings.ReclaimEnded();  // all threads but one are gone here, and that one has another tid
    const ThreadRings::Stats after = rings.stats();
    return after.dropped == before.dropped && after.reclaims == before.reclaims ? 0 : 2;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(rings.Push(Event(2)));
  const std::vector<SessionEvent> events = Drain(&rings);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].time_ns, 2);
}

TEST(ThreadRingsTest, StoppedCopyDoesNothing) {
  ThreadRings rings;
  ASSERT_TRUE(rings.Init(2, 8));
  const int result = InForkedChild([&] {
    rings.StopInForkChild();
    return rings.Push(Event(1)) ? 1 : 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(rings.Push(Event(2)));
  rings.StopInForkChild();  // here too, where the kernel has wiped nothing
  EXPECT_FALSE(rings.Push(Event(3)));
  EXPECT_EQ(rings.stats().dropped, 0u);
}

}  // namespace
}  // namespace gpuprobe

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The table of watched threads, ticked by hand.
#include "sampler/watched/own_threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/gpuprobe.pb.h"
#include "proto/sample_columns.h"
#include "sampler/look_rate.h"
#include "sampler/native/native_leaf.h"
#include "sampler/native/running_ip.h"
#include "sampler/system/clocks.h"

namespace gpuprobe::sampler {
namespace {

// Sleeps until the test is over.
class Sleeper {
 public:
  Sleeper()
      : thread_([this] {
          tid_.store(static_cast<uint32_t>(syscall(SYS_gettid)));
          tid_.notify_one();
          end_.wait(false);
        }) {
    tid_.wait(0);
  }
  ~Sleeper() {
    end_.store(true);
    end_.notify_one();
    thread_.join();
  }
  uint32_t tid() const { return tid_.load(); }

 private:
  std::atomic<uint32_t> tid_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

// Runs until the test is over.
class Spinner {
 public:
  Spinner()
      : thread_([this] {
          tid_.store(static_cast<uint32_t>(syscall(SYS_gettid)));
          tid_.notify_one();
          while (!end_.load()) sched_yield();  // stays runnable, and lets others start
        }) {
    tid_.wait(0);
  }
  ~Spinner() {
    end_.store(true);
    thread_.join();
  }
  uint32_t tid() const { return tid_.load(); }

 private:
  std::atomic<uint32_t> tid_{0};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

class OwnThreadsTest : public testing::Test {
 protected:
  OwnThreadsTest() {
    EXPECT_TRUE(locations_.Init(location_memory_.data(), location_memory_.size()));
    output_.Init(output_memory_.get(), &locations_, 0);
    EXPECT_TRUE(Describe(static_cast<uint32_t>(getpid()), &self_));
    tools_.locations = &locations_;
    threads_.Init(thread_memory_.data(), self_.pid, {&self_, &tools_, &output_, nullptr});
    output_.Begin(MonotonicNs());
  }

  void Tick() {
    ++ticks_;
    threads_.LookAtAll(MonotonicNs(), ticks_, rate_.busy_stride(threads_.busy()));
  }

  HostSamples Seal() {
    output_.Seal(MonotonicNs(), {});
    const uint8_t* data;
    size_t bytes;
    HostSamples piece;
    if (!output_.pieces()->Take(&data, &bytes)) return piece;
    EXPECT_TRUE(piece.ParseFromArray(data, static_cast<int>(bytes)));
    output_.pieces()->Release();
    return piece;
  }

  std::vector<uint8_t> location_memory_ = std::vector<uint8_t>(768 << 10);
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::unique_ptr<Line[]> output_memory_ =
      std::make_unique<Line[]>(SampleOutput::kMemoryBytes / sizeof(Line));
  std::vector<uint64_t> thread_memory_ = std::vector<uint64_t>(OwnThreads::kMemoryBytes / 8);
  LocationTable locations_;
  SampleOutput output_;
  SampledProcess self_;
  LookTools tools_;
  LookRate rate_;
  OwnThreads threads_;
  uint64_t ticks_ = 0;
};

// More busy threads than one tick takes: each has as many looks as the others, and the intervals of
// its samples leave nothing out between its first look and its last.
TEST_F(OwnThreadsTest, BusyThreadsInTurnsAllGetTheirShare) {
  constexpr size_t kThreads = 40;
  constexpr uint32_t kTurns = 5;
  std::vector<Sleeper> sleepers(kThreads);
  for (const Sleeper& s : sleepers) threads_.Watch(s.tid(), kRoleBusy);
  Tick();
  EXPECT_EQ(tools_.looks, kThreads);  // the first look at each
  const uint32_t stride = rate_.busy_stride(threads_.busy());
  ASSERT_EQ(stride, 3u);
  for (uint32_t i = 0; i < kTurns * stride; ++i) {
    const uint64_t before = tools_.looks;
    Tick();
    EXPECT_LE(tools_.looks - before, 16u);
  }
  const HostSamples piece = Seal();
  ASSERT_EQ(piece.threads_size(), static_cast<int>(kThreads));
  proto::SampleTables tables;
  proto::Decode(piece, &tables);
  for (const ThreadSamples& thread : piece.threads()) {
    proto::SampleColumns c;
    proto::Decode(thread, piece, tables, &c);
    ASSERT_EQ(c.count, 1 + kTurns) << thread.tid();
    int64_t covered_ns = 0;
    for (size_t i = 1; i < c.count; ++i) covered_ns += c.interval_ns[i];
    EXPECT_EQ(covered_ns, c.time_ns[c.count - 1] - c.time_ns[0]) << thread.tid();
  }
}

// Those that call CUDA are not among them.
TEST_F(OwnThreadsTest, AThreadThatCallsCudaIsLookedAtAtEachTick) {
  std::vector<Sleeper> sleepers(20);
  for (const Sleeper& s : sleepers) threads_.Watch(s.tid(), kRoleBusy);
  threads_.Watch(sleepers[7].tid(), kRoleCuda);
  for (int i = 0; i < 6; ++i) Tick();
  const HostSamples piece = Seal();
  proto::SampleTables tables;
  proto::Decode(piece, &tables);
  for (const ThreadSamples& thread : piece.threads()) {
    proto::SampleColumns c;
    proto::Decode(thread, piece, tables, &c);
    if (thread.tid() == sleepers[7].tid()) {
      EXPECT_EQ(c.count, 6u);
    } else {
      EXPECT_LE(c.count, 4u);
    }
  }
}

// What is found out about a process after its first sample is still said, once.
TEST_F(OwnThreadsTest, AProcessIsDescribedAsItIsKnownAtTheEndOfThePiece) {
  Sleeper sleeper;
  threads_.Watch(sleeper.tid(), kRoleMain);
  Tick();
  AddNote(&self_, "something", "late");
  Tick();
  const HostSamples piece = Seal();
  ASSERT_EQ(piece.processes_size(), 1);
  ASSERT_EQ(piece.processes(0).unreadable_size(), 1);
  EXPECT_EQ(piece.processes(0).unreadable(0), "something: late");
}

// A thread that has not run is told by its CPU clock, without a file of /proc; one that has, is
// not.
TEST_F(OwnThreadsTest, AThreadThatHasNotRunCostsNoFile) {
  tools_.own_pid = self_.pid;
  Sleeper sleeper;
  const auto unchanged = [&] { return tools_.unchanged; };
  threads_.Watch(sleeper.tid(), kRoleMain);
  // Asleep for good: several times in a row.
  for (int i = 0; i < 10'000 && unchanged() < 5; ++i) {
    const uint64_t changed = tools_.looks - unchanged();
    Tick();
    if (tools_.looks - unchanged() != changed) tools_.unchanged = tools_.looks = 0;
    usleep(1000);
  }
  ASSERT_EQ(unchanged(), 5u);
  const uint64_t before = TheProcCounters().total();
  for (int i = 0; i < 10; ++i) Tick();
  EXPECT_EQ(unchanged(), 15u);
  EXPECT_EQ(TheProcCounters().total(), before);
}

TEST_F(OwnThreadsTest, AThreadThatHasEndedIsLetGoOf) {
  tools_.own_pid = self_.pid;
  auto sleeper = std::make_unique<Sleeper>();
  threads_.Watch(sleeper->tid(), kRoleCuda);
  Tick();
  Tick();
  EXPECT_EQ(threads_.watched(), 1u);
  sleeper.reset();
  Tick();
  EXPECT_EQ(threads_.watched(), 0u);
}

TEST_F(OwnThreadsTest, ThreadsBeyondThePlacesAreSaidToBeLeftOut) {
  std::vector<Sleeper> sleepers(OwnThreads::kMaxCuda + 1);
  for (const Sleeper& s : sleepers) threads_.Watch(s.tid(), kRoleCuda);
  EXPECT_EQ(threads_.watched(), OwnThreads::kMaxCuda);
  ASSERT_EQ(self_.note_count, 1u);
  EXPECT_NE(std::string(self_.notes[0]).find("threads that call CUDA"), std::string::npos);
}

TEST_F(OwnThreadsTest, MoreRunningThreadsThanAreAskedForTheirNativeCodeAreSaidToBe) {
  std::vector<uint64_t> native_memory(NativeLeaf::kMemoryBytes / 8);
  NativeLeaf native;
  native.Init(native_memory.data(), self_.pid);
  RunningIp running;
  running.Init(5'000'000);
  tools_.native = &native;
  tools_.running = &running;
  std::vector<Spinner> spinners(RunningIp::kMaxThreads);
  for (const Spinner& s : spinners) threads_.Watch(s.tid(), kRoleCuda);
  Tick();
  if (running.forbidden() != 0) GTEST_SKIP() << "perf_event_open: " << running.forbidden();
  EXPECT_TRUE(running.full());
  EXPECT_EQ(self_.note_count, 0u);
  const Spinner one_more;
  threads_.Watch(one_more.tid(), kRoleCuda);
  Tick();
  ASSERT_EQ(self_.note_count, 1u);
  EXPECT_EQ(std::string(self_.notes[0]),
            "native code of running threads: of 32 at once, of more not");
}

}  // namespace
}  // namespace gpuprobe::sampler

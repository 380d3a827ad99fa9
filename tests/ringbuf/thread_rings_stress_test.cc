// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// More threads than rings, threads that come and go, and a drain thread that reads and takes back.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ringbuf/thread_rings.h"

namespace gpuprobe {
namespace {

// Each thread numbers itself and its attempts: time_ns = number << 32 | attempt.
class Traffic {
 public:
  Traffic(uint32_t rings, uint32_t events) { EXPECT_TRUE(rings_.Init(rings, events)); }

  // What one application thread does.
  void Say(uint32_t count) {
    const int64_t number = threads_.fetch_add(1) + 1;
    uint64_t accepted = 0;
    SessionEvent event = {};
    event.kind = EventKind::kCallSite;
    event.SetText("where");
    for (uint32_t i = 0; i < count; ++i) {
      event.time_ns = number << 32 | i;
      accepted += rings_.Push(event);
      if (i % 32 == 31) sched_yield();
    }
    attempts_ += count;
    accepted_ += accepted;
  }

  // What the drain thread does, until `stop`.
  void Drain(const std::atomic<bool>& stop) {
    for (uint32_t n = 0;; ++n) {
      const bool last = stop.load(std::memory_order_acquire);
      rings_.Consume([this](const SessionEvent& event) { Check(event); });
      DropRange drops;
      if (rings_.TakeDrops(&drops)) {
        dropped_ += drops.count;
        wrong_ranges_ += drops.first_ns > drops.last_ns || drops.first_ns < int64_t{1} << 32;
      }
      if (n % 4 == 0) rings_.ReclaimEnded();
      if (last) break;
      sched_yield();
    }
  }

  void ExpectAllAccountedFor() {
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(wrong_ranges_, 0u);
    EXPECT_EQ(received_, accepted_.load());
    EXPECT_EQ(dropped_, attempts_.load() - accepted_.load());
    EXPECT_EQ(rings_.stats().dropped, dropped_);
    EXPECT_GT(received_, 0u);
  }
  ThreadRings& rings() { return rings_; }
  uint64_t dropped() const { return dropped_; }

 private:
  void Check(const SessionEvent& event) {
    ++received_;
    const int64_t number = event.time_ns >> 32;
    const int64_t attempt = event.time_ns & 0xffffffff;
    auto [it, first] = last_.try_emplace(number, attempt);
    const bool in_order = first || attempt > it->second;
    it->second = attempt;
    const bool same_thread = tid_.try_emplace(number, event.thread).first->second == event.thread;
    wrong_ += !in_order || !same_thread || event.kind != EventKind::kCallSite ||
              std::string_view(event.text) != "where";
  }

  ThreadRings rings_;
  std::atomic<int64_t> threads_{0};
  std::atomic<uint64_t> attempts_{0}, accepted_{0};
  std::map<int64_t, int64_t> last_;  // of each thread, the last attempt that arrived
  std::map<int64_t, uint32_t> tid_;
  uint64_t received_ = 0, dropped_ = 0, wrong_ = 0, wrong_ranges_ = 0;
};

TEST(ThreadRingsStressTest, EventsOfEightThreadsAreReceivedInOrderOrCounted) {
  Traffic traffic(8, 64);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { traffic.Say(20'000); });
  std::thread drain([&] { traffic.Drain(stop); });
  for (std::thread& thread : threads) thread.join();
  stop.store(true, std::memory_order_release);
  drain.join();
  traffic.ExpectAllAccountedFor();
  EXPECT_EQ(traffic.rings().stats().claims, 8u);
}

TEST(ThreadRingsStressTest, ThreadsThatComeAndGoShareAFewRings) {
  Traffic traffic(3, 16);
  std::atomic<bool> stop{false};
  std::thread drain([&] { traffic.Drain(stop); });
  std::vector<std::thread> spawners;
  for (int s = 0; s < 4; ++s) {
    spawners.emplace_back([&] {
      for (int i = 0; i < 100; ++i) std::thread([&] { traffic.Say(64); }).join();
    });
  }
  for (std::thread& thread : spawners) thread.join();
  stop.store(true, std::memory_order_release);
  drain.join();
  traffic.ExpectAllAccountedFor();
  EXPECT_GT(traffic.rings().stats().reclaims, 0u);
  EXPECT_GT(traffic.rings().stats().claims, 3u) << "no ring ever changed hands";
}

}  // namespace
}  // namespace gpuprobe

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does it cost an application thread to hand something to the drain thread, and does anything
// get lost at 5 M records/s?
//
//   bench_ring [--smoke | --rate SECONDS]
//
// --rate: only what gets lost at that rate, for so long.
//
// The producer-alone numbers are the ones to compare between versions. Numbers with two threads
// depend on where the host puts them (3-13x between runs of one binary on a virtual machine): read
// the ratios, and only between contenders of one run. std::mutex + std::deque is the yardstick.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "ringbuf/activity_buffers.h"
#include "ringbuf/buffer_pool.h"
#include "ringbuf/spsc_ring.h"
#include "ringbuf/thread_rings.h"

namespace gpuprobe::bench {
namespace {

constexpr double kRecordsPerSecond = 5e6;  // the budget
constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr double kRecordBytes = 82;  // CUPTI's structures, mean of a realistic mix
constexpr double kRecordsPerBuffer = kBufferBytes / kRecordBytes;
// What the session has for buffers under its default cap, and their default size.
constexpr size_t kSessionBytes = size_t{33} << 20, kSessionBufferBytes = size_t{128} << 10;
constexpr double kRecordsPerSessionBuffer = kSessionBufferBytes / kRecordBytes;

struct Bytes8 {
  uint64_t word;
};
struct Bytes64 {
  uint64_t words[8];
};

template <typename T>
class LockedDeque {
 public:
  bool TryPush(const T& element) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (elements_.size() >= kCapacity) return false;
    elements_.push_back(element);
    return true;
  }
  template <typename Fn>
  size_t Consume(Fn&& fn) {
    std::deque<T> batch;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      batch.swap(elements_);
    }
    for (const T& element : batch) fn(std::span<const T>(&element, 1));
    return batch.size();
  }

  static constexpr size_t kCapacity = 8192;

 private:
  std::mutex mutex_;
  std::deque<T> elements_;
};

template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity = kCapacity) : memory_(capacity) {
    if (!ring_.Init(memory_.data(), capacity)) std::abort();
  }
  bool TryPush(const T& element) { return ring_.TryPush(element); }
  template <typename Fn>
  size_t Consume(Fn&& fn) {
    return ring_.Consume(fn);
  }
  SpscRing<T>& ring() { return ring_; }

  static constexpr size_t kCapacity = 8192;

 private:
  std::vector<T> memory_;
  SpscRing<T> ring_;
};

// Consumers look at every element.
template <typename T>
void Look(std::span<const T> run) {
  uint64_t sum = 0;
  for (const T& element : run) {
    uint64_t word;
    memcpy(&word, &element, sizeof(word));
    sum += word;
  }
  Keep(sum);
}

// ns per push while the consumer rests; emptying is not timed.
template <typename Queue, typename T>
double PushAlone(Queue& queue, int batches) {
  constexpr int kBatch = 1024;
  T element = {};
  int64_t spent_ns = 0;
  for (int b = 0; b < batches; ++b) {
    const int64_t begin_ns = NowNs();
    for (int i = 0; i < kBatch; ++i) {
      Keep(element);  // a new element each time
      Keep(queue.TryPush(element));
    }
    spent_ns += NowNs() - begin_ns;
    queue.Consume(Look<T>);
  }
  return static_cast<double>(spent_ns) / (static_cast<double>(batches) * kBatch);
}

double ThreadRingsPushAlone(int batches) {
  static ThreadRings* rings = [] {
    auto* r = new ThreadRings;
    if (!r->Init(4, 1024)) std::abort();
    return r;
  }();
  SessionEvent event = {};
  int64_t spent_ns = 0;
  for (int b = 0; b < batches; ++b) {
    const int64_t begin_ns = NowNs();
    for (int i = 0; i < 1024; ++i) {
      Keep(event);
      Keep(rings->Push(event));
    }
    spent_ns += NowNs() - begin_ns;
    rings->Consume([](const SessionEvent& e) { Keep(e.time_ns); });
  }
  return static_cast<double>(spent_ns) / (batches * 1024.0);
}

// ns per element from the first push to the last pop, one producer and one consumer at full speed.
template <typename Queue, typename T>
double OneToOne(Queue& queue, int64_t count) {
  const int64_t begin_ns = NowNs();
  std::thread producer([&queue, count] {
    T element = {};
    for (int64_t i = 0; i < count; ++i) {
      Keep(element);
      while (!queue.TryPush(element)) sched_yield();
    }
  });
  for (int64_t left = count; left > 0;) {
    const size_t got = queue.Consume(Look<T>);
    if (got == 0) sched_yield();
    left -= static_cast<int64_t>(got);
  }
  const int64_t end_ns = NowNs();
  producer.join();
  return static_cast<double>(end_ns - begin_ns) / static_cast<double>(count);
}

// Acquire + complete + pop + release of one buffer, by `threads` threads that request and complete,
// and the calling one that drains. ns of processor time per buffer, of all threads together: wall
// time would measure who else is on the machine.
class PoolRound {
 public:
  PoolRound(uint32_t threads, uint32_t each) : threads_(threads), each_(each) {
    if (!pool_.Init(65536, 64)) std::abort();
  }
  double operator()() {
    const int64_t begin_ns = CpuNs();
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < threads_; ++t) {
      threads.emplace_back([this] {
        for (uint32_t i = 0; i < each_;) {
          uint8_t* data = pool_.Acquire();
          if (data == nullptr) {
            sched_yield();
            continue;
          }
          data[0] = 1;
          pool_.PushCompleted(data, 64, 0, 0);
          ++i;
        }
      });
    }
    for (uint64_t left = uint64_t{threads_} * each_; left > 0;) {
      CompletedBuffer* buffer = pool_.PopAllCompleted();
      if (buffer == nullptr) sched_yield();
      while (buffer != nullptr) {
        CompletedBuffer* next = buffer->next;
        pool_.Release(buffer);
        buffer = next;
        --left;
      }
    }
    for (std::thread& thread : threads) thread.join();
    return static_cast<double>(CpuNs() - begin_ns) / (static_cast<double>(threads_) * each_);
  }

 private:
  const uint32_t threads_, each_;
  BufferPool pool_;
};

// The same work with a mutex, a deque of free buffers and one of completed ones.
class LockedPoolRound {
 public:
  LockedPoolRound(uint32_t threads, uint32_t each)
      : memory_(64 * 65536), threads_(threads), each_(each) {
    for (size_t i = 0; i < 64; ++i) free_.push_back(&memory_[i * 65536]);
  }
  double operator()() {
    const int64_t begin_ns = CpuNs();
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < threads_; ++t) {
      threads.emplace_back([this] {
        for (uint32_t i = 0; i < each_;) {
          uint8_t* data = Acquire();
          if (data == nullptr) {
            sched_yield();
            continue;
          }
          data[0] = 1;
          std::lock_guard<std::mutex> lock(mutex_);
          completed_.push_back({data, 64});
          ++i;
        }
      });
    }
    for (uint64_t left = uint64_t{threads_} * each_; left > 0;) {
      std::deque<std::pair<uint8_t*, size_t>> batch;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        batch.swap(completed_);
      }
      if (batch.empty()) sched_yield();
      for (auto& [data, bytes] : batch) {
        memset(data, 0, 4096);
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(data);
        --left;
      }
    }
    for (std::thread& thread : threads) thread.join();
    return static_cast<double>(CpuNs() - begin_ns) / (static_cast<double>(threads_) * each_);
  }

 private:
  uint8_t* Acquire() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return nullptr;
    uint8_t* data = free_.back();
    free_.pop_back();
    return data;
  }
  std::vector<uint8_t> memory_;
  const uint32_t threads_, each_;
  std::mutex mutex_;
  std::deque<uint8_t*> free_;
  std::deque<std::pair<uint8_t*, size_t>> completed_;
};

// One thread plays CUPTI and the drain: the calls alone, without waiting for each other.
double PoolAlone(BufferPool& pool, int rounds, double* request_and_complete_ns) {
  int64_t application_ns = 0;
  const int64_t begin_ns = NowNs();
  constexpr int kBatch = 32;
  for (int r = 0; r < rounds; ++r) {
    const int64_t batch_ns = NowNs();
    for (int i = 0; i < kBatch; ++i) {
      uint8_t* data = pool.Acquire();
      pool.PushCompleted(data, 0, 0, 0);
    }
    application_ns += NowNs() - batch_ns;
    for (CompletedBuffer* buffer = pool.PopAllCompleted(); buffer != nullptr;) {
      CompletedBuffer* next = buffer->next;
      pool.Release(buffer);
      buffer = next;
    }
  }
  *request_and_complete_ns =
      std::min(*request_and_complete_ns,
               static_cast<double>(application_ns) / (static_cast<double>(rounds) * kBatch));
  return static_cast<double>(NowNs() - begin_ns) / (static_cast<double>(rounds) * kBatch);
}

// 64-byte records one by one through a ring at the given rate, with a consumer that wakes every
// millisecond, as the drain thread does.
void RecordsAtRate(double seconds) {
  constexpr size_t kCapacity = 65536;
  Ring<Bytes64> queue(kCapacity);
  std::atomic<bool> done{false};
  uint64_t received = 0;
  constexpr int64_t kHoldsNs = static_cast<int64_t>(kCapacity / kRecordsPerSecond * 1e9);
  int64_t away_ns = 0, too_long_ns = 0;
  int absences = 0;
  std::thread consumer([&] {
    int64_t before_ns = NowNs();
    while (true) {
      const bool last = done.load(std::memory_order_acquire);
      received += queue.Consume(Look<Bytes64>);
      const int64_t now_ns = NowNs();
      away_ns = std::max(away_ns, now_ns - before_ns);
      if (now_ns - before_ns > kHoldsNs) {
        ++absences;
        too_long_ns += now_ns - before_ns - kHoldsNs;
      }
      before_ns = now_ns;
      if (last) break;
      const timespec period = {0, 1'000'000};
      nanosleep(&period, nullptr);
    }
  });
  constexpr int kBurst = 64;
  const int64_t begin_ns = NowNs();
  int64_t late_ns = 0;
  uint64_t pushed = 0;
  Bytes64 record = {};
  for (; pushed < static_cast<uint64_t>(seconds * kRecordsPerSecond); pushed += kBurst) {
    const int64_t due_ns =
        begin_ns + static_cast<int64_t>(1e9 / kRecordsPerSecond * static_cast<double>(pushed));
    int64_t now_ns = NowNs();
    while (now_ns < due_ns) now_ns = NowNs();
    late_ns = std::max(late_ns, now_ns - due_ns);
    for (int i = 0; i < kBurst; ++i) {
      Keep(record);
      queue.ring().Push(record, now_ns);
    }
  }
  const double took_s = static_cast<double>(NowNs() - begin_ns) / 1e9;
  done.store(true, std::memory_order_release);
  consumer.join();
  std::printf(
      "\nring of %zu x 64 B, drained every 1 ms: %.2f M records in %.2f s (%.2f M/s), received "
      "%.2f M, "
      "dropped %llu\n  (the ring holds %.1f ms; the scheduler kept the consumer away for up to "
      "%.1f ms and "
      "made the producer up to %.1f ms late;\n  %d times it was away for longer than the ring "
      "holds, "
      "%.1f ms in all: %.2f M records had no place)\n",
      kCapacity, static_cast<double>(pushed) / 1e6, took_s,
      static_cast<double>(pushed) / took_s / 1e6, static_cast<double>(received) / 1e6,
      static_cast<unsigned long long>(queue.ring().dropped()), kCapacity / kRecordsPerSecond * 1e3,
      static_cast<double>(away_ns) / 1e6, static_cast<double>(late_ns) / 1e6, absences,
      static_cast<double>(too_long_ns) / 1e6,
      static_cast<double>(too_long_ns) * kRecordsPerSecond / 1e15);
}

// The way that activity records really take: in the session's buffers. The filler writes every
// byte, the drain reads every cache line and releases (which zeroes).
void BuffersAtRate(double seconds) {
  ActivityBuffers pool;
  if (!pool.Init(kSessionBytes, kSessionBufferBytes, 0)) std::abort();
  std::atomic<bool> done{false};
  std::atomic<int64_t> drain_ns{0}, away_ns{0};
  std::thread drain([&] {
    int64_t before_ns = NowNs();
    while (true) {
      const bool last = done.load(std::memory_order_acquire);
      const int64_t begin_ns = NowNs();
      if (begin_ns - before_ns > away_ns) away_ns = begin_ns - before_ns;
      before_ns = begin_ns;
      for (CompletedBuffer* buffer = pool.PopAllCompleted(); buffer != nullptr;) {
        uint64_t sum = 0;
        for (size_t at = 0; at < buffer->valid_bytes; at += 64) sum += buffer->data[at];
        Keep(sum);
        CompletedBuffer* next = buffer->next;
        pool.Release(buffer);
        buffer = next;
      }
      drain_ns += NowNs() - begin_ns;
      if (last) break;
      const timespec period = {0, 20'000'000};
      nanosleep(&period, nullptr);
    }
  });
  const int64_t begin_ns = NowNs();
  double due_ns = 0;
  uint64_t completed_bytes = 0;
  while (due_ns < seconds * 1e9) {
    while (static_cast<double>(NowNs() - begin_ns) < due_ns) {
      const timespec pause = {0, 50'000};
      nanosleep(&pause, nullptr);
    }
    size_t bytes = 0;
    uint8_t* data = pool.Acquire(&bytes);
    if (data == nullptr) {  // counted by the pool
      due_ns += kRecordsPerSessionBuffer / kRecordsPerSecond * 1e9;
      continue;
    }
    due_ns += static_cast<double>(bytes) / kRecordBytes / kRecordsPerSecond * 1e9;
    completed_bytes += bytes;
    memset(data, 1, bytes);
    pool.PushCompleted(data, bytes, 0, 0);
  }
  const double took_s = static_cast<double>(NowNs() - begin_ns) / 1e9;
  done.store(true, std::memory_order_release);
  drain.join();
  const BufferPool::Stats stats = pool.stats();
  const double records = static_cast<double>(completed_bytes) / kRecordBytes;
  std::printf(
      "33 MiB of buffers, drained every 20 ms: %.2f M records in %.2f s (%.2f M/s) in %llu "
      "buffers, refused "
      "%llu, at most %u with CUPTI, read + zeroed in %.2f ns a record\n  (they hold %.0f ms; the "
      "drain thread "
      "was away for up to %.1f ms)\n",
      records / 1e6, took_s, records / took_s / 1e6,
      static_cast<unsigned long long>(stats.completed),
      static_cast<unsigned long long>(stats.refused), stats.peak_outstanding,
      static_cast<double>(drain_ns.load()) / records,
      static_cast<double>(kSessionBytes) / kRecordBytes / kRecordsPerSecond * 1e3,
      static_cast<double>(away_ns.load()) / 1e6);
}

void PushAlone(int rounds, int batches) {
  Ring<Bytes8> ring8;
  Ring<Bytes64> ring64;
  LockedDeque<Bytes8> deque8;
  LockedDeque<Bytes64> deque64;
  std::vector<Contender> eight = {
      {"SpscRing", [&] { return PushAlone<Ring<Bytes8>, Bytes8>(ring8, batches); }},
      {"mutex + deque", [&] { return PushAlone<LockedDeque<Bytes8>, Bytes8>(deque8, batches); }}};
  Compare("push, producer alone, 8 B", eight, rounds);
  std::vector<Contender> sixty_four = {
      {"SpscRing", [&] { return PushAlone<Ring<Bytes64>, Bytes64>(ring64, batches); }},
      {"ThreadRings (finds the thread's ring)", [&] { return ThreadRingsPushAlone(batches); }},
      {"mutex + deque",
       [&] { return PushAlone<LockedDeque<Bytes64>, Bytes64>(deque64, batches); }}};
  Compare("push, producer alone, 64 B", sixty_four, rounds);
  const double push_ns = std::max(eight[0].best(), sixty_four[0].best());
  std::printf("  budget 5 ns a push: %.2f ns, %s\n", push_ns, push_ns <= 5 ? "met" : "MISSED");
}

void OneProducerOneConsumer(int rounds, int64_t count) {
  Ring<Bytes8> ring8;
  Ring<Bytes64> ring64;
  LockedDeque<Bytes8> deque8;
  LockedDeque<Bytes64> deque64;
  std::vector<Contender> eight = {
      {"SpscRing", [&] { return OneToOne<Ring<Bytes8>, Bytes8>(ring8, count); }},
      {"mutex + deque", [&] { return OneToOne<LockedDeque<Bytes8>, Bytes8>(deque8, count); }}};
  Compare("1 producer, 1 consumer in batches, 8 B", eight, rounds);
  std::vector<Contender> sixty_four = {
      {"SpscRing", [&] { return OneToOne<Ring<Bytes64>, Bytes64>(ring64, count); }},
      {"mutex + deque", [&] { return OneToOne<LockedDeque<Bytes64>, Bytes64>(deque64, count); }}};
  Compare("1 producer, 1 consumer in batches, 64 B", sixty_four, rounds);
}

void Pool(int rounds, uint32_t buffers) {
  BufferPool pool;
  if (!pool.Init(65536, 32)) std::abort();
  double application_ns = 1e9;
  std::vector<Contender> alone = {
      {"request + complete + pop + release, one thread",
       [&] { return PoolAlone(pool, static_cast<int>(buffers / 32), &application_ns); }}};
  Compare("BufferPool, no contention, per buffer", alone, rounds);
  std::printf(
      "  of it on the application thread (request + complete): %.1f ns, %.5f ns a record of a "
      "4 MiB buffer\n",
      application_ns, application_ns / kRecordsPerBuffer);
  for (uint32_t threads : {1u, 2u, 4u, 8u}) {
    PoolRound lock_free(threads, buffers / threads);
    LockedPoolRound locked(threads, buffers / threads);
    std::vector<Contender> contenders = {{"BufferPool", [&] { return lock_free(); }},
                                         {"mutex + deque", [&] { return locked(); }}};
    const std::string title =
        std::to_string(threads) + " requesting and completing, 1 draining: CPU per buffer";
    Compare(title.c_str(), contenders, rounds);
  }
}

int Main(int argc, char** argv) {
  const bool smoke = argc == 2 && strcmp(argv[1], "--smoke") == 0;
  const double rate_seconds = argc == 3 && strcmp(argv[1], "--rate") == 0 ? std::atof(argv[2]) : 0;
  if (argc > 1 && !smoke && rate_seconds <= 0) {
    std::fprintf(stderr, "usage: bench_ring [--smoke | --rate SECONDS]\n");
    return 1;
  }
  PrintMachine();
  if (rate_seconds > 0) {
    RecordsAtRate(rate_seconds);
    BuffersAtRate(rate_seconds);
    return 0;
  }
  if (Cores() < 3) {
    std::printf(
        "note: few cores: the two-thread numbers contain the scheduler, and other work on this "
        "machine\n");
  }
  const int rounds = smoke ? 1 : 7;
  PushAlone(rounds, smoke ? 20 : 300);
  OneProducerOneConsumer(rounds, smoke ? 20'000 : 500'000);
  Pool(rounds, smoke ? 2'000 : 20'000);
  RecordsAtRate(smoke ? 0.02 : 0.5);
  BuffersAtRate(smoke ? 0.03 : 0.5);
  return 0;
}

}  // namespace
}  // namespace gpuprobe::bench

int main(int argc, char** argv) { return gpuprobe::bench::Main(argc, argv); }

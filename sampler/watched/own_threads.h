// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The threads of this process that are looked at: the main thread, those that call CUDA, and busy
// ones, which are found by rounds over all of them. Each has its place from when it is found until
// it ends or (a busy one) has been idle for some seconds.
//
// Thread: the sampler thread; noted() and NoteOurs are for the drain thread, too.
#ifndef GPUPROBE_SAMPLER_WATCHED_OWN_THREADS_H_
#define GPUPROBE_SAMPLER_WATCHED_OWN_THREADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/look/thread_look.h"
#include "sampler/output/sample_output.h"
#include "sampler/watched/children.h"
#include "sampler/watched/noted_threads.h"
#include "sampler/watched/thread_scan.h"

namespace gpuprobe::sampler {

class OwnThreads {
 public:
  constexpr OwnThreads() = default;
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  static constexpr size_t kMaxCuda = 64, kMaxBusy = 64;
  static constexpr size_t kMemoryBytes = ThreadScan::kMemoryBytes;

  // All outlive it. `children`: nullptr where they are not wanted.
  struct Parts {
    SampledProcess* process;
    LookTools* tools;
    SampleOutput* output;
    Children* children;
  };
  // `memory` zeroed, owned by the caller, kept for ever.
  void Init(void* memory, uint32_t pid, const Parts& parts);

  NotedThreads* noted() { return &noted_; }
  // Two threads of ours: the sampler's, and another. Never looked at, whatever they are called.
  void NoteSampler(uint32_t tid) { ours_[0].store(tid, std::memory_order_relaxed); }
  void NoteOurs(uint32_t tid) { ours_[1].store(tid, std::memory_order_relaxed); }
  // 0: has not begun. relaxed, here and above: each word stands alone.
  uint32_t sampler_tid() const { return ours_[0].load(std::memory_order_relaxed); }

  void Watch(uint32_t tid, uint8_t role);
  // Those that the drain thread has noted.
  void TakeNoted();
  // The process did not run from `since_ns` to `now_ns`.
  void TellStopped(int64_t since_ns, int64_t now_ns);
  // One look at each of them, at busy ones that call no CUDA at every so many ticks.
  void LookAtAll(int64_t now_ns, uint64_t tick, uint32_t busy_stride);
  // One step of the search for busy threads and, now and then, for what children they have started.
  void Scan(int64_t now_ns);

  uint32_t watched() const { return watched_count_; }
  uint32_t busy() const { return busy_count_; }
  uint64_t visits() const { return visits_; }  // of the rounds over all threads

 private:
  static constexpr size_t kMaxWatched = kMaxCuda + kMaxBusy + 16;

  bool IsOurs(uint32_t tid) const;
  WatchedThread* Find(uint32_t tid);
  void LetGo(WatchedThread* thread);
  void JudgeBusy(WatchedThread* thread, int64_t now_ns);
  bool OthersAreBusy(int64_t now_ns);
  static void Visit(void* self, uint32_t tid, uint32_t cpu_permille);
  void Promote(uint32_t tid);

  Parts parts_ = {};
  ThreadScan scan_;
  NotedThreads noted_;
  WatchedThread threads_[kMaxWatched];
  size_t end_ = 0;  // behind the last place that was ever in use
  uint32_t watched_count_ = 0, busy_count_ = 0, cuda_count_ = 0;
  uint64_t visits_ = 0;

  int64_t next_step_ns_ = 0, next_round_ns_ = 0, next_children_round_ns_ = 0;
  bool scan_for_children_ = false;
  uint64_t watched_cpu_ns_ = 0;  // of all looks so far
  uint64_t accounted_ns_ = 0;    // CPU time of the process without it and our own, a round ago
  int64_t accounted_at_ns_ = 0;

  std::atomic<uint32_t> ours_[2] = {};
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_WATCHED_OWN_THREADS_H_

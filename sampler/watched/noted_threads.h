// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Thread ids on their way from the drain thread, which sees who calls CUDA at every record, to the
// sampler thread. An id that is on its way or watched costs the drain thread one load.
#ifndef GPUPROBE_SAMPLER_WATCHED_NOTED_THREADS_H_
#define GPUPROBE_SAMPLER_WATCHED_NOTED_THREADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

class NotedThreads {
 public:
  // Drain thread.
  void Note(uint32_t tid) {
    std::atomic<uint32_t>& place = known_[tid % kKnown];
    // relaxed, here and below: each word stands alone; an id noted twice is watched once.
    if (tid == 0 || place.load(std::memory_order_relaxed) == tid) return;
    const uint32_t in = in_.load(std::memory_order_relaxed);  // ours
    // acquire: partner is Take; its slot has been read.
    if (in - out_.load(std::memory_order_acquire) == kQueued) return;  // it will call again
    queue_[in % kQueued] = tid;
    // Before the id can be taken, and so before it can be forgotten.
    place.store(tid, std::memory_order_relaxed);
    in_.store(in + 1, std::memory_order_release);  // partner: Take
  }

  // Sampler thread: the next id, 0: none.
  uint32_t Take() {
    const uint32_t out = out_.load(std::memory_order_relaxed);  // ours
    if (in_.load(std::memory_order_acquire) == out) return 0;   // partner: Note
    const uint32_t tid = queue_[out % kQueued];
    out_.store(out + 1, std::memory_order_release);  // partner: Note
    return tid;
  }
  // It is not watched any more: should it call again (or another with its number), it is new.
  void Forget(uint32_t tid) {
    uint32_t expected = tid;
    known_[tid % kKnown].compare_exchange_strong(expected, 0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kKnown = 1024, kQueued = 64;
  std::atomic<uint32_t> known_[kKnown] = {};
  uint32_t queue_[kQueued] = {};
  std::atomic<uint32_t> in_{0}, out_{0};
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_WATCHED_NOTED_THREADS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Goes round all threads of a process, some at a time, and tells how much CPU each has used since
// the last round. Nothing is kept of threads that have ended: what a round has seen replaces what
// the one before had.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_WATCHED_THREAD_SCAN_H_
#define GPUPROBE_SAMPLER_WATCHED_THREAD_SCAN_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

class ThreadScan {
 public:
  // `cpu_permille`: of one core (kShareOfMs); 0 for a thread that is new.
  using Visitor = void (*)(void* user, uint32_t tid, uint32_t cpu_permille);

  constexpr ThreadScan() = default;
  ThreadScan(const ThreadScan&) = delete;
  ThreadScan& operator=(const ThreadScan&) = delete;

  // A thread's share of a core is of the time since its CPU time was remembered, but of this time
  // at least: rounds may follow each other faster, and a short burst is no busy thread.
  static constexpr uint32_t kShareOfMs = 1'000;
  // Threads of which a round remembers the CPU time; beyond it they are visited with 0.
  static constexpr size_t kRemembered = 3072;
  static constexpr size_t kMemoryBytes = 2 * 4096 * 16;
  // `memory` zeroed, owned by the caller, kept for ever.
  void Init(void* memory, uint32_t pid);

  // Visits the next threads of the round, one directory read of them (about 80). True: the round is
  // complete with them.
  bool Step(int64_t now_ns, Visitor visitor, void* user);

  bool at_begin() const { return offset_ == 0; }  // the next step begins a round
  uint32_t threads_last_round() const { return last_round_; }

 private:
  struct Seen {
    uint32_t tid;  // 0: empty
    uint32_t at_ms;
    uint64_t cpu_ns;
  };
  static constexpr size_t kCapacity = 4096;  // power of two

  void Visit(uint32_t tid, int64_t now_ns, Visitor visitor, void* user);
  static Seen* Find(Seen* table, uint32_t tid);
  void EndRound();

  Seen* tables_[2] = {};  // the round before, and this one
  size_t current_ = 0, remembered_ = 0;
  uint32_t pid_ = 0;
  int64_t offset_ = 0;  // in the directory
  uint32_t this_round_ = 0, last_round_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_WATCHED_THREAD_SCAN_H_

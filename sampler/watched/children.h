// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The descendants of this process that do not record themselves: data-loader workers, their fork
// server, programs that were started. Found through /proc/PID/task/TID/children, or, where the
// kernel has none, by the parent of every process in /proc. A number that was given to another
// process is told by its start time.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_WATCHED_CHILDREN_H_
#define GPUPROBE_SAMPLER_WATCHED_CHILDREN_H_

#include <cstddef>
#include <cstdint>

#include "sampler/look/sampled_process.h"
#include "sampler/look/thread_look.h"

namespace gpuprobe::sampler {

struct ChildProcess {
  static constexpr size_t kMaxThreads = 4;  // the main thread, and its busiest others
  static constexpr size_t kMaxSeen = 64;

  SampledProcess process;
  WatchedThread threads[kMaxThreads];
  bool records_itself = false;
  bool ended = false;
  int64_t last_change_ns = 0;  // when its main thread was last seen to have run
  int64_t next_check_ns = 0;
  int64_t next_names_ns = 0, names_pause_ns = 0;  // looks for our own threads in it

  // CPU time at the last check: of the process, of its main thread, and of others if they had any.
  uint64_t cpu_ms = 0, main_cpu_ms = 0;
  int64_t cpu_ns_at = 0;
  struct Seen {
    uint32_t tid, cpu_ms;
  };
  Seen seen[kMaxSeen] = {};
  uint32_t seen_count = 0;
  int64_t seen_ns = 0;
};

class Children {
 public:
  static constexpr size_t kMaxChildren = 128;

  constexpr Children() = default;
  void Init(uint32_t own_pid) { own_pid_ = own_pid; }

  // One bounded step of the search, and the check of one child: does it record itself, which of its
  // threads are busy, has it ended.
  void Step(int64_t now_ns, LookTools* tools);
  // Whether this process has children at all, of any of its threads: one system call, and most
  // have none.
  static bool ThereAreAny();
  // The children that this thread of this process has started.
  void SeeChildrenOf(uint32_t pid, uint32_t tid, int64_t now_ns);

  // nullptr: nobody has this entry.
  ChildProcess* at(size_t i) { return pids_[i] == 0 ? nullptr : &children_[i]; }
  // Whose `process` it is.
  static ChildProcess* OwnerOf(SampledProcess* process) {
    static_assert(offsetof(ChildProcess, process) == 0);
    return reinterpret_cast<ChildProcess*>(process);
  }
  size_t count() const { return count_; }
  uint64_t refused() const { return refused_; }
  // Lets go of everything of it but the entry: its facts are still to be written.
  static void End(ChildProcess* child, LookTools* tools);
  void Free(ChildProcess* child);

 private:
  size_t Find(uint32_t pid) const;  // kMaxChildren: nowhere
  void Add(uint32_t pid, int64_t now_ns);
  void ScanParents(int64_t now_ns);
  void Check(ChildProcess* child, int64_t now_ns, LookTools* tools);
  static bool OthersAreBusy(ChildProcess* child, uint64_t cpu_ticks, int64_t now_ns);
  static void LookForBusyThreads(ChildProcess* child, int64_t now_ns);

  ChildProcess children_[kMaxChildren];
  // Of each entry, 0: free. Together, because they are looked through all the time.
  uint32_t pids_[kMaxChildren] = {};
  size_t count_ = 0, next_check_ = 0;
  uint32_t own_pid_ = 0;
  uint64_t refused_ = 0;
  int64_t next_own_ns_ = 0;
  bool no_children_files_ = false, there_are_any_ = false;
  int64_t next_scan_ns_ = 0, scan_offset_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_WATCHED_CHILDREN_H_

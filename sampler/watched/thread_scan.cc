// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/watched/thread_scan.h"

#include <algorithm>
#include <cstring>

#include "sampler/system/proc_files.h"

namespace gpuprobe::sampler {

void ThreadScan::Init(void* memory, uint32_t pid) {
  static_assert(kMemoryBytes == 2 * kCapacity * sizeof(Seen));
  tables_[0] = static_cast<Seen*>(memory);
  tables_[1] = tables_[0] + kCapacity;
  pid_ = pid;
}

// Its place, or the empty one where it belongs; a table is never full.
ThreadScan::Seen* ThreadScan::Find(Seen* table, uint32_t tid) {
  size_t i = (tid * 2654435761u) & (kCapacity - 1);
  while (table[i].tid != 0 && table[i].tid != tid) i = (i + 1) & (kCapacity - 1);
  return &table[i];
}

void ThreadScan::Visit(uint32_t tid, int64_t now_ns, Visitor visitor, void* user) {
  char path[kTaskPathBytes], text[96];
  ProcPath(pid_, tid, "schedstat", path);
  SchedStat sched;
  if (ReadProcFile(path, text, sizeof text) == 0 || !ParseSchedStat(text, &sched)) return;
  ++this_round_;
  const uint32_t now_ms = static_cast<uint32_t>(now_ns / 1'000'000);
  const Seen* before = Find(tables_[current_ ^ 1], tid);
  Seen remembered = {tid, now_ms, sched.cpu_ns};
  uint32_t permille = 0;
  if (before->tid == tid && sched.cpu_ns >= before->cpu_ns) {
    const uint32_t elapsed_ms = now_ms - before->at_ms;
    permille = static_cast<uint32_t>((sched.cpu_ns - before->cpu_ns) / 1000 /
                                     std::max(elapsed_ms, kShareOfMs));
    if (elapsed_ms < kShareOfMs) remembered = *before;
  }
  if (remembered_ < kRemembered) {
    Seen* here = Find(tables_[current_], tid);
    if (here->tid == 0) ++remembered_;
    *here = remembered;
  }
  visitor(user, tid, permille);
}

void ThreadScan::EndRound() {
  current_ ^= 1;
  std::memset(tables_[current_], 0, kCapacity * sizeof(Seen));
  remembered_ = 0;
  offset_ = 0;
  last_round_ = this_round_;
  this_round_ = 0;
}

bool ThreadScan::Step(int64_t now_ns, Visitor visitor, void* user) {
  char path[kTaskPathBytes], entries[2048];
  ProcPath(pid_, 0, "task", path);
  const size_t bytes = ReadProcDirectory(path, &offset_, entries, sizeof entries);
  ForEachNumber(entries, bytes, [&](uint32_t tid) { Visit(tid, now_ns, visitor, user); });
  if (bytes != 0) return false;
  EndRound();
  return true;
}

}  // namespace gpuprobe::sampler

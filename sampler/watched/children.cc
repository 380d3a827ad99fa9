// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/watched/children.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "sampler/system/proc_files.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

// Of the list of one thread's children: some ten thousand.
constexpr int kMaxListPieces = 32;

constexpr int64_t kOwnPauseNs = 500'000'000;
constexpr int64_t kParentScanPauseNs = 2'000'000'000;
constexpr int64_t kCheckPauseNs = 2'000'000'000;
// A child that initialises CUDA later on records itself from then on. Reading the names of all its
// threads is the expensive part, and it happens early in a process's life if at all.
constexpr int64_t kFirstNamesPauseNs = 1'000'000'000;
constexpr int64_t kLongestNamesPauseNs = 16'000'000'000;
// Threads of a child whose names are read in search of our own.
constexpr uint32_t kMaxNamesRead = 256;
constexpr uint32_t kBusyPermille = 50;

// What is in a comm file: the whole name and a line's end. A host's own names may begin like ours.
bool IsOurName(const char* comm) {
  return std::strcmp(comm, "gpuprobe\n") == 0 || std::strcmp(comm, "gpuprobe-sample\n") == 0;
}

// Whether one of its threads is a drain thread.
bool RecordsItself(uint32_t pid) {
  char path[kTaskPathBytes], entries[2048], name[32];
  int64_t offset = 0;
  uint32_t read = 0;
  bool found = false;
  ProcPath(pid, 0, "task", path);
  while (!found && read < kMaxNamesRead) {
    const size_t bytes = ReadProcDirectory(path, &offset, entries, sizeof entries);
    if (bytes == 0) return false;
    ForEachNumber(entries, bytes, [&](uint32_t tid) {
      if (found || tid == pid || ++read > kMaxNamesRead) return;
      char comm[kTaskPathBytes];
      ProcPath(pid, tid, "comm", comm);
      if (ReadProcFile(comm, name, sizeof name) != 0) found = IsOurName(name);
    });
  }
  return found;
}

bool Watches(const ChildProcess& child, uint32_t tid) {
  for (const WatchedThread& thread : child.threads) {
    if (thread.tid == tid) return true;
  }
  return false;
}

}  // namespace

size_t Children::Find(uint32_t pid) const {
  size_t i = 0;
  while (i < kMaxChildren && pids_[i] != pid) ++i;
  return i;
}

void Children::Add(uint32_t pid, int64_t now_ns) {
  if (pid == 0 || pid == own_pid_ || Find(pid) != kMaxChildren) return;
  const size_t place = Find(0);
  if (place == kMaxChildren) {
    ++refused_;
    return;
  }
  ChildProcess* child = &children_[place];
  if (!Describe(pid, &child->process)) return;
  pids_[place] = pid;
  child->threads[0].tid = pid;
  child->threads[0].roles = kRoleMain;
  child->records_itself = RecordsItself(pid);
  child->last_change_ns = now_ns;
  child->next_check_ns = now_ns + kOwnPauseNs;
  child->names_pause_ns = kFirstNamesPauseNs;
  child->next_names_ns = now_ns + child->names_pause_ns;
  ++count_;
}

void Children::SeeChildrenOf(uint32_t pid, uint32_t tid, int64_t now_ns) {
  if (no_children_files_) return;
  char path[kTaskPathBytes], list[2048];
  ProcPath(pid, tid, "children", path);
  ++TheProcCounters().opens;
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && pid == own_pid_ && tid == own_pid_) no_children_files_ = true;
    return;
  }
  // In pieces: the oldest come first, and hundreds that nobody has waited for may stand in front.
  size_t have = 0;
  for (int piece = 0; piece < kMaxListPieces; ++piece) {
    ++TheProcCounters().reads;
    const ssize_t n = RawRead(fd, list + have, sizeof list - 1 - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
    list[have] = '\0';
    char* end = std::strrchr(list, ' ');  // what follows it is a number that was cut
    if (end == nullptr) break;
    *end = '\0';
    const char* p = list;
    uint64_t child;
    while (TakeDecimal(&p, &child)) Add(static_cast<uint32_t>(child), now_ns);
    have -= static_cast<size_t>(end + 1 - list);
    std::memmove(list, end + 1, have);
  }
  RawClose(fd);
}

bool Children::ThereAreAny() {
  ++TheProcCounters().others;
  const CallTimer timer(CallKind::kOther);
  siginfo_t info;
  // Takes nothing from who waits for them.
  constexpr int kLookOnly = WEXITED | WNOHANG | WNOWAIT | __WALL;
  return syscall(SYS_waitid, P_ALL, 0, &info, kLookOnly, nullptr) == 0 || errno != ECHILD;
}

// Some of all processes: a whole round every other second.
void Children::ScanParents(int64_t now_ns) {
  if (scan_offset_ == 0 && now_ns < next_scan_ns_) return;
  if (scan_offset_ == 0) next_scan_ns_ = now_ns + kParentScanPauseNs;
  char entries[1024];
  const size_t bytes = ReadProcDirectory("/proc", &scan_offset_, entries, sizeof entries);
  if (bytes == 0) scan_offset_ = 0;
  ForEachNumber(entries, bytes, [&](uint32_t pid) {
    StatFile stat;
    if (!ReadStat(pid, 0, &stat)) return;
    const size_t parent = stat.parent_pid == 0 ? kMaxChildren : Find(stat.parent_pid);
    if (stat.parent_pid == own_pid_ ||
        (parent != kMaxChildren && !children_[parent].records_itself)) {
      Add(pid, now_ns);
    }
  });
}

void Children::End(ChildProcess* child, LookTools* tools) {
  for (WatchedThread& thread : child->threads) Unwatch(&thread, tools);
  child->process.memory.Close();
  child->ended = true;
}

void Children::Free(ChildProcess* child) {
  pids_[child - children_] = 0;
  child->~ChildProcess();
  new (child) ChildProcess();
  --count_;
}

// Its threads are listed, and those that used much since the last check are watched.
void Children::LookForBusyThreads(ChildProcess* child, int64_t now_ns) {
  ChildProcess::Seen seen[ChildProcess::kMaxSeen];
  uint32_t count = 0;
  int64_t offset = 0;
  char path[kTaskPathBytes], entries[2048];
  ProcPath(child->process.pid, 0, "task", path);
  const size_t bytes = ReadProcDirectory(path, &offset, entries, sizeof entries);
  const uint64_t elapsed_ms = static_cast<uint64_t>(now_ns - child->seen_ns) / 1'000'000 + 1;
  ForEachNumber(entries, bytes, [&](uint32_t tid) {
    char file[kTaskPathBytes], text[96];
    SchedStat sched;
    ProcPath(child->process.pid, tid, "schedstat", file);
    if (count == ChildProcess::kMaxSeen || ReadProcFile(file, text, sizeof text) == 0 ||
        !ParseSchedStat(text, &sched)) {
      return;
    }
    seen[count] = {tid, static_cast<uint32_t>(sched.cpu_ns / 1'000'000)};
    for (uint32_t i = 0; i < child->seen_count; ++i) {
      if (child->seen[i].tid != tid || Watches(*child, tid)) continue;
      const uint32_t used_ms = seen[count].cpu_ms - child->seen[i].cpu_ms;
      if (used_ms * 1000 / elapsed_ms < kBusyPermille) continue;
      for (WatchedThread& thread : child->threads) {
        if (thread.tid != 0) continue;
        thread.tid = tid;
        thread.roles = kRoleBusy;
        break;
      }
    }
    ++count;
  });
  std::memcpy(child->seen, seen, count * sizeof seen[0]);
  child->seen_count = count;
  child->seen_ns = now_ns;
}

// Whether its other threads together used more than a busy one does since the last check: only then
// are they worth a look each.
bool Children::OthersAreBusy(ChildProcess* child, uint64_t cpu_ticks, int64_t now_ns) {
  const uint64_t all_ms = cpu_ticks * 10, main_ms = child->threads[0].sched.cpu_ns / 1'000'000;
  const uint64_t all = all_ms - child->cpu_ms, by_main = main_ms - child->main_cpu_ms;
  const uint64_t elapsed_ms = static_cast<uint64_t>(now_ns - child->cpu_ns_at) / 1'000'000 + 1;
  child->cpu_ms = all_ms;
  child->main_cpu_ms = main_ms;
  child->cpu_ns_at = now_ns;
  return all > by_main && (all - by_main) * 1000 / elapsed_ms >= kBusyPermille;
}

void Children::Check(ChildProcess* child, int64_t now_ns, LookTools* tools) {
  StatFile stat;
  const uint32_t pid = child->process.pid;
  child->next_check_ns = now_ns + kCheckPauseNs;
  if (!ReadStat(pid, 0, &stat) || stat.state == 'Z' || stat.state == 'X' ||
      stat.start_ticks != child->process.start_ticks) {
    return End(child, tools);
  }
  if (child->records_itself) return;
  if (stat.threads > 1 && now_ns >= child->next_names_ns) {
    child->names_pause_ns *= 2;
    if (child->names_pause_ns > kLongestNamesPauseNs) child->names_pause_ns = kLongestNamesPauseNs;
    child->next_names_ns = now_ns + child->names_pause_ns;
    child->records_itself = RecordsItself(pid);
    if (child->records_itself) {
      for (WatchedThread& thread : child->threads) Unwatch(&thread, tools);
      return;
    }
  }
  // After an exec() it is another program with the same number: what was known of it, the addresses
  // in its memory above all, is void. It is found again at once.
  if (IsAnotherProgram(child->process)) return End(child, tools);
  if (stat.threads > 1 && OthersAreBusy(child, stat.cpu_ticks, now_ns)) {
    LookForBusyThreads(child, now_ns);
  }
  SeeChildrenOf(pid, pid, now_ns);
}

void Children::Step(int64_t now_ns, LookTools* tools) {
  if (now_ns >= next_own_ns_) {
    next_own_ns_ = now_ns + kOwnPauseNs;
    there_are_any_ = ThereAreAny();
    if (there_are_any_) SeeChildrenOf(own_pid_, own_pid_, now_ns);
  }
  if (no_children_files_ && there_are_any_) ScanParents(now_ns);
  if (count_ == 0) return;
  for (size_t i = 0; i < kMaxChildren; ++i) {
    ChildProcess* child = at(next_check_);
    next_check_ = (next_check_ + 1) % kMaxChildren;
    if (child == nullptr || child->ended || now_ns < child->next_check_ns) continue;
    return Check(child, now_ns, tools);
  }
}

}  // namespace gpuprobe::sampler

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The files of /proc that tell what a thread does, as numbers. One open, read and close a look, or
// one pread of a descriptor that is kept; all of them count (the cost of the sampler is the number
// of these). Nothing here fails loudly: a thread that has ended, a file that a sandbox leaves out
// and one that may not be read all answer false, with errno.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_SYSTEM_PROC_FILES_H_
#define GPUPROBE_SAMPLER_SYSTEM_PROC_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuprobe::sampler {

// Room for /proc/<pid>/task/<tid>/<leaf>.
inline constexpr size_t kTaskPathBytes = 64;

// /proc/<pid>/<leaf> where tid is 0.
void ProcPath(uint32_t pid, uint32_t tid, const char* leaf, char* out);

// Counts the system calls of everything below.
struct ProcCounters {
  uint64_t opens = 0, reads = 0, links = 0;
  uint64_t others = 0;  // system calls that are not on /proc
  uint64_t total() const { return 2 * opens + reads + links; }  // an open has its close
};
ProcCounters& TheProcCounters();  // of the one sampler thread

// Whole small file, always NUL-terminated; bytes read, 0 where it cannot be read (errno).
size_t ReadProcFile(const char* path, char* out, size_t size);
// The same from a descriptor that stays open.
size_t ReadProcDescriptor(int fd, char* out, size_t size);

// A thread's schedstat: what it has had so far.
struct SchedStat {
  uint64_t cpu_ns = 0;       // on a CPU; of a slice that goes on, up to the last scheduler tick
  uint64_t runnable_ns = 0;  // ready, waiting for a CPU; booked when it gets one
  uint64_t slices = 0;       // times it got a CPU
  bool operator==(const SchedStat& o) const {
    return cpu_ns == o.cpu_ns && runnable_ns == o.runnable_ns && slices == o.slices;
  }
};
bool ParseSchedStat(const char* text, SchedStat* out);

// A thread's syscall file.
struct SyscallFile {
  bool running = false;  // on a CPU or ready for one: nothing else is known
  int32_t number = -1;   // -1: blocked outside of any (a page fault)
  uint64_t args[6] = {};
  uint64_t sp = 0, pc = 0;
};
bool ParseSyscallFile(const char* text, SyscallFile* out);

// What is used of a stat file.
struct StatFile {
  char name[16] = {};
  char state = '?';
  uint32_t parent_pid = 0;
  uint32_t threads = 0;
  uint64_t cpu_ticks = 0;  // user and system, in hundredths of a second
  uint64_t start_ticks = 0;
};
bool ParseStatFile(const char* text, StatFile* out);

bool ReadStat(uint32_t pid, uint32_t tid, StatFile* out);

// The next entries of a directory of /proc, as the kernel gives them, from `*offset` on, which
// moves behind them. Bytes; 0: there are no more.
size_t ReadProcDirectory(const char* path, int64_t* offset, char* entries, size_t size);

// Calls fn(uint32_t) for every entry whose name is a number.
template <typename Fn>
void ForEachNumber(const char* entries, size_t bytes, Fn fn);

// Decimal digits of `value` and a NUL; the end.
char* PutDecimal(uint64_t value, char* out);
// The number that `*text` begins with; moves it behind. False: none.
bool TakeDecimal(const char** text, uint64_t* out);

template <typename Fn>
void ForEachNumber(const char* entries, size_t bytes, Fn fn) {
  // A struct linux_dirent64: inode, offset, length of the entry, type, name.
  constexpr size_t kLengthAt = 16, kNameAt = 19;
  uint16_t length = 0;
  for (size_t at = 0; at + kNameAt < bytes; at += length) {
    std::memcpy(&length, entries + at + kLengthAt, sizeof length);
    if (length == 0) return;
    const char* name = entries + at + kNameAt;
    uint64_t number;
    if (TakeDecimal(&name, &number) && number <= UINT32_MAX) fn(static_cast<uint32_t>(number));
  }
}

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_PROC_FILES_H_

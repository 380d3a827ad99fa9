// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/system/proc_files.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

constinit ProcCounters g_counters;

char* PutText(const char* text, char* out) {
  const size_t n = std::strlen(text);
  std::memcpy(out, text, n + 1);
  return out + n;
}

// Hexadecimal, with or without 0x, after any blanks.
bool TakeHex(const char** text, uint64_t* out) {
  const char* p = *text;
  while (*p == ' ') ++p;
  if (p[0] == '0' && p[1] == 'x') p += 2;
  const char* begin = p;
  uint64_t value = 0;
  for (;; ++p) {
    const char c = *p;
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  if (p == begin) return false;
  *text = p;
  *out = value;
  return true;
}

// Behind the `count`th blank from here; nullptr: there are fewer.
const char* SkipFields(const char* p, int count) {
  for (; count > 0; --count) {
    p = std::strchr(p, ' ');
    if (p == nullptr) return nullptr;
    ++p;
  }
  return p;
}

}  // namespace

ProcCounters& TheProcCounters() { return g_counters; }

char* PutDecimal(uint64_t value, char* out) {
  char digits[20];
  size_t n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n > 0) *out++ = digits[--n];
  *out = '\0';
  return out;
}

bool TakeDecimal(const char** text, uint64_t* out) {
  const char* p = *text;
  while (*p == ' ' || *p == '\n') ++p;
  if (*p < '0' || *p > '9') return false;
  uint64_t value = 0;
  for (; *p >= '0' && *p <= '9'; ++p) value = value * 10 + static_cast<uint64_t>(*p - '0');
  *text = p;
  *out = value;
  return true;
}

// No snprintf: a hundred looks a second and thread would spend more in it than in the kernel.
void ProcPath(uint32_t pid, uint32_t tid, const char* leaf, char* out) {
  out = PutText("/proc/", out);
  out = PutDecimal(pid, out);
  if (tid != 0) {
    out = PutText("/task/", out);
    out = PutDecimal(tid, out);
  }
  *out++ = '/';
  PutText(leaf, out);
}

size_t ReadProcFile(const char* path, char* out, size_t size) {
  ++g_counters.opens;
  out[0] = '\0';
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const size_t n = ReadProcDescriptor(fd, out, size);
  const int saved = errno;
  RawClose(fd);
  errno = saved;
  return n;
}

size_t ReadProcDescriptor(int fd, char* out, size_t size) {
  ++g_counters.reads;
  const ssize_t n = RawPread(fd, out, size - 1, 0);
  out[n > 0 ? n : 0] = '\0';
  return n > 0 ? static_cast<size_t>(n) : 0;
}

size_t ReadProcDirectory(const char* path, int64_t* offset, char* entries, size_t size) {
  ++g_counters.opens;
  const int fd = RawOpen(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  long n = 0;
  if (*offset == 0 || lseek(fd, *offset, SEEK_SET) == *offset) {
    ++g_counters.reads;
    n = syscall(SYS_getdents64, fd, entries, size);
  }
  RawClose(fd);
  if (n <= 0) return 0;
  for (size_t at = 0; at < static_cast<size_t>(n);) {
    uint16_t length;
    std::memcpy(offset, entries + at + 8, sizeof *offset);
    std::memcpy(&length, entries + at + 16, sizeof length);
    if (length == 0) break;
    at += length;
  }
  return static_cast<size_t>(n);
}

bool ParseSchedStat(const char* text, SchedStat* out) {
  return TakeDecimal(&text, &out->cpu_ns) && TakeDecimal(&text, &out->runnable_ns) &&
         TakeDecimal(&text, &out->slices);
}

bool ParseSyscallFile(const char* text, SyscallFile* out) {
  *out = SyscallFile();
  if (std::strncmp(text, "running", 7) == 0) return out->running = true;
  if (text[0] == '-') {  // "-1 sp pc"
    text += 2;
    return TakeHex(&text, &out->sp) && TakeHex(&text, &out->pc);
  }
  uint64_t number;
  if (!TakeDecimal(&text, &number) || number > INT32_MAX) return false;
  out->number = static_cast<int32_t>(number);
  for (uint64_t& argument : out->args) {
    if (!TakeHex(&text, &argument)) return false;
  }
  return TakeHex(&text, &out->sp) && TakeHex(&text, &out->pc);
}

// The name may hold anything, blanks and brackets too: it ends at the last ')'.
bool ParseStatFile(const char* text, StatFile* out) {
  *out = StatFile();
  const char* open = std::strchr(text, '(');
  const char* close = std::strrchr(text, ')');
  if (open == nullptr || close == nullptr || close < open || close[1] != ' ') return false;
  size_t length = static_cast<size_t>(close - open - 1);
  if (length >= sizeof out->name) length = sizeof out->name - 1;
  std::memcpy(out->name, open + 1, length);
  const char* p = close + 2;
  out->state = *p;
  uint64_t value;
  if ((p = SkipFields(p, 1)) == nullptr || !TakeDecimal(&p, &value)) return false;
  out->parent_pid = static_cast<uint32_t>(value);
  if ((p = SkipFields(p, 10)) == nullptr || !TakeDecimal(&p, &value)) return false;
  out->cpu_ticks = value;
  if (!TakeDecimal(&p, &value)) return false;
  out->cpu_ticks += value;
  if ((p = SkipFields(p, 5)) == nullptr || !TakeDecimal(&p, &value)) return false;
  out->threads = static_cast<uint32_t>(value);
  if ((p = SkipFields(p, 2)) == nullptr) return false;
  return TakeDecimal(&p, &out->start_ticks);
}

bool ReadStat(uint32_t pid, uint32_t tid, StatFile* out) {
  char path[kTaskPathBytes], text[768];
  ProcPath(pid, tid, "stat", path);
  return ReadProcFile(path, text, sizeof text) != 0 && ParseStatFile(text, out);
}

}  // namespace gpuprobe::sampler

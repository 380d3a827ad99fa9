// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process/process_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "inject/process/environment.h"

namespace gpuprobe::inject {
namespace {

void TrimEnd(char* text) {
  size_t n = std::strlen(text);
  while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' ')) text[--n] = '\0';
}

// Field `number` (1-based, > 2) of a /proc/.../stat line; the command name, which may hold
// anything, ends at the last ')'.
const char* StatField(const char* line, int number) {
  const char* p = std::strrchr(line, ')');
  if (p == nullptr) return nullptr;
  for (int field = 2; field < number; ++field) {
    p = std::strchr(p, ' ');
    if (p == nullptr) return nullptr;
    ++p;
  }
  return p;
}

int32_t FirstNumber(const char* const* names, size_t count, int32_t otherwise) {
  for (size_t i = 0; i < count; ++i) {
    const char* text = GetEnv(names[i]);
    if (text == nullptr) continue;
    const int64_t value = ParseNumber(text);
    if (value >= 0 && value < INT32_MAX) return static_cast<int32_t>(value);
  }
  return otherwise;
}

}  // namespace

int GpusAtMost(const char* visible_devices, const char* device_prefix) {
  constexpr int kMostDeviceNodes = 64;
  int nodes = 0;
  for (int i = 0; i < kMostDeviceNodes && nodes < 2; ++i) {
    char path[256];
    snprintf(path, sizeof path, "%s%d", device_prefix, i);
    nodes += access(path, F_OK) == 0 ? 1 : 0;
  }
  if (nodes < 2) return nodes;
  if (visible_devices == nullptr || *visible_devices == '\0') return 2;
  return strchr(visible_devices, ',') == nullptr ? 1 : 2;
}

int64_t ParseNumber(const char* text) {
  if (*text < '0' || *text > '9') return -1;
  int64_t value = 0;
  for (const char* p = text; *p >= '0' && *p <= '9'; ++p) {
    if (value > INT64_MAX / 10 - 10) return -1;
    value = value * 10 + (*p - '0');
  }
  return value;
}

size_t ReadSmallFile(const char* path, char* out, size_t size) {
  out[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t done = 0;
  while (done + 1 < size) {
    const ssize_t n = read(fd, out + done, size - 1 - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  close(fd);
  out[done] = '\0';
  return done;
}

bool FindDriverRelease(const char* text, char* out, size_t size) {
  out[0] = '\0';
  const char* p = std::strstr(text, "NVRM version:");
  if (p == nullptr) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // The first word that is a number with dots: "x86_64" before it is none.
  for (; *p != '\0' && *p != '\n'; ++p) {
    if (*p != ' ' || !is_digit(p[1])) continue;
    const size_t length = std::strspn(p + 1, "0123456789.");
    const char after = p[1 + length];
    const bool has_dot = std::memchr(p + 1, '.', length) != nullptr;
    if (!has_dot || length >= size || (after != ' ' && after != '\n' && after != '\0')) continue;
    std::memcpy(out, p + 1, length);
    out[length] = '\0';
    return true;
  }
  return false;
}

bool IsLastThread(uint32_t own_tid, uint32_t other_tid) {
  char path[64], line[1024];
  const uint32_t pid = static_cast<uint32_t>(getpid());
  if (own_tid == pid) return false;
  // A thread that has ended has no memory, and so no executable.
  std::snprintf(path, sizeof path, "/proc/self/task/%u/exe", pid);
  if (readlink(path, line, sizeof line) >= 0 || errno != ENOENT) return false;
  std::snprintf(path, sizeof path, "/proc/self/task/%u/stat", pid);
  if (ReadSmallFile(path, line, sizeof line) == 0) return false;
  const char* state = StatField(line, 3);
  if (state == nullptr || *state != 'Z') return false;
  if (ReadSmallFile("/proc/self/stat", line, sizeof line) == 0) return false;
  const char* threads = StatField(line, 20);
  const int64_t ours = other_tid != 0 ? 2 : 1;
  return threads != nullptr && ParseNumber(threads) == ours + 1;  // the ended leader still counts
}

void ReadProcessFacts(ProcessFacts* f) {
  std::memset(f, 0, sizeof *f);
  f->pid = static_cast<uint32_t>(getpid());
  f->parent_pid = static_cast<uint32_t>(getppid());
  struct utsname names;
  if (uname(&names) == 0) std::snprintf(f->host, sizeof f->host, "%.64s", names.nodename);
  ReadSmallFile("/proc/sys/kernel/random/boot_id", f->boot_id, sizeof f->boot_id);
  TrimEnd(f->boot_id);
  char line[1024];
  if (ReadSmallFile("/proc/self/stat", line, sizeof line) != 0) {
    if (const char* field = StatField(line, 22)) {
      const int64_t ticks = ParseNumber(field);
      if (ticks >= 0) {
        f->start_ticks = static_cast<uint64_t>(ticks);
        f->start_boot_ns = ticks * 10'000'000;  // USER_HZ is 100 on x86-64
      }
    }
  }
  const ssize_t n = readlink("/proc/self/exe", f->executable, sizeof f->executable - 1);
  f->executable[n > 0 ? n : 0] = '\0';
  f->command_line_bytes =
      ReadSmallFile("/proc/self/cmdline", f->command_line, sizeof f->command_line);
  char link[64];
  const ssize_t m = readlink("/proc/self/ns/pid", link, sizeof link - 1);  // "pid:[4026531836]"
  if (m > 5) {
    link[m] = '\0';
    const int64_t inode = ParseNumber(link + 5);
    if (inode > 0) f->pid_namespace = static_cast<uint64_t>(inode);
  }
  constexpr const char* kRank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"};
  constexpr const char* kLocal[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  constexpr const char* kWorld[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS",
                                    "PMI_SIZE"};
  f->rank = FirstNumber(kRank, 4, -1);
  f->local_rank = FirstNumber(kLocal, 3, -1);
  f->world_size = FirstNumber(kWorld, 4, 0);
  ReadSmallFile("/proc/self/cgroup", f->cgroup, sizeof f->cgroup);
  if (char* end = std::strchr(f->cgroup, '\n')) *end = '\0';
  ReadSmallFile("/proc/driver/nvidia/version", line, sizeof line);
  FindDriverRelease(line, f->driver_release, sizeof f->driver_release);
}

}  // namespace gpuprobe::inject

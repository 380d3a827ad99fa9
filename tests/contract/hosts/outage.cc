// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A host in whose process trace files cannot be opened or written for a while: its own open, write
// and truncate stand in front of libc's for every library, and fail for files that are called
// *.gpuprobe.
//   contract_outage CALL ERRNO FAILURES [hold | until FILE]
// CALL: "open", "write", or "half" (a write that takes half of what it is given, and fails when it
// is given the rest; what is cut off then fails as well), or "space" (a write beyond the first
// kSpaceBytes of the file: what a full disk has left in the last block). The first FAILURES calls
// fail with ERRNO; 0: all calls, for two seconds. Launches in small batches until they have failed,
// and three batches more. Prints launched=, failed= (calls that did) and calls= (all for such
// files).
//
// With "hold" nothing is made to fail: the host closes all descriptors but the first three, as
// daemons do, and holds all that it can get until FAILURES ms have passed. With "until" nothing
// either: it goes on until FILE exists.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/contract/hosts/cuda_host.h"

using gpuprobe::contract::Gpu;
using gpuprobe::contract::NowNs;
using gpuprobe::contract::SleepMs;

namespace {

constexpr int64_t kBatch = 20;
constexpr off_t kSpaceBytes = 4096;
constexpr int64_t kForeverNs = 2'000'000'000;
constexpr rlim_t kMostDescriptors = 256;

const char* g_call = "";
int g_errno = 0;
std::atomic<int64_t> g_left{0}, g_failed{0}, g_calls{0};
std::atomic<bool> g_half_taken{false};

bool IsTrace(const char* path) {
  const size_t length = strlen(path);
  constexpr char kSuffix[] = ".gpuprobe";
  return length >= sizeof kSuffix && strcmp(path + length - (sizeof kSuffix - 1), kSuffix) == 0;
}

bool IsTrace(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  return IsTrace(path);
}

bool Fails() {
  ++g_calls;
  if (g_left.load() <= 0) return false;
  --g_left;
  ++g_failed;
  errno = g_errno;
  return true;
}

void Work(Gpu* gpu, int64_t* launched) {
  gpu->Launches(kBatch);
  gpu->Synchronize();
  *launched += kBatch;
  SleepMs(5);
}

// What is open at the start stays open: the loader's and the driver's are not the host's to close,
// but the trace is among what daemons close.
int64_t HoldDescriptors(Gpu* gpu, int64_t ms) {
  int64_t launched = 0;
  for (int i = 0; i < 20; ++i) Work(gpu, &launched);
  for (int fd = 3; fd < static_cast<int>(kMostDescriptors); ++fd) close(fd);
  while (dup(0) >= 0) {
  }
  const int64_t end_ns = NowNs() + ms * 1'000'000;
  while (NowNs() < end_ns) Work(gpu, &launched);
  for (int fd = 3; fd < static_cast<int>(kMostDescriptors); ++fd) close(fd);
  for (int i = 0; i < 3; ++i) Work(gpu, &launched);
  return launched;
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (strcmp(g_call, "open") == 0 && IsTrace(path) && Fails()) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

extern "C" ssize_t write(int fd, const void* data, size_t size) {
  const bool half = strcmp(g_call, "half") == 0;
  if (strcmp(g_call, "space") == 0 && IsTrace(fd)) {
    struct stat file;
    if (fstat(fd, &file) == 0 && file.st_size + static_cast<off_t>(size) > kSpaceBytes && Fails())
      return -1;
  }
  if ((half || strcmp(g_call, "write") == 0) && IsTrace(fd)) {
    if (half && g_left.load() > 0 && !g_half_taken.exchange(true))
      size /= 2;
    else if (Fails())
      return g_half_taken.store(false), -1;
  }
  return syscall(SYS_write, fd, data, size);
}

extern "C" int truncate(const char* path, off_t size) {
  if (strcmp(g_call, "half") == 0 && IsTrace(path) && Fails()) return -1;
  return static_cast<int>(syscall(SYS_truncate, path, size));
}

int main(int argc, char** argv) {
  if (argc < 4) return 97;
  const int64_t number = atoll(argv[3]);
  const bool hold = argc > 4 && strcmp(argv[4], "hold") == 0;
  if (hold) {
    const rlimit limit = {kMostDescriptors, kMostDescriptors};
    setrlimit(RLIMIT_NOFILE, &limit);
  } else {
    g_call = argv[1];
    g_errno = atoi(argv[2]);
    g_left = number == 0 ? INT64_MAX : number < 0 ? 0 : number;
  }
  static Gpu gpu;
  gpu.Open();
  int64_t launched = 0;
  if (hold) {
    launched = HoldDescriptors(&gpu, number);
  } else {
    const char* file = argc > 5 && strcmp(argv[4], "until") == 0 ? argv[5] : nullptr;
    while (file != nullptr && access(file, F_OK) != 0) Work(&gpu, &launched);
    const int64_t end_ns = NowNs() + kForeverNs;
    while (number == 0 ? NowNs() < end_ns : g_left.load() > 0) Work(&gpu, &launched);
    for (int i = 0; i < 3; ++i) Work(&gpu, &launched);
  }
  printf("launched=%" PRId64 " failed=%" PRId64 " calls=%" PRId64 "\n", launched, g_failed.load(),
         g_calls.load());
  return 0;
}

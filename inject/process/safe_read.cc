// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process/safe_read.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gpuprobe::inject {
namespace {

constexpr size_t kPageBytes = 4096;

// Reads exactly `size` bytes that lie in one page.
bool ReadByVm(const char* from, char* to, size_t size) {
  const struct iovec local = {to, size};
  const struct iovec remote = {const_cast<char*>(from), size};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool ReadByPipe(const char* from, char* to, size_t size) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  // A page fits into any pipe; write() answers EFAULT where the source cannot be read.
  const bool good = write(ends[1], from, size) == static_cast<ssize_t>(size) &&
                    read(ends[0], to, size) == static_cast<ssize_t>(size);
  close(ends[0]);
  close(ends[1]);
  return good;
}

bool ReadWithinPage(const char* from, char* to, size_t size) {
  const int saved = errno;
  bool good = ReadByVm(from, to, size);
  if (!good && errno != EFAULT) good = ReadByPipe(from, to, size);
  errno = saved;
  return good;
}

}  // namespace

int64_t SafeReadString(const char* text, char* out, size_t capacity) {
  size_t done = 0;
  while (done < capacity) {
    const char* from = text + done;
    size_t size = kPageBytes - (reinterpret_cast<uintptr_t>(from) & (kPageBytes - 1));
    if (size > capacity - done) size = capacity - done;
    if (!ReadWithinPage(from, out + done, size)) return -1;
    if (const void* end = std::memchr(out + done, '\0', size)) {
      return static_cast<const char*>(end) - out;
    }
    done += size;
  }
  return static_cast<int64_t>(capacity);
}

}  // namespace gpuprobe::inject

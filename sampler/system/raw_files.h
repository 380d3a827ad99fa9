// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The calls on files as system calls. The sampler's descriptors lie in a table of its own: whoever
// stands in front of libc's functions and keeps a book of the process's descriptors (a host's own
// open(), ThreadSanitizer) would take them for the host's of the same number. Nor are they
// cancellation points so.
#ifndef GPUPROBE_SAMPLER_SYSTEM_RAW_FILES_H_
#define GPUPROBE_SAMPLER_SYSTEM_RAW_FILES_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>

#include "sampler/system/call_clock.h"

namespace gpuprobe::sampler {

// As their namesakes: errno tells why not.
inline int RawOpen(const char* path, int flags) {
  const CallTimer timer(CallKind::kOpened);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}
inline int RawClose(int fd) {
  const CallTimer timer(CallKind::kOpened);
  return static_cast<int>(syscall(SYS_close, fd));
}
inline ssize_t RawRead(int fd, void* out, size_t size) {
  const CallTimer timer(CallKind::kOpened);
  return syscall(SYS_read, fd, out, size);
}
inline ssize_t RawPread(int fd, void* out, size_t size, off_t offset) {
  const CallTimer timer(CallKind::kKept);
  return syscall(SYS_pread64, fd, out, size, offset);
}

// Shared, to read and to write; MAP_FAILED with errno.
inline void* RawMap(size_t size, int fd) {
  const long at =
      syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t{0});
  return reinterpret_cast<void*>(at);
}

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_RAW_FILES_H_

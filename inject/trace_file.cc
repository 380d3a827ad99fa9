// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/trace_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "proto/format.h"

namespace gpuprobe::inject {
namespace {

// Above what hosts use; below the usual soft limit of 1024.
constexpr int kPreferredDescriptor = 700;
// Against a host that closes all descriptors in a loop while we open ours.
constexpr int kReopenTries = 100;

bool MakeDirectories(const char* path) {
  char part[1024];
  const size_t length = std::strlen(path);
  if (length >= sizeof part) return errno = ENAMETOOLONG, false;
  std::memcpy(part, path, length + 1);
  for (size_t i = 1; i <= length; ++i) {
    if (part[i] != '/' && part[i] != '\0') continue;
    const char saved = part[i];
    part[i] = '\0';
    if (mkdir(part, 0777) != 0 && errno != EEXIST) {
      // A parent that exists but may not be written to gives EACCES or EROFS here; the deepest one
      // decides.
      if (saved == '\0') return false;
    }
    part[i] = saved;
  }
  return true;
}

// A number out of the host's way for what `fd` is; -1: none.
int DuplicateHigh(int fd) {
  struct rlimit limit;
  int wanted = kPreferredDescriptor;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= static_cast<rlim_t>(wanted)) {
    wanted = static_cast<int>(limit.rlim_cur) - 8;
  }
  return wanted <= fd ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, wanted);
}

// A host name as part of a file name.
void CopyNamePart(const char* text, char* out, size_t size) {
  size_t n = 0;
  for (; text[n] != '\0' && n + 1 < size; ++n) {
    const char c = text[n];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    out[n] = plain ? c : '_';
  }
  out[n] = '\0';
}

}  // namespace

void TraceFile::SetName(const char* directory, const char* host, uint32_t pid, int64_t start_ns,
                        int32_t rank, uint64_t random, uint64_t max_bytes) {
  char host_part[64], rank_part[24] = "";
  CopyNamePart(host, host_part, sizeof host_part);
  if (rank >= 0) std::snprintf(rank_part, sizeof rank_part, "-rank%d", rank);
  std::snprintf(directory_, sizeof directory_, "%s", directory);
  std::snprintf(path_, sizeof path_, "%s/%s-%u-%lld%s-%08x%s", directory_, host_part, pid,
                static_cast<long long>(start_ns), rank_part, static_cast<unsigned>(random),
                proto::kFileSuffix);
  if (directory[0] == '\0') std::snprintf(path_, sizeof path_, "a directory for the trace");
  max_bytes_ = max_bytes;
}

bool TraceFile::Create() {
  if (directory_[0] == '\0') return errno_ = ENOENT, false;  // never at the root instead
  if (!MakeDirectories(directory_)) return errno_ = errno, false;
  const int fd = open(path_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0666);
  if (fd < 0) return errno_ = errno, false;
  // By the path, not by the descriptor: a host that takes every number may have taken this one
  // since, and its file would be written to for ours. (lstat() is a versioned symbol of glibc 2.33:
  // the call is not.)
  struct stat s;
  if (syscall(SYS_lstat, path_, &s) != 0) return errno_ = errno, false;
  device_ = s.st_dev;
  inode_ = s.st_ino;
  return Adopt(fd) || Reopen();
}

// Moves to a high number, unless `fd` is not ours any more: the host may close all numbers, and
// take this one, at any time. What is closed here is looked at right before.
bool TraceFile::Adopt(int fd) {
  if (!IsOurs(fd)) return false;
  fd_ = fd;
  const int high = DuplicateHigh(fd);
  if (high < 0) return true;
  if (IsOurs(high)) {
    fd_ = high;
    if (IsOurs(fd)) close(fd);
    return true;
  }
  close(high);  // of what the host has put at `fd` meanwhile
  fd_ = -1;
  return false;
}

bool TraceFile::IsOurs(int fd) const {
  struct stat s;
  return syscall(SYS_fstat, fd, &s) == 0 && s.st_dev == device_ && s.st_ino == inode_;
}

// The descriptor is not ours any more: it is never closed.
bool TraceFile::Reopen() {
  fd_ = -1;
  for (int i = 0; i < kReopenTries; ++i) {
    const int fd = open(path_, O_WRONLY | O_CLOEXEC | O_APPEND | O_NOFOLLOW);
    if (fd < 0) return errno_ = errno, false;
    if (Adopt(fd)) return true;
  }
  errno_ = ESTALE;
  return false;
}

bool TraceFile::Usable() {
  if (fd_ < 0) return Create();
  return IsOurs(fd_) || Reopen();
}

bool TraceFile::Append(const uint8_t* data, size_t size) {
  if (failed_) return false;
  if (size > room()) {
    full_ = true;
    errno = EFBIG;  // the writer takes the reason from errno
    return false;
  }
  if (!Usable()) {
    failed_ = true;
    errno = errno_;
    return false;
  }
  size_t done = 0;
  int reopened = 0;
  while (done < size) {
    const ssize_t n = write(fd_, data + done, size - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EBADF && reopened++ < kReopenTries && Reopen()) {
      continue;  // closed since it was looked at
    } else {
      errno_ = n < 0 ? errno : EIO;
      failed_ = true;
      // Cut the half frame off, so that what was written before stays a healthy file.
      if (done != 0 && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) errno_ = errno;
      errno = errno_;
      return false;
    }
  }
  bytes_ += size;
  return true;
}

}  // namespace gpuprobe::inject

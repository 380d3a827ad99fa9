// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/trace_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "inject/futex.h"
#include "proto/format.h"

namespace gpuprobe::inject {
namespace {

// Above what hosts use; below the usual soft limit of 1024.
constexpr int kPreferredDescriptor = 700;
// Against a host that closes all descriptors in a loop while we open ours.
constexpr int kReopenTries = 100;

// What an errno means for a file that is to be written for hours. `passes`: without anybody doing
// anything about gpuprobe the same call may succeed later.
struct Failure {
  int number;
  bool passes;
  const char* text;
};
constexpr Failure kFailures[] = {
    // Used up by this process or this machine, and given back when files are closed, processes end
    // or disks are cleaned: the reasons for which a job is left running over night.
    {EMFILE, true, "the process has no descriptor left"},
    {ENFILE, true, "the system has no descriptor left"},
    {ENOMEM, true, "no memory"},
    {ENOSPC, true, "no space left on the device"},
    {EDQUOT, true, "over the disk quota"},
    // The call may just be made again.
    {EINTR, true, "interrupted"},
    {EAGAIN, true, "not at the moment"},
    {EBUSY, true, "busy"},
    // What network file systems answer while their server is away, and a disk for a bad moment.
    {EIO, true, "input/output error"},
    {ETIMEDOUT, true, "timed out"},
    {ESTALE, true, "the file is not to be found on its server"},
    {EHOSTDOWN, true, "the server is down"},
    {ENOTCONN, true, "the server is not connected"},
    {ESHUTDOWN, true, "the server is not connected"},
    // Somebody has decided so, or the name is wrong: the next hundred calls answer the same. EFBIG
    // is a limit on the size of files; the file does not shrink. A device that is mounted read-only
    // after an error stays so until it was repaired.
    {EROFS, false, "the file system is read-only"},
    {EACCES, false, "permission denied"},
    {EPERM, false, "not permitted"},
    {EFBIG, false, "over the limit of file sizes"},
    {ENOENT, false, "no such directory"},
    {ENOTDIR, false, "a part of the path is not a directory"},
    {ENAMETOOLONG, false, "the path is too long"},
    {ELOOP, false, "too many symbolic links"},
    {EEXIST, false, "the file exists"},
};
// What is not listed is for good: one more call in somebody's process needs a reason.
constexpr Failure kUnlisted = {0, false, "an error that gpuprobe does not expect"};

const Failure& FindFailure(int number) {
  for (const Failure& failure : kFailures) {
    if (failure.number == number) return failure;
  }
  return kUnlisted;
}

// `path` is the first `length` of its bytes, and absolute; put back as it was.
bool MakeDirectories(char* path, size_t length) {
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && i != length) continue;
    const char saved = path[i];
    path[i] = '\0';
    const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    path[i] = saved;
    // A parent that exists but may not be written to gives EACCES or EROFS here; the deepest one
    // decides.
    if (!made && i == length) return false;
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
  const int n = std::snprintf(path_, sizeof path_, "%s/%s-%u-%lld%s-%08x%s", directory, host_part,
                              pid, static_cast<long long>(start_ns), rank_part,
                              static_cast<unsigned>(random), proto::kFileSuffix);
  directory_bytes_ = std::strlen(directory);
  max_bytes_ = max_bytes;
  if (n < 0 || static_cast<size_t>(n) >= sizeof path_) {
    Refuse("the path of GPUPROBE_OUT is too long");
  }
}

void TraceFile::Refuse(const char* why) {
  path_[0] = '\0';
  failed_ = true;
  errno_ = ENOENT;
  error_text_ = why;
}

bool TraceFile::Create() {
  if (!MakeDirectories(path_, directory_bytes_)) return errno_ = errno, false;
  // A server that failed may have made the file all the same; it is empty then, and by its random
  // name nobody else's.
  const bool again = tries_ != 0;
  const int fd = open(
      path_, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW | (again ? 0 : O_EXCL), 0666);
  if (fd < 0) return errno_ = errno, false;
  // By the path, not by the descriptor: a host that takes every number may have taken this one
  // since, and its file would be written to for ours. (lstat() is a versioned symbol of glibc 2.33:
  // the call is not.)
  struct stat s;
  if (syscall(SYS_lstat, path_, &s) != 0) return errno_ = errno, false;
  device_ = s.st_dev;
  inode_ = s.st_ino;
  if (s.st_size != 0) {
    if (IsOurs(fd)) close(fd);
    return errno_ = EEXIST, false;
  }
  created_ = true;
  return Adopt(fd) || Reopen();
}

// Moves to a high number, unless `fd` is not ours any more: the host may close all numbers, and
// take this one, at any time. What is closed here is looked at right before.
//
// What remains. A number is all that the kernel takes, and no call says "if it is still this file":
// between fstat and the close or write that follows it (less than a microsecond, unless this thread
// loses the CPU right there) another thread of the host can close the number and get it again for a
// file of its own. Then,
//   after open:  a host that closes everything from 3 up and opens its log in that moment has the
//                log, at the lowest number, closed by the close(fd) below;
//   each write:  a host that closes everything and puts a file of its own on the very number above
//                700 has one frame written into that (a thread that did nothing else, frames every
//                20 ms: once in 4,435 rounds).
// Both take a host that closes descriptors which are not its own, in another thread, in that
// moment; daemons do so before they start threads. What is read wrongly in any other order is
// found: the identity comes from the path, whose name is random; a number that is not our file is
// neither written nor closed; a duplicate that is not ours is closed at once, and is nobody else's
// number (it can only cost the host its POSIX record locks on that file, if it has any). A
// descriptor table of this thread's own would end all of it, but not on this thread: where main has
// called pthread_exit it is the last one, and runs the host's exit handlers, which need the host's
// table.
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

bool TraceFile::InPlace() const {
  struct stat s;
  if (syscall(SYS_lstat, path_, &s) != 0) return errno != ENOENT && errno != ENOTDIR;
  return s.st_dev == device_ && s.st_ino == inode_;
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
  if (!created_) return Create();
  return (fd_ >= 0 && IsOurs(fd_)) || Reopen();
}

// So that what was written before stays a healthy file, and what comes after it too. By the path: a
// number that has become a file of the host's would cut that.
bool TraceFile::CutTornFrame() {
  if (!torn_) return true;
  if (truncate(path_, static_cast<off_t>(bytes_)) != 0) return errno_ = errno, false;
  torn_ = false;
  return true;
}

// After a failure something else than a frame, whose records would be lost, is written and cut off
// again: a skippable frame as large as the frames of a busy second, which does no harm should it
// stay.
bool TraceFile::TryToWrite() {
  static constexpr uint8_t kNothing[4096] = {};
  static constexpr uint32_t kChunks = 16;
  static constexpr uint32_t kHeader[] = {0x184D2A50, kChunks * sizeof kNothing};  // zstd's magic
  if (can_write_) return true;
  torn_ = true;
  bool written = WriteAll(reinterpret_cast<const uint8_t*>(kHeader), sizeof kHeader);
  for (uint32_t i = 0; written && i < kChunks; ++i) written = WriteAll(kNothing, sizeof kNothing);
  can_write_ = written && CutTornFrame();
  return can_write_;
}

// By errno_: for good, or begins a pause.
bool TraceFile::Fail() {
  can_write_ = false;
  const Failure& failure = FindFailure(errno_);
  error_text_ = failure.text;
  if (tries_ == 0) ++outages_;
  ++tries_;
  if (!failure.passes || tries_ == kMostTries) {
    failed_ = true;
    return false;
  }
  int64_t pause_ns = kLongestPauseNs;
  constexpr uint32_t kDoublings = 10;  // 102 s, above the longest
  if (tries_ <= kDoublings && kFirstPauseNs << (tries_ - 1) < pause_ns) {
    pause_ns = kFirstPauseNs << (tries_ - 1);
  }
  retry_ns_ = MonotonicNs() + pause_ns;
  return false;
}

bool TraceFile::Ready() {
  if (failed_ || (retry_ns_ != 0 && MonotonicNs() < retry_ns_)) return false;
  return (Usable() && CutTornFrame() && TryToWrite()) || Fail();
}

bool TraceFile::WriteAll(const uint8_t* data, size_t size) {
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
      torn_ = torn_ || done != 0;
      const int reason = errno_;
      CutTornFrame();
      errno_ = reason;
      return false;
    }
  }
  return true;
}

uint64_t TraceFile::room() const {
  uint64_t limit = max_bytes_;
  struct rlimit files;
  // At each frame: the host may change it.
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    const uint64_t allowed = files.rlim_cur;
    const uint64_t kept = max_bytes_ == UINT64_MAX ? 0 : std::min(kClosingBytes, allowed / 2);
    limit = std::min(limit, allowed - kept);
  }
  return limit > bytes_ ? limit - bytes_ : 0;
}

bool TraceFile::Append(const uint8_t* data, size_t size) {
  if (size > room()) {
    full_ = true;
    if (max_bytes_ == UINT64_MAX) {  // lifted, so it is the process's: there is no other reason
      errno_ = EFBIG;
      error_text_ = FindFailure(EFBIG).text;
    }
    errno = EFBIG;  // the writer takes the reason from errno
    return false;
  }
  if (!Ready() || (!WriteAll(data, size) && !Fail())) {
    errno = errno_;
    return false;
  }
  bytes_ += size;
  can_write_ = true;
  tries_ = 0;
  retry_ns_ = 0;
  return true;
}

}  // namespace gpuprobe::inject

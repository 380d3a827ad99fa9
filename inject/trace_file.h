// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The trace file of this process image: created on the first write (O_EXCL, O_CLOEXEC, directories
// made), never overwritten, appended frame by frame. Thread: the drain thread.
//
// The descriptor is moved to a high number, so that the host's next open() returns what it would
// have returned without us, and is checked before each write: daemons close every descriptor they
// find, and the number may be a file of the host by then. It is reopened by path in that case.
#ifndef GPUPROBE_INJECT_TRACE_FILE_H_
#define GPUPROBE_INJECT_TRACE_FILE_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::inject {

class TraceFile {
 public:
  constexpr TraceFile() = default;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `directory`: absolute; empty: there is none, and every Append fails. The name is
  // <host>-<pid>-<start time>[-rank<r>]-<random>.gpuprobe.
  void SetName(const char* directory, const char* host, uint32_t pid, int64_t start_ns,
               int32_t rank, uint64_t random, uint64_t max_bytes);

  // Appends all of it or nothing (a short write is cut off again). False: failed() or full(), with
  // errno.
  bool Append(const uint8_t* data, size_t size);

  // For the closing frame, which carries the count of what the size limit cost. Close what is staged
  // before, if room() may be too little for it: else that goes beyond the limit too.
  void LiftSizeLimit() { max_bytes_ = UINT64_MAX; }
  uint64_t room() const { return max_bytes_ - bytes_; }

  bool failed() const { return failed_; }
  bool full() const { return full_; }  // refused because of max_bytes
  int error_number() const { return errno_; }
  const char* path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool Create();
  bool Usable();  // descriptor is still our file, reopened if need be
  bool IsOurs(int fd) const;
  bool Adopt(int fd);
  bool Reopen();

  char directory_[1024] = {};
  char path_[1400] = {};
  int fd_ = -1;
  bool failed_ = false, full_ = false;
  int errno_ = 0;
  uint64_t device_ = 0, inode_ = 0;
  uint64_t bytes_ = 0, max_bytes_ = 0;
};

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_TRACE_FILE_H_

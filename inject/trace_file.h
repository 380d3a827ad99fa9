// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The trace file of this process image: created on the first write (O_EXCL, O_CLOEXEC, directories
// made), never overwritten, appended frame by frame. Thread: the drain thread.
//
// The descriptor is moved to a high number, so that the host's next open() returns what it would
// have returned without us, and is checked before each write: daemons close every descriptor they
// find, and the number may be a file of the host by then. It is reopened by path in that case.
// trace_file.cc says, at Adopt, what no check can exclude.
//
// A failure that may pass (no descriptor, no space, a server that is away: trace_file.cc has the
// list) is tried again after a pause that grows from kFirstPauseNs to kLongestPauseNs, kMostTries
// times in a row: half an hour. Any other ends the file at once.
#ifndef GPUPROBE_INJECT_TRACE_FILE_H_
#define GPUPROBE_INJECT_TRACE_FILE_H_

#include <climits>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::inject {

class TraceFile {
 public:
  constexpr TraceFile() = default;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `directory`: absolute. The name is <host>-<pid>-<start time>[-rank<r>]-<random>.gpuprobe. A
  // path of PATH_MAX bytes or more is refused: cut, it would be another place.
  void SetName(const char* directory, const char* host, uint32_t pid, int64_t start_ns,
               int32_t rank, uint64_t random, uint64_t max_bytes);

  // There is no place for a file: failed() from now on, without a path(), with these words.
  void Refuse(const char* why);

  // Whether a frame that is handed over now can be hoped for: opens the file where it is not open,
  // and after a failure tries to write. False: failed(), or in a pause; what is not closed into a
  // frame meanwhile is not lost.
  bool Ready();

  // Appends all of it or nothing (a short write is cut off again). False, with errno: failed(),
  // full(), or in a pause, then with the errno of the failure that it follows.
  bool Append(const uint8_t* data, size_t size);

  // The last chance: the next frame is written, pause or not, tried before or not.
  void TryNow() {
    retry_ns_ = 0;
    can_write_ = true;
  }

  // For the closing frame, which carries the count of what the size limit cost. Close what is
  // staged before, if room() may be too little for it: else that goes beyond the limit too.
  void LiftSizeLimit() { max_bytes_ = UINT64_MAX; }
  // Of max_bytes; and of the process's limit on file sizes (RLIMIT_FSIZE) as it is now, short of
  // which kClosingBytes, or half of a smaller limit, are kept for the closing frame: the kernel
  // lifts nothing.
  uint64_t room() const;

  bool failed() const { return failed_; }  // for good
  bool full() const { return full_; }      // refused because of max_bytes
  // How often it could not be written, for however long.
  uint32_t outages() const { return outages_; }
  int error_number() const { return errno_; }             // of the last failure
  const char* error_text() const { return error_text_; }  // the same in words
  // Empty: refused.
  const char* path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  // Whether path() still leads to the file that was created. A descriptor is not asked, and where
  // the path may not be followed any more (privileges given up) it is taken to.
  bool InPlace() const;

  static constexpr int64_t kFirstPauseNs = 100'000'000, kLongestPauseNs = 60'000'000'000;
  static constexpr uint32_t kMostTries = 40;
  // With the first frame of a file, it took less than 3 KiB in storms (output_test.py, LimitTest).
  static constexpr uint64_t kClosingBytes = 16 << 10;

 private:
  bool Create();
  bool Usable();  // descriptor is still our file, reopened if need be
  bool IsOurs(int fd) const;
  bool Adopt(int fd);
  bool Reopen();
  bool CutTornFrame();
  bool TryToWrite();
  bool WriteAll(const uint8_t* data, size_t size);
  bool Fail();

  char path_[PATH_MAX] = {};
  size_t directory_bytes_ = 0;  // of path_
  int fd_ = -1;
  bool created_ = false;
  bool torn_ = false;      // something may stand behind bytes_
  bool can_write_ = true;  // false: not tried since a write failed
  bool failed_ = false, full_ = false;
  int errno_ = 0;
  const char* error_text_ = "";
  uint32_t tries_ = 0, outages_ = 0;  // tries: that failed, since one did not
  int64_t retry_ns_ = 0;              // CLOCK_MONOTONIC: end of the pause; 0: none
  uint64_t device_ = 0, inode_ = 0;
  uint64_t bytes_ = 0, max_bytes_ = 0;
};

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_TRACE_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/system/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "sampler/system/process_path.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

constexpr uint64_t kPageBytes = 4096;
// That much is copied in less time than a page is looked up.
constexpr uint64_t kMaxGapBytes = 512;
// Places a call: 3 x 256 iovecs are 12 KiB of our stack, and a stack of 40 frames with its code
// objects fits.
constexpr size_t kPiecesPerCall = 256;

ssize_t ReadVm(pid_t pid, const iovec* local, size_t locals, const iovec* remote, size_t remotes) {
  const CallTimer timer(CallKind::kMemory);
  return process_vm_readv(pid, local, locals, remote, remotes, 0);
}

uint64_t EndOf(const iovec& place) {
  return reinterpret_cast<uint64_t>(place.iov_base) + place.iov_len;
}

// Whether the piece lies shortly behind `before` in the same page. Then they are read as one, with
// what is in between: half of what a place costs is the page, and a page is there as a whole or
// not.
bool SharesPage(const iovec& before, const ProcessMemory::Piece& piece) {
  const auto begin = reinterpret_cast<uint64_t>(before.iov_base);
  const uint64_t end = EndOf(before);
  return piece.address >= end && piece.address - end <= kMaxGapBytes && piece.size > 0 &&
         begin / kPageBytes == (piece.address + piece.size - 1) / kPageBytes;
}

bool ReadFully(int fd, uint64_t* calls, uint64_t address, void* out, size_t size) {
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    ++*calls;
    const ssize_t got = RawPread(fd, to, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    address += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

// The start of the first readable mapping; 0: none.
uint64_t FirstReadableMapping(pid_t pid) {
  char path[kProcPathBytes];
  FormatProcPath(path, pid, "/maps");
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char line[256];
  const ssize_t got = RawRead(fd, line, sizeof(line));
  RawClose(fd);
  // The lowest mapping is the executable's first segment, readable in every program.
  uint64_t address = 0;
  for (ssize_t i = 0; i < got; ++i) {
    const char c = line[i];
    if (c >= '0' && c <= '9') {
      address = address << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      address = address << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return address;
    }
  }
  return 0;
}

}  // namespace

constinit uint64_t ProcessMemory::calls_ = 0;

bool ProcessMemory::Open(pid_t pid, uint64_t probe) {
  Close();
  pid_ = pid;
  error_ = 0;
  if (probe == 0) probe = FirstReadableMapping(pid);
  if (probe == 0) {
    error_ = errno != 0 ? errno : ESRCH;
    return false;
  }
  char byte;
  if (Read(probe, &byte, 1)) return true;
  error_ = errno;
  // A seccomp filter may forbid the call and yet leave the file open.
  char path[kProcPathBytes];
  FormatProcPath(path, pid, "/mem");
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  if (!ReadFully(fd, &calls_, probe, &byte, 1)) {
    RawClose(fd);
    return false;
  }
  mem_fd_ = fd;
  error_ = 0;
  return true;
}

void ProcessMemory::Close() {
  if (mem_fd_ >= 0) RawClose(mem_fd_);
  mem_fd_ = -1;
  pid_ = 0;
}

bool ProcessMemory::Read(uint64_t address, void* out, size_t size) const {
  if (mem_fd_ >= 0) return ReadFully(mem_fd_, &calls_, address, out, size);
  ++calls_;
  iovec local = {out, size};
  iovec remote = {reinterpret_cast<void*>(address), size};
  return ReadVm(pid_, &local, 1, &remote, 1) == static_cast<ssize_t>(size);
}

size_t ProcessMemory::ReadUpTo(uint64_t address, void* out, size_t size) const {
  auto* to = static_cast<uint8_t*>(out);
  size_t done = 0;
  while (done < size) {
    // One iovec a page: what is left out of a partial transfer is whole iovecs
    // (process_vm_readv(2)).
    iovec remote[kPiecesPerCall];
    size_t count = 0, bytes = 0;
    while (count < kPiecesPerCall && done + bytes < size) {
      const uint64_t at = address + done + bytes;
      const size_t piece =
          std::min<uint64_t>(size - done - bytes, kPageBytes - (at & (kPageBytes - 1)));
      remote[count++] = {reinterpret_cast<void*>(at), piece};
      bytes += piece;
    }
    ssize_t got;
    ++calls_;
    if (mem_fd_ >= 0) {
      got = RawPread(mem_fd_, to + done, bytes, static_cast<off_t>(address + done));
    } else {
      iovec local = {to + done, bytes};
      got = ReadVm(pid_, &local, 1, remote, count);
    }
    if (got <= 0) break;
    done += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < bytes) break;
  }
  return done;
}

size_t ProcessMemory::ReadPiecesUpTo(const Piece* pieces, size_t count) const {
  size_t done = 0;
  if (mem_fd_ >= 0) {
    while (done < count &&
           ReadFully(mem_fd_, &calls_, pieces[done].address, pieces[done].out, pieces[done].size)) {
      ++done;
    }
    return done;
  }
  while (done < count) {
    iovec local[2 * kPiecesPerCall], remote[kPiecesPerCall];
    uint32_t ends[kPiecesPerCall];  // of each piece, in bytes of all that is read
    uint8_t unwanted[kMaxGapBytes];
    const size_t now = std::min(count - done, kPiecesPerCall);
    size_t locals = 0, remotes = 0;
    uint32_t bytes = 0;
    const auto add_local = [&](void* to, size_t size) {
      bytes += static_cast<uint32_t>(size);
      // Places side by side on our side are one iovec: fewer for the kernel to walk.
      if (locals > 0 && EndOf(local[locals - 1]) == reinterpret_cast<uint64_t>(to)) {
        local[locals - 1].iov_len += size;
      } else {
        local[locals++] = {to, size};
      }
    };
    for (size_t i = 0; i < now; ++i) {
      const Piece& piece = pieces[done + i];
      if (remotes > 0 && !piece.apart && SharesPage(remote[remotes - 1], piece)) {
        const uint64_t gap = piece.address - EndOf(remote[remotes - 1]);
        if (gap > 0) add_local(unwanted, gap);
        remote[remotes - 1].iov_len += gap + piece.size;
      } else {
        remote[remotes++] = {reinterpret_cast<void*>(piece.address), piece.size};
      }
      add_local(piece.out, piece.size);
      ends[i] = bytes;
    }
    ++calls_;
    const ssize_t got = ReadVm(pid_, local, locals, remote, remotes);
    if (got == static_cast<ssize_t>(bytes)) {
      done += now;
      continue;
    }
    // The first one that is not there ends it; of that one a part may have been read.
    for (size_t i = 0; i < now && static_cast<ssize_t>(ends[i]) <= got; ++i) ++done;
    break;
  }
  return done;
}

}  // namespace gpuprobe::sampler

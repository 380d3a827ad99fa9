// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads the memory of a process, this one or a child, in ways that cannot fault and that the
// process cannot notice: process_vm_readv, or /proc/PID/mem where that is forbidden. No ptrace
// attach, no signal, no lock. What is read may be half written: its owner runs on while we read.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_SYSTEM_PROCESS_MEMORY_H_
#define GPUPROBE_SAMPLER_SYSTEM_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

class ProcessMemory {
 public:
  constexpr ProcessMemory() = default;
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  ~ProcessMemory() { Close(); }

  // True if memory of `pid` can be read at all (tried on `probe`, any readable address of it; 0: on
  // the first readable mapping). On failure error() tells why (EPERM: forbidden, ESRCH: gone).
  bool Open(pid_t pid, uint64_t probe = 0);
  void Close();

  // All `size` bytes at `address`, or false.
  bool Read(uint64_t address, void* out, size_t size) const;
  // As many as there are up to the first unreadable page; 0: none.
  size_t ReadUpTo(uint64_t address, void* out, size_t size) const;
  template <typename T>
  bool ReadValue(uint64_t address, T* out) const {
    return Read(address, out, sizeof(T));
  }
  // Several places in one system call; false unless all were read.
  struct Piece {
    uint64_t address;
    void* out;
    uint32_t size;
    // Read later than the pieces before it. Others may be copied together with a neighbour.
    bool apart = false;
  };
  bool ReadPieces(const Piece* pieces, size_t count) const {
    return ReadPiecesUpTo(pieces, count) == count;
  }
  // The same, one after the other up to the first that cannot be read: how many were read whole.
  size_t ReadPiecesUpTo(const Piece* pieces, size_t count) const;

  // System calls that all of them have made for these reads so far: the one sampler thread's.
  static uint64_t calls() { return calls_; }

  pid_t pid() const { return pid_; }
  int error() const { return error_; }

 private:
  pid_t pid_ = 0;
  int mem_fd_ = -1;  // /proc/PID/mem; -1: process_vm_readv works
  int error_ = 0;
  static uint64_t calls_;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_PROCESS_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The names of the threads that call CUDA, read once a thread from /proc/self/task/<tid>/comm.
// Fixed table; threads beyond it stay nameless. Thread: the drain thread.
#ifndef GPUPROBE_INJECT_PROCESS_THREAD_NAMES_H_
#define GPUPROBE_INJECT_PROCESS_THREAD_NAMES_H_

#include <cstddef>
#include <cstdint>

#include "proto/packet_builder.h"

namespace gpuprobe::inject {

class ThreadNames {
 public:
  constexpr ThreadNames() = default;

  // Called for every API record: the last thread again is the usual case and costs one comparison.
  void See(uint32_t tid) {
    if (tid != last_) Add(tid);
  }
  // Writes ThreadInfo packets: of all threads where `all`, else of those seen since the last call
  // (lost with its frame: next time of all).
  void Write(bool all, uint32_t pid, proto::PacketBuilder* out);

 private:
  static constexpr size_t kCapacity = 1024;  // power of two; at most 3/4 in use
  struct Entry {
    uint32_t tid;
    bool written;
    char name[19];
  };

  void Add(uint32_t tid);

  Entry entries_[kCapacity] = {};
  size_t used_ = 0;
  uint32_t last_ = 0;
};

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_PROCESS_THREAD_NAMES_H_

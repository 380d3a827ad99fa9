// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Who this process is: read once from /proc and the environment when the session starts. What
// cannot be read stays empty; nothing here fails. No allocation; a few short-lived descriptors.
#ifndef GPUPROBE_INJECT_PROCESS_PROCESS_FACTS_H_
#define GPUPROBE_INJECT_PROCESS_PROCESS_FACTS_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::inject {

struct ProcessFacts {
  uint32_t pid, parent_pid;
  char host[65];
  char boot_id[40];
  uint64_t start_ticks;   // field 22 of /proc/self/stat, clock ticks since boot
  int64_t start_boot_ns;  // the same on CLOCK_BOOTTIME
  char executable[512];
  char command_line[1024];  // NUL-separated arguments, cut
  size_t command_line_bytes;
  uint64_t pid_namespace;
  int32_t rank, local_rank, world_size;  // -1, -1, 0: unknown
  char cgroup[256];
  char driver_release[32];  // of NVIDIA's kernel module; empty: not to be read
};

void ReadProcessFacts(ProcessFacts* facts);

// Reads a small file of /proc; returns the bytes read (0: cannot be read), always NUL-terminated.
size_t ReadSmallFile(const char* path, char* out, size_t size);

// Whether every thread of the process but `own_tid` and `other_tid` (0: there is no other of ours)
// has ended (main called pthread_exit): then only we keep the process alive. Takes no descriptor of
// the process while the main thread lives: it is asked twice a second, and the number of a host
// that closes all in that moment could be closed in turn.
bool IsLastThread(uint32_t own_tid, uint32_t other_tid);

// How many GPUs the process can see at most: 1; 2 for two or more; 0 where that is not known.
// `visible_devices`: CUDA_VISIBLE_DEVICES or nullptr; `device_prefix`: "/dev/nvidia", or what
// stands for it in a test. CUDA need not be up yet.
int GpusAtMost(const char* visible_devices, const char* device_prefix);

// Release of NVIDIA's kernel module ("580.95.05") out of the text of /proc/driver/nvidia/version,
// which names it after the words for the kind of module. False, `out` empty: there is none. (The
// driver's own cuDriverGetVersion would be a call that other profilers see.)
bool FindDriverRelease(const char* text, char* out, size_t size);

// Non-negative decimal number of `text`, -1 if it is none.
int64_t ParseNumber(const char* text);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_PROCESS_PROCESS_FACTS_H_

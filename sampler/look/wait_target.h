// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a blocked thread waits for, in one word: "pipe", "socket", "unix socket", "futex",
// "nanosleep", a path. Told from the arguments of the system call that it is blocked in and the
// link in its /proc/PID/fd.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOOK_WAIT_TARGET_H_
#define GPUPROBE_SAMPLER_LOOK_WAIT_TARGET_H_

#include <cstddef>
#include <cstdint>

#include "sampler/system/proc_files.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

inline constexpr size_t kWaitTargetBytes = 160;

inline constexpr int32_t kFutexCall = 202;

// Writes the target to `out` (kWaitTargetBytes, NUL-terminated); empty: not known. `memory`:
// nullptr where it cannot be read.
void DescribeWait(uint32_t pid, uint32_t tid, const SyscallFile& call, const ProcessMemory* memory,
                  char* out);

// What a link of /proc/PID/fd leads to, as a kind: "pipe:[17]" is a pipe; a path is itself.
void DescribeLink(const char* link, char* out);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOOK_WAIT_TARGET_H_

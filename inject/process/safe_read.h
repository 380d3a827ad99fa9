// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads strings of this process through pointers that may dangle (kernel names of unloaded
// modules), without faulting: process_vm_readv on ourselves answers EFAULT instead of SIGSEGV.
#ifndef GPUPROBE_INJECT_PROCESS_SAFE_READ_H_
#define GPUPROBE_INJECT_PROCESS_SAFE_READ_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::inject {

// Copies up to `capacity` bytes of the NUL-terminated string at `text` (no NUL is added). Returns
// its length, cut at capacity, or -1 if it cannot be read. Where the system forbids
// process_vm_readv (seccomp) a write() to a pipe of ours does the same check; without either, -1.
int64_t SafeReadString(const char* text, char* out, size_t capacity);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_PROCESS_SAFE_READ_H_

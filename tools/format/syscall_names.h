// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TOOLS_FORMAT_SYSCALL_NAMES_H_
#define GPUPROBE_TOOLS_FORMAT_SYSCALL_NAMES_H_

#include <cstdint>
#include <string>

namespace gpuprobe::tools {

// "futex": name of an x86-64 system call that a thread can block in; "syscall 999" for all others,
// empty for none (negative).
std::string SyscallName(int32_t number);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_SYSCALL_NAMES_H_

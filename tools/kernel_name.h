// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Kernel names: demangled, shortened for tables, and what they say about the kernel.
#ifndef GPUPROBE_TOOLS_KERNEL_NAME_H_
#define GPUPROBE_TOOLS_KERNEL_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuprobe::tools {

// The C++ name behind `mangled`; the input itself where it is not a mangled name (extern "C", Triton) or
// is too long to be worth the time (names come from the trace: the demangler's cost must be bounded).
std::string Demangle(std::string_view mangled);

// For tables: without return type, parameters and clone suffix, with common namespaces cut short. Until it
// fits into `width`: namespaces inside template arguments go, then arguments are folded to <...> from the
// inside out, then the last ones go, then the middle of the name.
std::string ShortKernelName(std::string_view demangled, size_t width);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_KERNEL_NAME_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Kernel names: demangled, shortened for tables, and what they say about the kernel.
#ifndef GPUPROBE_TOOLS_FORMAT_KERNEL_NAME_H_
#define GPUPROBE_TOOLS_FORMAT_KERNEL_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuprobe::tools {

// The C++ name behind `mangled`; the input itself where it is not a mangled name (extern "C",
// Triton) or is too long to be worth the time (names come from the trace: the demangler's cost must
// be bounded).
std::string Demangle(std::string_view mangled);

// Without return type, parameters and clone suffix: "ns::f<int>". "(anonymous namespace)" becomes
// "{anonymous}".
std::string FunctionName(std::string_view demangled);

// For tables: without return type, parameters and clone suffix, with common namespaces cut short.
// Until it fits into `width`: namespaces inside template arguments go, then arguments are folded to
// <...> from the inside out, then the last ones go, then the middle of the name.
std::string ShortKernelName(std::string_view demangled, size_t width);

// The names of a timeline by index, each demangled and shortened once: reports ask for the same few
// hundred names millions of times.
class KernelNames {
 public:
  explicit KernelNames(const std::vector<std::string>& mangled)
      : mangled_(mangled), cache_(mangled.size()) {}
  KernelNames(const KernelNames&) = delete;
  KernelNames& operator=(const KernelNames&) = delete;

  const std::string& Full(int32_t name);
  const std::string& Short(int32_t name, size_t width);

 private:
  struct Entry {
    std::string full, shortened;
    size_t width = 0;  // of `shortened`; 0: not made yet
    bool known = false;
  };
  const std::vector<std::string>& mangled_;
  std::vector<Entry> cache_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_KERNEL_NAME_H_

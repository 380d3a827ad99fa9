// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Files that hold a GPU's work and cannot be read as they are: what their names say they are, and
// what makes something readable of them.
#ifndef GPUPROBE_TOOLS_LOAD_FILES_FOREIGN_FILES_H_
#define GPUPROBE_TOOLS_LOAD_FILES_FOREIGN_FILES_H_

#include <string>

namespace gpuprobe::tools {

// "a report of Nsight Systems; export it: nsys export --type sqlite a.nsys-rep, and give
// a.sqlite"; empty for names that say nothing.
std::string AdviceForForeignFile(const std::string& path);

// What a JSON text without trace events could have been meant to be.
inline constexpr char kJsonAdvice[] =
    "; wanted is what export_chrome_trace of PyTorch's profiler writes (of Nsight Systems: nsys "
    "export --type sqlite)";

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_FILES_FOREIGN_FILES_H_

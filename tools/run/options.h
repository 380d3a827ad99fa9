// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The command line of probe-run. Parsing has no side effects.
#ifndef GPUPROBE_TOOLS_RUN_OPTIONS_H_
#define GPUPROBE_TOOLS_RUN_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

namespace gpuprobe::run {

// How the library gets into the command's processes.
enum class Door {
  kPreload,    // LD_PRELOAD: sees other CUPTI clients, too
  kInjection,  // CUDA_INJECTION64_PATH: the driver loads it; nothing in processes without CUDA
};

struct Options {
  std::string output;   // -o; empty: GPUPROBE_OUT or a new directory's name
  std::string library;  // --lib; empty: beside the executable
  Door door = Door::kPreload;
  bool report = true;
  bool quiet = false;
  std::string report_to = "stderr";                            // "stderr", "stdout" or a file
  std::vector<std::pair<std::string, std::string>> variables;  // -e, in order
  std::vector<std::string> command;
  bool help = false;  // with help or version nothing else is set
  bool version = false;
};

// Options end at "--" or at the first argument that is none. On failure returns false with one
// sentence in `error`.
[[nodiscard]] bool ParseOptions(const std::vector<std::string>& arguments, Options* options,
                                std::string* error);

extern const char kHelp[];

}  // namespace gpuprobe::run

#endif  // GPUPROBE_TOOLS_RUN_OPTIONS_H_

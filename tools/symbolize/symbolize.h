// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Names for native code locations, from the modules' files where the report is made.
//
// A wrong name is worse than none. A file is believed if its build id is the one that was recorded;
// where none was recorded, if the trace was made on this host and the file has not been changed
// since the capture began.
#ifndef GPUPROBE_TOOLS_SYMBOLIZE_SYMBOLIZE_H_
#define GPUPROBE_TOOLS_SYMBOLIZE_SYMBOLIZE_H_

#include <cstdint>
#include <string>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

struct SymbolizeOptions {
  std::string host;  // name of this host; empty: ask the system
  std::string root;  // put in front of module paths
};

struct SymbolizeResult {
  uint64_t locations = 0;  // native ones
  uint64_t named = 0;
  uint64_t modules = 0, modules_read = 0;
};

// Sets CodeLocation::function of native locations that have none. Never fails: what cannot be read
// or believed keeps no name ("libfoo.so+0x1234" in reports).
SymbolizeResult Symbolize(const SymbolizeOptions& options, Timeline* timeline);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_SYMBOLIZE_SYMBOLIZE_H_

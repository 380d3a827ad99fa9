// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// `dump`: every record of every file, one a line, in file order. Reads the files itself, frame by
// frame, so that it needs no memory for them and shows what is there even where the other reports
// conclude nothing. Times are as in the file (no alignment of clocks).
// Imported files are loaded as a whole and shown in order of time.
#ifndef GPUPROBE_TOOLS_DUMP_REPORT_DUMP_H_
#define GPUPROBE_TOOLS_DUMP_REPORT_DUMP_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "tools/load/files/input_files.h"
#include "tools/report/output.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

struct DumpOptions {
  Format format = Format::kText;
  std::optional<uint32_t> pid;  // records of this process alone
  std::optional<int> top;       // the first so many; nullopt, 0: all
};

// True if all inputs were complete. Fails if none could be read. Write errors are in `output`.
absl::StatusOr<bool> WriteDump(const InputFiles& files, const DumpOptions& options, Output* output);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_DUMP_REPORT_DUMP_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A short part of a run that is too long to be held: what explains one of its gaps.
#ifndef GPUPROBE_TOOLS_WINDOWED_RECORDS_AROUND_H_
#define GPUPROBE_TOOLS_WINDOWED_RECORDS_AROUND_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "tools/analysis/analysis.h"
#include "tools/load/files/input_files.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

struct AroundOptions {
  size_t context = 131'072;                // records before and behind that are there, too
  size_t most = 8'000'000;                 // records in all; 130 bytes each
  std::function<void(Timeline*)> prepare;  // as WindowedOptions::prepare
};

// The run with the records that overlap with `when` and those next to them, linked; calls that
// reach into it are there however early they began. Reads the files once more. ResourceExhausted:
// they are more than AroundOptions::most.
absl::StatusOr<LoadedRun> LoadAround(const InputFiles& files, const Window& when,
                                     const AroundOptions& options = {});

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_RECORDS_AROUND_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a CUDA call does, by its name: for traces that carry names instead of CUPTI's numbers.
#ifndef GPUPROBE_TOOLS_IMPORT_CALL_CLASS_H_
#define GPUPROBE_TOOLS_IMPORT_CALL_CLASS_H_

#include <string>
#include <string_view>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// "cudaLaunchKernel_ptsz_v7000" -> "cudaLaunchKernel_ptsz": CUPTI and Nsight Systems append the
// CUDA version in which a call's parameters last changed.
std::string WithoutVersion(std::string_view name);

// Same as the class in cupti/api_calls.h (a test compares all known names), but kOther for the
// calls that gpuprobe's library leaves unrecorded (queries and setters): other tools record them,
// and the same program must get the same report. Version and per-thread-stream suffixes do not
// matter.
CallClass CallClassOfName(std::string_view name);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_CALL_CLASS_H_

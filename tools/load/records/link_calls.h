// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Brings host calls and GPU work together by (process, correlation).
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_LINK_CALLS_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_LINK_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// The timeline must be sorted. Removes driver calls beneath runtime calls, fills GpuOp::submission
// and SyncOp::call, and moves operations whose times cannot belong to the call that submitted them
// (hours away: a record in another clock's domain) to Timeline::untimed, with a notice.
// `highest`: by process, raised to the largest correlation id of its calls and operations.
void LinkCalls(LoadedRun* run, std::vector<uint32_t>* highest = nullptr);
std::string OtherClockNotice(uint64_t moved);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_LINK_CALLS_H_

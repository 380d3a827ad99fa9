// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A Timeline -> flat records with named fields, in order of time: `dump` of imported files, whose
// own rows are of no one form. The keys are those of gpuprobe's own records (dump_records.h).
#ifndef GPUPROBE_TOOLS_DUMP_DUMP_TIMELINE_H_
#define GPUPROBE_TOOLS_DUMP_DUMP_TIMELINE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "tools/dump/dump_records.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// `sink` takes one record and says whether it wants more. `pid`: records of this process alone.
void DumpTimeline(const LoadedRun& run, std::optional<uint32_t> pid,
                  const std::function<bool(const DumpRecord&)>& sink);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_DUMP_DUMP_TIMELINE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the words in trace events mean: the categories that PyTorch's profiler has written from 2021
// to today, and the texts in which it says how a copy went or what a thread waited for.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_WORDS_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_WORDS_H_

#include <cstdint>
#include <string_view>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

enum class RowKind : uint8_t {
  kKernel,
  kCopy,
  kSet,
  kRuntimeCall,
  kDriverCall,
  kSync,
  kOverhead,
  kPython,         // a Python function, from call to return
  kOperator,       // a framework operator: "aten::add"
  kAnnotation,     // a range that the user named
  kGpuAnnotation,  // the same, where the profiler has put it on the device's time
  kMetadata,       // ph "M"
  kKnown,          // known, and of no use here: flows, memory counters
  kUnknown,        // a category that is none of these
  kNone,           // no category
};

// Without regard to case.
RowKind KindOfCategory(std::string_view category);

// "Memcpy DtoH (Device -> Pageable)" and older or shorter forms; CUpti_ActivityMemcpyKind and
// CUpti_ActivityMemoryKind, 0 where the text does not say.
CopyShape CopyShapeOf(std::string_view name);

// "Stream Wait Event": SyncOp::type; 0: none of the four.
uint8_t SyncTypeOf(std::string_view kind);

// "Command Buffer Full": CUpti_ActivityOverheadKind; 0: not known.
uint32_t OverheadKindOf(std::string_view name);
// Was it made by tracing itself (true), or would the application pay it without (module loading)?
bool IsProfilerOverheadKind(uint32_t kind);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_WORDS_H_

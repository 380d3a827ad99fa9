// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto/kineto_words.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace gpuprobe::tools {
namespace {

struct Category {
  std::string_view name;
  RowKind kind;
};

// The spellings differ by version: "Kernel", "Memcpy", "Runtime", "Operator" until 2021; "kernel",
// "gpu_memcpy", "cuda_runtime", "cpu_op" since.
constexpr Category kCategories[] = {
    {"kernel", RowKind::kKernel},
    {"gpu_memcpy", RowKind::kCopy},
    {"memcpy", RowKind::kCopy},
    {"gpu_memset", RowKind::kSet},
    {"memset", RowKind::kSet},
    {"cuda_runtime", RowKind::kRuntimeCall},
    {"runtime", RowKind::kRuntimeCall},
    {"cuda_driver", RowKind::kDriverCall},
    {"driver", RowKind::kDriverCall},
    {"cuda_sync", RowKind::kSync},
    {"overhead", RowKind::kOverhead},
    {"python_function", RowKind::kPython},
    {"cpu_op", RowKind::kOperator},
    {"operator", RowKind::kOperator},
    {"user_annotation", RowKind::kAnnotation},
    {"gpu_user_annotation", RowKind::kGpuAnnotation},
    {"cuda_event", RowKind::kKnown},
    {"cuda_profiler_range", RowKind::kKnown},
    {"cpu_instant_event", RowKind::kKnown},
    {"python_gc", RowKind::kKnown},
    {"trace", RowKind::kKnown},
    {"ac2g", RowKind::kKnown},
    {"async_cpu_to_gpu", RowKind::kKnown},
    {"async_gpu", RowKind::kKnown},
    {"fwdbwd", RowKind::kKnown},
    {"forward_backward", RowKind::kKnown},
    {"async", RowKind::kKnown},
    {"__metadata", RowKind::kKnown},
};

bool SameWord(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

uint8_t MemoryKindOf(std::string_view word) {
  if (SameWord(word, "pageable")) return 1;
  if (SameWord(word, "pinned")) return 2;
  if (SameWord(word, "device")) return 3;
  if (SameWord(word, "array")) return 4;
  if (SameWord(word, "managed")) return 5;
  if (SameWord(word, "device static")) return 6;
  if (SameWord(word, "managed static")) return 7;
  return 0;
}

uint8_t CopyKindOf(std::string_view name) {
  struct Kind {
    std::string_view shorthand, spelt;
    uint8_t kind;
  };
  constexpr Kind kKinds[] = {{"htod", "hosttodevice", 1},  {"dtoh", "devicetohost", 2},
                             {"htoa", "hosttoarray", 3},   {"atoh", "arraytohost", 4},
                             {"atoa", "arraytoarray", 5},  {"atod", "arraytodevice", 6},
                             {"dtoa", "devicetoarray", 7}, {"dtod", "devicetodevice", 8},
                             {"htoh", "hosttohost", 9},    {"ptop", "peertopeer", 10}};
  const std::string lower = Lower(name);
  for (const Kind& kind : kKinds) {
    if (lower.find(kind.shorthand) != std::string::npos ||
        lower.find(kind.spelt) != std::string::npos) {
      return kind.kind;
    }
  }
  return 0;
}

}  // namespace

RowKind KindOfCategory(std::string_view category) {
  if (category.empty()) return RowKind::kNone;
  for (const Category& known : kCategories) {
    if (SameWord(known.name, category)) return known.kind;
  }
  return RowKind::kUnknown;
}

CopyShape CopyShapeOf(std::string_view name) {
  constexpr uint8_t kPeer = 10;
  CopyShape shape = {};
  const size_t open = name.rfind('('), close = name.rfind(')');
  const bool memories = open != std::string_view::npos && close != std::string_view::npos;
  shape.copy_kind = CopyKindOf(memories ? name.substr(0, open) : name);
  shape.peer = shape.copy_kind == kPeer;
  if (!memories || close < open) return shape;
  const std::string_view inside = name.substr(open + 1, close - open - 1);
  constexpr std::string_view kArrow = " -> ";
  const size_t arrow = inside.find(kArrow);
  if (arrow == std::string_view::npos) return shape;
  shape.src_kind = MemoryKindOf(inside.substr(0, arrow));
  shape.dst_kind = MemoryKindOf(inside.substr(arrow + kArrow.size()));
  return shape;
}

uint8_t SyncTypeOf(std::string_view kind) {
  if (SameWord(kind, "event sync") || SameWord(kind, "event synchronize")) return 1;
  if (SameWord(kind, "stream wait event")) return 2;
  if (SameWord(kind, "stream sync") || SameWord(kind, "stream synchronize")) return 3;
  if (SameWord(kind, "context sync") || SameWord(kind, "context synchronize") ||
      SameWord(kind, "device sync")) {
    return 4;
  }
  return 0;
}

uint32_t OverheadKindOf(std::string_view name) {
  struct Overhead {
    std::string_view name;
    uint32_t kind;
  };
  constexpr Overhead kOverheads[] = {
      {"driver compiler", 1},           {"buffer flush", 1 << 16},
      {"instrumentation", 2 << 16},     {"resource", 3 << 16},
      {"module loading", 4 << 16},      {"lazy function loading", 5 << 16},
      {"command buffer full", 6 << 16}, {"activity buffer request", 7 << 16},
      {"uvm activity", 8 << 16}};
  const std::string lower = Lower(name);
  for (const Overhead& overhead : kOverheads) {
    if (lower.find(overhead.name) != std::string::npos) return overhead.kind;
  }
  return 0;
}

bool IsProfilerOverheadKind(uint32_t kind) {
  switch (kind >> 16) {
    case 1:
    case 2:
    case 3:
    case 7:
    case 8:
      return (kind & 0xffff) == 0;
    default:
      return false;
  }
}

}  // namespace gpuprobe::tools

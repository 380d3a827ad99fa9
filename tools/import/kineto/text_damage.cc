// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto/text_damage.h"

#include <algorithm>
#include <optional>

#include "tools/import/kineto/kineto_words.h"
#include "tools/import/text/exact_time.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

bool IsGpuKind(RowKind kind) {
  return kind == RowKind::kKernel || kind == RowKind::kCopy || kind == RowKind::kSet;
}

}  // namespace

void Describe(std::string_view text, TextDamage* damage) {
  int64_t begin = INT64_MAX, latest = INT64_MIN, longest = 0;
  bool host_only = true, any = false, timed = false;
  for (size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 1)) {
    const std::string_view rest = text.substr(at);
    const auto value_of = [rest](std::string_view key) -> std::optional<std::string_view> {
      if (!rest.starts_with(key)) return std::nullopt;
      size_t from = rest.find_first_not_of(" \t\r\n:", key.size());
      if (from == std::string_view::npos) return ""sv;
      if (rest[from] == '"') ++from;
      return rest.substr(from, rest.find_first_of("\",} \t\r\n", from) - from);
    };
    if (const auto category = value_of("\"cat\"")) {
      any = true;
      const RowKind kind = KindOfCategory(*category);
      host_only &= !IsGpuKind(kind) && kind != RowKind::kUnknown && kind != RowKind::kNone;
    } else if (const auto start = value_of("\"ts\"")) {
      const auto ns = NanosecondsOf(*start);
      timed = ns.has_value();
      if (!timed) break;
      begin = std::min(begin, *ns);
      latest = std::max(latest, *ns);
    } else if (const auto duration = value_of("\"dur\"")) {
      longest = std::max(longest, NanosecondsOf(*duration).value_or(0));
    }
  }
  damage->hides_gpu_work = !any || !host_only;
  int64_t end = 0;
  if (timed && begin > 0 && !__builtin_add_overflow(latest, longest, &end)) {
    damage->begin_ns = begin;
    damage->end_ns = end;
  }
}

}  // namespace gpuprobe::tools

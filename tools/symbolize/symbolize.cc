// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/symbolize/symbolize.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/format/kernel_name.h"
#include "tools/symbolize/elf_symbols.h"

namespace gpuprobe::tools {
namespace {

std::string ThisHost() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Whether all that was sampled comes from `host`, and when its first capture began.
struct Origin {
  bool this_host = true;
  int64_t begin_ns = INT64_MAX;
};
Origin OriginOf(const Timeline& timeline, const std::string& host) {
  Origin origin;
  origin.this_host = !host.empty();
  for (const Process& process : timeline.processes) {
    origin.this_host &= process.host == host;
    origin.begin_ns = std::min(origin.begin_ns, process.capture_begin_ns);
  }
  return origin;
}

class Symbolizer {
 public:
  Symbolizer(const SymbolizeOptions& options, Timeline* timeline)
      : options_(options),
        timeline_(*timeline),
        origin_(OriginOf(*timeline, options.host.empty() ? ThisHost() : options.host)) {
    for (const Module& module : timeline_.modules) build_ids_[module.file].insert(module.build_id);
  }

  SymbolizeResult Run() {
    // Module by module, so that one file's symbols are in memory at a time.
    std::map<int32_t, std::vector<size_t>> by_module;
    for (size_t i = 0; i < timeline_.locations.size(); ++i) {
      const CodeLocation& location = timeline_.locations[i];
      if (!location.native || location.function >= 0) continue;
      ++result_.locations;
      if (location.file >= 0) by_module[location.file].push_back(i);
    }
    if (by_module.empty()) return result_;
    for (size_t i = 0; i < timeline_.strings.size(); ++i) {
      strings_.try_emplace(timeline_.strings[i], static_cast<int32_t>(i));
    }
    for (const auto& [module, locations] : by_module) NameModule(module, locations);
    return result_;
  }

 private:
  bool Believable(int32_t module, const ElfSymbols& symbols) const {
    const auto recorded = build_ids_.find(module);
    if (recorded != build_ids_.end()) {
      // Two of them: the path meant different files in the processes of this run.
      return recorded->second.size() == 1 && *recorded->second.begin() == symbols.build_id();
    }
    return origin_.this_host && symbols.modified_ns() < origin_.begin_ns;
  }

  void NameModule(int32_t module, const std::vector<size_t>& locations) {
    ++result_.modules;
    const std::string& path = timeline_.strings[static_cast<size_t>(module)];
    if (!path.starts_with('/')) return;  // [vdso], an anonymous mapping
    const absl::StatusOr<ElfSymbols> symbols = ElfSymbols::Open(options_.root + path);
    if (!symbols.ok() || !Believable(module, *symbols)) return;
    ++result_.modules_read;
    for (const size_t index : locations) {
      CodeLocation& location = timeline_.locations[index];
      const std::string_view name = symbols->Find(location.offset);
      if (name.empty()) continue;
      location.function = Intern(FunctionName(Demangle(name)));
      ++result_.named;
    }
  }

  int32_t Intern(const std::string& text) {
    const auto [at, added] =
        strings_.try_emplace(text, static_cast<int32_t>(timeline_.strings.size()));
    if (added) timeline_.strings.push_back(text);
    return at->second;
  }

  const SymbolizeOptions& options_;
  Timeline& timeline_;
  const Origin origin_;
  std::map<int32_t, std::set<std::string>> build_ids_;  // of a module
  absl::flat_hash_map<std::string, int32_t> strings_;
  SymbolizeResult result_;
};

}  // namespace

SymbolizeResult Symbolize(const SymbolizeOptions& options, Timeline* timeline) {
  return Symbolizer(options, timeline).Run();
}

}  // namespace gpuprobe::tools

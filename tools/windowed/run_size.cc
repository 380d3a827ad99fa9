// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/run_size.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "tools/import/source_format.h"

namespace gpuprobe::tools {
namespace {

// The number behind `key` in a file of lines "key number"; an empty key: the file's first word.
std::optional<uint64_t> ReadNumber(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (!key.empty() && file >> word && word != key) {
  }
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// "0::/path" names the group; empty: none.
std::string ControlGroup(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return "";
}

uint64_t LeftInGroup(const std::string& folder) {
  const auto most = ReadNumber(folder + "/memory.max", "");  // "max": no limit
  if (!most) return UINT64_MAX;
  const uint64_t used = ReadNumber(folder + "/memory.current", "").value_or(0);
  // Cached files: given up when memory is wanted.
  const uint64_t cached = ReadNumber(folder + "/memory.stat", "inactive_file").value_or(0);
  const uint64_t held = used - std::min(used, cached);
  // 0 would say that nothing is known.
  return std::max<uint64_t>(*most - std::min(*most, held), 1);
}

}  // namespace

uint64_t TraceBytes(const InputFiles& files) {
  uint64_t bytes = 0;
  for (const std::string& path : files.paths) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (!error && DetectSourceOfFile(path).format == SourceFormat::kOther) bytes += size;
  }
  return bytes;
}

uint64_t AvailableMemoryBytes(const std::string& root) {
  const auto kilobytes = ReadNumber(root + "/proc/meminfo", "MemAvailable:");
  uint64_t available = kilobytes ? *kilobytes * 1024 : UINT64_MAX;
  for (std::string group = ControlGroup(root); !group.empty();) {
    available = std::min(available, LeftInGroup(root + "/sys/fs/cgroup" + group));
    group.resize(group == "/" ? 0 : std::max<size_t>(group.rfind('/'), 1));
  }
  return available == UINT64_MAX ? 0 : available;
}

}  // namespace gpuprobe::tools

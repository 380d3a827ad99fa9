// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/places.h"

#include <dirent.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "proto/format.h"

namespace gpuprobe::run {

std::string ExecutableFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  return error ? "" : full.string();  // with an error it is the path as it was given
}

std::string RunDirectoryName(time_t now, int pid) {
  struct tm utc = {};
  gmtime_r(&now, &utc);
  char date[32];
  strftime(date, sizeof(date), "%Y%m%dT%H%M%S", &utc);
  return "gpuprobe-" + std::string(date) + "-" + std::to_string(pid);
}

size_t CountTraces(const std::string& directory) {
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return 0;
  size_t count = 0;
  while (const dirent* entry = readdir(dir)) {
    if (std::string_view(entry->d_name).ends_with(proto::kFileSuffix)) ++count;
  }
  closedir(dir);
  return count;
}

}  // namespace gpuprobe::run

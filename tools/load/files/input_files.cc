// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/files/input_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "proto/format.h"
#include "tools/load/files/foreign_files.h"

namespace gpuprobe::tools {
namespace {

namespace fs = std::filesystem;

bool IsTraceName(const fs::path& path) { return path.extension() == proto::kFileSuffix; }

// As PyTorch's profiler and its users name traces (.pt.trace.json.gz), and Nsight Systems exports.
bool IsImportName(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".json.zst") ||
         name.ends_with(".sqlite");
}

// Files in `folder` whose name is `wanted`, and in its subfolders if `descend`.
void ListFolder(const fs::path& folder, bool (*wanted)(const fs::path&), bool descend,
                std::vector<std::string>* found, InputFiles* out) {
  std::error_code error;
  fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  std::vector<fs::path> entries;
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    entries.push_back(at->path());
  if (error) {
    out->unusable.push_back({folder.string(), folder.string() + ": " + error.message()});
    return;
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    std::error_code ignored;
    if (fs::is_directory(entry, ignored)) {
      if (descend) ListFolder(entry, wanted, false, found, out);
    } else if (wanted(entry)) {
      found->push_back(entry.string());
    }
  }
}

bool IsForeignName(const fs::path& path) { return !AdviceForForeignFile(path.string()).empty(); }

std::string NothingIn(const std::string& folder) {
  const std::string nothing =
      folder +
      ": no *.gpuprobe file in this folder or one level below, and no trace of another "
      "profiler in it (*.json, *.json.gz, *.sqlite)";
  std::vector<std::string> foreign;
  InputFiles ignored;
  ListFolder(folder, IsForeignName, true, &foreign, &ignored);
  if (foreign.empty()) return nothing;
  return nothing + "; it holds " + fs::path(foreign.front()).filename().string() + ": " +
         AdviceForForeignFile(foreign.front());
}

std::string LastComponent(const std::string& path) {
  std::error_code error;
  fs::path full = fs::absolute(path, error).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const std::string name = full.filename().string();
  return name.empty() ? path : name;
}

}  // namespace

InputFiles FindInputFiles(const std::vector<std::string>& paths) {
  InputFiles out;
  std::set<std::pair<dev_t, ino_t>> seen;
  if (!paths.empty()) out.run_name = LastComponent(paths.front());
  for (const std::string& path : paths) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) {
      out.unusable.push_back({path, path + ": " + std::strerror(errno)});
      continue;
    }
    std::vector<std::string> found;
    if (S_ISDIR(info.st_mode)) {
      const size_t problems = out.unusable.size();
      ListFolder(path, IsTraceName, true, &found, &out);
      if (found.empty() && out.unusable.size() == problems) {
        ListFolder(path, IsImportName, false, &found, &out);
      }
      if (found.empty() && out.unusable.size() == problems) {
        out.unusable.push_back({path, NothingIn(path)});
      }
    } else {
      found.push_back(path);
    }
    for (std::string& file : found) {
      if (stat(file.c_str(), &info) == 0 && !seen.emplace(info.st_dev, info.st_ino).second) {
        out.notices.push_back(file + " is named twice: read once");
        continue;
      }
      out.paths.push_back(std::move(file));
    }
  }
  return out;
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/preload.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace gpuprobe::run {
namespace {

constexpr std::string_view kSeparators = ": ";

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string AddToPreload(std::string_view existing, std::string_view library) {
  size_t begin = existing.find_first_not_of(kSeparators);
  while (begin != std::string_view::npos) {
    const size_t end = std::min(existing.find_first_of(kSeparators, begin), existing.size());
    if (BaseName(existing.substr(begin, end - begin)) == kLibraryName) {
      std::string result(existing);
      return result.replace(begin, end - begin, library);
    }
    begin = existing.find_first_not_of(kSeparators, end);
  }
  std::string result(existing);
  if (!result.empty()) result += ':';
  result += library;
  return result;
}

bool FitsInPreload(std::string_view path) { return path.find_first_of(": $") == path.npos; }

bool PreloadAlias::Create(const std::string& target, std::string* error) {
  const char* base = std::getenv("TMPDIR");
  if (base == nullptr || base[0] != '/' || !FitsInPreload(base)) base = "/tmp";
  std::string directory = std::string(base) + "/probe-run-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    *error = "cannot make " + directory + ": " + std::strerror(errno);
    return false;
  }
  directory_ = directory;
  const std::string link = directory_ + "/" + kLibraryName;
  if (symlink(target.c_str(), link.c_str()) != 0) {
    *error = "cannot make " + link + ": " + std::strerror(errno);
    return false;
  }
  path_ = link;
  return true;
}

void PreloadAlias::Remove() {
  if (!path_.empty()) unlink(path_.c_str());
  if (!directory_.empty()) rmdir(directory_.c_str());
  path_.clear();
  directory_.clear();
}

}  // namespace gpuprobe::run

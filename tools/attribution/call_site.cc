// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/call_site.h"

#include <algorithm>
#include <cstdio>

namespace gpuprobe::tools {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// ".../lib/python3.11/queue.py", ".../lib64/python3.11/...", ".../python311.zip/queue.py"
size_t EndOfStandardPrefix(std::string_view file) {
  for (const std::string_view folder : {"/lib/python", "/lib64/python"}) {
    const size_t at = file.find(folder);
    if (at == std::string_view::npos) continue;
    size_t end = at + folder.size();
    if (end >= file.size() || !IsDigit(file[end])) continue;
    while (end < file.size() && (IsDigit(file[end]) || file[end] == '.' || file[end] == 't')) ++end;
    if (end < file.size() && file[end] == '/') return end + 1;
  }
  if (const size_t at = file.find("/python"); at != std::string_view::npos) {
    size_t end = at + 7;
    while (end < file.size() && IsDigit(file[end])) ++end;
    if (file.substr(end, 5) == ".zip/") return end + 5;
  }
  return std::string_view::npos;
}

size_t EndOfPackagesPrefix(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    if (const size_t at = file.rfind(folder); at != std::string_view::npos)
      return at + folder.size();
  }
  return std::string_view::npos;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// How many of the last components two paths share.
size_t SharedTail(std::string_view a, std::string_view b) {
  size_t shared = 0;
  while (!a.empty() && !b.empty()) {
    const std::string_view x = BaseName(a), y = BaseName(b);
    if (x != y) break;
    ++shared;
    a.remove_suffix(std::min(a.size(), x.size() + 1));
    b.remove_suffix(std::min(b.size(), y.size() + 1));
  }
  return shared;
}

std::string_view Tail(std::string_view path, size_t components) {
  size_t begin = path.size();
  while (components-- > 0 && begin > 0) {
    const size_t slash = path.rfind('/', begin - 1);
    if (slash == std::string_view::npos) return path;
    begin = slash;
  }
  return path.substr(begin < path.size() && path[begin] == '/' ? begin + 1 : begin);
}

std::string_view LastName(std::string_view qualified) {
  const size_t dot = qualified.rfind('.');
  return dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
}

// "multiprocessing.queues" for ".../lib/python3.11/multiprocessing/queues.py"
std::string ModuleOf(std::string_view file) {
  const size_t begin = EndOfStandardPrefix(file);
  std::string module(begin == std::string_view::npos ? BaseName(file) : file.substr(begin));
  if (module.ends_with(".py")) module.resize(module.size() - 3);
  if (module.ends_with("/__init__")) module.resize(module.size() - 9);
  std::replace(module.begin(), module.end(), '/', '.');
  return module;
}

// C's own library shows that a thread waits, never for what.
bool IsSystemLibrary(std::string_view module) {
  const std::string_view name = BaseName(module);
  return name.starts_with("libc.so") || name.starts_with("libc-2") ||
         name.starts_with("libpthread") || name.starts_with("ld-linux") || name == "[vdso]";
}

}  // namespace

bool IsPythonInterpreter(std::string_view path) {
  const std::string_view name = BaseName(path);
  return name.starts_with("python") || name.starts_with("libpython");
}

bool IsInPythonInterpreter(const Timeline& timeline, const CodeLocation& location) {
  return location.native && location.file >= 0 &&
         IsPythonInterpreter(timeline.strings[static_cast<size_t>(location.file)]);
}

CodeOwner OwnerOfFile(std::string_view file) {
  if (file.starts_with("<")) {
    // A command line, a terminal or a notebook cell; anything else of this form nobody wrote.
    const bool typed = file == "<string>" || file == "<stdin>" ||
                       file.starts_with("<ipython-input") || file.starts_with("<cell");
    return typed ? CodeOwner::kUser : CodeOwner::kGenerated;
  }
  if (EndOfPackagesPrefix(file) != std::string_view::npos) return CodeOwner::kLibrary;
  if (EndOfStandardPrefix(file) != std::string_view::npos) return CodeOwner::kStandard;
  if (Contains(file, "/torchinductor_") || Contains(file, "/torchinductor/") ||
      Contains(file, "/.triton/cache/")) {
    return CodeOwner::kGenerated;
  }
  return CodeOwner::kUser;
}

std::string_view PathInLibrary(std::string_view file) {
  size_t begin = EndOfPackagesPrefix(file);
  if (begin == std::string_view::npos) begin = EndOfStandardPrefix(file);
  return begin == std::string_view::npos ? file : file.substr(begin);
}

CallSites::CallSites(const Timeline& timeline) : timeline_(timeline) {
  owners_.assign(timeline.strings.size(), CodeOwner::kUser);
  std::vector<bool> seen(timeline.strings.size(), false);
  for (const CodeLocation& location : timeline.locations) {
    if (location.native || location.file < 0 || seen[location.file]) continue;
    seen[location.file] = true;
    owners_[location.file] = OwnerOfFile(timeline.strings[location.file]);
  }
  ShortenFiles();
  nodes_.resize(timeline.stacks.size());
  user_sited_.assign(timeline.stacks.size(), false);
  for (size_t n = 0; n < nodes_.size(); ++n) Decide(n);
}

const CodeLocation* CallSites::LocationOf(int32_t node) const {
  if (node < 0) return nullptr;
  const int32_t location = timeline_.stacks[node].location;
  return location < 0 ? nullptr : &timeline_.locations[location];
}

CodeOwner CallSites::OwnerOf(const CodeLocation& location) const {
  return location.file < 0 ? CodeOwner::kGenerated : owners_[location.file];
}

// Base names of the user's files, longer where two files share theirs.
void CallSites::ShortenFiles() {
  std::vector<int32_t> files;
  for (const CodeLocation& location : timeline_.locations) {
    if (!location.native && location.file >= 0 && owners_[location.file] == CodeOwner::kUser)
      files.push_back(location.file);
  }
  const auto reversed_less = [&](int32_t a, int32_t b) {
    const std::string &x = timeline_.strings[a], &y = timeline_.strings[b];
    return std::lexicographical_compare(x.rbegin(), x.rend(), y.rbegin(), y.rend());
  };
  const auto same = [&](int32_t a, int32_t b) {
    return timeline_.strings[a] == timeline_.strings[b];
  };
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  // Files that end alike become neighbours: none shares more with a file further away.
  std::stable_sort(files.begin(), files.end(), reversed_less);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string_view file = timeline_.strings[files[i]];
    size_t shared = 0;
    for (size_t j = i; j-- > 0;) {
      if (same(files[i], files[j])) continue;
      shared = SharedTail(file, timeline_.strings[files[j]]);
      break;
    }
    for (size_t j = i + 1; j < files.size(); ++j) {
      if (same(files[i], files[j])) continue;
      shared = std::max(shared, SharedTail(file, timeline_.strings[files[j]]));
      break;
    }
    short_files_[files[i]] = Tail(file, shared + 1);
  }
}

void CallSites::Decide(size_t n) {
  const StackNode& stack = timeline_.stacks[n];
  const Node above = stack.parent < 0 ? Node() : nodes_[stack.parent];
  const bool above_is_user = stack.parent >= 0 && user_sited_[stack.parent];
  const auto self = static_cast<int32_t>(n);
  Node& node = nodes_[n];
  node = above;
  node.standard = -1;
  user_sited_[n] = above_is_user;
  const CodeLocation* location = LocationOf(self);
  if (location == nullptr) return;
  if (location->native) {
    const bool named = location->file >= 0 || location->function >= 0;
    if (above.python < 0 && named && (above.site < 0 || !IsSystemLibrary(FileOf(*location))))
      node.site = self;
    return;
  }
  node.python = self;
  const CodeOwner owner = OwnerOf(*location);
  if (owner == CodeOwner::kStandard) node.standard = above.standard >= 0 ? above.standard : self;
  if (owner == CodeOwner::kLibrary && above.library < 0) node.library = self;
  if (owner == CodeOwner::kUser) {
    node.site = self;
    user_sited_[n] = true;
  } else if (!above_is_user) {
    // Code of nobody's but libraries: where the outermost of them is entered, or, of the standard
    // library alone, the innermost frame.
    node.site = node.library >= 0 ? node.library : self;
  }
}

std::string CallSites::NativeText(const CodeLocation& location) const {
  const std::string module(BaseName(FileOf(location)));
  const std::string function(FunctionOf(location));
  if (!function.empty()) return module.empty() ? function : function + " (" + module + ")";
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%llx", static_cast<unsigned long long>(location.offset));
  return (module.empty() ? "?" : module) + offset;
}

std::string CallSites::TextOf(int32_t node) const {
  const CodeLocation* location = LocationOf(node);
  if (location == nullptr) return "";
  if (location->native) return NativeText(*location);
  const auto short_file = short_files_.find(location->file);
  std::string text(short_file != short_files_.end() ? short_file->second
                                                    : PathInLibrary(FileOf(*location)));
  const std::string_view function = FunctionOf(*location);
  // Ranges that an application has named have no file.
  if (text.empty()) return std::string(function.empty() ? "?" : function);
  if (location->line > 0) text += ":" + std::to_string(location->line);
  if (!function.empty()) text.append(" in ").append(function);
  return text;
}

std::string CallSites::Below(int32_t stack) const {
  if (stack < 0) return "";
  const int32_t site = nodes_[stack].site;
  const int32_t python = nodes_[stack].python;
  if (python >= 0 && python != site) {
    const int32_t standard = nodes_[python].standard;
    if (standard >= 0 && standard != site) {
      const CodeLocation& entered = *LocationOf(standard);
      return ModuleOf(FileOf(entered)) + "." + std::string(LastName(FunctionOf(entered)));
    }
    return TextOf(python);
  }
  // Native frames below the user's line: the innermost that says more than that it waits.
  for (int32_t node = stack; node >= 0 && node != site; node = timeline_.stacks[node].parent) {
    const CodeLocation* location = LocationOf(node);
    if (location == nullptr || !location->native) continue;
    if (!IsSystemLibrary(FileOf(*location))) return NativeText(*location);
  }
  return "";
}

}  // namespace gpuprobe::tools

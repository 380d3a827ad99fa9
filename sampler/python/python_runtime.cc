// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "sampler/system/process_path.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

constexpr size_t kMaxPathBytes = 1024;
constexpr int kMaxThreadsLookedAt = 16;

// A file's first page as it is mapped.
struct Module {
  uint64_t begin, end;
  std::string_view path;
};

uint64_t ParseHex(std::string_view* text) {
  uint64_t value = 0;
  while (!text->empty()) {
    const char c = text->front();
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      break;
    }
    value = value << 4 | static_cast<uint64_t>(digit);
    text->remove_prefix(1);
  }
  return value;
}

void SkipField(std::string_view* line) {
  const size_t space = line->find(' ');
  line->remove_prefix(space == line->npos ? line->size() : space);
  const size_t next = line->find_first_not_of(' ');
  line->remove_prefix(next == line->npos ? line->size() : next);
}

// "begin-end perms offset dev inode path". False: not the readable first page of a file.
bool ParseFirstPage(std::string_view line, Module* out) {
  out->begin = ParseHex(&line);
  if (line.empty() || line.front() != '-') return false;
  line.remove_prefix(1);
  out->end = ParseHex(&line);
  SkipField(&line);
  const bool readable = !line.empty() && line.front() == 'r';
  SkipField(&line);
  const uint64_t offset = ParseHex(&line);
  SkipField(&line);
  SkipField(&line);
  SkipField(&line);
  out->path = line;
  return readable && offset == 0 && !line.empty() && line.front() == '/';
}

// The lines of /proc/PID/maps, one after the other.
class MapsReader {
 public:
  MapsReader(pid_t pid, char* buffer, size_t bytes) : buffer_(buffer), capacity_(bytes) {
    char path[kProcPathBytes];
    FormatProcPath(path, pid, "/maps");
    fd_ = RawOpen(path, O_RDONLY | O_CLOEXEC);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;
  ~MapsReader() {
    if (fd_ >= 0) RawClose(fd_);
  }
  bool opened() const { return fd_ >= 0; }
  // Valid until the next call.
  bool Next(std::string_view* line) {
    while (true) {
      const auto* newline = static_cast<const char*>(memchr(buffer_ + begin_, '\n', end_ - begin_));
      if (newline != nullptr) {
        *line = {buffer_ + begin_, static_cast<size_t>(newline - (buffer_ + begin_))};
        begin_ = static_cast<size_t>(newline + 1 - buffer_);
        return true;
      }
      memmove(buffer_, buffer_ + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      if (end_ == capacity_) end_ = 0;  // no line is that long
      ssize_t got;
      do {
        got = RawRead(fd_, buffer_ + end_, capacity_ - end_);
      } while (got < 0 && errno == EINTR);
      if (got <= 0) return false;
      end_ += static_cast<size_t>(got);
    }
  }

 private:
  int fd_ = -1;
  char* buffer_;
  size_t capacity_;
  size_t begin_ = 0, end_ = 0;
};

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  // Not substr(): its throw would need libstdc++.
  if (slash != path.npos) path.remove_prefix(slash + 1);
  return path;
}

// The N of a "python3.N" in a path; 0: none.
int MinorInPath(std::string_view path) {
  constexpr std::string_view kName = "python3.";
  for (size_t at = path.find(kName); at != path.npos; at = path.find(kName, at + 1)) {
    int minor = 0;
    for (size_t i = at + kName.size(); i < path.size() && i < at + kName.size() + 2; ++i) {
      if (path[i] < '0' || path[i] > '9') break;
      minor = minor * 10 + (path[i] - '0');
    }
    if (minor > 0) return minor;
  }
  return 0;
}

// Opens the module's file as the process sees it. -1: not to be had.
int OpenModule(pid_t pid, const Module& module, bool executable) {
  char path[kProcPathBytes + kMaxPathBytes];
  char name[kProcPathBytes];
  if (executable) {  // also when it has been deleted
    FormatProcPath(name, pid, "/exe");
    return RawOpen(name, O_RDONLY | O_CLOEXEC);
  }
  if (module.path.size() < kMaxPathBytes) {
    const size_t length = FormatProcPath(name, pid, "/root");
    memcpy(path, name, length);
    memcpy(path + length, module.path.data(), module.path.size());
    path[length + module.path.size()] = '\0';
    const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) return fd;
  }
  // Deleted: this link leads to it all the same, for those who may follow it.
  size_t length = FormatProcPath(name, pid, "/map_files/");
  memcpy(path, name, length);
  const auto hex = [&](uint64_t value) {
    int shift = 60;
    while (shift > 0 && value >> shift == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) path[length++] = "0123456789abcdef"[value >> shift & 15];
  };
  hex(module.begin);
  path[length++] = '-';
  hex(module.end);
  path[length] = '\0';
  return RawOpen(path, O_RDONLY | O_CLOEXEC);
}

// Fills in version and layout of a runtime at `symbols`. False, with a sentence or (nothing to be
// said: it is no runtime that we can judge) without.
bool Identify(const ProcessMemory& memory, const PythonSymbols& symbols, int minor_in_paths,
              PythonRuntime* out, const char** reason) {
  out->address = symbols.runtime;
  out->code_type = symbols.code_type;
  uint8_t table[kDebugOffsetsBytes];
  const bool has_table = memory.Read(symbols.runtime, table, sizeof(table));
  uint32_t version = has_table ? PublishedPythonVersion(table) : 0;
  const bool published = version != 0;
  if (version == 0 && symbols.version != 0) {
    uint64_t value = 0;
    if (memory.ReadValue(symbols.version, &value) && value >> 24 == 3) {
      version = static_cast<uint32_t>(value);
    }
  }
  if (version == 0 && minor_in_paths != 0) {
    version = 3u << 24 | static_cast<uint32_t>(minor_in_paths) << 16;
  }
  out->version_hex = version;
  const int minor = version >> 16 & 0xFF;
  if (published) return PublishedPythonLayout(table, &out->layout, reason);
  if (version == 0) {
    *reason = "the version of this Python cannot be told";
    return false;
  }
  const PythonLayout* layout = FixedPythonLayout(minor);
  if (layout == nullptr) {
    *reason = minor < kMinPythonMinor ? "Python before 3.9 is not supported"
                                      : "this Python does not publish its offsets";
    return false;
  }
  out->layout = *layout;
  return true;
}

bool IsThreadOf(pid_t pid, pid_t tid) {
  if (tid <= 0) return false;
  char suffix[24] = "/task/";
  suffix[6 + FormatDecimal(suffix + 6, static_cast<uint64_t>(tid))] = '\0';
  char path[kProcPathBytes];
  FormatProcPath(path, pid, suffix);
  return access(path, F_OK) == 0;
}

}  // namespace

pid_t PythonThreadTid(const ProcessMemory& memory, const PythonLayout& layout, uint64_t thread) {
  uint64_t value = 0;
  if (layout.thread_native_id != kNoOffset) {
    memory.ReadValue(thread + layout.thread_native_id, &value);
    return value <= INT32_MAX ? static_cast<pid_t>(value) : 0;
  }
  uint32_t tid = 0;
  if (!memory.ReadValue(thread + layout.thread_pthread, &value) ||
      !memory.ReadValue(value + kTidInPthread, &tid)) {
    return 0;
  }
  return static_cast<pid_t>(tid);
}

PythonStatus PythonRuntimeFinder::Verify(const ProcessMemory& memory,
                                         const PythonRuntime& runtime) {
  const PythonLayout& layout = runtime.layout;
  // The newest interpreter and the main one.
  uint64_t interpreters[2] = {};
  if (!memory.Read(runtime.address + layout.runtime_interpreters, interpreters,
                   sizeof(interpreters))) {
    return PythonStatus::kUnsupported;
  }
  const uint64_t interpreter = interpreters[1] != 0 ? interpreters[1] : interpreters[0];
  if (interpreter == 0) return PythonStatus::kNone;
  if (layout.interpreter_runtime != kNoOffset) {
    uint64_t back = 0;
    if (!memory.ReadValue(interpreter + layout.interpreter_runtime, &back)) {
      return PythonStatus::kUnsupported;
    }
    // Listed before it is filled in.
    if (back == 0) return PythonStatus::kNone;
    if (back != runtime.address) return PythonStatus::kUnsupported;
  }
  uint64_t thread = 0;
  if (!memory.ReadValue(interpreter + layout.interpreter_threads, &thread)) {
    return PythonStatus::kUnsupported;
  }
  for (int i = 0; thread != 0 && i < kMaxThreadsLookedAt; ++i) {
    uint64_t owner = 0;
    if (!memory.ReadValue(thread + layout.thread_interpreter, &owner) || owner != interpreter) {
      return PythonStatus::kUnsupported;
    }
    if (IsThreadOf(memory.pid(), PythonThreadTid(memory, layout, thread)))
      return PythonStatus::kReady;
    if (!memory.ReadValue(thread + layout.thread_next, &thread)) break;
  }
  // Threads come and go, and their states a little before and after them: not enough to refuse it.
  return PythonStatus::kNone;
}

PythonStatus PythonRuntimeFinder::Find(const ProcessMemory& memory, Scratch* scratch,
                                       PythonRuntime* out, const char** reason) {
  const pid_t pid = memory.pid();
  char exe_path[kMaxPathBytes];
  char link[kProcPathBytes];
  FormatProcPath(link, pid, "/exe");
  const ssize_t exe_length = readlink(link, exe_path, sizeof(exe_path));
  const std::string_view exe = {exe_path, exe_length > 0 ? static_cast<size_t>(exe_length) : 0};

  PythonStatus best = PythonStatus::kNone;
  int minor_in_paths = 0;
  enum Pass { kNamed, kExecutable, kOthers };
  for (const Pass pass : {kNamed, kExecutable, kOthers}) {
    MapsReader maps(pid, scratch->maps, sizeof(scratch->maps));
    if (!maps.opened()) {
      *reason = "its list of mappings cannot be read";
      return PythonStatus::kUnreadable;
    }
    std::string_view line;
    while (maps.Next(&line)) {
      Module module;
      const bool first_page = ParseFirstPage(line, &module);
      if (minor_in_paths == 0 && module.path.starts_with('/')) {
        minor_in_paths = MinorInPath(module.path);
      }
      if (!first_page) continue;
      const bool executable = module.path == exe;
      const bool named = BaseName(module.path).find("python") != std::string_view::npos;
      if (pass != (named ? kNamed : executable ? kExecutable : kOthers)) continue;
      PythonElf elf;
      if (!elf.Open(&memory, module.begin)) continue;
      PythonSymbols symbols;
      elf.FindInMemory(&symbols);
      // Other files may be many and huge, and nobody hides an interpreter in them.
      if (symbols.runtime == 0 && pass != kOthers) {
        const int fd = OpenModule(pid, module, executable);
        if (fd >= 0) {
          elf.FindInFile(fd, scratch->file, &symbols);
          RawClose(fd);
        }
      }
      if (symbols.runtime == 0) continue;
      const int minor = MinorInPath(module.path);
      if (!Identify(memory, symbols, minor != 0 ? minor : minor_in_paths, out, reason)) {
        best = PythonStatus::kUnsupported;
        continue;
      }
      const PythonStatus status = Verify(memory, *out);
      if (status == PythonStatus::kReady) return status;
      if (status == PythonStatus::kUnsupported) {
        *reason = "this build of Python does not look as its version does";
        best = status;
      }
    }
  }
  return best;
}

}  // namespace gpuprobe::sampler

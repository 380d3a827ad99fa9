// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Live interpreters for tests and benchmarks: which ones this machine has, one running a script as
// a child, and a reader attached to it.
#ifndef GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_CHILD_H_
#define GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_CHILD_H_

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sampler/locations/location_table.h"
#include "sampler/python/python_reader.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

struct Interpreter {
  std::string path;
  int minor = 0;
  std::string version;  // "3.12.1"
};

inline std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  size_t got;
  while ((got = fread(buffer, 1, sizeof(buffer), pipe)) > 0) output.append(buffer, got);
  pclose(pipe);
  return output;
}

// Version managers' wrapper scripts are slow, and what they start is found in their folders.
inline bool IsElfProgram(const std::string& path) {
  char magic[4] = {};
  FILE* file = access(path.c_str(), X_OK) == 0 ? fopen(path.c_str(), "re") : nullptr;
  if (file == nullptr) return false;
  const bool whole = fread(magic, 1, sizeof(magic), file) == sizeof(magic);
  fclose(file);
  return whole && std::string_view(magic, sizeof(magic)) == "\177ELF";
}

// Every CPython 3.9 to 3.15 with a GIL that is found on the PATH and in version folders below
// $HOME, one for each binary.
inline std::vector<Interpreter> FindInterpreters() {
  std::vector<std::string> candidates;
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : {"python3", "python3.9", "python3.10", "python3.11", "python3.12",
                             "python3.13", "python3.14", "python3.15"}) {
      const std::string path = folder + "/" + name;
      if (IsElfProgram(path)) candidates.push_back(path);
    }
  };
  const char* path_variable = getenv("PATH");
  std::string folders = path_variable != nullptr ? path_variable : "/usr/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) add_folder(folders.substr(begin, end - begin));
    begin = end + 1;
  }
  const char* home = getenv("HOME");
  if (home != nullptr) {
    const std::string versions = std::string(home) + "/.pyenv/versions";
    if (DIR* folder = opendir(versions.c_str())) {
      while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] != '.') add_folder(versions + "/" + entry->d_name + "/bin");
      }
      closedir(folder);
    }
  }
  std::map<std::string, Interpreter> found;
  std::map<std::string, bool> asked;
  for (const std::string& candidate : candidates) {
    char* real = realpath(candidate.c_str(), nullptr);
    const std::string key = real != nullptr ? real : candidate;
    free(real);
    if (std::exchange(asked[key], true)) continue;
    const std::string answer =
        OutputOf(candidate +
                 " -c 'import sys, os, sysconfig; print(os.path.realpath(sys.executable), "
                 "sys.version_info[1], sys.version.split()[0], sys.implementation.name, "
                 "sysconfig.get_config_var(\"Py_GIL_DISABLED\") or 0)' 2>/dev/null");
    char executable[1024], version[64], implementation[64];
    int minor = 0, free_threaded = 0;
    if (sscanf(answer.c_str(), "%1023s %d %63s %63s %d", executable, &minor, version,
               implementation, &free_threaded) != 5) {
      continue;
    }
    if (minor < 9 || minor > 15 || free_threaded != 0 || std::string(implementation) != "cpython") {
      continue;
    }
    found[executable] = {executable, minor, version};
  }
  std::vector<Interpreter> result;
  for (const auto& [path, interpreter] : found) result.push_back(interpreter);
  std::sort(result.begin(), result.end(), [](const Interpreter& a, const Interpreter& b) {
    return std::pair(a.minor, a.path) < std::pair(b.minor, b.path);
  });
  return result;
}

// Of a parametrised test: "Python3_12_1_4".
inline std::string NameOf(const Interpreter& interpreter, size_t index) {
  std::string name = interpreter.version + "_" + std::to_string(index);
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return "Python" + name;
}

inline void* ZeroedPages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

// A child that runs a program; its stdout is ours to read.
class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
    std::vector<char*> argv;
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], 1);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    fclose(output_);
  }
  pid_t pid() const { return pid_; }
  // The next line it prints, without the newline; empty when it ends.
  std::string Line() {
    char* line = nullptr;
    size_t capacity = 0;
    const ssize_t length = getline(&line, &capacity, output_);
    std::string result = length > 0 ? std::string(line, static_cast<size_t>(length)) : "";
    free(line);
    if (!result.empty() && result.back() == '\n') result.pop_back();
    return result;
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
};

// A folder for scripts, removed at the end.
class ScriptFolder {
 public:
  ScriptFolder() {
    char name[] = "/tmp/gpuprobe_python_XXXXXX";
    if (mkdtemp(name) == nullptr) abort();
    path_ = name;
  }
  ScriptFolder(const ScriptFolder&) = delete;
  ScriptFolder& operator=(const ScriptFolder&) = delete;
  ~ScriptFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  std::string Write(const std::string& name, std::string_view text) {
    const std::string path = path_ + "/" + name;
    FILE* file = fopen(path.c_str(), "w");
    if (file == nullptr) abort();
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
    files_.push_back(path);
    return path;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

struct TextFrame {
  std::string function, file;
  uint32_t line = 0;
  bool operator==(const TextFrame&) const = default;
};

// A reader of one process with all it needs.
class AttachedReader {
 public:
  static constexpr size_t kTableBytes = 8 << 20;

  AttachedReader() {
    memory_of_reader_ = ZeroedPages(PythonReader::MemoryBytes());
    memory_of_table_ = ZeroedPages(kTableBytes);
    reader_.Init(memory_of_reader_);
    if (!table_.Init(memory_of_table_, kTableBytes)) abort();
  }
  AttachedReader(const AttachedReader&) = delete;
  AttachedReader& operator=(const AttachedReader&) = delete;
  ~AttachedReader() {
    munmap(memory_of_reader_, PythonReader::MemoryBytes());
    munmap(memory_of_table_, kTableBytes);
  }
  PythonStatus Attach(pid_t pid) {
    process_.Open(pid);
    return reader_.Attach(&process_);
  }
  std::vector<TextFrame> Frames(const PythonStack& stack) const {
    std::vector<TextFrame> frames;
    for (size_t i = 0; i < stack.depth; ++i) {
      const Location& location = table_.Get(stack.frames[i]);
      frames.push_back({std::string(table_.Text(location.function)),
                        std::string(table_.Text(location.file)), location.line});
    }
    return frames;
  }
  PythonReader& reader() { return reader_; }
  LocationTable& table() { return table_; }
  ProcessMemory& process() { return process_; }

 private:
  void* memory_of_reader_;
  void* memory_of_table_;
  ProcessMemory process_;
  PythonReader reader_;
  LocationTable table_;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_CHILD_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads the Python stacks of a process and prints them as JSON lines, for the Python tests.
//   python_stacks_tool PID SAMPLES INTERVAL_US [TID ...]
// First line: {"status":..., "version":..., "reason":...}. Then for every sample and thread (all of
// the process where no TID is given): {"tid":..., "read":"ok"|"none"|"torn", "cut":..., "in_c":...,
// "partial":..., "frames":[[function, file, line], ...], "gil":{...}}.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "sampler/location_table.h"
#include "sampler/process_memory.h"
#include "sampler/python_reader.h"

namespace gpuprobe::sampler {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> tids;
  DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return tids;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') tids.push_back(atoi(entry->d_name));
  }
  closedir(folder);
  return tids;
}

void* Zeroed(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

const char* StatusName(PythonStatus status) {
  constexpr const char* kNames[] = {"none", "ready", "unsupported", "unreadable", "finalizing"};
  return kNames[static_cast<size_t>(status)];
}

void PrintStack(pid_t tid, PythonReader::Read read, const PythonStack& stack,
                const LocationTable& table, const GilState& gil) {
  constexpr const char* kReads[] = {"ok", "none", "torn"};
  std::string line = "{\"tid\":" + std::to_string(tid) + ",\"read\":\"" +
                     kReads[static_cast<size_t>(read)] +
                     "\",\"cut\":" + (stack.cut ? "true" : "false") +
                     ",\"in_c\":" + (stack.in_c_function ? "true" : "false") +
                     ",\"partial\":" + (stack.partial ? "true" : "false") + ",\"frames\":[";
  for (size_t i = 0; i < stack.depth; ++i) {
    const Location& location = table.Get(stack.frames[i]);
    if (i > 0) line += ',';
    line += "[" + Quoted(table.Text(location.function)) + "," + Quoted(table.Text(location.file)) +
            "," + std::to_string(location.line) + "]";
  }
  line += "],\"gil\":{\"known\":" + std::string(gil.known ? "true" : "false") +
          ",\"locked\":" + (gil.locked ? "true" : "false") +
          ",\"holder\":" + std::to_string(gil.holder_tid) +
          ",\"begin\":" + std::to_string(gil.begin_address) +
          ",\"end\":" + std::to_string(gil.end_address) + "}}";
  puts(line.c_str());
}

int Run(pid_t pid, int samples, int interval_us, std::vector<pid_t> tids) {
  ProcessMemory memory;
  memory.Open(pid);
  PythonReader reader;
  reader.Init(Zeroed(PythonReader::MemoryBytes()));
  LocationTable table;
  constexpr size_t kTableBytes = 8 << 20;
  if (!table.Init(Zeroed(kTableBytes), kTableBytes)) return 1;
  const PythonStatus status = reader.Attach(&memory);
  printf("{\"status\":\"%s\",\"version\":\"%s\",\"reason\":%s}\n", StatusName(status),
         reader.version(), Quoted(reader.reason()).c_str());
  if (status != PythonStatus::kReady) return 0;
  if (tids.empty()) tids = ThreadsOf(pid);
  for (int i = 0; i < samples; ++i) {
    if (!reader.BeginLook()) {
      printf("{\"look\":\"%s\"}\n", StatusName(reader.status()));
      usleep(static_cast<useconds_t>(interval_us));
      continue;
    }
    for (const pid_t tid : tids) {
      static PythonStack stack;
      const PythonReader::Read read = reader.ReadStack(tid, &table, &stack);
      PrintStack(tid, read, stack, table, reader.gil());
    }
    usleep(static_cast<useconds_t>(interval_us));
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::sampler

int main(int argc, char** argv) {
  if (argc < 4) {
    fputs("usage: python_stacks_tool PID SAMPLES INTERVAL_US [TID ...]\n", stderr);
    return 2;
  }
  std::vector<pid_t> tids;
  for (int i = 4; i < argc; ++i) tids.push_back(atoi(argv[i]));
  return gpuprobe::sampler::Run(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), tids);
}

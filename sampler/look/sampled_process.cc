// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/look/sampled_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sampler/system/proc_files.h"

namespace gpuprobe::sampler {
namespace {

// A process without Python may load it later; each try reads its maps (a millisecond for a host
// with thousands of mappings).
constexpr int64_t kFirstAttachPauseNs = 500'000'000;
constexpr int64_t kLongestAttachPauseNs = 60'000'000'000;

void ReadCommandLine(uint32_t pid, char* out, size_t size) {
  char path[kTaskPathBytes];
  ProcPath(pid, 0, "cmdline", path);
  size_t n = ReadProcFile(path, out, size);
  while (n > 0 && out[n - 1] == '\0') --n;
  for (size_t i = 0; i < n; ++i) {
    if (out[i] == '\0') out[i] = ' ';
  }
  out[n] = '\0';
}

uint32_t AllowedCpus(uint32_t pid) {
  uint64_t mask[128];  // 8192 CPUs
  const long bytes = syscall(SYS_sched_getaffinity, pid, sizeof mask, mask);
  uint32_t count = 0;
  for (long i = 0; i < bytes / 8; ++i)
    count += static_cast<uint32_t>(__builtin_popcountll(mask[i]));
  return count;
}

}  // namespace

void ErrorText(int error, char* out, size_t size) {
  const char* name = error == EPERM    ? "EPERM"
                     : error == EACCES ? "EACCES"
                     : error == ENOSYS ? "ENOSYS"
                     : error == ENOENT ? "ENOENT"
                     : error == EMFILE ? "EMFILE"
                                       : nullptr;
  if (name != nullptr) {
    std::snprintf(out, size, "%s", name);
  } else {
    std::snprintf(out, size, "errno %d", error);
  }
}

bool Describe(uint32_t pid, SampledProcess* out) {
  StatFile stat;
  if (!ReadStat(pid, 0, &stat) || stat.state == 'Z' || stat.state == 'X') return false;
  out->pid = pid;
  out->parent_pid = stat.parent_pid;
  out->start_ticks = stat.start_ticks;
  std::memcpy(out->name, stat.name, sizeof out->name);
  ReadCommandLine(pid, out->command_line, sizeof out->command_line);
  out->allowed_cpus = AllowedCpus(pid);
  return true;
}

bool IsAnotherProgram(const SampledProcess& process) {
  char now[sizeof process.command_line];
  ReadCommandLine(process.pid, now, sizeof now);
  return std::strcmp(now, process.command_line) != 0;
}

void AddNote(SampledProcess* process, const char* what, const char* why) {
  char text[sizeof process->notes[0]];
  std::snprintf(text, sizeof text, "%s: %s", what, why);
  for (size_t i = 0; i < process->note_count; ++i) {
    if (std::strcmp(process->notes[i], text) == 0) return;
  }
  if (process->note_count == SampledProcess::kMaxNotes) return;
  std::memcpy(process->notes[process->note_count++], text, sizeof text);
  process->described_in = 0;
}

bool OpenMemory(SampledProcess* process) {
  if (process->memory_tried) return process->memory_open;
  process->memory_tried = true;
  process->memory_open = process->memory.Open(static_cast<pid_t>(process->pid));
  if (!process->memory_open && process->memory.error() != ESRCH) {
    char why[32];
    ErrorText(process->memory.error(), why, sizeof why);
    AddNote(process, "memory", why);
  }
  return process->memory_open;
}

bool HasPython(const SampledProcess& process) {
  return process.python != nullptr && process.python->status() == PythonStatus::kReady;
}

bool AttachPython(SampledProcess* process, int64_t now_ns) {
  if (process->python == nullptr || now_ns < process->next_attach_ns) return false;
  process->next_attach_ns = INT64_MAX;
  if (!OpenMemory(process)) return false;
  const PythonStatus status = process->python->Attach(&process->memory);
  const char* version = process->python->version();
  if (version[0] != '\0' && std::strcmp(process->python_version, version) != 0) {
    std::snprintf(process->python_version, sizeof process->python_version, "%s", version);
    process->described_in = 0;
  }
  switch (status) {
    case PythonStatus::kReady:
    case PythonStatus::kFinalizing:
      break;
    case PythonStatus::kNone:
      process->attach_pause_ns =
          process->attach_pause_ns == 0 ? kFirstAttachPauseNs : 2 * process->attach_pause_ns;
      if (process->attach_pause_ns > kLongestAttachPauseNs)
        process->attach_pause_ns = kLongestAttachPauseNs;
      process->next_attach_ns = now_ns + process->attach_pause_ns;
      break;
    case PythonStatus::kUnsupported:
    case PythonStatus::kUnreadable:
      AddNote(process, "Python", process->python->reason());
      break;
  }
  return true;
}

const GilState* LookAtGil(SampledProcess* process) {
  if (!HasPython(*process)) return nullptr;
  if (!process->gil_begun) {
    process->gil_begun = true;
    process->gil_read = process->python->BeginLook();
  }
  return process->gil_read ? &process->python->gil() : nullptr;
}

}  // namespace gpuprobe::sampler

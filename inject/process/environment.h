// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads and extends the environment without getenv and setenv: a host may define its own (bash
// does), and calling those from a constructor, before the host has started, runs host code too
// early. Extending replaces `environ` by a longer copy in memory of ours; the old strings are kept.
// Only the library's constructor may call the functions that change something: no other thread
// exists then.
#ifndef GPUPROBE_INJECT_PROCESS_ENVIRONMENT_H_
#define GPUPROBE_INJECT_PROCESS_ENVIRONMENT_H_

#include <cstddef>

namespace gpuprobe::inject {

// The value, or nullptr. Valid as long as nobody changes the environment: copy what is needed for
// long.
const char* GetEnv(const char* name);

// Adds NAME=VALUE pairs (existing names are replaced). False: no memory; nothing changed then.
struct EnvEntry {
  const char* name;
  const char* value;
};
bool SetEnv(const EnvEntry* entries, size_t count);

// Removes every entry whose file name is `file_name` from a list as LD_PRELOAD has it, separators
// ':' and ' ', together with the separators in front of it. All other bytes stay. Returns the new
// length, or -1 if `out` is too small.
long RemoveFromPreloadList(const char* list, const char* file_name, char* out, size_t out_size);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_PROCESS_ENVIRONMENT_H_

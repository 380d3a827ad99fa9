// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Finds the interpreter of a process: which mapped file holds _PyRuntime, of which version, and by
// which layout its memory is to be read.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_RUNTIME_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_RUNTIME_H_

#include <cstddef>
#include <cstdint>

#include "sampler/python/python_elf.h"
#include "sampler/python/python_layout.h"
#include "sampler/python/python_reader.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

struct PythonRuntime {
  uint64_t address = 0;      // of _PyRuntime
  uint64_t code_type = 0;    // of PyCode_Type; 0: not known
  uint32_t version_hex = 0;  // PY_VERSION_HEX; 3.9 and 3.10: without the patch release
  PythonLayout layout = {};
};

// 3.9 and 3.10 know their threads by pthread_self() alone: where glibc keeps the Linux tid in the
// structure behind it (x86-64: 704 bytes of head and a list node; the same in 2.17 to 2.41).
inline constexpr uint64_t kTidInPthread = 0x2d0;

// The Linux tid in the PyThreadState at `thread`; 0: it cannot be told.
pid_t PythonThreadTid(const ProcessMemory& memory, const PythonLayout& layout, uint64_t thread);

class PythonRuntimeFinder {
 public:
  // Fixed memory of one search.
  struct Scratch {
    char maps[32 << 10];
    uint8_t file[PythonElf::kScratchBytes];
  };

  // Looks at mapped files whose name has "python" in it, then at the executable, then at the
  // others. kReady: `out` is filled in. kNone also for one that is not initialised yet.
  // kUnsupported with a sentence in `reason`.
  static PythonStatus Find(const ProcessMemory& memory, Scratch* scratch, PythonRuntime* out,
                           const char** reason);

  // Is this really a runtime of this layout: does the interpreter it lists point back to it, and
  // belong the thread states to threads of this process? kNone: it lists no interpreter (yet).
  static PythonStatus Verify(const ProcessMemory& memory, const PythonRuntime& runtime);
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_RUNTIME_H_

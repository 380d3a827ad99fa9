// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Finds named symbols of a module of a process: first in the dynamic symbols as they lie in its
// memory (no file is opened, so it works for deleted files and across mount namespaces), then in
// the ELF file's symbol table and sections, which also know what a stripped-down export list hides.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_ELF_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_ELF_H_

#include <cstddef>
#include <cstdint>

#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

// Addresses in the process; 0: not found.
struct PythonSymbols {
  uint64_t runtime = 0;    // _PyRuntime, or the section .PyRuntime (3.13+)
  uint64_t version = 0;    // Py_Version (3.11+)
  uint64_t code_type = 0;  // PyCode_Type
};

class PythonElf {
 public:
  // `base`: where the mapping of the file's first page begins. False: no ELF file of this machine.
  [[nodiscard]] bool Open(const ProcessMemory* memory, uint64_t base);
  // From the dynamic symbols in memory, through their hash table.
  void FindInMemory(PythonSymbols* out) const;
  // From the file's symbol tables and section names; fills in what is not found yet. `scratch` is
  // kScratchBytes.
  static constexpr size_t kScratchBytes = 64 << 10;
  void FindInFile(int fd, uint8_t* scratch, PythonSymbols* out) const;

 private:
  uint64_t Lookup(const char* name) const;

  const ProcessMemory* memory_ = nullptr;
  uint64_t bias_ = 0;
  uint64_t gnu_hash_ = 0, symbols_ = 0, strings_ = 0;  // addresses in the process
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_ELF_H_

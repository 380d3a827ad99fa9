// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// GNU build ids of the modules that native locations lie in, so that a reader elsewhere, or later,
// can tell whether the file that it finds under a module's path is the one that ran. A path with
// two ids meant two files: both are kept, and the reader believes neither.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOCATIONS_MODULE_IDS_H_
#define GPUPROBE_SAMPLER_LOCATIONS_MODULE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

// SHA-1, the longest that linkers make by themselves, has 20; a longer one is left out.
inline constexpr size_t kMaxBuildIdBytes = 32;

// Of the module whose ELF header is mapped at `header`, and which runs `bias` above the addresses
// of its file. Bytes written to `out`; 0: it has none, or its headers cannot be read or believed.
size_t ReadBuildId(const ProcessMemory& memory, uint64_t header, uint64_t bias,
                   uint8_t (&out)[kMaxBuildIdBytes]);

class ModuleIds {
 public:
  constexpr ModuleIds() = default;
  ModuleIds(const ModuleIds&) = delete;
  ModuleIds& operator=(const ModuleIds&) = delete;

  struct Entry {
    uint32_t module;  // TextId of its path
    uint32_t piece;   // of the samples, in which it was last written; 0: in none
    uint8_t size;
    uint8_t bytes[kMaxBuildIdBytes];
  };

  // Once more does nothing; so does one too many: such a module is one without a build id.
  void Add(uint32_t module, const uint8_t* bytes, size_t size);
  std::span<Entry> entries() { return {entries_, count_}; }

 private:
  static constexpr size_t kMaxEntries = 128;  // modules that threads are met in, not all loaded

  Entry entries_[kMaxEntries] = {};
  size_t count_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOCATIONS_MODULE_IDS_H_

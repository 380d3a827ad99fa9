// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where in native code a blocked thread of this process stands: the first one or two return
// addresses above its stack pointer that lie outside of libc and the interpreter. It is an
// estimate: without unwind tables a stale address of an earlier call can be taken for a caller. An
// address counts only if it lies in an executable mapping right behind a call instruction, and only
// within the first 2 KiB of the stack.
//
// The modules come from /proc/self/maps, not from the loader: dl_iterate_phdr takes its lock.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_NATIVE_NATIVE_LEAF_H_
#define GPUPROBE_SAMPLER_NATIVE_NATIVE_LEAF_H_

#include <cstddef>
#include <cstdint>

#include "sampler/locations/location_table.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

inline constexpr size_t kMaxNativeLeaves = 2;

class NativeLeaf {
 public:
  constexpr NativeLeaf() = default;
  NativeLeaf(const NativeLeaf&) = delete;
  NativeLeaf& operator=(const NativeLeaf&) = delete;

  static constexpr size_t kMemoryBytes = 256u << 10;
  // `memory` zeroed, owned by the caller, kept for ever.
  void Init(void* memory, uint32_t pid);

  // What was found of a thread, and for which words of its stack.
  struct Found {
    uint64_t words_hash = 0;  // 0: nothing yet
    LocationId leaves[kMaxNativeLeaves] = {};
    uint32_t count = 0;
  };

  // Native locations, innermost first, of a thread that is blocked at `pc` with stack pointer `sp`.
  // `below_python`: the search ends at the interpreter's own code. `found`: of this thread; it
  // holds the answer, and is not looked for again where the thread stands as it stood.
  void Find(const ProcessMemory& memory, uint64_t sp, uint64_t pc, bool below_python,
            int64_t now_ns, LocationTable* table, Found* found);

  // The same for a running thread, of the addresses that its frame pointers lead to, innermost
  // first: where it is, in whatever module, and its first caller outside of libc's kind.
  size_t FromChain(const ProcessMemory& memory, const uint64_t* addresses, size_t count,
                   bool below_python, int64_t now_ns, LocationTable* table, LocationId* out);

 private:
  enum class Kind : uint8_t { kOrdinary, kDull, kInterpreter };  // kDull: libc, ld.so
  struct Mapping {
    uint64_t begin, end;  // executable
    uint64_t bias;        // address - bias: as the ELF file counts it
    TextId path;
    Kind kind;
    bool bias_known;
    uint64_t file_offset;
    uint64_t base;  // where offset 0 of the file is mapped; 0: nowhere
  };
  static constexpr size_t kMaxMappings = kMemoryBytes / sizeof(Mapping);

  const Mapping* FindMapping(uint64_t address) const;
  // Reads the maps again if they do not have `address`, and not too often.
  Mapping* MappingOf(uint64_t address, int64_t now_ns, LocationTable* table);
  void ReadMaps(LocationTable* table);
  void AddMapping(char* line, LocationTable* table);
  static bool FindBias(const ProcessMemory& memory, Mapping* mapping);
  static LocationId LocationOf(const ProcessMemory& memory, Mapping* mapping, uint64_t address,
                               LocationTable* table);
  static Kind KindOf(const char* path);
  bool FollowsCall(const ProcessMemory& memory, const Mapping& mapping, uint64_t address);
  size_t Search(const ProcessMemory& memory, const uint64_t* words, size_t count, bool below_python,
                LocationTable* table, LocationId* out);

  // Addresses that were looked at, in the place of their hash, and whether a call stands before
  // them: code does not change, and the same few are met again and again.
  static constexpr size_t kKnownSites = 512;
  static constexpr uint64_t kIsReturn = uint64_t{1} << 63;

  Mapping* mappings_ = nullptr;
  uint64_t sites_[kKnownSites] = {};
  size_t count_ = 0;
  uint32_t pid_ = 0;
  int64_t next_read_ns_ = 0;
  // While the maps are read: where the file of the lines before begins.
  uint64_t base_ = 0;
  char base_path_[256] = {};
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_NATIVE_NATIVE_LEAF_H_

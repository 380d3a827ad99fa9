// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Code objects that have been seen: their names, and the lines of their instructions.
//
// The interpreter frees code objects and makes others at the same address while we look. What keeps
// a name true: an entry was put in when the object at that address was X; frames are read after
// that; then the object at that address is looked at again and is still X. So the frames in between
// were X's. "Is X" means: 3.12+ number every code object they make (co_version) and never use a
// number twice; before, the fields, the names and the line table are compared by content.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CACHE_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "sampler/locations/location_table.h"
#include "sampler/python/python_frames.h"
#include "sampler/python/python_layout.h"
#include "sampler/python/python_runtime.h"
#include "sampler/python/python_text.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

// A code object's own fields.
struct PythonCodeFields {
  uint64_t type;
  uint64_t instruction_bytes;  // 3.11+
  uint64_t instructions;       // up to 3.10: the bytes object that holds them
  uint64_t file, name, line_table;
  int32_t first_line;
  int32_t first_traceable;  // instructions before it set the frame up (3.11+)
  uint32_t version;         // 0: cannot be told apart by number
  bool operator==(const PythonCodeFields&) const = default;
};

class PythonCodeCache {
 public:
  struct Entry {
    uint64_t address;  // 0: empty
    PythonCodeFields fields;
    uint64_t instruction_bytes;  // of all instructions
    uint64_t content_hash;       // where the version does not tell
    uint32_t generation;         // of this entry; never used twice
    TextId function, file;
    // How much of each is compared, from the object's address.
    uint16_t name_bytes, file_bytes, line_table_bytes;
    // For how many more looks its own fields are enough, if it is met in the same frame at the same
    // instruction: Check::stand.
    uint16_t trusted;
    uint64_t stand;
  };

  // The texts of an object whose fields have not changed, and whose frame stands where it stood at
  // the last look, are compared at one look in so many: another one with the same addresses for
  // everything, in a frame at the same address, called from the same frame, at the same
  // instruction, is told of at most 80 ms late. (From 3.12 on a number in the fields tells all.)
  static constexpr uint16_t kTrustedLooks = 7;

  // What has to be read to check one object, at most: kMaxCodeBytes, two texts of 80 + 64 bytes,
  // and a line table of 64 + 96 (what PythonLayout lets through, and is compared).
  static constexpr size_t kMaxCheckPieces = 4;
  static constexpr size_t kMaxCheckBytes = 704;

  // One object that is being checked against what is known of it.
  struct Check {
    uint64_t address;
    Entry* entry;         // nullptr: nothing
    uint64_t stand;       // of the frame that it is checked for; 0: none
    const uint8_t* own;   // the object, and (where the version does not tell) name and line table
    const uint8_t* file;  // the name of its file; nullptr: no text was read
  };

  static constexpr size_t kSets = 256, kWays = 8, kLines = 8192;

  struct Line {
    uint64_t key;  // generation << 32 | instruction index + 1; 0: empty
    LocationId location;
  };
  struct Memory {
    // Of each entry its address, again: a set is found in one cache line, which is cold at each
    // look.
    uint64_t addresses[kSets][kWays];
    Entry entries[kSets][kWays];
    uint8_t next_way[kSets];
    Line lines[kLines];
    PythonTextBuffer text;
    uint8_t check[kMaxCheckBytes];
    uint8_t line_table[128 << 10];
  };

  void Init(Memory* memory) { memory_ = memory; }
  // Forgets everything: another interpreter or another table.
  void Reset(const ProcessMemory* process, const PythonRuntime* runtime, LocationTable* table);
  LocationTable* table() const { return table_; }

  // The entry for the object at `address`, to be checked before it is used; nullptr: not seen yet.
  Entry* Find(uint64_t address) const;

  // Adds the pieces whose bytes tell whether the object at check->address is check->entry to
  // pieces[*count]; they are read to *to and after, of which kMaxCheckBytes are taken at most. The
  // functions of one stack come from few files: a name of `others` is not read again.
  void AddPieces(Check* check, const Check* others, size_t other_count, uint8_t** to,
                 ProcessMemory::Piece* pieces, size_t* count) const;
  // Whether the texts have to be compared, too, and whether what the pieces hold is all that has to
  // be: where the frame stands may be known only after they were added.
  static bool NeedsTexts(const Check& check);
  static bool IsEnough(const Check& check) { return check.file != nullptr || !NeedsTexts(check); }
  // After the pieces have been read; they are enough.
  bool Matches(const Check& check) const;
  // Reads and compares one entry's object.
  bool StillThere(Entry* entry);
  static uint64_t StandOf(const PythonFrame& frame);

  // Reads the object at `address` into an entry. False: it is no code object, or it changed.
  bool Load(uint64_t address);

  // The location of the instruction at `offset` bytes (negative: before the first). The entry has
  // been checked just before; true only if it was still the same afterwards.
  bool Locate(Entry* entry, int64_t offset, LocationId* out);

 private:
  void ParseFields(const uint8_t* code, PythonCodeFields* out) const;
  uint64_t ContentHash(const Entry& entry, const Check& check) const;
  bool ReadCheck(uint64_t address, Entry* entry, Check* out);
  bool MeasureContent(Entry* entry) const;
  bool ReadText(uint64_t address, TextId* out);

  Memory* memory_ = nullptr;
  const ProcessMemory* process_ = nullptr;
  const PythonRuntime* runtime_ = nullptr;
  LocationTable* table_ = nullptr;
  uint32_t generation_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CACHE_H_

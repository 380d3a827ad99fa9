// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Are the code objects of a walked stack still those of the cache? They have to be looked at behind
// the frames (PythonCodeCache says why). Those of the last looks at the same thread are mostly
// those of this one, so they are read in the walk's own system call, behind its frames, and so are
// the instructions around the one at which the innermost frame stood: a look at a thread whose
// stack is made of functions that were in it lately takes no call for them.
//
// What is remembered of a thread says where to read and nothing else. What was read of an object in
// advance is used if a frame that was walked points there, and compared as if it had been asked
// for.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_PYTHON_CODE_CHECKS_H_
#define GPUPROBE_SAMPLER_PYTHON_CODE_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "sampler/process_memory.h"
#include "sampler/python_code_cache.h"
#include "sampler/python_frames.h"
#include "sampler/python_layout.h"

namespace gpuprobe::sampler {

class PythonCodeChecks {
 public:
  static constexpr size_t kHintedThreads = 32, kHintedCodes = kMaxStackDepth;
  // Objects in which the innermost frame stood lately, and how much is read around that place.
  static constexpr size_t kInnerCodes = 4;
  static constexpr uint32_t kInnerBytes = 512;
  // An object that was in none of so many stacks is forgotten: on cold caches a place to read costs
  // a quarter of a system call.
  static constexpr uint8_t kHintedLooks = 4;

  struct Inner {
    uint64_t code;
    int64_t offset;
  };
  struct Hint {
    uint64_t thread;
    uint32_t count;
    uint64_t codes[kHintedCodes];  // those of the last stack first
    uint8_t ages[kHintedCodes];
    bool texts[kHintedCodes];  // its texts had to be compared at the last look
    Inner inner[kInnerCodes];  // the last one first
  };
  struct Place {  // instructions that were read in advance
    uint64_t begin;
    uint32_t bytes;
    size_t piece;
  };
  struct Memory {
    Hint hints[kHintedThreads];
    Hint kept;
    PythonCodeCache::Check foreseen[kHintedCodes];
    size_t foreseen_end[kHintedCodes];  // how many pieces there are up to its last
    ProcessMemory::Piece wishes[kHintedCodes * PythonCodeCache::kMaxCheckPieces + kInnerCodes];
    uint8_t wish_images[kHintedCodes * PythonCodeCache::kMaxCheckBytes];
    Place places[kInnerCodes];
    uint8_t place_images[kInnerCodes][kInnerBytes];
    // Of the stack that is checked.
    PythonCodeCache::Check unique[kMaxStackDepth];
    bool asked[kMaxStackDepth];  // read by a call of its own
    bool known[kMaxStackDepth];
    bool texts[kMaxStackDepth];
    PythonCodeCache::Entry* checked[PythonFrameWalk::kMaxFrames];
    ProcessMemory::Piece pieces[kMaxStackDepth * PythonCodeCache::kMaxCheckPieces + 1];
    uint8_t images[kMaxStackDepth * PythonCodeCache::kMaxCheckBytes];
  };
  // What the walk reads along with the frames.
  static_assert(sizeof(Memory::wishes) <=
                PythonFrameWalk::kMaxWishes * sizeof(ProcessMemory::Piece));

  void Init(Memory* memory, PythonCodeCache* cache);
  // Forgets all threads.
  void Reset(const ProcessMemory* process, const PythonLayout* layout);

  // Before a walk: the places to read behind the frames of that thread.
  PythonFrameWalk::Wishes Foresee(uint64_t thread);
  // After it. True if all code objects were in the cache before the walk and are what they were; if
  // not, those that are new have been taken in, and another walk may find them so. `*opcode`: what
  // the innermost frame executes; 0: not known.
  bool Check(const PythonFrameWalk& walk, uint8_t* opcode);
  // Of the walk's frame with that index; nullptr for an entry frame.
  PythonCodeCache::Entry* entry(size_t index) const { return memory_->checked[index]; }

 private:
  Hint* HintOf(uint64_t thread) const;
  void ForeseeInner(const Hint& hint);
  uint64_t InstructionsOf(const PythonCodeCache::Entry& entry) const;
  uint64_t InnermostInstruction(const PythonFrame& frame) const;
  bool TakeForeseen(const PythonFrame& frame, size_t read, size_t* next,
                    PythonCodeCache::Check* out) const;
  bool OpcodeInPlaces(uint64_t address, size_t read, uint8_t* out) const;
  void Remember(const PythonFrame& innermost, uint64_t instruction, size_t unique_count);
  void Keep(uint64_t code, uint8_t age, bool texts);

  Memory* memory_ = nullptr;
  PythonCodeCache* cache_ = nullptr;
  const ProcessMemory* process_ = nullptr;
  const PythonLayout* layout_ = nullptr;
  uint64_t thread_ = 0;
  size_t foreseen_count_ = 0, wish_count_ = 0, place_count_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_CODE_CHECKS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Are the code objects of a walked stack still those of the cache? They have to be looked at behind
// the frames (PythonCodeCache says why). Where a thread's stack is mostly what it was, those of the
// last look are read in the walk's own system call, behind its frames, and so are the instructions
// around the one at which the innermost frame stood: that saves a call. Where it is not, most of
// them would be read for nothing, and a place to read costs as much as half a call.
//
// What is remembered of a thread says where to read and nothing else. What was read of an object in
// advance is used if a frame that was walked points there, and compared as if it had been asked
// for.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CHECKS_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "sampler/python/python_code_cache.h"
#include "sampler/python/python_frames.h"
#include "sampler/python/python_layout.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

class PythonCodeChecks {
 public:
  // Of a stack of more functions the inner ones are read in advance. With many more, a process at
  // the default limit of memory would have room for the stacks of one child less.
  static constexpr size_t kHintedThreads = 16, kHintedCodes = 32;
  // So much is read around the instruction at which the innermost frame stood.
  static constexpr uint32_t kInnerBytes = 256;

  struct Inner {
    uint64_t code;
    int64_t offset;
  };
  // The last stack of a thread.
  struct Hint {
    uint64_t thread;
    // Three quarters of the stack before are in it, too: what is read in advance will be of use.
    bool pays;
    uint32_t count;
    uint64_t codes[kHintedCodes];
    bool texts[kHintedCodes];  // its texts had to be compared
    Inner inner;
  };
  struct Memory {
    Hint hints[kHintedThreads];
    PythonCodeCache::Check foreseen[kHintedCodes];
    size_t foreseen_end[kHintedCodes];  // how many pieces there are up to its last
    ProcessMemory::Piece wishes[kHintedCodes * PythonCodeCache::kMaxCheckPieces + 1];
    uint8_t wish_images[kHintedCodes * PythonCodeCache::kMaxCheckBytes];
    uint8_t inner_image[kInnerBytes];
    // Of the stack that is checked.
    PythonCodeCache::Check unique[kMaxStackDepth];
    bool asked[kMaxStackDepth];  // read by a call of its own
    bool known[kMaxStackDepth];
    bool texts[kMaxStackDepth];
    PythonCodeCache::Entry* checked[PythonFrameWalk::kMaxFrames];
    ProcessMemory::Piece pieces[kMaxStackDepth * PythonCodeCache::kMaxCheckPieces + 1];
    uint8_t images[kMaxStackDepth * PythonCodeCache::kMaxCheckBytes];
  };
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
  void ForeseeInner(const Inner& inner);
  uint64_t InstructionsOf(const PythonCodeCache::Entry& entry) const;
  uint64_t InnermostInstruction(const PythonFrame& frame) const;
  bool TakeForeseen(const PythonFrame& frame, size_t read, size_t* next,
                    PythonCodeCache::Check* out) const;
  bool OpcodeForeseen(uint64_t address, size_t read, uint8_t* out) const;
  void Remember(const PythonFrame& innermost, uint64_t instruction, size_t unique_count);

  Memory* memory_ = nullptr;
  PythonCodeCache* cache_ = nullptr;
  const ProcessMemory* process_ = nullptr;
  const PythonLayout* layout_ = nullptr;
  uint64_t thread_ = 0;
  size_t foreseen_count_ = 0, wish_count_ = 0;
  uint64_t inner_begin_ = 0, inner_bytes_ = 0;  // the instructions that are read in advance
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_CODE_CHECKS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Walks the frames of one Python thread while it runs.
//
// What makes a stack true: all frames are read, and then all once more. One that stood at the same
// instruction both times stood there in between (it was in a call), so at the moment between the
// two readings the stack was as told. The innermost frame need not be at the same instruction both
// times; it has to be the same function, so that it was no frame in the making. A thread that calls
// and returns all the time changes its inner frames between the two readings (they are a fraction
// of a microsecond apart where frames lie side by side, as from 3.11 on): the walk is tried again,
// and if it never holds still, the frames outside the change are what is told.
//
// All that is read twice is read in one system call. That takes knowing where: from 3.11 on most
// frames lie in a row below the innermost one; for those that do not, and for all of them before,
// the addresses of the last look at the thread are tried.
#ifndef GPUPROBE_SAMPLER_PYTHON_FRAMES_H_
#define GPUPROBE_SAMPLER_PYTHON_FRAMES_H_

#include <cstddef>
#include <cstdint>

#include "sampler/process_memory.h"
#include "sampler/python_layout.h"
#include "sampler/python_reader.h"

namespace gpuprobe::sampler {

struct PythonFrame {
  uint64_t address;
  uint64_t previous;
  uint64_t code;
  // 3.11+: address of the instruction; before: its offset in bytes, -1 before the first.
  int64_t instruction;
  uint8_t owner;  // 3.11+
};

// Not functions' frames but where the interpreter was entered from C (3.12+).
inline constexpr uint8_t kFirstEntryFrameOwner = 3;
inline constexpr uint8_t kGeneratorFrameOwner = 1;

class PythonFrameWalk {
 public:
  // Every function frame may come with an entry frame.
  static constexpr size_t kMaxFrames = 2 * kMaxStackDepth;
  // Frames of 30 functions with 15 locals and temporaries each; more come from further reads.
  static constexpr size_t kWindowBytes = 6 << 10;
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kHintedThreads = 32;
  static constexpr size_t kWindowPastBytes = 512;

  // Where a thread's frames outside the window were last time.
  struct Hint {
    uint64_t thread;
    uint32_t count;
    uint64_t addresses[kMaxFrames];
  };
  struct Memory {
    PythonFrame frames[kMaxFrames];  // innermost first
    PythonFrame again[kMaxFrames];
    uint8_t window[2][kWindowBytes + kWindowPastBytes + kMaxFrameBytes];
    uint8_t page[kPageBytes + kMaxFrameBytes];
    uint8_t images[2 * kMaxFrames * kMaxFrameBytes];
    ProcessMemory::Piece pieces[2 * kMaxFrames + 8];
    bool outside[kMaxFrames];  // of the window
    Hint hints[kHintedThreads];
  };

  enum class Result : uint8_t { kFrames, kNoFrames, kTorn };

  void Init(Memory* memory) { memory_ = memory; }
  void Reset(const ProcessMemory* process, const PythonLayout* layout);

  // The frames of the thread whose PyThreadState is at `thread`.
  Result Walk(uint64_t thread);

  const PythonFrame& frame(size_t index) const { return memory_->frames[first_ + index]; }
  size_t count() const { return count_ - first_; }
  bool cut() const { return cut_; }             // there are more frames outside
  bool partial() const { return first_ != 0; }  // inner frames did not hold still

 private:
  enum class Outcome : uint8_t { kSteady, kMoving, kNoFrames, kUnreadable };

  Outcome Try(uint64_t thread);
  Outcome Follow(uint64_t address, bool* all_twice);
  Outcome ReadAllTwice(uint64_t frame_cell);
  void PlaceWindow(uint64_t chunk, uint64_t innermost);
  bool ReadPlaces(uint64_t frame_cell, uint64_t* innermost);
  bool ReadOne(uint64_t address, PythonFrame* out);
  bool FromHints(uint64_t address, size_t* next, PythonFrame* first, PythonFrame* second) const;
  bool InWindow(uint64_t address) const;
  bool FrameCell(uint64_t thread, uint64_t* cell) const;
  void Parse(uint64_t address, const uint8_t* image, PythonFrame* out) const;
  // The number of inner frames that changed between the two readings.
  size_t Changed() const;
  void KeepHints(uint64_t thread);

  Memory* memory_ = nullptr;
  const ProcessMemory* process_ = nullptr;
  const PythonLayout* layout_ = nullptr;
  size_t count_ = 0, first_ = 0;
  bool cut_ = false;
  uint64_t window_begin_ = 0, window_end_ = 0;
  uint64_t page_begin_ = 0, page_end_ = 0;
  Hint* hint_ = nullptr;
  size_t hinted_ = 0;  // how many of its frames are in memory_->images, twice
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_FRAMES_H_

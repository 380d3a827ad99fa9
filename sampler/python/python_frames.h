// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Walks the frames of one Python thread while it runs.
//
// What makes a stack true: all frames are read, then which one is innermost, then all frames once
// more. One that stood at the same instruction both times stood there in between (it was in a
// call), so at the moment between the two readings the stack was as told. The innermost frame need
// not be at the same instruction both times; it has to be the same function called by the same
// frame, and not at its first instruction at the first reading and gone on at the second, so that
// it is no frame in the making and none that is gone.
//
// What is left: a thread that is at the same instruction again at the second reading has stood
// there only most likely. Of one that loops in 6 us on another CPU, one stack in some hundred
// thousand had a caller at the line before the one that called.
//
// Which frame is innermost is looked at once more a moment later. From 3.11 on it has to be the
// same; or one that this has called meanwhile (the first look's moment is told); or one that this
// has returned to (the second look's is).
//
// A thread that calls and returns all the time changes its inner frames even so: the walk is tried
// again, and if it does not hold still, the frames outside the change are what is told.
//
// That takes knowing that these are no remains of frames that have gone. Usually they are none,
// being outside of the one that was innermost between the readings. Where that one is not among
// those read:
// - up to 3.10 a frame says of itself whether it is being executed;
// - 3.11 and 3.12 keep the innermost frame in a structure for each call of the interpreter by C, a
//   list from the innermost outwards on the C stack. One of them that is in the list before and
//   after all readings, and not left at the look in between, is taken to have been there all the
//   time, and with it the frame that it holds, which stands in the call.
//
// All of it is read in one system call. That takes knowing where: from 3.11 on most frames lie in a
// row below the innermost one; for those that do not, and for all of them before, the addresses of
// the last look at the thread are tried. Where the innermost one was at the last look is tried
// first, so that a walk is one system call for most threads.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_FRAMES_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_FRAMES_H_

#include <cstddef>
#include <cstdint>

#include "sampler/python/python_layout.h"
#include "sampler/python/python_reader.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

struct PythonFrame {
  uint64_t address;
  uint64_t previous;
  uint64_t code;
  // 3.11+: address of the instruction; before: its offset in bytes, -1 before the first.
  int64_t instruction;
  uint8_t owner;   // 3.11+; before: whether it is a generator's
  bool executing;  // up to 3.10; later ones do not tell, and are taken to be
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
  static constexpr size_t kWindowPastBytes = 3072;
  static constexpr size_t kMaxGuards = 8;
  // Calls of the interpreter by C that are looked at, from the innermost outwards.
  static constexpr size_t kMaxEntries = 8;
  // Of 32 code objects four places each, and the instructions of one (PythonCodeChecks).
  static constexpr size_t kMaxWishes = 4 * 32 + 1;

  // Where a thread's frames outside the window were last time.
  struct Hint {
    uint64_t thread;
    uint64_t owner, chunk, innermost;                 // of the cell; innermost 0: not known
    uint64_t outermost;                               // of the frames in the window
    uint64_t seen_owner, seen_chunk, seen_innermost;  // by foresight
    bool foreseen;
    bool restless;  // its last walk was not done with one reading
    uint32_t count;
    uint64_t addresses[kMaxFrames];
  };
  struct Memory {
    PythonFrame frames[kMaxFrames];  // innermost first
    PythonFrame again[kMaxFrames];
    uint8_t window[2][kWindowBytes + kWindowPastBytes + kMaxFrameBytes];
    uint8_t page[kPageBytes + kMaxFrameBytes];
    uint8_t images[2 * kMaxFrames * kMaxFrameBytes];
    ProcessMemory::Piece pieces[2 * kMaxFrames + 10 + kMaxEntries + 2 * kMaxGuards + kMaxWishes];
    bool outside[kMaxFrames];  // of the window
    Hint hints[kHintedThreads];
  };

  enum class Result : uint8_t { kFrames, kNoFrames, kTorn };

  void Init(Memory* memory) { memory_ = memory; }
  void Reset(const ProcessMemory* process, const PythonLayout* layout);

  // Places that are read in the same system call as the frames: those of `before` ahead of them,
  // those of `after` behind them. What they held at a walk that was not torn tells whether the
  // thread's state was the thread's.
  struct Guards {
    ProcessMemory::Piece before[kMaxGuards], after[kMaxGuards];
    size_t before_count = 0, after_count = 0;
  };
  // Places that are read in the same system call behind all of these, as far as there is memory,
  // unless the last walk of the thread took more than one reading.
  struct Wishes {
    const ProcessMemory::Piece* pieces = nullptr;
    size_t count = 0;
  };

  // Where the innermost frame of that thread is, as pieces of a read that is made ahead of the walk
  // anyway: saves the walk one of its own. Nothing is added where the walk needs none, or where the
  // structure that tells is not known from the last look. After the read: Foreseen.
  void AddForesight(uint64_t thread, ProcessMemory::Piece* pieces, size_t* count);
  void Foreseen(uint64_t thread);
  static constexpr size_t kForesightPieces = 3;

  // The frames of the thread whose PyThreadState is at `thread`.
  Result Walk(uint64_t thread, const Guards& guards, const Wishes& wishes);

  const PythonFrame& frame(size_t index) const { return memory_->frames[first_ + index]; }
  size_t count() const { return count_ - first_; }
  bool cut() const { return cut_; }  // there are more frames outside
  // Inner frames did not hold still.
  bool partial() const { return first_ != moment_ || inner_unknown_; }
  // The innermost frame was that at both looks, and at the same instruction at both readings. If
  // not, and it is at a call, that may be one of a Python function that has begun or ended
  // meanwhile.
  bool stood_still() const { return stood_still_; }
  // How many of the wishes, from the first on, were read behind these frames.
  size_t wishes_read() const { return wishes_read_; }

 private:
  enum class Outcome : uint8_t { kRead, kNoFrames, kUnreadable };

  // Where the interpreter keeps which frame is innermost: in the thread state, or (3.11, 3.12) in a
  // structure on the C stack, which the thread state points to.
  struct Cell {
    uint64_t address;
    uint64_t owner_address;  // of the pointer to that structure; 0: there is none
    uint64_t owner;          // its value
  };
  struct CellLook {
    uint64_t innermost;
    uint64_t owner;
  };

  Outcome Try(uint64_t thread, Cell* cell);
  bool ReadAsLastTime(uint64_t thread, Cell* cell);
  bool Locate(uint64_t thread, Cell* cell, uint64_t* chunk, uint64_t* innermost);
  Outcome TryEntries(uint64_t thread);
  Outcome Follow(uint64_t address, bool* all_twice);
  Outcome ReadAllTwice(const Cell& cell);
  void PlaceWindow(uint64_t chunk, uint64_t innermost);
  bool ReadPlaces(const Cell& cell);
  bool ReadPlacesSomehow(const Cell& cell);
  bool ReadOne(uint64_t address, PythonFrame* out);
  bool FromHints(uint64_t address, size_t* next, PythonFrame* first, PythonFrame* second) const;
  bool InWindow(uint64_t address) const;
  Cell CellOf(uint64_t thread, uint64_t owner) const;
  bool FindCell(uint64_t thread, Cell* out) const;
  // What one system call reads, in this order. Between two places that have to be read one after
  // the other there is NextMoment; others may be read as one.
  void BeginReading();
  void Add(uint64_t address, void* out, size_t size);
  void NextMoment() { next_apart_ = true; }
  void AddGuards(const ProcessMemory::Piece* guards, size_t guard_count);
  void AddOwner(const Cell& cell, CellLook* look);
  void AddInnermost(const Cell& cell, CellLook* look);
  void AddLaterLook(const Cell& cell);
  void AddEntries();
  bool FindEntries(uint64_t innermost);
  size_t CommonEntry(uint64_t thread) const;
  void Parse(uint64_t address, const uint8_t* image, PythonFrame* out) const;
  // The number of inner frames that are to be left out; moment_: none that is in the stack.
  size_t Untold(const Cell& cell);
  bool IsCalledFrom(uint64_t inner, uint64_t caller) const;
  bool MayBeInTheMaking(size_t index) const;  // from 3.11 on
  // The same from frame `begin` on; only frame `restless` may be at another instruction by then.
  size_t UntoldFrom(size_t begin, size_t restless) const;
  bool EndsInFunction() const;
  size_t IndexOf(uint64_t address) const;  // count_: not among them
  void TakeHint(uint64_t thread);
  void KeepHints(uint64_t thread, const Cell& cell);

  Memory* memory_ = nullptr;
  const ProcessMemory* process_ = nullptr;
  const PythonLayout* layout_ = nullptr;
  size_t piece_count_ = 0;
  bool next_apart_ = false;
  size_t count_ = 0, first_ = 0;
  size_t moment_ = 0;  // the frame that was innermost at the moment that is told
  bool cut_ = false, inner_unknown_ = false, stood_still_ = false;
  uint64_t entries_[kMaxEntries] = {};       // the structures, innermost first (3.11, 3.12)
  uint64_t entry_frames_[kMaxEntries] = {};  // what they held between the readings
  size_t entry_count_ = 0;
  CellLook between_ = {}, after_ = {};
  uint64_t window_begin_ = 0, window_end_ = 0;
  uint64_t inner_begin_ = 0;  // of what is read twice in a row
  // Where the thread's state says which chunk its frames lie in (0: they do not), and which it was
  // at the last reading.
  uint64_t chunk_address_ = 0, chunk_ = 0;
  uint64_t page_begin_ = 0, page_end_ = 0;
  const Guards* guards_ = nullptr;
  Wishes wishes_;
  size_t wishes_read_ = 0;
  uint64_t thread_ = 0;
  Hint* hint_ = nullptr;
  size_t hinted_ = 0;  // how many of its frames are in memory_->images, twice
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_FRAMES_H_

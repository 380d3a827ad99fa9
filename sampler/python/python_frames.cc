// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_frames.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace gpuprobe::sampler {
namespace {

// The first tries are for the whole stack, the later ones take what holds still of it.
constexpr int kTries = 10, kWholeTries = 3;
// The chunks in which frames lie have 16 KiB, or what one huge frame needs
// (_PyThreadState_PushFrame).
constexpr uint64_t kLeastChunkBytes = 16 << 10, kMaxChunkBytes = 64 << 10;
// The innermost part of the window, and what lies behind it, is read twice in a row but for a look
// at which frame is innermost; the rest before and after.
constexpr uint64_t kInnerBytes = 2048;
// From the frame that was innermost a moment later back to the one that was before.
constexpr int kMaxCalls = 4;

template <typename T>
T At(const uint8_t* bytes, uint32_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

bool SameFunction(const PythonFrame& a, const PythonFrame& b) {
  return a.address == b.address && a.previous == b.previous && a.code == b.code &&
         a.owner == b.owner && a.executing && b.executing;
}

}  // namespace

void PythonFrameWalk::Reset(const ProcessMemory* process, const PythonLayout* layout) {
  process_ = process;
  layout_ = layout;
  memset(memory_->hints, 0, sizeof(memory_->hints));
}

void PythonFrameWalk::Parse(uint64_t address, const uint8_t* image, PythonFrame* out) const {
  const PythonLayout& layout = *layout_;
  out->address = address;
  out->previous = At<uint64_t>(image, layout.frame_previous);
  out->code = At<uint64_t>(image, layout.frame_code);
  out->owner = 0;
  out->executing = true;
  if (layout.minor >= 11) {
    out->instruction = At<int64_t>(image, layout.frame_instruction);
    out->owner = At<uint8_t>(image, layout.frame_owner);
    // From 3.14 on there is a tag in the low bits of such references; objects are aligned to 16
    // bytes.
    if (layout.minor >= 14) out->code &= ~uint64_t{7};
  } else {
    const int64_t last = At<int32_t>(image, layout.frame_instruction);
    out->instruction = last < 0 ? -1 : layout.minor == 10 ? last * 2 : last;
    // 3.9: a flag; 3.10: FRAME_EXECUTING or FRAME_UNWINDING.
    // The generator whose frame it is stands before that (f_gen).
    if (At<uint64_t>(image, layout.frame_instruction - 8) != 0) out->owner = kGeneratorFrameOwner;
    const auto state = At<int8_t>(image, layout.frame_state);
    out->executing = layout.minor == 9 ? state == 1 : state == 0 || state == 2;
  }
}

PythonFrameWalk::Cell PythonFrameWalk::CellOf(uint64_t thread, uint64_t owner) const {
  const uint64_t address = thread + layout_->thread_frame;
  if (layout_->cframe_frame == kNoOffset) return {.address = address};
  return {owner + layout_->cframe_frame, address, owner};
}

bool PythonFrameWalk::FindCell(uint64_t thread, Cell* out) const {
  uint64_t owner = 0;
  if (layout_->cframe_frame != kNoOffset &&
      !process_->ReadValue(thread + layout_->thread_frame, &owner)) {
    return false;
  }
  *out = CellOf(thread, owner);
  return true;
}

void PythonFrameWalk::BeginReading() {
  piece_count_ = 0;
  next_apart_ = false;
}

void PythonFrameWalk::Add(uint64_t address, void* out, size_t size) {
  memory_->pieces[piece_count_++] = {address, out, static_cast<uint32_t>(size), next_apart_};
  next_apart_ = false;
}

// One look at the cell, and whether it is the cell still.
void PythonFrameWalk::AddOwner(const Cell& cell, CellLook* look) {
  *look = {};
  if (cell.owner_address != 0) Add(cell.owner_address, &look->owner, sizeof(look->owner));
}

void PythonFrameWalk::AddInnermost(const Cell& cell, CellLook* look) {
  Add(cell.address, &look->innermost, sizeof(look->innermost));
}

// Both once more: whether the innermost frame is that still, and from 3.11 on what calls and
// returns lie between the looks.
void PythonFrameWalk::AddLaterLook(const Cell& cell) {
  AddInnermost(cell, &after_);
  NextMoment();
  AddOwner(cell, &after_);
}

// Which frame each entry says is its innermost.
void PythonFrameWalk::AddEntries() {
  for (size_t i = 0; i < entry_count_; ++i) {
    Add(entries_[i] + layout_->cframe_frame, &entry_frames_[i], sizeof(entry_frames_[i]));
  }
}

// The structures of all calls of the interpreter by C, from the innermost outwards.
bool PythonFrameWalk::FindEntries(uint64_t innermost) {
  entry_count_ = 0;
  while (entry_count_ < kMaxEntries) {
    uint64_t links[2];  // the innermost frame, the next structure outside
    if (!process_->Read(innermost + layout_->cframe_frame, links, sizeof(links))) break;
    // The outermost one lies in the thread state and has no frame.
    if (links[0] == 0) break;
    entries_[entry_count_++] = innermost;
    // They lie on the C stack, outer ones at higher addresses.
    if (links[1] <= innermost) break;
    innermost = links[1];
  }
  return entry_count_ > 0;
}

// The innermost of the entries that are there still, and were at the look between the readings:
// entry_count_ if none.
size_t PythonFrameWalk::CommonEntry(uint64_t thread) const {
  uint64_t owner;
  if (!process_->ReadValue(thread + layout_->thread_frame, &owner)) return entry_count_;
  for (size_t step = 0; step < kMaxEntries; ++step) {
    size_t index = 0;
    while (index < entry_count_ && entries_[index] != owner) ++index;
    // Left by then, if C was further out.
    if (index < entry_count_ && between_.owner <= owner && after_.owner <= owner) return index;
    uint64_t outside;
    if (!process_->ReadValue(owner + layout_->cframe_frame + sizeof(uint64_t), &outside) ||
        outside <= owner) {
      break;
    }
    owner = outside;
  }
  return entry_count_;
}

bool PythonFrameWalk::InWindow(uint64_t address) const {
  return address >= window_begin_ && address <= window_end_ &&
         window_end_ - address >= layout_->frame_bytes;
}

// The stretch of the chunk around the innermost frame.
void PythonFrameWalk::PlaceWindow(uint64_t chunk, uint64_t innermost) {
  window_begin_ = window_end_ = inner_begin_ = 0;
  if (chunk == 0 || innermost <= chunk || innermost - chunk > kMaxChunkBytes) return;
  const uint64_t frame_end = innermost + layout_->frame_bytes;
  // Further only in memory that is there in any case: a thread that goes deeper meanwhile.
  const uint64_t page_end = ((frame_end - 1) | (kPageBytes - 1)) + 1;
  const uint64_t there_end = std::max(page_end, chunk + kLeastChunkBytes);
  window_begin_ = innermost - chunk > kWindowBytes ? innermost - kWindowBytes : chunk;
  // No more than was needed at the last look.
  if (hint_->outermost > window_begin_ && hint_->outermost < innermost) {
    window_begin_ = hint_->outermost;
  }
  window_end_ = std::min(there_end, frame_end + kWindowPastBytes);
  inner_begin_ = frame_end - window_begin_ > kInnerBytes ? frame_end - kInnerBytes : window_begin_;
}

// Window and hinted frames, twice, and in between and behind which frame is innermost. From the
// outside to the inside and back: the frames that change most get the shortest time to change in.
bool PythonFrameWalk::ReadPlaces(const Cell& cell) {
  const uint64_t begin = window_begin_, end = window_end_, inner = inner_begin_;
  uint8_t* first = memory_->window[0];
  uint8_t* second = memory_->window[1];
  uint8_t* to = memory_->images;
  const uint32_t bytes = layout_->frame_bytes;
  BeginReading();
  AddGuards(guards_->before, guards_->before_count);
  if (chunk_address_ != 0) Add(chunk_address_, &chunk_, sizeof(chunk_));
  NextMoment();
  for (size_t i = hinted_; i-- > 0; to += bytes) Add(hint_->addresses[i], to, bytes);
  if (inner != begin) Add(begin, first, inner - begin);
  NextMoment();
  AddOwner(cell, &between_);
  NextMoment();
  if (end != 0) Add(inner, first + (inner - begin), end - inner);
  NextMoment();
  AddEntries();
  AddInnermost(cell, &between_);
  NextMoment();
  if (end != 0) Add(inner, second + (inner - begin), end - inner);
  NextMoment();
  AddLaterLook(cell);
  NextMoment();
  if (inner != begin) Add(begin, second, inner - begin);
  for (size_t i = 0; i < hinted_; ++i, to += bytes) Add(hint_->addresses[i], to, bytes);
  NextMoment();
  AddGuards(guards_->after, guards_->after_count);
  // Of a reading that is thrown away, what was wished for is read for nothing.
  const size_t wishes = hint_->thread == thread_ && !hint_->restless ? wishes_.count : 0;
  ProcessMemory::Piece* const wished = memory_->pieces + piece_count_;
  std::copy_n(wishes_.pieces, wishes, wished);
  if (wishes > 0) wished->apart = true;
  const size_t read = process_->ReadPiecesUpTo(memory_->pieces, piece_count_ + wishes);
  wishes_read_ = read > piece_count_ ? read - piece_count_ : 0;
  return read >= piece_count_;
}

void PythonFrameWalk::AddGuards(const ProcessMemory::Piece* guards, size_t guard_count) {
  for (size_t i = 0; i < guard_count; ++i) Add(guards[i].address, guards[i].out, guards[i].size);
}

// Hints are in the order of the last walk: most are met one after the other.
bool PythonFrameWalk::FromHints(uint64_t address, size_t* next, PythonFrame* first,
                                PythonFrame* second) const {
  for (size_t i = *next; i < hinted_; ++i) {
    if (hint_->addresses[i] != address) continue;
    Parse(address, memory_->images + (hinted_ - 1 - i) * layout_->frame_bytes, first);
    Parse(address, memory_->images + (hinted_ + i) * layout_->frame_bytes, second);
    *next = i + 1;
    return true;
  }
  return false;
}

bool PythonFrameWalk::ReadOne(uint64_t address, PythonFrame* out) {
  if (address < page_begin_ || address >= page_end_ || page_end_ - address < layout_->frame_bytes) {
    // What lies before it in its page comes along: outer frames of the same chunk.
    const uint64_t end = address + layout_->frame_bytes;
    const uint64_t begin = layout_->minor >= 11 ? address & ~uint64_t{kPageBytes - 1} : address;
    page_begin_ = page_end_ = 0;
    if (end < address || !process_->Read(begin, memory_->page, end - begin)) return false;
    page_begin_ = begin;
    page_end_ = end;
  }
  Parse(address, memory_->page + (address - page_begin_), out);
  return true;
}

PythonFrameWalk::Outcome PythonFrameWalk::Follow(uint64_t address, bool* all_twice) {
  page_begin_ = page_end_ = 0;
  count_ = first_ = 0;
  cut_ = false;
  *all_twice = true;
  size_t functions = 0, next_hint = 0;
  while (address != 0) {
    if (count_ == kMaxFrames || functions == kMaxStackDepth) {
      cut_ = true;
      break;
    }
    PythonFrame& frame = memory_->frames[count_];
    PythonFrame& again = memory_->again[count_];
    memory_->outside[count_] = !InWindow(address);
    if (!memory_->outside[count_]) {
      Parse(address, memory_->window[0] + (address - window_begin_), &frame);
      Parse(address, memory_->window[1] + (address - window_begin_), &again);
    } else if (!FromHints(address, &next_hint, &frame, &again)) {
      *all_twice = false;
      if (address % 8 != 0 || !ReadOne(address, &frame)) return Outcome::kUnreadable;
    }
    if (frame.owner < kFirstEntryFrameOwner) ++functions;
    if (frame.previous == address) return Outcome::kUnreadable;
    address = frame.previous;
    ++count_;
  }
  // A walk that led back into itself came this far, too, and ended with a frame that it had met.
  if (cut_ && IndexOf(memory_->frames[count_ - 1].address) != count_ - 1) {
    return Outcome::kUnreadable;
  }
  return count_ == 0 ? Outcome::kNoFrames : Outcome::kRead;
}

// Reads the frames that have been followed again, all twice.
PythonFrameWalk::Outcome PythonFrameWalk::ReadAllTwice(const Cell& cell) {
  const size_t bytes = layout_->frame_bytes;
  uint8_t* to = memory_->images;
  BeginReading();
  AddGuards(guards_->before, guards_->before_count);
  NextMoment();
  for (size_t i = count_; i-- > 0; to += bytes) Add(memory_->frames[i].address, to, bytes);
  NextMoment();
  AddOwner(cell, &between_);
  NextMoment();
  AddEntries();
  AddInnermost(cell, &between_);
  NextMoment();
  for (size_t i = 0; i < count_; ++i, to += bytes) {
    Add(memory_->frames[i].address, to, bytes);
    if (i > 0) continue;
    NextMoment();
    AddLaterLook(cell);
    NextMoment();
  }
  NextMoment();
  AddGuards(guards_->after, guards_->after_count);
  hinted_ = 0;  // their images are overwritten
  wishes_read_ = 0;
  if (!process_->ReadPieces(memory_->pieces, piece_count_)) return Outcome::kUnreadable;
  const uint8_t* from = memory_->images;
  for (size_t i = count_; i-- > 0; from += bytes) {
    Parse(memory_->frames[i].address, from, &memory_->frames[i]);
  }
  for (size_t i = 0; i < count_; ++i, from += bytes) {
    Parse(memory_->frames[i].address, from, &memory_->again[i]);
  }
  return Outcome::kRead;
}

size_t PythonFrameWalk::IndexOf(uint64_t address) const {
  size_t index = 0;
  while (index < count_ && memory_->frames[index].address != address) ++index;
  return index;
}

// Whether `caller` has called the function of `inner`, maybe by way of others. The window may have
// been read before `inner` came there: then it tells of an earlier call at that place.
bool PythonFrameWalk::IsCalledFrom(uint64_t inner, uint64_t caller) const {
  for (int i = 0; i < kMaxCalls && inner > caller && InWindow(inner); ++i) {
    PythonFrame frame;
    Parse(inner, memory_->window[1] + (inner - window_begin_), &frame);
    if (frame.previous == caller) return true;
    inner = frame.previous;
  }
  return false;
}

size_t PythonFrameWalk::Untold(const Cell& cell) {
  moment_ = IndexOf(between_.innermost);
  if (moment_ == count_) return count_;
  stood_still_ = after_.innermost == between_.innermost &&
                 memory_->frames[moment_].instruction == memory_->again[moment_].instruction;
  if (layout_->minor < 11) return UntoldFrom(moment_, moment_);
  if (between_.owner != cell.owner || after_.owner != cell.owner) return count_;
  // What the second look says has to follow from what the first one says: the same frame; one that
  // this has called (the first look's moment is told); or one that it has returned to (the second
  // look's is). A new structure that is not filled in yet does not.
  if (after_.innermost != between_.innermost) {
    const size_t returned_to = IndexOf(after_.innermost);
    if (returned_to < count_) {
      moment_ = returned_to;
      memory_->frames[moment_].instruction = memory_->again[moment_].instruction;
    } else if (!IsCalledFrom(after_.innermost, between_.innermost)) {
      return count_;
    }
  }
  return MayBeInTheMaking(moment_) ? count_ : UntoldFrom(moment_, moment_);
}

// A new frame has its function before it has its caller: until then it seems to be called by what
// called the one that was in its place. The second reading does not tell where that has called the
// same function there by then, as a function does that calls another from a generator, and then
// itself.
bool PythonFrameWalk::MayBeInTheMaking(size_t index) const {
  const PythonFrame& frame = memory_->frames[index];
  const uint64_t begin = frame.code + layout_->code_instructions;
  return frame.instruction != memory_->again[index].instruction &&
         static_cast<uint64_t>(frame.instruction) <= begin;
}

size_t PythonFrameWalk::UntoldFrom(size_t begin, size_t restless) const {
  size_t untold = begin;
  for (size_t i = untold; i < count_; ++i) {
    const PythonFrame& a = memory_->frames[i];
    const PythonFrame& b = memory_->again[i];
    const bool linked =
        i + 1 < count_ ? a.previous == memory_->frames[i + 1].address : cut_ || a.previous == 0;
    if (linked && SameFunction(a, b) && (i == restless || a.instruction == b.instruction)) continue;
    // What was outside of it is told if it was so the second time too: the first may have been
    // what is left of a frame that has gone. (Up to 3.10 such a frame is not being executed.)
    untold = i + 1;
    if (untold < count_ && layout_->minor > 10) untold = std::max(untold, IndexOf(b.previous));
    i = untold - 1;
  }
  return untold;
}

void PythonFrameWalk::KeepHints(uint64_t thread, const Cell& cell) {
  hint_->thread = thread;
  hint_->owner = cell.owner;
  hint_->chunk = chunk_;
  hint_->innermost = between_.innermost;
  hint_->count = 0;
  hint_->outermost = 0;
  for (size_t i = 0; i < count_; ++i) {
    const uint64_t address = memory_->frames[i].address;
    const bool near = chunk_ != 0 && address >= chunk_ && address <= between_.innermost &&
                      between_.innermost - address < kWindowBytes;
    if (near && (hint_->outermost == 0 || address < hint_->outermost)) hint_->outermost = address;
    if (!near) hint_->addresses[hint_->count++] = address;
  }
}

void PythonFrameWalk::TakeHint(uint64_t thread) {
  hint_ = &memory_->hints[(thread >> 4) * 0x9E3779B97F4A7C15u >> 59];
  if (hint_->thread != thread) hint_->outermost = 0;
  hinted_ = hint_->thread == thread ? hint_->count : 0;
}

bool PythonFrameWalk::ReadPlacesSomehow(const Cell& cell) {
  if (ReadPlaces(cell)) return true;
  // Where a frame was last time there may be nothing any more.
  hinted_ = 0;
  if (hint_->thread == thread_) hint_->count = 0;
  window_begin_ = window_end_ = inner_begin_ = 0;
  return ReadPlaces(cell);
}

void PythonFrameWalk::AddForesight(uint64_t thread, ProcessMemory::Piece* pieces, size_t* count) {
  TakeHint(thread);
  hint_->foreseen = false;
  if (layout_->cframe_frame == kNoOffset || hint_->thread != thread || hint_->owner == 0) return;
  const auto add = [&](uint64_t address, uint64_t* out) {
    pieces[(*count)++] = {address, out, sizeof(*out)};
  };
  add(thread + layout_->thread_frame, &hint_->seen_owner);
  add(thread + layout_->thread_datastack, &hint_->seen_chunk);
  add(hint_->owner + layout_->cframe_frame, &hint_->seen_innermost);
  pieces[*count - 1].apart = true;
}

void PythonFrameWalk::Foreseen(uint64_t thread) {
  TakeHint(thread);
  hint_->foreseen =
      layout_->cframe_frame != kNoOffset && hint_->thread == thread && hint_->owner != 0;
}

// Where the innermost frame is. False: unreadable.
bool PythonFrameWalk::Locate(uint64_t thread, Cell* cell, uint64_t* chunk, uint64_t* innermost) {
  TakeHint(thread);
  const bool foreseen = hint_->thread == thread && hint_->foreseen;
  hint_->foreseen = false;
  if (foreseen && hint_->seen_owner == hint_->owner) {
    *cell = CellOf(thread, hint_->owner);
    *chunk = hint_->seen_chunk;
    *innermost = hint_->seen_innermost;
    return true;
  }
  if (layout_->cframe_frame != kNoOffset && hint_->thread == thread && hint_->owner != 0) {
    *cell = CellOf(thread, hint_->owner);
    const ProcessMemory::Piece pieces[] = {
        {cell->owner_address, &cell->owner, sizeof(cell->owner)},
        {chunk_address_, chunk, sizeof(*chunk)},
        {cell->address, innermost, sizeof(*innermost)},
    };
    if (process_->ReadPieces(pieces, std::size(pieces)) && cell->owner == hint_->owner) return true;
  }
  if (!FindCell(thread, cell)) return false;
  if (chunk_address_ == 0) return true;
  const ProcessMemory::Piece pieces[] = {
      {chunk_address_, chunk, sizeof(*chunk)},
      {cell->address, innermost, sizeof(*innermost)},
  };
  return process_->ReadPieces(pieces, std::size(pieces));
}

// Looks where the innermost frame was at the last look. False: it is not near there, or nothing is
// known of it; the readings of the cell themselves say so.
bool PythonFrameWalk::ReadAsLastTime(uint64_t thread, Cell* cell) {
  // In 3.11 and 3.12 the structure has to be found well before it is read: a new one at the place
  // of the last holds what that left there until it is filled in.
  if (layout_->cframe_frame != kNoOffset) return false;
  TakeHint(thread);
  if (hint_->thread != thread || hint_->innermost == 0) return false;
  *cell = CellOf(thread, 0);
  PlaceWindow(hint_->chunk, hint_->innermost);
  if (!ReadPlaces(*cell)) return false;
  if (window_end_ == 0 || between_.innermost == 0 || InWindow(between_.innermost)) return true;
  PlaceWindow(chunk_, between_.innermost);
  return ReadPlaces(*cell);
}

PythonFrameWalk::Outcome PythonFrameWalk::Try(uint64_t thread, Cell* cell) {
  if (!ReadAsLastTime(thread, cell)) {
    uint64_t chunk = 0, innermost = 0;
    if (!Locate(thread, cell, &chunk, &innermost)) return Outcome::kUnreadable;
    TakeHint(thread);
    PlaceWindow(chunk, innermost);
    if (!ReadPlacesSomehow(*cell)) return Outcome::kUnreadable;
  }
  bool all_twice;
  const Outcome outcome = Follow(between_.innermost, &all_twice);
  if (outcome != Outcome::kRead) return outcome;
  KeepHints(thread, *cell);
  hint_->restless = !all_twice;
  return all_twice ? Outcome::kRead : ReadAllTwice(*cell);
}

PythonFrameWalk::Outcome PythonFrameWalk::TryEntries(uint64_t thread) {
  Cell cell;
  uint64_t chunk = 0, innermost = 0;
  if (!FindCell(thread, &cell) || !FindEntries(cell.owner)) return Outcome::kUnreadable;
  const ProcessMemory::Piece pieces[] = {
      {chunk_address_, &chunk, sizeof(chunk)},
      {entries_[0] + layout_->cframe_frame, &innermost, sizeof(innermost)},
  };
  if (!process_->ReadPieces(pieces, std::size(pieces))) return Outcome::kUnreadable;
  TakeHint(thread);
  PlaceWindow(chunk, innermost);
  if (!ReadPlacesSomehow(cell)) return Outcome::kUnreadable;
  size_t common = CommonEntry(thread);
  if (common == entry_count_) return Outcome::kUnreadable;
  const uint64_t entry_frame = entry_frames_[common];
  bool all_twice;
  if (Follow(entry_frame, &all_twice) != Outcome::kRead) return Outcome::kUnreadable;
  KeepHints(thread, cell);
  if (all_twice) return Outcome::kRead;
  if (ReadAllTwice(cell) != Outcome::kRead) return Outcome::kUnreadable;
  common = CommonEntry(thread);
  const bool same = common < entry_count_ && entry_frames_[common] == entry_frame;
  return same ? Outcome::kRead : Outcome::kUnreadable;
}

bool PythonFrameWalk::EndsInFunction() const {
  // A generator's frame with nothing outside of it is one that is suspended: a thread was caught
  // between two stores (one that runs has the frame that resumed it outside, whatever thread
  // ends its stack with a function).
  return cut_ || memory_->frames[count_ - 1].owner != kGeneratorFrameOwner;
}

PythonFrameWalk::Result PythonFrameWalk::Walk(uint64_t thread, const Guards& guards,
                                              const Wishes& wishes) {
  guards_ = &guards;
  wishes_ = wishes;
  wishes_read_ = 0;
  thread_ = thread;
  const bool in_chunks = layout_->thread_datastack != kNoOffset;
  chunk_address_ = in_chunks ? thread + layout_->thread_datastack : 0;
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    const bool whole_only = attempt <= kWholeTries;
    entry_count_ = 0;
    inner_unknown_ = stood_still_ = false;
    if (!whole_only && layout_->cframe_frame != kNoOffset && (attempt - kWholeTries) % 2 == 1) {
      inner_unknown_ = true;
      if (TryEntries(thread) != Outcome::kRead || !EndsInFunction()) continue;
      first_ = UntoldFrom(0, kMaxFrames);
      if (first_ < count_) return Result::kFrames;
      continue;
    }
    Cell cell;
    const Outcome outcome = Try(thread, &cell);
    if (outcome == Outcome::kNoFrames) return Result::kNoFrames;
    if (outcome != Outcome::kRead || !EndsInFunction()) continue;
    first_ = Untold(cell);
    if (first_ == count_) hint_->restless = true;
    if (first_ < count_ && (first_ == moment_ || !whole_only)) return Result::kFrames;
    // Up to 3.10 a frame itself says that it is being executed.
    if (whole_only || layout_->minor > 10) continue;
    inner_unknown_ = true;
    first_ = UntoldFrom(0, kMaxFrames);
    if (first_ < count_) return Result::kFrames;
  }
  return Result::kTorn;
}

}  // namespace gpuprobe::sampler

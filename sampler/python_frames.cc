// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python_frames.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace gpuprobe::sampler {
namespace {

constexpr int kTries = 3;
// The chunks in which frames lie have 16 KiB, or what one huge frame needs
// (_PyThreadState_PushFrame).
constexpr uint64_t kMaxChunkBytes = 64 << 10;
// The innermost part of the window is read twice in a row, the rest before and after: the frames
// that change most get the shortest time to change in.
constexpr uint64_t kInnerBytes = 1024;

template <typename T>
T At(const uint8_t* bytes, uint32_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

bool SameFunction(const PythonFrame& a, const PythonFrame& b) {
  return a.address == b.address && a.previous == b.previous && a.code == b.code &&
         a.owner == b.owner;
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
  if (layout.minor >= 11) {
    out->instruction = At<int64_t>(image, layout.frame_instruction);
    out->owner = At<uint8_t>(image, layout.frame_owner);
    // 3.14 keeps a tag in the low bits of such references; objects are aligned to 16 bytes.
    if (layout.minor >= 14) out->code &= ~uint64_t{7};
  } else {
    const int64_t last = At<int32_t>(image, layout.frame_instruction);
    out->instruction = last < 0 ? -1 : layout.minor == 10 ? last * 2 : last;
  }
}

bool PythonFrameWalk::FrameCell(uint64_t thread, uint64_t* cell) const {
  *cell = thread + layout_->thread_frame;
  if (layout_->cframe_frame == kNoOffset) return true;
  uint64_t cframe = 0;
  if (!process_->ReadValue(*cell, &cframe)) return false;
  *cell = cframe + layout_->cframe_frame;
  return true;
}

bool PythonFrameWalk::InWindow(uint64_t address) const {
  return address >= window_begin_ && address <= window_end_ &&
         window_end_ - address >= layout_->frame_bytes;
}

// The stretch of the chunk around the innermost frame.
void PythonFrameWalk::PlaceWindow(uint64_t chunk, uint64_t innermost) {
  window_begin_ = window_end_ = 0;
  if (chunk == 0 || innermost <= chunk || innermost - chunk > kMaxChunkBytes) return;
  const uint64_t frame_end = innermost + layout_->frame_bytes;
  // Further only within a page that is there in any case: a thread that goes deeper meanwhile.
  const uint64_t page_end = ((frame_end - 1) | (kPageBytes - 1)) + 1;
  window_begin_ = innermost - chunk > kWindowBytes ? innermost - kWindowBytes : chunk;
  window_end_ = std::min(page_end, frame_end + kWindowPastBytes);
}

// Window and hinted frames, twice, and which frame is innermost.
bool PythonFrameWalk::ReadPlaces(uint64_t frame_cell, uint64_t* innermost) {
  ProcessMemory::Piece* pieces = memory_->pieces;
  size_t count = 0;
  pieces[count++] = {frame_cell, innermost, sizeof(*innermost)};
  const auto add_hinted = [&](uint8_t* to) {
    for (size_t i = 0; i < hinted_; ++i, to += layout_->frame_bytes) {
      pieces[count++] = {hint_->addresses[i], to, layout_->frame_bytes};
    }
  };
  add_hinted(memory_->images);
  if (window_end_ != 0) {
    const uint64_t begin = window_begin_, end = window_end_;
    const uint64_t inner = end - begin > kInnerBytes ? end - kInnerBytes : begin;
    uint8_t* first = memory_->window[0];
    uint8_t* second = memory_->window[1];
    if (inner != begin) pieces[count++] = {begin, first, inner - begin};
    pieces[count++] = {inner, first + (inner - begin), end - inner};
    pieces[count++] = {inner, second + (inner - begin), end - inner};
    if (inner != begin) pieces[count++] = {begin, second, inner - begin};
  }
  add_hinted(memory_->images + hinted_ * layout_->frame_bytes);
  return process_->ReadPieces(pieces, count);
}

// Hints are in the order of the last walk: most are met one after the other.
bool PythonFrameWalk::FromHints(uint64_t address, size_t* next, PythonFrame* first,
                                PythonFrame* second) const {
  for (size_t i = *next; i < hinted_; ++i) {
    if (hint_->addresses[i] != address) continue;
    const uint8_t* image = memory_->images + i * layout_->frame_bytes;
    Parse(address, image, first);
    Parse(address, image + hinted_ * layout_->frame_bytes, second);
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
  return count_ == 0 ? Outcome::kNoFrames : Outcome::kSteady;
}

PythonFrameWalk::Outcome PythonFrameWalk::ReadAllTwice(uint64_t frame_cell) {
  const size_t bytes = layout_->frame_bytes;
  uint64_t innermost = 0;
  size_t pieces = 0;
  uint8_t* to = memory_->images;
  memory_->pieces[pieces++] = {frame_cell, &innermost, sizeof(innermost)};
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = count_; i-- > 0; to += bytes) {
      memory_->pieces[pieces++] = {memory_->frames[i].address, to, bytes};
    }
  }
  hinted_ = 0;  // their images are overwritten
  if (!process_->ReadPieces(memory_->pieces, pieces)) return Outcome::kUnreadable;
  const uint8_t* from = memory_->images;
  for (PythonFrame* frames : {memory_->frames, memory_->again}) {
    for (size_t i = count_; i-- > 0; from += bytes) {
      Parse(memory_->frames[i].address, from, &frames[i]);
    }
  }
  // Still the chain that was followed?
  for (size_t i = 0; i + 1 < count_; ++i) {
    if (memory_->frames[i].previous != memory_->frames[i + 1].address) {
      first_ = i + 1;
    }
  }
  if (innermost != memory_->frames[0].address) first_ = std::max<size_t>(first_, 1);
  return Outcome::kSteady;
}

size_t PythonFrameWalk::Changed() const {
  size_t changed = first_;
  for (size_t i = first_; i < count_; ++i) {
    const PythonFrame& a = memory_->frames[i];
    const PythonFrame& b = memory_->again[i];
    if (!SameFunction(a, b) || (i != 0 && a.instruction != b.instruction)) changed = i + 1;
  }
  return changed;
}

void PythonFrameWalk::KeepHints(uint64_t thread) {
  hint_->thread = thread;
  hint_->count = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (memory_->outside[i]) hint_->addresses[hint_->count++] = memory_->frames[i].address;
  }
}

PythonFrameWalk::Outcome PythonFrameWalk::Try(uint64_t thread) {
  uint64_t cell, chunk = 0, innermost = 0;
  if (!FrameCell(thread, &cell)) return Outcome::kUnreadable;
  hint_ = &memory_->hints[(thread >> 4) * 0x9E3779B97F4A7C15u >> 59];
  hinted_ = hint_->thread == thread ? hint_->count : 0;
  if (layout_->thread_datastack != kNoOffset) {
    const ProcessMemory::Piece pieces[] = {
        {thread + layout_->thread_datastack, &chunk, sizeof(chunk)},
        {cell, &innermost, sizeof(innermost)},
    };
    if (!process_->ReadPieces(pieces, std::size(pieces))) return Outcome::kUnreadable;
    if (innermost == 0) return Outcome::kNoFrames;
  }
  PlaceWindow(chunk, innermost);
  if (!ReadPlaces(cell, &innermost)) {
    // Where a frame was last time there may be nothing any more.
    hinted_ = 0;
    window_begin_ = window_end_ = 0;
    if (!ReadPlaces(cell, &innermost)) return Outcome::kUnreadable;
  }
  bool all_twice;
  const Outcome outcome = Follow(innermost, &all_twice);
  if (outcome != Outcome::kSteady) return outcome;
  KeepHints(thread);
  return all_twice ? Outcome::kSteady : ReadAllTwice(cell);
}

PythonFrameWalk::Result PythonFrameWalk::Walk(uint64_t thread) {
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    const Outcome outcome = Try(thread);
    if (outcome == Outcome::kNoFrames) return Result::kNoFrames;
    if (outcome != Outcome::kSteady) continue;
    const size_t changed = Changed();
    if (changed == 0) return Result::kFrames;
    if (attempt == kTries && changed < count_) {
      first_ = changed;
      return Result::kFrames;
    }
  }
  return Result::kTorn;
}

}  // namespace gpuprobe::sampler

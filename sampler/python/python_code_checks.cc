// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_code_checks.h"

#include <algorithm>
#include <cstring>

namespace gpuprobe::sampler {
namespace {

// Not functions' frames have no code object of interest.
bool IsEntryFrame(const PythonFrame& frame) { return frame.owner >= kFirstEntryFrameOwner; }

}  // namespace

void PythonCodeChecks::Init(Memory* memory, PythonCodeCache* cache) {
  memory_ = memory;
  cache_ = cache;
}

void PythonCodeChecks::Reset(const ProcessMemory* process, const PythonLayout* layout) {
  process_ = process;
  layout_ = layout;
  memset(memory_->hints, 0, sizeof(memory_->hints));
  foreseen_count_ = wish_count_ = inner_bytes_ = 0;
}

PythonCodeChecks::Hint* PythonCodeChecks::HintOf(uint64_t thread) const {
  return &memory_->hints[(thread >> 4) * 0x9E3779B97F4A7C15u >> 60];
}

// Where the instructions of that object begin.
uint64_t PythonCodeChecks::InstructionsOf(const PythonCodeCache::Entry& entry) const {
  return layout_->minor >= 11 ? entry.address + layout_->code_instructions
                              : entry.fields.instructions + layout_->bytes_begin;
}

PythonFrameWalk::Wishes PythonCodeChecks::Foresee(uint64_t thread) {
  thread_ = thread;
  foreseen_count_ = wish_count_ = inner_bytes_ = 0;
  const Hint& hint = *HintOf(thread);
  if (hint.thread != thread || !hint.pays) return {};
  uint8_t* to = memory_->wish_images;
  for (size_t i = 0; i < hint.count; ++i) {
    PythonCodeCache::Entry* entry = cache_->Find(hint.codes[i]);
    if (entry == nullptr) continue;
    PythonCodeCache::Check& check = memory_->foreseen[foreseen_count_];
    check = {.address = hint.codes[i], .entry = entry};
    // Its frame most likely stands where it stood, if it did at the last look.
    if (!hint.texts[i]) check.stand = entry->stand;
    cache_->AddPieces(&check, memory_->foreseen, foreseen_count_, &to, memory_->wishes,
                      &wish_count_);
    memory_->foreseen_end[foreseen_count_++] = wish_count_;
  }
  ForeseeInner(hint.inner);
  return {memory_->wishes, wish_count_};
}

// Behind the objects themselves, so that the instructions are those of what was found there.
void PythonCodeChecks::ForeseeInner(const Inner& inner) {
  const PythonCodeCache::Entry* entry = inner.code == 0 ? nullptr : cache_->Find(inner.code);
  if (entry == nullptr || inner.offset < 0) return;
  const uint64_t offset = static_cast<uint64_t>(inner.offset);
  if (offset >= entry->instruction_bytes) return;
  const uint64_t begin = offset > kInnerBytes / 2 ? offset - kInnerBytes / 2 : 0;
  inner_begin_ = InstructionsOf(*entry) + begin;
  inner_bytes_ = std::min<uint64_t>(entry->instruction_bytes - begin, kInnerBytes);
  memory_->wishes[wish_count_++] = {inner_begin_, memory_->inner_image,
                                    static_cast<uint32_t>(inner_bytes_)};
}

// The object of that frame, if it was read in advance, and as much of it as has to be compared.
bool PythonCodeChecks::TakeForeseen(const PythonFrame& frame, size_t read, size_t* next,
                                    PythonCodeCache::Check* out) const {
  for (size_t i = 0; i < foreseen_count_; ++i) {
    // Mostly they are met in the order in which they are remembered.
    const size_t at = (*next + i) % foreseen_count_;
    if (memory_->foreseen[at].address != frame.code) continue;
    *next = at + 1;
    if (memory_->foreseen_end[at] > read) return false;
    PythonCodeCache::Check check = memory_->foreseen[at];
    check.stand = PythonCodeCache::StandOf(frame);
    if (!PythonCodeCache::IsEnough(check)) return false;
    *out = check;
    return true;
  }
  return false;
}

// The address of what the frame executes; 0: not known.
uint64_t PythonCodeChecks::InnermostInstruction(const PythonFrame& frame) const {
  if (IsEntryFrame(frame) || frame.instruction <= 0) return 0;
  if (layout_->minor >= 11) return static_cast<uint64_t>(frame.instruction);
  const PythonCodeCache::Entry* entry = cache_->Find(frame.code);
  return entry == nullptr ? 0 : InstructionsOf(*entry) + static_cast<uint64_t>(frame.instruction);
}

bool PythonCodeChecks::OpcodeForeseen(uint64_t address, size_t read, uint8_t* out) const {
  // It is the last of the wishes.
  if (inner_bytes_ == 0 || read < wish_count_) return false;
  if (address < inner_begin_ || address - inner_begin_ >= inner_bytes_) return false;
  *out = memory_->inner_image[address - inner_begin_];
  return true;
}

bool PythonCodeChecks::Check(const PythonFrameWalk& walk, uint8_t* opcode) {
  Memory& m = *memory_;
  const size_t read = walk.wishes_read();
  size_t unique_count = 0, count = 0, next = 0;
  uint8_t* to = m.images;
  size_t of_frame[PythonFrameWalk::kMaxFrames];
  for (size_t i = 0; i < walk.count(); ++i) {
    const PythonFrame& frame = walk.frame(i);
    if (IsEntryFrame(frame)) continue;
    size_t at = 0;
    while (at < unique_count && m.unique[at].address != frame.code) ++at;
    of_frame[i] = at;
    if (at < unique_count) continue;
    // An entry frame that has become a function's since they were counted.
    if (unique_count == kMaxStackDepth) return false;
    PythonCodeCache::Check& check = m.unique[unique_count++];
    m.asked[at] = !TakeForeseen(frame, read, &next, &check);
    if (m.asked[at]) {
      check = {.address = frame.code,
               .entry = cache_->Find(frame.code),
               .stand = PythonCodeCache::StandOf(frame)};
      cache_->AddPieces(&check, m.unique, unique_count - 1, &to, m.pieces, &count);
    }
    m.texts[at] = PythonCodeCache::NeedsTexts(check);
  }
  *opcode = 0;
  const uint64_t instruction = InnermostInstruction(walk.frame(0));
  if (instruction != 0 && !OpcodeForeseen(instruction, read, opcode)) {
    m.pieces[count++] = {instruction, opcode, 1};
  }
  const bool readable = count == 0 || process_->ReadPieces(m.pieces, count);
  bool all = true;
  for (size_t i = 0; i < unique_count; ++i) {
    // Where the texts of an object that has gone were, there may be nothing any more.
    m.known[i] = m.unique[i].entry != nullptr &&
                 (readable || !m.asked[i] ? cache_->Matches(m.unique[i])
                                          : cache_->StillThere(m.unique[i].entry));
    all = all && m.known[i];
  }
  Remember(walk.frame(0), instruction, unique_count);
  // Only now: taking one in may throw out an entry of this very stack.
  for (size_t i = 0; i < unique_count; ++i) {
    if (!m.known[i]) cache_->Load(m.unique[i].address);
  }
  if (!all || !readable) return false;
  for (size_t i = 0; i < walk.count(); ++i) {
    m.checked[i] = IsEntryFrame(walk.frame(i)) ? nullptr : m.unique[of_frame[i]].entry;
  }
  return true;
}

// Only the objects of this stack: on cold caches a place to read costs a quarter of a system call,
// so that few may be read for nothing.
void PythonCodeChecks::Remember(const PythonFrame& innermost, uint64_t instruction,
                                size_t unique_count) {
  const Memory& m = *memory_;
  Hint& hint = *HintOf(thread_);
  if (hint.thread != thread_) hint = {};
  size_t met = 0;
  for (size_t i = 0; i < hint.count; ++i) {
    // Mostly where it was.
    size_t at = i < unique_count && m.unique[i].address == hint.codes[i] ? i : 0;
    while (at < unique_count && m.unique[at].address != hint.codes[i]) ++at;
    met += at < unique_count;
  }
  hint.pays = hint.count > 0 && 4 * met >= 3 * hint.count;
  hint.thread = thread_;
  hint.count = static_cast<uint32_t>(std::min(unique_count, kHintedCodes));
  for (size_t i = 0; i < hint.count; ++i) {
    hint.codes[i] = m.unique[i].address;
    hint.texts[i] = m.texts[i];
  }
  const PythonCodeCache::Entry* entry = instruction == 0 ? nullptr : cache_->Find(innermost.code);
  hint.inner = {};
  if (entry != nullptr) {
    hint.inner = {innermost.code, static_cast<int64_t>(instruction - InstructionsOf(*entry))};
  }
}

}  // namespace gpuprobe::sampler

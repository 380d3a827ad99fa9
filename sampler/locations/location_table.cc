// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/locations/location_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpuprobe::sampler {
namespace {

constexpr size_t kMaxTextBytes = 1024;
// Of the memory: how it is shared out. A text is 40 bytes on average and serves about four lines.
constexpr size_t kBytesPerLocation = 64;
constexpr size_t kLocationsPerText = 4;
constexpr Location kUnknown = {0, 0, 0, 0, LocationKind::kPython};

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

uint64_t HashText(std::string_view text) {
  uint64_t hash = text.size();
  while (text.size() >= 8) {
    uint64_t word;
    memcpy(&word, text.data(), 8);
    hash = Mix(hash, word);
    text.remove_prefix(8);
  }
  uint64_t tail = 0;
  memcpy(&tail, text.data(), text.size());
  return Mix(hash, tail);
}

uint64_t HashLocation(const Location& location) {
  uint64_t hash = Mix(static_cast<uint64_t>(location.kind), location.offset);
  hash = Mix(hash, static_cast<uint64_t>(location.function) << 32 | location.file);
  return Mix(hash, location.line);
}

bool Same(const Location& a, const Location& b) {
  return a.function == b.function && a.file == b.file && a.line == b.line && a.offset == b.offset &&
         a.kind == b.kind;
}

// At most kMaxTextBytes, not cut inside a UTF-8 sequence.
std::string_view CutText(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return text;
  size_t end = kMaxTextBytes;
  while (end > kMaxTextBytes - 4 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return {text.data(), end};  // substr can throw
}

}  // namespace

struct LocationTable::State {
  struct TextPlace {
    uint32_t begin;
    uint32_t bytes;
  };
  Location* locations;  // [0] is the unknown one
  TextPlace* texts;     // [0] is the empty one
  uint32_t* location_slots;
  uint32_t* text_slots;
  char* characters;
  uint32_t location_count, location_capacity;
  uint32_t text_count, text_capacity;
  uint32_t location_mask, text_mask;
  size_t character_count, character_capacity;
  uint64_t refused;
};

bool LocationTable::Init(void* memory, size_t bytes) {
  if (bytes < sizeof(State) + 4096) return false;
  auto* at = static_cast<char*>(memory);
  auto* state = reinterpret_cast<State*>(at);
  at += sizeof(State);
  const size_t location_capacity = bytes / kBytesPerLocation;
  const size_t text_capacity = location_capacity / kLocationsPerText;
  // Twice as many slots as entries at least, so that a probe is short.
  const size_t location_slots = std::bit_ceil(location_capacity * 3 / 2);
  const size_t text_slots = std::bit_ceil(text_capacity * 3 / 2);
  const size_t fixed = sizeof(State) + location_capacity * sizeof(Location) +
                       text_capacity * sizeof(State::TextPlace) +
                       (location_slots + text_slots) * sizeof(uint32_t);
  if (fixed >= bytes || bytes > UINT32_MAX) return false;
  state->locations = reinterpret_cast<Location*>(at);
  at += location_capacity * sizeof(Location);
  state->texts = reinterpret_cast<State::TextPlace*>(at);
  at += text_capacity * sizeof(State::TextPlace);
  state->location_slots = reinterpret_cast<uint32_t*>(at);
  at += location_slots * sizeof(uint32_t);
  state->text_slots = reinterpret_cast<uint32_t*>(at);
  at += text_slots * sizeof(uint32_t);
  state->characters = at;
  state->character_capacity = bytes - fixed;
  state->location_capacity = static_cast<uint32_t>(location_capacity);
  state->text_capacity = static_cast<uint32_t>(text_capacity);
  state->location_mask = static_cast<uint32_t>(location_slots - 1);
  state->text_mask = static_cast<uint32_t>(text_slots - 1);
  state->location_count = 1;
  state->text_count = 1;
  state_ = state;
  return true;
}

TextId LocationTable::InternText(std::string_view text) {
  if (text.empty() || state_ == nullptr) return 0;
  text = CutText(text);
  State& s = *state_;
  uint32_t slot = static_cast<uint32_t>(HashText(text)) & s.text_mask;
  while (s.text_slots[slot] != 0) {
    if (Text(s.text_slots[slot]) == text) return s.text_slots[slot];
    slot = (slot + 1) & s.text_mask;
  }
  if (s.text_count == s.text_capacity || text.size() > s.character_capacity - s.character_count) {
    ++s.refused;
    return 0;
  }
  const TextId id = s.text_count++;
  s.texts[id] = {static_cast<uint32_t>(s.character_count), static_cast<uint32_t>(text.size())};
  memcpy(s.characters + s.character_count, text.data(), text.size());
  s.character_count += text.size();
  s.text_slots[slot] = id;
  return id;
}

LocationId LocationTable::Intern(const Location& location) {
  if (state_ == nullptr) return 0;
  State& s = *state_;
  uint32_t slot = static_cast<uint32_t>(HashLocation(location)) & s.location_mask;
  while (s.location_slots[slot] != 0) {
    if (Same(s.locations[s.location_slots[slot]], location)) return s.location_slots[slot];
    slot = (slot + 1) & s.location_mask;
  }
  if (s.location_count == s.location_capacity) {
    ++s.refused;
    return 0;
  }
  const LocationId id = s.location_count++;
  s.locations[id] = location;
  s.location_slots[slot] = id;
  return id;
}

const Location& LocationTable::Get(LocationId id) const {
  return state_ != nullptr && id < state_->location_count ? state_->locations[id] : kUnknown;
}

std::string_view LocationTable::Text(TextId id) const {
  if (state_ == nullptr || id == 0 || id >= state_->text_count) return {};
  return {state_->characters + state_->texts[id].begin, state_->texts[id].bytes};
}

uint32_t LocationTable::location_count() const {
  return state_ != nullptr ? state_->location_count - 1 : 0;
}

uint64_t LocationTable::refused() const { return state_ != nullptr ? state_->refused : 0; }

}  // namespace gpuprobe::sampler

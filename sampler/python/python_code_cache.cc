// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_code_cache.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "sampler/python/python_lines.h"

namespace gpuprobe::sampler {
namespace {

constexpr uint32_t kObjectType = 8;
constexpr uint32_t kObjectSize = 16;
// Of str and bytes objects, what comes before is the reference count, which changes all the time.
constexpr uint32_t kTextIdentityBegin = 8;
constexpr uint32_t kBytesHash = 24;
// How much of a name, a file name, and a line table is compared, beyond the header. Interned texts
// carry their hash in the header, and the start of a line table differs where the lines differ.
constexpr uint32_t kComparedTextBytes = 64;
constexpr uint32_t kComparedTableBytes = 96;

template <typename T>
T At(const uint8_t* bytes, uint32_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

uint64_t HashBytes(uint64_t hash, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    uint64_t word = 0;
    const size_t now = std::min<size_t>(size, 8);
    memcpy(&word, bytes, now);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    bytes += now;
    size -= now;
  }
  return hash;
}

size_t SetOf(uint64_t address) {
  return (address >> 4) * 0x9E3779B97F4A7C15u >> 40 & (PythonCodeCache::kSets - 1);
}

}  // namespace

void PythonCodeCache::Reset(const ProcessMemory* process, const PythonRuntime* runtime,
                            LocationTable* table) {
  process_ = process;
  runtime_ = runtime;
  table_ = table;
  memset(memory_->addresses, 0, sizeof(memory_->addresses));
  memset(memory_->entries, 0, sizeof(memory_->entries));
  memset(memory_->lines, 0, sizeof(memory_->lines));
}

PythonCodeCache::Entry* PythonCodeCache::Find(uint64_t address) const {
  const size_t set = SetOf(address);
  for (size_t way = 0; way < kWays; ++way) {
    if (memory_->addresses[set][way] == address) return &memory_->entries[set][way];
  }
  return nullptr;
}

void PythonCodeCache::AddPieces(Check* check, const Check* others, size_t other_count, uint8_t** to,
                                ProcessMemory::Piece* pieces, size_t* count) const {
  const auto add = [&](uint64_t at, size_t size) {
    pieces[(*count)++] = {at, *to, static_cast<uint32_t>(size)};
    *to += size;
  };
  check->own = *to;
  check->file = nullptr;
  const Entry* entry = check->entry;
  add(check->address, runtime_->layout.code_bytes);
  if (!NeedsTexts(*check)) return;
  add(entry->fields.name, entry->name_bytes);
  add(entry->fields.line_table, entry->line_table_bytes);
  for (size_t i = 0; i < other_count; ++i) {
    if (others[i].file != nullptr && others[i].entry->fields.file == entry->fields.file &&
        others[i].entry->file_bytes == entry->file_bytes) {
      check->file = others[i].file;
      return;
    }
  }
  check->file = *to;
  add(entry->fields.file, entry->file_bytes);
}

void PythonCodeCache::ParseFields(const uint8_t* code, PythonCodeFields* out) const {
  const PythonLayout& layout = runtime_->layout;
  *out = {};
  out->type = At<uint64_t>(code, kObjectType);
  if (layout.minor >= 11) {
    out->instruction_bytes = At<uint64_t>(code, kObjectSize) * 2;
    out->first_traceable = At<int32_t>(code, layout.code_first_traceable);
  } else {
    out->instructions = At<uint64_t>(code, layout.code_instructions);
  }
  out->file = At<uint64_t>(code, layout.code_file);
  out->name = At<uint64_t>(code, layout.code_name);
  out->line_table = At<uint64_t>(code, layout.code_line_table);
  out->first_line = At<int32_t>(code, layout.code_first_line);
  if (layout.code_version != kNoOffset) out->version = At<uint32_t>(code, layout.code_version);
}

uint64_t PythonCodeCache::ContentHash(const Entry& entry, const Check& check) const {
  const uint8_t* name = check.own + runtime_->layout.code_bytes;
  const uint8_t* table = name + entry.name_bytes;
  const uint32_t begin = runtime_->layout.bytes_begin;
  uint64_t hash = HashBytes(0, name + kTextIdentityBegin, entry.name_bytes - kTextIdentityBegin);
  hash = HashBytes(hash, check.file + kTextIdentityBegin, entry.file_bytes - kTextIdentityBegin);
  hash = HashBytes(hash, table + kObjectType, kBytesHash - kObjectType);
  return HashBytes(hash, table + begin, entry.line_table_bytes - begin);
}

uint64_t PythonCodeCache::StandOf(const PythonFrame& frame) {
  const uint64_t words[] = {frame.address, frame.previous,
                            static_cast<uint64_t>(frame.instruction)};
  return HashBytes(0, reinterpret_cast<const uint8_t*>(words), sizeof(words)) | 1;
}

bool PythonCodeCache::NeedsTexts(const Check& check) {
  const Entry* entry = check.entry;
  if (entry == nullptr || entry->fields.version != 0) return false;
  return check.stand == 0 || check.stand != entry->stand || entry->trusted == 0;
}

bool PythonCodeCache::Matches(const Check& check) const {
  PythonCodeFields fields;
  ParseFields(check.own, &fields);
  Entry* entry = check.entry;
  if (!(fields == entry->fields)) return false;
  if (fields.version != 0) return true;
  if (check.file == nullptr) {
    --entry->trusted;
    return true;
  }
  if (ContentHash(*entry, check) != entry->content_hash) return false;
  if (check.stand != 0) {
    entry->stand = check.stand;
    entry->trusted = kTrustedLooks;
  }
  return true;
}

bool PythonCodeCache::ReadCheck(uint64_t address, Entry* entry, Check* out) {
  ProcessMemory::Piece pieces[kMaxCheckPieces];
  size_t count = 0;
  uint8_t* to = memory_->check;
  *out = {.address = address, .entry = entry};
  AddPieces(out, nullptr, 0, &to, pieces, &count);
  return process_->ReadPieces(pieces, count);
}

bool PythonCodeCache::StillThere(Entry* entry) {
  Check check;
  return ReadCheck(entry->address, entry, &check) && Matches(check);
}

bool PythonCodeCache::MeasureContent(Entry* entry) const {
  const PythonLayout& layout = runtime_->layout;
  const auto text_bytes = [&](uint64_t address, uint16_t* out) {
    uint8_t header[64];
    PythonTextShape shape;
    if (!process_->Read(address, header, layout.text_header_bytes) ||
        !ParsePythonText(layout, header, &shape)) {
      return false;
    }
    *out = static_cast<uint16_t>(shape.data_begin +
                                 std::min<uint64_t>(shape.length * shape.kind, kComparedTextBytes));
    return true;
  };
  uint64_t table_bytes = 0;
  if (!text_bytes(entry->fields.name, &entry->name_bytes) ||
      !text_bytes(entry->fields.file, &entry->file_bytes) ||
      !process_->ReadValue(entry->fields.line_table + kObjectSize, &table_bytes)) {
    return false;
  }
  entry->line_table_bytes = static_cast<uint16_t>(
      layout.bytes_begin + std::min<uint64_t>(table_bytes, kComparedTableBytes));
  return true;
}

bool PythonCodeCache::ReadText(uint64_t address, TextId* out) {
  std::string_view text;
  if (!ReadPythonText(*process_, runtime_->layout, address, &memory_->text, &text)) return false;
  *out = table_->InternText(text);
  return true;
}

bool PythonCodeCache::Load(uint64_t address) {
  Entry entry = {};
  entry.address = address;
  Check check;
  if (!ReadCheck(address, nullptr, &check)) return false;
  ParseFields(check.own, &entry.fields);
  if (runtime_->code_type != 0 && entry.fields.type != runtime_->code_type) return false;
  if (entry.fields.version == 0) {
    if (!MeasureContent(&entry) || !ReadCheck(address, &entry, &check)) return false;
    entry.content_hash = ContentHash(entry, check);
  }
  entry.instruction_bytes = entry.fields.instruction_bytes;
  if (entry.fields.instructions != 0 &&
      !process_->ReadValue(entry.fields.instructions + kObjectSize, &entry.instruction_bytes)) {
    return false;
  }
  if (!ReadText(entry.fields.name, &entry.function) || !ReadText(entry.fields.file, &entry.file) ||
      !StillThere(&entry)) {
    return false;
  }
  entry.generation = ++generation_;
  const size_t set = SetOf(address);
  size_t way = kWays;
  for (size_t i = 0; i < kWays; ++i) {
    if (memory_->addresses[set][i] == address) way = i;
  }
  if (way == kWays) way = memory_->next_way[set]++ % kWays;
  memory_->addresses[set][way] = address;
  memory_->entries[set][way] = entry;
  return true;
}

bool PythonCodeCache::Locate(Entry* known, int64_t offset, LocationId* out) {
  const Entry& entry = *known;
  const uint64_t key =
      static_cast<uint64_t>(entry.generation) << 32 | static_cast<uint32_t>(offset / 2 + 1);
  Line& line = memory_->lines[(key ^ key >> 32) * 0x9E3779B97F4A7C15u >> 51 & (kLines - 1)];
  if (line.key == key) {
    *out = line.location;
    return true;
  }
  const PythonLayout& layout = runtime_->layout;
  uint64_t table_bytes = 0;
  if (!process_->ReadValue(entry.fields.line_table + kObjectSize, &table_bytes)) return false;
  // Instructions beyond what is read of a monstrous table get no line.
  const size_t bytes = std::min<uint64_t>(table_bytes, sizeof(memory_->line_table));
  if (bytes > 0 &&
      !process_->Read(entry.fields.line_table + layout.bytes_begin, memory_->line_table, bytes)) {
    return false;
  }
  if (!StillThere(known)) return false;
  uint32_t number =
      PythonLine(layout.minor, {memory_->line_table, bytes}, entry.fields.first_line, offset);
  // The compiler's own instructions have no line.
  if (number == 0 && entry.fields.first_line > 0) {
    number = static_cast<uint32_t>(entry.fields.first_line);
  }
  *out = table_->Intern({entry.function, entry.file, number, 0, LocationKind::kPython});
  line = {key, *out};
  return true;
}

}  // namespace gpuprobe::sampler

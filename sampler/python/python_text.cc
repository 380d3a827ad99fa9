// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_text.h"

#include <algorithm>
#include <cstring>

namespace gpuprobe::sampler {
namespace {

uint32_t CharacterAt(const uint8_t* characters, size_t index, uint32_t kind) {
  uint32_t value = 0;
  memcpy(&value, characters + index * kind, kind);
  return value;
}

}  // namespace

bool ParsePythonText(const PythonLayout& layout, const uint8_t* header, PythonTextShape* out) {
  uint64_t length;
  uint32_t state;
  memcpy(&length, header + layout.text_length, 8);
  memcpy(&state, header + layout.text_state, 4);
  // The state's bits are interned (2 bits up to 3.13; 3.14 gives it 16), kind (3), compact, ascii.
  // Either the low or the high half is empty, which tells them apart.
  uint32_t bits = state >> 2 & 31;
  if ((bits & 7) == 0) bits = state >> 16 & 31;
  const uint32_t kind = bits & 7;
  const bool compact = (bits & 8) != 0, ascii = (bits & 16) != 0;
  if (kind != 1 && kind != 2 && kind != 4) return false;
  if (!compact || (ascii && kind != 1) || length > UINT32_MAX) return false;
  *out = {length, kind, ascii ? layout.text_header_bytes : layout.text_compact_header_bytes};
  return true;
}

size_t EncodeUtf8(const uint8_t* characters, size_t length, uint32_t kind, char* out, size_t room) {
  size_t used = 0;
  for (size_t i = 0; i < length; ++i) {
    uint32_t c = CharacterAt(characters, i, kind);
    if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) c = '?';
    const size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (used + size > room) break;
    if (size == 1) {
      out[used++] = static_cast<char>(c);
      continue;
    }
    constexpr uint8_t kLead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[used++] = static_cast<char>(kLead[size] | c >> 6 * (size - 1));
    for (size_t rest = size - 1; rest-- > 0;) {
      out[used++] = static_cast<char>(0x80 | (c >> 6 * rest & 0x3F));
    }
  }
  return used;
}

bool ReadPythonText(const ProcessMemory& memory, const PythonLayout& layout, uint64_t address,
                    PythonTextBuffer* buffer, std::string_view* out) {
  uint8_t header[64];
  PythonTextShape shape;
  if (!memory.Read(address, header, layout.text_header_bytes) ||
      !ParsePythonText(layout, header, &shape)) {
    return false;
  }
  const size_t length = std::min<uint64_t>(shape.length, kMaxPythonTextBytes);
  if (length > 0 &&
      !memory.Read(address + shape.data_begin, buffer->characters, length * shape.kind)) {
    return false;
  }
  *out = {buffer->utf8,
          EncodeUtf8(buffer->characters, length, shape.kind, buffer->utf8, kMaxPythonTextBytes)};
  return true;
}

}  // namespace gpuprobe::sampler

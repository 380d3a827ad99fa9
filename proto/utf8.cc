// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/utf8.h"

#include <cstdint>

namespace gpuprobe::proto {
namespace {

// Length of the well-formed sequence at `s` (RFC 3629, section 4), 0 if there is none.
size_t SequenceLength(const uint8_t* s, size_t size) {
  const uint8_t lead = s[0];
  if (lead < 0x80) return 1;
  size_t length;
  uint8_t low = 0x80, high = 0xbf;  // bounds of the second byte
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (size < length || s[1] < low || s[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((s[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

void ReplaceInvalidUtf8(char* text, size_t size) {
  for (size_t i = 0; i < size;) {
    const size_t length = SequenceLength(reinterpret_cast<const uint8_t*>(text) + i, size - i);
    if (length == 0) text[i] = '?';
    i += length == 0 ? 1 : length;
  }
}

}  // namespace gpuprobe::proto

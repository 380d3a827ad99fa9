// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_lines.h"

namespace gpuprobe::sampler {
namespace {

// Sums of deltas are made in 64 bit, so that rubbish cannot overflow them: a table has at most
// 2^32 bytes and a delta 2^32 lines.
uint32_t AsLine(int64_t line) {
  return line > 0 && line <= INT32_MAX ? static_cast<uint32_t>(line) : 0;
}

// 3.9: pairs (bytes unsigned, lines signed); a line begins where the bytes have been added up.
uint32_t LnotabLine(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  int64_t begin = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    begin += table[i];
    if (begin > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return AsLine(line);
}

// 3.10: pairs (bytes unsigned, lines signed); the line change comes first, -128 is "no line".
uint32_t RangesLine(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += table[i];
    const auto delta = static_cast<int8_t>(table[i + 1]);
    if (delta != -128) line += delta;
    if (offset < end) return delta != -128 ? AsLine(line) : 0;
  }
  return 0;
}

class EntryReader {
 public:
  EntryReader(std::span<const uint8_t> table, size_t at) : table_(table), at_(at) {}
  // Six bits a byte, least significant first; bit 6 says that more follow.
  int64_t Unsigned() {
    uint64_t value = 0;
    for (int shift = 0; at_ < table_.size(); shift += 6) {
      const uint8_t byte = table_[at_++];
      if (shift < 60) value |= static_cast<uint64_t>(byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    return static_cast<int64_t>(value & UINT32_MAX);
  }
  // The sign is in the lowest bit.
  int64_t Signed() {
    const int64_t value = Unsigned();
    return (value & 1) != 0 ? -(value >> 1) : value >> 1;
  }

 private:
  std::span<const uint8_t> table_;
  size_t at_;
};

// 3.11+: entries that begin with a byte with bit 7 set: four bits of kind, three of length in code
// units less one; then what the kind needs (all without bit 7).
uint32_t LocationLine(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  constexpr int kShortLast = 9, kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14;
  int64_t end = 0;
  size_t i = 0;
  while (i < table.size()) {
    const uint8_t head = table[i];
    if ((head & 0x80) == 0) {
      ++i;  // the rest of the entry before
      continue;
    }
    const int kind = head >> 3 & 15;
    bool has_line = true;
    if (kind <= kShortLast) {
    } else if (kind <= kOneLine2) {
      line += kind - kOneLine0;
    } else if (kind == kNoColumns || kind == kLong) {
      line += EntryReader(table, i + 1).Signed();
    } else {
      has_line = false;
    }
    end += ((head & 7) + 1) * 2;
    if (offset < end) return has_line ? AsLine(line) : 0;
    ++i;
  }
  return 0;
}

}  // namespace

uint32_t PythonLine(int minor, std::span<const uint8_t> table, int32_t first_line, int64_t offset) {
  if (offset < 0) return AsLine(first_line);
  if (minor <= 9) return LnotabLine(table, first_line, offset);
  if (minor == 10) return RangesLine(table, first_line, offset);
  return LocationLine(table, first_line, offset);
}

}  // namespace gpuprobe::sampler

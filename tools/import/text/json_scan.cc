// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/text/json_scan.h"

#include <cctype>

namespace gpuprobe::tools {
namespace {

constexpr int kDeepest = 100;  // levels of nesting; traces have three
constexpr uint32_t kReplacement = 0xfffd;

// One bit for each of 64 bytes.
struct Bits {
  uint64_t quote = 0, backslash = 0, open = 0, close = 0;
  uint64_t between = 0;  // brackets, commas, colons, white space: what may stand beside a string
};

Bits Classify(const char* text) {
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
  const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
  const __m128i comma = _mm_set1_epi8(','), colon = _mm_set1_epi8(':'), space = _mm_set1_epi8(' ');
  Bits bits;
  for (int part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + 16 * part));
    // '[' and ']' differ from '{' and '}' in this bit alone.
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i opens = _mm_cmpeq_epi8(folded, open), closes = _mm_cmpeq_epi8(folded, close);
    const __m128i between =
        _mm_or_si128(_mm_or_si128(_mm_or_si128(opens, closes), _mm_cmpeq_epi8(bytes, comma)),
                     _mm_or_si128(_mm_cmpeq_epi8(bytes, colon),
                                  _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes)));
    const auto mask = [part](__m128i hits) {
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(hits))) << (16 * part);
    };
    bits.quote |= mask(_mm_cmpeq_epi8(bytes, quote));
    bits.backslash |= mask(_mm_cmpeq_epi8(bytes, backslash));
    bits.open |= mask(opens);
    bits.close |= mask(closes);
    bits.between |= mask(between);
  }
  return bits;
}

// Bit i: is the number of set bits up to and with i odd?
uint64_t PrefixXor(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

// The characters that a backslash before them takes the meaning from. `carry`: the block before
// ended in such a backslash.
uint64_t Escaped(uint64_t backslash, bool* carry) {
  uint64_t escaped = *carry ? 1 : 0;
  *carry = false;
  for (uint64_t rest = backslash & ~escaped; rest != 0;) {
    const int at = std::countr_zero(rest);
    if (at == 63) {
      *carry = true;
      break;
    }
    escaped |= uint64_t{2} << at;
    rest &= ~(uint64_t{3} << at);
  }
  return escaped;
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
    return;
  }
  if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6));
  } else {
    if (code < 0x10000) {
      out->push_back(static_cast<char>(0xe0 | code >> 12));
    } else {
      out->push_back(static_cast<char>(0xf0 | code >> 18));
      out->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3f)));
    }
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
  }
  out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
}

// Four hexadecimal digits at `at`; -1: they are not.
int32_t Hex4(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  int32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (!std::isxdigit(c)) return -1;
    value = value * 16 + (std::isdigit(c) ? c - '0' : std::tolower(c) - 'a' + 10);
  }
  return value;
}

// The escape "\\u...." whose digits begin at `at`; how many characters it took. 0: it is none.
size_t AppendUnicode(std::string_view text, size_t at, std::string* out) {
  const int32_t first = Hex4(text, at);
  if (first < 0) return 0;
  const auto code = static_cast<uint32_t>(first);
  if (code < 0xd800 || code > 0xdfff) {
    AppendUtf8(code, out);
    return 4;
  }
  if (code < 0xdc00 && text.substr(at + 4, 2) == "\\u") {
    const int32_t second = Hex4(text, at + 6);
    if (second >= 0xdc00 && second <= 0xdfff) {
      AppendUtf8(0x10000 + ((code - 0xd800) << 10) + (static_cast<uint32_t>(second) - 0xdc00), out);
      return 10;
    }
  }
  AppendUtf8(kReplacement, out);
  return 4;
}

}  // namespace

std::string Unescape(const JsonText& text) {
  if (!text.escaped) return std::string(text.raw);
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  std::string out;
  for (size_t i = 0; i < text.raw.size(); ++i) {
    const char c = text.raw[i];
    if (c != '\\' || i + 1 == text.raw.size()) {
      out.push_back(c);
      continue;
    }
    const char letter = text.raw[++i];
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out.push_back(kMeant[known]);
    } else if (const size_t took = letter == 'u' ? AppendUnicode(text.raw, i + 1, &out) : 0;
               took > 0) {
      i += took;
    } else {
      out.push_back('\\');
      out.push_back(letter);
    }
  }
  return out;
}

// 64 bytes at a time: most of a trace is arguments that nobody asks for. That strings begin and end
// where strings can is checked on the way: a quote too many or too few is found at the next string,
// not at the end of the file.
Scan JsonCursor::SkipNested() {
  uint64_t in_string_carry = 0, between_carry = 1, closed_carry = 0;
  bool escape_carry = false;
  int64_t depth = 0;
  for (const char* block = at_; block < end_; block += 64) {
    Bits bits = Classify(block);
    const ptrdiff_t left = end_ - block;
    const uint64_t valid = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    if ((bits.backslash | (escape_carry ? 1 : 0)) != 0) {
      bits.quote &= ~Escaped(bits.backslash & valid, &escape_carry);
    }
    bits.quote &= valid;
    const uint64_t in_string = PrefixXor(bits.quote) ^ in_string_carry;
    const uint64_t opening = bits.quote & in_string, closing = bits.quote & ~in_string;
    const uint64_t after_closing = (closing << 1 | closed_carry) & valid;
    const uint64_t wrong =
        (opening & ~(bits.between << 1 | between_carry)) | (after_closing & ~bits.between);
    const uint64_t open = bits.open & ~in_string & valid, close = bits.close & ~in_string & valid;
    if (depth > std::popcount(close)) {
      if (wrong != 0) return Scan::kBad;
      depth += std::popcount(open) - std::popcount(close);
    } else {
      for (uint64_t rest = open | close; rest != 0; rest &= rest - 1) {
        depth += (open & rest & -rest) != 0 ? 1 : -1;
        if (depth > 0) continue;
        const int last = std::countr_zero(rest);
        if ((wrong & ((uint64_t{2} << last) - 1)) != 0) return Scan::kBad;
        at_ = block + last + 1;
        return Scan::kOk;
      }
      if (wrong != 0) return Scan::kBad;
    }
    in_string_carry = static_cast<uint64_t>(static_cast<int64_t>(in_string) >> 63);
    between_carry = bits.between >> 63;
    closed_carry = closing >> 63;
  }
  return Scan::kMore;
}

Scan JsonCursor::SkipNestedSlowly(int depth) {
  if (depth > kDeepest) return Scan::kBad;
  const auto value = [&] {
    if (*at_ == '{' || *at_ == '[') return SkipNestedSlowly(depth + 1);
    JsonText ignored;
    return *at_ == '"' ? String(&ignored) : Token(&ignored);
  };
  return *at_ == '{' ? Object([&](std::string_view) { return value(); }) : Array(value);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A cursor over a piece of JSON text that may end anywhere and be damaged anywhere: every function
// says whether the text was good, ended too early (the caller reads more and starts again), or is
// no JSON. Nothing is copied or converted: numbers and strings are handed out as they stand, so
// that times need not pass through a double, and bare NaN or Infinity are tokens like others.
//
// The text must be followed by kJsonPadding readable bytes.
#ifndef GPUPROBE_TOOLS_IMPORT_TEXT_JSON_SCAN_H_
#define GPUPROBE_TOOLS_IMPORT_TEXT_JSON_SCAN_H_

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuprobe::tools {

inline constexpr size_t kJsonPadding = 64;

// Of numbers and words, NaN and -Infinity among them.
inline constexpr std::array<bool, 256> kTokenCharacters = [] {
  std::array<bool, 256> is = {};
  for (int c = '0'; c <= '9'; ++c) is[static_cast<size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) {
    is[static_cast<size_t>(c)] = is[static_cast<size_t>(c - 'a' + 'A')] = true;
  }
  is['.'] = is['-'] = is['+'] = true;
  return is;
}();

enum class Scan : uint8_t { kOk, kMore, kBad };

// A string (without its quotes, escapes not resolved) or a bare token (number, true, NaN).
struct JsonText {
  std::string_view raw;
  bool quoted = false;
  bool escaped = false;  // has backslashes
};

// The text that `text` stands for: escapes resolved. Lone surrogates become U+FFFD; a broken escape
// stays as it is.
std::string Unescape(const JsonText& text);

class JsonCursor {
 public:
  // `lenient`: a quote ends a string only where a comma, a colon or a closing bracket follows, as
  // if quotes inside of strings had not been escaped (old versions of Kineto forgot to). Keys have
  // none.
  JsonCursor(const char* at, const char* end, bool lenient = false)
      : at_(at), end_(end), lenient_(lenient) {}

  const char* at() const { return at_; }
  bool saw_control() const { return saw_control_; }  // raw control characters inside of a string

  // Moves to the next character that is no white space.
  Scan Space() {
    while (at_ < end_ && static_cast<unsigned char>(*at_) <= ' ') ++at_;
    return at_ < end_ ? Scan::kOk : Scan::kMore;
  }
  char Peek() const { return *at_; }  // after Space
  void Take() { ++at_; }

  // At the opening quote.
  Scan String(JsonText* out) { return lenient_ ? Quoted<true>(out) : Quoted<false>(out); }
  Scan Key(JsonText* out) { return Quoted<false>(out); }

  // See the constructor.
  template <bool kLenient>
  Scan Quoted(JsonText* out) {
    const char* const begin = ++at_;
    out->quoted = true;
    out->escaped = false;
    for (;;) {
      SkipOrdinary();
      if (at_ >= end_) return Scan::kMore;
      if (*at_ == '\\') {
        out->escaped = true;
        at_ += 2;
        continue;
      }
      if (*at_ != '"') {
        saw_control_ = true;
        ++at_;
        continue;
      }
      if (kLenient) {
        const Scan ends = QuoteEnds();
        if (ends == Scan::kMore) return ends;
        if (ends == Scan::kBad) {
          ++at_;
          continue;
        }
      }
      out->raw = std::string_view(begin, static_cast<size_t>(at_ - begin));
      ++at_;
      return Scan::kOk;
    }
  }

  // A string or a bare token; an object or array is stepped over and leaves `out` empty.
  Scan Value(JsonText* out) {
    *out = {};
    if (*at_ == '"') return String(out);
    if (*at_ == '{' || *at_ == '[') return Skip();
    return Token(out);
  }

  // Steps over any value.
  Scan Skip() {
    if (*at_ == '{' || *at_ == '[') return lenient_ ? SkipNestedSlowly(0) : SkipNested();
    JsonText ignored;
    return *at_ == '"' ? String(&ignored) : Token(&ignored);
  }

  // At '{'. `member` gets a key with the cursor at its value, and must step over it. Commas too
  // many are tolerated, one too few is not.
  template <typename Member>
  Scan Object(Member member) {
    ++at_;
    for (;;) {
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (*at_ == '}') {
        ++at_;
        return Scan::kOk;
      }
      if (*at_ == ',') {
        ++at_;
        continue;
      }
      if (*at_ != '"') return Scan::kBad;
      JsonText key;
      if (const Scan scan = Key(&key); scan != Scan::kOk) return scan;
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (*at_ != ':') return Scan::kBad;
      ++at_;
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (const Scan scan = member(key.raw); scan != Scan::kOk) return scan;
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (*at_ != ',' && *at_ != '}') return Scan::kBad;
    }
  }

  // At '['. `element` must step over the value at the cursor.
  template <typename Element>
  Scan Array(Element element) {
    ++at_;
    for (;;) {
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (*at_ == ']') {
        ++at_;
        return Scan::kOk;
      }
      if (*at_ == ',') {
        ++at_;
        continue;
      }
      if (const Scan scan = element(); scan != Scan::kOk) return scan;
      if (const Scan scan = Space(); scan != Scan::kOk) return scan;
      if (*at_ != ',' && *at_ != ']') return Scan::kBad;
    }
  }

 private:
  Scan Token(JsonText* out) {
    const char* const begin = at_;
    while (at_ < end_ && kTokenCharacters[static_cast<unsigned char>(*at_)]) ++at_;
    if (at_ >= end_) return Scan::kMore;
    if (at_ == begin) return Scan::kBad;
    out->raw = std::string_view(begin, static_cast<size_t>(at_ - begin));
    return Scan::kOk;
  }
  Scan SkipNested();
  Scan SkipNestedSlowly(int depth);

  // Is the quote at the cursor the end of its string?
  Scan QuoteEnds() const {
    const char* next = at_ + 1;
    while (next < end_ && static_cast<unsigned char>(*next) <= ' ') ++next;
    if (next >= end_) return Scan::kMore;
    return *next == ',' || *next == ':' || *next == '}' || *next == ']' ? Scan::kOk : Scan::kBad;
  }

  // To the next quote, backslash or control character, or beyond the end.
  void SkipOrdinary() {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1f);
    while (at_ < end_) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at_));
      const __m128i hit =
          _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                       _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
      const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hit));
      if (mask != 0) {
        at_ += std::countr_zero(mask);
        return;
      }
      at_ += 16;
    }
  }

  const char* at_;
  const char* end_;
  bool lenient_;
  bool saw_control_ = false;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_TEXT_JSON_SCAN_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/text/exact_time.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

namespace gpuprobe::tools {
namespace {

constexpr int kDecimals = 3;  // microseconds -> nanoseconds
// Exponents beyond say nothing that fits 63 bits, or nothing but zero.
constexpr int kMaxExponent = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool Append(char digit, uint64_t* value) {
  return !__builtin_mul_overflow(*value, uint64_t{10}, value) &&
         !__builtin_add_overflow(*value, static_cast<uint64_t>(digit - '0'), value);
}

std::optional<int64_t> Signed(uint64_t value, bool negative) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

// `digits` with the point behind the first `whole` of them -> rounded half to even.
std::optional<uint64_t> RoundedAt(std::string_view digits, ptrdiff_t whole, bool* rounded) {
  uint64_t value = 0;
  for (ptrdiff_t i = 0; i < whole; ++i) {
    const char digit = i < static_cast<ptrdiff_t>(digits.size()) ? digits[i] : '0';
    if (!Append(digit, &value)) return std::nullopt;
  }
  const size_t begin = static_cast<size_t>(std::max<ptrdiff_t>(whole, 0));
  if (begin >= digits.size()) return value;
  const std::string_view rest = digits.substr(begin);
  if (rest.find_first_not_of('0') == std::string_view::npos) return value;
  if (rounded != nullptr) *rounded = true;
  if (whole < 0) return value;  // less than a tenth
  const bool half = rest[0] == '5' && rest.find_first_not_of('0', 1) == std::string_view::npos;
  if (half ? (value & 1) != 0 : rest[0] >= '5') ++value;
  return value;
}

// "16.25e3" in pieces; false: not a decimal number.
bool Split(std::string_view text, std::string* digits, ptrdiff_t* whole) {
  size_t at = 0;
  while (at < text.size() && IsDigit(text[at])) digits->push_back(text[at++]);
  *whole = static_cast<ptrdiff_t>(digits->size());
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && IsDigit(text[at])) digits->push_back(text[at++]);
  }
  if (digits->empty()) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    int exponent = 0;
    const auto [end, error] =
        std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    *whole += std::clamp(exponent, -kMaxExponent, kMaxExponent);
    return true;
  }
  return at == text.size();
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// What nearly every time looks like: up to 15 digits, then at most three decimals.
std::optional<int64_t> Plain(std::string_view text) {
  constexpr size_t kSafeDigits = 15;
  uint64_t value = 0;
  size_t at = 0;
  while (at < text.size() && IsDigit(text[at])) value = value * 10 + (text[at++] - '0');
  if (at == 0 || at > kSafeDigits) return std::nullopt;
  int decimals = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && IsDigit(text[at]) && decimals < kDecimals) {
      value = value * 10 + (text[at++] - '0');
      ++decimals;
    }
  }
  if (at != text.size()) return std::nullopt;
  for (; decimals < kDecimals; ++decimals) value *= 10;
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> NanosecondsOf(std::string_view microseconds, bool* rounded) {
  if (const auto plain = Plain(microseconds)) return plain;
  std::string_view text = Trim(microseconds);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  std::string digits;
  ptrdiff_t whole = 0;
  if (!Split(text, &digits, &whole)) return std::nullopt;
  // Leading zeros are no digits that count.
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  whole -= static_cast<ptrdiff_t>(zeros);
  if (digits.empty()) return 0;
  const auto value = RoundedAt(digits, whole + kDecimals, rounded);
  return value ? Signed(*value, negative) : std::nullopt;
}

std::optional<int64_t> IntegerOf(std::string_view text) {
  text = Trim(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  const bool whole = rest.empty() || (base == 10 && rest.front() == '.' &&
                                      rest.find_first_not_of('0', 1) == std::string_view::npos);
  if (!whole) return std::nullopt;
  // Ids and pointers use all 64 bits.
  if (!negative) return static_cast<int64_t>(value);
  return Signed(value, true);
}

}  // namespace gpuprobe::tools

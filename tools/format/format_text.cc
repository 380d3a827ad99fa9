// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace gpuprobe::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "...";

struct CodeRange {
  uint32_t first, last;
};
// What a terminal obeys or does not show. C1 controls act like ESC sequences on some; those that
// turn the direction of text around show the rest of a line in an order that it does not have.
constexpr CodeRange kHidden[] = {
    {0x00, 0x1F},        // C0 controls
    {0x7F, 0x9F},        // DEL, C1 controls
    {0xAD, 0xAD},        // soft hyphen
    {0x61C, 0x61C},      // Arabic letter mark
    {0x180E, 0x180E},    // Mongolian vowel separator
    {0x200B, 0x200F},    // zero width, marks of direction
    {0x2028, 0x202E},    // separators of lines; embeddings and overrides of direction
    {0x2060, 0x206F},    // word joiner, invisible operators; isolates of direction
    {0xFEFF, 0xFEFF},    // zero width no-break space
    {0xFFF9, 0xFFFB},    // interlinear annotations
    {0xE0000, 0xE007F},  // tags
};

uint8_t ByteAt(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<uint8_t>(text[at]) : 0;
}

// Length of the well-formed sequence at `at` (Unicode table 3-7: no overlong forms, no surrogates,
// nothing above U+10FFFF), 0 if there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const uint8_t lead = ByteAt(text, at);
  if (lead < 0x80) return 1;
  uint8_t low = 0x80, high = 0xBF;
  size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (at + length > text.size()) return 0;
  const uint8_t second = ByteAt(text, at + 1);
  if (second < low || second > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((ByteAt(text, at + i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Byte offset of the code point number `count`.
size_t OffsetOf(std::string_view text, size_t count) {
  size_t at = 0;
  while (at < text.size() && count > 0) {
    ++at;
    while (at < text.size() && IsContinuation(text[at])) ++at;
    --count;
  }
  return at;
}

size_t g_terminal_width = SIZE_MAX;

// Where to break `line` so that what is before has at most `width` columns; npos: nowhere.
size_t BreakBefore(std::string_view line, size_t indent, size_t width) {
  size_t at = std::string_view::npos;
  for (size_t i = indent, column = indent; i < line.size() && column <= width; ++i) {
    if (line[i] == ' ' && i > indent) at = i;
    column += (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;  // not inside a code point
  }
  return at;
}

void AppendFitted(std::string_view line, std::string* out) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::string rest(line);
  while (DisplayWidth(rest) - rest.ends_with('\n') > g_terminal_width) {
    const size_t at = BreakBefore(rest, indent, g_terminal_width);
    const size_t next = at == rest.npos ? at : rest.find_first_not_of(' ', at);
    if (next == rest.npos) break;
    out->append(rest, 0, rest.find_last_not_of(' ', at) + 1).push_back('\n');
    rest = std::string(indent, ' ') + rest.substr(next);
  }
  out->append(rest);
}

}  // namespace

std::string ToValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0) {
      out.append(kReplacement);
      ++at;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  return out;
}

uint32_t CodePointAt(std::string_view text, size_t at, size_t* length) {
  *length = SequenceLength(text, at);
  const uint8_t lead = ByteAt(text, at);
  if (*length <= 1) return lead;
  uint32_t code = lead & (0x7Fu >> *length);
  for (size_t i = 1; i < *length; ++i) code = code << 6 | (ByteAt(text, at + i) & 0x3Fu);
  return code;
}

bool IsHidden(uint32_t code) {
  return std::any_of(std::begin(kHidden), std::end(kHidden), [code](const CodeRange& range) {
    return range.first <= code && code <= range.last;
  });
}

std::string ToPrintable(std::string_view text) {
  const std::string valid = ToValidUtf8(text);
  std::string out;
  out.reserve(valid.size());
  for (size_t at = 0, length = 0; at < valid.size(); at += length) {
    if (IsHidden(CodePointAt(valid, at, &length))) {
      out.push_back('?');
    } else {
      out.append(valid, at, length);
    }
  }
  return out;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (char c : text) width += !IsContinuation(c);
  return width;
}

std::string MiddleEllipsis(std::string_view text, size_t width) {
  const size_t have = DisplayWidth(text);
  if (have <= width) return std::string(text);
  if (width <= kEllipsis.size()) return std::string(kEllipsis.substr(0, width));
  const size_t keep = width - kEllipsis.size();
  const size_t tail = keep / 2;
  std::string out(text.substr(0, OffsetOf(text, keep - tail)));
  return out.append(kEllipsis).append(text.substr(OffsetOf(text, have - tail)));
}

std::string EndEllipsis(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= kEllipsis.size()) return std::string(kEllipsis.substr(0, width));
  return std::string(text.substr(0, OffsetOf(text, width - kEllipsis.size()))).append(kEllipsis);
}

void SetTerminalWidth(size_t columns) {
  g_terminal_width = columns == 0 ? SIZE_MAX : std::max(columns, kNarrowestTerminal);
}

size_t WithinTerminal(size_t width) { return std::min(width, g_terminal_width); }

std::string FitLines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    AppendFitted(text.substr(0, size), &out);
    text.remove_prefix(size);
  }
  return out;
}

std::string WrapText(std::string_view text, size_t first, size_t indent, size_t width) {
  std::string out;
  width = WithinTerminal(width);
  size_t column = first;
  bool line_empty = true;
  for (size_t at = text.find_first_not_of(' '); at < text.size();
       at = text.find_first_not_of(' ', at)) {
    const std::string_view word = text.substr(at, text.find(' ', at) - at);
    at += word.size();
    const size_t length = DisplayWidth(word);
    if (!line_empty && column + 1 + length > width) {
      out.append("\n").append(indent, ' ');
      column = indent;
      line_empty = true;
    }
    if (!line_empty) {
      out.push_back(' ');
      ++column;
    }
    out.append(word);
    column += length;
    line_empty = false;
  }
  return out;
}

}  // namespace gpuprobe::tools

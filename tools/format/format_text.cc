// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_text.h"

#include <algorithm>
#include <cstdint>

namespace gpuprobe::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "...";

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

std::string ToPrintable(std::string_view text) {
  std::string out = ToValidUtf8(text);
  for (size_t at = 0; at < out.size(); ++at) {
    const uint8_t c = static_cast<uint8_t>(out[at]);
    if (c < 0x20 || c == 0x7F) out[at] = '?';
    // C1 controls are C2 80 .. C2 9F; some terminals obey them like ESC sequences.
    if (c == 0xC2 && ByteAt(out, at + 1) < 0xA0) out.erase(at, 1)[at] = '?';
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

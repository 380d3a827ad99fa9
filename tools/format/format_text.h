// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Strings from traces as they may be shown: names come from other processes and can hold anything.
#ifndef GPUPROBE_TOOLS_FORMAT_FORMAT_TEXT_H_
#define GPUPROBE_TOOLS_FORMAT_FORMAT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuprobe::tools {

// Valid UTF-8: every byte that is not part of a well-formed sequence becomes U+FFFD.
std::string ToValidUtf8(std::string_view text);

// Controls of C0 and C1, characters that turn the direction of text around, and those without a
// width: a terminal obeys or hides them.
bool IsHidden(uint32_t code_point);
// The code point at byte `at` of valid UTF-8, and its length in bytes.
uint32_t CodePointAt(std::string_view text, size_t at, size_t* length);

// Valid UTF-8 without hidden characters (they become '?'): a name must neither drive the terminal
// nor forge a line of a report.
std::string ToPrintable(std::string_view text);

// Code points; good enough for columns of identifiers and paths. `text` must be valid UTF-8.
size_t DisplayWidth(std::string_view text);

// At most `width` columns; what does not fit is cut out of the middle:
// "at::vectorized...MulFunctor".
std::string MiddleEllipsis(std::string_view text, size_t width);
// The same, cut off the end: "train.py:27 in Load...".
std::string EndEllipsis(std::string_view text, size_t width);

// Text that goes to a narrow terminal: from then on WrapText() and RenderTable() keep to `columns`,
// too (but to no fewer than kNarrowestTerminal). For main(), before anything is rendered; 0: none.
inline constexpr size_t kNarrowestTerminal = 40;
void SetTerminalWidth(size_t columns);
size_t WithinTerminal(size_t width);  // the smaller of the two

// Lines that are longer than the terminal, broken at spaces; others as they are, and all of them
// where there is no terminal.
std::string FitLines(std::string_view text);

// Breaks `text` at spaces so that first line starts at column `first` and the others at `indent`,
// all ending before `width`. Words that are too long stand alone. No newline at the end.
std::string WrapText(std::string_view text, size_t first, size_t indent, size_t width);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_FORMAT_TEXT_H_

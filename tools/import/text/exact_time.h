// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Times as trace events write them: microseconds in decimal, as numbers or as quoted text.
#ifndef GPUPROBE_TOOLS_IMPORT_TEXT_EXACT_TIME_H_
#define GPUPROBE_TOOLS_IMPORT_TEXT_EXACT_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuprobe::tools {

// Nanoseconds of a decimal text of microseconds, exactly: a double of 16 digits before the point is
// off by up to 128 ns and invents overlaps. More than three decimals are rounded half to even;
// `rounded`, if given, is set then. Exponents count. Nothing for NaN, Infinity, other text and what
// does not fit 63 bits.
std::optional<int64_t> NanosecondsOf(std::string_view microseconds, bool* rounded = nullptr);

// A whole number in decimal, or 0x hexadecimal; "7.0" counts as 7. Nothing for other text and for
// what does not fit 64 bits.
std::optional<int64_t> IntegerOf(std::string_view text);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_TEXT_EXACT_TIME_H_

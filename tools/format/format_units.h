// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Numbers as people read them, and the durations people type. The one place that knows units;
// tables and sentences call these, JSON and CSV print plain integers and do not.
#ifndef GPUPROBE_TOOLS_FORMAT_FORMAT_UNITS_H_
#define GPUPROBE_TOOLS_FORMAT_FORMAT_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace gpuprobe::tools {

// Three significant digits with the largest unit that keeps a digit before the point: "320 ns",
// "12.3 us", "151 ms", "6.41 s", "1,234 s". Zero is "0". Negative values keep their sign.
std::string FormatDuration(int64_t ns);

// "4,096".
std::string FormatCount(uint64_t count);

// Binary units: "512 B", "1.50 KiB", "12.3 GiB".
std::string FormatBytes(uint64_t bytes);

// Decimal units, as link speeds are quoted: "24.6 GB/s"; "-" where no time passed.
std::string FormatThroughput(uint64_t bytes, int64_t ns);

// "96.0 %", "100 %". A part that is neither nothing nor all never reads as either: "<0.1 %", ">99.9
// %".
// "-" if the whole is not positive.
std::string FormatPercent(double part, double whole);

// "23x", "1.3x".
std::string FormatFactor(double factor);

// So many significant digits, and all before the point: "29.4", "0.0352", "7", "1,234,567",
// "<0.0001". Never an exponent; "-" where it is no number.
std::string FormatSignificant(double value, int digits);

// The same for programs: 12 digits, no separators; empty where it is no number.
std::string PlainNumber(double value);

// "1 kernel", "2 kernels", "4,096 kernels".
std::string FormatPlural(uint64_t count, const char* noun);

// "10us", "1.5s", "200 ms", "3m", "2h", "500ns"; a bare number is nanoseconds only if it is 0.
// InvalidArgument for anything else, for negative values and for what does not fit into int64 ns.
absl::StatusOr<int64_t> ParseDuration(const std::string& text);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_FORMAT_UNITS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_units.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpuprobe::tools {
namespace {

constexpr double kSmallestShown = 1e-4;
constexpr int kDataDigits = 12, kMostDecimals = 18;

struct Unit {
  double size;
  const char* name;
};

std::string WithSeparators(std::string digits) {
  for (ptrdiff_t at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string ThreeDigits(double value) {
  if (value >= 99.95) return WithSeparators(absl::StrFormat("%.0f", value));
  return value >= 9.995 ? absl::StrFormat("%.1f", value) : absl::StrFormat("%.2f", value);
}

// As printf's %g, but never with an exponent, and with all digits before the point.
std::string Decimal(double magnitude, int digits) {
  if (magnitude == 0) return "0";
  const int before_point = static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  std::string text =
      absl::StrFormat("%.*f", std::clamp(digits - before_point, 0, kMostDecimals), magnitude);
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Units in ascending order. A unit is left for the next one as soon as the value would print as
// 1,000 or more, so that rounding never shows "1,000 us".
template <size_t N>
std::string WithUnit(double value, const Unit (&units)[N], double step) {
  size_t at = 0;
  while (at + 1 < N && value / units[at].size >= step - 0.5) ++at;
  const double scaled = value / units[at].size;
  const std::string digits = at == 0 ? absl::StrFormat("%.0f", scaled) : ThreeDigits(scaled);
  return absl::StrCat(digits, " ", units[at].name);
}

}  // namespace

std::string FormatDuration(int64_t ns) {
  static constexpr Unit kUnits[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
  if (ns == 0) return "0";
  const double magnitude = std::fabs(static_cast<double>(ns));
  return absl::StrCat(ns < 0 ? "-" : "", WithUnit(magnitude, kUnits, 1000));
}

std::string FormatCount(uint64_t count) { return WithSeparators(absl::StrCat(count)); }

std::string FormatBytes(uint64_t bytes) {
  static constexpr Unit kUnits[] = {{1, "B"},
                                    {1024.0, "KiB"},
                                    {1048576.0, "MiB"},
                                    {1073741824.0, "GiB"},
                                    {1099511627776.0, "TiB"}};
  return WithUnit(static_cast<double>(bytes), kUnits, 1024);
}

std::string FormatThroughput(uint64_t bytes, int64_t ns) {
  static constexpr Unit kUnits[] = {
      {1, "B/s"}, {1e3, "KB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
  if (ns <= 0) return "-";
  return WithUnit(static_cast<double>(bytes) * 1e9 / static_cast<double>(ns), kUnits, 1000);
}

std::string FormatPercent(double part, double whole) {
  if (!(whole > 0)) return "-";
  if (part == whole) return "100 %";
  const double percent = part / whole * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  if (percent < 100 && percent >= 99.95) return ">99.9 %";
  if (percent >= 1000) return WithSeparators(absl::StrFormat("%.0f", percent)) + " %";
  return absl::StrFormat("%.1f %%", percent);
}

std::string FormatFactor(double factor) {
  if (!std::isfinite(factor)) return "-";
  // A bound must not be rounded up to a claim that the numbers do not carry.
  if (factor >= 10) return WithSeparators(absl::StrFormat("%.0f", std::floor(factor))) + "x";
  // "1.0x" would deny what "1.07x" says.
  if (factor < 1.1) return absl::StrFormat("%.2fx", std::floor(factor * 100 + 1e-9) / 100);
  return absl::StrFormat("%.1fx", std::floor(factor * 10 + 1e-9) / 10);
}

std::string FormatSignificant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const double magnitude = std::fabs(value);
  if (magnitude > 0 && magnitude < kSmallestShown) return value < 0 ? ">-0.0001" : "<0.0001";
  const std::string text = Decimal(magnitude, digits);
  const size_t point = std::min(text.find('.'), text.size());
  return absl::StrCat(value < 0 ? "-" : "", WithSeparators(text.substr(0, point)),
                      text.substr(point));
}

std::string PlainNumber(double value) {
  if (!std::isfinite(value)) return "";
  const std::string text = Decimal(std::fabs(value), kDataDigits);
  return value < 0 && text != "0" ? "-" + text : text;
}

std::string FormatPlural(uint64_t count, const char* noun) {
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

absl::StatusOr<int64_t> ParseDuration(const std::string& text) {
  static constexpr Unit kUnits[] = {{1, "ns"},  {1e3, "us"}, {1e6, "ms"},
                                    {1e9, "s"}, {60e9, "m"}, {3600e9, "h"}};
  std::string number(absl::StripAsciiWhitespace(text));
  std::string unit =
      number.substr(std::min(number.size(), number.find_first_not_of("0123456789.")));
  number.resize(number.size() - unit.size());
  absl::StripAsciiWhitespace(&unit);
  double value = 0;
  if (number.empty() || !absl::SimpleAtod(number, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a duration such as 10us, 200ms or 1.5s"));
  }
  if (unit.empty() && value == 0) return 0;
  for (const Unit& u : kUnits) {
    if (unit != u.name) continue;
    const double ns = std::round(value * u.size);
    // 2^63 is the first double that does not fit.
    if (ns >= 9223372036854775808.0) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is too long"));
    }
    return static_cast<int64_t>(ns);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' needs a unit: ns, us, ms, s, m or h (such as 10us or 1.5s)"));
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

// Differences below this share of A are what two runs of the same program differ by; the headline
// does not call them faster or slower.
constexpr double kNoise = 0.02;

const DiffRow* FindRow(const std::vector<DiffRow>& rows, const std::string& name) {
  for (const DiffRow& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The first of these that both runs have tells how much faster B is.
const DiffRow* SpeedRow(const std::vector<DiffRow>& rows) {
  // The mean: a median hides what stalls every so many steps.
  for (const char* name : {"step_mean", "window", "wall"}) {
    const DiffRow* row = FindRow(rows, name);
    if (row != nullptr && row->a.value_or(0) > 0 && row->b.value_or(0) > 0) return row;
  }
  return nullptr;
}

std::string SpeedText(const DiffRow& row) {
  const std::string what = row.name == "step_mean" ? "a step, on average"
                           : row.name == "window"  ? "first to last GPU operation"
                                                   : "the process";
  const std::string times = absl::StrCat(FormatDuration(static_cast<int64_t>(*row.a)), " to ",
                                         FormatDuration(static_cast<int64_t>(*row.b)));
  if (std::abs(*row.relative()) < kNoise) {
    return absl::StrCat("B takes as long as A (", what, ": ", times, ")");
  }
  // Two digits behind the point and not FormatFactor(), which rounds bounds down.
  if (*row.b < *row.a) {
    return absl::StrFormat("B is %.2f times as fast as A (%s: %s)", *row.a / *row.b, what, times);
  }
  return absl::StrFormat("B takes %.2f times as long as A (%s: %s)", *row.b / *row.a, what, times);
}

std::string PointsText(double share) {
  return absl::StrCat(share < 0 ? "-" : "+",
                      FormatSignificant(std::round(std::abs(share) * 1000) / 10, 6), " points");
}

// The cause whose share changed most in the direction of the whole.
const DiffRow* MainCause(const std::vector<DiffRow>& rows, bool less) {
  const DiffRow* main = nullptr;
  double most = 0;
  for (const DiffRow& row : rows) {
    if (row.name.rfind("idle:", 0) != 0) continue;
    const double change = row.b.value_or(0) - row.a.value_or(0);
    if ((change < 0) != less || std::abs(change) <= most) continue;
    most = std::abs(change);
    main = &row;
  }
  return main;
}

// "idle:input_wait" -> "input wait".
std::string LabelOf(const std::string& figure) {
  for (int c = 0; c < kCauseCount; ++c) {
    const Cause cause = static_cast<Cause>(c);
    if (figure == absl::StrCat("idle:", CauseKey(cause))) return CauseLabel(cause);
  }
  return figure;
}

std::string IdleText(const std::vector<DiffRow>& rows) {
  const DiffRow* idle = FindRow(rows, "idle");
  if (idle == nullptr || !idle->a.has_value() || !idle->b.has_value()) return "";
  const double change = *idle->b - *idle->a;
  std::string text = absl::StrCat("; the GPU was idle ", FormatPercent(*idle->a, 1),
                                  " and is idle ", FormatPercent(*idle->b, 1));
  const DiffRow* cause = MainCause(rows, change < 0);
  if (cause == nullptr || std::abs(change) < kNoise) return text;
  return absl::StrCat(text, "; ", LabelOf(cause->name), change < 0 ? " fell" : " rose", " most (",
                      PointsText(cause->b.value_or(0) - cause->a.value_or(0)), ")");
}

struct Suffix {
  absl::string_view text;
  FigureUnit unit;
  double factor;
};
// Longer ones first: "ms" ends in "s".
constexpr Suffix kSuffixes[] = {
    {"ns", FigureUnit::kTime, 1},         {"us", FigureUnit::kTime, 1e3},
    {"ms", FigureUnit::kTime, 1e6},       {"KiB", FigureUnit::kBytes, 1024},
    {"MiB", FigureUnit::kBytes, 1 << 20}, {"GiB", FigureUnit::kBytes, 1 << 30},
    {"s", FigureUnit::kTime, 1e9},
};

absl::Status Bad(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--fail-if '", text, "': ", why,
                   "; wanted is FIGURE>LIMIT or FIGURE<LIMIT, as in 'idle>+5%', 'step>40ms'"));
}

// The limit behind the operator into `out`.
absl::Status ParseLimit(absl::string_view limit, FailCondition* out) {
  const bool is_signed = !limit.empty() && (limit[0] == '+' || limit[0] == '-');
  double factor = 1;
  out->against = is_signed ? FailCondition::Against::kDifference : FailCondition::Against::kValue;
  if (absl::ConsumeSuffix(&limit, "pp")) {
    if (!is_signed) return Bad(out->text, "points (pp) are a difference and need a sign");
    out->unit = FigureUnit::kShare;
    factor = 0.01;
  } else if (absl::ConsumeSuffix(&limit, "%")) {
    factor = 0.01;
    if (is_signed) {
      out->against = FailCondition::Against::kRelative;
    } else {
      out->unit = FigureUnit::kShare;
    }
  } else {
    for (const Suffix& suffix : kSuffixes) {
      if (!absl::ConsumeSuffix(&limit, suffix.text)) continue;
      out->unit = suffix.unit;
      factor = suffix.factor;
      break;
    }
  }
  limit = absl::StripAsciiWhitespace(limit);
  if (!limit.empty() && limit[0] == '+') limit.remove_prefix(1);  // SimpleAtod takes it, twice too
  double number = 0;
  if (limit.empty() || limit[0] == '+' || !absl::SimpleAtod(limit, &number) ||
      !std::isfinite(number)) {
    return Bad(out->text, "no number behind the comparison");
  }
  out->limit = number * factor;
  return absl::OkStatus();
}

const char* UnitText(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::kTime:
      return "a time";
    case FigureUnit::kShare:
      return "a share";
    case FigureUnit::kCount:
      return "a count";
    case FigureUnit::kBytes:
      return "bytes";
    case FigureUnit::kPerSecond:
      return "a rate";
  }
  return "";
}

// "idle:CAUSE" or "step_idle:CAUSE", with a cause that there is.
bool IsCauseFigure(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == name.npos) return false;
  const std::string whole = name.substr(0, colon), cause = name.substr(colon + 1);
  if (whole != "idle" && whole != "step_idle") return false;
  for (int c = 0; c < kCauseCount; ++c) {
    if (cause == CauseKey(static_cast<Cause>(c))) return true;
  }
  return false;
}

// A number without a unit fits counts, bytes and rates; a time or a share without its unit is a
// mistake.
bool UnitFits(const FailCondition& condition, const DiffRow& row) {
  if (condition.against == FailCondition::Against::kRelative) return true;
  if (condition.unit.has_value()) return *condition.unit == row.unit;
  return row.unit != FigureUnit::kTime && row.unit != FigureUnit::kShare;
}

}  // namespace

std::optional<double> DiffRow::relative() const {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  if (*a == 0) return *b == 0 ? std::optional<double>(0) : std::nullopt;
  return (*b - *a) / *a;
}

std::optional<bool> DiffRow::improved() const {
  if (better == Better::kNeither || !a.has_value() || !b.has_value() || *a == *b) {
    return std::nullopt;
  }
  return (*b < *a) == (better == Better::kLower);
}

std::vector<DiffRow> CompareRuns(const std::vector<Figure>& a, const std::vector<Figure>& b) {
  std::vector<DiffRow> rows;
  size_t next_b = 0;
  const auto add_b_alone_until = [&](size_t end) {
    for (; next_b < end; ++next_b) {
      const Figure& figure = b[next_b];
      if (FindFigure(a, figure.name) != nullptr) continue;
      rows.push_back({figure.name, figure.unit, figure.better, std::nullopt, figure.value});
    }
  };
  for (const Figure& figure : a) {
    const Figure* other = FindFigure(b, figure.name);
    if (other != nullptr) {
      add_b_alone_until(std::max(next_b, static_cast<size_t>(other - b.data())));
      next_b = std::max(next_b, static_cast<size_t>(other - b.data()) + 1);
    }
    rows.push_back({figure.name, figure.unit, figure.better, figure.value,
                    other == nullptr ? std::nullopt : std::optional<double>(other->value)});
  }
  add_b_alone_until(b.size());
  return rows;
}

std::string DiffHeadline(const std::vector<DiffRow>& rows) {
  const DiffRow* speed = SpeedRow(rows);
  if (speed == nullptr) return "The two runs have no duration in common: nothing can be compared.";
  return absl::StrCat(SpeedText(*speed), IdleText(rows), ".");
}

absl::StatusOr<FailCondition> ParseFailCondition(const std::string& text) {
  FailCondition condition = {};
  condition.text = text;
  const size_t at = text.find_first_of("<>");
  if (at == text.npos) return Bad(text, "no < or >");
  condition.figure = std::string(absl::StripAsciiWhitespace(absl::string_view(text).substr(0, at)));
  if (condition.figure.empty()) return Bad(text, "no figure before the comparison");
  condition.above = text[at] == '>';
  size_t limit = at + 1;
  condition.or_equal = limit < text.size() && text[limit] == '=';
  if (condition.or_equal) ++limit;
  const absl::string_view rest = absl::StripAsciiWhitespace(absl::string_view(text).substr(limit));
  if (absl::Status status = ParseLimit(rest, &condition); !status.ok()) return status;
  return condition;
}

absl::StatusOr<bool> Holds(const FailCondition& condition, const std::vector<DiffRow>& rows) {
  const DiffRow* row = FindRow(rows, condition.figure);
  const bool cause = IsCauseFigure(condition.figure);
  // A cause that neither run has is no typing error: it took no time.
  if (row == nullptr && cause) {
    const std::string whole = condition.figure.substr(0, condition.figure.find(':'));
    if (const DiffRow* idle = FindRow(rows, whole); idle != nullptr) {
      return Holds(condition, {{condition.figure, idle->unit, Better::kLower, 0, 0}});
    }
  }
  if (row == nullptr) {
    std::vector<std::string> known;
    for (const DiffRow& other : rows) known.push_back(other.name);
    return absl::InvalidArgumentError(absl::StrCat("--fail-if '", condition.text, "': no figure '",
                                                   condition.figure, "' in these runs; they have ",
                                                   absl::StrJoin(known, ", ")));
  }
  if (!UnitFits(condition, *row)) {
    return absl::InvalidArgumentError(absl::StrCat("--fail-if '", condition.text, "': ", row->name,
                                                   " is ", UnitText(row->unit),
                                                   ", the limit is not"));
  }
  // What one run lacks of the causes is 0 there; of anything else it is not known.
  const bool both = row->a.has_value() && row->b.has_value();
  const bool needs_a = condition.against != FailCondition::Against::kValue;
  if (!cause && (needs_a ? !both : !row->b.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat("--fail-if '", condition.text,
                                                   "': one of the runs does not tell ", row->name));
  }
  const double a = row->a.value_or(0), b = row->b.value_or(0);
  double limit = condition.limit;
  if (condition.against == FailCondition::Against::kDifference) limit += a;
  if (condition.against == FailCondition::Against::kRelative) limit = a * (1 + condition.limit);
  if (condition.above) return condition.or_equal ? b >= limit : b > limit;
  return condition.or_equal ? b <= limit : b < limit;
}

}  // namespace gpuprobe::tools

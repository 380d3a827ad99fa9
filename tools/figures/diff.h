// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Two runs side by side, and conditions on the difference for CI. Pure.
#ifndef GPUPROBE_TOOLS_FIGURES_DIFF_H_
#define GPUPROBE_TOOLS_FIGURES_DIFF_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/figures/run_figures.h"

namespace gpuprobe::tools {

struct DiffRow {
  std::string name;
  FigureUnit unit;
  Better better;
  std::optional<double> a, b;  // at least one
  // (b - a) / a; nullopt: one is missing, or a is 0 and b is not.
  std::optional<double> relative() const;
  // True if it became better, false if worse; nullopt: neither, or not to be told.
  std::optional<bool> improved() const;
};

// All figures that at least one run has, in the order of A, those that B alone has at their place
// in B.
std::vector<DiffRow> CompareRuns(const std::vector<Figure>& a, const std::vector<Figure>& b);

// The difference in one sentence: faster or slower, and what idle time did most of it.
std::string DiffHeadline(const std::vector<DiffRow>& rows);

// A condition on the way from A to B:
//
//   FIGURE > +5%      B is more than 5 % above A (relative)
//   FIGURE < -5%      B is more than 5 % below A
//   FIGURE > +3pp     shares only: B's share is more than 3 points above A's
//   FIGURE > 20%      shares only: B's share itself, whatever A was
//   FIGURE > 40ms     times only: B's value itself; ns, us, ms, s
//   FIGURE > 1000     counts, bytes and rates: B's value itself
//   FIGURE > +2ms     B's value is more than 2 ms above A's (any unit)
//
// Blanks may stand anywhere between the parts; >= and <= are known too.
struct FailCondition {
  enum class Against : uint8_t { kRelative, kDifference, kValue };
  std::string text;  // as the user gave it
  std::string figure;
  bool above;  // > or >=
  bool or_equal;
  Against against;
  double limit;                    // ratio, or in the figure's unit (shares: 0 to 1; times: ns)
  std::optional<FigureUnit> unit;  // that the limit is in; nullopt: fits any
};
absl::StatusOr<FailCondition> ParseFailCondition(const std::string& text);

// Does it hold? An error if the figure is not in the runs, or the unit does not fit: a condition
// that cannot be checked must not pass in silence.
absl::StatusOr<bool> Holds(const FailCondition& condition, const std::vector<DiffRow>& rows);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_DIFF_H_

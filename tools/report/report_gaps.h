// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The list of gaps that `gaps` shows, and how one of it is named.
#ifndef GPUPROBE_TOOLS_REPORT_REPORT_GAPS_H_
#define GPUPROBE_TOOLS_REPORT_REPORT_GAPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/analysis/analysis.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

struct ListedGap {
  const DeviceReport* device;
  const Gap* gap;
  int64_t duration() const { return gap->length_ns(); }
};

// Of at least ReportInput::options.min_gap_ns, longest first.
std::vector<ListedGap> ListGaps(const ReportInput& input);

// The gap that ReportInput::explain asks for; NotFound, with a message for the user, if there is
// none: rank too high, device busy at that time, no kernel records.
absl::StatusOr<ListedGap> FindGap(const ReportInput& input);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_REPORT_GAPS_H_

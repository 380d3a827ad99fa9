// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// `probe-report diff A B`: two runs, what changed between them.
#ifndef GPUPROBE_TOOLS_REPORT_REPORT_DIFF_H_
#define GPUPROBE_TOOLS_REPORT_REPORT_DIFF_H_

#include <string>
#include <vector>

#include "tools/figures/diff.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

struct DiffInput {
  const ReportInput& a;
  const ReportInput& b;
  std::vector<DiffRow> rows;
  // The conditions that the user gave, and whether each holds.
  struct Checked {
    FailCondition condition;
    bool holds;
  };
  std::vector<Checked> conditions;
};

std::string DiffText(const DiffInput& input);
std::string DiffJson(const DiffInput& input);  // "gpuprobe.diff/1"
std::string DiffCsv(const DiffInput& input);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_REPORT_DIFF_H_

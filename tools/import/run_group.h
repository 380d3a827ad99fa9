// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Do the imported files belong to one run? A report over files that do not would add up figures of
// different jobs.
#ifndef GPUPROBE_TOOLS_IMPORT_RUN_GROUP_H_
#define GPUPROBE_TOOLS_IMPORT_RUN_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpuprobe::tools {

struct RunMember {
  std::string path;
  int32_t rank = -1;       // -1: not told
  int32_t world_size = 0;  // 0: not told
  std::string backend;     // of torch.distributed; may be empty
  // First and last record, on the wall clock as far as the file tells; begin > end: no record.
  int64_t begin_ns = 0, end_ns = -1;
};

// One sentence on why they do not belong together: the same rank twice, different numbers of ranks,
// a rank beyond that number; of files without a rank: times that do not overlap.
absl::Status CheckOneRun(const std::vector<RunMember>& members);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_RUN_GROUP_H_

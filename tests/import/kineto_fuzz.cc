// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Any bytes as a file of trace events, all the way into the analyses: no crash, no overflow, sums
// that add up, and no byte counted as lost twice.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tools/analysis/analysis.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void Load(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("trace", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Check(ftruncate(fd, 0) == 0);
  Check(pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  InputFiles files;
  files.paths = {path};
  const auto run = LoadRun(files);
  if (!run.ok()) return;
  const Timeline& timeline = run->timeline;
  for (const GpuOp& op : timeline.ops) {
    Check(op.start_ns <= op.end_ns && op.device >= 0);
    Check(op.submission < static_cast<int32_t>(timeline.calls.size()));
  }
  for (const HostCall& call : timeline.calls) {
    Check(call.site < static_cast<int32_t>(timeline.stacks.size()));
  }
  for (size_t n = 0; n < timeline.stacks.size(); ++n) {
    Check(timeline.stacks[n].parent < static_cast<int32_t>(n));
  }
  const Analysis analysis = Analyse(timeline, Options());
  Check(analysis.internal_error.empty());
}

}  // namespace
}  // namespace gpuprobe::tools

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gpuprobe::tools::Load(data, size);
  return 0;
}

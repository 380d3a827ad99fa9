// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the verdict reads from the records themselves (RunEvidence), gathered as they go by: for the
// run and for its steady part. How long collectives waited for a rank is told from the counts of
// their durations, which are exact up to 1,024 different ones of a kernel and within one part in
// 128 beyond.
#ifndef GPUPROBE_TOOLS_WINDOWED_SUMS_VERDICT_COUNTS_H_
#define GPUPROBE_TOOLS_WINDOWED_SUMS_VERDICT_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict.h"
#include "tools/figures/activity_counter.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class VerdictCounts {
 public:
  VerdictCounts(size_t devices, const Options& options, std::vector<bool> communication_names)
      : options_(options),
        communication_names_(std::move(communication_names)),
        devices_(devices) {}

  // `steady`: as far as it is known, and it is if it begins or ends before the operation does.
  void Add(const Timeline& timeline, const GpuOp& op, const Window& steady);
  // Idle while kernels were loaded.
  void AddLoading(int32_t device, int64_t begin_ns, int64_t end_ns) {
    devices_[static_cast<size_t>(device)].loading.push_back({begin_ns, end_ns});
  }
  // Of the run; with `steady`, of that part, whose analysis `analysis` is then.
  RunEvidence Take(const Timeline& timeline, const Analysis& analysis, const Window* steady) const;

 private:
  // Of an operation: where it lies, and for one across a border what of it is in the steady part.
  enum Part : uint8_t { kBefore, kSteady, kAfter, kAcross, kSteadyOfAcross, kParts };
  struct Kernels {
    int64_t ns = 0;
    uint64_t count = 0;
  };
  struct OfPart {
    std::vector<Kernels> kernels;                                        // by shape
    std::map<std::pair<int32_t, int32_t>, DurationCounter> collectives;  // by name and shape
    int64_t copies_ns = 0, pageable_ns = 0;
  };
  struct OfDevice {
    std::array<OfPart, kParts> parts;
    std::vector<Window> loading;
  };

  static std::vector<Part> PartsOf(const Window* steady);
  void AddTo(const Timeline& timeline, const GpuOp& op, int64_t ns, OfPart* part);
  // Of few blocks, by blocks.
  std::map<uint64_t, Kernels> SmallKernels(const Timeline& timeline, size_t device,
                                           const std::vector<Part>& parts) const;
  Emptiness MeasureSmallKernels(const Timeline& timeline, const Analysis& analysis,
                                const std::vector<Part>& parts) const;
  int64_t WaitedForRanks(const DeviceReport& report, const std::vector<Part>& parts) const;

  const Options options_;
  const std::vector<bool> communication_names_;
  std::vector<OfDevice> devices_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SUMS_VERDICT_COUNTS_H_

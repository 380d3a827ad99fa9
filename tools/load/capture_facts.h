// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The packets that describe the capture -> facts for `info`.
#ifndef GPUPROBE_TOOLS_LOAD_CAPTURE_FACTS_H_
#define GPUPROBE_TOOLS_LOAD_CAPTURE_FACTS_H_

#include "proto/gpuprobe.pb.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// Also sets Process::has_... from the kinds that CUPTI accepted. Later packets replace earlier
// ones.
void ReadCaptureInfo(const CaptureInfo& info, Process* process, ProcessCapture* capture);
void ReadCost(const Cost& cost, CostFacts* facts);
void ReadUsage(const ProcessUsage& usage, Process* process, UsageFacts* facts);

// Clock pairs of one file, in file order.
class ClockReader {
 public:
  void Add(const ClockPair& pair);
  const ClockFacts& facts() const { return facts_; }

 private:
  ClockFacts facts_;
  int64_t first_realtime_ns_ = 0, last_realtime_ns_ = 0;  // realtime - trace
  int64_t first_cupti_ns_ = 0;                            // cupti - realtime
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_CAPTURE_FACTS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Words for Loss.cause (numbers: LossCause in ringbuf/records.h, which this side may not include; a
// trace from a newer writer can hold others).
#ifndef GPUPROBE_TOOLS_LOAD_LOSS_CAUSES_H_
#define GPUPROBE_TOOLS_LOAD_LOSS_CAUSES_H_

#include <cstdint>

namespace gpuprobe::tools {

inline constexpr uint32_t kLossCuptiDropped = 1;
inline constexpr uint32_t kLossPoolExhausted = 2;
inline constexpr uint32_t kLossQueueFull = 3;
inline constexpr uint32_t kLossWriterFull = 6;
// No number of the file's: what End.buffers_outstanding says.
inline constexpr uint32_t kLossNotReturned = 1000;

struct LossWords {
  const char* key;         // "cupti_dropped": JSON
  const char* text;        // "dropped by CUPTI"
  const char* unit;        // what Loss.count counts: "records", "bytes", "requests"
  bool hides;              // records that belong into the trace are missing from it
  bool has_errno = false;  // what Loss.detail is
};
const LossWords& WordsForLoss(uint32_t cause);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_LOSS_CAUSES_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/loss_causes.h"

#include <cstddef>
#include <iterator>

namespace gpuprobe::tools {

const LossWords& WordsForLoss(uint32_t cause) {
  static constexpr LossWords kWords[] = {
      {"none", "no cause", "records", false},
      {"cupti_dropped", "dropped by CUPTI", "records", true},
      {"pool_exhausted", "no free buffer for CUPTI (memory cap)", "requests", true},
      {"queue_full", "a thread's ring was full", "records", true},
      {"undecodable", "activity data of unknown layout", "bytes", true},
      {"unknown_kind", "records of a kind that is not stored", "records", false},
      {"writer_full", "more than the writer holds in one flush period", "records", true},
      {"write_failed", "the trace could not be written", "records", true, true},
      {"size_cap", "the trace reached its size limit", "records", true, true},
      {"name_table_full", "kernel names replaced (name table full)", "records", false},
      {"discarded", "activity data discarded for want of a buffer", "bytes", true},
      {"foreign_buffer", "buffers that another CUPTI client took over", "buffers", true},
      {"untimed", "calls or waits without usable times", "records", false},
  };
  static constexpr LossWords kNotReturned = {"not_returned", "never given back by CUPTI", "buffers",
                                             true};
  static constexpr LossWords kUnknown = {"other", "a cause that this version does not know",
                                         "records", true};
  if (cause == kLossNotReturned) return kNotReturned;
  return cause < std::size(kWords) ? kWords[cause] : kUnknown;
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The order in which work was handed to streams. Correlation ids ascend in a process in the order
// of its calls, so they tell what came before what on a stream even where times are missing.
#ifndef GPUPROBE_TOOLS_STREAM_ORDER_H_
#define GPUPROBE_TOOLS_STREAM_ORDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/host_view.h"
#include "tools/timeline.h"

namespace gpuprobe::tools {

// Timed operations by (stream, correlation), for the streams that somebody asks about: those on
// which events were recorded or whose operations lack times. 32 bytes an operation of these
// streams.
class StreamOrder {
 public:
  explicit StreamOrder(const Timeline& timeline);

  // When all work handed to `stream` before `correlation` had ended; nothing: there was none.
  std::optional<int64_t> EndOfWorkBefore(int32_t stream, uint32_t correlation) const;
  // When the next work handed to `stream` after `correlation` started; nothing: there was none.
  std::optional<int64_t> StartOfWorkAfter(int32_t stream, uint32_t correlation) const;

 private:
  struct Entry {
    int32_t stream;
    uint32_t correlation;
    int64_t start_ns;
    int64_t end_so_far_ns;  // latest end on this stream up to here
  };
  std::vector<Entry> entries_;
};

// What an operation that was queued had to wait for, by the calls that ordered it behind something.
class StreamWaits {
 public:
  struct Wait {
    int32_t call = -1;    // the call that made the stream wait
    int32_t stream = -1;  // stream waited for; -1: not known, or a host function
    bool host_function = false;
  };

  StreamWaits(const Timeline& timeline, const HostView& host, const StreamOrder& order);

  // `op` has a known submission; `previous`: operation before it on its stream, or -1. A wait whose
  // event was already complete when the submission began is none.
  std::optional<Wait> Find(const GpuOp& op, int32_t previous) const;

 private:
  const CudaEvent* LastRecord(int32_t process, uint32_t event, uint32_t before_correlation) const;
  std::optional<Wait> FromRecords(const GpuOp& op, int32_t previous) const;
  std::optional<Wait> FromCalls(const GpuOp& op) const;

  const Timeline& timeline_;
  const HostView& host_;
  const StreamOrder& order_;
  std::vector<int32_t> waits_;    // stream-waits in Timeline::syncs, by (stream, correlation)
  std::vector<int32_t> records_;  // in Timeline::events, by (process, event, correlation)
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STREAM_ORDER_H_

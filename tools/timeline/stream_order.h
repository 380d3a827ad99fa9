// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The order in which work was handed to streams. Correlation ids ascend in a process in the order
// of its calls, so they tell what came before what on a stream even where times are missing.
#ifndef GPUPROBE_TOOLS_TIMELINE_STREAM_ORDER_H_
#define GPUPROBE_TOOLS_TIMELINE_STREAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/timeline/host_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Timed operations of some streams, by (stream, correlation). 16 bytes each.
class StreamOrder {
 public:
  // `wanted`: by stream, those that somebody will ask about.
  StreamOrder(const Timeline& timeline, const std::vector<bool>& wanted);

  // When all work handed to `stream` before `correlation` had ended; nothing: there was none.
  // `near`: as in IntervalSet::Overlap(), one for each stream.
  std::optional<int64_t> EndOfWorkBefore(int32_t stream, uint32_t correlation, size_t* near) const;
  // When the next work handed to `stream` after `correlation` started; nothing: there was none.
  std::optional<int64_t> StartOfWorkAfter(int32_t stream, uint32_t correlation, size_t* near) const;

 private:
  struct Entry {
    int64_t end_so_far_ns;  // latest end on this stream up to here
    uint32_t correlation;
    int32_t op;
  };
  std::span<const Entry> Of(int32_t stream) const {
    if (first_.empty()) return {};
    return std::span(entries_).subspan(first_[stream], first_[stream + 1] - first_[stream]);
  }
  const Timeline& timeline_;
  std::vector<size_t> first_;  // by stream; empty: none is wanted
  std::vector<Entry> entries_;
};

// Those of operations without times.
std::vector<bool> StreamsOfUntimed(const Timeline& timeline);

// What an operation that was queued had to wait for, by the calls that ordered it behind something.
// 24 bytes for each recorded stream-wait.
class StreamWaits {
 public:
  struct Wait {
    int32_t call = -1;    // the call that made the stream wait
    int32_t stream = -1;  // stream waited for; -1: not known, or a host function
    bool host_function = false;
  };
  // Where its owner asked last; operations that come in order of time are found without a search.
  struct Cursor {
    explicit Cursor(const Timeline& timeline)
        : waits(timeline.streams.size(), 0),
          ordering(timeline.threads.size(), 0),
          lane(timeline.threads.size(), 0) {}
    std::vector<size_t> waits;           // by stream
    std::vector<size_t> ordering, lane;  // by thread
  };

  StreamWaits(const Timeline& timeline, const HostView& host);

  // Neither stream-waits nor calls that order: Find() finds nothing.
  bool HasNone() const { return nothing_; }
  // `op` has a known submission; `previous`: operation before it on its stream, or -1. A wait whose
  // event was already complete when the submission began is none.
  std::optional<Wait> Find(const GpuOp& op, int32_t previous, Cursor* cursor) const {
    if (nothing_) return std::nullopt;
    if (const auto wait = FromRecords(op, previous, cursor)) return wait;
    return FromCalls(op, cursor);
  }

 private:
  struct Entry {
    int64_t end_ns;  // of the work that the event stood for; kNoWork
    uint32_t correlation;
    int32_t call;
    int32_t stream;  // waited for; -1: not known
  };
  void BuildEntries();
  std::optional<Wait> FromRecords(const GpuOp& op, int32_t previous, Cursor* cursor) const;
  std::optional<Wait> FromCalls(const GpuOp& op, Cursor* cursor) const;

  const Timeline& timeline_;
  const HostView& host_;
  bool nothing_ = false;        // neither stream-waits nor calls that order
  std::vector<size_t> first_;   // by stream, in entries_; empty: there are none
  std::vector<Entry> entries_;  // by (stream, correlation)
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_STREAM_ORDER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where steps begin in a stream of operations, once it is known what tells them.
#ifndef GPUPROBE_TOOLS_WINDOWED_STEP_MATCHER_H_
#define GPUPROBE_TOOLS_WINDOWED_STEP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/steps/step_sequence.h"
#include "tools/windowed/step_cutter.h"
#include "tools/windowed/step_list.h"

namespace gpuprobe::tools {

struct QueuedItem {
  int64_t submitted_ns;  // of what has no call: its start
  int64_t start_ns, end_ns;
  StepWork work;
  uint32_t correlation, graph_id;
  bool has_call;
};

// By what repeats. Items come in order of submission, synchronisations before any item that was
// submitted after them.
class StepMatcher {
 public:
  StepMatcher(StepRule rule, int64_t run_begin_ns)
      : rule_(std::move(rule)), run_begin_ns_(run_begin_ns) {}

  void Add(const QueuedItem& item, std::vector<StepSync>* syncs, StepCutter* cutter,
           StepList* steps);
  // After the last item.
  void Finish(int64_t run_end_ns, std::vector<StepSync>* syncs, StepCutter* cutter,
              StepList* steps);
  uint64_t begins() const { return begins_; }
  uint64_t since_begin() const { return position_ - last_begin_; }  // tokens
  // No step begins before it, if `next_ns` is when the next item starts at the earliest.
  int64_t NotBefore(int64_t next_ns) const;

 private:
  void Flush(std::vector<StepSync>* syncs, StepCutter* cutter, StepList* steps);
  // The item that is open, or a synchronisation before it (its symbol, else -1).
  void Token(int32_t sync, StepCutter* cutter, StepList* steps);
  bool Fits(int32_t sync, const TokenMeaning& meaning) const;

  StepRule rule_;
  int64_t run_begin_ns_;
  std::optional<QueuedItem> open_;  // may be one of several of a launch
  bool joined_ = false;
  int64_t latest_ns_ = std::numeric_limits<int64_t>::min();  // of submissions
  bool first_ = true;                                        // no item has come
  size_t next_sync_ = 0;
  bool previous_fits_ = false;
  uint64_t position_ = 0, begins_ = 0, last_begin_ = 0;  // of tokens
  int64_t last_end_ns_ = 0;                              // of the tokens since the last begin
  int64_t end_ns_ = 0;  // where a step of the usual length ends; 0: not there yet
};

// By the ranges of a set of markers.
class MarkerMatcher {
 public:
  MarkerMatcher(std::vector<Window> ranges, bool on_device, int64_t run_begin_ns)
      : ranges_(std::move(ranges)), on_device_(on_device), run_begin_ns_(run_begin_ns) {}

  bool on_device() const { return on_device_; }
  // In order of submission; on the device: of start.
  void Add(const QueuedItem& item, StepCutter* cutter, StepList* steps);
  void Finish(int64_t run_end_ns, StepCutter* cutter, StepList* steps);
  int64_t NotBefore(int64_t next_ns) const;
  int64_t in_ns() const { return in_ns_; }

 private:
  std::vector<Window> ranges_;
  bool on_device_;
  int64_t run_begin_ns_;
  size_t next_ = 0;            // first range that has not ended
  size_t current_ = SIZE_MAX;  // that the last step is of
  size_t refused_ = SIZE_MAX;
  int64_t last_begin_ns_ = std::numeric_limits<int64_t>::min(), last_end_ns_ = 0;
  int64_t in_ns_ = 0;  // time of the operations that are in ranges
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_STEP_MATCHER_H_

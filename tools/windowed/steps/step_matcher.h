// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where steps begin in a stream of operations, once it is known what tells them.
#ifndef GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_MATCHER_H_
#define GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/steps/step_sequence.h"
#include "tools/windowed/steps/step_cutter.h"
#include "tools/windowed/steps/step_list.h"

namespace gpuprobe::tools {

// 32 bytes: there are as many as operations, and each is written, put in order and read. What it
// does is compared with what tells a step before it is queued.
struct QueuedItem {
  int64_t submitted_ns;  // of what has no call: its start
  int64_t start_ns, end_ns;
  uint32_t correlation;
  bool has_call;
  bool graph;    // is one, of one record
  uint8_t fits;  // StepMatch
};

// Which tokens of a rule an operation may be, alone or as the first of several of one submission:
// which of these it is, is known when the next one has come.
class StepMatch {
 public:
  static constexpr uint8_t kAt = 1, kAtJoined = 2, kPrevious = 4, kPreviousJoined = 8;

  explicit StepMatch(const StepRule& rule) : with_shapes_(rule.with_shapes) {
    if (rule.at) at_ = rule.at;
    if (rule.previous) previous_ = rule.previous;
  }
  uint8_t Of(const StepWork& work, uint32_t graph_id) const {
    return static_cast<uint8_t>(Of(at_, work, graph_id) | Of(previous_, work, graph_id) << 2);
  }

 private:
  uint8_t Of(const std::optional<TokenMeaning>& meaning, const StepWork& work,
             uint32_t graph_id) const {
    if (!meaning || meaning->sync >= 0) return 0;
    // Nearly all that is nothing of the kind is seen by this alone.
    const bool of_launch = IsOfLaunch(meaning->work);
    if (!of_launch && (work.name != meaning->work.name || work.kind != meaning->work.kind))
      return 0;
    const auto fits = [&](bool joined) {
      return MeaningOfWork(work, graph_id, joined, with_shapes_) == *meaning;
    };
    return static_cast<uint8_t>((fits(false) ? kAt : 0) |
                                (of_launch && fits(true) ? kAtJoined : 0));
  }

  std::optional<TokenMeaning> at_, previous_;
  bool with_shapes_;
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
  bool Fits(int32_t sync, const TokenMeaning& meaning, uint8_t alone, uint8_t joined) const {
    if (sync >= 0 || meaning.sync >= 0) return sync == meaning.sync;
    return (open_.fits & (joined_ ? joined : alone)) != 0;
  }

  StepRule rule_;
  int64_t run_begin_ns_;
  QueuedItem open_ = {};  // may be one of several of a launch
  bool has_open_ = false, joined_ = false;
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

#endif  // GPUPROBE_TOOLS_WINDOWED_STEPS_STEP_MATCHER_H_

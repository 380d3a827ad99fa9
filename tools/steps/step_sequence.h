// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The operations of a device as a sequence of tokens, and the steps in it: which tokens stand for
// the same thing, what is one submission, where synchronisations stand. Knows nothing of times but
// their order, and of records only what a step is told by, so that a run at once and one in windows
// have it in common.
#ifndef GPUPROBE_TOOLS_STEPS_STEP_SEQUENCE_H_
#define GPUPROBE_TOOLS_STEPS_STEP_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/steps/step_pattern.h"
#include "tools/timeline/flat_map.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// What is the same again: kernels of a name and shape, copies of a direction and size, ...
struct StepWork {
  OpKind kind = OpKind::kKernel;
  int32_t name = 0;  // of kernels; of copies: CUpti_ActivityMemcpyKind
  int64_t size = 0;  // shape, bytes or graph
  bool operator==(const StepWork&) const = default;
  uint64_t Hash() const {
    const uint64_t what =
        static_cast<uint64_t>(static_cast<uint32_t>(name)) << 8 | static_cast<uint64_t>(kind);
    return MixBits(MixBits(0, what), static_cast<uint64_t>(size));
  }
};
StepWork StepWorkOf(const Timeline& timeline, const GpuOp& op);
bool IsHostCopy(const Timeline& timeline, const GpuOp& op);  // from or to the host

// An operation, or several that one call submitted.
struct StepItem {
  int64_t submitted_ns;  // of what has no call: its start
  int64_t pause_ns;      // idle time before it
  int64_t took_ns;
  int32_t op;  // the first one, as numbered by whoever made it
  uint32_t correlation;
  uint32_t graph_id;
  uint32_t kind : 31;  // StepItems
  uint32_t has_call : 1;
};
struct StepSync {  // a call that synchronises
  int64_t start_ns;
  int32_t symbol;
};

// What a token stands for, whatever its number.
struct TokenMeaning {
  int32_t sync = -1;     // symbol; -1: work
  StepWork work, first;  // first: of a launch that is no graph, its first operation
  bool operator==(const TokenMeaning&) const = default;
};

// How the steps of a sequence are told from the rest of it.
struct StepRule {
  bool with_shapes = true;
  bool each_launch = false;                  // each graph or launch is one
  std::optional<TokenMeaning> previous, at;  // else: a step begins with `at`, after `previous`
  size_t typical_tokens = 0;
};

struct StepSequence {
  std::vector<StepToken> tokens;
  std::vector<uint32_t> items;   // of each token: the item itself, or the next after a sync
  std::vector<int64_t> took_ns;  // of each token: its operations' times added up
  std::vector<int32_t> syncs;    // of each token: symbol; -1: work
};

struct FoundSteps {
  StepSequence sequence;
  StepPattern pattern;  // no begins: nothing repeats
  StepRule rule;
};

// Fill `items` in order of start, then Arrange(), then Find().
class StepItems {
 public:
  // The number of what the operation does.
  uint32_t KindOf(const Timeline& timeline, const GpuOp& op);
  const GpuOp& ExampleOf(uint32_t kind) const { return kinds_[kind].example; }
  const StepWork& WorkOf(uint32_t kind) const { return kinds_[kind].work; }

  std::vector<StepItem> items;

  // Puts them in order of submission, unless they are of one stream, and joins launches: what
  // repeats inside of one submission are the layers of a graph, no steps.
  void Arrange(bool one_stream);
  // `syncs`: by start; those before the first item are no part of the sequence.
  FoundSteps Find(const std::vector<StepSync>& syncs) const;

 private:
  struct Kind {
    StepWork work;
    bool host_copy;
    bool alone;
    int32_t launch_of = -1;  // of several operations that are no graph: the kind of the first
    GpuOp example = {};
  };
  static constexpr uint32_t kNoId = UINT32_MAX;

  void MeasureSubmissions();
  void JoinLaunches();
  uint32_t KindOfLaunch(const StepItem& first);
  // Tokens are numbered in order of first use.
  StepSequence Make(const std::vector<StepSync>& syncs, bool with_shapes) const;
  StepPattern EachGraph(const StepSequence& sequence) const;
  TokenMeaning MeaningOf(const StepSequence& sequence, size_t token, bool with_shapes) const;
  void SetRule(FoundSteps* found) const;

  std::vector<Kind> kinds_;
  FlatMap<StepWork, uint32_t> kind_of_, launch_kind_of_;
};

// The meaning of one operation, or of several of one submission (`joined`) of which it is the
// first.
TokenMeaning MeaningOfWork(const StepWork& work, uint32_t graph_id, bool joined, bool with_shapes);
// Of several operations of one submission?
bool IsOfLaunch(const StepWork& work);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_STEPS_STEP_SEQUENCE_H_

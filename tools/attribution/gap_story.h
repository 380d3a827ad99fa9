// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One gap walked from end to end: what ran before and after, who was where meanwhile, what was
// submitted when. For one gap a user asks about: it reads the whole timeline.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_GAP_STORY_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_GAP_STORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

struct GapStory {
  // An operation with the call that handed it over.
  struct Work {
    int32_t op = -1;        // in Timeline::ops; -1: there was none
    int32_t call = -1;      // in Timeline::calls; -1: not recorded
    int64_t queued_ns = 0;  // from the end of that call to its start; 0: it started before
    std::string where;      // line of the call; empty: not known
  };
  struct Part {
    const GapPart* part;
    std::string detail;  // what stands beside the place
  };
  // A call, or samples in a row that are alike; in order of time.
  struct Event {
    int64_t begin_ns, end_ns;  // samples: times of the first and the last
    int32_t call = -1;         // in Timeline::calls; -1: samples
    uint64_t samples = 0;
    std::string where, detail;
  };
  struct ThreadStory {
    int32_t thread;
    std::string name;
    bool submits;  // the operation that ended the gap
    std::vector<Event> events;
  };

  Work before, after;
  std::vector<Part> parts;
  std::vector<ThreadStory> threads;  // the one that submits first, then by number
  std::vector<Meanwhile> helpers;    // of the process that submits
  std::vector<Work> submitted;       // by calls that began in the gap, in their order
};

// `gap` is one of `report`, `report` one of `analysis`, which is of `timeline`.
GapStory TellGap(const Timeline& timeline, const Analysis& analysis, const DeviceReport& report,
                 const Gap& gap);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_GAP_STORY_H_

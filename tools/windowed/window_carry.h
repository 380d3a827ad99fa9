// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which records of a window the next one needs: the table is in windowed_analysis.h.
#ifndef GPUPROBE_TOOLS_WINDOWED_WINDOW_CARRY_H_
#define GPUPROBE_TOOLS_WINDOWED_WINDOW_CARRY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tools/timeline/host_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

struct CarryRule {
  int64_t end_ns;       // of the window
  int64_t previous_ns;  // of the one before
  // By device: records from here on are kept, earlier ones as far as the table says.
  std::vector<int64_t> ops_from_ns;
  int64_t calls_from_ns;
  // Of earlier calls those in or between which a sample was taken from here on.
  int64_t samples_from_ns;
  size_t most_unmatched;
  // Blocking calls that end from here on are kept: gaps that are being attributed meanwhile may be
  // charged to one of them later (rule 6).
  int64_t blocking_from_ns = std::numeric_limits<int64_t>::max();
};

// When the first call was made whose work is still to be measured, `open_ns` at the latest. What
// such work waited for is what was not over by then, and the calls since tell it. `open_ns` as well
// where nothing waits for other streams; calls that were made before many others, or long before,
// are not looked at: their work may never come.
int64_t AwaitedSince(const Timeline& timeline, const HostView& host, int64_t open_ns);

struct Carried {
  std::vector<uint8_t> calls;  // of the timeline: 1, kept
  // How many submissions were given up because too many wait for their work.
  uint64_t dropped = 0;
  // The number in `to` of a call that was kept; of others that of the last that was kept before.
  int32_t NumberOf(int32_t call) const;
  bool Has(int32_t call) const { return calls[static_cast<size_t>(call)] != 0; }
};

// Copies the records of `timeline` that `rule` keeps, without their links, in place of those of
// `to`. `calls`: further ones to keep, -1 is ignored. `host` is of the timeline.
Carried CarryOn(const CarryRule& rule, const HostView& host, const std::vector<int32_t>& calls,
                const Timeline& timeline, Timeline* to);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WINDOW_CARRY_H_

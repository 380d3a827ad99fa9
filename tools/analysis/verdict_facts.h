// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the verdict is made from: the figures of all devices together, and the words for them.
#ifndef GPUPROBE_TOOLS_ANALYSIS_VERDICT_FACTS_H_
#define GPUPROBE_TOOLS_ANALYSIS_VERDICT_FACTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// All devices together.
struct Sums {
  int64_t span_ns = 0, longest_span_ns = 0, busy_ns = 0;
  int64_t compute_ns = 0, communication_ns = 0, copy_ns = 0;
  uint64_t ops = 0, untimed = 0, kernels = 0;
  int64_t kernel_ns = 0;
  std::array<int64_t, kCauseCount> cause_ns{};
  std::array<SiteTotal, kCauseCount> top_site;  // the largest of any device
  // Of the device that lost most to the cause; nullptr: no device did.
  std::array<const CauseTotal*, kCauseCount> largest{};

  int64_t Of(Cause cause) const { return cause_ns[static_cast<size_t>(cause)]; }
  const SiteTotal& TopSite(Cause cause) const { return top_site[static_cast<size_t>(cause)]; }
  // Outside of it lies only what the user's window adds before the first operation and after the
  // last: no finding.
  int64_t JudgedNs() const { return span_ns - Of(Cause::kStart) - Of(Cause::kEnd); }
  int64_t IdleNs() const { return JudgedNs() - busy_ns; }
};
Sums SumUp(const Analysis& analysis);  // points into `analysis`

// How far kernels fill the device, by their launch shapes. A kernel of n blocks runs on n
// multiprocessors at most.
struct Emptiness {
  int64_t small_ns = 0;   // in kernels of fewer blocks than kFewBlocks of the multiprocessors
  int64_t wasted_ns = 0;  // of that: what would go if the same work filled all of them
  uint64_t small_kernels = 0;
  uint64_t typical_blocks = 0;  // of those kernels, by time
  uint32_t sm_count = 0;        // of the device with most of it
};
inline constexpr double kFewBlocks = 0.25;
Emptiness MeasureEmptiness(const Timeline& timeline, const Analysis& analysis);

// Of the time of collectives, what they took beyond kLateFactor times the fastest quarter of their
// likes (name and launch shape): a collective takes as long as its last rank lets it.
inline constexpr int64_t kLateFactor = 3;
inline constexpr size_t kFewestLikes = 8;  // with fewer the fastest quarter is chance
int64_t WaitedForRanksNs(const Timeline& timeline, const Analysis& analysis);

// What the slow steps of a rhythm have more idle time than the others; `device`: the one with most.
struct Stall {
  int64_t total_ns = 0, longest_on_ns = 0;
  const DeviceSteps* device = nullptr;
};
Stall MeasureStalls(const Analysis& analysis);  // points into `analysis`

// Of the time of all copies, that of copies whose host side is pageable memory.
double PageableShare(const Timeline& timeline, const Analysis& analysis);

// The bytes that a device-to-host copy read which the thread of `call` submitted last before it;
// -1: the call before was nothing like that. Tells reading a result from waiting for the end.
int64_t BytesReadBefore(const Timeline& timeline, int32_t call);

// Why no line of Python shows at that site; nullptr: one does, or none is known to lack.
const std::string* UnreadPython(const Timeline& timeline, const SiteTotal& site);

// A line of code or a function, as against "cudaMalloc (thread 11 main)".
bool IsCode(std::string_view where);
// " at train.py:27 in main"; empty where the place is no code.
std::string AtCode(const SiteTotal& site);
bool Mentions(const SiteTotal& site, std::string_view word);  // in its place or its detail
// " (cudaFree, empty_cache)"; of a place that stands in other things, too: " (cudaFree for 60 %)".
std::string DetailText(const SiteTotal& site);
// Is a row of the waits of that line, or of that thread where no line is known?
bool IsRowOf(const WaitRow& row, const SiteTotal& site);
// "4 workers (children of 411) were 98 % on a CPU, most of it in dataset.py:12 in decode"
std::string MeanwhileText(const Meanwhile& meanwhile);

// "5.61 s", "151 ms", "12.3 us", "800 ns": three digits.
std::string DurationText(int64_t ns);
std::string PercentText(double part, double whole);
std::string RateText(double rate);  // "27.5", "1234": three digits, never an exponent
std::string CountText(uint64_t count, const char* noun);
std::string FormatText(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ANALYSIS_VERDICT_FACTS_H_

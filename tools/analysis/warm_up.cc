// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The verdict on a run whose trouble is its beginning.
#include <algorithm>
#include <array>
#include <string>

#include "tools/analysis/verdict.h"
#include "tools/analysis/verdict_facts.h"

namespace gpuprobe::tools {
namespace {

// Code that compiles, by what its files are called: torch.compile, Triton, NVRTC, Numba, JAX.
bool IsCompiling(const std::string& place) {
  for (const char* word : {"_inductor", "_dynamo", "triton", "nvrtc", "numba", "xla", "compil"}) {
    if (place.find(word) != place.npos) return true;
  }
  return false;
}

}  // namespace

void StartUp::Add(const Timeline& timeline, const DeviceReport& report, int64_t until_ns) {
  length_ns += std::max<int64_t>(
      0, std::min(until_ns, report.window.end_ns) - std::min(until_ns, report.window.start_ns));
  for (const Gap& gap : report.gaps) {
    if (gap.begin_ns >= until_ns) break;
    gaps_ns += std::min(gap.end_ns, until_ns) - gap.begin_ns;
    longest_gap_ns = std::max(longest_gap_ns, gap.length_ns());
  }
  for (const GapPart& part : report.parts) {
    if (part.begin_ns >= until_ns) break;
    const int64_t ns = std::min(part.end_ns, until_ns) - part.begin_ns;
    if (part.cause == Cause::kStart || part.cause == Cause::kEnd) continue;
    idle_ns += ns;
    cause_ns[static_cast<size_t>(part.cause)] += ns;
    if (IsLoading(timeline, part)) loading_ns += ns;
    if (ns > longest_part_ns) {
      longest_part_ns = ns;
      place = part.where;
    }
  }
}

StartUp MeasureStartUp(const Timeline& timeline, const Analysis& whole, int64_t until_ns) {
  StartUp start_up;
  for (const DeviceReport& device : whole.devices) start_up.Add(timeline, device, until_ns);
  return start_up;
}

std::optional<Verdict> JudgeWarmUp(const Analysis& whole, const Analysis& later,
                                   const StartUp& start_up) {
  const Sums all = SumUp(whole), rest = SumUp(later);
  const double idle_later = static_cast<double>(rest.IdleNs());
  if (static_cast<double>(start_up.idle_ns) < kWarmUpShare * static_cast<double>(all.IdleNs()) ||
      static_cast<double>(all.busy_ns) >= kGpuBoundShare * static_cast<double>(all.JudgedNs()) ||
      idle_later >= kHealthyIdleShare * static_cast<double>(rest.JudgedNs())) {
    return std::nullopt;
  }
  const std::string place =
      start_up.place < 0 ? "" : whole.places[static_cast<size_t>(start_up.place)];
  const bool one_gap = static_cast<double>(start_up.longest_gap_ns) >
                       kOneGapShare * static_cast<double>(start_up.idle_ns);
  if (one_gap && start_up.loading_ns * 2 < start_up.idle_ns && !IsCompiling(place)) {
    return std::nullopt;
  }
  Verdict verdict;
  verdict.kind = "warmup";
  const auto devices = static_cast<int64_t>(whole.devices.size());
  verdict.headline =
      "Warm-up: the GPU was idle " + PercentText(all.IdleNs(), all.JudgedNs()) + " of " +
      DurationText(all.JudgedNs() / devices) + "; " + PercentText(start_up.idle_ns, all.IdleNs()) +
      " of the idle time lies in the first " + DurationText(start_up.length_ns / devices) +
      ", and after it the GPU idled " + PercentText(rest.IdleNs(), rest.JudgedNs()) + " only.";
  const auto largest = std::max_element(start_up.cause_ns.begin(), start_up.cause_ns.end());
  verdict.evidence = "in it: " + DurationText(*largest) + " " +
                     CauseLabel(static_cast<Cause>(largest - start_up.cause_ns.begin()));
  if (!place.empty()) {
    verdict.where = place;
    verdict.evidence += ", the longest part in " + verdict.where;
  }
  if (start_up.loading_ns * 2 > start_up.idle_ns) {
    verdict.evidence += "; " + DurationText(start_up.loading_ns) + " was loading of kernels";
    verdict.action =
        "nothing, in a long run; else load early (CUDA_MODULE_LOADING=EAGER), cache what is "
        "compiled, or keep the process";
  } else {
    verdict.action =
        "nothing, in a long run: first uses and set-up; else keep the process, or measure without "
        "them" +
        FormatText(" (--from %lldms)",
                   static_cast<long long>(start_up.length_ns / devices / 1'000'000 + 1));
  }
  const int64_t left_ns = std::max<int64_t>(all.JudgedNs() - start_up.idle_ns, 1);
  verdict.upper_bound_speedup = static_cast<double>(all.JudgedNs()) / static_cast<double>(left_ns);
  return verdict;
}

}  // namespace gpuprobe::tools

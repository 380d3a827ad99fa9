// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Divides the time for which a thread kept the device waiting outside CUDA by what samples saw it
// do. The rules: ATTRIBUTION.md, "The host, divided".
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_HOST_SPLIT_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_HOST_SPLIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/call_site.h"
#include "tools/attribution/sample_judge.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/job_activity.h"
#include "tools/timeline/sample_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// A thread that was ready to run without a CPU for less than a twentieth of a sample's interval had
// what any busy machine does to it.
inline constexpr int64_t kStarvedOneIn = 20;

// A part of a divided stretch.
struct HostPart {
  int64_t begin_ns, end_ns;
  Cause cause;
  int32_t sample;  // that says so; -1: none speaks for it, cause kHost
  int32_t line;    // the sample whose stack names the line: `sample`, unless that has no Python and
                   // its thread worked for another's
};

class HostSplit {
 public:
  HostSplit(const Timeline& timeline, const HostView& host, const SampleView& samples,
            const SampleJudge& judge, const CallSites& sites);

  // Cuts [begin, end), in which the thread of `stretch` was outside CUDA; the parts come in order
  // of time, without hole or overlap, and none is empty.
  void Split(const Stretch& stretch, int64_t begin, int64_t end, SampleView::Cursor* cursor,
             std::vector<HostPart>* parts) const;

  // The thread that fed `thread` of the same process at `ns`: the last other one to submit before,
  // else the main thread; -1: none.
  int32_t FeederOf(int32_t thread, int64_t ns) const;

 private:
  struct Run {  // submissions of one thread, with none of another in between
    int64_t begin_ns;
    int32_t thread;
  };

  void FindRuns();
  // These call take(begin, end, sample) for each part in order; -1: none.
  template <typename Take>
  void SplitByExact(int32_t thread, int64_t begin, int64_t end, Take take) const;
  template <typename Take>  // each instant to the nearest of `samples`, within reach
  void Nearest(std::span<const int32_t> samples, int64_t begin, int64_t end, Take take) const;
  std::vector<int32_t> ChoosePoints(const Stretch& stretch, int64_t begin, int64_t end,
                                    SampleView::Cursor* cursor) const;
  void FollowFeeder(int32_t thread, int64_t begin, int64_t end, int32_t sample,
                    std::vector<HostPart>* parts) const;
  bool Tells(int32_t sample) const;
  // `line`: the sample whose line it is, where that is not `sample`'s own.
  void Add(int64_t begin, int64_t end, int32_t sample, int32_t line,
           std::vector<HostPart>* parts) const;

  const Timeline& timeline_;
  const HostView& host_;
  const SampleView& samples_;
  const SampleJudge& judge_;
  const CallSites& sites_;
  std::vector<std::vector<Run>> runs_;  // by process
  std::vector<int32_t> main_threads_;   // by process
};

// Everything that host samples and call stacks add to the analyses, built once for all devices.
struct HostEvidence {
  HostEvidence(const Timeline& timeline, const HostView& host);
  HostEvidence(const HostEvidence&) = delete;  // its parts refer to each other
  HostEvidence& operator=(const HostEvidence&) = delete;

  // Where a call was made: its recorded stack, else what a sample shows.
  struct Made {
    int32_t stack = -1;  // has a site; -1: not known
    int32_t sample = -1;
  };
  Made SiteOfCall(int32_t call, SampleView::Cursor* cursor = nullptr) const;

  const Timeline& timeline;
  bool any;  // without samples and stacks nothing below has anything to say
  CallSites sites;
  JobActivity activity;
  SampleJudge judge;
  SampleView samples;
  HostSplit split;
  std::vector<Lane> stopped;  // StoppedTimes()
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_HOST_SPLIT_H_

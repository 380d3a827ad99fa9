// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/files/several_runs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

struct Group {
  std::vector<size_t> processes;
  int64_t begin_ns = 0, end_ns = 0;
};

std::vector<Group> GroupsInTime(const LoadedRun& run) {
  std::vector<size_t> order;
  for (size_t p = 0; p < run.timeline.processes.size(); ++p) {
    const Process& process = run.timeline.processes[p];
    const bool ours = process.source == SourceKind::kGpuprobe && !process.sampled_only;
    if (ours && process.capture_begin_ns < process.capture_end_ns) order.push_back(p);
  }
  const auto process = [&run](size_t p) -> const Process& { return run.timeline.processes[p]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return process(a).capture_begin_ns < process(b).capture_begin_ns;
  });
  std::vector<Group> groups;
  for (const size_t p : order) {
    const int64_t begin_ns = process(p).capture_begin_ns, end_ns = process(p).capture_end_ns;
    if (groups.empty() || begin_ns - groups.back().end_ns > kApartNs) {
      groups.push_back({{}, begin_ns, end_ns});
    }
    groups.back().processes.push_back(p);
    groups.back().end_ns = std::max(groups.back().end_ns, end_ns);
  }
  return groups;
}

enum class Relation { kNone, kSameParent, kSameCommand };

Relation RelationOf(const LoadedRun& run, size_t earlier, size_t later) {
  const ProcessCapture &a = run.captures[earlier], &b = run.captures[later];
  const Process &pa = run.timeline.processes[earlier], &pb = run.timeline.processes[later];
  if (a.boot_id.empty() || a.boot_id != b.boot_id) return Relation::kNone;
  if (b.parent_pid == pa.pid) return Relation::kSameParent;
  if (a.parent_pid == 0 || a.parent_pid != b.parent_pid) return Relation::kNone;
  return !pa.command_line.empty() && pa.command_line == pb.command_line ? Relation::kSameCommand
                                                                        : Relation::kSameParent;
}

// The closest of any two.
Relation RelationOf(const LoadedRun& run, const Group& earlier, const Group& later) {
  Relation closest = Relation::kNone;
  for (const size_t a : earlier.processes) {
    for (const size_t b : later.processes) {
      const Relation relation = RelationOf(run, a, b);
      if (relation == Relation::kSameParent) return relation;
      if (relation == Relation::kSameCommand) closest = relation;
    }
  }
  return closest;
}

std::string PidsOf(const LoadedRun& run, const Group& group) {
  constexpr size_t kMostNamed = 3;
  std::string text = group.processes.size() == 1 ? "process" : "processes";
  for (size_t i = 0; i < std::min(group.processes.size(), kMostNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", run.timeline.processes[group.processes[i]].pid);
  }
  return group.processes.size() > kMostNamed ? text + ", ..." : text;
}

}  // namespace

void NoteSeveralRuns(LoadedRun* run) {
  const std::vector<Group> groups = GroupsInTime(*run);
  for (size_t i = 1; i < groups.size(); ++i) {
    const Group &earlier = groups[i - 1], &later = groups[i];
    const Relation relation = RelationOf(*run, earlier, later);
    if (relation == Relation::kSameParent) continue;
    run->notices.push_back(absl::StrCat(
        relation == Relation::kSameCommand ? "the same command ran twice: "
                                           : "traces of different runs are reported as one: ",
        PidsOf(*run, later), " began ", FormatDuration(later.begin_ns - earlier.end_ns), " after ",
        PidsOf(*run, earlier), " had ended",
        relation == Relation::kSameCommand ? "" : ", and nothing connects them",
        "; name the files of one run alone to report on it"));
  }
}

}  // namespace gpuprobe::tools

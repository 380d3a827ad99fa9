// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/run_group.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

absl::Status Refused(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("not files of one run: ", why));
}

bool HasRecords(const RunMember& member) { return member.begin_ns <= member.end_ns; }

}  // namespace

absl::Status CheckOneRun(const std::vector<RunMember>& members) {
  std::map<int32_t, const RunMember*> by_rank;
  const RunMember* sized = nullptr;
  for (const RunMember& member : members) {
    if (member.world_size > 0 && sized == nullptr) sized = &member;
    if (member.world_size > 0 && member.world_size != sized->world_size) {
      return Refused(absl::StrCat(sized->path, " is of a job of ", sized->world_size, " ranks, ",
                                  member.path, " of one of ", member.world_size));
    }
    if (member.rank < 0) continue;
    const auto [at, added] = by_rank.try_emplace(member.rank, &member);
    if (!added) {
      return Refused(
          absl::StrCat(at->second->path, " and ", member.path, " are both rank ", member.rank));
    }
  }
  if (by_rank.size() == members.size()) return absl::OkStatus();
  // Without ranks only the times can tell.
  const RunMember* first = nullptr;
  for (const RunMember& member : members) {
    if (!HasRecords(member)) continue;
    if (first == nullptr) first = &member;
    const int64_t gap_ns =
        std::max(member.begin_ns - first->end_ns, first->begin_ns - member.end_ns);
    if (gap_ns > 0) {
      return Refused(absl::StrCat(first->path, " and ", member.path,
                                  " do not both tell their rank, and there are ",
                                  FormatDuration(gap_ns), " between them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gpuprobe::tools

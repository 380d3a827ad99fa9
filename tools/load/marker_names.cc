// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/marker_names.h"

#include <algorithm>
#include <utility>

#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool ByBegin(const MarkerRange& a, const MarkerRange& b) {
  // The range around another one comes first.
  return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
}

}  // namespace

FoldedName FoldNumbers(std::string_view name) {
  FoldedName folded;
  folded.text.reserve(name.size());
  uint32_t hash = 2166136261u;  // FNV-1a
  bool any = false;
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsDigit(name[i])) {
      folded.text.push_back(name[i]);
      continue;
    }
    any = true;
    if (i == 0 || !IsDigit(name[i - 1])) {
      folded.text.push_back('#');
      hash = (hash ^ ' ') * 16777619u;  // "1 23" is not "12 3"
    }
    hash = (hash ^ static_cast<uint8_t>(name[i])) * 16777619u;
  }
  if (any) folded.numbers = hash == 0 ? 1 : hash;
  return folded;
}

bool MayMarkSteps(std::string_view name) {
  return name.find("::") == std::string_view::npos && name.find("op_id") == std::string_view::npos;
}

MarkerNamer::MarkerNamer(Timeline* timeline) : timeline_(timeline) {
  for (size_t i = 0; i < timeline->marker_names.size(); ++i) {
    const MarkerName& name = timeline->marker_names[i];
    ids_.try_emplace({name.kind, name.domain, name.folded}, static_cast<int32_t>(i));
  }
}

MarkerNamer::Named MarkerNamer::Intern(MarkerKind kind, std::string_view domain,
                                       std::string_view text) {
  const std::string valid = ToValidUtf8(text.substr(0, kLongestMarkerName));
  FoldedName folded = FoldNumbers(valid);
  const std::string valid_domain = ToValidUtf8(domain.substr(0, kLongestMarkerName));
  auto at = ids_.find(Key(kind, valid_domain, folded.text));
  if (at == ids_.end()) {
    const bool full = timeline_->marker_names.size() >= kMostMarkerNames;
    if (full) folded = {kOtherMarkerNames, 0};
    const auto [added_at, added] =
        ids_.try_emplace(Key(kind, full ? "" : valid_domain, folded.text),
                         static_cast<int32_t>(timeline_->marker_names.size()));
    at = added_at;
    if (added) {
      timeline_->marker_names.push_back(
          {folded.text, full ? "" : valid_domain, full ? kOtherMarkerNames : valid, false, kind});
    }
  }
  MarkerName& name = timeline_->marker_names[static_cast<size_t>(at->second)];
  if (!name.varies && name.folded != kOtherMarkerNames && name.first != valid) name.varies = true;
  return {at->second, folded.numbers};
}

void SortMarkers(Timeline* timeline) {
  if (!std::is_sorted(timeline->markers.begin(), timeline->markers.end(), ByBegin)) {
    std::stable_sort(timeline->markers.begin(), timeline->markers.end(), ByBegin);
  }
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Ranges that the application marked itself, on their way into a Timeline: their names are folded
// (MarkerName), those that can mark no step are left out.
#ifndef GPUPROBE_TOOLS_LOAD_MARKER_NAMES_H_
#define GPUPROBE_TOOLS_LOAD_MARKER_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// More different names than that are made up on the way (addresses, request ids): further ones all
// share one name.
inline constexpr size_t kMostMarkerNames = 16'384;
// Longer names are cut: they carry payloads.
inline constexpr size_t kLongestMarkerName = 256;
inline constexpr char kOtherMarkerNames[] = "(other names)";

struct FoldedName {
  std::string text;      // each run of digits is one '#'
  uint32_t numbers = 0;  // hash of the digits; 0: none
};
FoldedName FoldNumbers(std::string_view name);

// Not a framework's own range around one of its operators ("aten::mm, op_id = 7"): there may be
// millions, and none is a step.
bool MayMarkSteps(std::string_view name);

// Names of one Timeline; also what other loaders have put there before.
class MarkerNamer {
 public:
  explicit MarkerNamer(Timeline* timeline);

  struct Named {
    int32_t name;  // index in Timeline::marker_names
    uint32_t numbers;
  };
  // `text`, `domain`: any bytes.
  Named Intern(MarkerKind kind, std::string_view domain, std::string_view text);

 private:
  using Key = std::tuple<MarkerKind, std::string, std::string>;
  Timeline* timeline_;
  absl::flat_hash_map<Key, int32_t> ids_;
};

void SortMarkers(Timeline* timeline);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_MARKER_NAMES_H_

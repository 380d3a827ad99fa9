// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// How the parts of gaps are named: by the line of code where it is known, with the CUDA call beside
// it; else by call and thread.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_PART_PLACES_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_PART_PLACES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/attribution/host_split.h"
#include "tools/attribution/places.h"
#include "tools/timeline/flat_map.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/sample_view.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

struct Shown {
  Shown(int32_t p, int32_t d = -1, int32_t s = -1) : place(p), detail(d), sample(s) {}
  int32_t place;   // in Places
  int32_t detail;  // in PartPlaces::details(); -1: nothing to add
  int32_t sample;  // that names it; -1: none
};

struct PlaceKey {
  int32_t a, b = 0;
  bool operator==(const PlaceKey&) const = default;
  uint64_t Hash() const { return MixBits(static_cast<uint32_t>(a), static_cast<uint32_t>(b)); }
};

class PartPlaces {
 public:
  PartPlaces(const Timeline& timeline, const HostView& host, const HostEvidence& evidence,
             Places& places)
      : timeline_(timeline),
        host_(host),
        evidence_(evidence),
        places_(places),
        cursor_(evidence.samples) {}

  // `blocked`: a submission that did not return as submissions do.
  Shown OfCall(int32_t call, bool blocked);
  // Overhead of the given kind, of the application's making, in `call` (-1: in none).
  Shown OfLoading(int32_t kind, int32_t call, int32_t thread);
  Shown OfBetween(const Stretch& stretch, int64_t ns);
  // A dependency, at the line that made it: `ordering_call`, the stream-wait (-1: not recorded),
  // else where `submission` was dispatched. `place` names the streams.
  Shown OfDependency(int32_t place, int32_t ordering_call, int32_t submission);
  Shown OfHost(const HostPart& part, int32_t thread);

  const std::vector<std::string>& details() const { return details_; }
  SampleView::Cursor* cursor() { return &cursor_; }

 private:
  int32_t LinePlace(int32_t stack);  // -1: the stack has no site
  int32_t DetailId(const std::string& text);
  // `what` happened at the line of `stack`; `key` stands for `what`, which is made when it is new.
  template <typename Text>
  Shown AtLine(int32_t key, int32_t stack, int32_t sample, Text what);
  std::string ApiText(int32_t call, bool blocked) const;

  const Timeline& timeline_;
  const HostView& host_;
  const HostEvidence& evidence_;
  Places& places_;
  std::vector<std::string> details_;
  std::unordered_map<std::string, int32_t> detail_ids_;
  FlatMap<PlaceKey, int32_t> line_places_;     // by stack node
  FlatMap<PlaceKey, int32_t> line_details_;    // by key and stack
  FlatMap<PlaceKey, int32_t> sample_details_;  // by sample and line
  SampleView::Cursor cursor_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_PART_PLACES_H_

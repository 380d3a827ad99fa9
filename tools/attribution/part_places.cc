// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/part_places.h"

namespace gpuprobe::tools {
namespace {

using PlaceKind = Places::Kind;

}  // namespace

int32_t PartPlaces::LinePlace(int32_t stack) {
  const int32_t node = evidence_.sites.SiteOf(stack);
  if (node < 0) return -1;
  const auto [place, is_new] = line_places_.FindOrAdd({node});
  if (is_new) *place = places_.OfText(evidence_.sites.TextOf(node));
  return *place;
}

int32_t PartPlaces::DetailId(const std::string& text) {
  if (text.empty()) return -1;
  const auto [entry, is_new] = detail_ids_.emplace(text, static_cast<int32_t>(details_.size()));
  if (is_new) details_.push_back(text);
  return entry->second;
}

template <typename Text>
Shown PartPlaces::AtLine(int32_t key, int32_t stack, int32_t sample, Text what) {
  const auto [detail, is_new] = line_details_.FindOrAdd({key, stack});
  if (is_new) {
    const std::string below = evidence_.sites.Below(stack);
    *detail = DetailId(below.empty() ? what() : what() + ", " + below);
  }
  return {LinePlace(stack), *detail, sample};
}

std::string PartPlaces::ApiText(int32_t call, bool blocked) const {
  const HostCall& c = timeline_.calls[call];
  std::string text = c.symbol < 0 ? "unknown call" : timeline_.symbols[c.symbol].name;
  const int32_t how = places_.CopyHow(host_.OpOf(call));
  if (how >= 0 && !blocked) text += " " + Places::CopyText(how);
  return blocked ? text + ", blocked" : text;
}

Shown PartPlaces::OfCall(int32_t call, bool blocked) {
  const HostCall& c = timeline_.calls[call];
  const int32_t api =
      blocked ? places_.Id(PlaceKind::kBlockedCall, c.symbol, c.thread)
              : places_.Id(PlaceKind::kCall, c.symbol, c.thread, places_.CopyHow(host_.OpOf(call)));
  const HostEvidence::Made made = evidence_.SiteOfCall(call, &cursor_);
  if (made.stack < 0) return api;
  return AtLine(api, made.stack, made.sample, [&] { return ApiText(call, blocked); });
}

Shown PartPlaces::OfLoading(int32_t kind, int32_t call, int32_t thread) {
  const int32_t symbol = call < 0 ? -1 : timeline_.calls[call].symbol;
  const int32_t loading = places_.Id(PlaceKind::kLoadingInCall, kind, symbol, thread);
  const HostEvidence::Made made =
      call < 0 ? HostEvidence::Made{} : evidence_.SiteOfCall(call, &cursor_);
  if (made.stack < 0) return loading;
  return AtLine(loading, made.stack, made.sample, [&] {
    return OverheadText(static_cast<uint32_t>(kind)) + " in " + ApiText(call, false);
  });
}

Shown PartPlaces::OfBetween(const Stretch& stretch, int64_t ns) {
  const int32_t between = places_.Id(PlaceKind::kBetween, stretch.thread);
  const int32_t sample = evidence_.samples.OfDispatch(stretch, ns, &cursor_);
  if (sample < 0) return between;
  return AtLine(between, timeline_.samples[sample].stack, sample,
                [] { return std::string("between submissions"); });
}

Shown PartPlaces::OfDependency(int32_t place, int32_t ordering_call, int32_t submission) {
  const int32_t call = ordering_call >= 0 ? ordering_call : submission;
  if (call < 0) return place;
  const HostEvidence::Made made = evidence_.SiteOfCall(call, &cursor_);
  int32_t stack = made.stack, sample = made.sample;
  if (stack < 0) {
    // Ordering calls take a microsecond and are hardly ever hit; they stand among the submissions.
    const HostCall& c = timeline_.calls[call];
    const Stretch around = {c.thread, -1, -1, c.start_ns, c.end_ns, false};
    sample = evidence_.samples.OfDispatch(around, c.start_ns, &cursor_);
    if (sample >= 0) stack = timeline_.samples[sample].stack;
  }
  if (LinePlace(stack) < 0) return place;
  return AtLine(place, stack, sample, [&] { return places_.texts()[place]; });
}

Shown PartPlaces::OfHost(const HostPart& part, int32_t thread) {
  const int32_t line_stack = part.line < 0 ? -1 : timeline_.samples[part.line].stack;
  int32_t place = LinePlace(line_stack);
  if (place < 0) place = places_.Id(PlaceKind::kOutside, thread);
  if (part.sample < 0) {
    return {place, evidence_.samples.empty() ? -1 : DetailId("not sampled")};
  }
  if (part.cause == Cause::kCpuStarved) {
    return {place, DetailId("ready to run, waiting for a CPU"), part.sample};
  }
  const auto [known, is_new] = sample_details_.FindOrAdd({part.sample, part.line});
  if (is_new) {
    const std::string detail = evidence_.judge.DetailOf(part.sample);
    if (part.line == part.sample) {
      *known = DetailId(detail);
    } else {
      const std::string other = "for " + places_.ThreadText(thread);
      const std::string own = evidence_.sites.Below(line_stack);
      *known =
          DetailId((own.empty() ? "" : own + ", ") + other + (detail.empty() ? "" : ": " + detail));
    }
  }
  return {place, *known, part.sample};
}

}  // namespace gpuprobe::tools

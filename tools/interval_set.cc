// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/interval_set.h"

namespace gpuprobe::tools {

void IntervalSet::Add(int64_t begin, int64_t end) {
  if (end <= begin) return;
  if (spans_.empty()) {
    spans_.push_back({begin, end, 0});
    return;
  }
  Span& last = spans_.back();
  if (begin <= last.end) {
    last.end = std::max(last.end, end);
    return;
  }
  spans_.push_back({begin, end, last.before + (last.end - last.begin)});
}

int64_t IntervalSet::Before(int64_t t) const {
  const auto after = std::partition_point(spans_.begin(), spans_.end(),
                                          [t](const Span& span) { return span.begin < t; });
  if (after == spans_.begin()) return 0;
  const Span& span = *(after - 1);
  return span.before + std::min(t, span.end) - span.begin;
}

void Lane::Add(int64_t begin, int64_t end, int32_t id) {
  if (!pieces_.empty()) begin = std::max(begin, pieces_.back().end);
  if (begin < end) pieces_.push_back({begin, end, id});
}

const Lane::Piece* Lane::AtOrBefore(int64_t t) const {
  const auto after = std::partition_point(pieces_.begin(), pieces_.end(),
                                          [t](const Piece& piece) { return piece.begin <= t; });
  return after == pieces_.begin() ? nullptr : &*(after - 1);
}

}  // namespace gpuprobe::tools

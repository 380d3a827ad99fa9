// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/timeline/interval_set.h"

namespace gpuprobe::tools {

int64_t IntervalSet::Before(int64_t t, size_t* near) const {
  const size_t after =
      PartitionNear(spans_, *near, [t](const Span& span) { return span.begin < t; });
  *near = after;
  if (after == 0) return 0;
  const Span& span = spans_[after - 1];
  const int64_t until = after < spans_.size() ? spans_[after].before : covered_;
  const auto length = static_cast<uint64_t>(until - span.before);
  const uint64_t since = static_cast<uint64_t>(t) - static_cast<uint64_t>(span.begin);
  return span.before + static_cast<int64_t>(std::min(since, length));
}

int64_t IntervalSet::LastBeginBy(int64_t t) const {
  const auto after = std::partition_point(spans_.begin(), spans_.end(),
                                          [t](const Span& span) { return span.begin <= t; });
  return after == spans_.begin() ? std::numeric_limits<int64_t>::min() : (after - 1)->begin;
}

void IntervalSet::Coarsen(const std::vector<int64_t>& asked) {
  IntervalSet coarse;
  const int64_t first = asked.front(), last = asked.back();
  size_t near = 0;
  coarse.Add(first - Before(first, &near), first);
  for (size_t i = 0; i + 1 < asked.size(); ++i) {
    coarse.Add(asked[i], asked[i] + Overlap(asked[i], asked[i + 1], &near));
  }
  const auto rest = std::partition_point(spans_.begin(), spans_.end(),
                                         [last](const Span& span) { return span.begin <= last; });
  const int64_t covered = rest == spans_.end() ? covered_ : rest->before;
  coarse.Add(last, last + covered - coarse.covered_);
  if (rest == spans_.end()) end_ = coarse.end_;
  // What is behind stays, as what is covered before it has stayed the same.
  const auto moved = static_cast<size_t>(rest - spans_.begin());
  if (moved >= coarse.spans_.size()) {
    const auto kept = std::copy(coarse.spans_.begin(), coarse.spans_.end(), spans_.begin());
    spans_.erase(kept, rest);
  } else {
    spans_.erase(spans_.begin(), rest);
    spans_.insert(spans_.begin(), coarse.spans_.begin(), coarse.spans_.end());
  }
}

void Lane::Add(int64_t begin, int64_t end, int32_t id) {
  if (!pieces_.empty()) begin = std::max(begin, pieces_.back().end);
  if (begin < end) pieces_.push_back({begin, end, id});
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/sums/kept_gaps.h"

#include <algorithm>
#include <utility>

namespace gpuprobe::tools {
namespace {

// Longer ones first, then earlier ones.
bool Before(const Gap& a, const Gap& b) {
  return a.length_ns() != b.length_ns() ? a.length_ns() > b.length_ns() : a.begin_ns < b.begin_ns;
}
bool HeapOrder(const KeptGap& a, const KeptGap& b) { return Before(a.gap, b.gap); }

int32_t CopyCall(const Timeline& window, int32_t call, KeptGap* kept) {
  if (call < 0) return -1;
  kept->calls.push_back(window.calls[static_cast<size_t>(call)]);
  return static_cast<int32_t>(kept->calls.size()) - 1;
}

int32_t CopyOp(const Timeline& window, int32_t op, KeptGap* kept) {
  if (op < 0) return -1;
  GpuOp copy = window.ops[static_cast<size_t>(op)];
  copy.submission = CopyCall(window, copy.submission, kept);
  kept->ops.push_back(copy);
  return static_cast<int32_t>(kept->ops.size()) - 1;
}

KeptGap Copy(const Timeline& window, const DeviceReport& report, const Gap& gap,
             const std::vector<int32_t>& samples) {
  KeptGap kept;
  kept.gap = gap;
  kept.gap.previous_op = CopyOp(window, gap.previous_op, &kept);
  kept.gap.next_op = CopyOp(window, gap.next_op, &kept);
  for (GapPart part : report.PartsOf(gap)) {
    part.call = CopyCall(window, part.call, &kept);
    if (part.overhead >= 0) {
      kept.overheads.push_back(window.overheads[static_cast<size_t>(part.overhead)]);
      part.overhead = static_cast<int32_t>(kept.overheads.size()) - 1;
    }
    if (part.sample >= 0) part.sample = samples[static_cast<size_t>(part.sample)];
    kept.parts.push_back(part);
  }
  return kept;
}

template <typename T>
int32_t Append(const std::vector<T>& items, std::vector<T>* to) {
  const int32_t base = static_cast<int32_t>(to->size());
  to->insert(to->end(), items.begin(), items.end());
  return base;
}

void Shift(int32_t base, int32_t* index) {
  if (*index >= 0) *index += base;
}

}  // namespace

void KeptGaps::Add(const Timeline& window, const DeviceReport& report, int64_t min_ns,
                   const std::vector<int32_t>& samples) {
  if (most_ == 0) return;
  // Of a long run nearly all are shorter than what is kept.
  const auto shortest_ns = [&] {
    return heap_.size() < most_ ? min_ns : std::max(min_ns, heap_.front().gap.length_ns());
  };
  int64_t least_ns = shortest_ns();
  for (const Gap& gap : report.gaps) {
    if (gap.length_ns() < least_ns) continue;
    if (heap_.size() >= most_) {
      if (!Before(gap, heap_.front().gap)) continue;
      std::pop_heap(heap_.begin(), heap_.end(), HeapOrder);
      heap_.pop_back();
    }
    heap_.push_back(Copy(window, report, gap, samples));
    std::push_heap(heap_.begin(), heap_.end(), HeapOrder);
    least_ns = shortest_ns();
  }
}

void KeptGaps::Take(Timeline* timeline, DeviceReport* report) {
  std::sort(heap_.begin(), heap_.end(),
            [](const KeptGap& a, const KeptGap& b) { return a.gap.begin_ns < b.gap.begin_ns; });
  for (KeptGap& kept : heap_) {
    const int32_t calls = Append(kept.calls, &timeline->calls);
    const int32_t overheads = Append(kept.overheads, &timeline->overheads);
    for (GpuOp& op : kept.ops) Shift(calls, &op.submission);
    const int32_t ops = Append(kept.ops, &timeline->ops);
    Shift(ops, &kept.gap.previous_op);
    Shift(ops, &kept.gap.next_op);
    kept.gap.first_part = static_cast<uint32_t>(report->parts.size());
    for (GapPart& part : kept.parts) {
      Shift(calls, &part.call);
      Shift(overheads, &part.overhead);
      report->parts.push_back(part);
    }
    report->gaps.push_back(kept.gap);
  }
  heap_.clear();
}

int32_t KeptCalls::Add(const Timeline& window, int32_t call) {
  const HostCall& quoted = window.calls[static_cast<size_t>(call)];
  constexpr int32_t kLookBack = 64;  // as BytesReadBefore()
  int32_t before = call - 1;
  while (before >= std::max(0, call - kLookBack) &&
         window.calls[static_cast<size_t>(before)].thread != quoted.thread) {
    --before;
  }
  if (before >= std::max(0, call - kLookBack)) {
    for (const GpuOp& op : window.ops) {
      if (op.submission != before) continue;
      ops_.push_back(op);
      ops_.back().submission = static_cast<int32_t>(calls_.size());
      break;
    }
    calls_.push_back(window.calls[static_cast<size_t>(before)]);
  }
  calls_.push_back(quoted);
  index_.push_back(static_cast<int32_t>(calls_.size()) - 1);
  return static_cast<int32_t>(index_.size()) - 1;
}

std::vector<int32_t> KeptCalls::Take(Timeline* timeline) {
  const int32_t base = Append(calls_, &timeline->calls);
  for (GpuOp& op : ops_) Shift(base, &op.submission);
  Append(ops_, &timeline->ops);
  std::vector<int32_t> index;
  for (const int32_t i : index_) index.push_back(base + i);
  return index;
}

}  // namespace gpuprobe::tools

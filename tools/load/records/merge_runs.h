// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Sorts what is a concatenation of nearly ordered pieces: the frames of a trace. Each is in order
// as a rule, and frames follow each other in time, so merging only the overlaps beats a general
// sort by far.
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_MERGE_RUNS_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_MERGE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gpuprobe::tools {

// A piece of the items. It begins where the piece before ends; may be empty.
struct Run {
  size_t end;
  bool sorted;  // known to be; else it is looked at
};

// Merges [first, middle) and [middle, last), each in order. Stable. `scratch` keeps its memory:
// std::inplace_merge would take, and touch, new pages every time.
template <typename T, typename Less>
void MergeNeighbours(T* first, T* middle, T* last, Less less, std::vector<T>* scratch) {
  if (middle - first <= last - middle) {
    scratch->assign(first, middle);
    const T* left = scratch->data();
    const T* const left_end = left + scratch->size();
    for (T* out = first; left != left_end; ++out) {
      *out = middle != last && less(*middle, *left) ? *middle++ : *left++;
    }
  } else {
    scratch->assign(middle, last);
    const T* const right = scratch->data();
    const T* right_end = right + scratch->size();
    for (T* out = last; right != right_end;) {
      *--out = middle != first && less(right_end[-1], middle[-1]) ? *--middle : *--right_end;
    }
  }
}

// `runs`: all pieces, ascending; what is behind the last is a piece, too. Stable.
template <typename T, typename Less>
void MergeRuns(std::vector<T>* items, std::vector<Run> runs, Less less) {
  const auto at = [items](size_t i) { return items->data() + i; };
  runs.push_back({items->size(), false});
  std::vector<size_t> starts = {0};
  for (const Run& run : runs) {
    const auto first = at(starts.back()), last = at(run.end);
    if (first == last) continue;
    if (!run.sorted && !std::is_sorted(first, last, less)) std::stable_sort(first, last, less);
    starts.push_back(run.end);
  }
  std::vector<T> scratch;
  // Neighbours in pairs, then pairs of pairs: n log(pieces) at worst.
  while (starts.size() > 2) {
    std::vector<size_t> merged;
    for (size_t i = 0; i + 1 < starts.size(); i += 2) {
      merged.push_back(starts[i]);
      if (i + 2 >= starts.size()) continue;
      auto first = at(starts[i]), middle = at(starts[i + 1]), last = at(starts[i + 2]);
      if (!less(*middle, *(middle - 1))) continue;
      first = std::upper_bound(first, middle, *middle, less);
      last = std::lower_bound(middle, last, *(middle - 1), less);
      MergeNeighbours(first, middle, last, less, &scratch);
    }
    merged.push_back(items->size());
    starts = std::move(merged);
  }
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_MERGE_RUNS_H_

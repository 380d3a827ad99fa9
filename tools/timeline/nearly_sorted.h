// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TOOLS_TIMELINE_NEARLY_SORTED_H_
#define GPUPROBE_TOOLS_TIMELINE_NEARLY_SORTED_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace gpuprobe::tools {

// Sorts what is in order but for neighbours, as work that several streams or threads had at once
// is: one pass if it is sorted, a general sort if it is far from it. Stable.
template <typename T, typename Less>
void SortNearlySorted(std::span<T> items, Less less) {
  // So many places may be moved in all before a general sort is cheaper.
  size_t moves_left = 8 * items.size();
  for (size_t i = 1; i < items.size(); ++i) {
    if (!less(items[i], items[i - 1])) continue;
    const T item = items[i];
    size_t at = i;
    for (; at > 0 && moves_left > 0 && less(item, items[at - 1]); --at, --moves_left) {
      items[at] = items[at - 1];
    }
    items[at] = item;
    if (moves_left == 0) return std::stable_sort(items.begin(), items.end(), less);
  }
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_NEARLY_SORTED_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The records of two windows that follow each other: what the second takes over of the first.
#ifndef GPUPROBE_TOOLS_WINDOWED_TWO_WINDOWS_H_
#define GPUPROBE_TOOLS_WINDOWED_TWO_WINDOWS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tools/timeline/huge_vector.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

template <typename T>
bool ByStart(const T& a, const T& b) {
  return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
}

// Adds records to those that were carried on, in order of start.
template <typename T>
void MergeIn(std::vector<T>* fresh, std::vector<T>* items) {
  const auto middle = static_cast<ptrdiff_t>(items->size());
  MakeRoom(fresh->size(), 0, items);
  items->insert(items->end(), fresh->begin(), fresh->end());
  fresh->clear();
  const auto at = items->begin() + middle;
  // What comes starts from the horizon on, before which all that is carried on does.
  if (middle == 0 || at == items->end() || !ByStart(*at, *(at - 1))) return;
  std::inplace_merge(items->begin(), at, items->end(), ByStart<T>);
}

// What is said of the whole run, and read while gaps are attributed alone: of a window at a time.
inline void TakeTables(Timeline* from, Timeline* to) {
  to->strings.swap(from->strings);
  to->locations.swap(from->locations);
  to->modules.swap(from->modules);
  to->stacks.swap(from->stacks);
  to->sampled.swap(from->sampled);
  to->marker_names.swap(from->marker_names);
  to->markers.swap(from->markers);
}

// The rest, which no window changes.
inline void CopyTables(const Timeline& from, Timeline* to) {
  to->inputs = from.inputs;
  to->processes = from.processes;
  to->devices = from.devices;
  to->streams = from.streams;
  to->threads = from.threads;
  to->names = from.names;
  to->shapes = from.shapes;
  to->copy_shapes = from.copy_shapes;
  to->symbols = from.symbols;
  to->blinds = from.blinds;
  to->losses = from.losses;
}

template <typename T>
void GiveMemory(std::vector<T>* from, std::vector<T>* to) {
  from->assign(to->begin(), to->end());
  from->swap(*to);
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_TWO_WINDOWS_H_

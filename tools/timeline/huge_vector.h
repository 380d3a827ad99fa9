// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Room for vectors of millions of records: few copies while they grow, few page faults while they
// are filled (in 4 KiB pages those cost as much as all the rest of loading).
#ifndef GPUPROBE_TOOLS_TIMELINE_HUGE_VECTOR_H_
#define GPUPROBE_TOOLS_TIMELINE_HUGE_VECTOR_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace gpuprobe::tools {

// Asks for huge pages where whole ones lie in [data, data + bytes). Best effort.
inline void AdviseHugePages(void* data, size_t bytes) {
  constexpr uintptr_t kHugePageBytes = 2u << 20;
  const uintptr_t first =
      (reinterpret_cast<uintptr_t>(data) + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(kHugePageBytes - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// Makes room for `more` items. `expected`: how many there will be in the end, as far as can be
// told; a wrong guess costs address space (eight times what is used, or 64 MiB), and no memory.
template <typename T>
void MakeRoom(size_t more, double expected, std::vector<T>* items) {
  const size_t wanted = items->size() + more;
  if (wanted <= items->capacity()) return;
  constexpr double kMostGrowth = 8;
  const double least = 1.5 * static_cast<double>(wanted);
  constexpr double kAlwaysItems = (64.0 * 1024 * 1024) / sizeof(T);
  const double most = std::max(kMostGrowth * static_cast<double>(wanted), kAlwaysItems);
  try {
    items->reserve(static_cast<size_t>(std::clamp(expected, least, most)));
  } catch (const std::bad_alloc&) {  // a limit of address space (ulimit -v)
    items->reserve(static_cast<size_t>(least));
  }
  AdviseHugePages(items->data(), items->capacity() * sizeof(T));
}

// The same for an upper bound: what is not used of it is never touched and costs address space
// alone. What is allocated anew for each window of a run is read and written in many passes: in
// 4 KiB pages those miss the TLB.
template <typename T>
void ReserveHuge(size_t most, std::vector<T>* items) {
  if (most <= items->capacity()) return;
  items->reserve(most);
  AdviseHugePages(items->data(), items->capacity() * sizeof(T));
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_HUGE_VECTOR_H_

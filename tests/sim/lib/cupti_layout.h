// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Record sizes of the CUPTI versions that the stand-in can pretend to be (GPUSIM_CUPTI_VERSION).
// From 11.8 on every older structure is a prefix of the newer one (asserted in the source file), so
// records are built in the newest structure and cut to size.
#ifndef GPUPROBE_TESTS_SIM_LIB_CUPTI_LAYOUT_H_
#define GPUPROBE_TESTS_SIM_LIB_CUPTI_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sim {

struct Layout {
  uint32_t version;  // cuptiGetVersion
  uint16_t kernel_bytes, copy_bytes, sync_bytes, event_bytes, overhead_bytes, device_bytes,
      context_bytes, graph_bytes;
  bool per_thread_buffers;  // the default
  bool refusal_is_safe;     // returning no buffer crashes CUPTI before API 27
};

const Layout& CurrentLayout();
// Version that applies when GPUSIM_CUPTI_VERSION is not set; differs between the library variants.
extern const uint32_t kDefaultCuptiVersion;

// A kind that only the stand-in knows, for clients that meet something new.
inline constexpr uint32_t kUnknownKind = 200;
inline constexpr size_t kUnknownKindBytes = 32;

// Size of a record of this kind in the current layout; 0: no such kind.
size_t RecordBytes(uint32_t kind);

// Where a record keeps its times; false: the kind has none.
struct TimeFields {
  size_t start, end;
  bool is_gpu_work;  // can be unfinished when delivered
};
bool TimesOf(uint32_t kind, TimeFields* out);

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_CUPTI_LAYOUT_H_

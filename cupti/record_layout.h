// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where the fields of CUPTI's activity records lie. NVIDIA has only ever appended fields to these
// structures (compared over the headers of 11.7 to 13.5): one table of offsets serves all versions,
// and what differs between two versions is the size of a record. A field is there when the record
// is long enough to hold it. record_layout.cc asserts every offset against the real structures.
//
// The version alone does not tell the sizes: CUPTI 11.8, 12.0 and 12.1 all answer 18 to
// cuptiGetVersion, with kernel records of 200, 208 and 208 bytes. MeasureRecordSizes therefore asks
// the loaded library.
#ifndef GPUPROBE_CUPTI_RECORD_LAYOUT_H_
#define GPUPROBE_CUPTI_RECORD_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::cupti {

// CUpti_ActivityKind, as far as the decoder and the activity source name them.
enum class Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kMarker = 12,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,
  kCudaEvent = 36,
  kStream = 37,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kInternalLaunchApi = 48,
  kGraphTrace = 51,
};

// Kinds are numbered from 1; 13.5 knows 59.
inline constexpr uint32_t kKindLimit = 96;
// Records are a whole number of these; a buffer holds them without gaps.
inline constexpr size_t kRecordAlignment_bytes = 8;

struct RecordLayout {
  uint32_t version = 0;                  // lowest cuptiGetVersion that it holds for
  const char* name = "";                 // "CUPTI 13.0"
  uint16_t size_bytes[kKindLimit] = {};  // by kind; 0: not known
  // isDeviceLaunched of copies and sets took over bytes that were padding before 13.0.
  bool copies_tell_device_launch = false;
};

// Sizes by version. False: older than 11.7, whose records lack fields that we rely on. A version
// newer than all known ones gets the newest sizes.
[[nodiscard]] bool KnownLayout(uint32_t cupti_version, RecordLayout* layout);

// Replaces the sizes by what the loaded library itself uses: cuptiActivityGetNextRecord is walked
// over a buffer made up of records of one kind, and the distance of the first two is the size.
// Kinds of which the library tells nothing keep their size. Tried offline on 11.7 to 13.1; calls
// nothing else. Returns the number of kinds that were measured (0: this library does not answer
// without a context).
uint32_t MeasureRecordSizes(const CuptiApi* api, RecordLayout* layout);

namespace layout_internal {
constexpr auto MinimumSizes() {
  struct Sizes {
    uint16_t bytes[kKindLimit];
  } sizes = {};
  const auto set = [&sizes](Kind kind, uint16_t bytes) {
    sizes.bytes[static_cast<uint32_t>(kind)] = bytes;
  };
  set(Kind::kKernel, 176);  // CUpti_ActivityKernel7
  set(Kind::kConcurrentKernel, 176);
  set(Kind::kMemcpy, 88);   // CUpti_ActivityMemcpy5
  set(Kind::kMemcpy2, 96);  // CUpti_ActivityMemcpyPtoP4
  set(Kind::kMemset, 88);   // CUpti_ActivityMemset4
  set(Kind::kGraphTrace, 48);
  set(Kind::kRuntime, 40);
  set(Kind::kDriver, 40);
  set(Kind::kSynchronization, 40);
  set(Kind::kCudaEvent, 24);
  set(Kind::kOverhead, 40);
  set(Kind::kDevice, 176);  // CUpti_ActivityDevice4
  set(Kind::kContext, 16);
  set(Kind::kStream, 24);
  set(Kind::kMarker, 56);  // CUpti_ActivityMarker2
  return sizes;
}
inline constexpr auto kMinimumSizes = MinimumSizes();
}  // namespace layout_internal

// Smallest size of a kind's record that holds every field that the decoder cannot do without; a
// shorter record is not decoded. 0: not a kind that we decode.
inline uint16_t MinimumRecordSize(uint32_t kind) {
  return kind < kKindLimit ? layout_internal::kMinimumSizes.bytes[kind] : 0;
}

namespace offset {
struct Kernel {
  static constexpr size_t registers = 6, start = 16, end = 24, device = 40, context = 44,
                          stream = 48, grid_x = 52, grid_y = 56, grid_z = 60, block_x = 64,
                          block_y = 68, block_z = 72, static_shared = 76, dynamic_shared = 80,
                          local_per_thread = 84, correlation = 92, grid_id = 96, name = 104,
                          queued = 120, submitted = 128, launch_type = 136, shared_executed = 140,
                          graph_node_id = 144, graph_id = 156;
  static constexpr size_t cluster_x = 176, cluster_y = 180, cluster_z = 184;  // from 11.8
  static constexpr size_t device_launched = 208;                              // from 13.0
};
struct Memcpy {
  static constexpr size_t copy_kind = 4, src_kind = 5, dst_kind = 6, flags = 7, bytes = 8,
                          start = 16, end = 24, device = 32, context = 36, stream = 40,
                          correlation = 44, graph_node_id = 64, graph_id = 72;
  static constexpr size_t device_launched = 84;  // padding before 13.0
};
struct MemcpyPtoP {
  static constexpr size_t copy_kind = 4, src_kind = 5, dst_kind = 6, flags = 7, bytes = 8,
                          start = 16, end = 24, device = 32, context = 36, stream = 40,
                          src_device = 44, src_context = 48, dst_device = 52, dst_context = 56,
                          correlation = 60, graph_node_id = 72, graph_id = 80;
};
struct Memset {
  static constexpr size_t value = 4, bytes = 8, start = 16, end = 24, device = 32, context = 36,
                          stream = 40, correlation = 44, flags = 48, memory_kind = 50,
                          graph_node_id = 64, graph_id = 72;
  static constexpr size_t device_launched = 84;  // padding before 13.0
};
struct GraphTrace {
  static constexpr size_t correlation = 4, start = 8, end = 16, device = 24, graph_id = 28,
                          context = 32, stream = 36;
  static constexpr size_t end_device = 48;  // from 12.3
};
struct Api {
  static constexpr size_t cbid = 4, start = 8, end = 16, process = 24, thread = 28,
                          correlation = 32, result = 36;
};
struct Synchronization {
  static constexpr size_t type = 4, start = 8, end = 16, correlation = 24, context = 28,
                          stream = 32, event = 36;
  static constexpr size_t event_sync_id = 40, result = 48;  // from 12.8
};
struct CudaEvent {
  static constexpr size_t correlation = 4, context = 8, stream = 12, event = 16;
  static constexpr size_t event_sync_id = 48;  // from 12.8
};
struct Overhead {
  static constexpr size_t kind = 4, object_kind = 8, object_id = 12, start = 24, end = 32;
  static constexpr size_t correlation = 40;  // from 12.3
};
struct Device {
  static constexpr size_t memory_bandwidth = 8, memory_bytes = 16, core_clock = 36, sm_count = 44,
                          compute_major = 104, compute_minor = 108, id = 112, uuid = 120,
                          name = 136, mig_enabled = 145, mig_uuid = 160;
};
struct Context {
  static constexpr size_t context = 4, device = 8, null_stream = 14;
};
struct Marker {
  static constexpr size_t flags = 4, time = 8, id = 16, object_kind = 20, object_id = 24, name = 40,
                          domain = 48;
};
struct Stream {
  static constexpr size_t context = 4, stream = 8, priority = 12, flag = 16;
};
}  // namespace offset

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_RECORD_LAYOUT_H_

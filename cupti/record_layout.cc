// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/record_layout.h"

#include <cupti.h>

#include <cstddef>
#include <iterator>

namespace gpuprobe::cupti {
namespace {

// ---- The offsets against the real structures, as far as the headers at hand have them. ----
// CUPTI_API_VERSION 18 names 11.8 as well as 12.0, so what came with 12.0 is checked from 20
// (12.2).

#define CHECK_FIELD(type, field, at) static_assert(offsetof(type, field) == (at))

#define CHECK_KERNEL(type)                                                   \
  CHECK_FIELD(type, registersPerThread, offset::Kernel::registers);          \
  CHECK_FIELD(type, start, offset::Kernel::start);                           \
  CHECK_FIELD(type, end, offset::Kernel::end);                               \
  CHECK_FIELD(type, deviceId, offset::Kernel::device);                       \
  CHECK_FIELD(type, contextId, offset::Kernel::context);                     \
  CHECK_FIELD(type, streamId, offset::Kernel::stream);                       \
  CHECK_FIELD(type, gridX, offset::Kernel::grid_x);                          \
  CHECK_FIELD(type, gridY, offset::Kernel::grid_y);                          \
  CHECK_FIELD(type, gridZ, offset::Kernel::grid_z);                          \
  CHECK_FIELD(type, blockX, offset::Kernel::block_x);                        \
  CHECK_FIELD(type, blockY, offset::Kernel::block_y);                        \
  CHECK_FIELD(type, blockZ, offset::Kernel::block_z);                        \
  CHECK_FIELD(type, staticSharedMemory, offset::Kernel::static_shared);      \
  CHECK_FIELD(type, dynamicSharedMemory, offset::Kernel::dynamic_shared);    \
  CHECK_FIELD(type, localMemoryPerThread, offset::Kernel::local_per_thread); \
  CHECK_FIELD(type, correlationId, offset::Kernel::correlation);             \
  CHECK_FIELD(type, gridId, offset::Kernel::grid_id);                        \
  CHECK_FIELD(type, name, offset::Kernel::name);                             \
  CHECK_FIELD(type, queued, offset::Kernel::queued);                         \
  CHECK_FIELD(type, submitted, offset::Kernel::submitted);                   \
  CHECK_FIELD(type, launchType, offset::Kernel::launch_type);                \
  CHECK_FIELD(type, sharedMemoryExecuted, offset::Kernel::shared_executed);  \
  CHECK_FIELD(type, graphNodeId, offset::Kernel::graph_node_id);             \
  CHECK_FIELD(type, graphId, offset::Kernel::graph_id)

#define CHECK_KERNEL_CLUSTER(type)                        \
  CHECK_KERNEL(type);                                     \
  CHECK_FIELD(type, clusterX, offset::Kernel::cluster_x); \
  CHECK_FIELD(type, clusterY, offset::Kernel::cluster_y); \
  CHECK_FIELD(type, clusterZ, offset::Kernel::cluster_z)

#define CHECK_KERNEL_DEVICE_LAUNCH(type) \
  CHECK_KERNEL_CLUSTER(type);            \
  CHECK_FIELD(type, isDeviceLaunched, offset::Kernel::device_launched)

#define CHECK_MEMCPY(type)                                       \
  CHECK_FIELD(type, copyKind, offset::Memcpy::copy_kind);        \
  CHECK_FIELD(type, srcKind, offset::Memcpy::src_kind);          \
  CHECK_FIELD(type, dstKind, offset::Memcpy::dst_kind);          \
  CHECK_FIELD(type, flags, offset::Memcpy::flags);               \
  CHECK_FIELD(type, bytes, offset::Memcpy::bytes);               \
  CHECK_FIELD(type, start, offset::Memcpy::start);               \
  CHECK_FIELD(type, end, offset::Memcpy::end);                   \
  CHECK_FIELD(type, deviceId, offset::Memcpy::device);           \
  CHECK_FIELD(type, contextId, offset::Memcpy::context);         \
  CHECK_FIELD(type, streamId, offset::Memcpy::stream);           \
  CHECK_FIELD(type, correlationId, offset::Memcpy::correlation); \
  CHECK_FIELD(type, graphNodeId, offset::Memcpy::graph_node_id); \
  CHECK_FIELD(type, graphId, offset::Memcpy::graph_id)

#define CHECK_MEMSET(type)                                       \
  CHECK_FIELD(type, value, offset::Memset::value);               \
  CHECK_FIELD(type, bytes, offset::Memset::bytes);               \
  CHECK_FIELD(type, start, offset::Memset::start);               \
  CHECK_FIELD(type, end, offset::Memset::end);                   \
  CHECK_FIELD(type, deviceId, offset::Memset::device);           \
  CHECK_FIELD(type, contextId, offset::Memset::context);         \
  CHECK_FIELD(type, streamId, offset::Memset::stream);           \
  CHECK_FIELD(type, correlationId, offset::Memset::correlation); \
  CHECK_FIELD(type, flags, offset::Memset::flags);               \
  CHECK_FIELD(type, memoryKind, offset::Memset::memory_kind);    \
  CHECK_FIELD(type, graphNodeId, offset::Memset::graph_node_id); \
  CHECK_FIELD(type, graphId, offset::Memset::graph_id)

#define CHECK_GRAPH_TRACE(type)                                      \
  CHECK_FIELD(type, correlationId, offset::GraphTrace::correlation); \
  CHECK_FIELD(type, start, offset::GraphTrace::start);               \
  CHECK_FIELD(type, end, offset::GraphTrace::end);                   \
  CHECK_FIELD(type, deviceId, offset::GraphTrace::device);           \
  CHECK_FIELD(type, graphId, offset::GraphTrace::graph_id);          \
  CHECK_FIELD(type, contextId, offset::GraphTrace::context);         \
  CHECK_FIELD(type, streamId, offset::GraphTrace::stream)

#define CHECK_SYNCHRONIZATION(synchronization)                                       \
  CHECK_FIELD(synchronization, type, offset::Synchronization::type);                 \
  CHECK_FIELD(synchronization, start, offset::Synchronization::start);               \
  CHECK_FIELD(synchronization, end, offset::Synchronization::end);                   \
  CHECK_FIELD(synchronization, correlationId, offset::Synchronization::correlation); \
  CHECK_FIELD(synchronization, contextId, offset::Synchronization::context);         \
  CHECK_FIELD(synchronization, streamId, offset::Synchronization::stream);           \
  CHECK_FIELD(synchronization, cudaEventId, offset::Synchronization::event)

#define CHECK_CUDA_EVENT(type)                                      \
  CHECK_FIELD(type, correlationId, offset::CudaEvent::correlation); \
  CHECK_FIELD(type, contextId, offset::CudaEvent::context);         \
  CHECK_FIELD(type, streamId, offset::CudaEvent::stream);           \
  CHECK_FIELD(type, eventId, offset::CudaEvent::event)

#define CHECK_OVERHEAD(type)                                    \
  CHECK_FIELD(type, overheadKind, offset::Overhead::kind);      \
  CHECK_FIELD(type, objectKind, offset::Overhead::object_kind); \
  CHECK_FIELD(type, objectId, offset::Overhead::object_id);     \
  CHECK_FIELD(type, start, offset::Overhead::start);            \
  CHECK_FIELD(type, end, offset::Overhead::end)

#define CHECK_DEVICE(type)                                                    \
  CHECK_FIELD(type, globalMemoryBandwidth, offset::Device::memory_bandwidth); \
  CHECK_FIELD(type, globalMemorySize, offset::Device::memory_bytes);          \
  CHECK_FIELD(type, coreClockRate, offset::Device::core_clock);               \
  CHECK_FIELD(type, numMultiprocessors, offset::Device::sm_count);            \
  CHECK_FIELD(type, computeCapabilityMajor, offset::Device::compute_major);   \
  CHECK_FIELD(type, computeCapabilityMinor, offset::Device::compute_minor);   \
  CHECK_FIELD(type, id, offset::Device::id);                                  \
  CHECK_FIELD(type, uuid, offset::Device::uuid);                              \
  CHECK_FIELD(type, name, offset::Device::name);                              \
  CHECK_FIELD(type, isMigEnabled, offset::Device::mig_enabled);               \
  CHECK_FIELD(type, migUuid, offset::Device::mig_uuid)

#define CHECK_CONTEXT(type)                               \
  CHECK_FIELD(type, contextId, offset::Context::context); \
  CHECK_FIELD(type, deviceId, offset::Context::device);   \
  CHECK_FIELD(type, nullStreamId, offset::Context::null_stream)

CHECK_KERNEL(CUpti_ActivityKernel7);
CHECK_KERNEL_CLUSTER(CUpti_ActivityKernel8);
CHECK_MEMCPY(CUpti_ActivityMemcpy5);
CHECK_MEMSET(CUpti_ActivityMemset4);
CHECK_GRAPH_TRACE(CUpti_ActivityGraphTrace);
CHECK_SYNCHRONIZATION(CUpti_ActivitySynchronization);
CHECK_CUDA_EVENT(CUpti_ActivityCudaEvent);
CHECK_OVERHEAD(CUpti_ActivityOverhead);
CHECK_DEVICE(CUpti_ActivityDevice4);
CHECK_CONTEXT(CUpti_ActivityContext);

CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, copyKind, offset::MemcpyPtoP::copy_kind);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, srcKind, offset::MemcpyPtoP::src_kind);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, dstKind, offset::MemcpyPtoP::dst_kind);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, flags, offset::MemcpyPtoP::flags);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, bytes, offset::MemcpyPtoP::bytes);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, start, offset::MemcpyPtoP::start);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, end, offset::MemcpyPtoP::end);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, deviceId, offset::MemcpyPtoP::device);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, contextId, offset::MemcpyPtoP::context);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, streamId, offset::MemcpyPtoP::stream);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, srcDeviceId, offset::MemcpyPtoP::src_device);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, srcContextId, offset::MemcpyPtoP::src_context);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, dstDeviceId, offset::MemcpyPtoP::dst_device);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, dstContextId, offset::MemcpyPtoP::dst_context);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, correlationId, offset::MemcpyPtoP::correlation);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, graphNodeId, offset::MemcpyPtoP::graph_node_id);
CHECK_FIELD(CUpti_ActivityMemcpyPtoP4, graphId, offset::MemcpyPtoP::graph_id);

CHECK_FIELD(CUpti_ActivityAPI, cbid, offset::Api::cbid);
CHECK_FIELD(CUpti_ActivityAPI, start, offset::Api::start);
CHECK_FIELD(CUpti_ActivityAPI, end, offset::Api::end);
CHECK_FIELD(CUpti_ActivityAPI, processId, offset::Api::process);
CHECK_FIELD(CUpti_ActivityAPI, threadId, offset::Api::thread);
CHECK_FIELD(CUpti_ActivityAPI, correlationId, offset::Api::correlation);
CHECK_FIELD(CUpti_ActivityAPI, returnValue, offset::Api::result);

CHECK_FIELD(CUpti_ActivityStream, contextId, offset::Stream::context);
CHECK_FIELD(CUpti_ActivityStream, streamId, offset::Stream::stream);
CHECK_FIELD(CUpti_ActivityStream, priority, offset::Stream::priority);
CHECK_FIELD(CUpti_ActivityStream, flag, offset::Stream::flag);

CHECK_FIELD(CUpti_ActivityMarker2, flags, offset::Marker::flags);
CHECK_FIELD(CUpti_ActivityMarker2, timestamp, offset::Marker::time);
CHECK_FIELD(CUpti_ActivityMarker2, id, offset::Marker::id);
CHECK_FIELD(CUpti_ActivityMarker2, objectKind, offset::Marker::object_kind);
CHECK_FIELD(CUpti_ActivityMarker2, objectId, offset::Marker::object_id);
CHECK_FIELD(CUpti_ActivityMarker2, name, offset::Marker::name);
CHECK_FIELD(CUpti_ActivityMarker2, domain, offset::Marker::domain);

CHECK_KERNEL_CLUSTER(CUpti_ActivityKernel9);
CHECK_DEVICE(CUpti_ActivityDevice5);
static_assert(sizeof(CUpti_ActivityKernel9) == 208);
static_assert(sizeof(CUpti_ActivityDevice5) == 184);
CHECK_GRAPH_TRACE(CUpti_ActivityGraphTrace2);
CHECK_FIELD(CUpti_ActivityGraphTrace2, endDeviceId, offset::GraphTrace::end_device);
CHECK_OVERHEAD(CUpti_ActivityOverhead2);
CHECK_FIELD(CUpti_ActivityOverhead2, correlationId, offset::Overhead::correlation);
static_assert(sizeof(CUpti_ActivityGraphTrace2) == 56);
static_assert(sizeof(CUpti_ActivityOverhead2) == 48);
CHECK_OVERHEAD(CUpti_ActivityOverhead3);
CHECK_FIELD(CUpti_ActivityOverhead3, correlationId, offset::Overhead::correlation);
CHECK_CONTEXT(CUpti_ActivityContext2);
static_assert(sizeof(CUpti_ActivityOverhead3) == 56);
static_assert(sizeof(CUpti_ActivityContext2) == 24);
CHECK_CONTEXT(CUpti_ActivityContext3);
static_assert(sizeof(CUpti_ActivityContext3) == 32);
CHECK_MEMCPY(CUpti_ActivityMemcpy6);
CHECK_SYNCHRONIZATION(CUpti_ActivitySynchronization2);
CHECK_FIELD(CUpti_ActivitySynchronization2, cudaEventSyncId,
            offset::Synchronization::event_sync_id);
CHECK_FIELD(CUpti_ActivitySynchronization2, returnValue, offset::Synchronization::result);
CHECK_CUDA_EVENT(CUpti_ActivityCudaEvent2);
CHECK_FIELD(CUpti_ActivityCudaEvent2, cudaEventSyncId, offset::CudaEvent::event_sync_id);
static_assert(sizeof(CUpti_ActivityMemcpy6) == 96);
static_assert(sizeof(CUpti_ActivitySynchronization2) == 56);
static_assert(sizeof(CUpti_ActivityCudaEvent2) == 56);
CHECK_KERNEL_DEVICE_LAUNCH(CUpti_ActivityKernel10);
CHECK_FIELD(CUpti_ActivityMemcpy6, isDeviceLaunched, offset::Memcpy::device_launched);
CHECK_FIELD(CUpti_ActivityMemset4, isDeviceLaunched, offset::Memset::device_launched);
static_assert(sizeof(CUpti_ActivityKernel10) == 216);
#if CUPTI_API_VERSION >= 130100
CHECK_KERNEL_DEVICE_LAUNCH(CUpti_ActivityKernel11);
CHECK_CONTEXT(CUpti_ActivityContext4);
static_assert(sizeof(CUpti_ActivityKernel11) == 224);
static_assert(sizeof(CUpti_ActivityContext4) == 40);
#endif
#if CUPTI_API_VERSION >= 130200
CHECK_DEVICE(CUpti_ActivityDevice6);
static_assert(sizeof(CUpti_ActivityDevice6) == 192);
#endif
#if CUPTI_API_VERSION >= 130300
CHECK_KERNEL_DEVICE_LAUNCH(CUpti_ActivityKernel12);
static_assert(sizeof(CUpti_ActivityKernel12) == 232);
#endif
#if CUPTI_API_VERSION >= 130400
CHECK_KERNEL_DEVICE_LAUNCH(CUpti_ActivityKernel13);
CHECK_MEMCPY(CUpti_ActivityMemcpy7);
CHECK_MEMSET(CUpti_ActivityMemset5);
static_assert(sizeof(CUpti_ActivityKernel13) == 248);
static_assert(sizeof(CUpti_ActivityMemcpy7) == 112);
static_assert(sizeof(CUpti_ActivityMemset5) == 104);
#endif
#if CUPTI_API_VERSION >= 130500
CHECK_CUDA_EVENT(CUpti_ActivityCudaEvent3);
CHECK_FIELD(CUpti_ActivityCudaEvent3, cudaEventSyncId, offset::CudaEvent::event_sync_id);
static_assert(sizeof(CUpti_ActivityCudaEvent3) == 80);
#endif

static_assert(sizeof(CUpti_ActivityKernel7) == 176 && sizeof(CUpti_ActivityKernel8) == 200);
static_assert(sizeof(CUpti_ActivityMemcpy5) == 88 && sizeof(CUpti_ActivityMemcpyPtoP4) == 96);
static_assert(sizeof(CUpti_ActivityMemset4) == 88 && sizeof(CUpti_ActivityGraphTrace) == 48);
static_assert(sizeof(CUpti_ActivityAPI) == 40 && sizeof(CUpti_ActivityStream) == 24);
static_assert(sizeof(CUpti_ActivitySynchronization) == 40 && sizeof(CUpti_ActivityCudaEvent) == 24);
static_assert(sizeof(CUpti_ActivityOverhead) == 40 && sizeof(CUpti_ActivityContext) == 16);
static_assert(sizeof(CUpti_ActivityDevice4) == 176 &&
              sizeof(CUpti_ActivityExternalCorrelation) == 24);

constexpr uint16_t Minimum(Kind kind) {
  return layout_internal::kMinimumSizes.bytes[static_cast<uint32_t>(kind)];
}
static_assert(Minimum(Kind::kKernel) == sizeof(CUpti_ActivityKernel7) &&
              Minimum(Kind::kConcurrentKernel) == sizeof(CUpti_ActivityKernel7) &&
              Minimum(Kind::kMemcpy) == sizeof(CUpti_ActivityMemcpy5) &&
              Minimum(Kind::kMemcpy2) == sizeof(CUpti_ActivityMemcpyPtoP4) &&
              Minimum(Kind::kMemset) == sizeof(CUpti_ActivityMemset4) &&
              Minimum(Kind::kGraphTrace) == sizeof(CUpti_ActivityGraphTrace) &&
              Minimum(Kind::kRuntime) == sizeof(CUpti_ActivityAPI) &&
              Minimum(Kind::kDriver) == sizeof(CUpti_ActivityAPI) &&
              Minimum(Kind::kSynchronization) == sizeof(CUpti_ActivitySynchronization) &&
              Minimum(Kind::kCudaEvent) == sizeof(CUpti_ActivityCudaEvent) &&
              Minimum(Kind::kOverhead) == sizeof(CUpti_ActivityOverhead) &&
              Minimum(Kind::kDevice) == sizeof(CUpti_ActivityDevice4) &&
              Minimum(Kind::kContext) == sizeof(CUpti_ActivityContext) &&
              Minimum(Kind::kStream) == sizeof(CUpti_ActivityStream) &&
              Minimum(Kind::kMarker) == sizeof(CUpti_ActivityMarker2));

static_assert(static_cast<int>(Kind::kMemcpy) == CUPTI_ACTIVITY_KIND_MEMCPY &&
              static_cast<int>(Kind::kMemset) == CUPTI_ACTIVITY_KIND_MEMSET &&
              static_cast<int>(Kind::kKernel) == CUPTI_ACTIVITY_KIND_KERNEL &&
              static_cast<int>(Kind::kDriver) == CUPTI_ACTIVITY_KIND_DRIVER &&
              static_cast<int>(Kind::kRuntime) == CUPTI_ACTIVITY_KIND_RUNTIME &&
              static_cast<int>(Kind::kDevice) == CUPTI_ACTIVITY_KIND_DEVICE &&
              static_cast<int>(Kind::kContext) == CUPTI_ACTIVITY_KIND_CONTEXT &&
              static_cast<int>(Kind::kMarker) == CUPTI_ACTIVITY_KIND_MARKER &&
              static_cast<int>(Kind::kConcurrentKernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
              static_cast<int>(Kind::kOverhead) == CUPTI_ACTIVITY_KIND_OVERHEAD &&
              static_cast<int>(Kind::kMemcpy2) == CUPTI_ACTIVITY_KIND_MEMCPY2 &&
              static_cast<int>(Kind::kCudaEvent) == CUPTI_ACTIVITY_KIND_CUDA_EVENT &&
              static_cast<int>(Kind::kStream) == CUPTI_ACTIVITY_KIND_STREAM &&
              static_cast<int>(Kind::kSynchronization) == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION &&
              static_cast<int>(Kind::kExternalCorrelation) ==
                  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION &&
              static_cast<int>(Kind::kInternalLaunchApi) ==
                  CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API &&
              static_cast<int>(Kind::kGraphTrace) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

// ---- Sizes by version ----

struct VersionSizes {
  uint32_t version;
  const char* name;
  uint16_t kernel, memcpy, memset, graph_trace, device, context, overhead, cuda_event,
      synchronization;
};

// Oldest first; each row holds up to the next. The second row with version 18 is 12.0/12.1, which
// only MeasureRecordSizes can tell from 11.8: by number alone the first one is taken.
constexpr VersionSizes kVersions[] = {
    {17, "CUPTI 11.7", 176, 88, 88, 48, 176, 16, 40, 24, 40},
    {18, "CUPTI 11.8", 200, 88, 88, 48, 176, 16, 40, 24, 40},
    {19, "CUPTI 12.0", 208, 88, 88, 48, 176, 16, 40, 24, 40},
    {20, "CUPTI 12.2", 208, 88, 88, 48, 184, 16, 40, 24, 40},
    {21, "CUPTI 12.3", 208, 88, 88, 56, 184, 16, 48, 24, 40},
    {22, "CUPTI 12.4", 208, 88, 88, 56, 184, 24, 56, 24, 40},
    {23, "CUPTI 12.5", 208, 88, 88, 56, 184, 32, 56, 24, 40},
    {26, "CUPTI 12.8", 208, 96, 88, 56, 184, 32, 56, 56, 56},
    {130000, "CUPTI 13.0", 216, 96, 88, 56, 184, 32, 56, 56, 56},
    {130100, "CUPTI 13.1", 224, 96, 88, 56, 184, 40, 56, 56, 56},
    {130200, "CUPTI 13.2", 224, 96, 88, 56, 192, 40, 56, 56, 56},
    {130300, "CUPTI 13.3", 232, 96, 88, 56, 192, 40, 56, 56, 56},
    {130400, "CUPTI 13.4", 248, 112, 104, 56, 192, 40, 56, 56, 56},
    {130500, "CUPTI 13.5", 248, 112, 104, 56, 192, 40, 56, 80, 56},
};

constexpr uint32_t kFirstVersionWithDeviceLaunchOfCopies = 130000;

uint16_t* SizeOf(RecordLayout* layout, Kind kind) {
  return &layout->size_bytes[static_cast<uint32_t>(kind)];
}

// Room for two records of any kind: the largest known has 248 bytes.
constexpr size_t kProbeWords = 256;

// The distance of the first two records in a buffer that reads as `kind` wherever a record may
// begin.
uint16_t MeasureRecordSize(const CuptiApi* api, uint32_t kind) {
  alignas(16) uint32_t words[kProbeWords];
  for (uint32_t& word : words) word = kind;
  uint8_t* buffer = reinterpret_cast<uint8_t*>(words);
  void* record = nullptr;
  if (api->ActivityGetNextRecord(buffer, sizeof(words), &record) != kSuccess || record != buffer) {
    return 0;
  }
  if (api->ActivityGetNextRecord(buffer, sizeof(words), &record) != kSuccess) return 0;
  const size_t size = static_cast<size_t>(static_cast<uint8_t*>(record) - buffer);
  const bool plausible =
      size >= kRecordAlignment_bytes && size < sizeof(words) && size % kRecordAlignment_bytes == 0;
  return plausible ? static_cast<uint16_t>(size) : 0;
}

}  // namespace

bool KnownLayout(uint32_t cupti_version, RecordLayout* layout) {
  const VersionSizes* found = nullptr;
  for (const VersionSizes& row : kVersions) {
    if (cupti_version >= row.version) found = &row;
  }
  if (found == nullptr) return false;
  *layout = RecordLayout{};
  layout->version = found->version;
  layout->name = found->name;
  layout->copies_tell_device_launch = cupti_version >= kFirstVersionWithDeviceLaunchOfCopies;
  *SizeOf(layout, Kind::kKernel) = found->kernel;
  *SizeOf(layout, Kind::kConcurrentKernel) = found->kernel;
  *SizeOf(layout, Kind::kMemcpy) = found->memcpy;
  *SizeOf(layout, Kind::kMemset) = found->memset;
  *SizeOf(layout, Kind::kGraphTrace) = found->graph_trace;
  *SizeOf(layout, Kind::kDevice) = found->device;
  *SizeOf(layout, Kind::kContext) = found->context;
  *SizeOf(layout, Kind::kOverhead) = found->overhead;
  *SizeOf(layout, Kind::kCudaEvent) = found->cuda_event;
  *SizeOf(layout, Kind::kSynchronization) = found->synchronization;
  // The same in every version.
  *SizeOf(layout, Kind::kMemcpy2) = sizeof(CUpti_ActivityMemcpyPtoP4);
  *SizeOf(layout, Kind::kRuntime) = sizeof(CUpti_ActivityAPI);
  *SizeOf(layout, Kind::kDriver) = sizeof(CUpti_ActivityAPI);
  *SizeOf(layout, Kind::kInternalLaunchApi) = sizeof(CUpti_ActivityAPI);
  *SizeOf(layout, Kind::kStream) = sizeof(CUpti_ActivityStream);
  *SizeOf(layout, Kind::kMarker) = sizeof(CUpti_ActivityMarker2);
  *SizeOf(layout, Kind::kExternalCorrelation) = sizeof(CUpti_ActivityExternalCorrelation);
  return true;
}

uint32_t MeasureRecordSizes(const CuptiApi* api, RecordLayout* layout) {
  if (api == nullptr || api->ActivityGetNextRecord == nullptr) return 0;
  uint32_t measured = 0;
  for (uint32_t kind = 1; kind < kKindLimit; ++kind) {
    const uint16_t size = MeasureRecordSize(api, kind);
    if (size == 0) continue;
    layout->size_bytes[kind] = size;
    ++measured;
  }
  const uint16_t kernel = *SizeOf(layout, Kind::kConcurrentKernel);
  if (layout->version == 18 && kernel == 208) layout->name = "CUPTI 12.0 or 12.1";
  return measured;
}

}  // namespace gpuprobe::cupti

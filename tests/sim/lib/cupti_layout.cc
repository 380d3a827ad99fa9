// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/cupti_layout.h"

#include <cupti.h>

#include <cstdlib>

namespace gpuprobe::sim {
namespace {

// "Older is a prefix of newer": the last field of the older structure lies where the newer one has
// it.
#define ASSERT_PREFIX(older, newer, last_field)                              \
  static_assert(offsetof(older, last_field) == offsetof(newer, last_field)); \
  static_assert(sizeof(older) <= sizeof(newer))
ASSERT_PREFIX(CUpti_ActivityKernel8, CUpti_ActivityKernel10, localMemoryTotal_v2);
ASSERT_PREFIX(CUpti_ActivityKernel9, CUpti_ActivityKernel10, maxActiveClusters);
ASSERT_PREFIX(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6, channelType);
ASSERT_PREFIX(CUpti_ActivitySynchronization, CUpti_ActivitySynchronization2, cudaEventId);
ASSERT_PREFIX(CUpti_ActivityCudaEvent, CUpti_ActivityCudaEvent2, eventId);
ASSERT_PREFIX(CUpti_ActivityOverhead, CUpti_ActivityOverhead3, end);
ASSERT_PREFIX(CUpti_ActivityDevice4, CUpti_ActivityDevice5, migUuid);
ASSERT_PREFIX(CUpti_ActivityContext, CUpti_ActivityContext3, nullStreamId);
ASSERT_PREFIX(CUpti_ActivityGraphTrace, CUpti_ActivityGraphTrace2, reserved);
static_assert(sizeof(CUpti_ActivityKernel10) == 216 && sizeof(CUpti_ActivityMemcpy6) == 96 &&
              sizeof(CUpti_ActivityMemset4) == 88 && sizeof(CUpti_ActivityAPI) == 40 &&
              sizeof(CUpti_ActivitySynchronization2) == 56);

// Which structure a version delivers: the newest in the header of that toolkit
// (11.8.87, 12.8.90, 13.0).
constexpr Layout kLayouts[] = {
    {18, sizeof(CUpti_ActivityKernel8), sizeof(CUpti_ActivityMemcpy5),
     sizeof(CUpti_ActivitySynchronization), sizeof(CUpti_ActivityCudaEvent),
     sizeof(CUpti_ActivityOverhead), sizeof(CUpti_ActivityDevice4), sizeof(CUpti_ActivityContext),
     sizeof(CUpti_ActivityGraphTrace), false, false},
    {26, sizeof(CUpti_ActivityKernel9), sizeof(CUpti_ActivityMemcpy6),
     sizeof(CUpti_ActivitySynchronization2), sizeof(CUpti_ActivityCudaEvent2),
     sizeof(CUpti_ActivityOverhead3), sizeof(CUpti_ActivityDevice5), sizeof(CUpti_ActivityContext3),
     sizeof(CUpti_ActivityGraphTrace2), false, false},
    {28, sizeof(CUpti_ActivityKernel9), sizeof(CUpti_ActivityMemcpy6),
     sizeof(CUpti_ActivitySynchronization2), sizeof(CUpti_ActivityCudaEvent2),
     sizeof(CUpti_ActivityOverhead3), sizeof(CUpti_ActivityDevice5), sizeof(CUpti_ActivityContext3),
     sizeof(CUpti_ActivityGraphTrace2), false, true},
    {130001, sizeof(CUpti_ActivityKernel10), sizeof(CUpti_ActivityMemcpy6),
     sizeof(CUpti_ActivitySynchronization2), sizeof(CUpti_ActivityCudaEvent2),
     sizeof(CUpti_ActivityOverhead3), sizeof(CUpti_ActivityDevice5), sizeof(CUpti_ActivityContext3),
     sizeof(CUpti_ActivityGraphTrace2), true, true},
};

// A version in between has the layout of the last one not newer than it, but answers with its own
// number.
Layout Choose() {
  const char* text = getenv("GPUSIM_CUPTI_VERSION");
  const uint32_t wanted = text != nullptr && *text != '\0'
                              ? static_cast<uint32_t>(strtoul(text, nullptr, 10))
                              : kDefaultCuptiVersion;
  Layout chosen = kLayouts[0];
  for (const Layout& layout : kLayouts) {
    if (layout.version <= wanted) chosen = layout;
  }
  chosen.version = wanted;
  return chosen;
}

}  // namespace

const Layout& CurrentLayout() {
  static const Layout* layout = new Layout(Choose());  // process lifetime
  return *layout;
}

size_t RecordBytes(uint32_t kind) {
  const Layout& l = CurrentLayout();
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      return l.kernel_bytes;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return l.copy_bytes;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return l.sync_bytes;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return l.event_bytes;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return l.overhead_bytes;
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return l.device_bytes;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return l.context_bytes;
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return l.graph_bytes;
    case kUnknownKind:
      return kUnknownKindBytes;
    default:
      return 0;
  }
}

bool TimesOf(uint32_t kind, TimeFields* out) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      *out = {offsetof(CUpti_ActivityKernel10, start), offsetof(CUpti_ActivityKernel10, end), true};
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      *out = {offsetof(CUpti_ActivityMemcpy6, start), offsetof(CUpti_ActivityMemcpy6, end), true};
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      *out = {offsetof(CUpti_ActivityMemcpyPtoP4, start), offsetof(CUpti_ActivityMemcpyPtoP4, end),
              true};
      return true;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      *out = {offsetof(CUpti_ActivityMemset4, start), offsetof(CUpti_ActivityMemset4, end), true};
      return true;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      *out = {offsetof(CUpti_ActivityGraphTrace2, start), offsetof(CUpti_ActivityGraphTrace2, end),
              true};
      return true;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      *out = {offsetof(CUpti_ActivitySynchronization2, start),
              offsetof(CUpti_ActivitySynchronization2, end), false};
      return true;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      *out = {offsetof(CUpti_ActivityOverhead3, start), offsetof(CUpti_ActivityOverhead3, end),
              false};
      return true;
    default:
      return false;  // API records carry the registered clock from the start
  }
}

}  // namespace gpuprobe::sim

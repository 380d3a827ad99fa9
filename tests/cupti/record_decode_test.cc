// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The fields of each kind of record, as each CUPTI version writes them.
#include "cupti/record_decode.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "cupti/record_decode_inl.h"
#include "tests/cupti/keeping_sink.h"
#include "tests/cupti/made_records.h"

namespace gpuprobe::cupti {
namespace {

TEST(RecordDecode, KernelOf117HasNoCluster) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel7>());
  const Decoded decoded = Decode(buffer, 17);
  ASSERT_EQ(decoded.sink.kernels.size(), 1u);
  ExpectKernelFields(decoded.sink.kernels[0]);
  EXPECT_EQ(decoded.sink.kernels[0].cluster_x, 0u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
}

TEST(RecordDecode, KernelOf118HasClusterAndNoDeviceLaunch) {
  auto kernel = MakeKernel<CUpti_ActivityKernel8>();
  kernel.clusterX = 2;
  kernel.clusterY = 4;
  kernel.clusterZ = 8;
  Buffer buffer;
  buffer.Add(kernel).Add(kernel);
  const Decoded decoded = Decode(buffer, kCuda118);
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  for (const KernelRecord& k : decoded.sink.kernels) {
    ExpectKernelFields(k);
    EXPECT_EQ(k.cluster_x, 2u);
    EXPECT_EQ(k.cluster_y, 4u);
    EXPECT_EQ(k.cluster_z, 8u);
    EXPECT_FALSE(k.device_launched);
  }
}

TEST(RecordDecode, KernelOf128HasNoDeviceLaunch) {
  auto kernel = MakeKernel<CUpti_ActivityKernel9>();
  kernel.clusterX = 2;
  Buffer buffer;
  buffer.Add(kernel).Add(kernel);
  const Decoded decoded = Decode(buffer, kCuda128);
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  ExpectKernelFields(decoded.sink.kernels[1]);
  EXPECT_EQ(decoded.sink.kernels[1].cluster_x, 2u);
  EXPECT_FALSE(decoded.sink.kernels[1].device_launched);
}

TEST(RecordDecode, KernelsFrom130TellDeviceLaunch) {
  struct {
    uint32_t version;
    size_t size;
  } const cases[] = {{130000, 216}, {130001, 216}, {130100, 224}, {130200, 224},
                     {130301, 232}, {130401, 248}, {130500, 248}, {140000, 248}};
  for (const auto& c : cases) {
    auto kernel = MakeKernel<CUpti_ActivityKernel10>();
    kernel.isDeviceLaunched = 1;
    Buffer buffer;
    buffer.Add(kernel, c.size).Add(kernel, c.size);
    const Decoded decoded = Decode(buffer, c.version);
    ASSERT_EQ(decoded.sink.kernels.size(), 2u) << c.version;
    ExpectKernelFields(decoded.sink.kernels[1]);
    EXPECT_TRUE(decoded.sink.kernels[1].device_launched);
    EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
  }
}

void ExpectCopyFields(const CopyRecord& c) {
  EXPECT_FALSE(c.peer);
  EXPECT_EQ(c.copy_kind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT_EQ(c.src_kind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(c.dst_kind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(c.flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  EXPECT_EQ(c.bytes, 5'000'000'000ull);
  EXPECT_EQ(c.start_ns, static_cast<int64_t>(kStart));
  EXPECT_EQ(c.end_ns, static_cast<int64_t>(kStart) + 9);
  EXPECT_EQ(c.device, 1u);
  EXPECT_EQ(c.context, 2u);
  EXPECT_EQ(c.stream, 3u);
  EXPECT_EQ(c.correlation, 4u);
  EXPECT_EQ(c.graph_node_id, 5u);
  EXPECT_EQ(c.graph_id, 6u);
  EXPECT_EQ(c.src_device, kInvalidId);
}

TEST(RecordDecode, CopyPaddingBefore130IsNotReadAsDeviceLaunch) {
  auto copy5 = MakeCopy<CUpti_ActivityMemcpy5>();
  memset(reinterpret_cast<uint8_t*>(&copy5) + 84, 0xff, 4);
  Buffer buffer;
  buffer.Add(copy5).Add(copy5);
  const Decoded decoded = Decode(buffer, kCuda118);
  ASSERT_EQ(decoded.sink.copies.size(), 2u);
  ExpectCopyFields(decoded.sink.copies[1]);
  EXPECT_FALSE(decoded.sink.copies[1].device_launched);
}

TEST(RecordDecode, CopiesOf128And130And134) {
  auto copy6 = MakeCopy<CUpti_ActivityMemcpy6>();
  copy6.isDeviceLaunched = 1;
  struct {
    uint32_t version;
    size_t size;
    bool device_launched;
  } const cases[] = {
      {kCuda128, 96, false}, {28, 96, false}, {kCuda130, 96, true}, {130400, 112, true}};
  for (const auto& c : cases) {
    Buffer buffer;
    buffer.Add(copy6, c.size).Add(copy6, c.size);
    const Decoded decoded = Decode(buffer, c.version);
    ASSERT_EQ(decoded.sink.copies.size(), 2u) << c.version;
    ExpectCopyFields(decoded.sink.copies[1]);
    EXPECT_EQ(decoded.sink.copies[1].device_launched, c.device_launched) << c.version;
  }
}

TEST(RecordDecode, PeerCopyKeepsBothEnds) {
  CUpti_ActivityMemcpyPtoP4 c;
  memset(&c, 0, sizeof(c));
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  c.srcKind = c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  c.bytes = 77;
  c.start = kStart;
  c.end = kStart + 1;
  c.deviceId = 1;
  c.contextId = 2;
  c.streamId = 3;
  c.srcDeviceId = 10;
  c.srcContextId = 11;
  c.dstDeviceId = 12;
  c.dstContextId = 13;
  c.correlationId = 14;
  c.graphNodeId = 15;
  c.graphId = 16;
  Buffer buffer;
  buffer.Add(c);
  const Decoded decoded = Decode(buffer, kCuda130);
  ASSERT_EQ(decoded.sink.copies.size(), 1u);
  const CopyRecord& copy = decoded.sink.copies[0];
  EXPECT_TRUE(copy.peer);
  EXPECT_EQ(copy.copy_kind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  EXPECT_EQ(copy.bytes, 77u);
  EXPECT_EQ(copy.src_device, 10u);
  EXPECT_EQ(copy.src_context, 11u);
  EXPECT_EQ(copy.dst_device, 12u);
  EXPECT_EQ(copy.dst_context, 13u);
  EXPECT_EQ(copy.correlation, 14u);
  EXPECT_EQ(copy.graph_node_id, 15u);
  EXPECT_EQ(copy.graph_id, 16u);
}

TEST(RecordDecode, Memset) {
  CUpti_ActivityMemset4 s;
  memset(&s, 0, sizeof(s));
  s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  s.value = 0xab;
  s.bytes = 1ull << 33;
  s.start = kStart;
  s.end = kStart + 3;
  s.deviceId = 1;
  s.contextId = 2;
  s.streamId = 3;
  s.correlationId = 4;
  s.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  s.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  s.graphNodeId = 5;
  s.graphId = 6;
  for (const uint32_t version : {kCuda118, kCuda130, 130400u}) {
    Buffer buffer;
    const size_t size = version >= 130400 ? 104 : 88;
    buffer.Add(s, size).Add(s, size);
    const Decoded decoded = Decode(buffer, version);
    ASSERT_EQ(decoded.sink.sets.size(), 2u);
    const SetRecord& set = decoded.sink.sets[1];
    EXPECT_EQ(set.value, 0xabu);
    EXPECT_EQ(set.bytes, 1ull << 33);
    EXPECT_EQ(set.end_ns - set.start_ns, 3);
    EXPECT_EQ(set.flags, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
    EXPECT_EQ(set.memory_kind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    EXPECT_EQ(set.device, 1u);
    EXPECT_EQ(set.context, 2u);
    EXPECT_EQ(set.stream, 3u);
    EXPECT_EQ(set.correlation, 4u);
    EXPECT_EQ(set.graph_node_id, 5u);
    EXPECT_EQ(set.graph_id, 6u);
    EXPECT_FALSE(set.device_launched);
  }
}

TEST(RecordDecode, GraphTraceTellsTheEndDeviceFrom123) {
  CUpti_ActivityGraphTrace old_graph;
  memset(&old_graph, 0, sizeof(old_graph));
  old_graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  old_graph.correlationId = 1;
  old_graph.start = kStart;
  old_graph.end = kStart + 4;
  old_graph.deviceId = 2;
  old_graph.graphId = 3;
  old_graph.contextId = 4;
  old_graph.streamId = 5;
  Buffer old_buffer;
  old_buffer.Add(old_graph).Add(old_graph);
  const Decoded before = Decode(old_buffer, kCuda122);
  ASSERT_EQ(before.sink.graphs.size(), 2u);
  EXPECT_EQ(before.sink.graphs[1].correlation, 1u);
  EXPECT_EQ(before.sink.graphs[1].device, 2u);
  EXPECT_EQ(before.sink.graphs[1].graph_id, 3u);
  EXPECT_EQ(before.sink.graphs[1].context, 4u);
  EXPECT_EQ(before.sink.graphs[1].stream, 5u);
  EXPECT_EQ(before.sink.graphs[1].end_device, kInvalidId);
  CUpti_ActivityGraphTrace2 graph;
  memset(&graph, 0, sizeof(graph));
  memcpy(&graph, &old_graph, sizeof(old_graph));
  graph.endDeviceId = 6;
  Buffer buffer;
  buffer.Add(graph).Add(graph);
  const Decoded after = Decode(buffer, kCuda124);
  ASSERT_EQ(after.sink.graphs.size(), 2u);
  EXPECT_EQ(after.sink.graphs[1].end_device, 6u);
  EXPECT_EQ(after.sink.graphs[1].stream, 5u);
}

TEST(RecordDecode, SynchronizationKeepsInvalidIdsAndTellsTheSyncIdFrom128) {
  Buffer old_buffer;
  old_buffer.Add(MakeSync<CUpti_ActivitySynchronization>());
  old_buffer.Add(MakeSync<CUpti_ActivitySynchronization>());
  const Decoded before = Decode(old_buffer, kCuda124);
  ASSERT_EQ(before.sink.syncs.size(), 2u);
  EXPECT_EQ(before.sink.syncs[1].type, 3);
  EXPECT_EQ(before.sink.syncs[1].context, 2u);
  EXPECT_EQ(before.sink.syncs[1].stream, 3u);
  EXPECT_EQ(before.sink.syncs[1].event, kInvalidId);
  EXPECT_EQ(before.sink.syncs[1].event_sync_id, 0u);
  EXPECT_EQ(before.sink.syncs[1].result, 0);
  auto sync = MakeSync<CUpti_ActivitySynchronization2>();
  sync.cudaEventSyncId = 1ull << 40;
  sync.returnValue = 700;
  Buffer buffer;
  buffer.Add(sync).Add(sync);
  const Decoded after = Decode(buffer, kCuda128);
  ASSERT_EQ(after.sink.syncs.size(), 2u);
  EXPECT_EQ(after.sink.syncs[1].event_sync_id, 1ull << 40);
  EXPECT_EQ(after.sink.syncs[1].result, 700);
}

TEST(RecordDecode, CudaEventTellsTheSyncIdFrom128) {
  CUpti_ActivityCudaEvent event;
  memset(&event, 0, sizeof(event));
  event.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  event.correlationId = 1;
  event.contextId = 2;
  event.streamId = 3;
  event.eventId = 4;
  Buffer old_buffer;
  old_buffer.Add(event).Add(event);
  const Decoded before = Decode(old_buffer, kCuda118);
  ASSERT_EQ(before.sink.events.size(), 2u);
  EXPECT_EQ(before.sink.events[1].correlation, 1u);
  EXPECT_EQ(before.sink.events[1].context, 2u);
  EXPECT_EQ(before.sink.events[1].stream, 3u);
  EXPECT_EQ(before.sink.events[1].event, 4u);
  EXPECT_EQ(before.sink.events[1].event_sync_id, 0u);
  CUpti_ActivityCudaEvent2 event2;
  memset(&event2, 0, sizeof(event2));
  memcpy(&event2, &event, sizeof(event));
  event2.cudaEventSyncId = 99;
  for (const uint32_t version : {kCuda128, 130500u}) {
    const size_t size = version >= 130500 ? 80 : 56;
    Buffer buffer;
    buffer.Add(event2, size).Add(event2, size);
    const Decoded after = Decode(buffer, version);
    ASSERT_EQ(after.sink.events.size(), 2u);
    EXPECT_EQ(after.sink.events[1].event_sync_id, 99u);
  }
}

TEST(RecordDecode, OverheadObjectIdsAreReadByObjectKind) {
  Buffer buffer;
  buffer.Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_PROCESS))
      .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_THREAD))
      .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_DEVICE))
      .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_CONTEXT))
      .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_STREAM));
  const Decoded decoded = Decode(buffer, kCuda118);
  ASSERT_EQ(decoded.sink.overheads.size(), 5u);
  const auto& o = decoded.sink.overheads;
  EXPECT_EQ(o[0].kind, CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH);
  EXPECT_EQ(o[0].process, 21u);
  EXPECT_EQ(o[0].thread, 0u);
  EXPECT_EQ(o[0].device, kInvalidId);
  EXPECT_EQ(o[1].process, 21u);
  EXPECT_EQ(o[1].thread, 22u);
  EXPECT_EQ(o[2].process, 0u);
  EXPECT_EQ(o[2].device, 21u);
  EXPECT_EQ(o[2].context, kInvalidId);
  EXPECT_EQ(o[3].context, 22u);
  EXPECT_EQ(o[3].stream, kInvalidId);
  EXPECT_EQ(o[4].stream, 23u);
  EXPECT_EQ(o[4].end_ns - o[4].start_ns, 6);
}

TEST(RecordDecode, MarkersAreTheSameInEveryVersion) {
  const char* name = reinterpret_cast<const char*>(0x1000);
  CUpti_ActivityMarker2 mark = MakeMarker(CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, 9, name);
  mark.domain = name + 1;
  mark.objectKind = CUPTI_ACTIVITY_OBJECT_PROCESS;
  for (const uint32_t version : {17u, kCuda118, 20u, 23u, kCuda130, 130500u}) {
    Buffer buffer;
    buffer.Add(MakeMarker(CUPTI_ACTIVITY_FLAG_MARKER_START, 7, name))
        .Add(MakeMarker(CUPTI_ACTIVITY_FLAG_MARKER_END, 7, nullptr))
        .Add(mark);
    const Decoded decoded = Decode(buffer, version);
    const auto& m = decoded.sink.markers;
    ASSERT_EQ(m.size(), 3u) << version;
    EXPECT_EQ(m[0].flags, 2);
    EXPECT_EQ(m[0].time_ns, static_cast<int64_t>(kStart));
    EXPECT_EQ(m[0].id, 7u);
    EXPECT_EQ(m[0].thread, 22u);
    EXPECT_EQ(m[0].name, name);
    EXPECT_EQ(m[0].domain, nullptr);
    EXPECT_EQ(m[1].flags, 4);
    EXPECT_EQ(m[1].name, nullptr);
    EXPECT_EQ(m[2].flags, 1);
    EXPECT_EQ(m[2].thread, 0u);
    EXPECT_EQ(m[2].domain, name + 1);
  }
}

TEST(RecordDecode, MarkersWithoutATimeAreCountedAndLeftOut) {
  CUpti_ActivityMarker2 mark = MakeMarker(CUPTI_ACTIVITY_FLAG_MARKER_START, 7, nullptr);
  mark.timestamp = 0;
  Buffer buffer;
  buffer.Add(mark);
  const Decoded decoded = Decode(buffer, kCuda130);
  EXPECT_TRUE(decoded.sink.markers.empty());
  EXPECT_EQ(decoded.stats.untimed_dropped, 1u);
}

TEST(RecordDecode, OverheadHasACorrelationFrom123) {
  CUpti_ActivityOverhead3 overhead;
  memset(&overhead, 0, sizeof(overhead));
  const CUpti_ActivityOverhead old_overhead = MakeOverhead(CUPTI_ACTIVITY_OBJECT_THREAD);
  memcpy(&overhead, &old_overhead, sizeof(old_overhead));
  overhead.correlationId = 31;
  struct {
    uint32_t version;
    size_t size;
  } const cases[] = {{21, 48}, {22, 56}, {kCuda130, 56}};
  for (const auto& c : cases) {
    Buffer buffer;
    buffer.Add(overhead, c.size).Add(overhead, c.size);
    const Decoded decoded = Decode(buffer, c.version);
    ASSERT_EQ(decoded.sink.overheads.size(), 2u) << c.version;
    EXPECT_EQ(decoded.sink.overheads[1].correlation, 31u);
  }
}

TEST(RecordDecode, DeviceIsNamedByItsUuidOrByItsMigInstance) {
  CUpti_ActivityDevice4 d;
  memset(&d, 0, sizeof(d));
  d.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  d.globalMemoryBandwidth = 4'800'000'000ull;
  d.globalMemorySize = 150ull << 30;
  d.coreClockRate = 1'980'000;
  d.numMultiprocessors = 132;
  d.computeCapabilityMajor = 9;
  d.computeCapabilityMinor = 1;
  d.id = 3;
  memset(&d.uuid, 0x11, sizeof(d.uuid));
  memset(&d.migUuid, 0x22, sizeof(d.migUuid));
  d.name = reinterpret_cast<const char*>(0x1000);
  auto mig = d;
  mig.isMigEnabled = 1;
  for (const uint32_t version : {kCuda118, kCuda130, 130200u}) {
    const size_t size = version == kCuda118 ? 176 : version == kCuda130 ? 184 : 192;
    Buffer buffer;
    buffer.Add(d, size).Add(mig, size);
    const Decoded decoded = Decode(buffer, version);
    ASSERT_EQ(decoded.sink.devices.size(), 2u);
    const DeviceRecord& whole = decoded.sink.devices[0];
    EXPECT_EQ(whole.device, 3u);
    EXPECT_EQ(whole.uuid[0], 0x11);
    EXPECT_EQ(whole.uuid[15], 0x11);
    EXPECT_FALSE(whole.mig);
    EXPECT_EQ(whole.name, reinterpret_cast<const char*>(0x1000));
    EXPECT_EQ(whole.memory_bytes, 150ull << 30);
    EXPECT_EQ(whole.sm_count, 132u);
    EXPECT_EQ(whole.compute_major, 9u);
    EXPECT_EQ(whole.compute_minor, 1u);
    EXPECT_EQ(whole.memory_bandwidth_kb_s, 4'800'000'000ull);
    EXPECT_EQ(whole.core_clock_khz, 1'980'000u);
    EXPECT_TRUE(decoded.sink.devices[1].mig);
    EXPECT_EQ(decoded.sink.devices[1].uuid[7], 0x22);
  }
}

TEST(RecordDecode, ContextsOfAllSizesAndStreams) {
  CUpti_ActivityContext context;
  memset(&context, 0, sizeof(context));
  context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  context.contextId = 1;
  context.deviceId = 2;
  context.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  context.nullStreamId = 7;
  CUpti_ActivityStream stream;
  memset(&stream, 0, sizeof(stream));
  stream.kind = CUPTI_ACTIVITY_KIND_STREAM;
  stream.contextId = 1;
  stream.streamId = 13;
  stream.priority = 5;
  stream.flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  struct {
    uint32_t version;
    size_t size;
  } const cases[] = {{kCuda118, 16}, {kCuda124, 24}, {23, 32}, {kCuda130, 32}, {130100, 40}};
  for (const auto& c : cases) {
    Buffer buffer;
    buffer.Add(context, c.size).Add(stream).Add(context, c.size).Add(stream);
    const Decoded decoded = Decode(buffer, c.version);
    ASSERT_EQ(decoded.sink.contexts.size(), 2u) << c.version;
    ASSERT_EQ(decoded.sink.streams.size(), 2u) << c.version;
    EXPECT_EQ(decoded.sink.contexts[1].context, 1u);
    EXPECT_EQ(decoded.sink.contexts[1].device, 2u);
    EXPECT_EQ(decoded.sink.contexts[1].null_stream, 7u);
    EXPECT_EQ(decoded.sink.streams[1].context, 1u);
    EXPECT_EQ(decoded.sink.streams[1].stream, 13u);
    EXPECT_EQ(decoded.sink.streams[1].priority, 5u);
    EXPECT_EQ(decoded.sink.streams[1].flag, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING);
  }
}

// ---- Times ----

TEST(RecordDecode, TimingIsClassified) {
  constexpr uint64_t kSentinel = 0x8000000000000000ull;
  EXPECT_EQ(ClassifyTiming(5, 5), Timing::kValid);
  EXPECT_EQ(ClassifyTiming(5, 6), Timing::kValid);
  EXPECT_EQ(ClassifyTiming(0, 0), Timing::kMissing);
  EXPECT_EQ(ClassifyTiming(5, 0), Timing::kUnfinished);
  EXPECT_EQ(ClassifyTiming(0, 5), Timing::kInvalid);
  EXPECT_EQ(ClassifyTiming(6, 5), Timing::kInvalid);
  EXPECT_EQ(ClassifyTiming(kSentinel, kSentinel), Timing::kInvalid);
  EXPECT_EQ(ClassifyTiming(5, UINT64_MAX), Timing::kInvalid);
  EXPECT_EQ(ClassifyTiming(INT64_MAX, 0), Timing::kInvalid);
  EXPECT_EQ(ClassifyTiming(5, INT64_MAX), Timing::kInvalid);
}

TEST(RecordDecode, KernelsWithoutTimesAreHandedOverAndCounted) {
  auto valid = MakeKernel<CUpti_ActivityKernel8>();
  auto missing = valid, running = valid, sentinel = valid, reversed = valid;
  missing.start = missing.end = 0;
  running.end = 0;
  sentinel.start = sentinel.end = 0x8000000000000000ull;
  reversed.end = reversed.start - 1;
  Buffer buffer;
  buffer.Add(missing).Add(running).Add(sentinel).Add(reversed).Add(valid);
  const Decoded decoded = Decode(buffer, kCuda118);
  ASSERT_EQ(decoded.sink.kernels.size(), 5u);
  EXPECT_EQ(decoded.sink.kernels[0].timing, Timing::kMissing);
  EXPECT_EQ(decoded.sink.kernels[1].timing, Timing::kUnfinished);
  EXPECT_EQ(decoded.sink.kernels[2].timing, Timing::kInvalid);
  EXPECT_EQ(decoded.sink.kernels[3].timing, Timing::kInvalid);
  EXPECT_EQ(decoded.stats.records, 5u);
  EXPECT_EQ(decoded.stats.timing_missing, 1u);
  EXPECT_EQ(decoded.stats.timing_unfinished, 1u);
  EXPECT_EQ(decoded.stats.timing_invalid, 2u);
}

TEST(RecordDecode, StatisticsAreAddedUpOverBuffers) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>());
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda118));
  KeepingSink sink;
  DecodeStats stats = {};
  decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
  decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
  EXPECT_EQ(stats.records, 2u);
}

}  // namespace
}  // namespace gpuprobe::cupti

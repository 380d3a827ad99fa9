// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Buffers built from NVIDIA's own structures, as each CUPTI version would write them.
#include "cupti/record_decode.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cupti/record_decode_inl.h"
#include "tests/cupti/keeping_sink.h"
#include "tests/cupti/size_walk.h"

namespace gpuprobe::cupti {
namespace {

constexpr uint64_t kStart = 1'796'036'664'114'978'722;  // 19 digits: no double holds it
constexpr uint32_t kCuda118 = 18, kCuda122 = 20, kCuda124 = 22, kCuda128 = 26, kCuda130 = 130001;

class Buffer {
 public:
  // `size`: what the version in question gives this record; the rest is filled with 0xee.
  template <class T>
  Buffer& Add(const T& record, size_t size = sizeof(T)) {
    const size_t at = bytes_.size();
    bytes_.resize(at + size, 0xee);
    memcpy(bytes_.data() + at, &record, size < sizeof(T) ? size : sizeof(T));
    return *this;
  }
  Buffer& AddBytes(size_t count, uint8_t value) {
    bytes_.resize(bytes_.size() + count, value);
    return *this;
  }
  uint8_t* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<uint8_t> bytes_;
};

struct Decoded {
  KeepingSink sink;
  DecodeStats stats = {};
};

Decoded Decode(Buffer& buffer, uint32_t version, BufferDecoder* decoder = nullptr) {
  static BufferDecoder fresh;
  if (decoder == nullptr) {
    EXPECT_TRUE(fresh.Init(nullptr, version));
    decoder = &fresh;
  }
  Decoded result;
  decoder->Decode(buffer.data(), buffer.size(), &result.sink, &result.stats);
  return result;
}

template <class Kernel>
Kernel MakeKernel() {
  Kernel k;
  memset(&k, 0, sizeof(k));
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.registersPerThread = 255;
  k.start = kStart;
  k.end = kStart + 7;
  k.completed = kStart + 8;
  k.deviceId = 1;
  k.contextId = 2;
  k.streamId = 3;
  k.gridX = 2147483647;
  k.gridY = 5;
  k.gridZ = 6;
  k.blockX = 1024;
  k.blockY = 8;
  k.blockZ = 9;
  k.staticSharedMemory = 10;
  k.dynamicSharedMemory = 11;
  k.localMemoryPerThread = 12;
  k.localMemoryTotal = 13;
  k.correlationId = 4000000000u;
  k.gridId = -15;
  k.name = reinterpret_cast<const char*>(0x7f0012345678);
  k.queued = kStart - 200;
  k.submitted = kStart - 100;
  k.launchType = CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE;
  k.sharedMemoryExecuted = 16;
  k.graphNodeId = 0x1234567890abcdefull;
  k.graphId = 17;
  return k;
}

void ExpectKernelFields(const KernelRecord& k) {
  EXPECT_EQ(k.start_ns, static_cast<int64_t>(kStart));
  EXPECT_EQ(k.end_ns, static_cast<int64_t>(kStart) + 7);
  EXPECT_EQ(k.timing, Timing::kValid);
  EXPECT_EQ(k.launch_type, CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE);
  EXPECT_EQ(k.device, 1u);
  EXPECT_EQ(k.context, 2u);
  EXPECT_EQ(k.stream, 3u);
  EXPECT_EQ(k.correlation, 4000000000u);
  EXPECT_EQ(k.graph_id, 17u);
  EXPECT_EQ(k.graph_node_id, 0x1234567890abcdefull);
  EXPECT_EQ(k.grid_id, -15);
  EXPECT_EQ(k.name, reinterpret_cast<const char*>(0x7f0012345678));
  EXPECT_EQ(k.grid_x, 2147483647u);
  EXPECT_EQ(k.grid_y, 5u);
  EXPECT_EQ(k.grid_z, 6u);
  EXPECT_EQ(k.block_x, 1024u);
  EXPECT_EQ(k.block_y, 8u);
  EXPECT_EQ(k.block_z, 9u);
  EXPECT_EQ(k.static_shared_bytes, 10u);
  EXPECT_EQ(k.dynamic_shared_bytes, 11u);
  EXPECT_EQ(k.shared_executed_bytes, 16u);
  EXPECT_EQ(k.local_bytes_per_thread, 12u);
  EXPECT_EQ(k.registers_per_thread, 255u);
  EXPECT_EQ(k.queued_ns, static_cast<int64_t>(kStart) - 200);
  EXPECT_EQ(k.submitted_ns, static_cast<int64_t>(kStart) - 100);
}

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

template <class Memcpy>
Memcpy MakeCopy() {
  Memcpy c;
  memset(&c, 0, sizeof(c));
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  c.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  c.bytes = 5'000'000'000ull;
  c.start = kStart;
  c.end = kStart + 9;
  c.deviceId = 1;
  c.contextId = 2;
  c.streamId = 3;
  c.correlationId = 4;
  c.graphNodeId = 5;
  c.graphId = 6;
  return c;
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

template <class Synchronization>
Synchronization MakeSync() {
  Synchronization s;
  memset(&s, 0, sizeof(s));
  s.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  s.start = kStart;
  s.end = kStart + 5;
  s.correlationId = 1;
  s.contextId = 2;
  s.streamId = 3;
  s.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  return s;
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

CUpti_ActivityOverhead MakeOverhead(CUpti_ActivityObjectKind object) {
  CUpti_ActivityOverhead o;
  memset(&o, 0, sizeof(o));
  o.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  o.objectKind = object;
  o.objectId.dcs.deviceId = 21;
  o.objectId.dcs.contextId = 22;
  o.objectId.dcs.streamId = 23;
  o.start = kStart;
  o.end = kStart + 6;
  return o;
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
  EXPECT_EQ(decoded.stats.first_ns, static_cast<int64_t>(kStart));
  EXPECT_EQ(decoded.stats.last_ns, static_cast<int64_t>(kStart) + 7);
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

// ---- API calls ----

CUpti_ActivityAPI MakeCall(CUpti_ActivityKind kind, uint32_t cbid, uint64_t start, uint64_t end,
                           uint32_t correlation, uint32_t thread = 100) {
  CUpti_ActivityAPI call;
  memset(&call, 0, sizeof(call));
  call.kind = kind;
  call.cbid = cbid;
  call.start = kStart + start;
  call.end = kStart + end;
  call.processId = 99;
  call.threadId = thread;
  call.correlationId = correlation;
  return call;
}
CUpti_ActivityAPI Runtime(uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
                          uint32_t thread = 100) {
  return MakeCall(CUPTI_ACTIVITY_KIND_RUNTIME, cbid, start, end, correlation, thread);
}
CUpti_ActivityAPI Driver(uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
                         uint32_t thread = 100) {
  return MakeCall(CUPTI_ACTIVITY_KIND_DRIVER, cbid, start, end, correlation, thread);
}

constexpr uint32_t kCudaLaunchKernel = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
constexpr uint32_t kCudaGetDevice = CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020;
constexpr uint32_t kCuLaunchKernel = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
constexpr uint32_t kCuModuleLoadData = CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData;
constexpr uint32_t kCuPrimaryRetain = CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRetain;
constexpr uint32_t kCudaSetDevice = CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020;

TEST(ApiRecords, FieldsAreDecoded) {
  auto call = Driver(kCuLaunchKernel, 1, 5, 42, 1234);
  call.returnValue = 700;
  Buffer buffer;
  buffer.Add(call);
  const Decoded decoded = Decode(buffer, kCuda130);
  ASSERT_EQ(decoded.sink.calls.size(), 1u);
  const ApiRecord& c = decoded.sink.calls[0];
  EXPECT_EQ(c.domain, ApiDomain::kDriver);
  EXPECT_EQ(c.cbid, kCuLaunchKernel);
  EXPECT_EQ(c.start_ns, static_cast<int64_t>(kStart) + 1);
  EXPECT_EQ(c.end_ns, static_cast<int64_t>(kStart) + 5);
  EXPECT_EQ(c.process, 99u);
  EXPECT_EQ(c.thread, 1234u);
  EXPECT_EQ(c.correlation, 42u);
  EXPECT_EQ(c.result, 700);
}

TEST(ApiRecords, DriverLaunchUnderRuntimeLaunchCountsOnceInEitherOrder) {
  for (const bool driver_first : {true, false}) {
    Buffer buffer;
    const auto inner = Driver(kCuLaunchKernel, 2, 8, 42);
    const auto outer = Runtime(kCudaLaunchKernel, 1, 9, 42);
    if (driver_first) buffer.Add(inner).Add(outer);
    if (!driver_first) buffer.Add(outer).Add(inner);
    const Decoded decoded = Decode(buffer, kCuda130);
    ASSERT_EQ(decoded.sink.calls.size(), 1u);
    EXPECT_EQ(decoded.sink.calls[0].domain, ApiDomain::kRuntime);
    EXPECT_EQ(decoded.stats.folded_driver_calls, 1u);
    EXPECT_EQ(decoded.stats.records, 1u);
  }
}

TEST(ApiRecords, DirectDriverLaunchStays) {
  Buffer buffer;
  buffer.Add(Runtime(kCudaLaunchKernel, 1, 9, 41))
      .Add(Driver(kCuLaunchKernel, 10, 14, 42))
      .Add(Runtime(kCudaLaunchKernel, 15, 19, 43));
  const Decoded decoded = Decode(buffer, kCuda130);
  EXPECT_EQ(decoded.sink.calls.size(), 3u);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 0u);
}

TEST(ApiRecords, ModuleLoadUnderALaunchIsKeptBesideIt) {
  Buffer buffer;
  buffer.Add(Driver(kCuModuleLoadData, 2, 500, 42))
      .Add(Driver(kCuLaunchKernel, 501, 510, 42))
      .Add(Runtime(kCudaLaunchKernel, 1, 511, 42));
  const Decoded decoded = Decode(buffer, kCuda130);
  ASSERT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.calls[0].cbid, kCuModuleLoadData);
  EXPECT_EQ(decoded.sink.calls[1].domain, ApiDomain::kRuntime);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 1u);
}

TEST(ApiRecords, SameCorrelationOnAnotherThreadOrOutsideTheCallIsNotFolded) {
  Buffer buffer;
  buffer.Add(Driver(kCuLaunchKernel, 2, 8, 42, 7)).Add(Runtime(kCudaLaunchKernel, 1, 9, 42, 8));
  EXPECT_EQ(Decode(buffer, kCuda130).sink.calls.size(), 2u);
  Buffer apart;  // a correlation id used again, 2^32 calls later
  apart.Add(Driver(kCuLaunchKernel, 2, 8, 42)).Add(Runtime(kCudaLaunchKernel, 100, 109, 42));
  EXPECT_EQ(Decode(apart, kCuda130).sink.calls.size(), 2u);
}

TEST(ApiRecords, FoldingSeesThroughOtherThreadsAndGpuRecords) {
  auto kernel = MakeKernel<CUpti_ActivityKernel8>();
  Buffer buffer;
  buffer.Add(Driver(kCuLaunchKernel, 2, 8, 42, 7))
      .Add(kernel)
      .Add(Driver(kCuLaunchKernel, 3, 9, 43, 8))
      .Add(kernel)
      .Add(Runtime(kCudaLaunchKernel, 1, 10, 42, 7))
      .Add(Runtime(kCudaLaunchKernel, 1, 10, 43, 8));
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.kernels.size(), 2u);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 2u);
}

TEST(ApiRecords, PairAtTheSeamOfTwoBuffersIsKeptWhole) {
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  KeepingSink sink;
  DecodeStats stats = {};
  Buffer first, second;
  first.Add(Driver(kCuLaunchKernel, 2, 8, 42));
  second.Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  decoder.Decode(first.data(), first.size(), &sink, &stats);
  decoder.Decode(second.data(), second.size(), &sink, &stats);
  EXPECT_EQ(sink.calls.size(), 2u);
}

TEST(ApiRecords, CallsWithoutTimesAreCountedAndNotHandedOver) {
  auto call = Runtime(kCudaLaunchKernel, 1, 9, 42);
  call.start = call.end = 0;
  Buffer buffer;
  buffer.Add(call);
  const Decoded decoded = Decode(buffer, kCuda130);
  EXPECT_EQ(decoded.sink.total(), 0u);
  EXPECT_EQ(decoded.stats.timing_missing, 1u);
  EXPECT_EQ(decoded.stats.records, 0u);
}

TEST(ApiRecords, ChatterIsLeftOutOnlyOnRequestAndUnknownCallsStay) {
  Buffer buffer;
  buffer.Add(Runtime(kCudaGetDevice, 1, 2, 1))
      .Add(Runtime(kCudaLaunchKernel, 3, 4, 2))
      .Add(Runtime(60000, 5, 6, 3));
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  EXPECT_EQ(Decode(buffer, kCuda130, &decoder).sink.calls.size(), 3u);
  decoder.RecordedCallsOnly(true);
  const Decoded decoded = Decode(buffer, kCuda130, &decoder);
  ASSERT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.calls[1].cbid, 60000u);
  EXPECT_EQ(decoded.stats.chatter_calls, 1u);
}

TEST(ApiRecords, DriverCallUnderARuntimeCallThatIsLeftOutStays) {
  Buffer buffer;
  buffer.Add(Driver(kCuPrimaryRetain, 2, 800, 42)).Add(Runtime(kCudaSetDevice, 1, 801, 42));
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  decoder.RecordedCallsOnly(true);
  const Decoded decoded = Decode(buffer, kCuda130, &decoder);
  ASSERT_EQ(decoded.sink.calls.size(), 1u);
  EXPECT_EQ(decoded.sink.calls[0].cbid, kCuPrimaryRetain);
}

// ---- Which sizes apply ----

class WalkedBoth : public ::testing::Test {
 protected:
  void SetUp() override {
    api_.ActivityGetNextRecord = &SizeWalk;
    SetSizes(kCuda118);
  }
  static void SetSizes(uint32_t version) {
    RecordLayout layout;
    ASSERT_TRUE(KnownLayout(version, &layout));
    memcpy(g_walk_sizes, layout.size_bytes, sizeof(g_walk_sizes));
    g_walk_calls = 0;
  }
  static void SetSize(Kind kind, uint16_t bytes) {
    g_walk_sizes[static_cast<uint32_t>(kind)] = bytes;
  }

  CuptiApi api_;
  BufferDecoder decoder_;
};

TEST_F(WalkedBoth, AgreementKeepsOurOwnWalkAndVerifiesFourBuffersOnly) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  for (int i = 0; i < 4; ++i) {
    g_walk_calls = 0;
    EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
    EXPECT_GT(g_walk_calls, 0u);
  }
  g_walk_calls = 0;
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_EQ(g_walk_calls, 0u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
  EXPECT_STREQ(decoder_.layout_name(), "CUPTI 11.8 (kernel 200 bytes)");
}

TEST_F(WalkedBoth, Version18WithLongerKernelsIsCuda120) {
  SetSize(Kind::kConcurrentKernel, 208);
  SetSize(Kind::kKernel, 208);
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  EXPECT_STREQ(decoder_.layout_name(), "CUPTI 12.0 or 12.1 (kernel 208 bytes)");
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 208);
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 208);
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
}

TEST_F(WalkedBoth, FutureVersionIsDecodedByTheSizesThatTheLibraryTells) {
  SetSize(Kind::kConcurrentKernel, 320);
  SetSize(Kind::kRuntime, 64);
  ASSERT_TRUE(decoder_.Init(&api_, 150000));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 320)
      .Add(Runtime(kCudaLaunchKernel, 1, 9, 42), 64)
      .Add(MakeKernel<CUpti_ActivityKernel8>(), 320);
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  ExpectKernelFields(decoded.sink.kernels[1]);
  EXPECT_EQ(decoded.sink.calls.size(), 1u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
}

TEST_F(WalkedBoth, DisagreementFallsBackToCuptisWalkForGood) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  SetSize(Kind::kConcurrentKernel, 232);  // after Init: not what the library said at first
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 232)
      .Add(MakeKernel<CUpti_ActivityKernel8>(), 232);
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  ExpectKernelFields(decoded.sink.kernels[1]);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
  Buffer agreeing;
  agreeing.Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  EXPECT_EQ(Decode(agreeing, 0, &decoder_).sink.calls.size(), 1u);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
}

TEST_F(WalkedBoth, UnknownKindInALaterBufferFallsBackAndIsCounted) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer plain;
  plain.Add(MakeKernel<CUpti_ActivityKernel8>());
  for (int i = 0; i < 4; ++i) Decode(plain, 0, &decoder_);
  g_walk_sizes[77] = 48;
  struct {
    uint32_t kind;
    uint8_t rest[44];
  } strange = {77, {}};
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>())
      .Add(strange)
      .Add(MakeKernel<CUpti_ActivityKernel8>());
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
  EXPECT_EQ(decoded.sink.kernels.size(), 2u);
  EXPECT_EQ(decoded.stats.unknown_kind, 1u);
  EXPECT_EQ(decoded.stats.last_unknown_kind, 77u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
}

TEST_F(WalkedBoth, LibraryThatAnswersNothingIsNoWitness) {
  api_.ActivityGetNextRecord = [](uint8_t*, size_t, void**) -> Result {
    return CUPTI_ERROR_NOT_INITIALIZED;
  };
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
}

TEST(RecordLayout, VersionsOlderThan117AreRefused) {
  BufferDecoder decoder;
  EXPECT_FALSE(decoder.Init(nullptr, 16));
  EXPECT_FALSE(decoder.Init(nullptr, 0));
}

// ---- Damage ----

TEST(RecordDecode, UnknownKindWithoutCuptiEndsTheBufferAndCountsTheRest) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).AddBytes(64, 0x4d);
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.kernels.size(), 1u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 64u);
}

TEST(RecordDecode, KindsThatWeDoNotStoreAreSkippedAndCounted) {
  CUpti_ActivityExternalCorrelation external;
  memset(&external, 0, sizeof(external));
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  Buffer buffer;
  buffer.Add(external).Add(MakeCall(CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API, 1, 1, 2, 3));
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>());
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.total(), 1u);
  EXPECT_EQ(decoded.stats.unknown_kind, 2u);
  EXPECT_EQ(decoded.stats.records, 1u);
}

TEST(RecordDecode, CutRecordIsCountedAsUndecodable) {
  Buffer whole;
  whole.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  for (size_t length = 0; length <= whole.size(); ++length) {
    std::vector<uint8_t> cut(whole.data(), whole.data() + length);  // exact: ASan sees an overrun
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(nullptr, kCuda118));
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(cut.data(), cut.size(), &sink, &stats);
    const size_t kernels = length >= 200 ? 1 : 0, calls = length >= 240 ? 1 : 0;
    EXPECT_EQ(sink.kernels.size(), kernels) << length;
    EXPECT_EQ(sink.calls.size(), calls) << length;
    EXPECT_EQ(stats.undecodable_bytes, length - 200 * kernels - 40 * calls) << length;
  }
}

// Bytes are changed at random; whatever comes out, no byte outside is read (ASan) and every byte is
// accounted for by a record or as undecodable.
TEST_F(WalkedBoth, RandomDamageNeverReadsOutside) {
  std::mt19937 random(20260905);
  Buffer good;
  for (int i = 0; i < 8; ++i) {
    good.Add(MakeKernel<CUpti_ActivityKernel8>())
        .Add(Driver(kCuLaunchKernel, 2, 8, 42 + i))
        .Add(Runtime(kCudaLaunchKernel, 1, 9, 42 + i))
        .Add(MakeCopy<CUpti_ActivityMemcpy5>())
        .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_THREAD))
        .Add(MakeSync<CUpti_ActivitySynchronization>());
  }
  for (int round = 0; round < 20000; ++round) {
    SetSizes(kCuda118);
    const bool with_cupti = round % 2 == 0;
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(with_cupti ? &api_ : nullptr, round % 3 == 0 ? kCuda130 : kCuda118));
    if (round % 5 == 0) SetSize(Kind::kConcurrentKernel, static_cast<uint16_t>(random() % 400));
    const size_t length = random() % (good.size() + 1);
    std::vector<uint8_t> bytes(good.data(), good.data() + length);
    for (uint32_t changes = random() % 6; changes > 0 && length > 0; --changes) {
      bytes[random() % length] = static_cast<uint8_t>(random() % 64);
    }
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(bytes.data(), bytes.size(), &sink, &stats);
    ASSERT_LE(stats.undecodable_bytes, length);
    ASSERT_EQ(stats.records, sink.total());
    if (sink.total() == 0 && stats.unknown_kind == 0 && stats.folded_driver_calls == 0 &&
        stats.timing_missing + stats.timing_unfinished + stats.timing_invalid == 0) {
      ASSERT_EQ(stats.undecodable_bytes, length);
    }
  }
}

// CUPTI's answers are not trusted either.
TEST(RecordDecode, NonsenseFromGetNextRecordEndsTheWalk) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  static uint8_t* inside;
  inside = buffer.data();
  CuptiApi api;
  for (int variant = 0; variant < 4; ++variant) {
    static int s_variant;
    s_variant = variant;
    static int s_calls;
    s_calls = 0;
    api.ActivityGetNextRecord = [](uint8_t*, size_t, void** record) -> Result {
      ++s_calls;
      switch (s_variant) {
        case 0:
          *record = inside;
          break;  // never moves on
        case 1:
          *record = inside + 100000;
          break;  // outside
        case 2:
          *record = inside - 8;
          break;  // before
        default:
          *record = s_calls % 2 ? inside + 8 : inside;  // backwards
      }
      return kSuccess;
    };
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(&api, kCuda118));
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
    EXPECT_LE(sink.total(), 2u);
  }
}

}  // namespace
}  // namespace gpuprobe::cupti

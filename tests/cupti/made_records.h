// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Records built from NVIDIA's own structures, as each CUPTI version would write them, and a buffer
// to put them into.
#ifndef GPUPROBE_TESTS_CUPTI_MADE_RECORDS_H_
#define GPUPROBE_TESTS_CUPTI_MADE_RECORDS_H_

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "cupti/record_decode.h"
#include "cupti/record_decode_inl.h"
#include "tests/cupti/keeping_sink.h"

namespace gpuprobe::cupti {

inline constexpr uint64_t kStart = 1'796'036'664'114'978'722;  // 19 digits: no double holds it
inline constexpr uint32_t kCuda118 = 18, kCuda122 = 20, kCuda124 = 22, kCuda128 = 26,
                          kCuda130 = 130001;

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

inline Decoded Decode(Buffer& buffer, uint32_t version, BufferDecoder* decoder = nullptr) {
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

inline void ExpectKernelFields(const KernelRecord& k) {
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

inline CUpti_ActivityOverhead MakeOverhead(CUpti_ActivityObjectKind object) {
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

inline CUpti_ActivityMarker2 MakeMarker(CUpti_ActivityFlag flag, uint32_t id, const char* name) {
  CUpti_ActivityMarker2 m;
  memset(&m, 0, sizeof(m));
  m.kind = CUPTI_ACTIVITY_KIND_MARKER;
  m.flags = flag;
  m.timestamp = kStart;
  m.id = id;
  m.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  m.objectId.pt.processId = 21;
  m.objectId.pt.threadId = 22;
  m.name = name;
  return m;
}

inline CUpti_ActivityAPI MakeCall(CUpti_ActivityKind kind, uint32_t cbid, uint64_t start,
                                  uint64_t end, uint32_t correlation, uint32_t thread = 100) {
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
inline CUpti_ActivityAPI Runtime(uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
                                 uint32_t thread = 100) {
  return MakeCall(CUPTI_ACTIVITY_KIND_RUNTIME, cbid, start, end, correlation, thread);
}
inline CUpti_ActivityAPI Driver(uint32_t cbid, uint64_t start, uint64_t end, uint32_t correlation,
                                uint32_t thread = 100) {
  return MakeCall(CUPTI_ACTIVITY_KIND_DRIVER, cbid, start, end, correlation, thread);
}

inline constexpr uint32_t kCudaLaunchKernel = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
inline constexpr uint32_t kCudaGetDevice = CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020;
inline constexpr uint32_t kCuLaunchKernel = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
inline constexpr uint32_t kCuModuleLoadData = CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData;
inline constexpr uint32_t kCuPrimaryRetain = CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRetain;
inline constexpr uint32_t kCudaSetDevice = CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020;
}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_TESTS_CUPTI_MADE_RECORDS_H_

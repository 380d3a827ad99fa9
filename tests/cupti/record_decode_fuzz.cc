// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// libFuzzer: any bytes as an activity buffer. The first byte chooses the version, whether a
// stand-in for cuptiActivityGetNextRecord is there, and whether that one disagrees about a size.
#include <cstdint>
#include <cstring>

#include "cupti/record_decode_inl.h"
#include "tests/cupti/size_walk.h"

namespace {

// Adds up what it is given, so that reading a field beyond the buffer is not optimised away.
struct AddingSink {
  uint64_t sum = 0;
  template <class Record>
  void Add(const Record& record) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&record.correlation);
    for (size_t i = 0; i < sizeof(record.correlation); ++i) sum += bytes[i];
  }
  void OnKernel(const gpuprobe::KernelRecord& r) { Add(r), sum += r.cluster_z + r.device_launched; }
  void OnCopy(const gpuprobe::CopyRecord& r) { Add(r), sum += r.bytes + r.device_launched; }
  void OnSet(const gpuprobe::SetRecord& r) { Add(r), sum += r.bytes; }
  void OnGraph(const gpuprobe::GraphRecord& r) { Add(r), sum += r.end_device; }
  void OnApi(const gpuprobe::ApiRecord& r) { Add(r), sum += r.thread; }
  void OnSync(const gpuprobe::SyncRecord& r) { Add(r), sum += r.event_sync_id; }
  void OnCudaEvent(const gpuprobe::CudaEventRecord& r) { Add(r), sum += r.event_sync_id; }
  void OnMarker(const gpuprobe::MarkerRecord& r) { sum += r.id + r.thread; }
  void OnOverhead(const gpuprobe::OverheadRecord& r) { Add(r), sum += r.kind; }
  void OnDevice(const gpuprobe::DeviceRecord& r) { sum += r.uuid[15]; }
  void OnContext(const gpuprobe::ContextRecord& r) { sum += r.null_stream; }
  void OnStream(const gpuprobe::StreamRecord& r) { sum += r.flag; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpuprobe::cupti;  // NOLINT: a fuzz target
  constexpr uint32_t kVersions[] = {17, 18, 20, 22, 26, 130001, 130500, 999999};
  if (size == 0) return 0;
  RecordLayout layout;
  if (!KnownLayout(kVersions[data[0] & 7], &layout)) __builtin_trap();
  memcpy(g_walk_sizes, layout.size_bytes, sizeof(g_walk_sizes));
  CuptiApi api;
  api.ActivityGetNextRecord = &SizeWalk;
  BufferDecoder decoder;
  if (!decoder.Init((data[0] & 8) != 0 ? &api : nullptr, layout.version)) __builtin_trap();
  if ((data[0] & 16) != 0) g_walk_sizes[10] = 168;
  decoder.RecordedCallsOnly((data[0] & 32) != 0);
  // A copy of exact size: the sanitizer sees the first byte beyond it.
  uint8_t* buffer = new uint8_t[size - 1];
  memcpy(buffer, data + 1, size - 1);
  AddingSink sink;
  DecodeStats stats = {};
  decoder.Decode(buffer, size - 1, &sink, &stats);
  volatile uint64_t keep = sink.sum;
  (void)keep;
  if (stats.undecodable_bytes > size - 1) __builtin_trap();
  delete[] buffer;
  return 0;
}

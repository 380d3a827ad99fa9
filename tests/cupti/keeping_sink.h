// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A sink for BufferDecoder that keeps every record, for tests.
#ifndef GPUPROBE_TESTS_CUPTI_KEEPING_SINK_H_
#define GPUPROBE_TESTS_CUPTI_KEEPING_SINK_H_

#include <vector>

#include "ringbuf/records.h"

namespace gpuprobe::cupti {

struct KeepingSink {
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
  std::vector<SetRecord> sets;
  std::vector<GraphRecord> graphs;
  std::vector<ApiRecord> calls;
  std::vector<SyncRecord> syncs;
  std::vector<CudaEventRecord> events;
  std::vector<OverheadRecord> overheads;
  std::vector<MarkerRecord> markers;
  std::vector<DeviceRecord> devices;
  std::vector<ContextRecord> contexts;
  std::vector<StreamRecord> streams;

  void OnKernel(const KernelRecord& r) { kernels.push_back(r); }
  void OnCopy(const CopyRecord& r) { copies.push_back(r); }
  void OnSet(const SetRecord& r) { sets.push_back(r); }
  void OnGraph(const GraphRecord& r) { graphs.push_back(r); }
  void OnApi(const ApiRecord& r) { calls.push_back(r); }
  void OnSync(const SyncRecord& r) { syncs.push_back(r); }
  void OnCudaEvent(const CudaEventRecord& r) { events.push_back(r); }
  void OnOverhead(const OverheadRecord& r) { overheads.push_back(r); }
  void OnMarker(const MarkerRecord& r) { markers.push_back(r); }
  void OnDevice(const DeviceRecord& r) { devices.push_back(r); }
  void OnContext(const ContextRecord& r) { contexts.push_back(r); }
  void OnStream(const StreamRecord& r) { streams.push_back(r); }

  size_t total() const {
    return kernels.size() + copies.size() + sets.size() + graphs.size() + calls.size() +
           syncs.size() + events.size() + overheads.size() + markers.size() + devices.size() +
           contexts.size() + streams.size();
  }
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_TESTS_CUPTI_KEEPING_SINK_H_

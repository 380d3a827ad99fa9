// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a decoder is measured with.
#ifndef GPUPROBE_BENCH_NULL_SINK_H_
#define GPUPROBE_BENCH_NULL_SINK_H_

#include "ringbuf/records.h"

namespace gpuprobe::bench {

// Takes every record without keeping it; the asm keeps the compiler from leaving the decoding out.
struct NullSink {
  template <class Record>
  static void Take(const Record& record) {
    asm volatile("" : : "r"(&record) : "memory");
  }
  void OnKernel(const KernelRecord& r) { Take(r); }
  void OnCopy(const CopyRecord& r) { Take(r); }
  void OnSet(const SetRecord& r) { Take(r); }
  void OnGraph(const GraphRecord& r) { Take(r); }
  void OnApi(const ApiRecord& r) { Take(r); }
  void OnSync(const SyncRecord& r) { Take(r); }
  void OnCudaEvent(const CudaEventRecord& r) { Take(r); }
  void OnOverhead(const OverheadRecord& r) { Take(r); }
  void OnDevice(const DeviceRecord& r) { Take(r); }
  void OnContext(const ContextRecord& r) { Take(r); }
  void OnStream(const StreamRecord& r) { Take(r); }
};

}  // namespace gpuprobe::bench

#endif  // GPUPROBE_BENCH_NULL_SINK_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a decoder is measured with.
#ifndef GPUPROBE_BENCH_NULL_SINK_H_
#define GPUPROBE_BENCH_NULL_SINK_H_

#include "cupti/record_decode_inl.h"
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

// The same, reading the common records where they stand, as the trace writer does.
struct NullKnowingSink : NullSink {
  static bool TakeKnownKernel(const cupti::KernelInBuffer& k) {
    uint64_t all = static_cast<uint64_t>(k.start_ns() ^ k.end_ns()) ^ k.device() ^ k.context() ^
                   k.stream() ^ k.correlation() ^ k.how() ^ k.plain();
    for (size_t i = 0; i < 8; ++i) all ^= k.shape_word(i);
    asm volatile("" : : "r"(all));
    return true;
  }
  static bool TakeKnownCall(const ApiRecord& r) {
    const uint64_t all = static_cast<uint64_t>(r.start_ns ^ r.end_ns) ^ r.cbid ^ r.thread ^
                         r.correlation ^ static_cast<uint32_t>(r.result);
    asm volatile("" : : "r"(all));
    return true;
  }
};

}  // namespace gpuprobe::bench

#endif  // GPUPROBE_BENCH_NULL_SINK_H_

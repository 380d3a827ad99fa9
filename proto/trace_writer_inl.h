// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// TraceWriter::TakeKnown, the way of the common record; include it where records are decoded. It
// has to be inlined there: then what it asks of a record goes from CUPTI's buffer to the staged
// form in registers, and the normalised record is never put together.
//
// Takes a call that succeeded or a plain kernel whose lane and dictionary entry this frame has
// already, with times on the stretch of the clock that needs no call. Everything else is refused
// without a trace, and goes to On*.
#ifndef GPUPROBE_PROTO_TRACE_WRITER_INL_H_
#define GPUPROBE_PROTO_TRACE_WRITER_INL_H_

#include "proto/trace_writer.h"
#include "proto/writer_state.h"

namespace gpuprobe::proto {

[[gnu::always_inline]] inline bool TraceWriter::TakeKnownCall(const ApiRecord& r) {
  if (state_ == nullptr) return false;
  State& s = *state_;
  const uint32_t symbol = s.dictionary.KnownApiSymbol(r.domain, r.cbid);
  const uint32_t lane_index = s.staging.quick_api_lane[r.thread % Staging::kQuickLanes];
  if (symbol == FrameDictionary::kUnknown || lane_index == Staging::kNoLane || r.result != 0 ||
      !s.OffsetApplies(r.start_ns, r.end_ns) || s.staging.api.full() ||
      s.batch_bytes + kApiMaxBytes + kBatchMaxBytes > s.batch_limit) {
    return false;
  }
  Lane& lane = s.staging.lanes[lane_index];
  if (lane.stream != r.thread) return false;
  const int64_t start_ns = r.start_ns + s.offset.offset_ns, end_ns = r.end_ns + s.offset.offset_ns;
  s.batch_bytes += kApiMaxBytes;
  ++lane.count;
  s.staging.NoteTimes(start_ns, end_ns);
  s.staging.api.Push({start_ns, end_ns, r.correlation, static_cast<uint16_t>(symbol),
                      static_cast<uint16_t>(lane_index << 2)});
  return true;
}

template <class Kernel>
[[gnu::always_inline]] inline bool TraceWriter::TakeKnownKernel(const Kernel& k) {
  if (state_ == nullptr) return false;
  State& s = *state_;
  const uint32_t stream = k.stream();
  const uint32_t lane_index = s.staging.quick_kernel_lane[stream % Staging::kQuickLanes];
  if (lane_index == Staging::kNoLane || s.staging.kernels.full() ||
      s.batch_bytes + kKernelMaxBytes + kBatchMaxBytes > s.batch_limit || !k.plain()) {
    return false;
  }
  Lane& lane = s.staging.lanes[lane_index];
  if (lane.stream != stream || lane.context != k.context() || lane.device != k.device()) {
    return false;
  }
  const uint32_t shape = s.dictionary.KnownShape(k);
  if (shape == FrameDictionary::kUnknown) return false;
  const int64_t record_start_ns = k.start_ns(), record_end_ns = k.end_ns();
  if (!s.OffsetApplies(record_start_ns, record_end_ns)) return false;
  const int64_t start_ns = record_start_ns + s.offset.offset_ns,
                end_ns = record_end_ns + s.offset.offset_ns;
  s.batch_bytes += kKernelMaxBytes;
  ++lane.count;
  s.staging.NoteTimes(start_ns, end_ns);
  s.staging.kernels.Push({start_ns, end_ns, k.correlation(), static_cast<uint16_t>(shape),
                          static_cast<uint16_t>(lane_index << 2)});
  return true;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_TRACE_WRITER_INL_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Switches CUPTI's activity API on and off for us: attributes, buffer callbacks, kinds one by one, call
// filters. Every answer of CUPTI is kept for the trace (CaptureInfo). Uses no subscriber (holding the
// slot breaks torch.profiler) and no timestamp callback (registering twice corrupts kernel times:
// pytorch issue 192021), never calls cuptiFinalize, never enables CUPTI_ACTIVITY_KIND_KERNEL (serialises).
//
// Threads: Start from InitializeInjection; Pause/Resume from whoever holds the session's control lock;
// Flush from the drain thread or an application thread outside CUPTI callbacks. None of them may be
// called from a buffer callback.
#ifndef GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_
#define GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::cupti {

struct ActivityOptions {
  bool gpu_work = true;            // kernels, copies, sets, graphs
  bool runtime_api = true;
  bool driver_api = true;          // the submitting, blocking, allocating, loading ones
  bool all_api_calls = false;      // chatter too
  bool synchronization = true;
  bool overhead = true;
  bool graph_nodes = false;        // node level instead of graph level
  bool latency_timestamps = false;
  bool zeroed_buffers = true;      // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
  uint32_t device_buffers_preallocated = 0;  // 0: CUPTI's default
};

struct Outcome {                   // what was asked for and CUPTI's answer
  const char* name;                // "CONCURRENT_KERNEL", "ATTR_ZEROED_OUT_ACTIVITY_BUFFER"
  int32_t id;
  Result result;
};

class ActivitySource {
 public:
  constexpr ActivitySource() = default;
  ActivitySource(const ActivitySource&) = delete;
  ActivitySource& operator=(const ActivitySource&) = delete;

  // False: nothing could be started, reason in `why`; CUPTI is left as it was found as far as possible.
  // If another client holds the subscriber slot (result 39 from a probing subscribe, which is undone at
  // once) nothing else is called. True with some kinds refused is success: see outcomes().
  [[nodiscard]] bool Start(const CuptiApi* api, const ActivityOptions& options,
                           BufferRequestedFn requested, BufferCompletedFn completed, char* why,
                           size_t why_size);
  // Steps aside for another client: flushes (forced, so that no buffer of ours stays inside and swallows
  // the other client's records), disables what we enabled. Idempotent.
  void Pause();
  // Comes back: registers our callbacks again, enables the same kinds. False: refused.
  [[nodiscard]] bool Resume();
  // cuptiActivityFlushAll; forced also returns buffers with unfinished records.
  Result Flush(bool forced);
  // Records that CUPTI dropped since the last call.
  uint64_t TakeDropped();

  bool active() const { return active_; }
  const Outcome* outcomes(size_t* count) const;        // kinds
  const Outcome* attributes(size_t* count) const;      // attributes, filters, thread id type

 private:
  const CuptiApi* api_ = nullptr;
  bool active_ = false;
  // The implementer adds what it needs here.
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Switches CUPTI's activity API on and off for us: attributes, buffer callbacks, kinds one by one,
// call filters. Every answer of CUPTI is kept for the trace (CaptureInfo). Uses no subscriber
// (holding the slot breaks torch.profiler) and no timestamp callback (registering twice corrupts
// kernel times: pytorch issue 192021), never calls cuptiFinalize, never enables
// CUPTI_ACTIVITY_KIND_KERNEL (serialises).
//
// Threads: Start from InitializeInjection; Pause/Resume from whoever holds the session's control
// lock; Flush from the drain thread or an application thread outside CUPTI callbacks. None of them
// may be called from a buffer callback. outcomes() and attributes() under the lock of Pause and
// Resume.
#ifndef GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_
#define GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::cupti {

struct ActivityOptions {
  bool gpu_work = true;     // kernels, copies, sets, graphs
  bool peer_copies = true;  // with gpu_work: cudaMemcpyPeer and its like
  bool runtime_api = true;
  bool driver_api = true;      // the submitting, blocking, allocating, loading ones
  bool all_api_calls = false;  // chatter too
  bool synchronization = true;
  bool overhead = true;
  bool graph_nodes = false;  // node level instead of graph level
  bool latency_timestamps = false;
  bool hw_trace = false;       // the GPU's own event system; Blackwell and later
  bool markers = false;        // NVTX; they come only from NVTX modules attached to it
  bool zeroed_buffers = true;  // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
  uint32_t device_buffers_preallocated = 0;  // 0: CUPTI's default
};

struct Outcome {     // what was asked for and CUPTI's answer
  const char* name;  // "CONCURRENT_KERNEL", "ATTR_ZEROED_OUT_ACTIVITY_BUFFER"
  int32_t id;
  Result result;
};

class ActivitySource {
 public:
  static constexpr size_t kMaxKinds = 16;  // of outcomes()
  static constexpr size_t kMaxAttributes = 12;

  constexpr ActivitySource() = default;
  ActivitySource(const ActivitySource&) = delete;
  ActivitySource& operator=(const ActivitySource&) = delete;

  // False: nothing could be started, reason in `why`; CUPTI is left as it was found as far as
  // possible. If another client holds the subscriber slot (result 39, 12 on old versions, from a
  // probing subscribe, which is undone at once) nothing else is called; nor after any other refusal
  // of that subscribe that leaves the slot in doubt. Only missing privileges do not: another client
  // is not their reason, and the activity API may still be allowed. True with some kinds refused is
  // success: see outcomes().
  [[nodiscard]] bool Start(const CuptiApi* api, const ActivityOptions& options,
                           BufferRequestedFn requested, BufferCompletedFn completed, char* why,
                           size_t why_size);
  // Steps aside for another client: flushes (forced, so that no buffer of ours stays inside and
  // swallows the other client's records), disables what we enabled, puts back the attributes that
  // we changed and the type of thread id. Idempotent.
  void Pause();
  // Comes back: registers our callbacks again, enables the same kinds, but for GRAPH_TRACE: a graph
  // that was instantiated while it was off crashes the process when it is launched with it on
  // (H200, driver 580, CUPTI 13.0; whether it was on before makes no difference), and nobody tells
  // us what was instantiated meanwhile. From then on graphs are recorded node by node. False:
  // refused, or Start never succeeded. Does not look at the subscriber slot: a client that has
  // stopped recording may keep it.
  [[nodiscard]] bool Resume();
  // cuptiActivityFlushAll; forced also returns buffers with unfinished records.
  Result Flush(bool forced);
  // Records that CUPTI dropped since the last call. 0 when CUPTI refuses to tell: dropped_result().
  uint64_t TakeDropped();
  Result dropped_result() const { return dropped_result_; }  // of the last TakeDropped; same thread

  // Any thread: relaxed, a value that is late by a moment does no harm where it is asked.
  bool active() const { return active_.load(std::memory_order_relaxed); }
  // Graphs were recorded as a whole until Pause, and are not any more. Any thread.
  bool graph_level_given_up() const {
    return graph_level_given_up_.load(std::memory_order_relaxed);  // as active()
  }
  const Outcome* outcomes(size_t* count) const;  // kinds
  // The probing subscribe, attributes, thread id type, registration and call filters. A filter's
  // `id` is the number of calls that were switched off.
  const Outcome* attributes(size_t* count) const;

 private:
  struct Refusal {
    const char* call;
    Result result;  // kSuccess: none
  };

  bool SubscriberSlotIsFree();
  Refusal Attach();
  void SetLatencyTimestamps();
  void SetHwTrace();
  void SetAttributes();
  void RestoreAttributes();
  void EnableKinds();
  void EnableKind(int32_t kind, const char* name);
  void DisableKinds();
  Result UsefulKindsRefused() const;
  void SwitchOffChatter();
  void NoteAttribute(const char* name, int32_t id, Result result);

  const CuptiApi* api_ = nullptr;
  ActivityOptions options_;
  BufferRequestedFn requested_ = nullptr;
  BufferCompletedFn completed_ = nullptr;
  bool started_ = false;
  std::atomic<bool> active_{false};
  std::atomic<bool> graph_level_given_up_{false};
  Outcome kinds_[kMaxKinds] = {};
  size_t kind_count_ = 0;
  Outcome attributes_[kMaxAttributes] = {};
  size_t attribute_count_ = 0;
  // What to put back when we step aside: another client's buffers are not zeroed, and its thread
  // ids are of the type that it expects.
  bool zeroed_changed_ = false;
  uint8_t zeroed_before_ = 0;
  bool thread_id_changed_ = false;
  int32_t thread_id_before_ = 0;
  bool latency_changed_ = false;
  Result dropped_result_ = kSuccess;
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_ACTIVITY_SOURCE_H_

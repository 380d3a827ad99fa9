// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where records go, as in CUPTI 13.0: every launching thread has a buffer of its own (one for all
// threads with the attribute off, the default before 13.0). A record takes its place when the work
// is submitted and is complete when the work has ended. The client is asked for a buffer on the
// launching thread when that has none or it is full. A buffer goes back
//   * full and with every record complete: on its thread, at that thread's next record
//   * FlushAll(0): every buffer, full or not, whose records are all complete
//   * forced: every buffer; records of unfinished work then have end = 0 (and start = 0 if it has
//   not even
//     begun) and never come again.
// Callbacks are called with no lock of ours held (but see GPUSIM_CUPTI_LOCK).
#ifndef GPUPROBE_TESTS_SIM_LIB_CUPTI_BUFFERS_H_
#define GPUPROBE_TESTS_SIM_LIB_CUPTI_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace gpuprobe::sim {

struct ActivityBuffer {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0;
  size_t max_records = 0, records = 0;  // max 0: as many as fit
  int64_t latest_end_ns = 0;            // when the last of its records is complete
  bool recorded = false;                // from a recording: times are not ours to convert
};

class Buffers {
 public:
  static Buffers& Get();  // process lifetime

  // Stores a record of RecordBytes(kind) bytes that is complete at `complete_at_ns` (simulation
  // clock).
  void Emit(const void* record, uint32_t kind, int64_t complete_at_ns);
  void Flush(bool forced);
  uint64_t TakeDropped() {
    return dropped_.exchange(0, std::memory_order_relaxed);
  }  // a plain count
  void Drop(uint32_t kind, uint64_t n);

  // Asks the client for a buffer and checks what it gives. data == nullptr: refused (counted).
  ActivityBuffer Request();
  // The client has it back.
  void Returned(const uint8_t* data);

 private:
  struct Lane {
    std::mutex request_mu;  // held while the client is asked, so that one buffer is enough
    std::mutex mu;
    ActivityBuffer current;  // guarded by mu, like the next
    std::deque<ActivityBuffer> full;
  };
  Buffers() = default;
  Lane* LaneOfThread();
  bool Append(Lane* lane, const void* record, size_t bytes, int64_t complete_at_ns);
  std::vector<ActivityBuffer> TakeReady(Lane* lane, bool forced, bool include_current);

  std::mutex mu_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // guarded by mu_; never shrinks
  std::set<const uint8_t*> outstanding_;      // guarded by mu_
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> emitted_{0};
};

// ---- cupti_delivery.cc ----

// Finishes the records of the buffers (unfinished work, foreign clock, faults) and hands them to
// the client, now or as the fault says.
void Deliver(std::vector<ActivityBuffer> buffers, bool from_flush);
// Delivers what at_exit faults have held back. `handler`: "early" or "late" registered.
void DeliverHeld(const char* handler);
// Starts the faults that act on their own (scribbling into buffers that the client has lent us,
// delivery at exit). Called at every record.
void StartFaultThreads();

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_CUPTI_BUFFERS_H_

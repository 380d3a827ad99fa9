// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The one capture of a process: what is in memory, who may touch it, and the few ways in.
//
//   Start          driver's thread, inside cuInit (InitializeInjection); once
//   buffer callbacks  any thread, from CUPTI: pool only
//   StepAside, ComeBack, ForeignClock   a thread of the host that calls CUPTI for another client
//   FinishAtExit   the thread that ends the process; bounded wait
//   the sampler thread  sampler/host_sampler.h; touches nothing of the session
//   everything else  the drain thread (drain.cc)
//
// A Session lives in constant-initialised static storage, is never destroyed (CUPTI may call back
// during and after exit) and does nothing in a process that was forked from its own: every entry
// compares pids. Any failure turns it off, once, with the reason in the trace (Off).
#ifndef GPUPROBE_INJECT_SESSION_H_
#define GPUPROBE_INJECT_SESSION_H_

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "cupti/activity_source.h"
#include "cupti/clock.h"
#include "cupti/cupti_api.h"
#include "inject/config.h"
#include "inject/process/process_facts.h"
#include "inject/process/thread_names.h"
#include "inject/trace_file.h"
#include "proto/trace_writer.h"
#include "ringbuf/activity_buffers.h"
#include "ringbuf/loss.h"
#include "ringbuf/thread_rings.h"
#include "sampler/host_sampler.h"

namespace gpuprobe::inject {

// How long the end of the host may be delayed, all together (DESIGN section 2).
inline constexpr int64_t kFinalFlushLimitNs = 2'000'000'000;

// The calls by which another CUPTI client makes us step aside.
enum class TakingCall : uint8_t {
  kRegisterCallbacks,
  kRegisterTimestampCallback,
  kEnable,
  kEnableAndDump,
  kEnableContext,
  kSetAttribute,
  kFinalize,
};
const char* TakingCallName(TakingCall call);

enum class Phase : uint32_t {
  kIdle,  // CUDA was not initialised: nothing of ours exists
  kStarting,
  kActive,
  kOff,       // turned off; the trace says why
  kFinished,  // closed in order
};

class Session {
 public:
  constexpr Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start(const char* door);
  void FinishAtExit();

  // Another CUPTI client is about to take the activity API: hand it over clean. `who`, `call`: for
  // the trace. Returns when everything that CUPTI held for us has been decoded (bounded).
  void StepAside(const char* who, TakingCall call);
  // It is done: take the activity API again.
  void ComeBack();
  // cuptiFinalize was called by somebody: CUPTI cannot be used again in this process.
  void GiveUpCupti(const char* who);
  void ForeignClock(cupti::TimestampFn callback);
  // Called at every CUPTI call of the other client; `kinds`: how many activity kinds it has on.
  void NoteForeignCall(uint32_t kinds);
  // It has no kind on, and has not called for `patience_ns`.
  bool ForeignClientIsGone(int64_t patience_ns) const;
  // relaxed: a hint for statistics.
  bool stepped_aside() const { return aside_.load(std::memory_order_relaxed); }

  bool Mine() const;  // active, and not in a forked child
  // acquire: partners are the stores in Start and Off.
  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  const cupti::CuptiApi& api() const { return api_; }

 private:
  friend class Drain;

  static void OnBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records);
  static void OnBufferCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                size_t valid_bytes);

  void StartWithoutCapture();
  bool InOwner() const;
  void MarkOwner();
  bool ReserveMemory();
  bool InitWriter();
  void NameFile();
  bool StartCapture();
  void KeepOutcomes();
  void ReserveSampler();
  bool StartDrainThread();
  void StartSamplerThread();
  void Off(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void AskDrain(std::atomic<uint32_t>* request);
  bool LockControl();
  void UnlockControl();

  std::atomic<Phase> phase_{Phase::kIdle};
  std::atomic<uint32_t> owner_pid_{0};
  const uint8_t* owner_mark_ = nullptr;  // published by phase_; on a page that a fork wipes
  std::atomic<uint32_t> drain_tid_{0};

  // Written by Start, then read only.
  Config config_ = {};
  Warnings warnings_ = {};
  ProcessFacts facts_ = {};
  const char* door_ = "";
  char off_reason_[400] = {};
  // CUPTI's answers at the start. Those in source_ change with every pause, on other threads.
  cupti::Outcome kinds_[cupti::ActivitySource::kMaxKinds] = {};
  cupti::Outcome attributes_[cupti::ActivitySource::kMaxAttributes] = {};
  size_t kind_count_ = 0, attribute_count_ = 0;
  int64_t start_duration_ns_ = 0;
  int64_t process_start_ns_ = 0;  // trace clock
  int64_t capture_begin_ns_ = 0;  // trace clock: nothing was recorded, or lost, before it
  uint64_t file_id_ = 0;
  size_t memory_bytes_ = 0;
  uint8_t* scratch_ = nullptr;  // for a CUPTI that may not be refused a buffer
  size_t scratch_bytes_ = 0;

  cupti::CuptiApi api_;
  cupti::ActivitySource source_;  // under the control lock, but for Flush and TakeDropped
  cupti::TraceClock clock_;
  ActivityBuffers pool_;
  ThreadRings events_;
  LossCounters losses_;

  // The control lock: other clients' threads and the drain thread's shutdown.
  std::atomic<uint32_t> control_{0};
  std::atomic<bool> aside_{false};
  std::atomic<bool> poisoned_{false};  // cuptiFinalize was called; under the lock
  std::atomic<uint32_t> foreign_kinds_{0};
  std::atomic<int64_t> foreign_call_ns_{0};  // CLOCK_MONOTONIC

  // Futex words. The host's threads ask by adding one and waking `wake_`; the drain thread answers.
  std::atomic<uint32_t> wake_{0};
  std::atomic<uint32_t> drain_request_{0}, drain_answer_{0};
  std::atomic<uint32_t> finish_request_{0}, finished_{0};

  // Its own thread; the drain thread takes what it has sealed.
  sampler::HostSampler sampler_;
  size_t sampler_bytes_ = 0;
  bool sampling_ = false;  // the thread was started; written before the drain thread is

  // Drain thread only.
  TraceFile file_;
  proto::TraceWriter writer_;
  ThreadNames thread_names_;
  bool capture_written_ = false, threads_written_ = false;
  uint32_t pieces_in_frame_ = 0;   // of the sampler, in the frame that is being closed
  bool graph_nodes_told_ = false;  // the last CaptureInfo said that graphs are recorded by node
  uint64_t cupti_bytes_ = 0, buffers_completed_ = 0, flush_calls_ = 0, flush_ns_ = 0;
};

// The session of this process.
Session& TheSession();

// What the constructor (doors.cc) found out for Start: the run's directory and whether this process
// is the root of the run and may print the one line on stderr.
struct RunFacts {
  char directory[PATH_MAX];  // empty: there is none, and `no_directory` says why
  const char* no_directory;
  bool root;                             // this process chose the directory
  bool preloaded, injected;              // which doors the environment opens
  uint32_t only_pid;                     // GPUPROBE_CHILDREN=0: the one process to record; 0: all
  uint64_t stderr_device, stderr_inode;  // descriptor 2 at load time; 0, 0: closed
};
const RunFacts& TheRun();

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_SESSION_H_

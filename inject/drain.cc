// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/drain.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cupti/api_calls.h"
#include "cupti/record_decode_inl.h"
#include "inject/clients/foreign_client.h"
#include "inject/futex.h"
#include "inject/process/safe_read.h"
#include "proto/format.h"
#include "proto/trace_writer_inl.h"

namespace gpuprobe::inject {
namespace {

// Between two looks at the queue: long enough to cost nothing (50 wake-ups a second), short enough
// that the pool's 40 MiB outlast it at 5 M records a second (400 MB/s).
constexpr int64_t kTickNs = 20'000'000;
// A frame is written also when nothing happened, so that the end of the capture is known within
// this.
constexpr int64_t kHeartbeatNs = 5'000'000'000;
// How long a process may outlive its other threads because of us.
constexpr int64_t kLastThreadCheckNs = 500'000'000;
// A client that registered something but never enabled a kind, or that left without a flush.
constexpr int64_t kForeignPatienceNs = 5'000'000'000;
// How long the end of the host may wait for the sampler's last piece: it looks at Stop once a tick,
// and a tick takes less than a millisecond unless /proc itself hangs.
constexpr int64_t kSamplerEndNs = 200'000'000;
constexpr int kSamplerGoneTries = 200;  // of a millisecond
// Records of a foreign clock that lie outside the session by more than this carry a stale
// conversion (pytorch issue 192021: the first kernels after a callback was registered again).
constexpr int64_t kImplausibleNs = 60'000'000'000;

cupti::BufferDecoder g_decoder;

// Hands decoded records to the writer; looks at what only the session can judge.
class DrainSink {
 public:
  DrainSink(proto::TraceWriter* writer, ThreadNames* names, sampler::HostSampler* sampler,
            const cupti::TraceClock* clock)
      : writer_(*writer),
        names_(*names),
        sampler_(sampler),
        clock_(*clock),
        foreign_(clock->foreign()),
        now_ns_(clock->Now()) {}

  bool TakeKnownKernel(const cupti::KernelInBuffer& k) {
    return !foreign_ && writer_.TakeKnownKernel(k);
  }
  bool TakeKnownCall(const ApiRecord& r) { return r.thread == thread_ && writer_.TakeKnownCall(r); }
  void OnKernel(const KernelRecord& r) {
    foreign_ ? writer_.OnKernel(Checked(r)) : writer_.OnKernel(r);
  }
  void OnCopy(const CopyRecord& r) { foreign_ ? writer_.OnCopy(Checked(r)) : writer_.OnCopy(r); }
  void OnSet(const SetRecord& r) { foreign_ ? writer_.OnSet(Checked(r)) : writer_.OnSet(r); }
  void OnGraph(const GraphRecord& r) {
    foreign_ ? writer_.OnGraph(Checked(r)) : writer_.OnGraph(r);
  }
  void OnApi(const ApiRecord& r) {
    names_.See(r.thread);
    if (sampler_ != nullptr) sampler_->NoteCudaThread(r.thread);
    thread_ = r.thread;
    writer_.OnApi(r);
  }
  void OnSync(const SyncRecord& r) { writer_.OnSync(r); }
  void OnCudaEvent(const CudaEventRecord& r) { writer_.OnCudaEvent(r); }
  void OnOverhead(const OverheadRecord& r) { writer_.OnOverhead(r); }
  void OnMarker(const MarkerRecord& r) { writer_.OnMarker(r); }
  void OnDevice(const DeviceRecord& r) { writer_.OnDevice(r); }
  void OnContext(const ContextRecord& r) { writer_.OnContext(r); }
  void OnStream(const StreamRecord& r) { writer_.OnStream(r); }

 private:
  template <typename Record>
  Record Checked(Record r) const {
    if (r.timing == Timing::kValid) {
      const int64_t distance = now_ns_ - clock_.ToTrace(r.end_ns);
      if (distance < -kImplausibleNs || distance > kImplausibleNs) r.timing = Timing::kInvalid;
    }
    return r;
  }

  proto::TraceWriter& writer_;
  ThreadNames& names_;
  sampler::HostSampler* const sampler_;  // nullptr: none
  const cupti::TraceClock& clock_;
  const bool foreign_;
  const int64_t now_ns_;
  uint32_t thread_ = 0;  // of the last call that the names and the sampler were told of
};

int64_t ReadName(void*, const char* name, char* out, size_t capacity) {
  return name == nullptr ? -1 : SafeReadString(name, out, capacity);
}

const char* ApiName(void*, ApiDomain domain, uint32_t cbid, uint32_t* api_class) {
  if (const cupti::ApiCall* call = cupti::FindApiCall(domain, cbid)) {
    *api_class = static_cast<uint32_t>(call->api_class);
    return call->name;
  }
  static char unknown[32];  // drain thread only; the writer copies it
  std::snprintf(unknown, sizeof unknown, "%s#%u",
                domain == ApiDomain::kRuntime ? "runtime" : "driver", cbid);
  *api_class = 0;
  return unknown;
}

}  // namespace

bool Drain::InitDecoder(Session* session) {
  // The filter at the source exists from CUPTI 12.5, and another client's enabling undoes it.
  g_decoder.RecordedCallsOnly(!session->config_.all_api);
  return g_decoder.Init(&session->api_, session->api_.version);
}

proto::WriterHooks Drain::Hooks(Session* session) {
  proto::WriterHooks hooks;
  hooks.user = session;
  hooks.write_frame = [](void* user, const uint8_t* data, size_t size) {
    return Drain(static_cast<Session*>(user)).WriteFrame(data, size);
  };
  hooks.read_clocks = [](void* user) {
    Session& s = *static_cast<Session*>(user);
    const cupti::ClockSample c =
        s.clock_.Update(/*read_cupti=*/!s.stepped_aside() && s.api_.handle != nullptr);
    return proto::ClockReading{c.trace_ns, c.monotonic_ns, c.realtime_ns, c.cupti_ns,
                               c.uncertainty_ns};
  };
  hooks.to_trace_ns = [](void* user, int64_t record_ns) {
    return static_cast<Session*>(user)->clock_.ToTrace(record_ns);
  };
  hooks.constant_offset = [](void* user) {
    const bool all = static_cast<Session*>(user)->clock_.TimesAreTraceTimes();
    return proto::ConstantOffset{1, all ? INT64_MAX : 0, 0};
  };
  hooks.read_name = &ReadName;
  hooks.api_name = &ApiName;
  hooks.add_packets = &Drain::AddPackets;
  return hooks;
}

void* Drain::ThreadMain(void* session) {
  Drain drain(static_cast<Session*>(session));
  drain.Run();
  return nullptr;
}

void Drain::Run() {
  const uint32_t tid = static_cast<uint32_t>(syscall(SYS_gettid));
  s_.drain_tid_.store(tid, std::memory_order_relaxed);  // read by FinishAtExit on this very thread
  if (s_.sampling_) s_.sampler_.NoteOwnThread(tid);
  prctl(PR_SET_NAME, "gpuprobe", 0, 0, 0);
  // The thread that called cuInit may have been a real-time one; nothing here is worth that.
  const sched_param ordinary = {};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);
  // Not now: on a busy machine this thread may begin after the application's first records.
  period_begin_ns_ = s_.capture_begin_ns_;
  last_frame_ns_ = MonotonicNs();
  if (!s_.config_.capture) return RunWithoutCapture(tid);
  if (s_.off_reason_[0] != '\0') {
    WaitForFile();
    return Finish("off");
  }
  // At once, so that a process that is killed within its first period leaves what it was and how it
  // was recorded, and does not go missing from the run.
  if (s_.file_.Ready()) s_.writer_.CloseFrame();

  const int64_t period_ns = s_.config_.flush_ms * 1'000'000;
  int64_t next_period = MonotonicNs() + period_ns, last_look_ns = MonotonicNs();
  for (;;) {
    const uint32_t seen = s_.wake_.load(std::memory_order_acquire);  // partner: AskDrain
    if (s_.finish_request_.load(std::memory_order_acquire) != 0) return Finish("exit");
    const uint32_t request = s_.drain_request_.load(std::memory_order_acquire);
    // relaxed: only this thread stores it.
    if (request == s_.drain_answer_.load(std::memory_order_relaxed)) {
      const int64_t left = next_period - MonotonicNs();
      if (left > 0) FutexWait(&s_.wake_, seen, left < kTickNs ? left : kTickNs);
    }
    Answer();
    DrainBuffers();
    FlushEarlyIfLow();
    // A piece that was full before its time must not wait for the period's end. Those that wait
    // because nothing can be written have to.
    if (s_.sampling_ && s_.sampler_.waiting() >= sampler::HostSampler::kNearlyFull &&
        !s_.file_.full() && s_.file_.Ready()) {
      next_period = 0;
    }
    const int64_t now = MonotonicNs();
    if (now < next_period) continue;
    next_period = now + period_ns;
    Period(now);
    if (s_.file_.failed()) return CheckFile();
    // The host's main thread has called pthread_exit and nobody else is left: without us the
    // process would have ended by now. Returning ends it, with the status it would have had.
    if (now - last_look_ns >= kLastThreadCheckNs) {
      last_look_ns = now;
      const bool sampler_lives = s_.sampling_ && !s_.sampler_.stopped();
      if (IsLastThread(tid, sampler_lives ? s_.sampler_.tid() : 0)) return FinishAsLast();
    }
  }
}

// Writes what the process has used, now and then and at its end.
void Drain::RunWithoutCapture(uint32_t tid) {
  if (s_.file_.Ready()) s_.writer_.CloseFrame();
  for (;;) {
    const uint32_t seen = s_.wake_.load(std::memory_order_acquire);  // partner: AskDrain
    if (s_.finish_request_.load(std::memory_order_acquire) != 0) return Finish("exit");
    FutexWait(&s_.wake_, seen, kLastThreadCheckNs);
    if (IsLastThread(tid, 0)) return Finish("exit");
    const int64_t now = MonotonicNs();
    if (now - last_frame_ns_ < kHeartbeatNs && s_.capture_written_) continue;
    if (s_.file_.Ready() && s_.writer_.CloseFrame()) last_frame_ns_ = now;
    if (s_.file_.failed()) return CheckFile();
  }
}

void Drain::Answer() {
  const uint32_t request = s_.drain_request_.load(std::memory_order_acquire);  // partner: AskDrain
  if (request == s_.drain_answer_.load(std::memory_order_relaxed)) return;
  DrainBuffers();
  // release: partner is StepAside; everything completed before it asked has been converted.
  s_.drain_answer_.store(request, std::memory_order_release);
  FutexWakeAll(&s_.drain_answer_);
}

void Drain::DrainBuffers() {
  CompletedBuffer* buffer = s_.pool_.PopAllCompleted();
  if (buffer == nullptr) return;
  // Another client's clock is followed by pairs of readings: records must lie between two of them.
  if (s_.clock_.foreign()) s_.clock_.Update(/*read_cupti=*/false);
  if (s_.sampling_) s_.sampler_.NoteGpuActivity(MonotonicNs());
  DrainSink sink(&s_.writer_, &s_.thread_names_, s_.sampling_ ? &s_.sampler_ : nullptr, &s_.clock_);
  while (buffer != nullptr) {
    CompletedBuffer* next = buffer->next;
    cupti::DecodeStats stats = {};
    s_.writer_.BeginBuffer();
    g_decoder.Decode(buffer->data, buffer->valid_bytes, &sink, &stats);
    s_.cupti_bytes_ += buffer->valid_bytes;
    ++s_.buffers_completed_;
    const int64_t now = s_.clock_.Now();
    s_.losses_.Add(LossCause::kUnknownKind, stats.unknown_kind, period_begin_ns_, now,
                   stats.last_unknown_kind);
    s_.losses_.Add(LossCause::kUntimed, stats.untimed_dropped, period_begin_ns_, now);
    s_.losses_.Add(LossCause::kUndecodable, stats.undecodable_bytes, period_begin_ns_, now);
    s_.pool_.Release(buffer);
    buffer = next;
  }
}

void Drain::FlushCupti(bool forced) {
  const int64_t begin = MonotonicNs();
  s_.source_.Flush(forced);
  s_.flush_ns_ += static_cast<uint64_t>(MonotonicNs() - begin);
  ++s_.flush_calls_;
}

// Threads that have ended keep their buffers until a flush, and a process may start thousands in a
// period. Not again before the period's own where it did not help: those are then buffers of
// threads that live.
void Drain::FlushEarlyIfLow() {
  if (early_flush_is_vain_ || s_.stepped_aside() || !s_.pool_.Low()) return;
  FlushCupti(/*forced=*/false);
  DrainBuffers();
  early_flush_is_vain_ = s_.pool_.Low();
}

void Drain::TakeLosses() {
  const int64_t now = s_.clock_.Now();
  if (s_.api_.handle != nullptr && !s_.stepped_aside()) {
    s_.losses_.Add(LossCause::kCuptiDropped, s_.source_.TakeDropped(), period_begin_ns_, now);
  }
  DropRange drops;
  if (s_.events_.TakeDrops(&drops)) {
    s_.losses_.Add(LossCause::kQueueFull, drops.count, drops.first_ns, drops.last_ns);
  }
  s_.losses_.TakeAll([this](const Loss& l) {
    s_.writer_.AddLoss(l.cause, l.count, l.begin_ns, l.end_ns, l.detail);
  });
  period_begin_ns_ = now;
}

void Drain::OnEvent(const SessionEvent& event) {
  switch (event.kind) {
    case EventKind::kForeignClientTook: {
      blind_begin_ns_ = event.time_ns;
      std::snprintf(blind_who_, sizeof blind_who_, "%s", event.text + 1);
      blind_call_ = TakingCallName(static_cast<TakingCall>(event.text[0] - 'A'));
      // Until OnEvent tells its end.
      s_.writer_.AddBlind(blind_begin_ns_, 0, blind_who_, blind_call_);
      break;
    }
    case EventKind::kForeignClientGaveBack:
      if (blind_begin_ns_ != 0) {
        s_.writer_.AddBlind(blind_begin_ns_, event.time_ns, blind_who_, blind_call_);
        blind_begin_ns_ = 0;
      }
      // Once more, where graphs are recorded in another way from now on.
      if (s_.source_.graph_level_given_up() && !s_.graph_nodes_told_) s_.capture_written_ = false;
      break;
    default:
      break;
  }
}

void Drain::TakeEvents() {
  s_.events_.Consume([this](const SessionEvent& event) { OnEvent(event); });
  s_.events_.ReclaimEnded();
}

void Drain::Period(int64_t now) {
  if (!TheRun().preloaded) InterceptLoadedClients();
  if (!s_.stepped_aside()) {
    FlushCupti(/*forced=*/false);
    early_flush_is_vain_ = false;
  } else if (s_.ForeignClientIsGone(kForeignPatienceNs)) {
    s_.ComeBack();
  }
  DrainBuffers();
  TakeEvents();
  TakeLosses();
  CloseFrameIfDue(now);
}

// What told the frame's reader something that no later frame would tell again is told again where
// the frame is lost.
bool Drain::WriteFrame(const uint8_t* data, size_t size) {
  const bool written = s_.file_.Append(data, size);
  s_.capture_written_ = s_.threads_written_ = written;
  for (; written && s_.pieces_in_frame_ != 0; --s_.pieces_in_frame_) s_.sampler_.Release();
  return written;
}

void Drain::CloseFrameIfDue(int64_t now) {
  const bool full = s_.file_.full();  // then only the closing frame has a chance
  const bool has_samples = s_.sampling_ && s_.sampler_.waiting() != 0 && !full;
  const bool has_data = s_.writer_.HasData() || has_samples || (!s_.capture_written_ && !full);
  if (!has_data && now - last_frame_ns_ < kHeartbeatNs) return;
  // Records stay staged through a pause. What the writer has no room for in that time it closes
  // itself into frames that are refused, and counts.
  if (!s_.file_.Ready()) {
    s_.capture_written_ = false;  // it tells of the outage
    return;
  }
  s_.writer_.CloseFrame();
  last_frame_ns_ = now;
}

// What is lost with the file is counted, but there is no place left to write that down; the line on
// stderr is all.
void Drain::NoteFailedFile() {
  if (s_.off_reason_[0] == '\0') {
    if (s_.file_.path()[0] == '\0') {
      s_.Off("the trace cannot be written: %s", s_.file_.error_text());
      return;
    }
    s_.Off("the trace cannot be written (errno %d, %s): %s", s_.file_.error_number(),
           s_.file_.error_text(), s_.file_.path());
  }
}

// Before the one frame that says why nothing is recorded: until it can be hoped for, or the host
// ends.
void Drain::WaitForFile() {
  const uint32_t tid = static_cast<uint32_t>(syscall(SYS_gettid));
  for (;;) {
    const uint32_t seen = s_.wake_.load(std::memory_order_acquire);  // partner: AskDrain
    if (s_.finish_request_.load(std::memory_order_acquire) != 0) return;
    if (s_.file_.Ready() || s_.file_.failed() || IsLastThread(tid, 0)) return;
    FutexWait(&s_.wake_, seen, kLastThreadCheckNs);
  }
}

// The sampler seals what it has and ends.
void Drain::EndSampler(int64_t limit_ns) {
  if (!s_.sampling_) return;
  s_.sampler_.Stop();
  s_.sampler_.WaitStopped(limit_ns);
}

// The process lives on for our threads alone. The last one to return from its function runs the
// host's exit handlers, and that must be this one: the sampler's has no descriptor of the host's.
void Drain::FinishAsLast() {
  Finish("exit");
  const uint32_t tid = s_.sampling_ ? s_.sampler_.tid() : 0;
  for (int i = 0; tid != 0 && i < kSamplerGoneTries; ++i) {
    if (syscall(SYS_tgkill, getpid(), tid, 0) != 0) return;
    const struct timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

// The file cannot be written any more: stop recording, for good.
void Drain::CheckFile() {
  EndSampler(0);
  if (!s_.stepped_aside() && s_.LockControl()) {
    s_.source_.Pause();
    s_.UnlockControl();
  }
  NoteFailedFile();
  PrintLine();
  s_.finished_.store(1, std::memory_order_release);  // partner: FinishAtExit
  FutexWakeAll(&s_.finished_);
}

// On a full disk the end of the file's last block may take a frame that says what was lost, where
// there is no room for the records themselves.
bool Drain::CloseFile(const char* reason) {
  const uint32_t outstanding = s_.pool_.stats().outstanding;
  if (s_.writer_.Finish(reason, outstanding)) return true;
  s_.file_.TryNow();
  return s_.writer_.Finish(reason, outstanding);
}

void Drain::Finish(const char* reason) {
  s_.file_.TryNow();
  // Room for the sampler's last piece.
  if (s_.sampling_ && s_.sampler_.waiting() >= sampler::HostSampler::kNearlyFull) {
    s_.writer_.CloseFrame();
  }
  if (s_.sampling_) s_.sampler_.Stop();
  if (s_.off_reason_[0] == '\0' && !s_.stepped_aside()) {
    FlushCupti(/*forced=*/false);
    // What is still with CUPTI holds unfinished work, which only a forced flush returns, with open
    // ends.
    if (s_.pool_.stats().outstanding != 0) FlushCupti(/*forced=*/true);
  }
  DrainBuffers();
  TakeEvents();
  if (blind_begin_ns_ != 0) {
    s_.writer_.AddBlind(blind_begin_ns_, s_.clock_.Now(), blind_who_, blind_call_);
    blind_begin_ns_ = 0;
  }
  TakeLosses();
  EndSampler(kSamplerEndNs);
  // Within the limit or lost to it, like every frame before: the closing frame alone goes beyond
  // it.
  s_.file_.TryNow();
  if (s_.file_.full() || s_.file_.room() < proto::kMaxFrameBytes) s_.writer_.CloseFrame();
  s_.file_.LiftSizeLimit();
  s_.file_.TryNow();
  if (!CloseFile(reason)) NoteFailedFile();
  PrintLine();
  Phase active = Phase::kActive;
  // release: partner is phase().
  s_.phase_.compare_exchange_strong(active, Phase::kFinished, std::memory_order_release,
                                    std::memory_order_relaxed);
  s_.finished_.store(1, std::memory_order_release);  // partner: FinishAtExit
  FutexWakeAll(&s_.finished_);
}

// At most one line per run, from the process that is the root of it, and only if descriptor 2 is
// still what it was when we were loaded, and a terminal (or GPUPROBE_VERBOSE).
void Drain::PrintLine() {
  const RunFacts& run = TheRun();
  struct stat now;
  if ((!run.root || !s_.config_.capture) && !s_.config_.verbose) return;
  if (syscall(SYS_fstat, 2, &now) != 0) return;
  if (now.st_dev != run.stderr_device || now.st_ino != run.stderr_inode) return;
  struct termios settings;
  if (!s_.config_.verbose && ioctl(2, TCGETS, &settings) != 0) return;
  char line[PATH_MAX + 100];
  int n;
  if (s_.off_reason_[0] != '\0') {
    n = std::snprintf(line, sizeof line, "gpuprobe: off: %s\n", s_.off_reason_);
  } else if (!s_.file_.InPlace()) {
    n = std::snprintf(line, sizeof line,
                      "gpuprobe: recorded, but the trace was moved or removed meanwhile: %s\n",
                      s_.file_.path());
  } else {
    n = std::snprintf(line, sizeof line, "gpuprobe: recorded; read it with: probe-report %s\n",
                      run.directory);
  }
  if (n <= 0 || static_cast<size_t>(n) >= sizeof line) return;
  // A folder's name may hold anything; the line stays one, and the terminal as it is.
  for (int i = 0; i < n - 1; ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7f) line[i] = '?';
  }
  if (write(2, line, static_cast<size_t>(n)) < 0) return;  // nobody to tell
}

}  // namespace gpuprobe::inject

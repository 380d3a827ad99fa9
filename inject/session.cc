// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/session.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "inject/clients/foreign_client.h"
#include "inject/drain.h"
#include "inject/futex.h"
#include "inject/nvtx.h"
#include "inject/process/environment.h"

namespace gpuprobe::inject {
namespace {

constinit Session g_session;

// Staging, dictionaries, columns and zstd's workspace; the rest of the cap is activity buffers.
constexpr size_t kWriterBytes = 20u << 20;
// Event rings, stack of the drain thread, static storage: accounted as a lump.
constexpr size_t kOtherBytes = 3u << 20;
// Below this CUPTI version (CUDA 12.9) a refused buffer request crashes CUPTI (seen by Kineto).
constexpr uint32_t kFirstVersionThatMayBeRefused = 27;
constexpr uint32_t kEventRings = 64;
// What the sampler takes of the memory cap: an eighth, and no more than it has use for.
constexpr size_t kSamplerShare = 8, kMostSamplerBytes = 8u << 20;
// Large ones: a pool of fewer loses most of what a few threads do.
constexpr size_t kFewestBuffers = 16;
// CUPTI's own code runs on the drain thread, and the host's exit handlers where it is the last one;
// the sampler holds 14 KiB of addresses for one system call, and thread-local storage of the host's
// libraries lies on the stack as well. Not what the host has set (ulimit -s,
// pthread_setattr_default_np): that may be too little, and a host that locks its memory has all of
// it resident.
constexpr size_t kStackBytes = 2u << 20;

uint32_t Pid() { return static_cast<uint32_t>(getpid()); }
uint32_t Tid() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// Time spent suspended: what CLOCK_BOOTTIME, the clock of process start times, has over
// CLOCK_MONOTONIC.
int64_t BootMinusMonotonicNs() {
  struct timespec boot;
  if (clock_gettime(CLOCK_BOOTTIME, &boot) != 0) return 0;
  return boot.tv_sec * 1'000'000'000LL + boot.tv_nsec - MonotonicNs();
}

void ExitHandler() { g_session.FinishAtExit(); }

int CreateDetached(size_t stack_bytes, void* (*main)(void*), void* argument) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, main, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

bool StartThread(void* (*main)(void*), void* argument) {
  sigset_t all, old;
  sigfillset(&all);
  // The new thread inherits the mask: no signal of the host is ever handled on it, and SIGXFSZ and
  // SIGPIPE of its own writes stay pending.
  if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0) return false;
  // But for SIGSYS: where a seccomp filter of the host's answers a call with it, the kernel kills
  // the process if the calling thread blocks it, and a host that has a handler expects it to answer
  // for every thread. A host that blocks it itself may wait for it (sigtimedwait) and would die of
  // a thread that does not.
  if (sigismember(&old, SIGSYS) == 0) {
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
  }
  int error = CreateDetached(kStackBytes, main, argument);
  // Thread-local storage that does not fit into it: as large as the host's own.
  if (error == EINVAL) error = CreateDetached(0, main, argument);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return error == 0;
}

void* SamplerMain(void* sampler) {
  static_cast<sampler::HostSampler*>(sampler)->Run();
  return nullptr;
}

}  // namespace

const char* TakingCallName(TakingCall call) {
  switch (call) {
    case TakingCall::kRegisterCallbacks:
      return "cuptiActivityRegisterCallbacks";
    case TakingCall::kRegisterTimestampCallback:
      return "cuptiActivityRegisterTimestampCallback";
    case TakingCall::kEnable:
      return "cuptiActivityEnable";
    case TakingCall::kEnableAndDump:
      return "cuptiActivityEnableAndDump";
    case TakingCall::kEnableContext:
      return "cuptiActivityEnableContext";
    case TakingCall::kSetAttribute:
      return "cuptiActivitySetAttribute";
    case TakingCall::kFinalize:
      return "cuptiFinalize";
  }
  return "";
}

Session& TheSession() { return g_session; }

bool Session::Mine() const { return phase() == Phase::kActive && InOwner(); }

// A pid alone does not tell a forked child: the first one in a new pid namespace may have its
// parent's.
bool Session::InOwner() const {
  return owner_pid_.load(std::memory_order_relaxed) == Pid() &&
         (owner_mark_ == nullptr || *owner_mark_ != 0);
}

// A byte that is 0 in every forked child. Without it (Linux before 4.14) the pid has to do.
void Session::MarkOwner() {
  constexpr size_t kPageBytes = 4096;
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    munmap(page, kPageBytes);
    return;
  }
  uint8_t* mark = static_cast<uint8_t*>(page);
  *mark = 1;
  owner_mark_ = mark;
}

void Session::OnBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  Session& s = g_session;
  *max_records = 0;
  *buffer = s.pool_.Acquire(size);
  if (*buffer != nullptr) return;
  const int64_t now = s.clock_.Now();
  s.losses_.Add(LossCause::kPoolExhausted, 1, now, now);
  *buffer = s.scratch_;  // nullptr where CUPTI takes a refusal
  *size = s.scratch_bytes_;
}

void Session::OnBufferCompleted(void*, uint32_t stream, uint8_t* buffer, size_t,
                                size_t valid_bytes) {
  Session& s = g_session;
  if (buffer == nullptr) return;
  if (buffer == s.scratch_) {
    const int64_t now = s.clock_.Now();
    s.losses_.Add(LossCause::kDiscarded, valid_bytes, now, now);
    return;
  }
  s.pool_.PushCompleted(buffer, valid_bytes, 0, stream);
}

void Session::Off(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(off_reason_, sizeof off_reason_, format, arguments);
  va_end(arguments);
  // release: partner is phase(); whoever sees kOff sees the reason.
  phase_.store(Phase::kOff, std::memory_order_release);
}

bool Session::ReserveMemory() {
  const size_t cap = static_cast<size_t>(config_.memory_mb) << 20;
  ReserveSampler();
  const size_t pool_bytes = cap - kWriterBytes - kOtherBytes - sampler_bytes_;
  config_.buffer_kb = (config_.buffer_kb + 3) / 4 * 4;  // whole pages
  size_t buffer_bytes = static_cast<size_t>(config_.buffer_kb) << 10;
  const size_t for_large = ActivityBuffers::BytesForLarge(pool_bytes, buffer_bytes);
  if (buffer_bytes + 64 > for_large / kFewestBuffers) {
    config_.buffer_kb = static_cast<int64_t>((for_large / kFewestBuffers - 64) >> 12 << 2);
    warnings_.Add(
        "GPUPROBE_BUFFER_KB reduced to %lld: GPUPROBE_MEMORY_MB=%lld has no room for more",
        static_cast<long long>(config_.buffer_kb), static_cast<long long>(config_.memory_mb));
    buffer_bytes = static_cast<size_t>(config_.buffer_kb) << 10;
  }
  if (!InitWriter() || !events_.Init(kEventRings)) return false;
  uint32_t fewer = 0;
  if (api_.version != 0 && api_.version < kFirstVersionThatMayBeRefused) {
    fewer = 1;
    void* scratch = mmap(nullptr, buffer_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (scratch == MAP_FAILED) return false;
    scratch_ = static_cast<uint8_t*>(scratch);
    scratch_bytes_ = buffer_bytes;
  }
  if (!pool_.Init(pool_bytes, buffer_bytes, fewer)) return false;
  memory_bytes_ = kWriterBytes + pool_.reserved_bytes() + events_.reserved_bytes() +
                  scratch_bytes_ + sampler_bytes_ + sizeof(Session);
  return true;
}

bool Session::InitWriter() {
  void* memory = mmap(nullptr, kWriterBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  proto::WriterOptions options;
  options.memory_bytes = kWriterBytes;
  options.flush_period_ms = static_cast<uint32_t>(config_.flush_ms);
  options.file_id = file_id_;
  return writer_.Init(options, Drain::Hooks(this), memory);
}

void Session::NameFile() {
  ReadProcessFacts(&facts_);
  process_start_ns_ = clock_.FromMonotonic(facts_.start_boot_ns - BootMinusMonotonicNs());
  const RunFacts& run = TheRun();
  const uint64_t max_bytes = static_cast<uint64_t>(config_.max_trace_mb) << 20;
  file_.SetName(run.directory, facts_.host, facts_.pid, clock_.Now(), facts_.rank, file_id_,
                max_bytes);
  if (run.directory[0] == '\0') file_.Refuse(run.no_directory);
}

// Without memory for it the session goes on.
void Session::ReserveSampler() {
  if (config_.sample_hz == 0) return;
  sampler::SamplerOptions options;
  options.hz = static_cast<uint32_t>(config_.sample_hz);
  options.python = config_.sample_python;
  options.native = config_.sample_native;
  options.children = config_.sample_children;
  options.trace_minus_monotonic_ns = clock_.FromMonotonic(0);
  // Two pieces a flush period, and so two to spare.
  options.seal_period_ms = static_cast<uint32_t>(config_.flush_ms / 2);
  options.memory_bytes = (static_cast<size_t>(config_.memory_mb) << 20) / kSamplerShare;
  if (options.memory_bytes > kMostSamplerBytes) options.memory_bytes = kMostSamplerBytes;
  const size_t bytes = sampler::HostSampler::MemoryBytes(options);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || !sampler_.Init(options, memory)) {
    warnings_.Add("the host is not sampled: no memory");
    if (memory != MAP_FAILED) munmap(memory, bytes);
    return;
  }
  sampler_bytes_ = bytes;
}

bool Session::StartCapture() {
  cupti::ActivityOptions options;
  options.gpu_work = config_.kernels;
  options.runtime_api = config_.runtime_api;
  options.driver_api = config_.driver_api;
  options.all_api_calls = config_.all_api;
  options.synchronization = config_.sync;
  options.overhead = config_.overhead;
  options.markers = config_.nvtx;
  options.graph_nodes = config_.graph_nodes;
  options.latency_timestamps = config_.latency_timestamps;
  options.hw_trace = config_.hw_trace;
  // Copies between GPUs need two of them, and to ask for them makes every replay of a CUDA graph of
  // 20 kernels 1.7 times as dear on an H200 (bench/RESULTS.md).
  options.peer_copies = GpusAtMost(GetEnv("CUDA_VISIBLE_DEVICES"), "/dev/nvidia") != 1;
  char why[300];
  const bool started =
      source_.Start(&api_, options, &OnBufferRequested, &OnBufferCompleted, why, sizeof why);
  KeepOutcomes();
  if (!started) Off("%s", why);
  return started;
}

void Session::KeepOutcomes() {
  const cupti::Outcome* outcomes = source_.outcomes(&kind_count_);
  std::memcpy(kinds_, outcomes, kind_count_ * sizeof *outcomes);
  outcomes = source_.attributes(&attribute_count_);
  std::memcpy(attributes_, outcomes, attribute_count_ * sizeof *outcomes);
}

bool Session::StartDrainThread() { return StartThread(&Drain::ThreadMain, this); }

void Session::StartSamplerThread() {
  if (sampler_bytes_ == 0) return;
  sampling_ = StartThread(&SamplerMain, &sampler_);
  if (!sampling_) warnings_.Add("the host is not sampled: no thread could be started");
}

void Session::Start(const char* door) {
  Phase idle = Phase::kIdle;
  // acq_rel: the one who wins owns everything below until it publishes kActive or kOff.
  if (!phase_.compare_exchange_strong(idle, Phase::kStarting, std::memory_order_acq_rel)) return;
  const int64_t begin = MonotonicNs();
  door_ = door;
  owner_pid_.store(Pid(), std::memory_order_relaxed);  // published by phase_
  MarkOwner();
  LoadConfig(&config_, &warnings_);
  if (TheRun().only_pid != 0 && TheRun().only_pid != Pid()) {
    Off("GPUPROBE_CHILDREN is off, and this is a child");
    return;
  }
  if (getrandom(&file_id_, sizeof file_id_, GRND_NONBLOCK) != sizeof file_id_) {
    file_id_ = static_cast<uint64_t>(begin) * 0x9E3779B97F4A7C15ull + Pid();
  }
  if (!config_.capture) return StartWithoutCapture();
  char why[300] = "";
  const char* preferred = config_.cupti_path[0] != '\0' ? config_.cupti_path : nullptr;
  const bool loaded = cupti::LoadCupti(&api_, preferred, why, sizeof why);
  if (!loaded) api_ = cupti::CuptiApi();
  clock_.Init(loaded ? &api_ : nullptr);
  if (!ReserveMemory()) {
    Off("no memory for %lld MiB of buffers", static_cast<long long>(config_.memory_mb));
    return;  // nowhere to write the reason down, either
  }
  NameFile();
  if (!TheRun().preloaded) InterceptLoadedClients();
  capture_begin_ns_ = clock_.Now();
  bool capturing = false;
  if (!loaded) {
    Off("%s", why);
  } else if (!Drain::InitDecoder(this)) {
    Off("record layouts of CUPTI version %u are not known", api_.version);
  } else {
    capturing = StartCapture();
    if (config_.nvtx && api_.InitializeInjectionNvtx2 == nullptr) {
      warnings_.Add("NVTX ranges are not recorded: this libcupti cannot take them");
    } else if (const char* passes = config_.nvtx ? WhyNvtxPassesUsBy() : nullptr) {
      warnings_.Add("NVTX ranges are not recorded: %s", passes);
    } else if (config_.nvtx && NvtxModulesRefused() > 0) {
      warnings_.Add("NVTX ranges of %u modules are not recorded: too many before CUDA",
                    NvtxModulesRefused());
    }
  }
  if (capturing) StartSamplerThread();
  start_duration_ns_ = MonotonicNs() - begin;
  if (!StartDrainThread()) {
    if (capturing) source_.Pause();
    if (sampling_) sampler_.Stop();
    Off("no thread could be started");
    return;
  }
  // Registered here and not at load: exit handlers run in reverse order, and this one has to run
  // before the driver's own, which was registered when CUDA was initialised a moment ago.
  std::atexit(&ExitHandler);
  // release: partner is phase(). Not where the drain thread has turned us off meanwhile: the file
  // cannot be written, and this thread had to wait for longer than a flush period.
  Phase starting = Phase::kStarting;
  if (capturing) {
    phase_.compare_exchange_strong(starting, Phase::kActive, std::memory_order_release,
                                   std::memory_order_relaxed);
    if (config_.nvtx) AttachWaitingNvtx(api_);
  }
}

// No CUPTI, no sampler, no buffers: how long the process took and what it used, to compare runs
// with.
void Session::StartWithoutCapture() {
  clock_.Init(nullptr);
  Off("GPUPROBE_CAPTURE is off");
  if (!InitWriter()) return;
  memory_bytes_ = kWriterBytes + sizeof(Session);
  NameFile();
  capture_begin_ns_ = clock_.Now();
  if (StartDrainThread()) std::atexit(&ExitHandler);
}

void Session::AskDrain(std::atomic<uint32_t>* request) {
  // release: partner is the drain thread's acquire load of the request; what was pushed before is
  // seen.
  request->fetch_add(1, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  FutexWakeAll(&wake_);
}

void Session::FinishAtExit() {
  const Phase now = phase();
  if (now != Phase::kActive && now != Phase::kOff) return;
  // A forked child runs our handler, too.
  if (!InOwner()) return;
  // The drain thread itself ends the process as its last thread, and is done. (Where gettid is
  // forbidden both are -1 and tell nothing.)
  const uint32_t tid = Tid();
  if (tid != UINT32_MAX && drain_tid_.load(std::memory_order_relaxed) == tid) return;
  AskDrain(&finish_request_);
  const int64_t deadline = MonotonicNs() + kFinalFlushLimitNs;
  while (finished_.load(std::memory_order_acquire) == 0) {  // partner: Drain::Finish
    const int64_t left = deadline - MonotonicNs();
    if (left <= 0) return;
    FutexWait(&finished_, 0, left);
  }
}

bool Session::LockControl() {
  const int64_t deadline = MonotonicNs() + kFinalFlushLimitNs;
  uint32_t free = 0;
  // acquire: partner is UnlockControl.
  while (!control_.compare_exchange_weak(free, 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
    free = 0;
    if (MonotonicNs() > deadline) return false;
    FutexWait(&control_, 1, 1'000'000);
  }
  return true;
}

void Session::UnlockControl() {
  control_.store(0, std::memory_order_release);  // partner: LockControl
  FutexWakeAll(&control_);
}

void Session::StepAside(const char* who, TakingCall call) {
  if (!Mine() || aside_.load(std::memory_order_acquire)) return;  // partner: the store below
  if (!LockControl()) return;
  if (!aside_.load(std::memory_order_relaxed)) {  // under the lock
    SessionEvent event = {};
    event.time_ns = clock_.Now();
    event.kind = EventKind::kForeignClientTook;
    char text[SessionEvent::kTextBytes];
    // One letter for the call, so that the name of the library has the rest of the event.
    std::snprintf(text, sizeof text, "%c%s", 'A' + static_cast<int>(call), who);
    event.SetText(text);
    events_.Push(event);
    source_.Pause();
    losses_.Add(LossCause::kForeignBuffer, pool_.stats().outstanding, event.time_ns, clock_.Now());
    // release: partner is the load above; the drain thread, too, stops flushing when it sees this.
    aside_.store(true, std::memory_order_release);
    // Buffers completed so far are on the old clock: have them decoded before the clock may change.
    AskDrain(&drain_request_);
    const uint32_t wanted = drain_request_.load(std::memory_order_relaxed);
    const int64_t deadline = MonotonicNs() + kFinalFlushLimitNs / 4;
    for (;;) {
      const uint32_t answer =
          drain_answer_.load(std::memory_order_acquire);  // partner: Drain::Answer
      if (static_cast<int32_t>(answer - wanted) >= 0) break;
      const int64_t left = deadline - MonotonicNs();
      if (left <= 0) break;
      FutexWait(&drain_answer_, answer, left);
    }
  }
  UnlockControl();
}

void Session::ComeBack() {
  if (!Mine() || !aside_.load(std::memory_order_acquire)) return;  // partner: StepAside
  if (!LockControl()) return;
  // relaxed: under the lock, as where they are stored.
  if (aside_.load(std::memory_order_relaxed) && !poisoned_.load(std::memory_order_relaxed)) {
    const bool resumed = source_.Resume();
    SessionEvent event = {};
    event.time_ns = clock_.Now();
    event.kind = EventKind::kForeignClientGaveBack;
    if (resumed) {
      aside_.store(false, std::memory_order_release);  // partner: StepAside, drain thread
      events_.Push(event);
    }
  }
  UnlockControl();
}

void Session::GiveUpCupti(const char* who) {
  if (!Mine()) return;
  // First, and under the lock: the drain thread comes back by itself from a client that has left,
  // also between our stepping aside and the caller's cuptiFinalize.
  const bool locked = LockControl();
  poisoned_.store(true, std::memory_order_relaxed);
  if (locked) UnlockControl();
  StepAside(who, TakingCall::kFinalize);
}

void Session::NoteForeignCall(uint32_t kinds) {
  // relaxed: a heuristic of seconds; each value stands alone.
  foreign_kinds_.store(kinds, std::memory_order_relaxed);
  foreign_call_ns_.store(MonotonicNs(), std::memory_order_relaxed);
}

bool Session::ForeignClientIsGone(int64_t patience_ns) const {
  return foreign_kinds_.load(std::memory_order_relaxed) == 0 &&
         MonotonicNs() - foreign_call_ns_.load(std::memory_order_relaxed) > patience_ns;
}

void Session::ForeignClock(cupti::TimestampFn callback) {
  if (Mine()) clock_.ForeignClock(callback);
}

}  // namespace gpuprobe::inject

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/host_sampler.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "sampler/children.h"
#include "sampler/location_table.h"
#include "sampler/native_leaf.h"
#include "sampler/noted_threads.h"
#include "sampler/private_descriptors.h"
#include "sampler/proc_files.h"
#include "sampler/sample_output.h"
#include "sampler/thread_look.h"
#include "sampler/thread_scan.h"

namespace gpuprobe::sampler {
namespace {

constexpr size_t kMaxWatched = 96;
constexpr size_t kMaxCuda = 64, kMaxBusy = 16;
constexpr size_t kMaxReaders = 32;
constexpr size_t kLocationBytes = 768u << 10;

// One directory read of the round over all threads. A round is begun if threads that are not
// watched have used any CPU worth the name since the last question, and else only to find children:
// those that the main thread has started are found without. A thread is busy by what it used
// between two rounds; where one directory read is a round, the second may follow soon.
constexpr int64_t kScanStepNs = 100'000'000;
constexpr int64_t kScanRoundNs = 1'000'000'000, kShortScanRoundNs = 250'000'000;
constexpr uint32_t kShortScanThreads = 64;
constexpr int64_t kChildrenRoundNs = 4'000'000'000;
constexpr uint32_t kBusyPermille = 50, kIdlePermille = 20;
constexpr uint32_t kIdleWindows = 3;  // seconds below kIdlePermille until a thread is let go of

constexpr size_t kChildrenPerTick = 8;
// Children matter while the GPU is in use; a loader that takes a minute for a batch is such a use.
constexpr int64_t kGpuUseNs = 60'000'000'000;
// Without such a use everything is this much slower: a notebook that idles over night must neither
// wake up all the time nor fill a disk.
constexpr int64_t kIdleFactor = 10;
// A reader goes to another child after this time, or when its own has slept for this long: finding
// the interpreter anew takes about a millisecond.
constexpr int64_t kReaderTurnNs = 3'000'000'000, kReaderIdleNs = 500'000'000;

constexpr int64_t kBudgetWindowNs = 1'000'000'000;
constexpr int64_t kBudgetPpm = 5'000;
// One tick in so many is measured and stands for all: its clock is a system call. Prime to the
// periods of what is done now and then.
constexpr int64_t kMeasuredTicks = 5;
// What may be spent beyond it, once: while a program imports its modules every stack is deep and
// new (a PyTorch process on an H200 machine: 90 ms in the first 5 s), and a rate that was lowered
// there would leave the loop behind it with a quarter of its samples. Saved up again in 40 s.
constexpr int64_t kBudgetCreditNs = 200'000'000;
constexpr uint32_t kMaxStride = 8;  // of ticks; of looks at busy threads

// While no thread that is looked at has run, nothing is lost by looking less often: how long a wait
// was is known at its end. What follows it, though, is met later, and so the pause is an eighth of
// the time that nothing has run at most, and a twenty-fifth of a second.
constexpr int64_t kQuietNsPerStride = 160'000'000;
constexpr uint32_t kMaxQuietStride = 4;

constexpr uint32_t kSharedTableHz = 20;

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t Clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kNsPerSecond + t.tv_nsec;
}
int64_t MonotonicNs() { return Clock(CLOCK_MONOTONIC); }

uint32_t* Word(std::atomic<uint32_t>* word) { return reinterpret_cast<uint32_t*>(word); }

size_t Aligned(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// /proc may be that of another namespace of process ids: its numbers are then not ours.
bool ProcIsOurs() {
  char link[24], own[24];
  const ssize_t n = readlink("/proc/self", link, sizeof link - 1);
  if (n <= 0) return false;
  link[n] = '\0';
  PutDecimal(static_cast<uint64_t>(getpid()), own);
  return std::strcmp(link, own) == 0;
}

}  // namespace

struct HostSampler::State {
  SamplerOptions options;
  LocationTable locations;
  SampleOutput output;
  ThreadScan scan;
  NativeLeaf native;
  RunningIp running;
  Children children;
  NotedThreads noted;

  SampledProcess self;
  WatchedThread watched[kMaxWatched];
  LookTools tools;

  PythonReader readers[kMaxReaders];  // [0] is for this process
  SampledProcess* lent_to[kMaxReaders] = {};
  int64_t lent_ns[kMaxReaders] = {};
  size_t reader_count = 0;

  bool private_descriptors = false;
  uint64_t ticks = 0, missed = 0, visits = 0;
  uint64_t random = 0x9E3779B97F4A7C15ull;
  uint32_t watched_count = 0, busy_count = 0, cuda_count = 0;

  int64_t next_scan_step_ns = 0, next_scan_round_ns = 0, next_children_round_ns = 0;
  bool scan_for_children = false;
  uint64_t watched_cpu_ns = 0;  // of all looks so far
  uint64_t accounted_ns = 0;    // CPU time of the process without it and our own, a round ago
  int64_t accounted_at_ns = 0;
  size_t watched_end = 0;  // behind the last entry of `watched` that was ever in use
  size_t next_child = 0;

  // Strides: 1 is full rate.
  uint32_t tick_stride = 1, busy_stride = 1, quiet_stride = 1;
  int64_t quiet_since_ns = 0;  // 0: something has run
  size_t children_per_tick = kChildrenPerTick;
  int64_t budget_begin_ns = 0, budget_ppm = kBudgetPpm, budget_credit_ns = kBudgetCreditNs;
  bool was_over = false;
  int64_t own_cost_ns = 0, children_cost_ns = 0;  // since budget_begin_ns
  int64_t budget_cpu_ns = 0;                      // of this thread, at budget_begin_ns
  uint64_t cpu_ns = 0, calls_before = 0, memory_calls_before = 0;
  uint64_t other_calls_before = 0, switches = 0;

  std::atomic<int64_t> gpu_used_ns{0};
  std::atomic<uint32_t> tid{0}, own_tid{0};
  // Futex words.
  std::atomic<uint32_t> stop{0}, stopped{0};

  int64_t CpuNs();
  bool Begin();
  void Loop();
  bool WaitUntil(int64_t monotonic_ns);
  void Tick(int64_t now);
  void JudgeQuiet(int64_t now, uint64_t changed_before);
  uint64_t changed() const { return tools.looks - tools.unchanged; }
  static void Emit(void* state, SampledProcess* process, WatchedThread* thread);
  void TakeNoted();
  bool IsOurs(uint32_t id) const;
  WatchedThread* Watched(uint32_t id);
  void Watch(uint32_t id, uint8_t role);
  void LetGo(WatchedThread* thread);
  void LookAtOwn(int64_t now);
  void JudgeBusy(WatchedThread* thread, int64_t now);
  bool OthersAreBusy(int64_t now);
  void ScanThreads(int64_t now);
  static void VisitThread(void* state, uint32_t id, uint32_t cpu_permille);
  void Promote(uint32_t id);
  void LookAtChildren(int64_t now);
  void LookAtChild(ChildProcess* child, int64_t now);
  bool LendReader(ChildProcess* child, int64_t now);
  void TakeReaderBack(SampledProcess* process);
  bool GpuInUse(int64_t now) const;
  void Budget(int64_t now);
  void NoteRate();
  proto::SamplerTotals Totals();
};

// ---- Memory ----

size_t HostSampler::MemoryBytes(const SamplerOptions& options) {
  size_t bytes = Aligned(sizeof(State)) + Aligned(SampleOutput::kMemoryBytes) + kLocationBytes +
                 Aligned(ThreadScan::kMemoryBytes) + NativeLeaf::kMemoryBytes;
  if (!options.python) return bytes;
  const size_t reader = Aligned(PythonReader::MemoryBytes());
  size_t count = options.children && bytes < options.memory_bytes
                     ? (options.memory_bytes - bytes) / reader
                     : 1;
  if (count < 1) count = 1;
  if (count > kMaxReaders) count = kMaxReaders;
  return bytes + count * reader;
}

bool HostSampler::Init(const SamplerOptions& options, void* memory) {
  uint8_t* at = static_cast<uint8_t*>(memory);
  uint8_t* const end = at + MemoryBytes(options);
  const auto take = [&at](size_t bytes) {
    uint8_t* const place = at;
    at += Aligned(bytes);
    return place;
  };
  State* s = new (take(sizeof(State))) State;
  s->options = options;
  s->output.Init(take(SampleOutput::kMemoryBytes), &s->locations, options.trace_minus_monotonic_ns);
  if (!s->locations.Init(take(kLocationBytes), kLocationBytes)) return false;
  const uint32_t pid = static_cast<uint32_t>(getpid());
  s->scan.Init(take(ThreadScan::kMemoryBytes), pid);
  s->native.Init(take(NativeLeaf::kMemoryBytes), pid);
  s->children.Init(pid);
  // Twice a tick, so that a thread that shares its CPU has one, too.
  if (options.hz != 0) s->running.Init(kNsPerSecond / 2 / options.hz);
  if (options.python) {
    const size_t reader = PythonReader::MemoryBytes();
    while (s->reader_count < kMaxReaders && at + Aligned(reader) <= end) {
      s->readers[s->reader_count++].Init(take(reader));
    }
    s->self.python = &s->readers[0];
    s->lent_to[0] = &s->self;
  }
  s->tools.locations = &s->locations;
  s->tools.emit = &State::Emit;
  s->tools.user = s;
  // Who asks for more samples may have them; who asks for fewer wants to pay less.
  if (options.hz > 100) s->budget_ppm = kBudgetPpm * options.hz / 100;
  state_ = s;
  return true;
}

// ---- The other threads' side ----

void HostSampler::NoteOwnThread(uint32_t tid) {
  state_->own_tid.store(tid, std::memory_order_relaxed);  // stands alone
}

void HostSampler::NoteCudaThread(uint32_t tid) { state_->noted.Note(tid); }

void HostSampler::NoteGpuActivity(int64_t monotonic_ns) {
  state_->gpu_used_ns.store(monotonic_ns, std::memory_order_relaxed);  // stands alone
}

bool HostSampler::TakeSealed(const uint8_t** data, size_t* bytes, uint32_t later) {
  return state_->output.pieces()->Take(data, bytes, later);
}

void HostSampler::Release() { state_->output.pieces()->Release(); }

uint32_t HostSampler::waiting() const {
  static_assert(kNearlyFull < SealedPieces::kSlots);
  return state_->output.pieces()->waiting();
}

void HostSampler::Stop() {
  // relaxed: nothing is handed over with it.
  state_->stop.store(1, std::memory_order_relaxed);
  syscall(SYS_futex, Word(&state_->stop), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool HostSampler::stopped() const {
  return state_->stopped.load(std::memory_order_acquire) != 0;  // partner: Run
}

bool HostSampler::WaitStopped(int64_t limit_ns) {
  const int64_t deadline = MonotonicNs() + limit_ns;
  while (!stopped()) {
    const int64_t left = deadline - MonotonicNs();
    if (left <= 0) return false;
    const struct timespec timeout = {left / kNsPerSecond, left % kNsPerSecond};
    syscall(SYS_futex, Word(&state_->stopped), FUTEX_WAIT_PRIVATE, 0u, &timeout, nullptr, 0);
  }
  return true;
}

uint32_t HostSampler::tid() const {
  return state_->tid.load(std::memory_order_relaxed);  // stands alone
}

HostSampler::Stats HostSampler::stats() const {
  const State& s = *state_;
  return {s.ticks,
          s.missed,
          s.tools.looks,
          s.tools.unchanged,
          s.visits,
          TheProcCounters().total() - s.calls_before,
          TheProcCounters().total() - s.calls_before + ProcessMemory::calls() -
              s.memory_calls_before + TheProcCounters().others - s.other_calls_before,
          s.switches,
          s.cpu_ns,
          s.watched_count,
          s.busy_count,
          static_cast<uint32_t>(s.children.count()),
          s.private_descriptors};
}

// ---- The sampler thread ----

void HostSampler::Run() {
  State& s = *state_;
  s.tid.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  prctl(PR_SET_NAME, "gpuprobe-sample", 0, 0, 0);
  // The thread that started the session may have been a real-time one.
  const sched_param ordinary = {};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);
  s.calls_before = TheProcCounters().total();
  s.memory_calls_before = ProcessMemory::calls();
  s.other_calls_before = TheProcCounters().others;
  s.private_descriptors = TakePrivateDescriptors();
  s.tools.keep_descriptors = s.private_descriptors;
  if (s.options.hz != 0 && s.Begin()) s.Loop();
  // release: partner is stopped(); the last piece is in its slot.
  s.stopped.store(1, std::memory_order_release);
  syscall(SYS_futex, Word(&s.stopped), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Of this thread. A system call: the vDSO does not have it.
int64_t HostSampler::State::CpuNs() {
  ++TheProcCounters().others;
  return Clock(CLOCK_THREAD_CPUTIME_ID);
}

bool HostSampler::State::Begin() {
  if (!ProcIsOurs() || !Describe(static_cast<uint32_t>(getpid()), &self)) return false;
  if (!private_descriptors) {
    // Each open() takes the lowest number of the host's table for a few microseconds.
    if (options.hz > kSharedTableHz) options.hz = kSharedTableHz;
    AddNote(&self, "descriptor table of its own", "forbidden; 20 looks a second at most");
  }
  if (options.native && private_descriptors) tools.running = &running;
  Watch(self.pid, kRoleMain);
  return true;
}

// True: the time has come; false: Stop.
bool HostSampler::State::WaitUntil(int64_t monotonic_ns) {
  const struct timespec until = {monotonic_ns / kNsPerSecond, monotonic_ns % kNsPerSecond};
  for (;;) {
    if (stop.load(std::memory_order_relaxed) != 0) return false;
    if (MonotonicNs() >= monotonic_ns) return true;
    ++TheProcCounters().others;
    // Absolute, CLOCK_MONOTONIC.
    syscall(SYS_futex, Word(&stop), FUTEX_WAIT_BITSET_PRIVATE, 0u, &until, nullptr,
            FUTEX_BITSET_MATCH_ANY);
  }
}

void HostSampler::State::Loop() {
  const int64_t full_rate_ns = kNsPerSecond / options.hz;
  const int64_t seal_ns = options.seal_period_ms * 1'000'000ll;
  int64_t grid = MonotonicNs();
  gpu_used_ns.store(grid, std::memory_order_relaxed);  // stands alone
  random ^= static_cast<uint64_t>(grid);
  budget_begin_ns = grid;
  output.Begin(grid);
  for (;;) {
    const int64_t slower = GpuInUse(grid) ? 1 : kIdleFactor;
    tools.period_ns = full_rate_ns * tick_stride * slower;
    const int64_t period = tools.period_ns * (slower == 1 ? quiet_stride : 1);
    grid += period;
    const int64_t late = MonotonicNs() - grid;
    if (late > 0) {
      missed += static_cast<uint64_t>(late / period + 1);
      grid += (late / period + 1) * period;
    }
    // Up to a tenth of the period to either side: a program with a period of its own must not
    // always be met at the same place.
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const int64_t jitter = static_cast<int64_t>(random % 2001) - 1000;
    if (!WaitUntil(grid + period / 10 * jitter / 1000)) break;
    const int64_t now = MonotonicNs();
    Tick(now);
    if (now - output.begin_ns() >= seal_ns * slower) output.Seal(now, Totals());
    Budget(now);
  }
  output.Seal(MonotonicNs(), Totals());
  cpu_ns = static_cast<uint64_t>(CpuNs());
  struct rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  switches = static_cast<uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
}

proto::SamplerTotals HostSampler::State::Totals() {
  proto::SamplerTotals totals = {};
  totals.sampler_cpu_ns = static_cast<uint64_t>(CpuNs());
  totals.looks = ticks;
  totals.ticks_missed = missed;
  totals.stacks_unreadable = tools.stacks_unreadable;
  return totals;
}

void HostSampler::State::Emit(void* state, SampledProcess* process, WatchedThread* thread) {
  static_cast<State*>(state)->output.Add(process, thread);
}

void HostSampler::State::JudgeQuiet(int64_t now, uint64_t changed_before) {
  if (changed() != changed_before) {
    quiet_since_ns = 0;
    quiet_stride = 1;
    return;
  }
  if (quiet_since_ns == 0) quiet_since_ns = now;
  const int64_t strides = (now - quiet_since_ns) / kQuietNsPerStride;
  quiet_stride = strides >= 2 ? kMaxQuietStride : strides >= 1 ? 2 : 1;
}

void HostSampler::State::Tick(int64_t now) {
  const bool measured = ticks % kMeasuredTicks == 0;
  const int64_t begin = measured ? CpuNs() : 0;
  const uint64_t changed_before = changed();
  ++ticks;
  TakeNoted();
  AttachPython(&self, now);
  LookAtOwn(now);
  ScanThreads(now);
  const int64_t middle = measured ? CpuNs() : 0;
  own_cost_ns += (middle - begin) * kMeasuredTicks;
  if (options.children) {
    tools.native = nullptr;
    children.Step(now, &tools);
    if (children.count() != 0) {
      LookAtChildren(now);
      if (measured) children_cost_ns += (CpuNs() - middle) * kMeasuredTicks;
    }
  }
  JudgeQuiet(now, changed_before);
}

// ---- Threads of this process ----

WatchedThread* HostSampler::State::Watched(uint32_t id) {
  for (WatchedThread& thread : watched) {
    if (thread.tid == id) return &thread;
  }
  return nullptr;
}

// By their ids: a host may call its own threads what it likes.
bool HostSampler::State::IsOurs(uint32_t id) const {
  // relaxed: the first is stored by this thread, the second stands alone.
  return id == tid.load(std::memory_order_relaxed) || id == own_tid.load(std::memory_order_relaxed);
}

void HostSampler::State::Watch(uint32_t id, uint8_t role) {
  if (role == kRoleCuda && cuda_count == kMaxCuda) {
    AddNote(&self, "threads that call CUDA", "more than 64: the others only if they are busy");
    return;
  }
  WatchedThread* thread = Watched(id);
  if (thread == nullptr) {
    thread = Watched(0);
    if (thread == nullptr) return;
    thread->tid = id;
    ++watched_count;
    const size_t place = static_cast<size_t>(thread - watched);
    if (place >= watched_end) watched_end = place + 1;
  }
  if (role == kRoleCuda && (thread->roles & kRoleCuda) == 0) ++cuda_count;
  if (role == kRoleBusy && (thread->roles & kRoleBusy) == 0) ++busy_count;
  thread->roles |= role;
}

void HostSampler::State::LetGo(WatchedThread* thread) {
  if ((thread->roles & kRoleCuda) != 0) --cuda_count;
  if ((thread->roles & kRoleBusy) != 0) --busy_count;
  --watched_count;
  noted.Forget(thread->tid);
  Unwatch(thread, &tools);
}

void HostSampler::State::TakeNoted() {
  while (const uint32_t id = noted.Take()) Watch(id, kRoleCuda);
}

void HostSampler::State::LookAtOwn(int64_t now) {
  self.gil_begun = false;
  tools.native = options.native ? &native : nullptr;
  for (size_t i = 0; i < watched_end; ++i) {
    WatchedThread& thread = watched[i];
    if (thread.tid == 0) continue;
    if (thread.roles == kRoleBusy && thread.look_ns != 0 &&
        (ticks + thread.tid) % busy_stride != 0) {
      continue;
    }
    if (IsOurs(thread.tid) || !LookAtThread(&self, &thread, MonotonicNs(), &tools)) {
      LetGo(&thread);
      continue;
    }
    if (tools.no_descriptor != 0) {
      AddNote(&self, "threads", "EMFILE: the limit of open files left none for some looks");
    }
    watched_cpu_ns += thread.cpu_ns;
    output.Add(&self, &thread);
    if ((thread.roles & kRoleBusy) != 0) JudgeBusy(&thread, now);
  }
}

// A busy thread that has been idle for some seconds is let go of.
void HostSampler::State::JudgeBusy(WatchedThread* thread, int64_t now) {
  if (thread->window_begin_ns == 0) {
    thread->window_begin_ns = now;
    thread->window_begin_cpu_ns = thread->sched.cpu_ns;
  }
  const int64_t window = now - thread->window_begin_ns;
  if (window < kNsPerSecond) return;
  const uint64_t permille =
      (thread->sched.cpu_ns - thread->window_begin_cpu_ns) * 1000 / static_cast<uint64_t>(window);
  thread->idle_windows = permille < kIdlePermille ? thread->idle_windows + 1 : 0;
  thread->window_begin_ns = now;
  thread->window_begin_cpu_ns = thread->sched.cpu_ns;
  if (thread->idle_windows < kIdleWindows) return;
  if (thread->roles == kRoleBusy) return LetGo(thread);
  thread->roles &= static_cast<uint8_t>(~kRoleBusy);
  --busy_count;
}

// Whether threads that are not watched, all together, have used as much since a round ago as one
// busy thread does.
bool HostSampler::State::OthersAreBusy(int64_t now) {
  ++TheProcCounters().others;
  struct rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const struct timeval& t) {
    return static_cast<uint64_t>(t.tv_sec * kNsPerSecond + t.tv_usec * 1000);
  };
  const uint64_t process_ns = ns(used.ru_utime) + ns(used.ru_stime);
  const uint64_t others_ns = process_ns - watched_cpu_ns - static_cast<uint64_t>(CpuNs());
  const int64_t more_ns = static_cast<int64_t>(others_ns - accounted_ns);
  const int64_t elapsed_ns = now - accounted_at_ns;
  accounted_ns = others_ns;
  accounted_at_ns = now;
  return more_ns > elapsed_ns / 1000 * kBusyPermille;
}

void HostSampler::State::ScanThreads(int64_t now) {
  if (now < next_scan_step_ns) return;
  if (scan.at_begin()) {
    if (now < next_scan_round_ns) return;
    const bool few = scan.threads_last_round() <= kShortScanThreads && busy_count < kMaxBusy;
    next_scan_round_ns = now + (few ? kShortScanRoundNs : kScanRoundNs);
    scan_for_children = options.children && now >= next_children_round_ns;
    if (scan_for_children) {
      next_children_round_ns = now + kChildrenRoundNs;
      scan_for_children = Children::ThereAreAny();
    }
    if (!OthersAreBusy(now) && !scan_for_children) return;
  }
  next_scan_step_ns = now + kScanStepNs;
  scan.Step(now, &VisitThread, this);
}

void HostSampler::State::VisitThread(void* state, uint32_t id, uint32_t cpu_permille) {
  State& s = *static_cast<State*>(state);
  ++s.visits;
  if (cpu_permille >= kBusyPermille) s.Promote(id);
  if (s.scan_for_children && id != s.self.pid) {
    s.children.SeeChildrenOf(s.self.pid, id, MonotonicNs());
  }
}

void HostSampler::State::Promote(uint32_t id) {
  if (IsOurs(id)) return;
  const WatchedThread* known = Watched(id);
  if (known != nullptr) return;
  if (busy_count == kMaxBusy) {
    AddNote(&self, "busy threads", "more than 16: the others are not looked at");
    return;
  }
  Watch(id, kRoleBusy);
}

// ---- Children ----

void HostSampler::State::TakeReaderBack(SampledProcess* process) {
  for (size_t i = 0; i < reader_count; ++i) {
    if (lent_to[i] == process) lent_to[i] = nullptr;
  }
  process->python = nullptr;
  process->next_attach_ns = 0;
}

// A free reader, or that of a child that sleeps or has had its turn. False: none.
bool HostSampler::State::LendReader(ChildProcess* child, int64_t now) {
  size_t best = 0;
  for (size_t i = 1; i < reader_count; ++i) {
    if (lent_to[i] == nullptr) {
      best = i;
      break;
    }
    const ChildProcess* owner = children.OwnerOf(lent_to[i]);
    if (now - owner->last_change_ns > kReaderIdleNs || now - lent_ns[i] > kReaderTurnNs) best = i;
  }
  if (best == 0) return false;
  if (lent_to[best] != nullptr) TakeReaderBack(lent_to[best]);
  lent_to[best] = &child->process;
  lent_ns[best] = now;
  child->process.python = &readers[best];
  child->process.next_attach_ns = now;
  return true;
}

void HostSampler::State::LookAtChild(ChildProcess* child, int64_t now) {
  SampledProcess* process = &child->process;
  process->gil_begun = false;
  for (WatchedThread& thread : child->threads) {
    if (thread.tid == 0) continue;
    if (!LookAtThread(process, &thread, MonotonicNs(), &tools)) {
      if (&thread == &child->threads[0]) {
        TakeReaderBack(process);
        return Children::End(child, &tools);
      }
      Unwatch(&thread, &tools);
      continue;
    }
    if ((thread.flags & kSampleUnchanged) == 0) child->last_change_ns = now;
    output.Add(process, &thread);
  }
}

bool HostSampler::State::GpuInUse(int64_t now) const {
  return now - gpu_used_ns.load(std::memory_order_relaxed) < kGpuUseNs;  // stands alone
}

void HostSampler::State::LookAtChildren(int64_t now) {
  const bool gpu_in_use = GpuInUse(now);
  size_t looked = 0;
  bool attached = false;
  for (size_t i = 0; i < Children::kMaxChildren && looked < children_per_tick; ++i) {
    ChildProcess* child = children.at(next_child);
    next_child = (next_child + 1) % Children::kMaxChildren;
    if (child == nullptr) continue;
    if (child->ended || child->records_itself) {
      if (child->process.python != nullptr) TakeReaderBack(&child->process);
      if (child->ended && output.AddEnded(child->process, now)) children.Free(child);
      continue;
    }
    if (!gpu_in_use) continue;
    ++looked;
    const bool has_run = (child->threads[0].flags & kSampleUnchanged) == 0;
    if (options.python && child->process.python == nullptr && has_run && !attached) {
      LendReader(child, now);
    }
    // At most one in a tick: it reads the process's maps and files.
    if (!attached) attached = AttachPython(&child->process, now);
    LookAtChild(child, now);
  }
}

// ---- Cost ----

void HostSampler::State::NoteRate() {
  char text[80];
  std::snprintf(text, sizeof text, "%u Hz, to stay within %.1f %% of a core",
                options.hz / tick_stride, static_cast<double>(budget_ppm) / 10'000);
  AddNote(&self, "rate lowered", text);
}

void HostSampler::State::Budget(int64_t now) {
  const int64_t elapsed = now - budget_begin_ns;
  if (elapsed < kBudgetWindowNs) return;
  // A tick that was measured may have been one of the few that take a hundred times as long.
  const int64_t cpu = CpuNs();
  own_cost_ns = std::min(own_cost_ns, cpu - budget_cpu_ns);
  budget_cpu_ns = cpu;
  const int64_t own_ppm = own_cost_ns * 1000 / (elapsed / 1000);
  const int64_t children_ppm = children_cost_ns * 1000 / (elapsed / 1000);
  budget_credit_ns = std::clamp(budget_credit_ns + elapsed / 1'000'000 * budget_ppm - own_cost_ns,
                                -kBudgetCreditNs / 10, kBudgetCreditNs);
  budget_begin_ns = now;
  own_cost_ns = children_cost_ns = 0;
  // Twice in a row: finding the interpreter and reading the maps cost some milliseconds, once.
  const bool over = own_ppm > budget_ppm && budget_credit_ns < 0;
  if (over && was_over) {
    if (busy_stride < kMaxStride && busy_count != 0) {
      busy_stride *= 2;
    } else if (tick_stride < kMaxStride) {
      tick_stride *= 2;
      NoteRate();
    }
  } else if (own_ppm * 3 < budget_ppm ||                // twice as much would fit, and some
             budget_credit_ns > kBudgetCreditNs / 2) {  // or has been saved up
    if (tick_stride > 1) {
      tick_stride /= 2;
    } else if (busy_stride > 1) {
      busy_stride /= 2;
    }
  }
  was_over = over;
  if (children_ppm > budget_ppm && children_per_tick > 1) {
    children_per_tick /= 2;
  } else if (children_ppm * 3 < budget_ppm && children_per_tick < kChildrenPerTick) {
    children_per_tick *= 2;
  }
}

}  // namespace gpuprobe::sampler

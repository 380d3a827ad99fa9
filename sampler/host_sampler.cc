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
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "sampler/locations/location_table.h"
#include "sampler/look/thread_look.h"
#include "sampler/look_rate.h"
#include "sampler/native/native_leaf.h"
#include "sampler/output/sample_output.h"
#include "sampler/system/call_clock.h"
#include "sampler/system/clocks.h"
#include "sampler/system/private_descriptors.h"
#include "sampler/system/proc_files.h"
#include "sampler/watched/children.h"
#include "sampler/watched/own_threads.h"
#include "sampler/watched/reader_pool.h"

namespace gpuprobe::sampler {
namespace {

constexpr size_t kLocationBytes = 768u << 10;

// Children matter while the GPU is in use; a loader that takes a minute for a batch is such a use.
constexpr int64_t kGpuUseNs = 60'000'000'000;

// One tick in so many has the part of its children measured, which stands for all: its clock is a
// system call. Prime to the periods of what is done now and then.
constexpr int64_t kMeasuredTicks = 5;

constexpr uint32_t kSharedTableHz = 20;

// The sampler's own thread slept for so much longer than it was to, and had not been in line for a
// CPU for that long: the process was stopped. A virtual machine's CPU may be away for less.
constexpr int64_t kStoppedNs = 150'000'000;

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
  NativeLeaf native;
  RunningIp running;
  Children children;
  ReaderPool readers;
  LookRate rate;
  LookTools tools;
  SampledProcess self;
  OwnThreads threads;

  bool private_descriptors = false;
  uint64_t ticks = 0, missed = 0;
  uint64_t random = 0x9E3779B97F4A7C15ull;
  size_t next_child = 0;
  int64_t children_cost_ns = 0, window_cpu_ns = 0;  // since the window began; at its begin
  uint64_t cpu_ns = 0, calls_before = 0, memory_calls_before = 0;
  uint64_t other_calls_before = 0, switches = 0;
  uint64_t delay_ns = 0;  // the sampler's own, in line for a CPU, when it was last read
  bool delay_known = false;

  std::atomic<int64_t> gpu_used_ns{0};
  // Futex words.
  std::atomic<uint32_t> stop{0}, stopped{0};

  bool Begin();
  void Loop();
  bool WaitUntil(int64_t monotonic_ns);
  bool ReadOwnDelay(uint64_t* delay_ns);
  bool WasStopped(int64_t due_ns, int64_t now);
  int64_t Jitter(int64_t period_ns);
  void Tick(int64_t now);
  uint64_t changed() const { return tools.looks - tools.unchanged; }
  static void Emit(void* state, SampledProcess* process, WatchedThread* thread);
  void LookAtChildren(int64_t now);
  void LookAtChild(ChildProcess* child, int64_t now);
  bool GpuInUse(int64_t now) const;
  void Budget(int64_t now);
  proto::SamplerTotals Totals();
};

// ---- Memory ----

size_t HostSampler::MemoryBytes(const SamplerOptions& options) {
  size_t bytes = Aligned(sizeof(State)) + Aligned(SampleOutput::kMemoryBytes) + kLocationBytes +
                 Aligned(OwnThreads::kMemoryBytes) + NativeLeaf::kMemoryBytes;
  if (!options.python) return bytes;
  const size_t reader = Aligned(PythonReader::MemoryBytes());
  size_t count = options.children && bytes < options.memory_bytes
                     ? (options.memory_bytes - bytes) / reader
                     : 1;
  if (count < 1) count = 1;
  if (count > ReaderPool::kMaxReaders) count = ReaderPool::kMaxReaders;
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
  s->threads.Init(take(OwnThreads::kMemoryBytes), pid,
                  {&s->self, &s->tools, &s->output, options.children ? &s->children : nullptr});
  s->native.Init(take(NativeLeaf::kMemoryBytes), pid);
  s->children.Init(pid);
  // Twice a tick, so that a thread that shares its CPU has one, too.
  if (options.hz != 0) s->running.Init(kNsPerSecond / 2 / options.hz);
  if (options.python) {
    const size_t reader = PythonReader::MemoryBytes();
    for (size_t i = 0; i < ReaderPool::kMaxReaders && at + Aligned(reader) <= end; ++i) {
      s->readers.Add(take(reader), &s->self);
    }
  }
  s->tools.locations = &s->locations;
  s->tools.own_pid = pid;
  s->tools.emit = &State::Emit;
  s->tools.user = s;
  state_ = s;
  return true;
}

// ---- The other threads' side ----

void HostSampler::NoteOwnThread(uint32_t tid) { state_->threads.NoteOurs(tid); }

void HostSampler::NoteCudaThread(uint32_t tid) { state_->threads.noted()->Note(tid); }

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

uint32_t HostSampler::tid() const { return state_->threads.sampler_tid(); }

HostSampler::Stats HostSampler::stats() const {
  const State& s = *state_;
  return {s.ticks,
          s.missed,
          s.tools.looks,
          s.tools.unchanged,
          s.threads.visits(),
          TheProcCounters().total() - s.calls_before,
          TheProcCounters().total() - s.calls_before + ProcessMemory::calls() -
              s.memory_calls_before + TheProcCounters().others - s.other_calls_before,
          s.switches,
          s.cpu_ns,
          s.threads.watched(),
          s.threads.busy(),
          static_cast<uint32_t>(s.children.count()),
          s.private_descriptors};
}

// ---- The sampler thread ----

void HostSampler::Run() {
  State& s = *state_;
  s.threads.NoteSampler(static_cast<uint32_t>(syscall(SYS_gettid)));
  prctl(PR_SET_NAME, "gpuprobe-sample", 0, 0, 0);
  // The thread that started the session may have been a real-time one.
  const sched_param ordinary = {};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);
  s.calls_before = TheProcCounters().total();
  s.memory_calls_before = ProcessMemory::calls();
  s.other_calls_before = TheProcCounters().others;
  s.private_descriptors = TakePrivateDescriptors();
  s.tools.keep_descriptors = s.private_descriptors;
  if (s.options.hz != 0) {
    s.output.Begin(MonotonicNs());
    if (s.Begin()) {
      s.Loop();
    } else {
      s.output.AddUnsampled(s.self);
    }
    s.output.Seal(MonotonicNs(), s.Totals());
  }
  s.cpu_ns = static_cast<uint64_t>(OwnCpuNs());
  struct rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  s.switches = static_cast<uint64_t>(used.ru_nvcsw + used.ru_nivcsw);
  // release: partner is stopped(); the last piece is in its slot.
  s.stopped.store(1, std::memory_order_release);
  syscall(SYS_futex, Word(&s.stopped), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// False: nothing can be looked at; why is noted.
bool HostSampler::State::Begin() {
  self.pid = static_cast<uint32_t>(getpid());
  if (!ProcIsOurs()) {
    AddNote(&self, "host", "/proc is missing, or that of another namespace of process ids");
    return false;
  }
  if (!Describe(self.pid, &self)) {
    const int error = errno;
    char why[32];
    ErrorText(error, why, sizeof why);
    AddNote(&self, "host: its files in /proc cannot be opened", why);
    // The limit of open files may be raised.
    if (error != EMFILE && error != ENFILE) return false;
  }
  if (!private_descriptors) {
    // Each open() takes the lowest number of the host's table for a few microseconds.
    if (options.hz > kSharedTableHz) options.hz = kSharedTableHz;
    AddNote(&self, "descriptor table of its own", "forbidden; 20 looks a second at most");
  }
  if (options.native && private_descriptors) tools.running = &running;
  threads.Watch(self.pid, kRoleMain);
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
  const int64_t seal_ns = options.seal_period_ms * 1'000'000ll;
  int64_t grid = MonotonicNs();
  gpu_used_ns.store(grid, std::memory_order_relaxed);  // stands alone
  random ^= static_cast<uint64_t>(grid);
  rate.Init(options.hz, grid);
  delay_known = ReadOwnDelay(&delay_ns);
  int64_t slept_ns = 0;  // for TickTimer alone
  for (;;) {
    const bool in_use = GpuInUse(grid);
    tools.period_ns = rate.period_ns(in_use);
    const int64_t pause = rate.pause_ns(in_use);
    grid += pause;
    const int64_t late = MonotonicNs() - grid;
    if (late > 0) {
      missed += static_cast<uint64_t>(late / pause + 1);
      grid += (late / pause + 1) * pause;
    }
    const int64_t due = grid + Jitter(pause);
    if (!WaitUntil(due)) break;
    const TickTimer timer(&slept_ns);
    const int64_t now = MonotonicNs();
    if (now - due >= kStoppedNs && WasStopped(due, now)) {
      threads.TellStopped(due, now);
      grid = now;  // no ticks were missed
    }
    Tick(now);
    if (now - output.begin_ns() >= seal_ns * (in_use ? 1 : LookRate::kIdleFactor)) {
      output.Seal(now, Totals());
      delay_known = ReadOwnDelay(&delay_ns);
    }
    if (rate.WindowIsOver(now)) Budget(now);
  }
}

bool HostSampler::State::ReadOwnDelay(uint64_t* ns) {
  char text[96];
  SchedStat sched;
  if (ReadProcFile("/proc/thread-self/schedstat", text, sizeof text) == 0) return false;
  if (!ParseSchedStat(text, &sched)) return false;
  *ns = sched.runnable_ns;
  return true;
}

// It woke up late. What it had waited for a CPU since its delay was last read may all have been
// now.
bool HostSampler::State::WasStopped(int64_t due_ns, int64_t now) {
  const bool known = delay_known;
  const uint64_t before_ns = delay_ns;
  delay_known = ReadOwnDelay(&delay_ns);
  return known && delay_known &&
         now - due_ns - static_cast<int64_t>(delay_ns - before_ns) >= kStoppedNs;
}

// Up to a tenth of the period to either side: a program with a period of its own must not always
// be met at the same place.
int64_t HostSampler::State::Jitter(int64_t period_ns) {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return period_ns / 10 * (static_cast<int64_t>(random % 2001) - 1000) / 1000;
}

proto::SamplerTotals HostSampler::State::Totals() {
  proto::SamplerTotals totals = {};
  totals.sampler_cpu_ns = static_cast<uint64_t>(OwnCpuNs());
  totals.looks = ticks;
  totals.ticks_missed = missed;
  totals.stacks_unreadable = tools.stacks_unreadable;
  return totals;
}

void HostSampler::State::Emit(void* state, SampledProcess* process, WatchedThread* thread) {
  static_cast<State*>(state)->output.Add(process, thread);
}

void HostSampler::State::Tick(int64_t now) {
  const uint64_t changed_before = changed();
  ++ticks;
  threads.TakeNoted();
  AttachPython(&self, now);
  tools.native = options.native ? &native : nullptr;
  threads.LookAtAll(now, ticks, rate.busy_stride(threads.busy()));
  threads.Scan(now);
  if (options.children) {
    tools.native = nullptr;
    children.Step(now, &tools);
    if (children.count() != 0) {
      const bool measured = ticks % kMeasuredTicks == 0;
      const int64_t begin = measured ? OwnCpuNs() : 0;
      LookAtChildren(now);
      if (measured) children_cost_ns += (OwnCpuNs() - begin) * kMeasuredTicks;
    }
  }
  rate.NoteTick(changed() != changed_before, now);
}

// ---- Children ----

void HostSampler::State::LookAtChild(ChildProcess* child, int64_t now) {
  SampledProcess* process = &child->process;
  process->gil_begun = false;
  for (WatchedThread& thread : child->threads) {
    if (thread.tid == 0) continue;
    if (!LookAtThread(process, &thread, MonotonicNs(), &tools)) {
      if (&thread == &child->threads[0]) {
        readers.TakeBack(process);
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
  for (size_t i = 0; i < Children::kMaxChildren && looked < rate.children_per_tick(); ++i) {
    ChildProcess* child = children.at(next_child);
    next_child = (next_child + 1) % Children::kMaxChildren;
    if (child == nullptr) continue;
    if (child->ended || child->records_itself) {
      if (child->process.python != nullptr) readers.TakeBack(&child->process);
      if (child->ended) {
        output.AddEnded(child->process, now);
        children.Free(child);
      }
      continue;
    }
    if (!gpu_in_use) continue;
    ++looked;
    const bool has_run = (child->threads[0].flags & kSampleUnchanged) == 0;
    if (options.python && child->process.python == nullptr && has_run && !attached) {
      readers.Lend(child, now);
    }
    // At most one in a tick: it reads the process's maps and files.
    if (!attached) attached = AttachPython(&child->process, now);
    LookAtChild(child, now);
  }
}

// ---- Cost ----

// What waking up takes is in it.
void HostSampler::State::Budget(int64_t now) {
  const int64_t cpu = OwnCpuNs();
  // A tick that was measured may have been one of the few that take a hundred times as long.
  const int64_t all = cpu - window_cpu_ns, by_children = std::min(children_cost_ns, all);
  window_cpu_ns = cpu;
  children_cost_ns = 0;
  if (!rate.Spend(all - by_children, by_children, threads.busy(), now)) return;
  char text[80];
  std::snprintf(text, sizeof text, "%u Hz, to stay within %.1f %% of a core", rate.hz(),
                static_cast<double>(rate.budget_ppm()) / 10'000);
  AddNote(&self, "rate lowered", text);
}

}  // namespace gpuprobe::sampler

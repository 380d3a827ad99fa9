// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/look/thread_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sampler/look/wait_target.h"
#include "sampler/system/clocks.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

// Descriptors of the private table that looks may keep open: a host's usual soft limit is 1024.
constexpr uint32_t kMaxKeptDescriptors = 600;
constexpr uint32_t kNameLooks = 100, kTargetLooks = 8;
constexpr uint64_t kTickNs = 10'000'000;  // USER_HZ is 100 on x86-64

enum class Found : uint8_t { kGone, kSchedStat, kTicksOnly, kNoDescriptor };

// The host's limit may be lower than what is kept, or lowered at any time.
bool NoDescriptor() { return errno == EMFILE || errno == ENFILE; }

// Where the kernel has no schedstat: CPU time from stat, in ticks.
Found ReadTicks(uint32_t pid, uint32_t tid, SchedStat* out) {
  StatFile stat;
  if (!ReadStat(pid, tid, &stat)) return NoDescriptor() ? Found::kNoDescriptor : Found::kGone;
  *out = SchedStat();
  out->cpu_ns = stat.cpu_ticks * kTickNs;
  return Found::kTicksOnly;
}

// Reads a file of the thread through a descriptor that stays open where that is possible: a third
// of what opening it costs. The descriptor is this thread's for ever: a later one with its number
// is not read by it.
size_t ReadKept(uint32_t pid, uint32_t tid, const char* leaf, int* kept_fd, LookTools* tools,
                char* out, size_t size) {
  errno = 0;
  if (*kept_fd >= 0) return ReadProcDescriptor(*kept_fd, out, size);
  char path[kTaskPathBytes];
  ProcPath(pid, tid, leaf, path);
  if (!tools->keep_descriptors || tools->no_descriptor != 0 ||
      tools->kept_descriptors >= kMaxKeptDescriptors)
    return ReadProcFile(path, out, size);
  ++TheProcCounters().opens;
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  *kept_fd = fd;
  ++tools->kept_descriptors;
  return ReadProcDescriptor(fd, out, size);
}

void CloseKept(WatchedThread* thread, LookTools* tools) {
  for (int* fd : {&thread->schedstat_fd, &thread->syscall_fd, &thread->stat_fd}) {
    if (*fd < 0) continue;
    RawClose(*fd);
    --tools->kept_descriptors;
    *fd = -1;
  }
  if (thread->running_ip >= 0) tools->running->Close(thread->running_ip);
  thread->running_ip = -1;
}

Found ReadSched(uint32_t pid, WatchedThread* thread, LookTools* tools, SchedStat* out) {
  char text[96];
  const size_t n =
      ReadKept(pid, thread->tid, "schedstat", &thread->schedstat_fd, tools, text, sizeof text);
  if (n == 0 && NoDescriptor()) return Found::kNoDescriptor;
  if (n == 0) return errno == ESRCH ? Found::kGone : ReadTicks(pid, thread->tid, out);
  return ParseSchedStat(text, out) ? Found::kSchedStat : ReadTicks(pid, thread->tid, out);
}

// Whether a thread that had not run at the look before has not run since, either. The clock of its
// CPU time is what schedstat begins with, up to this moment, for a tenth of the price.
bool HasNotRun(uint32_t pid, const WatchedThread& thread, const LookTools& tools) {
  if (pid != tools.own_pid || (thread.flags & kSampleUnchanged) == 0) return false;
  const int64_t used_ns = CpuNs(CpuClockOf(thread.tid));
  return used_ns >= 0 && static_cast<uint64_t>(used_ns) == thread.sched.cpu_ns;
}

uint32_t StateOf(char letter) {
  switch (letter) {
    case 'R':
      return kStateRunning;
    case 'S':
    case 'I':
      return kStateBlocked;
    case 'D':
      return kStateBlockedIo;
    case 'T':
    case 't':
      return kStateStopped;
    default:
      return kStateUnknown;
  }
}

// Calls that sleep interruptibly and in no other way.
bool SleepsInterruptibly(int32_t number) {
  switch (number) {
    case 7:    // poll
    case 23:   // select
    case 35:   // nanosleep
    case 202:  // futex
    case 230:  // clock_nanosleep
    case 232:  // epoll_wait
    case 270:  // pselect6
    case 271:  // ppoll
    case 281:  // epoll_pwait
      return true;
    default:
      return false;
  }
}

// What the thread does now. False: it has ended.
bool ReadState(uint32_t pid, WatchedThread* thread, LookTools* tools, SyscallFile* call) {
  char text[256];
  const bool have_call =
      ReadKept(pid, thread->tid, "syscall", &thread->syscall_fd, tools, text, sizeof text) != 0 &&
      ParseSyscallFile(text, call);
  // A name may change; it is read along with the letter now and then.
  const bool name_is_fresh = thread->name[0] != '\0' && ++thread->name_age % kNameLooks != 0;
  // A child may be stopped while its sampler is not: in whatever call it was, it then is no more.
  const bool never_stopped = pid == tools->own_pid;
  if (have_call && name_is_fresh &&
      (call->running || (never_stopped && SleepsInterruptibly(call->number)))) {
    thread->state = call->running ? kStateRunning : kStateBlocked;
    return true;
  }
  StatFile stat;
  char line[768];
  if (ReadKept(pid, thread->tid, "stat", &thread->stat_fd, tools, line, sizeof line) == 0) {
    if (!NoDescriptor()) return false;
    ++tools->no_descriptor;
    return call->running = true;  // nothing is known
  }
  if (!ParseStatFile(line, &stat)) return false;
  if (stat.state == 'Z' || stat.state == 'X') return false;
  std::memcpy(thread->name, stat.name, sizeof thread->name);
  thread->state = have_call && call->running ? kStateRunning : StateOf(stat.state);
  // It was woken between the two files.
  if (thread->state == kStateRunning) *call = SyscallFile();
  if (thread->state == kStateRunning || !have_call) call->running = true;
  return true;
}

void ReadPythonStack(SampledProcess* process, WatchedThread* thread, LookTools* tools) {
  PythonStack stack;
  const GilState* gil = LookAtGil(process);
  if (gil == nullptr) {
    if (HasPython(*process)) ++tools->stacks_unreadable;
    return;
  }
  switch (process->python->ReadStack(static_cast<pid_t>(thread->tid), tools->locations, &stack)) {
    case PythonReader::Read::kTorn:
      ++tools->stacks_unreadable;
      return;
    case PythonReader::Read::kNoPython:
      return;
    case PythonReader::Read::kOk:
      break;
  }
  std::memcpy(thread->stack, stack.frames, stack.depth * sizeof stack.frames[0]);
  thread->depth = static_cast<uint32_t>(stack.depth);
  if (stack.cut) thread->flags |= kSampleStackCut;
  if (stack.in_c_function) thread->flags |= kSampleInCFunction;
}

void JudgeGil(SampledProcess* process, WatchedThread* thread, const SyscallFile& call) {
  const GilState* gil = LookAtGil(process);
  if (gil == nullptr || !gil->known) return;
  thread->gil_holder = gil->locked ? static_cast<uint32_t>(gil->holder_tid) : 0;
  if (thread->gil_holder == thread->tid) thread->flags |= kSampleHoldsGil;
  if (!call.running && call.number == kFutexCall && call.args[0] >= gil->begin_address &&
      call.args[0] < gil->end_address) {
    thread->flags |= kSampleWaitsForGil;
  }
}

uint64_t HashOf(const SyscallFile& call) {
  uint64_t hash = static_cast<uint64_t>(call.number) + 1;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  for (const uint64_t argument : call.args) mix(argument);
  mix(call.sp);
  mix(call.pc);
  return hash;
}

void FindTarget(SampledProcess* process, WatchedThread* thread, const SyscallFile& call,
                LookTools* tools) {
  char target[kWaitTargetBytes];
  DescribeWait(process->pid, thread->tid, call, OpenMemory(process) ? &process->memory : nullptr,
               target);
  if (target[0] != '\0') thread->target = tools->locations->InternText(target);
}

// What it waits for. The same call with the same arguments at the same place mostly waits for the
// same: that is looked up at one look in so many.
void ReadTarget(SampledProcess* process, WatchedThread* thread, const SyscallFile& call,
                LookTools* tools) {
  const uint64_t hash = HashOf(call);
  if (hash == thread->call_hash && ++thread->call_looks % kTargetLooks != 0) {
    thread->target = thread->last_target;
    return;
  }
  FindTarget(process, thread, call, tools);
  thread->call_hash = hash;
  thread->last_target = thread->target;
}

void PutOnTop(const LocationId* leaves, size_t count, WatchedThread* thread) {
  std::memmove(thread->stack + count, thread->stack, thread->depth * sizeof thread->stack[0]);
  std::memcpy(thread->stack, leaves, count * sizeof leaves[0]);
  thread->depth += static_cast<uint32_t>(count);
}

// Native code on top of the Python frames, or alone.
void PushNative(SampledProcess* process, WatchedThread* thread, const SyscallFile& call,
                LookTools* tools) {
  if (tools->native == nullptr || (thread->flags & kSampleWaitsForGil) != 0) return;
  if (!OpenMemory(process)) return;
  tools->native->Find(process->memory, call.sp, call.pc, thread->depth != 0, thread->look_ns,
                      tools->locations, &thread->native);
  PutOnTop(thread->native.leaves, thread->native.count, thread);
}

// The same for a running thread, where the kernel tells. Where Python code runs its line says all.
void PushRunning(SampledProcess* process, WatchedThread* thread, LookTools* tools) {
  if (tools->native == nullptr || tools->running == nullptr || !OpenMemory(process)) return;
  const bool python = thread->depth != 0;
  if (python && (thread->flags & kSampleInCFunction) == 0) return;
  if (thread->running_ip < 0) {
    if (tools->no_descriptor != 0) return;
    thread->running_ip = tools->running->Open(thread->tid);
    if (thread->running_ip >= 0) return;  // nothing was read yet
    if (tools->running->forbidden() != 0) {
      char why[32];
      ErrorText(tools->running->forbidden(), why, sizeof why);
      AddNote(process, "native code of running threads (perf_event_open)", why);
    } else if (tools->running->full()) {
      static_assert(RunningIp::kMaxThreads == 32, "the note says so");
      AddNote(process, "native code of running threads", "of 32 at once, of more not");
    }
    return;
  }
  RunningIp::Chain chain;
  if (!tools->running->Read(thread->running_ip, &chain)) return;
  LocationId leaves[kMaxNativeLeaves];
  const size_t count = tools->native->FromChain(process->memory, chain.addresses, chain.count,
                                                python, thread->look_ns, tools->locations, leaves);
  PutOnTop(leaves, count, thread);
}

void Remember(WatchedThread* thread, const SchedStat& sched, int64_t now_ns) {
  const bool first = thread->look_ns == 0;
  thread->interval_ns = first ? 0 : static_cast<uint64_t>(now_ns - thread->look_ns);
  thread->cpu_ns =
      first || sched.cpu_ns < thread->sched.cpu_ns ? 0 : sched.cpu_ns - thread->sched.cpu_ns;
  thread->runnable_ns = first || sched.runnable_ns < thread->sched.runnable_ns
                            ? 0
                            : sched.runnable_ns - thread->sched.runnable_ns;
  thread->sched = sched;
  thread->look_ns = now_ns;
}

// What it did at the last look.
void Forget(WatchedThread* thread) {
  thread->state = kStateUnknown;
  thread->flags = 0;
  thread->syscall = -1;
  thread->target = 0;
  thread->gil_holder = 0;
  thread->depth = 0;
}

// It had not run at the last look, and has since: at the end of the time, as far as is known. A
// thread that was looked at every period is told of as having waited until the last one.
void TellWaitBefore(SampledProcess* process, WatchedThread* thread, const SchedStat& sched,
                    int64_t now_ns, LookTools* tools) {
  if (tools->emit == nullptr) return;
  const uint64_t ran =
      sched.cpu_ns - thread->sched.cpu_ns + sched.runnable_ns - thread->sched.runnable_ns;
  const int64_t tail = std::max(tools->period_ns, static_cast<int64_t>(ran));
  const int64_t waited = now_ns - tail - thread->look_ns;
  if (waited <= tools->period_ns / 2) return;
  Remember(thread, thread->sched, thread->look_ns + waited);
  thread->flags |= kSampleUnchanged;
  thread->gil_holder = 0;
  tools->emit(tools->user, process, thread);
}

}  // namespace

bool LookAtThread(SampledProcess* process, WatchedThread* thread, int64_t now_ns,
                  LookTools* tools) {
  // One that found none: what is kept may be all that the host's limit allows.
  if (tools->no_descriptor != 0) CloseKept(thread, tools);
  if (HasNotRun(process->pid, *thread, *tools)) {
    ++tools->looks;
    ++tools->unchanged;
    Remember(thread, thread->sched, now_ns);
    return true;
  }
  SchedStat sched;
  const Found found = ReadSched(process->pid, thread, tools, &sched);
  if (found == Found::kGone) return false;
  ++tools->looks;
  if (found == Found::kNoDescriptor) {
    ++tools->no_descriptor;
    Remember(thread, thread->sched, now_ns);
    Forget(thread);
    return true;
  }
  // It was blocked when its state was read, which was after the numbers were; had it got a CPU
  // since, they would have changed.
  const bool blocked = thread->state == kStateBlocked || thread->state == kStateBlockedIo ||
                       thread->state == kStateStopped;
  const bool unchanged =
      found == Found::kSchedStat && thread->look_ns != 0 && blocked && sched == thread->sched;
  if (!unchanged && found == Found::kSchedStat && thread->look_ns != 0 && blocked) {
    TellWaitBefore(process, thread, sched, now_ns, tools);
  }
  Remember(thread, sched, now_ns);
  if (unchanged) {
    ++tools->unchanged;
    thread->flags |= kSampleUnchanged;
    thread->gil_holder = 0;
    return true;
  }
  Forget(thread);
  SyscallFile call;
  if (!ReadState(process->pid, thread, tools, &call)) return false;
  if (HasPython(*process)) {
    ReadPythonStack(process, thread, tools);
    if (thread->depth != 0) JudgeGil(process, thread, call);
  }
  if (thread->state == kStateRunning) PushRunning(process, thread, tools);
  if (call.running) return true;
  thread->syscall = call.number;
  ReadTarget(process, thread, call, tools);
  PushNative(process, thread, call, tools);
  return true;
}

void TellStopped(SampledProcess* process, WatchedThread* thread, int64_t since_ns, int64_t now_ns,
                 LookTools* tools) {
  if (thread->look_ns == 0 || tools->emit == nullptr) return;
  SchedStat sched;
  if (ReadSched(process->pid, thread, tools, &sched) != Found::kSchedStat) return;
  if (thread->look_ns < since_ns) {
    Remember(thread, sched, since_ns);
    Forget(thread);
    tools->emit(tools->user, process, thread);
  }
  Remember(thread, sched, now_ns);
  Forget(thread);
  thread->state = kStateStopped;
  tools->emit(tools->user, process, thread);
}

void Unwatch(WatchedThread* thread, LookTools* tools) {
  CloseKept(thread, tools);
  *thread = WatchedThread();
}

}  // namespace gpuprobe::sampler

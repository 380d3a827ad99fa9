// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/thread_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sampler/wait_target.h"

namespace gpuprobe::sampler {
namespace {

// Descriptors of the private table that looks may keep open: a host's usual soft limit is 1024.
constexpr uint32_t kMaxKeptDescriptors = 600;
constexpr uint64_t kTickNs = 10'000'000;  // USER_HZ is 100 on x86-64

enum class Found : uint8_t { kGone, kSchedStat, kTicksOnly };

// Where the kernel has no schedstat: CPU time from stat, in ticks.
Found ReadTicks(uint32_t pid, uint32_t tid, SchedStat* out) {
  StatFile stat;
  if (!ReadStat(pid, tid, &stat)) return Found::kGone;
  *out = SchedStat();
  out->cpu_ns = stat.cpu_ticks * kTickNs;
  return Found::kTicksOnly;
}

Found ReadSched(uint32_t pid, WatchedThread* thread, LookTools* tools, SchedStat* out) {
  char text[96];
  size_t n;
  if (thread->schedstat_fd >= 0) {
    n = ReadProcDescriptor(thread->schedstat_fd, text, sizeof text);
    // The descriptor is this thread's, for ever: a later one with its number is not read by it.
    if (n == 0) return Found::kGone;
  } else {
    char path[kTaskPathBytes];
    ProcPath(pid, thread->tid, "schedstat", path);
    if (tools->keep_descriptors && tools->kept_descriptors < kMaxKeptDescriptors) {
      ++TheProcCounters().opens;
      const int fd = open(path, O_RDONLY | O_CLOEXEC);
      n = fd < 0 ? 0 : ReadProcDescriptor(fd, text, sizeof text);
      if (n != 0) {
        thread->schedstat_fd = fd;
        ++tools->kept_descriptors;
      } else if (fd >= 0) {
        close(fd);
      }
    } else {
      n = ReadProcFile(path, text, sizeof text);
    }
    if (n == 0) return errno == ESRCH ? Found::kGone : ReadTicks(pid, thread->tid, out);
  }
  return ParseSchedStat(text, out) ? Found::kSchedStat : ReadTicks(pid, thread->tid, out);
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

// What the thread does now. False: it has ended.
bool ReadState(uint32_t pid, WatchedThread* thread, SyscallFile* call) {
  char path[kTaskPathBytes], text[256];
  ProcPath(pid, thread->tid, "syscall", path);
  const bool have_call = ReadProcFile(path, text, sizeof text) != 0 && ParseSyscallFile(text, call);
  // A name is read once; a blocked one's letter tells more than its system call.
  if (have_call && call->running && thread->name[0] != '\0') {
    thread->state = kStateRunning;
    return true;
  }
  StatFile stat;
  if (!ReadStat(pid, thread->tid, &stat)) return false;
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

void ReadTarget(SampledProcess* process, WatchedThread* thread, const SyscallFile& call,
                LookTools* tools) {
  char target[kWaitTargetBytes];
  DescribeWait(process->pid, thread->tid, call, OpenMemory(process) ? &process->memory : nullptr,
               target);
  if (target[0] != '\0') thread->target = tools->locations->InternText(target);
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
  LocationId leaves[kMaxNativeLeaves];
  const size_t count = tools->native->Find(process->memory, call.sp, call.pc, thread->depth != 0,
                                           thread->look_ns, tools->locations, leaves);
  PutOnTop(leaves, count, thread);
}

// The same for a running thread, where the kernel tells. Where Python code runs its line says all.
void PushRunning(SampledProcess* process, WatchedThread* thread, LookTools* tools) {
  if (tools->native == nullptr || tools->running == nullptr || !OpenMemory(process)) return;
  const bool python = thread->depth != 0;
  if (python && (thread->flags & kSampleInCFunction) == 0) return;
  if (thread->running_ip < 0) {
    thread->running_ip = tools->running->Open(thread->tid);
    if (thread->running_ip >= 0) return;  // nothing was read yet
    if (tools->running->forbidden() == 0) return;
    char why[32];
    ErrorText(tools->running->forbidden(), why, sizeof why);
    return AddNote(process, "native code of running threads (perf_event_open)", why);
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

}  // namespace

bool LookAtThread(SampledProcess* process, WatchedThread* thread, int64_t now_ns,
                  LookTools* tools) {
  SchedStat sched;
  const Found found = ReadSched(process->pid, thread, tools, &sched);
  if (found == Found::kGone) return false;
  ++tools->looks;
  // It was blocked when its state was read, which was after the numbers were; had it got a CPU
  // since, they would have changed.
  const bool blocked = thread->state == kStateBlocked || thread->state == kStateBlockedIo;
  const bool unchanged =
      found == Found::kSchedStat && thread->look_ns != 0 && blocked && sched == thread->sched;
  Remember(thread, sched, now_ns);
  if (unchanged) {
    ++tools->unchanged;
    thread->flags |= kSampleUnchanged;
    thread->gil_holder = 0;
    return true;
  }
  thread->flags = 0;
  thread->syscall = -1;
  thread->target = 0;
  thread->gil_holder = 0;
  thread->depth = 0;
  thread->piece = 0;
  SyscallFile call;
  if (!ReadState(process->pid, thread, &call)) return false;
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

void Unwatch(WatchedThread* thread, LookTools* tools) {
  if (thread->running_ip >= 0) tools->running->Close(thread->running_ip);
  if (thread->schedstat_fd >= 0) {
    close(thread->schedstat_fd);
    --tools->kept_descriptors;
  }
  *thread = WatchedThread();
}

}  // namespace gpuprobe::sampler

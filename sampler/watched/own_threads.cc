// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/watched/own_threads.h"

#include <sys/resource.h>

#include "sampler/system/clocks.h"

namespace gpuprobe::sampler {
namespace {

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
constexpr uint32_t kInTurns = 16;     // with more busy threads than this a note says so

}  // namespace

void OwnThreads::Init(void* memory, uint32_t pid, const Parts& parts) {
  scan_.Init(memory, pid);
  parts_ = parts;
}

WatchedThread* OwnThreads::Find(uint32_t tid) {
  for (WatchedThread& thread : threads_) {
    if (thread.tid == tid) return &thread;
  }
  return nullptr;
}

// By their ids: a host may call its own threads what it likes.
bool OwnThreads::IsOurs(uint32_t tid) const {
  // relaxed: each stands alone.
  return tid == ours_[0].load(std::memory_order_relaxed) ||
         tid == ours_[1].load(std::memory_order_relaxed);
}

void OwnThreads::Watch(uint32_t tid, uint8_t role) {
  if (role == kRoleCuda && cuda_count_ == kMaxCuda) {
    AddNote(parts_.process, "threads that call CUDA",
            "more than 64: the others only if they are busy");
    return;
  }
  WatchedThread* thread = Find(tid);
  if (thread == nullptr) {
    thread = Find(0);
    if (thread == nullptr) return;
    thread->tid = tid;
    ++watched_count_;
    const size_t place = static_cast<size_t>(thread - threads_);
    if (place >= end_) end_ = place + 1;
  }
  if (role == kRoleCuda && (thread->roles & kRoleCuda) == 0) ++cuda_count_;
  if (role == kRoleBusy && (thread->roles & kRoleBusy) == 0) ++busy_count_;
  thread->roles |= role;
}

void OwnThreads::LetGo(WatchedThread* thread) {
  if ((thread->roles & kRoleCuda) != 0) --cuda_count_;
  if ((thread->roles & kRoleBusy) != 0) --busy_count_;
  --watched_count_;
  noted_.Forget(thread->tid);
  Unwatch(thread, parts_.tools);
}

void OwnThreads::TakeNoted() {
  while (const uint32_t tid = noted_.Take()) Watch(tid, kRoleCuda);
}

void OwnThreads::LookAtAll(int64_t now_ns, uint64_t tick, uint32_t busy_stride) {
  SampledProcess* process = parts_.process;
  process->gil_begun = false;
  for (size_t i = 0; i < end_; ++i) {
    WatchedThread& thread = threads_[i];
    if (thread.tid == 0) continue;
    // By their places, which are side by side: as many at each tick.
    if (thread.roles == kRoleBusy && thread.look_ns != 0 && (tick + i) % busy_stride != 0) continue;
    if (IsOurs(thread.tid) || !LookAtThread(process, &thread, MonotonicNs(), parts_.tools)) {
      LetGo(&thread);
      continue;
    }
    if (parts_.tools->no_descriptor != 0) {
      AddNote(process, "threads", "EMFILE: the limit of open files left none for some looks");
    }
    watched_cpu_ns_ += thread.cpu_ns;
    parts_.output->Add(process, &thread);
    if ((thread.roles & kRoleBusy) != 0) JudgeBusy(&thread, now_ns);
  }
}

void OwnThreads::TellStopped(int64_t since_ns, int64_t now_ns) {
  for (size_t i = 0; i < end_; ++i) {
    WatchedThread& thread = threads_[i];
    if (thread.tid == 0 || IsOurs(thread.tid)) continue;
    sampler::TellStopped(parts_.process, &thread, since_ns, now_ns, parts_.tools);
  }
}

// A busy thread that has been idle for some seconds is let go of.
void OwnThreads::JudgeBusy(WatchedThread* thread, int64_t now_ns) {
  if (thread->window_begin_ns == 0) {
    thread->window_begin_ns = now_ns;
    thread->window_begin_cpu_ns = thread->sched.cpu_ns;
  }
  const int64_t window = now_ns - thread->window_begin_ns;
  if (window < kNsPerSecond) return;
  const uint64_t permille =
      (thread->sched.cpu_ns - thread->window_begin_cpu_ns) * 1000 / static_cast<uint64_t>(window);
  thread->idle_windows = permille < kIdlePermille ? thread->idle_windows + 1 : 0;
  thread->window_begin_ns = now_ns;
  thread->window_begin_cpu_ns = thread->sched.cpu_ns;
  if (thread->idle_windows < kIdleWindows) return;
  if (thread->roles == kRoleBusy) return LetGo(thread);
  thread->roles &= static_cast<uint8_t>(~kRoleBusy);
  --busy_count_;
}

// Whether threads that are not watched, all together, have used as much since a round ago as one
// busy thread does.
bool OwnThreads::OthersAreBusy(int64_t now_ns) {
  ++TheProcCounters().others;
  struct rusage used = {};
  {
    const CallTimer timer(CallKind::kOther);
    getrusage(RUSAGE_SELF, &used);
  }
  const auto ns = [](const struct timeval& t) {
    return static_cast<uint64_t>(t.tv_sec * kNsPerSecond + t.tv_usec * 1000);
  };
  const uint64_t process_ns = ns(used.ru_utime) + ns(used.ru_stime);
  const uint64_t others_ns = process_ns - watched_cpu_ns_ - static_cast<uint64_t>(OwnCpuNs());
  const int64_t more_ns = static_cast<int64_t>(others_ns - accounted_ns_);
  const int64_t elapsed_ns = now_ns - accounted_at_ns_;
  accounted_ns_ = others_ns;
  accounted_at_ns_ = now_ns;
  return more_ns > elapsed_ns / 1000 * kBusyPermille;
}

void OwnThreads::Scan(int64_t now_ns) {
  if (now_ns < next_step_ns_) return;
  if (scan_.at_begin()) {
    if (now_ns < next_round_ns_) return;
    const bool few = scan_.threads_last_round() <= kShortScanThreads && busy_count_ < kMaxBusy;
    next_round_ns_ = now_ns + (few ? kShortScanRoundNs : kScanRoundNs);
    scan_for_children_ = parts_.children != nullptr && now_ns >= next_children_round_ns_;
    if (scan_for_children_) {
      next_children_round_ns_ = now_ns + kChildrenRoundNs;
      scan_for_children_ = Children::ThereAreAny();
    }
    if (!OthersAreBusy(now_ns) && !scan_for_children_) return;
  }
  next_step_ns_ = now_ns + kScanStepNs;
  scan_.Step(now_ns, &Visit, this);
}

void OwnThreads::Visit(void* self, uint32_t tid, uint32_t cpu_permille) {
  OwnThreads& threads = *static_cast<OwnThreads*>(self);
  ++threads.visits_;
  if (cpu_permille >= kBusyPermille) threads.Promote(tid);
  const uint32_t pid = threads.parts_.process->pid;
  if (threads.scan_for_children_ && tid != pid) {
    threads.parts_.children->SeeChildrenOf(pid, tid, MonotonicNs());
  }
}

void OwnThreads::Promote(uint32_t tid) {
  if (IsOurs(tid) || Find(tid) != nullptr) return;
  if (busy_count_ == kMaxBusy) {
    AddNote(parts_.process, "busy threads", "more than 64: the others are not looked at");
    return;
  }
  Watch(tid, kRoleBusy);
  if (busy_count_ > kInTurns) {
    AddNote(parts_.process, "busy threads",
            "more than 16: looked at in turns, each sample standing for the time between");
  }
}

}  // namespace gpuprobe::sampler

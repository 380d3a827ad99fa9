// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A watched thread, and one look at it: how much of the time since the look before it ran or was
// ready to, what it does now, and where. A thread that has not run since then costs one system
// call.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOOK_THREAD_LOOK_H_
#define GPUPROBE_SAMPLER_LOOK_THREAD_LOOK_H_

#include <cstddef>
#include <cstdint>

#include "sampler/locations/location_table.h"
#include "sampler/look/sampled_process.h"
#include "sampler/native/native_leaf.h"
#include "sampler/native/running_ip.h"
#include "sampler/system/proc_files.h"

namespace gpuprobe::sampler {

// As in proto/gpuprobe.proto.
enum HostState : uint32_t {
  kStateUnknown = 0,
  kStateRunning = 1,
  kStateBlocked = 2,
  kStateBlockedIo = 3,
  kStateStopped = 4,
};
enum SampleFlag : uint32_t {
  kSampleInCFunction = 1,
  kSampleWaitsForGil = 2,
  kSampleHoldsGil = 4,
  kSampleUnchanged = 8,
  kSampleStackCut = 16,
};

// Why a thread is watched.
enum ThreadRole : uint8_t { kRoleMain = 1, kRoleCuda = 2, kRoleBusy = 4 };

inline constexpr size_t kMaxSampleDepth = kMaxStackDepth + kMaxNativeLeaves;

struct WatchedThread {
  uint32_t tid = 0;  // 0: nobody
  uint8_t roles = 0;
  int schedstat_fd = -1, syscall_fd = -1, stat_fd = -1;  // -1: opened at each look
  int running_ip = -1;                                   // slot of RunningIp; -1: none
  char name[16] = {};
  uint32_t name_age = 0;  // looks since it was read

  // As of the last look.
  int64_t look_ns = 0;  // CLOCK_MONOTONIC; 0: none yet
  SchedStat sched;
  uint32_t state = kStateUnknown, flags = 0;
  int32_t syscall = -1;
  TextId target = 0;
  uint32_t gil_holder = 0;
  uint32_t depth = 0;
  LocationId stack[kMaxSampleDepth] = {};  // innermost first

  // What the last system calls and stacks were found to be.
  uint64_t call_hash = 0;  // of the call that last_target is of; 0: none
  uint32_t call_looks = 0;
  TextId last_target = 0;
  NativeLeaf::Found native;

  // Of the last look: what it covers.
  uint64_t interval_ns = 0, cpu_ns = 0, runnable_ns = 0;

  // CPU time of the current window, which decides whether a busy thread still is.
  int64_t window_begin_ns = 0;
  uint64_t window_begin_cpu_ns = 0;
  uint32_t idle_windows = 0;

  // Ids in the piece that is being written.
  uint32_t piece = 0, piece_stack = 0, piece_target = 0;
  uint64_t piece_hash = 0;  // of what these are ids of
};

// What is needed for looks besides the thread and its process.
struct LookTools {
  LocationTable* locations = nullptr;
  NativeLeaf* native = nullptr;  // nullptr: not wanted, or not for this process
  RunningIp* running = nullptr;  // of this process's threads; nullptr: not wanted, or not possible
  uint32_t own_pid = 0;          // the process whose threads' CPU clocks may be asked for: our own
  bool keep_descriptors = false;
  uint32_t kept_descriptors = 0;
  // A blocked thread that was left alone for longer than this, and has run meanwhile, is told of
  // twice: `emit` gets what it was at the last look, for as long as it can have lasted.
  int64_t period_ns = 0;
  void (*emit)(void* user, SampledProcess* process, WatchedThread* thread) = nullptr;
  void* user = nullptr;
  // Counts.
  uint64_t looks = 0, unchanged = 0, stacks_unreadable = 0;
  // Looks that found no descriptor free: their samples have an unknown state. From the first on
  // none is kept.
  uint64_t no_descriptor = 0;
};

// False: the thread has ended; let go of it with Unwatch.
bool LookAtThread(SampledProcess* process, WatchedThread* thread, int64_t now_ns, LookTools* tools);
// The process could not run from `since_ns` to now: tells of it (LookTools::emit) in a sample of
// its own, after one of what the thread had used until then. Only of a process whose sampler is
// stopped with it: others show their state.
void TellStopped(SampledProcess* process, WatchedThread* thread, int64_t since_ns, int64_t now_ns,
                 LookTools* tools);

void Unwatch(WatchedThread* thread, LookTools* tools);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOOK_THREAD_LOOK_H_

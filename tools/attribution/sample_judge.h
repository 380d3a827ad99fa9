// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a look at a thread says it was doing. The rules are ATTRIBUTION.md's, "The host, divided".
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_SAMPLE_JUDGE_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_SAMPLE_JUDGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/attribution/call_site.h"
#include "tools/timeline/job_activity.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// The rest of a job that together uses less of a core than this is idle: heartbeats, metrics.
inline constexpr double kIdleJobShare = 0.05;

// In the words for a sample: it waits, nobody in the job was busy, and who should end the wait does
// not show.
inline constexpr const char* kFeederUnseen = "for whom was not seen";

// ... it waits for a lock of a file.
inline constexpr const char* kForFileLock = "for the lock of ";

// What a blocked thread is blocked in.
enum class WaitKind : uint8_t {
  kNone,      // it is not blocked
  kSleep,     // by its own will, for a time
  kStorage,   // files
  kFileLock,  // of another process, or of the same one through another descriptor
  kSocket,    // sockets, and sets of descriptors that are not known to be pipes
  kPipe,
  kFutex,    // locks, conditions, queues within a process
  kWriting,  // to a pipe or a socket that takes no more
  kChild,    // for the end of a process
  kStopped,  // by a signal or a debugger
  kOther,
};

class SampleJudge {
 public:
  SampleJudge(const Timeline& timeline, const CallSites& sites, const JobActivity& activity);

  // One of kInputWait, kRequestWait, kHostPython, kHostNative, kGilWait; kHost: it says nothing of
  // what the thread did, or that it was stopped (StoppedTimes() tells of that).
  Cause CauseOf(int32_t sample) const { return causes_[sample]; }
  WaitKind WaitOf(int32_t sample) const;
  // "queue.get, blocked in poll on a pipe", "asleep in time.sleep", "in a C function"; may be
  // empty.
  std::string DetailOf(int32_t sample) const;
  // Waits without knowing for what: for another thread of its process to hand it work, or to be
  // done with the work that it was handed (autograd's ready queue, and backward() in front of it).
  bool AwaitsThread(int32_t sample) const;
  // Waits in a call for the other end of one pipe or socket: that of another process. Threads of
  // one wake each other by a futex, or in an event loop, whatever is busy in it meanwhile.
  bool AwaitsProcess(int32_t sample) const;
  // Known to be at something of its own (running, asleep, at a file): whatever another thread of
  // its process is blocked in does not hold it up.
  bool IsAtItsOwn(int32_t sample) const;

 private:
  // Does a wait end with something from outside the job? Yes: a socket, and nothing says that its
  // peer is of the job. Maybe: a set of descriptors, in which timers and pipes may lie, too.
  enum class Outside : uint8_t { kNo, kMaybe, kYes };

  Cause Judge(int32_t sample);
  bool IsLock(const HostSample& sample) const;
  Cause CauseOfQueue(const HostSample& sample, int32_t index);
  Cause CauseWhileIdle(int32_t index, bool lock);
  void FindThreads();
  // The sample of `thread`, which has some, that is nearest to `ns`; -1: none within a second.
  int32_t LookNear(int32_t thread, int64_t ns) const;
  Outside OutsideOf(int32_t sample) const;
  bool WorkerIsHeldUp(int32_t process, int64_t ns) const;
  bool AnotherWaitsOutside(const HostSample& sample) const;
  bool HasPython(const HostSample& sample) const { return sites_.PythonOf(sample.stack) >= 0; }
  // It runs Python of which no line could be read: the interpreter's own code is all that shows.
  bool RunsUnreadPython(const HostSample& sample) const;
  std::string_view TargetOf(const HostSample& sample) const;
  std::string StateText(int32_t sample) const;

  const Timeline& timeline_;
  const CallSites& sites_;
  const JobActivity& activity_;
  // By stack node: a data loader's frame is on the stack; the innermost frames are those of a
  // queue, or of the standard library's channels between threads and processes of one job; the
  // innermost Python frame hands over to autograd's threads.
  std::vector<bool> in_loader_, in_queue_, in_own_channel_, in_backward_;
  std::vector<size_t> first_;                      // by thread, in Timeline::samples
  std::vector<std::vector<int32_t>> own_, below_;  // by process: threads with samples
  std::vector<Cause> causes_;                      // by sample
  std::vector<bool> feeder_unseen_;  // by sample: it waits for data, and nobody who makes it shows
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_SAMPLE_JUDGE_H_

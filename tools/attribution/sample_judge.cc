// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/sample_judge.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace gpuprobe::tools {
namespace {

// Packages whose frames are on the stack only while the next batch is being fetched.
constexpr std::string_view kLoaderPaths[] = {
    "torch/utils/data/",
    "torchdata/",
    "nvidia/dali/",
    "webdataset/",
    "tensorflow/python/data/",
    "tensorflow_datasets/",
    "datasets/",
    "streaming/",
    "ffcv/",
    "petastorm/",
    "ray/data/",
    "grain/",
    "litdata/",
    "torch_geometric/loader/",
    "dgl/dataloading/",
    "accelerate/data_loader.py",
};

// Of the standard library: where a thread waits for what another thread or process puts in.
struct QueueFile {
  std::string_view path;
  std::string_view functions;  // space-separated, each between spaces; empty: all of them
};
constexpr QueueFile kQueueFiles[] = {
    {"queue.py", ""},
    {"multiprocessing/queues.py", ""},
    {"multiprocessing/connection.py", ""},
    {"multiprocessing/pool.py", ""},
    {"multiprocessing/synchronize.py", ""},
    {"concurrent/futures/", ""},
    {"asyncio/", ""},
    // Its other functions are the outermost frames of every thread.
    {"threading.py", " wait wait_for join _wait_for_tstate_lock "},
};

// Waiting longer than a tick of the sampler tells who was busy meanwhile; shorter, chance does.
constexpr int64_t kLeastBusyWindowNs = 20'000'000;
constexpr int64_t kMostBusyWindowNs = 1'000'000'000;

// x86-64 system calls in which threads block.
struct Syscall {
  int32_t number;
  const char* name;
  enum class Does : uint8_t {
    kRead,
    kWrite,
    kPoll,
    kSocket,
    kStorage,
    kFileLock,
    kFutex,
    kSleep,
    kChild
  } does;
};
using Does = Syscall::Does;
constexpr Syscall kSyscalls[] = {
    {0, "read", Does::kRead},           {1, "write", Does::kWrite},
    {7, "poll", Does::kPoll},           {17, "pread64", Does::kRead},
    {18, "pwrite64", Does::kWrite},     {19, "readv", Does::kRead},
    {20, "writev", Does::kWrite},       {23, "select", Does::kPoll},
    {26, "msync", Does::kStorage},      {35, "nanosleep", Does::kSleep},
    {40, "sendfile", Does::kWrite},     {42, "connect", Does::kSocket},
    {43, "accept", Does::kSocket},      {44, "sendto", Does::kWrite},
    {45, "recvfrom", Does::kSocket},    {46, "sendmsg", Does::kWrite},
    {47, "recvmsg", Does::kSocket},     {61, "wait4", Does::kChild},
    {72, "fcntl", Does::kFileLock},     {73, "flock", Does::kFileLock},
    {74, "fsync", Does::kStorage},      {75, "fdatasync", Does::kStorage},
    {82, "rename", Does::kStorage},     {162, "sync", Does::kStorage},
    {202, "futex", Does::kFutex},       {230, "clock_nanosleep", Does::kSleep},
    {232, "epoll_wait", Does::kPoll},   {247, "waitid", Does::kChild},
    {257, "openat", Does::kStorage},    {270, "pselect6", Does::kPoll},
    {271, "ppoll", Does::kPoll},        {277, "sync_file_range", Does::kStorage},
    {281, "epoll_pwait", Does::kPoll},  {285, "fallocate", Does::kStorage},
    {288, "accept4", Does::kSocket},    {295, "preadv", Does::kRead},
    {296, "pwritev", Does::kWrite},     {299, "recvmmsg", Does::kSocket},
    {306, "syncfs", Does::kStorage},    {327, "preadv2", Does::kRead},
    {328, "pwritev2", Does::kWrite},    {441, "epoll_pwait2", Does::kPoll},
    {449, "futex_waitv", Does::kFutex},
};
constexpr int32_t kSelect = 23, kEpollWait = 232, kEpollPwait = 281, kEpollPwait2 = 441;

bool IsEpoll(int32_t number) {
  return number == kEpollWait || number == kEpollPwait || number == kEpollPwait2;
}

const Syscall* FindSyscall(int32_t number) {
  const auto* found = std::lower_bound(std::begin(kSyscalls), std::end(kSyscalls), number,
                                       [](const Syscall& s, int32_t n) { return s.number < n; });
  return found != std::end(kSyscalls) && found->number == number ? found : nullptr;
}

// Of a library, or of a library that is run from its source tree.
bool IsPartOf(std::string_view file, std::string_view path) {
  if (OwnerOfFile(file) == CodeOwner::kLibrary) return PathInLibrary(file).starts_with(path);
  return path.starts_with("torch/") && file.find("/" + std::string(path)) != file.npos;
}

bool IsLoaderFile(std::string_view file) {
  return std::any_of(std::begin(kLoaderPaths), std::end(kLoaderPaths),
                     [&](std::string_view path) { return IsPartOf(file, path); });
}

bool IsQueueFrame(std::string_view file, std::string_view function) {
  if (OwnerOfFile(file) != CodeOwner::kStandard) return false;
  const std::string_view path = PathInLibrary(file);
  const size_t dot = function.rfind('.');
  const std::string name =
      " " + std::string(dot == function.npos ? function : function.substr(dot + 1)) + " ";
  return std::any_of(std::begin(kQueueFiles), std::end(kQueueFiles), [&](const QueueFile& queue) {
    return path.starts_with(queue.path) &&
           (queue.functions.empty() || queue.functions.find(name) != queue.functions.npos);
  });
}

// Ends of both sides are within the job: the standard library makes its pipes and pairs of sockets.
bool IsOwnChannel(std::string_view file) {
  if (OwnerOfFile(file) != CodeOwner::kStandard) return false;
  const std::string_view path = PathInLibrary(file);
  return path.starts_with("multiprocessing/") || path.starts_with("concurrent/futures/");
}

bool IsPath(std::string_view target) { return target.starts_with("/"); }

}  // namespace

SampleJudge::SampleJudge(const Timeline& timeline, const CallSites& sites,
                         const JobActivity& activity)
    : timeline_(timeline),
      sites_(sites),
      activity_(activity),
      in_loader_(timeline.stacks.size(), false),
      in_queue_(timeline.stacks.size(), false),
      in_own_channel_(timeline.stacks.size(), false),
      in_backward_(timeline.stacks.size(), false) {
  struct Facts {
    bool loader, standard, queue, own_channel, backward;
  };
  std::vector<Facts> facts;  // by location
  facts.reserve(timeline.locations.size());
  for (const CodeLocation& location : timeline.locations) {
    if (location.native) {
      facts.push_back({});
      continue;
    }
    const std::string_view file = sites.FileOf(location);
    facts.push_back({IsLoaderFile(file), OwnerOfFile(file) == CodeOwner::kStandard,
                     IsQueueFrame(file, sites.FunctionOf(location)), IsOwnChannel(file),
                     IsPartOf(file, "torch/autograd/")});
  }
  for (size_t n = 0; n < timeline.stacks.size(); ++n) {
    const StackNode& node = timeline.stacks[n];
    const bool has_parent = node.parent >= 0;
    if (has_parent) in_loader_[n] = in_loader_[node.parent];
    if (node.location < 0) continue;
    const CodeLocation& location = timeline.locations[node.location];
    const Facts& fact = facts[node.location];
    if (fact.loader) in_loader_[n] = true;
    const bool goes_on = location.native || fact.standard;  // of the run of frames further out
    in_queue_[n] = fact.queue || (goes_on && has_parent && in_queue_[node.parent]);
    in_own_channel_[n] =
        fact.own_channel || (goes_on && has_parent && in_own_channel_[node.parent]);
    in_backward_[n] = fact.backward || (location.native && has_parent && in_backward_[node.parent]);
  }
  FindThreads();
  feeder_unseen_.resize(timeline.samples.size(), false);
  causes_.reserve(timeline.samples.size());
  for (size_t s = 0; s < timeline.samples.size(); ++s) {
    causes_.push_back(timeline.samples[s].thread < 0 ? Cause::kHost
                                                     : Judge(static_cast<int32_t>(s)));
  }
}

std::string_view SampleJudge::TargetOf(const HostSample& sample) const {
  if (sample.wait_target < 0) return {};
  return timeline_.strings[sample.wait_target];
}

WaitKind SampleJudge::WaitOf(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  if (sample.state == HostState::kRunning) return WaitKind::kNone;
  if (sample.state == HostState::kUnknown && sample.syscall < 0) return WaitKind::kNone;
  if (sample.state == HostState::kStopped) return WaitKind::kStopped;
  const std::string_view target = TargetOf(sample);
  const Syscall* syscall = FindSyscall(sample.syscall);
  // Of fcntl() only the commands that lock a file block.
  if (syscall != nullptr && syscall->does == Does::kFileLock) return WaitKind::kFileLock;
  if (sample.state == HostState::kBlockedIo || IsPath(target)) return WaitKind::kStorage;
  if (syscall == nullptr) {
    return target == "pipe"     ? WaitKind::kPipe
           : target == "socket" ? WaitKind::kSocket
           : target == "futex"  ? WaitKind::kFutex
                                : WaitKind::kOther;
  }
  switch (syscall->does) {
    case Does::kRead:
      return target.ends_with("socket") ? WaitKind::kSocket : WaitKind::kPipe;
    case Does::kWrite:
      return WaitKind::kWriting;
    case Does::kPoll:
      // Of no descriptors: a sleep, as in Python before 3.11. Its traces of old say so by silence.
      if (target == "timeout" || target == "timerfd") return WaitKind::kSleep;
      if (syscall->number == kSelect && target.empty() && HasPython(sample))
        return WaitKind::kSleep;
      if (target == "child") return WaitKind::kChild;
      return target == "pipe" ? WaitKind::kPipe : WaitKind::kSocket;
    case Does::kSocket:
      return WaitKind::kSocket;
    case Does::kStorage:
      return WaitKind::kStorage;
    case Does::kFileLock:
      return WaitKind::kFileLock;
    case Does::kFutex:
      return WaitKind::kFutex;
    case Does::kSleep:
      return WaitKind::kSleep;
    case Does::kChild:
      return WaitKind::kChild;
  }
  return WaitKind::kOther;
}

Cause SampleJudge::Judge(int32_t index) {
  const HostSample& sample = timeline_.samples[index];
  if ((sample.flags & kSampleWaitsForGil) != 0) return Cause::kGilWait;
  const WaitKind wait = WaitOf(index);
  if (wait == WaitKind::kNone) {
    if (sample.state == HostState::kUnknown && sample.stack < 0) return Cause::kHost;
    if (RunsUnreadPython(sample)) return Cause::kHostPython;
    const bool native = !HasPython(sample) || (sample.flags & kSampleInCFunction) != 0;
    return native ? Cause::kHostNative : Cause::kHostPython;
  }
  // That time is told by itself (StoppedTimes()); where it stood meanwhile is no cause.
  if (wait == WaitKind::kStopped) return Cause::kHost;
  if (sample.stack >= 0 && in_loader_[sample.stack]) return Cause::kInputWait;
  switch (wait) {
    case WaitKind::kSocket:
    case WaitKind::kPipe:
    case WaitKind::kFutex:
      return CauseOfQueue(sample, index);
    default:
      return Cause::kHostNative;
  }
}

bool SampleJudge::RunsUnreadPython(const HostSample& sample) const {
  const int32_t process = timeline_.threads[sample.thread].process;
  if (sample.stack < 0 || process < 0 || timeline_.processes[process].python_unread.empty())
    return false;
  const int32_t location = timeline_.stacks[sample.stack].location;
  return location >= 0 && IsInPythonInterpreter(timeline_, timeline_.locations[location]);
}

// A lock, as far as can be told: a futex below Python that is in none of the known queues.
bool SampleJudge::IsLock(const HostSample& sample) const {
  return HasPython(sample) && !in_queue_[sample.stack];
}

Cause SampleJudge::CauseOfQueue(const HostSample& sample, int32_t index) {
  const bool lock = WaitOf(index) == WaitKind::kFutex && IsLock(sample);
  const int32_t process = timeline_.threads[sample.thread].process;
  if (!activity_.Sampled(process, sample.time_ns))
    return lock ? Cause::kHostNative : Cause::kInputWait;
  const int64_t end_ns = sample.time_ns;
  const int64_t begin_ns =
      end_ns - std::clamp(sample.interval_ns, kLeastBusyWindowNs, kMostBusyWindowNs);
  double self = 0;  // what this thread itself did in that time helps nobody
  for (int32_t s = index; s >= 0 && timeline_.samples[s].thread == sample.thread; --s) {
    const HostSample& own = timeline_.samples[s];
    if (own.time_ns <= begin_ns) break;
    const int64_t from_ns = std::max(begin_ns, own.time_ns - own.interval_ns);
    if (own.interval_ns <= 0) continue;
    self += static_cast<double>(WorkNs(own)) * static_cast<double>(own.time_ns - from_ns) /
            static_cast<double>(own.interval_ns);
  }
  const double idle = kIdleJobShare * static_cast<double>(end_ns - begin_ns);
  const double threads = activity_.OwnWork(process, begin_ns, end_ns) - self;
  const double children = activity_.WorkBelow(process, begin_ns, end_ns);
  if (threads + children < idle) return CauseWhileIdle(index, lock);
  return lock && threads >= children ? Cause::kHostNative : Cause::kInputWait;
}

void SampleJudge::FindThreads() {
  first_.assign(timeline_.threads.size() + 1, 0);
  for (const HostSample& sample : timeline_.samples) {
    if (sample.thread >= 0) ++first_[sample.thread + 1];
  }
  own_.resize(timeline_.processes.size());
  below_.resize(timeline_.processes.size());
  for (size_t t = 0; t < timeline_.threads.size(); ++t) {
    const auto thread = static_cast<int32_t>(t);
    const int32_t process = timeline_.threads[t].process;
    if (first_[t + 1] == 0 || process < 0) continue;
    own_[process].push_back(thread);
    if (!timeline_.processes[process].sampled_only) continue;
    for (size_t p = 0; p < below_.size(); ++p) {
      if (IsBelow(timeline_, process, static_cast<int32_t>(p))) below_[p].push_back(thread);
    }
  }
  // Samples are sorted by thread; those of none come first.
  for (size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
  const size_t none = timeline_.samples.size() - first_.back();
  for (size_t& first : first_) first += none;
}

int32_t SampleJudge::LookNear(int32_t thread, int64_t ns) const {
  const auto begin = timeline_.samples.begin() + static_cast<ptrdiff_t>(first_[thread]);
  const auto end = timeline_.samples.begin() + static_cast<ptrdiff_t>(first_[thread + 1]);
  const auto away = [&](auto at) { return std::abs(at->time_ns - ns); };
  auto at = std::partition_point(begin, end, [&](const HostSample& s) { return s.time_ns < ns; });
  if (at == end || (at != begin && away(at - 1) < away(at))) --at;
  return away(at) <= kMostBusyWindowNs ? static_cast<int32_t>(at - timeline_.samples.begin()) : -1;
}

SampleJudge::Outside SampleJudge::OutsideOf(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  if (WaitOf(index) != WaitKind::kSocket) return Outside::kNo;
  if (sample.stack >= 0 && in_own_channel_[sample.stack]) return Outside::kNo;
  if (IsEpoll(sample.syscall)) return Outside::kMaybe;
  const Syscall* syscall = FindSyscall(sample.syscall);
  const std::string_view target = TargetOf(sample);
  if (target == "several" || target == "epoll") return Outside::kMaybe;
  if (target != "socket") return Outside::kNo;
  return syscall != nullptr && syscall->does == Does::kSocket ? Outside::kYes : Outside::kMaybe;
}

// A worker that is kept from making data by something else than a lack of work.
bool SampleJudge::WorkerIsHeldUp(int32_t process, int64_t ns) const {
  return std::any_of(below_[process].begin(), below_[process].end(), [&](int32_t thread) {
    const int32_t look = LookNear(thread, ns);
    if (look < 0) return false;
    const WaitKind wait = WaitOf(look);
    // An event loop waits for work.
    return wait == WaitKind::kSleep || wait == WaitKind::kStorage || wait == WaitKind::kFileLock ||
           wait == WaitKind::kStopped ||
           (OutsideOf(look) != Outside::kNo && !IsEpoll(timeline_.samples[look].syscall));
  });
}

// Nobody in the job was busy. That alone does not say that it had nothing to do: those for whom
// the thread waits may sleep, or wait for storage behind a network.
Cause SampleJudge::CauseWhileIdle(int32_t index, bool lock) {
  const HostSample& sample = timeline_.samples[index];
  const int32_t process = timeline_.threads[sample.thread].process;
  const Outside outside = OutsideOf(index);
  if (outside == Outside::kYes) return Cause::kRequestWait;
  const bool held_up = WorkerIsHeldUp(process, sample.time_ns);
  if (outside == Outside::kMaybe && !held_up) return Cause::kRequestWait;
  if (lock) return Cause::kHostNative;
  if (WaitOf(index) == WaitKind::kFutex && !held_up && AnotherWaitsOutside(sample))
    return Cause::kRequestWait;
  feeder_unseen_[index] = !held_up;
  return Cause::kInputWait;
}

// A thread of its process waits for work from outside, and none sleeps that could have it in hand.
bool SampleJudge::AnotherWaitsOutside(const HostSample& sample) const {
  bool found = false;
  for (const int32_t thread : own_[timeline_.threads[sample.thread].process]) {
    const int32_t look = thread == sample.thread ? -1 : LookNear(thread, sample.time_ns);
    if (look < 0) continue;
    const WaitKind wait = WaitOf(look);
    if (wait == WaitKind::kSleep || wait == WaitKind::kStorage || wait == WaitKind::kFileLock ||
        wait == WaitKind::kStopped)
      return false;
    found |= OutsideOf(look) != Outside::kNo;
  }
  return found;
}

bool SampleJudge::AwaitsThread(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  if (WaitOf(index) != WaitKind::kFutex || (sample.flags & kSampleWaitsForGil) != 0) return false;
  return !HasPython(sample) || in_backward_[sample.stack];
}

bool SampleJudge::AwaitsProcess(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  const WaitKind wait = WaitOf(index);
  if (IsEpoll(sample.syscall) || (wait != WaitKind::kPipe && wait != WaitKind::kSocket))
    return false;
  const std::string_view target = TargetOf(sample);
  return target == "pipe" || target.ends_with("socket");
}

bool SampleJudge::IsAtItsOwn(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  if (sample.state == HostState::kUnknown || (sample.flags & kSampleWaitsForGil) != 0) return false;
  switch (WaitOf(index)) {
    case WaitKind::kNone:
    case WaitKind::kSleep:
    case WaitKind::kStorage:
    case WaitKind::kFileLock:
    case WaitKind::kWriting:
    case WaitKind::kChild:
    case WaitKind::kStopped:
      return true;
    case WaitKind::kSocket:
    case WaitKind::kPipe:
    case WaitKind::kFutex:
    case WaitKind::kOther:
      return false;
  }
  return false;
}

std::string SampleJudge::StateText(int32_t index) const {
  const HostSample& sample = timeline_.samples[index];
  if ((sample.flags & kSampleWaitsForGil) != 0) return "waiting for the GIL";
  const Syscall* syscall = FindSyscall(sample.syscall);
  const std::string target(TargetOf(sample));
  const std::string in =
      syscall == nullptr ? "blocked" : std::string("blocked in ") + syscall->name;
  switch (WaitOf(index)) {
    case WaitKind::kNone:
      if ((sample.flags & kSampleInCFunction) != 0) return "in a C function";
      return RunsUnreadPython(sample) ? "Python, line not read" : "";
    case WaitKind::kSleep:
      if (syscall != nullptr && syscall->does == Does::kPoll && !target.empty())
        return std::string("asleep in ") + syscall->name;
      return HasPython(sample) ? "asleep in time.sleep" : "asleep";
    case WaitKind::kStorage: {
      if (!IsPath(target)) return syscall == nullptr ? "blocked on storage" : in + ", on storage";
      if (syscall != nullptr && syscall->does == Does::kRead) return "reading " + target;
      if (syscall != nullptr && syscall->does == Does::kWrite) return "writing " + target;
      return in + " of " + target;
    }
    case WaitKind::kFileLock:
      return std::string("waiting in ") + syscall->name + " " + kForFileLock +
             (target.empty() ? "a file" : target);
    case WaitKind::kSocket:
    case WaitKind::kPipe:
      return target.empty() ? in : in + " on a " + target;
    case WaitKind::kWriting:
      return target.empty() ? in : in + " to a " + target;
    case WaitKind::kFutex:
      return IsLock(sample) && CauseOf(index) == Cause::kHostNative ? "waiting for a lock"
                                                                    : "blocked on a futex";
    case WaitKind::kChild:
      return "waiting for a child process to end";
    case WaitKind::kStopped:
      return "stopped by a signal or a debugger";
    case WaitKind::kOther:
      return in;
  }
  return "";
}

std::string SampleJudge::DetailOf(int32_t index) const {
  const std::string below = sites_.Below(timeline_.samples[index].stack);
  std::string state = StateText(index);
  if (feeder_unseen_[index]) state += std::string(", ") + kFeederUnseen;
  return below.empty() || state.empty() ? below + state : below + ", " + state;
}

}  // namespace gpuprobe::tools

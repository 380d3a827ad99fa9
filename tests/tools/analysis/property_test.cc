// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Random timelines against brute force, one array element a tick. All times are multiples of the
// tick, so that a coarse tick crosses the thresholds of the rules and an element still stands for
// exact time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/random_timeline.h"
#include "tools/analysis/analysis.h"
#include "tools/attribution/attribution.h"

namespace gpuprobe::tools {
namespace {

bool InScope(const Case& c, int32_t process) {
  return !c.options.pid || c.timeline.processes[process].pid == *c.options.pid;
}

// What ran on a device in each tick, painted operation by operation.
struct Painting {
  std::vector<uint8_t> kernel, compute, communication, copy, others;
  std::set<int64_t> points;  // starts of operations without length

  Painting(const Case& c, int32_t device)
      : kernel(kTicks), compute(kTicks), communication(kTicks), copy(kTicks), others(kTicks) {
    for (const GpuOp& op : c.timeline.ops) {
      if (op.device != device) continue;
      const bool own = InScope(c, op.process);
      if (own && op.start_ns == op.end_ns) points.insert(op.start_ns / c.tick);
      const bool communicates =
          op.kind == OpKind::kKernel && c.timeline.names[op.name].starts_with("nccl");
      for (int64_t t = op.start_ns / c.tick; t < op.end_ns / c.tick; ++t) {
        if (!own) {
          others[t] = 1;
        } else if (op.kind == OpKind::kCopy) {
          copy[t] = 1;
        } else {
          (communicates ? communication : compute)[t] = 1;
          if (op.kind == OpKind::kKernel) kernel[t] = 1;
        }
      }
    }
  }
  bool Busy(int64_t t) const { return compute[t] || communication[t] || copy[t]; }
};

class Checker {
 public:
  Checker(const Case& c, const Analysis& analysis, const DeviceReport& report)
      : c_(c), a_(analysis), r_(report), painting_(c, report.device) {}

  void Run() {
    ASSERT_EQ(a_.internal_error, "");
    CheckBreakdown();
    CheckGaps();
    CheckParts();
    CheckChargedOnce();
  }

 private:
  int64_t Tick(int64_t ns) const { return ns / c_.tick; }

  void CheckBreakdown() {
    int64_t kernel = 0, compute = 0, communication = 0, copy = 0, idle = 0;
    for (int64_t t = Tick(r_.window.start_ns); t < Tick(r_.window.end_ns); ++t) {
      kernel += painting_.kernel[t];
      if (painting_.compute[t])
        ++compute;
      else if (painting_.communication[t])
        ++communication;
      else if (painting_.copy[t])
        ++copy;
      else
        ++idle;
    }
    EXPECT_EQ(r_.kernels.union_ns, kernel * c_.tick);
    EXPECT_EQ(r_.compute_ns, compute * c_.tick);
    EXPECT_EQ(r_.communication_ns, communication * c_.tick);
    EXPECT_EQ(r_.copy_ns, copy * c_.tick);
    EXPECT_EQ(r_.idle_ns, idle * c_.tick);
  }

  void CheckGaps() {
    std::vector<std::pair<int64_t, int64_t>> expected, found;
    for (int64_t t = Tick(r_.window.start_ns); t < Tick(r_.window.end_ns); ++t) {
      if (painting_.Busy(t)) continue;
      const bool goes_on =
          !expected.empty() && expected.back().second == t && !painting_.points.contains(t);
      if (goes_on)
        expected.back().second = t + 1;
      else
        expected.emplace_back(t, t + 1);
    }
    for (const Gap& gap : r_.gaps) found.emplace_back(Tick(gap.begin_ns), Tick(gap.end_ns));
    EXPECT_EQ(found, expected);
  }

  void CheckParts() {
    for (const Gap& gap : r_.gaps) {
      int64_t at = gap.begin_ns;
      for (const GapPart& part : r_.PartsOf(gap)) {
        ASSERT_EQ(part.begin_ns, at);
        ASSERT_LT(part.begin_ns, part.end_ns);
        ASSERT_GE(part.where, 0);
        at = part.end_ns;
        for (int64_t t = Tick(part.begin_ns); t < Tick(part.end_ns); ++t) {
          const std::set<Cause> allowed = Allowed(gap, t * c_.tick);
          ASSERT_TRUE(allowed.contains(part.cause))
              << CauseKey(part.cause) << " (" << a_.places[part.where] << ") at tick " << t
              << " of the gap from tick " << Tick(gap.begin_ns) << " to " << Tick(gap.end_ns);
        }
      }
      ASSERT_EQ(at, gap.end_ns);
    }
  }

  // The causes that the rules allow at an instant of a gap; more than one only where a wait before
  // it may or may not have something left to be charged.
  std::set<Cause> Allowed(const Gap& gap, int64_t ns) const {
    const Timeline& t = c_.timeline;
    if (painting_.others[Tick(ns)]) return {Cause::kOtherProcess};
    if (IsBlind(ns)) return {Cause::kUnknown};
    if (gap.previous_op < 0) return {Cause::kStart};
    if (gap.next_op < 0) return {Cause::kEnd};
    const GpuOp& next = t.ops[gap.next_op];
    if (next.submission < 0) return {Cause::kUnknown};
    const HostCall& s = t.calls[next.submission];
    if (s.start_ns - next.start_ns > kImpossibleSkewNs) return {Cause::kUnknown};
    if (ns >= s.end_ns && ns >= std::min(s.start_ns, next.start_ns)) return {Cause::kLaunchLatency};
    if (const auto overhead = OverheadAt(s.thread, ns)) return {*overhead};
    if (ns >= s.start_ns) return InCall(next.submission);
    if (const int32_t call = SignificantCallAt(s.thread, ns); call >= 0) return InCall(call);
    return Outside(gap, s, ns);
  }

  bool IsBlind(int64_t ns) const {
    for (const Blind& blind : c_.timeline.blinds) {
      if (ns < blind.begin_ns || ns >= blind.end_ns || !InScope(c_, blind.process)) continue;
      for (const GpuOp& op : c_.timeline.ops) {
        if (op.device == r_.device && op.process == blind.process) return true;
      }
    }
    return false;
  }

  std::optional<Cause> OverheadAt(int32_t thread, int64_t ns) const {
    // Of the thread first, then of the process; the one that began first keeps the time.
    for (const bool of_thread : {true, false}) {
      for (const OverheadOp& o : c_.timeline.overheads) {
        const bool mine = of_thread
                              ? o.thread == thread
                              : o.thread < 0 && o.process == c_.timeline.threads[thread].process;
        if (mine && o.start_ns <= ns && ns < o.end_ns) {
          return o.profiler ? Cause::kProfiler : Cause::kBlockingApi;
        }
      }
    }
    return std::nullopt;
  }

  CallClass ClassOf(int32_t call) const {
    return c_.timeline.symbols[c_.timeline.calls[call].symbol].call_class;
  }

  bool IsPageable(int32_t call) const {
    for (const GpuOp& op : c_.timeline.ops) {
      if (op.submission != call || op.kind != OpKind::kCopy) continue;
      const CopyShape& shape = c_.timeline.copy_shapes[op.shape];
      if (shape.src_kind == 1 || shape.dst_kind == 1) return true;
    }
    return false;
  }

  std::optional<Cause> BlockingCause(int32_t call) const {
    switch (ClassOf(call)) {
      case CallClass::kSync:
        return Cause::kSynchronisation;
      case CallClass::kAlloc:
      case CallClass::kFree:
        return Cause::kBlockingApi;
      case CallClass::kCopyBlocking:
        return Cause::kPageableCopy;
      case CallClass::kCopy:
        if (IsPageable(call)) return Cause::kPageableCopy;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  // The call that the thread is in, of those that matter: the one that began first.
  int32_t SignificantCallAt(int32_t thread, int64_t ns) const {
    const auto& calls = c_.timeline.calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      const CallClass cc = ClassOf(static_cast<int32_t>(i));
      if (cc == CallClass::kEventRecord || cc == CallClass::kOther) continue;
      if (calls[i].thread == thread && calls[i].start_ns <= ns && ns < calls[i].end_ns) {
        return static_cast<int32_t>(i);
      }
    }
    return -1;
  }

  std::set<Cause> InCall(int32_t call) const {
    if (const auto blocking = BlockingCause(call)) return {*blocking};
    const HostCall& c = c_.timeline.calls[call];
    if (c.end_ns - c.start_ns >= kBlockedSubmitNs) return {Cause::kBlockingApi};
    return WithWaits(Cause::kLaunchBound, c.process, c.start_ns);
  }

  // Any blocking call of the process that began before may be charged.
  std::set<Cause> WithWaits(Cause cause, int32_t process, int64_t before_ns) const {
    std::set<Cause> allowed{cause};
    for (size_t i = 0; i < c_.timeline.calls.size(); ++i) {
      const HostCall& call = c_.timeline.calls[i];
      if (call.process != process || call.start_ns > before_ns) continue;
      if (const auto blocking = BlockingCause(static_cast<int32_t>(i))) allowed.insert(*blocking);
    }
    return allowed;
  }

  std::set<Cause> Outside(const Gap& gap, const HostCall& s, int64_t ns) const {
    const Timeline& t = c_.timeline;
    int64_t since = -1, until = std::min(s.start_ns, t.ops[gap.next_op].start_ns);
    bool submitted = false;
    for (size_t i = 0; i < t.calls.size(); ++i) {
      const HostCall& call = t.calls[i];
      const CallClass cc = ClassOf(static_cast<int32_t>(i));
      if (call.thread != s.thread || cc == CallClass::kEventRecord || cc == CallClass::kOther)
        continue;
      if (IsInsideEarlier(i)) continue;
      if (call.end_ns <= ns) {
        since = std::max(since, call.end_ns);
        submitted |= cc == CallClass::kLaunch || cc == CallClass::kCopy || HasOp(i);
      } else if (call.start_ns > ns) {
        until = std::min(until, call.start_ns);
      }
    }
    if (!submitted) since = -1;
    const GpuOp& previous = t.ops[gap.previous_op];
    if (previous.submission >= 0 && previous.process == s.process) {
      since = std::max(since, t.calls[previous.submission].end_ns);
    }
    if (since >= 0 && until - since <= kBackToBackNs) {
      return WithWaits(Cause::kLaunchBound, s.process, ns);
    }
    std::set<Cause> allowed = WithWaits(Cause::kHost, s.process, ns);
    if (BlockedElsewhere(s.process, ns)) allowed.erase(Cause::kHost);
    return allowed;
  }

  // A call inside an earlier one of its thread is a detail of that one.
  bool IsInsideEarlier(size_t index) const {
    const auto& calls = c_.timeline.calls;
    for (size_t i = 0; i < index; ++i) {
      const CallClass cc = ClassOf(static_cast<int32_t>(i));
      if (cc == CallClass::kEventRecord || cc == CallClass::kOther) continue;
      if (calls[i].thread == calls[index].thread && calls[i].end_ns >= calls[index].end_ns)
        return true;
    }
    return false;
  }

  bool HasOp(size_t call) const {
    return std::any_of(c_.timeline.ops.begin(), c_.timeline.ops.end(), [&](const GpuOp& op) {
      return op.submission == static_cast<int32_t>(call);
    });
  }

  bool BlockedElsewhere(int32_t process, int64_t ns) const {
    for (size_t i = 0; i < c_.timeline.calls.size(); ++i) {
      const HostCall& call = c_.timeline.calls[i];
      if (call.process == process && call.start_ns <= ns && ns < call.end_ns &&
          BlockingCause(static_cast<int32_t>(i))) {
        return true;
      }
    }
    return false;
  }

  // What is charged to a blocking call after its end never exceeds the time for which it was
  // blocked while the device was busy.
  void CheckChargedOnce() {
    std::map<int32_t, int64_t> charged_ns;
    for (const GapPart& part : r_.parts) {
      if (part.call < 0 || part.overhead >= 0 || !BlockingCause(part.call)) continue;
      if (part.cause != *BlockingCause(part.call)) continue;
      const int64_t end_ns = c_.timeline.calls[part.call].end_ns;
      charged_ns[part.call] += std::max<int64_t>(0, part.end_ns - std::max(part.begin_ns, end_ns));
    }
    for (const auto& [call, ns] : charged_ns) {
      const HostCall& c = c_.timeline.calls[call];
      int64_t busy = 0;
      for (int64_t t = Tick(c.start_ns); t < Tick(c.end_ns); ++t) busy += painting_.Busy(t) ? 1 : 0;
      EXPECT_LE(ns, busy * c_.tick) << "call " << call;
    }
  }

  const Case& c_;
  const Analysis& a_;
  const DeviceReport& r_;
  const Painting painting_;
};

// All rows together, call by call and tick by tick. The generator makes no synchronisation records.
class WaitChecker {
 public:
  WaitChecker(const Case& c, const Analysis& a) : c_(c), a_(a) {
    for (size_t d = 0; d < c.timeline.devices.size(); ++d) {
      paintings_.emplace_back(c, static_cast<int32_t>(d));
    }
  }

  void Run() {
    for (size_t i = 0; i < c_.timeline.calls.size(); ++i) Add(static_cast<int32_t>(i));
    WaitRow found;
    for (const WaitRow& row : a_.waits) {
      found.count += row.count;
      found.total_ns += row.total_ns;
      found.device_busy_ns += row.device_busy_ns;
      found.device_idle_ns += row.device_idle_ns;
      found.idle_after_ns += row.idle_after_ns;
      found.longest_ns = std::max(found.longest_ns, row.longest_ns);
    }
    EXPECT_EQ(found.count, expected_.count);
    EXPECT_EQ(found.total_ns, expected_.total_ns);
    EXPECT_EQ(found.device_busy_ns, expected_.device_busy_ns);
    EXPECT_EQ(found.device_idle_ns, expected_.device_idle_ns);
    EXPECT_EQ(found.idle_after_ns, expected_.idle_after_ns);
    EXPECT_EQ(found.longest_ns, expected_.longest_ns);
  }

 private:
  const GpuOp* OpOf(int32_t call) const {
    for (const GpuOp& op : c_.timeline.ops) {
      if (op.submission == call) return &op;
    }
    return nullptr;
  }

  int32_t DeviceOf(int32_t call) const {
    if (const GpuOp* op = OpOf(call)) return op->device;
    const HostCall& c = c_.timeline.calls[call];
    for (int32_t i = call - 1; i >= 0; --i) {
      if (c_.timeline.calls[i].thread != c.thread) continue;
      if (const GpuOp* op = OpOf(i)) return op->device;
    }
    int32_t first = -1;
    for (const GpuOp& op : c_.timeline.ops) {
      if (op.process == c.process && (first < 0 || op.device < first)) first = op.device;
    }
    return first;
  }

  int64_t BusyNs(int32_t device, int64_t begin, int64_t end) const {
    int64_t busy = 0;
    for (int64_t t = begin / c_.tick; t < end / c_.tick; ++t) {
      busy += t < kTicks && paintings_[device].Busy(t) ? c_.tick : 0;
    }
    return busy;
  }

  void Add(int32_t index) {
    const HostCall& c = c_.timeline.calls[index];
    if (!InScope(c_, c.process)) return;
    const int32_t device = DeviceOf(index);
    if (c_.options.device && *c_.options.device != device) return;
    const int64_t begin = std::max(c.start_ns, c_.options.from_ns.value_or(c.start_ns));
    const int64_t end = std::min(c.end_ns, c_.options.to_ns.value_or(c.end_ns));
    if (begin > end || (begin == end && c.start_ns < c.end_ns)) return;
    const int64_t busy = BusyNs(device, begin, end);
    switch (c_.timeline.symbols[c.symbol].call_class) {
      case CallClass::kSync:
      case CallClass::kCopyBlocking:
        break;
      case CallClass::kAlloc:
      case CallClass::kFree:
        if (busy == 0) return;
        break;
      case CallClass::kCopy: {
        const GpuOp* op = OpOf(index);
        const bool pageable = op != nullptr && (c_.timeline.copy_shapes[op->shape].src_kind == 1 ||
                                                c_.timeline.copy_shapes[op->shape].dst_kind == 1);
        if (pageable) break;
        [[fallthrough]];
      }
      case CallClass::kLaunch:
        if (c.end_ns - c.start_ns < 100'000 || busy != end - begin) return;
        break;
      default:
        return;
    }
    ++expected_.count;
    expected_.total_ns += end - begin;
    expected_.device_busy_ns += busy;
    expected_.device_idle_ns += end - begin - busy;
    expected_.longest_ns = std::max(expected_.longest_ns, end - begin);
    expected_.idle_after_ns += IdleAfter(index, device, end);
  }

  int64_t IdleAfter(int32_t index, int32_t device, int64_t end) const {
    for (const DeviceReport& report : a_.devices) {
      if (report.device != device) continue;
      int64_t until = INT64_MIN;  // submits nothing any more
      for (size_t i = index + 1; i < c_.timeline.calls.size(); ++i) {
        if (c_.timeline.calls[i].thread != c_.timeline.calls[index].thread) continue;
        const GpuOp* op = OpOf(static_cast<int32_t>(i));
        if (op == nullptr || op->device != device) continue;
        until = std::min(report.window.end_ns, op->start_ns);
        break;
      }
      const int64_t from = std::max(end, report.window.start_ns);
      return from < until ? until - from - BusyNs(device, from, until) : 0;
    }
    return 0;
  }

  const Case& c_;
  const Analysis& a_;
  std::vector<Painting> paintings_;
  WaitRow expected_;
};

class RandomTimelines : public testing::TestWithParam<int64_t> {};

TEST_P(RandomTimelines, AgreeWithBruteForce) {
  constexpr uint32_t kCases = 400;
  size_t devices = 0, parts = 0;
  std::set<Cause> seen;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    const Case c = RandomTimeline(seed, GetParam()).Make();
    const Analysis a = Analyse(c.timeline, c.options);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const DeviceReport& report : a.devices) {
      Checker(c, a, report).Run();
      if (HasFatalFailure()) return;
      ++devices;
      parts += report.parts.size();
      for (const GapPart& part : report.parts) seen.insert(part.cause);
    }
    WaitChecker(c, a).Run();
    if (HasFailure()) return;
  }
  // The generator reaches what it is for.
  EXPECT_GT(devices, kCases / 2);
  EXPECT_GT(parts, devices * 10);
  for (const Cause cause : {Cause::kSynchronisation, Cause::kBlockingApi, Cause::kLaunchBound,
                            Cause::kPageableCopy, Cause::kLaunchLatency, Cause::kProfiler,
                            Cause::kOtherProcess, Cause::kStart, Cause::kEnd, Cause::kUnknown}) {
    EXPECT_TRUE(seen.contains(cause)) << CauseKey(cause);
  }
}

// 1 ns: everything is back to back. 7 us: both sides of that threshold. 40 us: held-up launches
// too.
INSTANTIATE_TEST_SUITE_P(Ticks, RandomTimelines, testing::Values(1, 7'000, 40'000));

// What samples may turn the time outside CUDA into.
bool IsHostTime(Cause cause) {
  switch (cause) {
    case Cause::kHost:
    case Cause::kInputWait:
    case Cause::kRequestWait:
    case Cause::kHostPython:
    case Cause::kHostNative:
    case Cause::kGilWait:
    case Cause::kCpuStarved:
      return true;
    default:
      return false;
  }
}

struct Span {
  int64_t begin_ns, end_ns;
  Cause cause;
  int32_t overhead;
  bool operator==(const Span&) const = default;
};

// Parts by cause alone, neighbours joined, all host time alike.
std::vector<Span> Spans(const DeviceReport& report) {
  std::vector<Span> spans;
  for (const GapPart& part : report.parts) {
    const Cause cause = IsHostTime(part.cause) ? Cause::kHost : part.cause;
    if (!spans.empty() && spans.back().end_ns == part.begin_ns && spans.back().cause == cause &&
        spans.back().overhead == part.overhead) {
      spans.back().end_ns = part.end_ns;
    } else {
      spans.push_back({part.begin_ns, part.end_ns, cause, part.overhead});
    }
  }
  return spans;
}

// Whether idle time is put to a call of another thread than the one that submitted next. There
// samples decide more: what that one was at.
bool NamesCallsOfOthers(const Timeline& timeline, const DeviceReport& report) {
  for (const Gap& gap : report.gaps) {
    const int32_t submission = gap.next_op < 0 ? -1 : timeline.ops[gap.next_op].submission;
    if (submission < 0) continue;
    for (const GapPart& part : report.parts) {
      if (part.begin_ns < gap.begin_ns || part.end_ns > gap.end_ns || part.call < 0) continue;
      if (timeline.calls[part.call].thread != timeline.calls[submission].thread) return true;
    }
  }
  return false;
}

TEST_P(RandomTimelines, SamplesDivideTheHostsTimeAndNothingElse) {
  std::set<Cause> seen;
  int compared = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case with = RandomTimeline(seed, GetParam(), true).Make();
    // Of a process that was stopped they say more than of its threads: time of any cause.
    for (HostSample& sample : with.timeline.samples) {
      if (sample.state == HostState::kStopped) sample.state = HostState::kBlocked;
    }
    Case without = with;
    without.timeline.samples.clear();
    for (HostCall& call : without.timeline.calls) call.site = -1;
    const Analysis a = Analyse(with.timeline, with.options);
    const Analysis b = Analyse(without.timeline, without.options);
    ASSERT_EQ(a.internal_error, "");
    ASSERT_EQ(a.devices.size(), b.devices.size());
    for (size_t d = 0; d < a.devices.size(); ++d) {
      if (!NamesCallsOfOthers(without.timeline, b.devices[d])) {
        ASSERT_EQ(Spans(a.devices[d]), Spans(b.devices[d]));
        ++compared;
      }
      for (const CauseTotal& cause : a.devices[d].causes) {
        seen.insert(cause.cause);
        uint64_t site_samples = 0;
        for (const SiteTotal& site : cause.sites) site_samples += site.samples;
        ASSERT_EQ(site_samples, cause.samples);
        for (const Meanwhile& m : cause.meanwhile) {
          ASSERT_GE(m.on_cpu, 0);
          ASSERT_GE(m.runnable, 0);
          ASSERT_LE(m.on_cpu + m.runnable, 1.0 + 1e-9);
        }
      }
    }
    WaitChecker(with, a).Run();
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 100);
  if (GetParam() == 1) return;  // all of it is back to back
  for (const Cause cause :
       {Cause::kHost, Cause::kInputWait, Cause::kRequestWait, Cause::kHostPython,
        Cause::kHostNative, Cause::kGilWait, Cause::kCpuStarved}) {
    EXPECT_TRUE(seen.contains(cause)) << CauseKey(cause);
  }
}

TEST(Analyse, IsDeterministicWithSamples) {
  const Case c = RandomTimeline(7, 40'000, true).Make();
  const Analysis a = Analyse(c.timeline, c.options), b = Analyse(c.timeline, c.options);
  EXPECT_EQ(a.places, b.places);
  for (size_t d = 0; d < a.devices.size(); ++d) {
    EXPECT_EQ(PartsText(a, d), PartsText(b, d));
    ASSERT_EQ(a.devices[d].causes.size(), b.devices[d].causes.size());
    for (size_t i = 0; i < a.devices[d].causes.size(); ++i) {
      const CauseTotal &x = a.devices[d].causes[i], &y = b.devices[d].causes[i];
      EXPECT_EQ(x.samples, y.samples);
      ASSERT_EQ(x.sites.size(), y.sites.size());
      for (size_t s = 0; s < x.sites.size(); ++s) EXPECT_EQ(x.sites[s].detail, y.sites[s].detail);
      ASSERT_EQ(x.meanwhile.size(), y.meanwhile.size());
    }
  }
}

TEST(Analyse, IsDeterministic) {
  const Case c = RandomTimeline(7, 7'000).Make();
  const Analysis a = Analyse(c.timeline, c.options), b = Analyse(c.timeline, c.options);
  EXPECT_EQ(a.places, b.places);
  EXPECT_EQ(a.verdict.headline, b.verdict.headline);
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (size_t d = 0; d < a.devices.size(); ++d) EXPECT_EQ(PartsText(a, d), PartsText(b, d));
}

TEST(Analyse, OfNothingIsEmpty) {
  const Analysis a = Analyse(Timeline{}, {});
  EXPECT_TRUE(a.devices.empty());
  EXPECT_TRUE(a.waits.empty());
  EXPECT_EQ(a.internal_error, "");
  EXPECT_EQ(a.verdict.kind, "no_gpu_work");
}

}  // namespace
}  // namespace gpuprobe::tools

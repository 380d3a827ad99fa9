// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/windowed_analysis.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tools/analysis/verdict.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/places.h"
#include "tools/attribution/unseen.h"
#include "tools/attribution/waits.h"
#include "tools/figures/activity_counter.h"
#include "tools/load/records/link_calls.h"
#include "tools/steps/steady_part.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/sample_view.h"
#include "tools/timeline/stream_order.h"
#include "tools/windowed/side_thread.h"
#include "tools/windowed/sums/device_in_windows.h"
#include "tools/windowed/sums/idle_samples.h"
#include "tools/windowed/sums/kept_gaps.h"
#include "tools/windowed/sums/run_end.h"
#include "tools/windowed/sums/run_phases.h"
#include "tools/windowed/sums/verdict_counts.h"
#include "tools/windowed/two_windows.h"
#include "tools/windowed/untimed_ops.h"
#include "tools/windowed/wanted_devices.h"
#include "tools/windowed/window_carry.h"
#include "tools/windowed/window_samples.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();
// What rules ask of calls before the gap that they look at: clock skew.
constexpr int64_t kLookBackNs = 1'000'000;
// And of samples, with the calls around each: one that stands for a call may be kSampleReachNs from
// the middle of a call that took twice that.
constexpr int64_t kSampleLookBackNs = 3 * kSampleReachNs;
// From as many on windows overlap: with fewer the threads that there are have enough to do, and
// carry less from window to window.
constexpr size_t kCpusToOverlap = 4;

}  // namespace

class WindowedAnalysis::Impl {
 public:
  Impl(RunOutline outline, const Options& options, const WindowLimits& limits,
       ActivityCounter* activity, bool with_idle_samples)
      : options_(options),
        limits_(limits),
        activity_(activity),
        wanted_(outline.timeline, options, std::move(outline.process_devices)),
        cpus_(limits.cpus == 0 ? UsableCpus() : limits.cpus),
        side_(cpus_ > 1, "beside"),
        samples_(std::move(outline.timeline.samples), outline.timeline.threads.size()),
        places_(work_[0].timeline),
        present_(outline.timeline.devices.size(), false),
        seen_correlation_(outline.timeline.processes.size(), 0),
        communication_names_(CommunicationNames(outline.timeline)),
        verdict_(outline.timeline.devices.size(), options, communication_names_),
        sums_(cpus_ > 1, "sums"),
        behind_(cpus_ > 1, "steps"),
        attribution_(overlaps(), "attribution") {
    work_[0].timeline = std::move(outline.timeline);
    work_[0].timeline.samples.clear();
    CopyTables(work_[0].timeline, &work_[1].timeline);
    const size_t count = now().devices.size();
    learnt_ops_ = LearntOps(limits.learnt_ops, count);
    for (size_t d = 0; d < count; ++d)
      devices_.emplace_back(static_cast<int32_t>(d), limits.kept_gaps, learnt_ops_);
    ExpectIdle();
    if (!options.from_ns && !options.to_ns) phases_.Expect(wanted_.Operations(outline.operations));
    if (with_idle_samples) idle_samples_ = std::make_unique<IdleSamples>(samples_.all());
  }

  void Add(RecordWindow&& window) {
    Timeline& t = now();
    if (!window.records.streams.empty()) t.streams = std::move(window.records.streams);
    if (!window.records.threads.empty()) t.threads = std::move(window.records.threads);
    side_.Begin([&] { MergeIn(&window.records.ops, &t.ops); });
    MergeIn(&window.records.calls, &t.calls);
    MergeIn(&window.records.syncs, &t.syncs);
    MergeIn(&window.records.overheads, &t.overheads);
    t.events.insert(t.events.end(), window.records.events.begin(), window.records.events.end());
    side_.Wait();
    for (const UntimedOp& op : window.records.untimed) AddUntimed(op);
    to_come_ = std::move(window.devices_to_come);
    const int64_t end_ns = WindowEnd(window.horizon_ns);
    if (end_ns > previous_ns_) Process(end_ns, false);
    horizon_before_ns_ = horizon_ns_;
    horizon_ns_ = window.horizon_ns;
  }

  WindowedResult Finish() {
    to_come_.assign(devices_.size(), false);
    Process(kNever, true);
    attribution_.Wait();
    behind_.Wait();
    if (drain_lost_) internal_error_ = "a blocking call that goes on was not kept";
    WindowedResult result;
    Timeline& t = now();
    t.ops.clear();
    t.calls.clear();
    t.syncs.clear();
    t.events.clear();
    t.overheads.clear();
    t.untimed = untimed_.Release();
    t.samples = samples_.Release();
    const std::vector<int32_t> quoted_calls = quoted_.Take(&t);
    RunEnd end({wanted_, phases_, verdict_, start_up_, places_, present_, waits_in_steady_,
                quoted_calls, learnt_ops_, t, devices_, counts_, internal_error_});
    end.FinishDevices(&result.analysis);
    result.analysis.waits = waits_.Take();
    end.Judge(&result.analysis);
    result.analysis.places = places_.TakeTexts();
    result.analysis.internal_error = std::move(internal_error_);
    if (idle_samples_ != nullptr) {
      result.idle_at_samples = idle_samples_->idle();
      // Where there is none, none is idle.
      if (result.analysis.devices.empty()) result.idle_at_samples.assign(t.samples.size(), false);
    }
    const auto communicates = [](const DeviceReport& d) { return d.communication_ns > 0; };
    counts_.several_communicate = std::count_if(result.analysis.devices.begin(),
                                                result.analysis.devices.end(), communicates) > 1;
    counts_.waits_given_up = waits_.given_up;
    result.counts = counts_;
    result.timeline = std::move(t);
    return result;
  }

 private:
  // --- what comes in ----------------------------------------------------------------------------

  // So that `look_ahead` of the records that have not been measured, however many others were
  // carried on, and with samples their reach, lie between it and the horizon; not
  // before the horizon of the window before, with samples that of two before, which has been waited
  // for.
  int64_t WindowEnd(int64_t horizon_ns) const {
    const Timeline& t = now();
    const int64_t least_ns = samples_.empty() ? horizon_ns_ : horizon_before_ns_;
    const auto known = [this](const auto& records) {
      const auto first =
          std::partition_point(records.begin(), records.end(),
                               [this](const auto& r) { return r.start_ns < previous_ns_; });
      return static_cast<size_t>(first - records.begin());
    };
    const size_t known_ops = known(t.ops), known_calls = known(t.calls);
    const size_t all = t.ops.size() - known_ops + t.calls.size() - known_calls;
    if (all <= limits_.look_ahead) return least_ns;
    const double share = static_cast<double>(all - limits_.look_ahead) / static_cast<double>(all);
    int64_t end_ns = kNever;
    const auto bound = [&](const auto& records, size_t first) {
      if (records.size() == first) return;
      const auto at =
          first + static_cast<size_t>(share * static_cast<double>(records.size() - first));
      end_ns = std::min(end_ns, records[std::min(at, records.size() - 1)].start_ns);
    };
    bound(t.ops, known_ops);
    bound(t.calls, known_calls);
    if (!samples_.empty()) end_ns = std::min(end_ns, horizon_ns - kSampleReachNs);
    return std::max(least_ns, std::min(end_ns, horizon_ns));
  }

  void AddUntimed(const UntimedOp& op) {
    if (activity_ != nullptr || op.kind == OpKind::kKernel || op.kind == OpKind::kGraph)
      uncounted_.push_back(op);
    if (op.device >= 0 && wanted_.HasProcess(op.process)) {
      present_[static_cast<size_t>(op.device)] = true;
      DeviceReport& total = devices_[static_cast<size_t>(op.device)].total;
      ++total.untimed;
      if (op.timing == 1) ++total.untimed_missing;
      if (op.timing == 2) ++total.untimed_unfinished;
      if (op.timing == 3) ++total.untimed_invalid;
    }
    untimed_.Add(op);
  }

  // From the beginning of the user's window on a device is idle until its first operation comes.
  void ExpectIdle() {
    if (!options_.from_ns) return;
    for (const auto& [process, device] : wanted_.process_devices()) {
      if (device >= 0 && wanted_.Has(process, device))
        devices_[static_cast<size_t>(device)].open_ns = *options_.from_ns;
    }
  }

  // --- one window -------------------------------------------------------------------------------

  // What is known of a window when its gaps have been found, and what attributing them needs: the
  // next window is prepared meanwhile.
  struct Job {
    Timeline* timeline = nullptr;
    std::optional<Scope> scope;
    std::optional<HostView> host;
    std::vector<int32_t> sample_of_run;
    RunPhases phases;
    int64_t previous_ns = 0, end_ns = 0;
    bool last = false;
    std::vector<DeviceActivity> activities;
    std::vector<std::optional<DeviceWindow>> stretches;
    WaitWindow waits;
    std::vector<UntimedOp> untimed;  // that have not been counted
    std::vector<int32_t> cuts;       // devices whose gap is cut at the end
    Carried carried;                 // to the window after it
  };

  // Beside this thread, others: what calls are, while gaps are found. Where there are CPUs enough
  // the gaps are attributed by another thread (Measure()) while this one prepares the next window.
  void Process(int64_t end_ns, bool last) {
    Timeline& t = now();
    Link();
    untimed_.Choose(seen_correlation_, &t.untimed);
    ChooseSamples(end_ns, last);
    Job& job = jobs_[at_];
    job.timeline = &t;
    job.previous_ns = previous_ns_;
    job.end_ns = end_ns;
    job.last = last;
    job.sample_of_run = samples_.of_run();
    job.untimed.swap(uncounted_);
    uncounted_.clear();
    job.cuts.clear();
    job.stretches.clear();
    job.scope.emplace(t, options_);
    side_.Begin([&] { job.host.emplace(t, wanted_.first_devices()); });
    job.activities = CollectActivity(t, options_, *job.scope, Busy::kLeftOut);
    FindPhases(end_ns, job.activities);
    job.phases = phases_;
    const WindowContext context = ContextOf(job);
    for (DeviceActivity& activity : job.activities) {
      wanted_.SetProcesses(*job.scope, &activity);
      job.stretches.push_back(DeviceOf(activity).FindGaps(context, t, &activity));
    }
    job.waits = WaitsUntil(end_ns);
    int64_t blocking_from_ns = kNever;
    for (size_t a = 0; a < job.activities.size(); ++a) {
      if (!job.stretches[a]) continue;
      NoticeEnd(job.activities[a], end_ns, &job);
      if (overlaps() && !last)
        blocking_from_ns = std::min(blocking_from_ns, ChargedFrom(job.stretches[a]->report));
    }
    side_.Wait();
    attribution_.Wait();
    Job& before = jobs_[1 - at_];
    if (before.timeline != nullptr) {
      RenumberDrains(before.carried);
      TakeTables(before.timeline, &t);
    }
    places_.ReadFrom(t);
    std::vector<int32_t> drains = CallsOfDrains();
    attribution_.Begin([this, &job] { Measure(&job); });
    // Cutting changes from where on records are kept.
    if (!overlaps() || !job.cuts.empty()) {
      attribution_.Wait();
      drains = CallsOfDrains();
    }
    if (!last) GoOn(blocking_from_ns, drains, &job);
  }

  // Blocking calls at whose end or in which the device ran dry in this stretch end from here on. A
  // first gap may have begun before it, with the operation in front of it.
  int64_t ChargedFrom(const DeviceReport& report) const {
    int64_t from_ns = report.window.start_ns;
    if (!report.gaps.empty() && report.gaps.front().previous_op >= 0) {
      const auto previous = static_cast<size_t>(report.gaps.front().previous_op);
      from_ns = std::min(from_ns, now().ops[previous].end_ns);
    }
    return from_ns == kLongAgo ? from_ns : from_ns - kClockSkewNs;
  }

  // Two more threads keep up with this one.
  bool overlaps() const { return cpus_ >= kCpusToOverlap; }

  WindowContext ContextOf(const Job& job) {
    return {*job.scope,
            options_,
            communication_names_,
            job.sample_of_run,
            job.phases,
            job.previous_ns,
            job.end_ns,
            job.last,
            places_,
            quoted_,
            verdict_,
            start_up_,
            idle_samples_.get()};
  }

  // Beside this thread, another one: waits, counts, sums and the steps' operations, while gaps are
  // attributed. Behind both a third one follows the steps and checks what was found.
  void Measure(Job* job) {
    const Timeline& t = *job->timeline;
    const Scope& scope = *job->scope;
    const HostView& host = *job->host;
    const WindowContext context = ContextOf(*job);
    std::vector<DeviceActivity>& activities = job->activities;
    std::vector<std::optional<DeviceWindow>>& stretches = job->stretches;
    const HostEvidence evidence(t, host);
    behind_.Wait();
    sums_.Begin([&] {
      for (size_t a = 0; a < activities.size(); ++a) {
        if (!stretches[a]) continue;
        DeviceOf(activities[a]).ReadSteps(context, t, host, activities[a], *stretches[a]);
      }
      MeasureWaits(*job, evidence);
      CountRecords(*job);
      for (size_t a = 0; a < activities.size(); ++a) {
        if (stretches[a]) AddSums(context, t, activities[a], &*stretches[a]);
      }
    });
    const StreamOrder order(t, StreamsOfUntimed(t));
    const StreamWaits stream_waits(t, host);
    for (size_t a = 0; a < activities.size(); ++a) {
      const Lane unseen = UnseenTimes(t, scope, activities[a], order, places_);
      if (!stretches[a]) continue;
      DeviceOf(activities[a])
          .Attribute(context, {t, host, evidence, stream_waits, activities[a], unseen},
                     &stretches[a]->report);
    }
    sums_.Wait();
    for (size_t a = 0; a < activities.size(); ++a) {
      if (stretches[a]) DeviceOf(activities[a]).AddUp(context, t, activities[a], *stretches[a]);
    }
    for (const int32_t device : job->cuts) {
      if (devices_[static_cast<size_t>(device)].CutGap(options_, job->phases, job->end_ns, places_))
        ++counts_.cut_gaps;
    }
    measured_ = std::move(stretches);
    behind_.Begin([this] { FollowAndCheck(); });
  }

  // What is charged to a blocking call: its number in the next window. Nothing is attributed
  // meanwhile.
  void RenumberDrains(const Carried& carried) {
    for (DeviceInWindows& device : devices_) {
      for (Drain& drain : device.carry.drains) {
        if (drain.left_ns == 0) drain.call = -1;
        if (drain.call >= 0 && !carried.Has(drain.call)) drain_lost_ = true;
        drain.call = carried.NumberOf(drain.call);
        drain.considered = carried.NumberOf(drain.considered);
      }
    }
  }
  std::vector<int32_t> CallsOfDrains() const {
    std::vector<int32_t> calls;
    for (const DeviceInWindows& device : devices_) {
      for (const Drain& drain : device.carry.drains) {
        if (drain.left_ns > 0) calls.push_back(drain.call);
        calls.push_back(drain.considered);
      }
    }
    return calls;
  }

  // What is left to do of the window that was measured last. Nothing else touches steps meanwhile.
  void FollowAndCheck() {
    for (const auto& stretch : measured_) {
      if (!stretch) continue;
      devices_[static_cast<size_t>(stretch->report.device)].steps.Follow(stretch->report.parts);
      if (internal_error_.empty()) internal_error_ = CheckStretch(*stretch);
    }
    measured_.clear();
  }

  DeviceInWindows& DeviceOf(const DeviceActivity& activity) {
    return devices_[static_cast<size_t>(activity.device)];
  }

  // To the next window, while the gaps of this one may be attributed.
  void GoOn(int64_t blocking_from_ns, const std::vector<int32_t>& drains, Job* job) {
    for (const DeviceActivity& activity : job->activities) DeviceOf(activity).TakeBusy(activity);
    Carry(blocking_from_ns, drains, job);
    previous_ns_ = job->end_ns;
    at_ = 1 - at_;
  }

  // The operations of the window, in order of start: those of all devices that are looked at.
  void FindPhases(int64_t end_ns, const std::vector<DeviceActivity>& activities) {
    uint64_t count = 0;
    for (const DeviceActivity& activity : activities) {
      const auto before = [&](int64_t ns) {
        return std::partition_point(activity.ops.begin(), activity.ops.end(), [&](int32_t op) {
          return now().ops[static_cast<size_t>(op)].start_ns < ns;
        });
      };
      count += static_cast<uint64_t>(before(end_ns) - before(previous_ns_));
    }
    if (phases_.Skip(count)) return;
    for (const GpuOp& op : now().ops) {
      if (op.start_ns < previous_ns_) continue;
      if (op.start_ns >= end_ns) break;
      if (op.device >= 0 && wanted_.Has(op.process, op.device)) phases_.Count(op.start_ns);
    }
  }

  // In pieces that end where a phase of the run does.
  void MeasureWaits(const Job& job, const HostEvidence& evidence) {
    int64_t begin_ns = job.previous_ns;
    const int64_t end_ns = job.end_ns;
    const auto up_to = [&](int64_t until_ns) {
      WaitWindow window = job.waits;
      window.begin_ns = begin_ns;
      window.end_ns = until_ns;
      MeasureWaitsIn(window, *job.timeline, options_, *job.scope, *job.host, evidence,
                     job.activities, places_, &waits_);
      begin_ns = until_ns;
    };
    const Window& steady = job.phases.steady();
    if (steady.start_ns > begin_ns && steady.start_ns < end_ns) {
      up_to(steady.start_ns);
      waits_before_ = waits_.rows();
    }
    if (steady.end_ns > begin_ns && steady.end_ns < end_ns) {
      up_to(steady.end_ns);
      waits_in_steady_ = WaitRows::Since(waits_before_, waits_.rows());
    }
    up_to(end_ns);
  }

  void Link() {
    Timeline& t = now();
    t.untimed.clear();
    LoadedRun& work = work_[at_];
    LinkCalls(&work, &seen_correlation_);
    work.notices.clear();
    counts_.folded_driver_calls += work.folded_driver_calls;
    counts_.other_clock += t.untimed.size();
    for (const UntimedOp& op : t.untimed) AddUntimed(op);
  }

  // As far as records start and calls go on: what a call was made for may be told by a sample of
  // its end, long after any record. Of calls that go on for longer the first samples tell.
  void ChooseSamples(int64_t end_ns, bool last) {
    if (samples_.empty()) return;
    int64_t begin_ns = OpenSince(previous_ns_), until_ns = LatestStart();
    const int64_t furthest_ns = last ? kNever : end_ns + kSampleLookBackNs;
    for (const HostCall& call : now().calls) {
      if (call.end_ns < previous_ns_) continue;
      begin_ns = std::min(begin_ns, call.start_ns);
      until_ns = std::max(until_ns, std::min(call.end_ns, furthest_ns));
    }
    samples_.Take(begin_ns == kLongAgo ? kLongAgo : begin_ns - kSampleLookBackNs,
                  last ? kNever : until_ns + kSampleReachNs, &now().samples);
  }

  int64_t LatestStart() const {
    const Timeline& t = now();
    int64_t latest_ns = kLongAgo / 2;
    if (!t.ops.empty()) latest_ns = std::max(latest_ns, t.ops.back().start_ns);
    if (!t.calls.empty()) latest_ns = std::max(latest_ns, t.calls.back().start_ns);
    return latest_ns;
  }

  // From when on a device has not been measured; `ns` where none is open.
  int64_t OpenSince(int64_t ns) const {
    for (const DeviceInWindows& device : devices_) {
      if (!device.over) ns = std::min(ns, device.open_ns);
    }
    return ns;
  }

  // A device that is idle for long must not keep the calls of others.
  void NoticeEnd(const DeviceActivity& activity, int64_t end_ns, Job* job) {
    DeviceInWindows* const device = &DeviceOf(activity);
    if (device->measured_to_ns >= end_ns) return;
    const Timeline& t = now();
    const bool more_here =
        !activity.ops.empty() && t.ops[static_cast<size_t>(activity.ops.back())].start_ns >= end_ns;
    const auto d = static_cast<size_t>(activity.device);
    if (!more_here && d < to_come_.size() && !to_come_[d] && !options_.to_ns) {
      device->over = true;
      return;
    }
    if (more_here || t.calls.size() < limits_.most_calls) return;
    job->cuts.push_back(activity.device);
  }

  // --- waits and counts -------------------------------------------------------------------------

  WaitWindow WaitsUntil(int64_t end_ns) const {
    WaitWindow window{previous_ns_, end_ns, {}};
    for (const DeviceInWindows& device : devices_) {
      // Its end is that of its last operation, which no submission lies behind.
      window.devices.push_back({device.began ? device.total.window.start_ns : FirstStart(device),
                                options_.to_ns.value_or(kNever)});
    }
    return window;
  }

  // Of a device of which the window after this one holds the first operations.
  int64_t FirstStart(const DeviceInWindows& device) const {
    if (options_.from_ns) return *options_.from_ns;
    const auto d = static_cast<int32_t>(&device - devices_.data());
    for (const GpuOp& op : now().ops) {
      if (op.device == d && wanted_.HasProcess(op.process)) return op.start_ns;
    }
    return kNever;
  }

  template <typename T>
  static std::span<const T> Started(const std::vector<T>& records, const Job& job) {
    const auto before = [&](int64_t ns) {
      return std::partition_point(records.begin(), records.end(),
                                  [ns](const T& record) { return record.start_ns < ns; });
    };
    const auto first = before(job.previous_ns);
    return {first, std::max(first, before(job.end_ns))};
  }

  // Records that start in the window, each once.
  void CountRecords(const Job& job) {
    const Timeline& t = *job.timeline;
    for (const UntimedOp& op : job.untimed) {
      if (activity_ != nullptr) activity_->Add(t, op);
      counts_.any_kernel |= op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
    }
    std::vector<uint8_t> launches = {0};  // by symbol + 1
    for (const ApiSymbol& symbol : t.symbols)
      launches.push_back(symbol.call_class == CallClass::kLaunch);
    for (const HostCall& call : Started(t.calls, job)) {
      if (activity_ != nullptr) activity_->Add(t, call);
      counts_.launches += launches[static_cast<size_t>(call.symbol + 1)] & (call.result == 0);
    }
    for (const GpuOp& op : Started(t.ops, job)) {
      if (activity_ != nullptr && op.device >= 0) activity_->Add(t, op);
      counts_.any_kernel |= op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
      verdict_.Add(t, op, job.phases.steady());
    }
  }

  // --- what goes on to the next window ----------------------------------------------------------

  void Carry(int64_t blocking_from_ns, const std::vector<int32_t>& drains, Job* job) {
    const Timeline& t = *job->timeline;
    const HostView& host = *job->host;
    const int64_t end_ns = job->end_ns;
    for (DeviceInWindows& device : devices_) {
      // What lies before its first operation is start, whatever others did.
      if (!device.began && t.calls.size() >= limits_.most_calls)
        device.open_ns = std::max(device.open_ns, end_ns);
    }
    CarryRule rule;
    rule.blocking_from_ns = blocking_from_ns;
    rule.end_ns = end_ns;
    rule.previous_ns = previous_ns_;
    const int64_t open_ns = OpenSince(end_ns);
    const int64_t awaited_ns = AwaitedSince(t, host, open_ns);
    rule.calls_from_ns = awaited_ns - kLookBackNs;
    rule.samples_from_ns = open_ns - kSampleLookBackNs;
    rule.most_unmatched = limits_.most_unmatched;
    for (const DeviceInWindows& device : devices_) {
      const int64_t from_ns = std::min(device.open_ns, end_ns);
      // Of a device that is over, operations without length where it ended are still to be counted.
      rule.ops_from_ns.push_back(device.over ? std::min(from_ns, awaited_ns)
                                             : std::min(from_ns, awaited_ns) - kLookBackNs);
    }
    untimed_.Drop(t, devices_);
    Timeline& next = work_[1 - at_].timeline;
    if (next.streams.size() < t.streams.size()) next.streams = t.streams;
    if (next.threads.size() < t.threads.size()) next.threads = t.threads;
    job->carried = CarryOn(rule, host, drains, t, &next);
    counts_.unmatched_dropped += job->carried.dropped;
    if (!overlaps()) {
      // What this window held is not asked for any more: its memory is that of the next.
      job->host.reset();
      job->activities.clear();
      GiveMemory(&job->timeline->ops, &next.ops);
      GiveMemory(&job->timeline->calls, &next.calls);
    }
    // Of what was busy before the window that has been measured, only the sums between the ends of
    // calls that may still be asked for matter.
    std::vector<int64_t> asked = {std::max(previous_ns_, kLongAgo / 2)};
    for (const HostCall& call : next.calls) {
      if (call.start_ns < previous_ns_) asked.push_back(call.start_ns);
      if (call.end_ns < previous_ns_) asked.push_back(call.end_ns);
    }
    std::sort(asked.begin(), asked.end());
    asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
    for (DeviceInWindows& device : devices_) device.busy.Coarsen(asked);
  }

  const Options options_;
  const WindowLimits limits_;
  size_t learnt_ops_ = 0;  // of each device
  ActivityCounter* const activity_;
  const WantedDevices wanted_;
  Timeline& now() { return work_[at_].timeline; }
  const Timeline& now() const { return work_[at_].timeline; }

  const size_t cpus_;
  SideThread side_;
  std::array<LoadedRun, 2> work_;  // their timelines: the records at hand, and those before or next
  std::array<Job, 2> jobs_;        // parallel to it
  size_t at_ = 0;
  std::vector<UntimedOp> uncounted_;  // for the next job
  bool drain_lost_ = false;
  WindowSamples samples_;
  std::unique_ptr<IdleSamples> idle_samples_;
  Places places_;
  std::vector<DeviceInWindows> devices_;
  std::vector<std::optional<DeviceWindow>> measured_;  // what `behind_` works on
  std::vector<bool> present_;  // by device: has operations without times in scope
  std::vector<uint32_t> seen_correlation_;
  std::vector<bool> to_come_;
  std::vector<bool> communication_names_;
  UntimedOps untimed_;
  WaitRows waits_;
  WaitRows::Map waits_before_;  // when the steady part began
  std::vector<WaitRow> waits_in_steady_;
  KeptCalls quoted_;
  RunPhases phases_;
  VerdictCounts verdict_;
  StartUp start_up_;
  RecordCounts counts_;
  std::string internal_error_;
  int64_t previous_ns_ = kLongAgo;
  int64_t horizon_ns_ = kLongAgo, horizon_before_ns_ = kLongAgo;  // of the last two windows
  // These go first, the last one before the others: they work on what is above.
  SideThread sums_, behind_, attribution_;
};

WindowedAnalysis::WindowedAnalysis(RunOutline outline, const Options& options,
                                   const WindowLimits& limits, ActivityCounter* activity,
                                   bool with_idle_samples)
    : impl_(std::make_unique<Impl>(std::move(outline), options, limits, activity,
                                   with_idle_samples)) {}
WindowedAnalysis::~WindowedAnalysis() = default;
void WindowedAnalysis::Add(RecordWindow&& window) { impl_->Add(std::move(window)); }
WindowedResult WindowedAnalysis::Finish() { return impl_->Finish(); }

}  // namespace gpuprobe::tools

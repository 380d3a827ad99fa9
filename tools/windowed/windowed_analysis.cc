// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/windowed_analysis.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "tools/analysis/verdict.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/meanwhile.h"
#include "tools/attribution/places.h"
#include "tools/attribution/unseen.h"
#include "tools/attribution/waits.h"
#include "tools/figures/activity_counter.h"
#include "tools/load/link_calls.h"
#include "tools/steps/steady_part.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/huge_vector.h"
#include "tools/timeline/sample_view.h"
#include "tools/timeline/stream_order.h"
#include "tools/windowed/device_in_windows.h"
#include "tools/windowed/idle_samples.h"
#include "tools/windowed/kept_gaps.h"
#include "tools/windowed/run_phases.h"
#include "tools/windowed/side_thread.h"
#include "tools/windowed/verdict_counts.h"
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
// Operations without times that are looked at: more are counted, but what they filled reads as
// idle.
constexpr size_t kMostUntimed = 65'536;

template <typename T>
bool ByStart(const T& a, const T& b) {
  return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
}

template <typename T>
void MergeIn(std::vector<T>* fresh, std::vector<T>* items) {
  const auto middle = static_cast<ptrdiff_t>(items->size());
  MakeRoom(fresh->size(), 0, items);
  items->insert(items->end(), fresh->begin(), fresh->end());
  fresh->clear();
  const auto at = items->begin() + middle;
  // What comes starts from the horizon on, before which all that is carried on does.
  if (middle == 0 || at == items->end() || !ByStart(*at, *(at - 1))) return;
  std::inplace_merge(items->begin(), at, items->end(), ByStart<T>);
}

}  // namespace

class WindowedAnalysis::Impl {
 public:
  Impl(RunOutline outline, const Options& options, const WindowLimits& limits,
       ActivityCounter* activity, bool with_idle_samples)
      : options_(options),
        limits_(limits),
        activity_(activity),
        process_devices_(std::move(outline.process_devices)),
        cpus_(limits.cpus == 0 ? UsableCpus() : limits.cpus),
        side_(cpus_ > 1, "sums"),
        samples_(std::move(outline.timeline.samples), outline.timeline.threads.size()),
        places_(work_.timeline),
        present_(outline.timeline.devices.size(), false),
        seen_correlation_(outline.timeline.processes.size(), 0),
        communication_names_(CommunicationNames(outline.timeline)),
        verdict_(outline.timeline.devices.size(), options, communication_names_),
        behind_(cpus_ > 1, "steps") {
    work_.timeline = std::move(outline.timeline);
    work_.timeline.samples.clear();
    const size_t count = work_.timeline.devices.size();
    learnt_ops_ = LearntOps(limits.learnt_ops, count);
    for (size_t d = 0; d < count; ++d)
      devices_.emplace_back(static_cast<int32_t>(d), limits.kept_gaps, learnt_ops_);
    FindFirstDevices();
    ExpectIdle();
    ExpectPhases(outline.operations);
    if (with_idle_samples) idle_samples_ = std::make_unique<IdleSamples>(samples_.all());
  }

  void Add(RecordWindow&& window) {
    Timeline& t = work_.timeline;
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
    behind_.Wait();
    WindowedResult result;
    Timeline& t = work_.timeline;
    t.ops.clear();
    t.calls.clear();
    t.syncs.clear();
    t.events.clear();
    t.overheads.clear();
    t.untimed = std::move(untimed_);
    t.samples = samples_.Release();
    quoted_calls_ = quoted_.Take(&t);
    FinishDevices(&result.analysis);
    result.analysis.waits = waits_.Take();
    JudgeRun(&result.analysis);
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

  // So that `look_ahead` records, and with samples their reach, lie between it and the horizon; not
  // before the horizon of the window before, with samples that of two before, which has been waited
  // for.
  int64_t WindowEnd(int64_t horizon_ns) const {
    const Timeline& t = work_.timeline;
    const int64_t least_ns = samples_.empty() ? horizon_ns_ : horizon_before_ns_;
    const size_t all = t.ops.size() + t.calls.size();
    if (all <= limits_.look_ahead) return least_ns;
    const double share = static_cast<double>(all - limits_.look_ahead) / static_cast<double>(all);
    int64_t end_ns = kNever;
    const auto bound = [&](const auto& records) {
      if (records.empty()) return;
      const auto at = static_cast<size_t>(share * static_cast<double>(records.size()));
      end_ns = std::min(end_ns, records[std::min(at, records.size() - 1)].start_ns);
    };
    bound(t.ops);
    bound(t.calls);
    if (!samples_.empty()) end_ns = std::min(end_ns, horizon_ns - kSampleReachNs);
    return std::max(least_ns, std::min(end_ns, horizon_ns));
  }

  void AddUntimed(const UntimedOp& op) {
    if (activity_ != nullptr) activity_->Add(work_.timeline, op);
    if (op.kind == OpKind::kKernel || op.kind == OpKind::kGraph) counts_.any_kernel = true;
    if (op.device >= 0 && InScope(op.process)) {
      present_[static_cast<size_t>(op.device)] = true;
      DeviceReport& total = devices_[static_cast<size_t>(op.device)].total;
      ++total.untimed;
      if (op.timing == 1) ++total.untimed_missing;
      if (op.timing == 2) ++total.untimed_unfinished;
      if (op.timing == 3) ++total.untimed_invalid;
    }
    if (untimed_.size() < kMostUntimed) untimed_.push_back(op);
  }

  bool InScope(int32_t process) const {
    return process < 0
               ? !options_.pid
               : !options_.pid ||
                     work_.timeline.processes[static_cast<size_t>(process)].pid == *options_.pid;
  }

  void FindFirstDevices() {
    first_devices_.assign(work_.timeline.processes.size(), -1);
    for (const auto& [process, device] : process_devices_) {
      if (process < 0 || device < 0) continue;
      int32_t& first = first_devices_[static_cast<size_t>(process)];
      if (first < 0 || device < first) first = device;
    }
  }

  // From the beginning of the user's window on a device is idle until its first operation comes.
  void ExpectIdle() {
    if (!options_.from_ns) return;
    for (const auto& [process, device] : process_devices_) {
      if (device >= 0 && IsWanted(process, device))
        devices_[static_cast<size_t>(device)].open_ns = *options_.from_ns;
    }
  }

  // Devices and processes that are looked at, and no window of the user's.
  void ExpectPhases(const std::vector<uint64_t>& operations) {
    if (options_.from_ns || options_.to_ns) return;
    uint64_t expected = 0;
    for (size_t i = 0; i < std::min(operations.size(), process_devices_.size()); ++i) {
      const auto& [process, device] = process_devices_[i];
      if (device >= 0 && IsWanted(process, device)) expected += operations[i];
    }
    phases_.Expect(expected);
  }

  bool IsWanted(int32_t process, int32_t device) const {
    return (!options_.device || *options_.device == device) && InScope(process);
  }

  // --- one window -------------------------------------------------------------------------------

  // Beside this thread, another one: what calls are, while gaps are found; waits, counts, sums and
  // the steps' operations, while gaps are attributed. Behind both a third one follows the steps and
  // checks what was found, while the next window is prepared.
  void Process(int64_t end_ns, bool last) {
    Timeline& t = work_.timeline;
    Link();
    ChooseUntimed();
    ChooseSamples(end_ns, last);
    const Scope scope(t, options_);
    std::optional<HostView> host_view;
    side_.Begin([&] { host_view.emplace(t, first_devices_); });
    std::vector<DeviceActivity> activities = CollectActivity(t, options_, scope, Busy::kLeftOut);
    FindPhases(end_ns, activities);
    const WindowContext context = {scope,
                                   options_,
                                   communication_names_,
                                   samples_.of_run(),
                                   phases_,
                                   previous_ns_,
                                   end_ns,
                                   last,
                                   places_,
                                   quoted_,
                                   verdict_,
                                   start_up_,
                                   idle_samples_.get()};
    std::vector<std::optional<DeviceWindow>> stretches;
    for (DeviceActivity& activity : activities) {
      SetProcesses(scope, &activity);
      stretches.push_back(DeviceOf(activity).FindGaps(context, t, &activity));
    }
    side_.Wait();
    const HostView& host = *host_view;
    const HostEvidence evidence(t, host);
    behind_.Wait();
    side_.Begin([&] {
      for (size_t a = 0; a < activities.size(); ++a) {
        if (!stretches[a]) continue;
        DeviceOf(activities[a]).ReadSteps(context, t, host, activities[a], *stretches[a]);
      }
      MeasureWaits(end_ns, scope, host, evidence, activities);
      CountRecords(end_ns);
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
    side_.Wait();
    for (size_t a = 0; a < activities.size(); ++a) {
      if (!stretches[a]) continue;
      DeviceInWindows& device = DeviceOf(activities[a]);
      device.AddUp(context, t, activities[a], *stretches[a]);
      NoticeEnd(activities[a], end_ns, &device);
    }
    measured_ = std::move(stretches);
    behind_.Begin([this] { FollowAndCheck(); });
    if (!last) GoOn(host, end_ns, &activities);
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

  // To the next window.
  void GoOn(const HostView& host, int64_t end_ns, std::vector<DeviceActivity>* activities) {
    for (DeviceActivity& activity : *activities) DeviceOf(activity).TakeBusy(&activity);
    Carry(host, end_ns);
    previous_ns_ = end_ns;
  }

  // The operations of the window, in order of start: those of all devices that are looked at.
  void FindPhases(int64_t end_ns, const std::vector<DeviceActivity>& activities) {
    uint64_t count = 0;
    for (const DeviceActivity& activity : activities) {
      const auto before = [&](int64_t ns) {
        return std::partition_point(activity.ops.begin(), activity.ops.end(), [&](int32_t op) {
          return work_.timeline.ops[static_cast<size_t>(op)].start_ns < ns;
        });
      };
      count += static_cast<uint64_t>(before(end_ns) - before(previous_ns_));
    }
    if (phases_.Skip(count)) return;
    for (const GpuOp& op : work_.timeline.ops) {
      if (op.start_ns < previous_ns_) continue;
      if (op.start_ns >= end_ns) break;
      if (op.device >= 0 && IsWanted(op.process, op.device)) phases_.Count(op.start_ns);
    }
  }

  // In pieces that end where a phase of the run does.
  void MeasureWaits(int64_t end_ns, const Scope& scope, const HostView& host,
                    const HostEvidence& evidence, const std::vector<DeviceActivity>& activities) {
    int64_t begin_ns = previous_ns_;
    const auto up_to = [&](int64_t until_ns) {
      WaitWindow window = WaitsUntil(until_ns);
      window.begin_ns = begin_ns;
      MeasureWaitsIn(window, work_.timeline, options_, scope, host, evidence, activities, places_,
                     &waits_);
      begin_ns = until_ns;
    };
    const Window& steady = phases_.steady();
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
    Timeline& t = work_.timeline;
    t.untimed.clear();
    LinkCalls(&work_, &seen_correlation_);
    work_.notices.clear();
    counts_.folded_driver_calls += work_.folded_driver_calls;
    counts_.other_clock += t.untimed.size();
    for (const UntimedOp& op : t.untimed) AddUntimed(op);
  }

  // Those that may have run by now.
  void ChooseUntimed() {
    work_.timeline.untimed.clear();
    for (const UntimedOp& op : untimed_) {
      if (op.process < 0 || op.correlation == 0) continue;
      if (op.correlation <= seen_correlation_[static_cast<size_t>(op.process)])
        work_.timeline.untimed.push_back(op);
    }
  }

  // As far as records start and calls go on: what a call was made for may be told by a sample of
  // its end, long after any record. Of calls that go on for longer the first samples tell.
  void ChooseSamples(int64_t end_ns, bool last) {
    if (samples_.empty()) return;
    int64_t begin_ns = OpenSince(previous_ns_), until_ns = LatestStart();
    const int64_t furthest_ns = last ? kNever : end_ns + kSampleLookBackNs;
    for (const HostCall& call : work_.timeline.calls) {
      if (call.end_ns < previous_ns_) continue;
      begin_ns = std::min(begin_ns, call.start_ns);
      until_ns = std::max(until_ns, std::min(call.end_ns, furthest_ns));
    }
    samples_.Take(begin_ns == kLongAgo ? kLongAgo : begin_ns - kSampleLookBackNs,
                  last ? kNever : until_ns + kSampleReachNs, &work_.timeline.samples);
  }

  int64_t LatestStart() const {
    const Timeline& t = work_.timeline;
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

  void SetProcesses(const Scope& scope, DeviceActivity* activity) const {
    for (const auto& [process, device] : process_devices_) {
      if (device == activity->device && process >= 0 && scope.Contains(process))
        activity->processes[static_cast<size_t>(process)] = true;
    }
  }

  // A device that is idle for long must not keep the calls of others.
  void NoticeEnd(const DeviceActivity& activity, int64_t end_ns, DeviceInWindows* device) {
    if (device->measured_to_ns >= end_ns) return;
    const Timeline& t = work_.timeline;
    const bool more_here =
        !activity.ops.empty() && t.ops[static_cast<size_t>(activity.ops.back())].start_ns >= end_ns;
    const auto d = static_cast<size_t>(activity.device);
    if (!more_here && d < to_come_.size() && !to_come_[d] && !options_.to_ns) {
      device->over = true;
      return;
    }
    if (more_here || t.calls.size() < limits_.most_calls) return;
    if (device->CutGap(options_, phases_, end_ns, places_)) ++counts_.cut_gaps;
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
    for (const GpuOp& op : work_.timeline.ops) {
      if (op.device == d && InScope(op.process)) return op.start_ns;
    }
    return kNever;
  }

  template <typename T>
  std::span<const T> Started(const std::vector<T>& records, int64_t end_ns) const {
    const auto before = [&](int64_t ns) {
      return std::partition_point(records.begin(), records.end(),
                                  [ns](const T& record) { return record.start_ns < ns; });
    };
    const auto first = before(previous_ns_);
    return {first, std::max(first, before(end_ns))};
  }

  // Records that start in the window, each once.
  void CountRecords(int64_t end_ns) {
    const Timeline& t = work_.timeline;
    std::vector<uint8_t> launches = {0};  // by symbol + 1
    for (const ApiSymbol& symbol : t.symbols)
      launches.push_back(symbol.call_class == CallClass::kLaunch);
    for (const HostCall& call : Started(t.calls, end_ns)) {
      if (activity_ != nullptr) activity_->Add(t, call);
      counts_.launches += launches[static_cast<size_t>(call.symbol + 1)] & (call.result == 0);
    }
    for (const GpuOp& op : Started(t.ops, end_ns)) {
      if (activity_ != nullptr && op.device >= 0) activity_->Add(t, op);
      counts_.any_kernel |= op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
      verdict_.Add(t, op, phases_.steady());
    }
  }

  // --- what goes on to the next window ----------------------------------------------------------

  void Carry(const HostView& host, int64_t end_ns) {
    Timeline& t = work_.timeline;
    for (DeviceInWindows& device : devices_) {
      // What lies before its first operation is start, whatever others did.
      if (!device.began && t.calls.size() >= limits_.most_calls)
        device.open_ns = std::max(device.open_ns, end_ns);
    }
    CarryRule rule;
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
    std::vector<int32_t*> calls;
    for (DeviceInWindows& device : devices_) {
      for (Drain& drain : device.carry.drains) {
        if (drain.left_ns == 0) drain.call = -1;
        calls.insert(calls.end(), {&drain.call, &drain.considered});
      }
    }
    DropUntimed();
    counts_.unmatched_dropped += CarryOn(rule, host, calls, &t);
    // Of what was busy before the window that has been measured, only the sums between the ends of
    // calls that may still be asked for matter.
    std::set<int64_t> asked = {std::max(previous_ns_, kLongAgo / 2)};
    for (const HostCall& call : t.calls) {
      if (call.start_ns < previous_ns_) asked.insert(call.start_ns);
      if (call.end_ns < previous_ns_) asked.insert(call.end_ns);
    }
    const std::vector<int64_t> sorted(asked.begin(), asked.end());
    for (DeviceInWindows& device : devices_) device.busy.Coarsen(sorted);
  }

  // Those whose stream has gone on before what is still to be measured.
  void DropUntimed() {
    if (untimed_.empty()) return;
    const Timeline& t = work_.timeline;
    std::vector<uint32_t> done(t.streams.size(), 0);
    for (const GpuOp& op : t.ops) {
      if (op.stream < 0 || op.device < 0) continue;
      const DeviceInWindows& device = devices_[static_cast<size_t>(op.device)];
      if (!device.began || op.start_ns > device.measured_to_ns) continue;
      uint32_t& correlation = done[static_cast<size_t>(op.stream)];
      correlation = std::max(correlation, op.correlation);
    }
    std::erase_if(untimed_, [&](const UntimedOp& op) {
      return op.stream < 0 || op.correlation == 0 ||
             op.correlation < done[static_cast<size_t>(op.stream)];
    });
  }

  // --- the result -------------------------------------------------------------------------------

  void FinishDevices(Analysis* analysis) {
    Timeline& t = work_.timeline;
    const Scope scope(t, options_);
    std::vector<DeviceActivity> activities;
    for (size_t d = 0; d < devices_.size(); ++d) {
      DeviceInWindows& device = devices_[d];
      const bool asked = options_.device && static_cast<size_t>(*options_.device) == d;
      if (options_.device && !asked) continue;
      if (!device.began && !present_[d] && !asked) continue;
      DeviceReport report = device.TakeTotal(places_);
      report.device = static_cast<int32_t>(d);
      RenumberQuoted(&report);
      activities.emplace_back().device = report.device;
      activities.back().processes.assign(t.processes.size(), false);
      SetProcesses(scope, &activities.back());
      device.steps.Finish(t, report.window);
      analysis->devices.push_back(std::move(report));
    }
    AddHelpers(nullptr, analysis);
    AddSteps(nullptr, analysis);
    if (phases_.has_begun() && phases_.is_over()) later_ = AnalyseSteady(*analysis);
    for (DeviceReport& report : analysis->devices) {
      devices_[static_cast<size_t>(report.device)].gaps.Take(&t, &report);
    }
    CheckTotals(*analysis);
    analysis->blind_ns = BlindNs(t, activities, analysis->devices);
  }

  void RenumberQuoted(DeviceReport* report) const {
    for (CauseTotal& cause : report->causes) {
      for (SiteTotal& site : cause.sites) {
        if (site.example_call < -1)
          site.example_call = quoted_calls_[static_cast<size_t>(-2 - site.example_call)];
      }
    }
  }

  // Of the run, or of a part of it. All samples are looked at, and no record: what helpers did is
  // theirs alone.
  void AddHelpers(const Window* within, Analysis* analysis) const {
    const Timeline& t = work_.timeline;
    if (t.samples.empty()) return;
    const HostView host(t);
    const HostEvidence evidence(t, host);
    for (DeviceReport& report : analysis->devices) {
      const DeviceInWindows& device = devices_[static_cast<size_t>(report.device)];
      std::vector<GilWait> gil_waits;
      for (const GilWait& wait : device.carry.gil_waits) {
        const int64_t ns = t.samples[static_cast<size_t>(wait.sample)].time_ns;
        if (within == nullptr || (ns >= within->start_ns && ns < within->end_ns))
          gil_waits.push_back(wait);
      }
      for (GapPart part : device.helped) {
        if (within != nullptr) {
          part.begin_ns = std::max(part.begin_ns, within->start_ns);
          part.end_ns = std::min(part.end_ns, within->end_ns);
        }
        if (part.begin_ns < part.end_ns) report.parts.push_back(part);
      }
      AddMeanwhile(t, evidence, places_, gil_waits, &report);
      report.parts.clear();
    }
  }

  void AddSteps(const Window* within, Analysis* analysis) {
    for (const DeviceReport& report : analysis->devices) {
      const DeviceInWindows& device = devices_[static_cast<size_t>(report.device)];
      GpuOp first_op = {};
      DeviceSteps steps = device.steps.Steps(within, places_.texts(), &first_op);
      if (!steps.steps.empty() && within == nullptr) {
        steps.first_op = static_cast<int32_t>(work_.timeline.ops.size());
        work_.timeline.ops.push_back(first_op);
      }
      if (within == nullptr) {
        counts_.other_loops += device.steps.other_loops();
        counts_.steps_not_listed += steps.count - steps.steps.size();
        if (device.steps.learnt_a_part()) counts_.steps_learnt = learnt_ops_;
      }
      analysis->steps.push_back(std::move(steps));
    }
  }

  void CheckTotals(const Analysis& analysis) {
    for (const DeviceReport& report : analysis.devices) {
      int64_t causes_ns = 0;
      for (const CauseTotal& cause : report.causes) causes_ns += cause.total_ns;
      const int64_t breakdown_ns =
          report.compute_ns + report.communication_ns + report.copy_ns + report.idle_ns;
      if (!internal_error_.empty()) return;
      if (causes_ns != report.idle_ns || report.busy_ns + report.idle_ns != report.window.span() ||
          breakdown_ns != report.window.span()) {
        internal_error_ = "the windows of the run do not add up";
      }
    }
  }

  // --- the verdict ------------------------------------------------------------------------------

  // As Analyse() does.
  void JudgeRun(Analysis* analysis) {
    const Timeline& t = work_.timeline;
    // JudgeWarmUp() names one.
    analysis->places = places_.texts();
    const Window& steady = phases_.steady();
    int64_t outside_ns = 0;
    for (const DeviceReport& report : analysis->devices) outside_ns += report.idle_ns;
    for (const DeviceReport& report : later_.devices) outside_ns -= report.idle_ns;
    if (later_.devices.empty() || !IsWorthLeavingOut(*analysis, steady, outside_ns)) {
      analysis->verdict = Judge(t, *analysis, verdict_.Take(t, *analysis, nullptr));
    } else if (const auto warm_up = JudgeWarmUp(*analysis, later_, start_up_)) {
      analysis->verdict = *warm_up;
    } else {
      analysis->verdict = Judge(t, later_, verdict_.Take(t, later_, &steady), JudgedPart::kSteady);
      analysis->verdict.steady = steady;
      analysis->verdict.left_out = LeftOutText(*analysis, steady, start_up_.gaps_ns);
    }
  }

  Analysis AnalyseSteady(const Analysis& whole) {
    const Window& steady = phases_.steady();
    Analysis later;
    for (const DeviceReport& of_run : whole.devices) {
      DeviceReport report = devices_[static_cast<size_t>(of_run.device)].TakeSteady(places_);
      report.device = of_run.device;
      RenumberQuoted(&report);
      later.devices.push_back(std::move(report));
    }
    AddHelpers(&steady, &later);
    AddSteps(&steady, &later);
    later.waits = waits_in_steady_;
    return later;
  }

  const Options options_;
  const WindowLimits limits_;
  size_t learnt_ops_ = 0;  // of each device
  ActivityCounter* const activity_;
  const std::vector<std::pair<int32_t, int32_t>> process_devices_;
  const size_t cpus_;
  SideThread side_;
  LoadedRun work_;  // its timeline: the records at hand
  WindowSamples samples_;
  std::unique_ptr<IdleSamples> idle_samples_;
  Places places_;
  std::vector<DeviceInWindows> devices_;
  std::vector<std::optional<DeviceWindow>> measured_;  // what `behind_` works on
  std::vector<bool> present_;  // by device: has operations without times in scope
  std::vector<uint32_t> seen_correlation_;
  std::vector<bool> to_come_;
  std::vector<bool> communication_names_;
  std::vector<int32_t> first_devices_;  // HostView
  std::vector<UntimedOp> untimed_;
  WaitRows waits_;
  WaitRows::Map waits_before_;  // when the steady part began
  std::vector<WaitRow> waits_in_steady_;
  KeptCalls quoted_;
  std::vector<int32_t> quoted_calls_;  // by number
  RunPhases phases_;
  VerdictCounts verdict_;
  StartUp start_up_;
  Analysis later_;  // of the steady part; no devices: there is none
  RecordCounts counts_;
  std::string internal_error_;
  int64_t previous_ns_ = kLongAgo;
  int64_t horizon_ns_ = kLongAgo, horizon_before_ns_ = kLongAgo;  // of the last two windows
  SideThread behind_;  // goes first: it works on what is above
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

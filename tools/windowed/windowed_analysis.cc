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
#include <string>
#include <thread>
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
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/sample_view.h"
#include "tools/timeline/stream_order.h"
#include "tools/windowed/kept_gaps.h"
#include "tools/windowed/side_thread.h"
#include "tools/windowed/window_carry.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();
// What rules ask of calls before the gap that they look at: clock skew. With samples also what a
// thread did around the one that stands for a call, which may be kSampleReachNs from the middle of
// a call that took twice that.
constexpr int64_t kLookBackNs = 1'000'000, kLookBackWithSamplesNs = 3 * kSampleReachNs;
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
  items->insert(items->end(), fresh->begin(), fresh->end());
  fresh->clear();
  const auto at = items->begin() + middle;
  // What comes starts from the horizon on, before which all that is carried on does.
  if (middle == 0 || at == items->end() || !ByStart(*at, *(at - 1))) return;
  std::inplace_merge(items->begin(), at, items->end(), ByStart<T>);
}

struct Small {
  int64_t ns = 0;
  uint64_t count = 0;
};

struct DeviceState {
  bool began = false;  // has been measured up to measured_to_ns
  bool over = false;   // no operation of it is to come
  int64_t measured_to_ns = 0;
  // Records from here on are kept: where it became idle, or the end of the window; kNever: it has
  // had no operation.
  int64_t open_ns = kNever;
  DeviceReport total;  // without gaps and parts
  AttributionCarry carry;
  KeptGaps gaps;
  IntervalSet busy;             // its union up to the window, coarse where that is enough
  std::vector<GapPart> helped;  // parts whose helpers are looked at (meanwhile.h)
  std::vector<Small> kernels;   // by shape, without communication
  std::vector<std::pair<int64_t, int64_t>> loading;  // begin, ns
};

void AddMoves(const MoveStats& part, MoveStats* total) {
  total->count += part.count;
  total->bytes += part.bytes;
  total->sum_ns += part.sum_ns;
  total->union_ns += part.union_ns;
}

void AddGaps(const DeviceReport& part, DeviceReport* total) {
  total->all_gaps += part.all_gaps;
  total->listed_gaps += part.listed_gaps;
  total->listed_gaps_ns += part.listed_gaps_ns;
}

void AddToTotal(const DeviceReport& part, DeviceReport* total) {
  total->kernels.count += part.kernels.count;
  total->kernels.zero_length += part.kernels.zero_length;
  total->kernels.sum_ns += part.kernels.sum_ns;
  total->kernels.union_ns += part.kernels.union_ns;
  AddMoves(part.copies, &total->copies);
  AddMoves(part.sets, &total->sets);
  AddMoves(part.graphs, &total->graphs);
  total->busy_ns += part.busy_ns;
  total->idle_ns += part.idle_ns;
  total->compute_ns += part.compute_ns;
  total->communication_ns += part.communication_ns;
  total->copy_ns += part.copy_ns;
  total->ops += part.ops;
  total->ops_with_submission += part.ops_with_submission;
  total->ops_before_submission += part.ops_before_submission;
  total->largest_skew_ns = std::max(total->largest_skew_ns, part.largest_skew_ns);
}

}  // namespace

class WindowedAnalysis::Impl {
 public:
  Impl(RunOutline outline, const Options& options, const WindowLimits& limits,
       ActivityCounter* activity)
      : options_(options),
        limits_(limits),
        activity_(activity),
        process_devices_(std::move(outline.process_devices)),
        side_(std::thread::hardware_concurrency() > 1),
        samples_(std::move(outline.timeline.samples)),
        places_(work_.timeline),
        devices_(outline.timeline.devices.size()),
        present_(outline.timeline.devices.size(), false),
        seen_correlation_(outline.timeline.processes.size(), 0) {
    work_.timeline = std::move(outline.timeline);
    work_.timeline.samples.clear();
    for (DeviceState& device : devices_) {
      device.gaps = KeptGaps(limits.kept_gaps);
      device.kernels.resize(work_.timeline.shapes.size());
    }
    first_of_thread_.assign(work_.timeline.threads.size() + 1, 0);
    communication_names_ = CommunicationNames(work_.timeline);
    FindFirstDevices();
    IndexSamples();
  }

  void Add(RecordWindow&& window) {
    Timeline& t = work_.timeline;
    if (!window.records.streams.empty()) t.streams = std::move(window.records.streams);
    if (!window.records.threads.empty()) t.threads = std::move(window.records.threads);
    MergeIn(&window.records.ops, &t.ops);
    MergeIn(&window.records.calls, &t.calls);
    MergeIn(&window.records.syncs, &t.syncs);
    MergeIn(&window.records.overheads, &t.overheads);
    t.events.insert(t.events.end(), window.records.events.begin(), window.records.events.end());
    for (const UntimedOp& op : window.records.untimed) AddUntimed(op);
    to_come_ = std::move(window.devices_to_come);
    const int64_t end_ns = WindowEnd(window.horizon_ns);
    if (end_ns > previous_ns_) Process(end_ns, false);
    horizon_ns_ = window.horizon_ns;
  }

  WindowedResult Finish() {
    to_come_.assign(devices_.size(), false);
    Process(kNever, true);
    WindowedResult result;
    Timeline& t = work_.timeline;
    t.ops.clear();
    t.calls.clear();
    t.syncs.clear();
    t.events.clear();
    t.overheads.clear();
    t.untimed = std::move(untimed_);
    t.samples = std::move(samples_);
    const std::vector<int32_t> quoted = quoted_.Take(&t);
    FinishDevices(quoted, &result.analysis);
    result.analysis.waits = waits_.Take();
    result.analysis.places = places_.TakeTexts();
    result.analysis.internal_error = std::move(internal_error_);
    result.analysis.verdict = Judge(t, result.analysis, Evidence(result.analysis));
    counts_.waits_given_up = waits_.given_up;
    result.counts = counts_;
    result.timeline = std::move(t);
    return result;
  }

 private:
  // --- what comes in ----------------------------------------------------------------------------

  // So that `look_ahead` records, and with samples their reach, lie between it and the horizon; not
  // before the horizon of the window before, which has been waited for.
  int64_t WindowEnd(int64_t horizon_ns) const {
    const Timeline& t = work_.timeline;
    const size_t all = t.ops.size() + t.calls.size();
    if (all <= limits_.look_ahead) return horizon_ns_;
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
    return std::max(horizon_ns_, std::min(end_ns, horizon_ns));
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

  void IndexSamples() {
    for (const HostSample& sample : samples_) {
      if (sample.thread >= 0) ++first_of_thread_[static_cast<size_t>(sample.thread) + 1];
    }
    for (size_t i = 1; i < first_of_thread_.size(); ++i)
      first_of_thread_[i] += first_of_thread_[i - 1];
    const size_t of_no_thread = samples_.size() - first_of_thread_.back();  // they come first
    for (size_t& first : first_of_thread_) first += of_no_thread;
  }

  // Samples from `begin_ns` on whose interval begins by `end_ns`.
  void TakeSamples(int64_t begin_ns, int64_t end_ns) {
    std::vector<HostSample>& window = work_.timeline.samples;
    window.clear();
    sample_of_run_.clear();
    for (size_t thread = 0; thread + 1 < first_of_thread_.size(); ++thread) {
      const auto end = samples_.begin() + static_cast<ptrdiff_t>(first_of_thread_[thread + 1]);
      auto at =
          std::partition_point(samples_.begin() + static_cast<ptrdiff_t>(first_of_thread_[thread]),
                               end, [&](const HostSample& s) { return s.time_ns < begin_ns; });
      for (; at != end && at->time_ns - at->interval_ns <= end_ns; ++at) {
        window.push_back(*at);
        sample_of_run_.push_back(static_cast<int32_t>(at - samples_.begin()));
      }
    }
  }

  int64_t LookBackNs() const { return samples_.empty() ? kLookBackNs : kLookBackWithSamplesNs; }

  // --- one window -------------------------------------------------------------------------------

  // Beside this thread, another one: what calls are, while gaps are found; waits, counts and sums,
  // while gaps are attributed; the check of what was found, while the next window is prepared.
  void Process(int64_t end_ns, bool last) {
    Timeline& t = work_.timeline;
    Link();
    ChooseUntimed();
    ChooseSamples(last);
    const Scope scope(t, options_);
    std::optional<HostView> host_view;
    side_.Begin([&] { host_view.emplace(t, first_devices_); });
    std::vector<DeviceActivity> activities = CollectActivity(t, options_, scope, Busy::kLeftOut);
    std::vector<IntervalSet::Mark> busy_until_end;
    std::vector<std::optional<MeasuredDevice>> measured;
    for (DeviceActivity& activity : activities) {
      DeviceState& device = devices_[static_cast<size_t>(activity.device)];
      SetProcesses(scope, &activity);
      const Busiest busiest = SetBusy(end_ns, &device, &activity);
      busy_until_end.push_back(busiest.before_end);
      measured.push_back(FindGapsIn(scope, activity, end_ns, busiest.until_ns, last, &device));
    }
    side_.Wait();
    const HostView& host = *host_view;
    const HostEvidence evidence(t, host);
    side_.Begin([&] {
      MeasureWaitsIn(WaitsUntil(end_ns), t, options_, scope, host, evidence, activities, places_,
                     &waits_);
      CountRecords(end_ns);
      for (size_t a = 0; a < activities.size(); ++a) {
        if (measured[a]) AddSums(scope, activities[a], &*measured[a]);
      }
    });
    const StreamOrder order(t, StreamsOfUntimed(t));
    const StreamWaits stream_waits(t, host);
    for (size_t a = 0; a < activities.size(); ++a) {
      DeviceState& device = devices_[static_cast<size_t>(activities[a].device)];
      const Lane unseen = UnseenTimes(t, scope, activities[a], order, places_);
      if (!measured[a]) continue;
      AttributeWindow({t, host, evidence, stream_waits, activities[a], unseen}, end_ns,
                      sample_of_run_, places_, &device.carry, &measured[a]->report);
    }
    side_.Wait();
    side_.Begin([&] {
      for (const auto& device : measured) {
        if (device) Check(*device);
      }
    });
    for (size_t a = 0; a < activities.size(); ++a) {
      if (!measured[a]) continue;
      DeviceState& device = devices_[static_cast<size_t>(activities[a].device)];
      AddToTotal(measured[a]->sums, &device.total);
      AddGaps(measured[a]->report, &device.total);
      Collect(measured[a]->report, &device);
      NoticeEnd(activities[a], end_ns, &device);
    }
    if (!last) GoOn(host, end_ns, busy_until_end, &activities);
    side_.Wait();
  }

  // To the next window.
  void GoOn(const HostView& host, int64_t end_ns,
            const std::vector<IntervalSet::Mark>& busy_until_end,
            std::vector<DeviceActivity>* collected) {
    std::vector<DeviceActivity>& activities = *collected;
    for (size_t a = 0; a < activities.size(); ++a) {
      DeviceState& device = devices_[static_cast<size_t>(activities[a].device)];
      device.busy = std::move(activities[a].busy);
      device.busy.TakeBack(busy_until_end[a]);
    }
    Carry(host, end_ns);
    previous_ns_ = end_ns;
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

  void ChooseSamples(bool last) {
    if (samples_.empty()) return;
    const Timeline& t = work_.timeline;
    int64_t begin_ns = OpenSince(previous_ns_);
    for (const HostCall& call : t.calls) {
      if (call.end_ns >= previous_ns_) begin_ns = std::min(begin_ns, call.start_ns);
    }
    const int64_t end_ns = last ? kNever : LatestStart() + kSampleReachNs;
    TakeSamples(begin_ns == kLongAgo ? kLongAgo : begin_ns - LookBackNs(), end_ns);
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
    for (const DeviceState& device : devices_) {
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

  struct Busiest {
    int64_t until_ns = kLongAgo;   // the last end of what starts before the window's end
    IntervalSet::Mark before_end;  // DeviceActivity::busy without what starts later
  };

  // What was busy before the window, the device knows.
  Busiest SetBusy(int64_t end_ns, DeviceState* device, DeviceActivity* activity) const {
    activity->busy = std::move(device->busy);
    activity->coarse = true;
    IntervalSet& busy = activity->busy;
    Busiest result;
    const auto& ops = activity->ops;
    size_t i = 0;
    const auto op_at = [&] { return work_.timeline.ops.data() + ops[i]; };
    for (; i < ops.size() && op_at()->start_ns < end_ns; ++i) {
      const GpuOp& op = *op_at();
      result.until_ns = std::max(result.until_ns, op.end_ns);
      if (op.start_ns >= previous_ns_) busy.Add(op.start_ns, op.end_ns);
    }
    result.before_end = busy.mark();
    for (; i < ops.size(); ++i) {
      if (op_at()->start_ns >= previous_ns_) busy.Add(op_at()->start_ns, op_at()->end_ns);
    }
    return result;
  }

  // A device in a window.
  struct MeasuredDevice {
    Options options;      // from where it had been measured
    bool began;           // before this window ...
    int64_t border_ns;    // ... and was measured up to there
    DeviceReport report;  // window, gaps and their parts
    DeviceReport sums;    // the rest
  };

  // Nothing: the device has not begun.
  std::optional<MeasuredDevice> FindGapsIn(const Scope& scope, const DeviceActivity& activity,
                                           int64_t end_ns, int64_t busy_until_ns, bool last,
                                           DeviceState* device) {
    const Timeline& t = work_.timeline;
    if (busy_until_ns != kLongAgo) device->open_ns = std::min(busy_until_ns, end_ns);
    const bool nothing_yet = busy_until_ns == kLongAgo && !options_.from_ns && !device->began;
    if (!last && nothing_yet) return std::nullopt;
    Options options = options_;
    int64_t to_ns = std::min(busy_until_ns, end_ns);
    if (device->began) {
      to_ns = std::max(to_ns, device->measured_to_ns);
      // Never before the window so far: the user's may end before the first operation.
      options.from_ns =
          std::max(std::min(device->measured_to_ns, options_.to_ns.value_or(kNever)),
                   std::max(device->total.window.end_ns, options_.from_ns.value_or(kLongAgo)));
    } else if (options_.from_ns && !last) {
      if (end_ns <= *options_.from_ns) return std::nullopt;
      to_ns = std::max(to_ns, *options_.from_ns);
    }
    if (!last) options.to_ns = std::min(to_ns, options_.to_ns.value_or(kNever));
    StreamCounts streams(t);
    MeasuredDevice measured{options, device->began, device->measured_to_ns, {}, {}};
    measured.report =
        MeasureDevice(t, options, scope, communication_names_, activity, &streams, Measured::kGaps);
    if (!device->began) device->total.window.start_ns = measured.report.window.start_ns;
    device->total.window.end_ns = measured.report.window.end_ns;
    device->began = true;
    device->measured_to_ns = to_ns;
    return measured;
  }

  void AddSums(const Scope& scope, const DeviceActivity& activity, MeasuredDevice* device) const {
    StreamCounts streams(work_.timeline);
    device->sums = MeasureDevice(work_.timeline, device->options, scope, communication_names_,
                                 activity, &streams, Measured::kSums);
    if (device->began)
      ForgetCounted(activity, device->sums.window, device->border_ns, &device->sums);
  }

  // Operations across the border have been counted in the window before.
  void ForgetCounted(const DeviceActivity& activity, const Window& window, int64_t border_ns,
                     DeviceReport* report) const {
    if (window.start_ns != border_ns || window.span() == 0) return;
    if (options_.from_ns && *options_.from_ns >= border_ns) return;
    for (const int32_t index : activity.ops) {
      const GpuOp& op = work_.timeline.ops[static_cast<size_t>(index)];
      if (op.start_ns >= border_ns) break;
      if (op.end_ns <= border_ns) continue;
      const auto forget = [&](MoveStats& moves) {
        --moves.count;
        moves.bytes -= op.bytes;
      };
      switch (op.kind) {
        case OpKind::kKernel:
          --report->kernels.count;
          break;
        case OpKind::kCopy:
          forget(report->copies);
          break;
        case OpKind::kSet:
          forget(report->sets);
          break;
        case OpKind::kGraph:
          forget(report->graphs);
          break;
      }
      --report->ops;
      if (op.submission < 0) continue;
      --report->ops_with_submission;
      if (work_.timeline.calls[static_cast<size_t>(op.submission)].start_ns > op.start_ns)
        --report->ops_before_submission;
    }
  }

  // What Analyse() promises holds for each window, its causes being its parts.
  void Check(const MeasuredDevice& device) {
    if (!internal_error_.empty()) return;
    DeviceReport sums = device.sums;
    std::array<int64_t, kCauseCount> causes_ns = {};
    for (const GapPart& part : device.report.parts)
      causes_ns[static_cast<size_t>(part.cause)] += part.end_ns - part.begin_ns;
    for (size_t c = 0; c < kCauseCount; ++c) {
      if (causes_ns[c] == 0) continue;
      CauseTotal& total = sums.causes.emplace_back();
      total.cause = static_cast<Cause>(c);
      total.total_ns = causes_ns[c];
      total.sites.push_back({"", causes_ns[c]});
    }
    internal_error_ = CheckSums(sums, device.report);
  }

  void Collect(const DeviceReport& report, DeviceState* device) {
    const Timeline& t = work_.timeline;
    device->gaps.Add(t, report, options_.min_gap_ns, sample_of_run_);
    device->carry.totals.RenumberCalls([&](int32_t call) { return -2 - quoted_.Add(t, call); });
    for (const GapPart& part : report.parts) {
      if (part.cause == Cause::kBlockingApi && IsLoading(t, part))
        device->loading.emplace_back(part.begin_ns, part.end_ns - part.begin_ns);
      if (part.sample < 0) continue;
      if (part.cause != Cause::kInputWait && part.cause != Cause::kCpuStarved) continue;
      GapPart helped = part;
      helped.sample = sample_of_run_[static_cast<size_t>(part.sample)];
      std::vector<GapPart>& all = device->helped;
      if (!all.empty() && all.back().end_ns == part.begin_ns && all.back().cause == part.cause &&
          all.back().thread == part.thread) {
        all.back().end_ns = part.end_ns;
      } else {
        all.push_back(helped);
      }
    }
  }

  // A device that is idle for long must not keep the calls of others.
  void NoticeEnd(const DeviceActivity& activity, int64_t end_ns, DeviceState* device) {
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
    CutGap(end_ns, device);
  }

  void CutGap(int64_t end_ns, DeviceState* device) {
    int64_t begin_ns = device->measured_to_ns;
    int64_t to_ns = end_ns;
    if (options_.from_ns) begin_ns = std::max(begin_ns, *options_.from_ns);
    if (options_.to_ns) to_ns = std::min(to_ns, *options_.to_ns);
    device->measured_to_ns = device->open_ns = end_ns;
    if (begin_ns >= to_ns) return;
    DeviceReport& total = device->total;
    total.idle_ns += to_ns - begin_ns;
    total.window.end_ns = to_ns;
    ++total.all_gaps;
    ++total.listed_gaps;
    total.listed_gaps_ns += to_ns - begin_ns;
    const GapPart part{
        begin_ns, to_ns,          -1, -1, -1, places_.OfText("idle for longer than calls are kept"),
        -1,       Cause::kUnknown};
    device->carry.totals.Add(device->carry.gaps++, part, -1, -1);
    ++counts_.cut_gaps;
  }

  // --- waits and counts -------------------------------------------------------------------------

  WaitWindow WaitsUntil(int64_t end_ns) const {
    WaitWindow window{previous_ns_, end_ns, {}};
    for (const DeviceState& device : devices_) {
      // Its end is that of its last operation, which no submission lies behind.
      window.devices.push_back({device.began ? device.total.window.start_ns : FirstStart(device),
                                options_.to_ns.value_or(kNever)});
    }
    return window;
  }

  // Of a device of which the window after this one holds the first operations.
  int64_t FirstStart(const DeviceState& device) const {
    if (options_.from_ns) return *options_.from_ns;
    const auto d = static_cast<int32_t>(&device - devices_.data());
    for (const GpuOp& op : work_.timeline.ops) {
      if (op.device == d && InScope(op.process)) return op.start_ns;
    }
    return kNever;
  }

  // Records that start in the window, each once.
  void CountRecords(int64_t end_ns) {
    const Timeline& t = work_.timeline;
    for (const HostCall& call : t.calls) {
      if (call.start_ns < previous_ns_ || call.start_ns >= end_ns) continue;
      if (activity_ != nullptr) activity_->Add(t, call);
      counts_.launches +=
          call.symbol >= 0 && call.result == 0 &&
          t.symbols[static_cast<size_t>(call.symbol)].call_class == CallClass::kLaunch;
    }
    for (const GpuOp& op : t.ops) {
      if (op.start_ns < previous_ns_ || op.start_ns >= end_ns) continue;
      if (activity_ != nullptr && op.device >= 0) activity_->Add(t, op);
      counts_.any_kernel |= op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
      CountForVerdict(op);
    }
  }

  void CountForVerdict(const GpuOp& op) {
    if (op.device < 0) return;
    const Timeline& t = work_.timeline;
    const int64_t ns = std::min(op.end_ns, options_.to_ns.value_or(kNever)) -
                       std::max(op.start_ns, options_.from_ns.value_or(kLongAgo));
    if (ns <= 0) return;
    if (op.kind == OpKind::kCopy) {
      copies_ns_ += ns;
      if (IsPageableCopy(t, op)) pageable_ns_ += ns;
    }
    if (op.kind != OpKind::kKernel || op.shape < 0) return;
    if (op.name >= 0 && communication_names_[static_cast<size_t>(op.name)]) return;
    Small& small = devices_[static_cast<size_t>(op.device)].kernels[static_cast<size_t>(op.shape)];
    small.ns += ns;
    ++small.count;
  }

  // By blocks.
  std::map<uint64_t, Small> SmallKernels(size_t device) const {
    const Timeline& t = work_.timeline;
    const double sms = t.devices[device].sm_count;
    std::map<uint64_t, Small> small;
    for (size_t s = 0; s < t.shapes.size(); ++s) {
      const Small& kernels = devices_[device].kernels[s];
      const LaunchShape& shape = t.shapes[s];
      const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
      if (kernels.count == 0 || blocks == 0 || static_cast<double>(blocks) >= kFewBlocks * sms)
        continue;
      small[blocks].ns += kernels.ns;
      small[blocks].count += kernels.count;
    }
    return small;
  }

  // --- what goes on to the next window ----------------------------------------------------------

  void Carry(const HostView& host, int64_t end_ns) {
    Timeline& t = work_.timeline;
    CarryRule rule;
    rule.end_ns = end_ns;
    rule.previous_ns = previous_ns_;
    rule.calls_from_ns = OpenSince(end_ns) - LookBackNs();
    rule.most_unmatched = limits_.most_unmatched;
    for (const DeviceState& device : devices_) {
      const int64_t from_ns = std::min(device.open_ns, end_ns);
      // Of a device that is over, operations without length where it ended are still to be counted.
      rule.ops_from_ns.push_back(device.over ? from_ns : from_ns - LookBackNs());
    }
    std::vector<int32_t*> calls;
    for (DeviceState& device : devices_) {
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
    for (DeviceState& device : devices_) device.busy.Coarsen(sorted);
  }

  // Those whose stream has gone on before what is still to be measured.
  void DropUntimed() {
    if (untimed_.empty()) return;
    const Timeline& t = work_.timeline;
    std::vector<uint32_t> done(t.streams.size(), 0);
    for (const GpuOp& op : t.ops) {
      if (op.stream < 0 || op.device < 0) continue;
      const DeviceState& device = devices_[static_cast<size_t>(op.device)];
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

  void FinishDevices(const std::vector<int32_t>& quoted, Analysis* analysis) {
    Timeline& t = work_.timeline;
    const Scope scope(t, options_);
    std::vector<DeviceActivity> activities;
    // For helpers all samples are looked at, and no record: what they did is theirs alone.
    Timeline* const all = &t;
    std::unique_ptr<HostView> host;
    std::unique_ptr<HostEvidence> evidence;
    if (!t.samples.empty()) {
      host = std::make_unique<HostView>(*all);
      evidence = std::make_unique<HostEvidence>(*all, *host);
    }
    for (size_t d = 0; d < devices_.size(); ++d) {
      DeviceState& device = devices_[d];
      const bool asked = options_.device && static_cast<size_t>(*options_.device) == d;
      if (options_.device && !asked) continue;
      if (!device.began && !present_[d] && !asked) continue;
      DeviceReport report = device.total;
      report.device = static_cast<int32_t>(d);
      report.causes = device.carry.totals.Take(places_.texts(), device.carry.details);
      for (CauseTotal& cause : report.causes) {
        for (SiteTotal& site : cause.sites) {
          if (site.example_call < -1)
            site.example_call = quoted[static_cast<size_t>(-2 - site.example_call)];
        }
      }
      if (evidence != nullptr) {
        report.parts = std::move(device.helped);
        AddMeanwhile(*all, *evidence, places_, device.carry.gil_waits, &report);
        report.parts.clear();
      }
      activities.emplace_back().device = report.device;
      activities.back().processes.assign(t.processes.size(), false);
      SetProcesses(scope, &activities.back());
      DeviceSteps& steps = analysis->steps.emplace_back();
      steps.device = report.device;
      steps.why_none = "not looked for in a run as long as this; --from and --to choose a part";
      analysis->devices.push_back(std::move(report));
    }
    evidence.reset();
    host.reset();
    for (DeviceReport& report : analysis->devices) {
      devices_[static_cast<size_t>(report.device)].gaps.Take(&t, &report);
    }
    CheckTotals(*analysis);
    analysis->blind_ns = BlindNs(t, activities, analysis->devices);
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

  RunEvidence Evidence(const Analysis& analysis) const {
    RunEvidence evidence;
    evidence.emptiness = MeasureSmallKernels(analysis);
    if (copies_ns_ > 0)
      evidence.pageable_share = static_cast<double>(pageable_ns_) / static_cast<double>(copies_ns_);
    for (const DeviceReport& report : analysis.devices) {
      const int64_t early_ns = report.window.start_ns + report.window.span() / 4;
      for (const auto& [begin_ns, ns] : devices_[static_cast<size_t>(report.device)].loading) {
        if (begin_ns < early_ns) evidence.loading_early_ns += ns;
      }
    }
    return evidence;
  }

  // MeasureEmptiness(), from sums.
  Emptiness MeasureSmallKernels(const Analysis& analysis) const {
    Emptiness all;
    int64_t most_ns = 0, total_ns = 0;
    std::map<uint64_t, int64_t> by_blocks;
    for (const DeviceReport& report : analysis.devices) {
      const auto d = static_cast<size_t>(report.device);
      const uint32_t sms = work_.timeline.devices[d].sm_count;
      if (sms == 0 || report.kernels.union_ns <= 0) continue;
      const double at_once =
          static_cast<double>(report.kernels.sum_ns) / static_cast<double>(report.kernels.union_ns);
      double small_ns = 0, wasted_ns = 0;
      for (const auto& [blocks, small] : SmallKernels(d)) {
        const double filled = static_cast<double>(blocks) * at_once / sms;
        if (filled >= kFewBlocks) continue;
        all.small_kernels += small.count;
        small_ns += static_cast<double>(small.ns) / at_once;
        wasted_ns += static_cast<double>(small.ns) / at_once * (1 - filled);
        by_blocks[blocks] += small.ns;
        total_ns += small.ns;
      }
      all.small_ns += static_cast<int64_t>(small_ns);
      all.wasted_ns += static_cast<int64_t>(wasted_ns);
      if (static_cast<int64_t>(small_ns) > most_ns) {
        most_ns = static_cast<int64_t>(small_ns);
        all.sm_count = sms;
      }
    }
    int64_t so_far_ns = 0;
    for (const auto& [blocks, ns] : by_blocks) {
      so_far_ns += ns;
      all.typical_blocks = blocks;
      if (so_far_ns * 2 >= total_ns) break;
    }
    return all;
  }

  const Options options_;
  const WindowLimits limits_;
  ActivityCounter* const activity_;
  const std::vector<std::pair<int32_t, int32_t>> process_devices_;
  SideThread side_;
  LoadedRun work_;  // its timeline: the records at hand
  std::vector<HostSample> samples_;
  std::vector<size_t> first_of_thread_;  // in samples_
  std::vector<int32_t> sample_of_run_;   // by index in the window
  Places places_;
  std::vector<DeviceState> devices_;
  std::vector<bool> present_;  // by device: has operations without times in scope
  std::vector<uint32_t> seen_correlation_;
  std::vector<bool> to_come_;
  std::vector<bool> communication_names_;
  std::vector<int32_t> first_devices_;  // HostView
  std::vector<UntimedOp> untimed_;
  WaitRows waits_;
  KeptCalls quoted_;
  RecordCounts counts_;
  std::string internal_error_;
  int64_t copies_ns_ = 0, pageable_ns_ = 0;
  int64_t previous_ns_ = kLongAgo, horizon_ns_ = kLongAgo;
};

WindowedAnalysis::WindowedAnalysis(RunOutline outline, const Options& options,
                                   const WindowLimits& limits, ActivityCounter* activity)
    : impl_(std::make_unique<Impl>(std::move(outline), options, limits, activity)) {}
WindowedAnalysis::~WindowedAnalysis() = default;
void WindowedAnalysis::Add(RecordWindow&& window) { impl_->Add(std::move(window)); }
WindowedResult WindowedAnalysis::Finish() { return impl_->Finish(); }

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "tools/analysis/advice.h"
#include "tools/analysis/rank_waits.h"
#include "tools/analysis/verdict_facts.h"
#include "tools/attribution/sample_judge.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {

bool IsLoading(const Timeline& timeline, const GapPart& part) {
  if (part.cause != Cause::kBlockingApi) return false;
  if (part.overhead >= 0) return true;  // the profiler's own are not of this cause
  if (part.call < 0) return false;
  const int32_t symbol = timeline.calls[static_cast<size_t>(part.call)].symbol;
  if (symbol < 0) return false;
  const CallClass c = timeline.symbols[static_cast<size_t>(symbol)].call_class;
  // A launch is of this cause only where it was held up.
  return c == CallClass::kModule || c == CallClass::kLaunch;
}

namespace {

// Of the growth of slow steps: what is as much as the largest part, for PlaceOfStall().
constexpr double kAboutAsMuch = 0.8;

class Judgement {
 public:
  // `evidence`: nullptr where the timeline holds all records.
  Judgement(const Timeline& timeline, const Analysis& analysis, const RunEvidence* evidence,
            JudgedPart part)
      : timeline_(timeline),
        analysis_(analysis),
        evidence_(evidence),
        part_(part),
        sums_(SumUp(analysis)),
        steady_ns_(sums_.JudgedNs()) {}

  Verdict Run() {
    if (sums_.ops == 0) return NoWork();
    if (sums_.longest_span_ns < kEnoughNs || sums_.ops < kEnoughOps) return TooLittle();
    const Cause cause = LargestCause({});
    // What is not known is no finding that another could be smaller than.
    const Cause known = cause == Cause::kUnknown ? LargestCause({Cause::kUnknown}) : cause;
    const bool communicates = sums_.communication_ns >= kCommunicationShare * steady_ns_ &&
                              sums_.communication_ns > sums_.Of(known);
    const bool late = ComesLate(known);
    if (!late && communicates) {
      Communication();
    } else if (!late && !WaitsForRanks(cause) && !IsEmpty(cause) && !CopiesPageable(cause)) {
      if (sums_.busy_ns >= kGpuBoundShare * steady_ns_) {
        GpuBound();
      } else if (!IsStalled()) {
        Idle(cause);
      }
    }
    NameRunnerUp();
    return verdict_;
  }

 private:
  Verdict NoWork() {
    if (sums_.untimed > 0) {
      verdict_.kind = "not_enough_data";
      verdict_.headline = "Not enough data: " + CountText(sums_.untimed, "GPU operation") +
                          " recorded, none with usable times.";
    } else {
      verdict_.kind = "no_gpu_work";
      verdict_.headline = sums_.span_ns > 0 ? "The GPU did nothing in this part of the run."
                                            : "No GPU work was recorded.";
    }
    return verdict_;
  }

  Verdict TooLittle() {
    verdict_.kind = "not_enough_data";
    verdict_.headline = "Not enough data: " + CountText(sums_.ops, "GPU operation") + " in " +
                        DurationText(sums_.longest_span_ns) + "; a verdict needs at least " +
                        CountText(kEnoughOps, "operation") + " and " + DurationText(kEnoughNs) +
                        ".";
    return verdict_;
  }

  // Start and end are the user's choice of window, not a finding; `but` are left out too.
  Cause LargestCause(const std::vector<Cause>& but) const {
    Cause best = Cause::kUnknown;
    int64_t best_ns = -1;
    for (int c = 0; c < kCauseCount; ++c) {
      const Cause cause = static_cast<Cause>(c);
      if (std::find(but.begin(), but.end(), cause) != but.end() || cause == Cause::kStart ||
          cause == Cause::kEnd) {
        continue;
      }
      if (sums_.Of(cause) > best_ns) {
        best = cause;
        best_ns = sums_.Of(cause);
      }
    }
    return best;
  }

  void NameRunnerUp() {
    std::vector<Cause> named = judged_;
    // Idle time behind the copies that the verdict is about has the same remedy.
    if (verdict_.kind == "pageable_copy") named.push_back(Cause::kPageableCopy);
    const Cause next = LargestCause(named);
    if (sums_.Of(next) < kRunnerUpShare * steady_ns_ || sums_.Of(next) == 0) return;
    // Without the thread: the line has to fit beside the bound, and the tables tell it.
    const std::string& where = sums_.TopSite(next).where;
    verdict_.runner_up_cause = next;
    verdict_.runner_up_share =
        static_cast<double>(sums_.Of(next)) / static_cast<double>(steady_ns_);
    verdict_.runner_up_where = where.substr(0, where.find(" (thread "));
    // Beside a finding among the causes of idle time, a share of that; else of the time.
    const bool is_more = next == Cause::kUnknown && more_is_unknown_;  // and no runner-up
    verdict_.runner_up =
        (is_more ? "no cause is known for " : "next is " + std::string(CauseLabel(next)) + ", ") +
        (judged_.empty() ? PercentText(sums_.Of(next), steady_ns_) + " of " + TimeText()
                         : PercentText(sums_.Of(next), sums_.IdleNs()) + " of the idle time");
    if (!verdict_.runner_up_where.empty())
      verdict_.runner_up += " (" + verdict_.runner_up_where + ")";
  }

  // What shares of the time are of: "1.27 s", "the steady 1.27 s", "2 GPUs x 3.20 s".
  std::string TimeText() const {
    const size_t devices = analysis_.devices.size();
    std::string text = part_ == JudgedPart::kSteady ? "the steady " : "";
    if (devices > 1) text += std::to_string(devices) + " GPUs x ";
    return text + DurationText(steady_ns_ / static_cast<int64_t>(std::max<size_t>(devices, 1)));
  }

  void SetBound(int64_t saved_ns) {
    const int64_t left_ns = std::max<int64_t>(steady_ns_ - saved_ns, 1);
    verdict_.upper_bound_speedup = static_cast<double>(steady_ns_) / static_cast<double>(left_ns);
  }

  // Time of the finding, where unknown time may be more.
  void SetFinding(int64_t ns) { more_is_unknown_ = sums_.Of(Cause::kUnknown) > ns; }
  std::string AsFarAsKnown() const { return more_is_unknown_ ? ", as far as is known" : ""; }

  std::string BusyParts() const {
    return "compute " + PercentText(sums_.compute_ns, steady_ns_) + ", communication " +
           PercentText(sums_.communication_ns, steady_ns_) + ", copies " +
           PercentText(sums_.copy_ns, steady_ns_);
  }

  void GpuBound() {
    verdict_.kind = "gpu_bound";
    verdict_.headline = "GPU-bound: the GPU was busy " + PercentText(sums_.busy_ns, steady_ns_) +
                        " of " + TimeText() + "; handing it work faster cannot gain much.";
    verdict_.evidence = BusyParts() + "; " + CountText(sums_.kernels, "kernel") + " of " +
                        DurationText(MeanKernelNs()) + " on average";
    verdict_.bound_if = "without any idle time";
    verdict_.action =
        "the host is not what limits it: make the GPU's own work cheaper (`probe-report kernels` "
        "lists what takes longest)";
    if (sums_.communication_ns >= kLateRankShare * steady_ns_) {
      verdict_.action =
          "for " + PercentText(sums_.communication_ns, steady_ns_) + " of " + TimeText() +
          " collectives ran alone, waiting for other ranks included: overlap them with compute, "
          "or look whether a rank comes late";
    } else if (sums_.copy_ns > sums_.compute_ns) {
      verdict_.action =
          "copies take longer than kernels and overlap with none: move less, or on a stream "
          "of their own while kernels run (`probe-report copies`)";
    }
    SetBound(sums_.IdleNs());
  }

  void Communication() {
    verdict_.kind = "communication";
    SetFinding(sums_.communication_ns);
    verdict_.headline = "Communication-bound" + AsFarAsKnown() + ": for " +
                        PercentText(sums_.communication_ns, steady_ns_) + " of " + TimeText() +
                        " collectives ran and nothing else";
    verdict_.evidence = "compute " + PercentText(sums_.compute_ns, steady_ns_) + ", idle " +
                        PercentText(sums_.IdleNs(), steady_ns_);
    verdict_.action = "overlap collectives with compute, or send less";
    if (analysis_.ranks) {
      verdict_.headline += ", waiting for the last rank to enter for " +
                           PercentText(analysis_.ranks->exposed_ns, steady_ns_) + ".";
      verdict_.evidence += "; " + LateText();
    } else {
      verdict_.headline += " (waiting for other ranks included).";
      verdict_.action += ", or find the rank that comes late (give the traces of all ranks)";
    }
    SetBound(sums_.communication_ns);
  }

  // "rank 1 (GPU 1) entered 120 of 134 collectives last, and the others waited 1.20 s in them"
  std::string LateText() const {
    const RankWaits::Rank& late = analysis_.ranks->Latest();
    return RankText(timeline_, late.device) + " entered " + std::to_string(late.entered_last) +
           " of " + CountText(analysis_.ranks->collectives, "collective") +
           " last; the others waited " + DurationText(late.caused_ns) + " for it";
  }

  // Most of the communication is waiting for the rank that enters last, as the traces of all show.
  bool ComesLate(Cause largest) {
    if (!analysis_.ranks) return false;
    const int64_t waited_ns = analysis_.ranks->exposed_ns;
    if (waited_ns < kLateRankShare * steady_ns_ || waited_ns < sums_.Of(largest) ||
        waited_ns * 2 < sums_.communication_ns) {
      return false;
    }
    const int32_t late = analysis_.ranks->Latest().device;
    const std::string who = RankText(timeline_, late);
    verdict_.kind = "communication";
    SetFinding(waited_ns);
    verdict_.headline = "Late rank" + AsFarAsKnown() + ": for " +
                        PercentText(waited_ns, steady_ns_) + " of " + TimeText() +
                        " collectives waited for the last rank to enter, " + "most of all for " +
                        who + ".";
    verdict_.evidence = LateText() + "; " + BusyParts();
    const DeviceReport* report = nullptr;
    for (const DeviceReport& device : analysis_.devices) {
      if (device.device == late) report = &device;
    }
    verdict_.action = "find out what keeps " + who + " (`probe-report --device " +
                      std::to_string(DeviceNumber(timeline_, late)) + "`)";
    if (report != nullptr && !report->causes.empty() && report->causes.front().total_ns > 0 &&
        !report->causes.front().sites.empty()) {
      const CauseTotal& cause = report->causes.front();
      verdict_.where = cause.sites.front().where;
      verdict_.action += ": it idles " + DurationText(report->idle_ns) + ", mostly for " +
                         CauseLabel(cause.cause) + " (" + verdict_.where + ")";
    }
    verdict_.bound_if = "if all came at once";
    SetBound(waited_ns);
    return true;
  }

  // Busy, but with collectives that wait inside of the device for a rank that comes late.
  bool WaitsForRanks(Cause largest) {
    if (analysis_.ranks || sums_.communication_ns < kLateRankShare * steady_ns_) return false;
    const int64_t waited_ns = evidence_ != nullptr ? evidence_->waited_for_ranks_ns
                                                   : WaitedForRanksNs(timeline_, analysis_);
    if (waited_ns < kLateRankShare * steady_ns_ || waited_ns < sums_.Of(largest)) return false;
    verdict_.kind = "communication";
    verdict_.headline = "Waiting for other ranks: for " +
                        PercentText(sums_.communication_ns, steady_ns_) + " of " + TimeText() +
                        " collectives ran and nothing else, for " +
                        PercentText(waited_ns, steady_ns_) + " longer than the same ones need.";
    verdict_.evidence = BusyParts() + "; need: " + std::to_string(kLateFactor) +
                        " times what the fastest quarter of a collective's likes takes";
    verdict_.action =
        "find the rank that comes late: give the traces of all ranks, or compare them";
    verdict_.estimates_ranks = true;
    SetBound(waited_ns);
    return true;
  }

  // Busy with kernels that leave most of the device unused.
  bool IsEmpty(Cause largest) {
    if (sums_.busy_ns < kEmptyBusyShare * steady_ns_) return false;
    const Emptiness empty =
        evidence_ != nullptr ? evidence_->emptiness : MeasureEmptiness(timeline_, analysis_);
    if (empty.small_ns < kEmptyShare * sums_.busy_ns || empty.small_ns < sums_.Of(largest)) {
      return false;
    }
    verdict_.kind = "busy_but_empty";
    verdict_.headline = "Busy but empty: the GPU was busy " +
                        PercentText(sums_.busy_ns, steady_ns_) + " of " + TimeText() +
                        ", but for " + PercentText(empty.small_ns, sums_.busy_ns) +
                        " of its busy time with kernels that use few of its " +
                        std::to_string(empty.sm_count) + " multiprocessors.";
    verdict_.evidence = CountText(empty.small_kernels, "kernel") + ", by time mostly of " +
                        CountText(empty.typical_blocks, "block") +
                        " or fewer: at most one block's " +
                        "multiprocessor each (`probe-report kernels`)";
    verdict_.action =
        "a larger batch, or several of these kernels fused or side by side on streams";
    verdict_.bound_if = "if these kernels filled it";
    SetBound(empty.wasted_ns);
    return true;
  }

  // Busy, but with copies that the driver has to stage through memory of its own.
  bool CopiesPageable(Cause largest) {
    if (sums_.copy_ns < kCopyShare * steady_ns_ || sums_.copy_ns < sums_.Of(largest)) return false;
    const double pageable =
        evidence_ != nullptr ? evidence_->pageable_share : PageableShare(timeline_, analysis_);
    if (pageable < kCopyShare) return false;
    verdict_.kind = "pageable_copy";
    verdict_.headline = "Pageable copies: for " + PercentText(sums_.copy_ns, steady_ns_) + " of " +
                        TimeText() + " the GPU did nothing but copy; " + PercentText(pageable, 1) +
                        " of all copying was from or to pageable memory, which the driver stages "
                        "in pieces.";
    for (const WaitRow& row : analysis_.waits) {
      if (row.api.find("Memcpy") == row.api.npos) continue;
      verdict_.where = row.where;
      verdict_.evidence = row.api + " (" + row.where + "): " + CountText(row.count, "call") +
                          " blocked " + DurationText(row.total_ns) + ", the longest " +
                          DurationText(row.longest_ns);
      break;
    }
    SiteTotal site;
    site.where = verdict_.where;
    verdict_.action =
        "pinned memory and asynchronous copies" + AtCode(site) +
        " (pin_memory=True and non_blocking=True in PyTorch), so that they overlap with kernels";
    SetBound(sums_.copy_ns + sums_.Of(Cause::kPageableCopy));
    return true;
  }

  // "train.py:27 in main" -> "train.py in main"
  static std::string FunctionOf(const std::string& where) {
    const size_t colon = where.find(':'), name = where.find(" in ");
    if (!IsCode(where) || colon == where.npos || name == where.npos || name < colon) return where;
    return where.substr(0, colon) + where.substr(name);
  }

  // Which of the parts that grew the steps are slow for: the largest; of about as much the one in
  // the function that does most of different kinds there. A checkpoint copies, writes and waits,
  // and is followed by what the next wait of the loop is charged with. nullptr: GPU work alone.
  static const StepGrowth* PlaceOfStall(const std::vector<StepGrowth>& growth) {
    struct Function {
      int64_t extra_ns = 0;
      size_t parts = 0;
      const StepGrowth* most = nullptr;
    };
    std::map<std::string, Function> functions;
    int64_t largest_ns = 0;
    for (const StepGrowth& part : growth) {
      if (!part.cause.has_value()) continue;
      Function& function = functions[FunctionOf(part.where)];
      function.extra_ns += part.extra_ns;
      ++function.parts;
      if (function.most == nullptr) function.most = &part;
      largest_ns = std::max(largest_ns, function.extra_ns);
    }
    const Function* best = nullptr;
    for (const auto& [name, function] : functions) {
      if (function.extra_ns < kAboutAsMuch * static_cast<double>(largest_ns)) continue;
      if (best == nullptr || function.parts > best->parts ||
          (function.parts == best->parts && function.extra_ns > best->extra_ns)) {
        best = &function;
      }
    }
    return best == nullptr ? nullptr : best->most;
  }

  // One step in N, again and again.
  bool IsStalled() {
    const Stall stall = MeasureStalls(analysis_);
    if (stall.device == nullptr || stall.total_ns < kStallShare * sums_.IdleNs()) return false;
    const StepGrowth* found = PlaceOfStall(stall.device->growth);
    if (found == nullptr) return false;
    const StepGrowth& most = *found;
    // Work that comes in bursts is the input's fault.
    if (*most.cause == Cause::kInputWait || *most.cause == Cause::kRequestWait ||
        *most.cause == Cause::kUnknown) {
      return false;
    }
    for (const StepGrowth& part : stall.device->growth) {
      if (part.cause.has_value()) judged_.push_back(*part.cause);
    }
    const DeviceSteps& steps = *stall.device;
    verdict_.kind = "periodic_stall";
    verdict_.headline = "Periodic stall: the GPU was idle " +
                        PercentText(sums_.IdleNs(), steady_ns_) + " of " + TimeText() + "; " +
                        PercentText(stall.total_ns, sums_.IdleNs()) +
                        " of the idle time in one step of " + std::to_string(steps.slow_period) +
                        ", which does more than the others.";
    verdict_.where = most.where;
    verdict_.evidence = CountText(steps.slow_steps, "slow step") + " of " +
                        std::to_string(steps.count) + " (median " + DurationText(steps.median_ns) +
                        "), each with ";
    for (size_t i = 0; i < steps.growth.size() && i < 3; ++i) {
      const StepGrowth& more = steps.growth[i];
      verdict_.evidence += std::string(i > 0 ? ", " : "") + DurationText(more.extra_ns) +
                           " more of " + (more.cause ? CauseLabel(*more.cause) : "GPU work");
      if (!more.where.empty()) verdict_.evidence += " in " + more.where;
    }
    verdict_.action = AdviceForStall(most);
    verdict_.bound_if = "without these stalls";
    SetBound(stall.total_ns);
    return true;
  }

  void Idle(Cause cause) {
    judged_ = {cause};
    const std::string opening = "the GPU was idle " + PercentText(sums_.IdleNs(), steady_ns_) +
                                " of " + TimeText() + "; for " +
                                PercentText(sums_.Of(cause), sums_.IdleNs()) + " of the idle time ";
    const SiteTotal& site = sums_.TopSite(cause);
    const std::string all = DurationText(sums_.Of(cause));
    const std::string of = DurationText(site.total_ns) == all ? "" : " of " + all;
    verdict_.where = site.where;
    verdict_.evidence = site.where + DetailText(site) + ": " + DurationText(site.total_ns) + of +
                        " in " + CountText(site.count, "gap") + ", the longest " +
                        DurationText(site.longest_ns);
    const CauseTotal* total = sums_.largest[static_cast<size_t>(cause)];
    if (total != nullptr) {
      for (const Meanwhile& group : total->meanwhile) {
        verdict_.meanwhile +=
            (verdict_.meanwhile.empty() ? "meanwhile " : "; ") + MeanwhileText(group);
      }
    }
    const int64_t also_ns = AddTheLinesOther(cause);
    SetBound(sums_.Of(cause) + also_ns);
    Describe(cause, opening);
  }

  // A line of Python runs bytecode and the C functions that it calls (`ord` a million times is a
  // quarter of such a line): one remedy for both, and neither is a second finding. What the other
  // of the two causes has at this line.
  int64_t AddTheLinesOther(Cause cause) {
    if (cause != Cause::kHostPython && cause != Cause::kHostNative) return 0;
    const bool python = cause == Cause::kHostPython;
    const Cause other = python ? Cause::kHostNative : Cause::kHostPython;
    const SiteTotal& there = sums_.TopSite(other);
    if (!IsCode(verdict_.where) || there.where != verdict_.where ||
        there.total_ns < kRunnerUpShare * steady_ns_) {
      return 0;
    }
    judged_.push_back(other);
    verdict_.evidence += "; another " + DurationText(there.total_ns) + " there in " +
                         (python ? "native code that it calls" : "Python");
    return there.total_ns;
  }

  void Say(const char* kind, const char* title, const std::string& opening, const std::string& what,
           const std::string& action) {
    verdict_.kind = kind;
    verdict_.headline = std::string(title) + ": " + opening + what + ".";
    verdict_.action = action;
  }

  void Describe(Cause cause, const std::string& opening) {
    const SiteTotal& site = sums_.TopSite(cause);
    const CauseTotal* total = sums_.largest[static_cast<size_t>(cause)];
    switch (cause) {
      case Cause::kSynchronisation:
        Say("synchronisation", "Synchronisation", opening,
            "the host had waited for the GPU and had nothing queued",
            AdviceForSync(timeline_, site));
        return AddCallsOf(site);
      case Cause::kBlockingApi:
        return BlockingApi(opening, site);
      case Cause::kLaunchBound:
        Say("launch_bound", "Launch-bound", opening,
            "the host was submitting back to back and could not keep up",
            "CUDA graphs (torch.compile(mode=\"reduce-overhead\")), fused kernels or a larger "
            "batch");
        return AddKernels(true);
      case Cause::kPageableCopy:
        Say("pageable_copy", "Pageable or synchronous copies", opening,
            "the host was inside or behind a copy that blocks it", AdviceForPageableCopy(site));
        return AddCallsOf(site);
      case Cause::kDependency:
        return Say("dependency", "Dependency", opening,
                   "the next operation was queued and waited for another stream",
                   "give the stream other work meanwhile, or let it wait for less: an event behind "
                   "the one kernel that it needs, both kernels on one stream (`probe-report gaps "
                   "--explain 1` walks through the longest)");
      case Cause::kLaunchLatency:
        // Few enough nanoseconds each, but of every kernel: the remedy is that of launch-bound.
        Say("launch_bound", "Launch latency", opening,
            "work was queued and the GPU was between two operations",
            "fewer, larger kernels: fuse them, use CUDA graphs or a larger batch");
        return AddKernels(false);
      case Cause::kProfiler:
        return Say("profiler", "Profiler", opening, "the recording itself held the work up",
                   "do not read this as the application's idle time; record less (graph level "
                   "instead of node level, fewer record kinds)");
      case Cause::kOtherProcess:
        return Say(
            "other_process", "Other process", opening, "another traced process held the GPU",
            "give each process a GPU of its own, or share it through MPS; held by " + site.where);
      case Cause::kHost:
        return Say("host", "Host-bound", opening,
                   "the submitting thread was outside CUDA (Python, native code or data loading)",
                   AdviceForUnsampled(timeline_));
      case Cause::kInputWait:
        return InputWait(opening, total);
      case Cause::kRequestWait:
        return Say(
            "request_wait", "Waiting for requests", opening,
            "the feeding thread waited for work from outside, and nobody in the job was busy",
            "send it more, or give it less of a GPU");
      case Cause::kHostPython:
        if (const std::string* why = UnreadPython(timeline_, site)) {
          return Say("host_python", "Python-bound", opening,
                     "the feeding thread ran Python whose lines could not be read",
                     AdviceForUnreadPython(*why));
        }
        return Say("host_python", "Python-bound", opening, "the feeding thread ran Python",
                   AdviceForHost(site));
      case Cause::kHostNative:
        if (Mentions(site, "asleep")) {
          return Say(
              "host_native", "Host-bound, asleep", opening, "the feeding thread slept",
              "remove the sleep" + AtCode(site) + ", or move it off the thread that feeds the GPU");
        }
        if (Mentions(site, kForFileLock)) {
          return Say("host_native", "Host-bound, waiting for a file lock", opening,
                     "the feeding thread waited for the lock of a file (" + site.detail + ")",
                     "let whoever holds it do so for less time, or give each process a file of its "
                     "own");
        }
        if (Mentions(site, "waiting for a lock")) {
          return Say("host_native", "Host-bound, waiting for a lock", opening,
                     "the feeding thread waited for a lock, as far as can be told",
                     "let whoever holds it do so for less time, or take it" + AtCode(site) +
                         " off the thread that feeds the GPU");
        }
        if (const std::string* why = UnreadPython(timeline_, site)) {
          return Say("host_native", "Host-bound", opening,
                     "the feeding thread was outside CUDA, in Python whose lines could not be read "
                     "or in native code that it calls",
                     AdviceForUnreadPython(*why));
        }
        return Say("host_native", "Host-bound, native code", opening,
                   "the feeding thread was in native code outside CUDA", AdviceForHost(site));
      case Cause::kGilWait:
        return Say("gil_wait", "Interpreter lock", opening,
                   "the feeding thread waited for Python's interpreter lock (GIL)",
                   AdviceForGil(total));
      case Cause::kCpuStarved:
        return Say("cpu_starved", "Short of CPUs", opening,
                   "the feeding thread was ready to run and had no CPU",
                   AdviceForStarved(timeline_, total, Helpers(total)));
      case Cause::kStart:
      case Cause::kEnd:
      case Cause::kUnknown:
        break;
    }
    verdict_.upper_bound_speedup = 1;  // of what is not known nothing can be promised
    Say("not_enough_data", "Not enough data", opening, "no cause can be shown",
        AdviceForUnknown(timeline_, site));
  }

  void InputWait(const std::string& opening, const CauseTotal* total) {
    const Meanwhile* helpers = Helpers(total);
    if (helpers != nullptr && AreStarved(*helpers)) {
      // More CPUs help both.
      const int64_t own_ns = sums_.Of(Cause::kCpuStarved);
      judged_.push_back(Cause::kCpuStarved);
      SetBound(sums_.Of(Cause::kInputWait) + own_ns);
      if (own_ns >= kRunnerUpShare * steady_ns_) {
        verdict_.evidence +=
            "; for another " + DurationText(own_ns) + " that thread had no CPU itself";
      }
      return Say(
          "cpu_starved", "Short of CPUs", opening,
          "it waited for data (input wait), because those who make it stood in line for a CPU",
          AdviceForStarved(timeline_, total, helpers));
    }
    if (helpers == nullptr && Mentions(sums_.TopSite(Cause::kInputWait), kFeederUnseen)) {
      return Say("input_wait", "Input-bound", opening,
                 "it waited for another thread or process, and none was seen at work",
                 "look at who hands over there: it sleeps, or waits itself");
    }
    Say("input_wait", "Input-bound", opening, "it waited for data", AdviceForInput(total));
  }

  void BlockingApi(const std::string& opening, const SiteTotal& site) {
    if (LoadingEarlyNs() * 2 > sums_.Of(Cause::kBlockingApi)) {
      Say("warmup", "Warm-up", opening, "the host was loading kernels, at the beginning",
          "leave the warm-up out (--from), or record longer; if it matters, load early "
          "(CUDA_MODULE_LOADING=EAGER) or keep the process");
    } else {
      Say("blocking_api", "Blocking API", opening, "the host was inside CUDA calls that block it",
          AdviceForBlockingApi(timeline_, site));
    }
    // No counts: the waits leave out those of these calls in which the GPU was idle all along.
  }

  // Totals of the site's call among the waits: of its rows at that line, or of that thread.
  void AddCallsOf(const SiteTotal& site) {
    const std::string api = ApiOf(timeline_, site);
    uint64_t count = 0;
    int64_t blocked_ns = 0, busy_ns = 0;
    for (const WaitRow& row : analysis_.waits) {
      if (row.api != api || !IsRowOf(row, site)) continue;
      count += row.count;
      blocked_ns += row.total_ns;
      busy_ns += row.device_busy_ns;
    }
    if (count == 0) return;
    const bool has_line = !site.detail.empty();
    const double seconds = static_cast<double>(sums_.longest_span_ns) / 1e9;
    verdict_.evidence += "; " + CountText(count, "call") + (has_line ? " of " + api : "") + " (" +
                         RateText(static_cast<double>(count) / seconds) + " a second)" +
                         " blocked " + DurationText(blocked_ns) + ", the GPU busy for " +
                         DurationText(busy_ns) + " of it";
  }

  void AddKernels(bool with_rate) {
    verdict_.evidence += "; " + CountText(sums_.kernels, "kernel") + " of " +
                         DurationText(MeanKernelNs()) + " on average";
    if (!with_rate) return;
    verdict_.evidence +=
        ", an operation every " + DurationText(steady_ns_ / static_cast<int64_t>(sums_.ops));
  }

  // Of the idle time behind blocking calls: loading of modules and kernels, in the first quarter.
  int64_t LoadingEarlyNs() const {
    if (evidence_ != nullptr) return evidence_->loading_early_ns;
    int64_t total_ns = 0;
    for (const DeviceReport& device : analysis_.devices) {
      const int64_t early_ns = device.window.start_ns + device.window.span() / 4;
      for (const GapPart& part : device.parts) {
        if (part.begin_ns >= early_ns) break;
        if (IsLoading(timeline_, part)) total_ns += part.end_ns - part.begin_ns;
      }
    }
    return total_ns;
  }

  int64_t MeanKernelNs() const {
    return sums_.kernels == 0 ? 0 : sums_.kernel_ns / static_cast<int64_t>(sums_.kernels);
  }

  const Timeline& timeline_;
  const Analysis& analysis_;
  const RunEvidence* evidence_;
  const JudgedPart part_;
  const Sums sums_;
  const int64_t steady_ns_;
  bool more_is_unknown_ = false;  // than the finding has
  std::vector<Cause> judged_;     // what the verdict speaks of: no runner-up
  Verdict verdict_;
};

}  // namespace

Verdict Judge(const Timeline& timeline, const Analysis& analysis, JudgedPart part) {
  return Judgement(timeline, analysis, nullptr, part).Run();
}

Verdict Judge(const Timeline& timeline, const Analysis& analysis, const RunEvidence& evidence,
              JudgedPart part) {
  return Judgement(timeline, analysis, &evidence, part).Run();
}

}  // namespace gpuprobe::tools

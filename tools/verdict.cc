// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

namespace gpuprobe::tools {
namespace {

// All devices together.
struct Sums {
  int64_t span_ns = 0, longest_span_ns = 0, busy_ns = 0, idle_ns = 0;
  int64_t compute_ns = 0, communication_ns = 0, copy_ns = 0;
  uint64_t ops = 0, untimed = 0, kernels = 0, gaps = 0;
  int64_t kernel_ns = 0;
  std::array<int64_t, kCauseCount> cause_ns{};
  std::array<SiteTotal, kCauseCount> top_site;  // the largest of any device
};

int64_t& Of(Sums& sums, Cause cause) { return sums.cause_ns[static_cast<size_t>(cause)]; }
int64_t Of(const Sums& sums, Cause cause) { return sums.cause_ns[static_cast<size_t>(cause)]; }

Sums SumUp(const Analysis& analysis) {
  Sums sums;
  for (const DeviceReport& device : analysis.devices) {
    sums.span_ns += device.window.span();
    sums.longest_span_ns = std::max(sums.longest_span_ns, device.window.span());
    sums.busy_ns += device.busy_ns;
    sums.idle_ns += device.idle_ns;
    sums.compute_ns += device.compute_ns;
    sums.communication_ns += device.communication_ns;
    sums.copy_ns += device.copy_ns;
    sums.ops += device.ops;
    sums.untimed += device.untimed;
    sums.kernels += device.kernels.count;
    sums.kernel_ns += device.kernels.sum_ns;
    sums.gaps += device.gaps.size();
    for (const CauseTotal& cause : device.causes) {
      Of(sums, cause.cause) += cause.total_ns;
      SiteTotal& top = sums.top_site[static_cast<size_t>(cause.cause)];
      if (!cause.sites.empty() && cause.sites.front().total_ns > top.total_ns) {
        top = cause.sites.front();
      }
    }
  }
  return sums;
}

std::string Format(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string Percent(double part, double whole) {
  const double percent = whole > 0 ? 100.0 * part / whole : 0.0;
  return percent > 0 && percent < 9.95 ? Format("%.1f %%", percent) : Format("%.0f %%", percent);
}

std::string Count(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

class Judgement {
 public:
  Judgement(const Timeline& timeline, const Analysis& analysis)
      : timeline_(timeline),
        analysis_(analysis),
        sums_(SumUp(analysis)),
        // What lies outside the steady part, because the user asked for more, says nothing about
        // it.
        steady_ns_(sums_.span_ns - Of(sums_, Cause::kStart) - Of(sums_, Cause::kEnd)) {}

  Verdict Run() {
    if (sums_.ops == 0) return NoWork();
    if (sums_.longest_span_ns < kEnoughNs || sums_.ops < kEnoughOps) return TooLittle();
    const Cause cause = LargestCause(Cause::kStart);
    const int64_t cause_ns = Of(sums_, cause);
    if (sums_.communication_ns >= kCommunicationShare * steady_ns_ &&
        sums_.communication_ns > cause_ns) {
      Communication();
    } else if (sums_.busy_ns >= kGpuBoundShare * steady_ns_) {
      GpuBound();
    } else {
      Idle(cause);
    }
    const Cause next = LargestCause(judged_);
    if (Of(sums_, next) >= kRunnerUpShare * steady_ns_ && Of(sums_, next) > 0) {
      // Without the thread: the line has to fit beside the bound, and the tables tell it.
      const std::string& where = TopSite(next).where;
      verdict_.runner_up = "next is " + std::string(CauseLabel(next)) + ", " +
                           Percent(Of(sums_, next), steady_ns_) + " (" +
                           where.substr(0, where.find(" (thread ")) + ")";
    }
    return verdict_;
  }

 private:
  Verdict NoWork() {
    if (sums_.untimed > 0) {
      verdict_.kind = "not_enough_data";
      verdict_.headline = "Not enough data: " + Count(sums_.untimed, "GPU operation") +
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
    verdict_.headline = "Not enough data: " + Count(sums_.ops, "GPU operation") + " in " +
                        DurationText(sums_.longest_span_ns) + "; a verdict needs " +
                        std::to_string(kEnoughOps) + " in " + DurationText(kEnoughNs) + ".";
    return verdict_;
  }

  // Start and end are the user's choice of window, not a finding; `but` is left out too.
  Cause LargestCause(Cause but) const {
    Cause best = Cause::kUnknown;
    int64_t best_ns = -1;
    for (int c = 0; c < kCauseCount; ++c) {
      const Cause cause = static_cast<Cause>(c);
      if (cause == but || cause == Cause::kStart || cause == Cause::kEnd) continue;
      if (Of(sums_, cause) > best_ns) {
        best = cause;
        best_ns = Of(sums_, cause);
      }
    }
    return best;
  }

  const SiteTotal& TopSite(Cause cause) const { return sums_.top_site[static_cast<size_t>(cause)]; }

  // "1.27 s", "2 x 3.20 s" for several devices.
  std::string TimeText() const {
    const size_t devices = analysis_.devices.size();
    return devices > 1 ? Format("%zu x ", devices) +
                             DurationText(steady_ns_ / static_cast<int64_t>(devices))
                       : DurationText(steady_ns_);
  }

  void SetBound(int64_t saved_ns) {
    const int64_t left_ns = std::max<int64_t>(steady_ns_ - saved_ns, 1);
    verdict_.upper_bound_speedup = static_cast<double>(steady_ns_) / static_cast<double>(left_ns);
  }

  void GpuBound() {
    const int64_t idle_ns = steady_ns_ - sums_.busy_ns;
    verdict_.kind = "gpu_bound";
    verdict_.headline = "GPU-bound: the GPU was busy " + Percent(sums_.busy_ns, steady_ns_) +
                        " of " + TimeText() + "; handing it work faster cannot gain more than " +
                        Percent(idle_ns, steady_ns_) + ".";
    verdict_.evidence = "compute " + Percent(sums_.compute_ns, steady_ns_) + ", communication " +
                        Percent(sums_.communication_ns, steady_ns_) + ", copies " +
                        Percent(sums_.copy_ns, steady_ns_) + "; " + Count(sums_.kernels, "kernel") +
                        " of " + DurationText(MeanKernelNs()) + " on average";
    if (sums_.copy_ns > sums_.compute_ns) {
      verdict_.action =
          "copies take longer than kernels and overlap with none: move less, or on a stream "
          "of their own while kernels run (`probe-report copies`)";
    }
    SetBound(idle_ns);
  }

  void Communication() {
    verdict_.kind = "communication";
    verdict_.headline = "Communication-bound: for " + Percent(sums_.communication_ns, steady_ns_) +
                        " of " + TimeText() +
                        " collectives ran and nothing else (waiting for other ranks included).";
    verdict_.evidence = "compute " + Percent(sums_.compute_ns, steady_ns_) + ", idle " +
                        Percent(steady_ns_ - sums_.busy_ns, steady_ns_);
    verdict_.action =
        "overlap collectives with compute, send less, or find the rank that comes late";
    SetBound(sums_.communication_ns);
  }

  void Idle(Cause cause) {
    judged_ = cause;
    const int64_t idle_ns = steady_ns_ - sums_.busy_ns;
    const std::string opening = "the GPU was idle " + Percent(idle_ns, steady_ns_) + " of " +
                                TimeText() + "; for " + Percent(Of(sums_, cause), idle_ns) +
                                " of that ";
    const SiteTotal& site = TopSite(cause);
    const std::string of =
        site.total_ns < Of(sums_, cause) ? " of " + DurationText(Of(sums_, cause)) : "";
    verdict_.evidence = site.where + ": " + DurationText(site.total_ns) + of + " in " +
                        Count(site.count, "gap") + ", the longest " + DurationText(site.longest_ns);
    SetBound(Of(sums_, cause));
    Describe(cause, opening);
  }

  void Say(const char* kind, const char* title, const std::string& opening, const std::string& what,
           const std::string& action) {
    verdict_.kind = kind;
    verdict_.headline = std::string(title) + ": " + opening + what + ".";
    verdict_.action = action;
  }

  void Describe(Cause cause, const std::string& opening) {
    switch (cause) {
      case Cause::kSynchronisation:
        return Synchronisation(opening);
      case Cause::kBlockingApi:
        return BlockingApi(opening);
      case Cause::kLaunchBound:
        return LaunchBound(opening);
      case Cause::kPageableCopy:
        return PageableCopy(opening);
      case Cause::kDependency:
        return Say("dependency", "Dependency", opening,
                   "the next operation was queued and waited for another stream",
                   "look at what the stream waited for: " + TopSite(cause).where);
      case Cause::kLaunchLatency:
        return LaunchLatency(opening);
      case Cause::kProfiler:
        return Say("profiler", "Profiler", opening, "the recording itself held the work up",
                   "do not read this as the application's idle time; record less (graph level "
                   "instead of node level, fewer record kinds)");
      case Cause::kOtherProcess:
        return Say("other_process", "Other process", opening, "another traced process held the GPU",
                   "give each process a GPU of its own, or share it through MPS; held by " +
                       TopSite(cause).where);
      case Cause::kHost:
        return Say(
            "host", "Host-bound", opening,
            "the submitting thread was outside CUDA (Python, native code or data loading)",
            "find out what the thread does meanwhile (`probe-report gaps` lists the longest)");
      case Cause::kStart:
      case Cause::kEnd:
      case Cause::kUnknown:
        break;
    }
    Say("not_enough_data", "Not enough data", opening, "no cause can be shown", "");
  }

  // The api of a cause's largest site, and its row totals among the waits.
  std::string ApiOf(const SiteTotal& site) const {
    if (site.example_call < 0) return "";
    const int32_t symbol = timeline_.calls[site.example_call].symbol;
    return symbol < 0 ? "" : timeline_.symbols[symbol].name;
  }

  void AddCallsOf(const std::string& api) {
    uint64_t count = 0;
    int64_t blocked_ns = 0, busy_ns = 0;
    for (const WaitRow& row : analysis_.waits) {
      if (row.api != api) continue;
      count += row.count;
      blocked_ns += row.total_ns;
      busy_ns += row.device_busy_ns;
    }
    if (count == 0) return;
    const double seconds = static_cast<double>(sums_.longest_span_ns) / 1e9;
    verdict_.evidence += "; " + Count(count, "call") + Format(" (%.3g a second)", count / seconds) +
                         " blocked " + DurationText(blocked_ns) + ", the GPU busy for " +
                         DurationText(busy_ns) + " of it";
  }

  void Synchronisation(const std::string& opening) {
    const std::string api = ApiOf(TopSite(Cause::kSynchronisation));
    Say("synchronisation", "Synchronisation", opening,
        "the host had waited for the GPU and had nothing queued",
        "call " + api +
            " less often: keep results on the GPU, read them every N steps, or wait for "
            "an event of the step before");
    AddCallsOf(api);
  }

  void PageableCopy(const std::string& opening) {
    const SiteTotal& site = TopSite(Cause::kPageableCopy);
    const bool to_host = site.where.find("DtoH") != std::string::npos;
    Say("pageable_copy", "Pageable or synchronous copies", opening,
        "the host was inside or behind a copy that blocks it",
        to_host
            ? "reading results back is a wait: keep them on the GPU, read them less often, or copy "
              "to pinned memory and wait later"
            : "use pinned memory and asynchronous copies (pin_memory=True and non_blocking=True in "
              "PyTorch)");
    AddCallsOf(ApiOf(site));
  }

  void LaunchBound(const std::string& opening) {
    Say("launch_bound", "Launch-bound", opening,
        "the host was submitting back to back and could not keep up",
        "CUDA graphs (torch.compile(mode=\"reduce-overhead\")), fused kernels or a larger batch");
    verdict_.evidence += "; " + Count(sums_.kernels, "kernel") + " of " +
                         DurationText(MeanKernelNs()) + " on average, an operation every " +
                         DurationText(steady_ns_ / static_cast<int64_t>(sums_.ops));
  }

  // Few enough nanoseconds each, but of every kernel: the remedy is that of launch-bound.
  void LaunchLatency(const std::string& opening) {
    Say("launch_bound", "Launch latency", opening,
        "work was queued and the GPU was between two operations",
        "fewer, larger kernels: fuse them, use CUDA graphs or a larger batch");
    verdict_.evidence += "; " + Count(sums_.kernels, "kernel") + " of " +
                         DurationText(MeanKernelNs()) + " on average";
  }

  void BlockingApi(const std::string& opening) {
    const SiteTotal& site = TopSite(Cause::kBlockingApi);
    if (LoadingEarlyNs() * 2 > Of(sums_, Cause::kBlockingApi)) {
      Say("warmup", "Warm-up", opening, "the host was loading kernels, at the beginning",
          "leave the warm-up out (--from), or record longer; if it matters, load early "
          "(CUDA_MODULE_LOADING=EAGER) or keep the process");
    } else {
      Say("blocking_api", "Blocking API", opening, "the host was inside CUDA calls that block it",
          AdviceForApi(site));
    }
    AddCallsOf(ApiOf(site));
  }

  std::string AdviceForApi(const SiteTotal& site) const {
    if (site.example_call < 0) return "";
    const int32_t symbol = timeline_.calls[site.example_call].symbol;
    if (symbol < 0) return "";
    const ApiSymbol& api = timeline_.symbols[symbol];
    switch (api.call_class) {
      case CallClass::kAlloc:
      case CallClass::kFree:
        return "keep device memory instead of calling " + api.name +
               " in the loop: a caching allocator, or buffers allocated once";
      case CallClass::kHostMemory:
        return "allocate and register host memory once, not in the loop (" + api.name + ")";
      case CallClass::kGraph:
        return "build graphs once and update them, instead of " + api.name + " in the loop";
      case CallClass::kModule:
        return "load modules before the loop (" + api.name + ")";
      case CallClass::kContext:
        return "create and destroy once, not in the loop (" + api.name + ")";
      case CallClass::kLaunch:
        return "find what holds launches up for a millisecond and more: too few CPU cores for the "
               "threads, a lock of the driver's, kernels loaded lazily";
      default:
        return "";
    }
  }

  // Of the idle time behind blocking calls: loading of modules and kernels, in the first quarter.
  int64_t LoadingEarlyNs() const {
    int64_t total_ns = 0;
    for (const DeviceReport& device : analysis_.devices) {
      const int64_t early_ns = device.window.start_ns + device.window.span() / 4;
      for (const GapPart& part : device.parts) {
        if (part.begin_ns >= early_ns) break;
        if (part.cause == Cause::kBlockingApi && IsLoading(part)) {
          total_ns += part.end_ns - part.begin_ns;
        }
      }
    }
    return total_ns;
  }

  bool IsLoading(const GapPart& part) const {
    if (part.overhead >= 0) return true;  // the profiler's own are not of this cause
    if (part.call < 0) return false;
    const int32_t symbol = timeline_.calls[part.call].symbol;
    if (symbol < 0) return false;
    const CallClass c = timeline_.symbols[symbol].call_class;
    // A launch is of this cause only where it was held up.
    return c == CallClass::kModule || c == CallClass::kLaunch;
  }

  int64_t MeanKernelNs() const {
    return sums_.kernels == 0 ? 0 : sums_.kernel_ns / static_cast<int64_t>(sums_.kernels);
  }

  const Timeline& timeline_;
  const Analysis& analysis_;
  const Sums sums_;
  const int64_t steady_ns_;
  Cause judged_ = Cause::kStart;  // left out of the runner-up
  Verdict verdict_;
};

}  // namespace

std::string DurationText(int64_t ns) {
  static constexpr struct {
    double ns;
    const char* unit;
  } kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  for (const auto& unit : kUnits) {
    const double value = static_cast<double>(ns) / unit.ns;
    // 999.5 of the smaller unit would be printed with four digits.
    if (value < 0.9995 && unit.ns > 1) continue;
    const int decimals = unit.ns == 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return Format("%.*f %s", decimals, value, unit.unit);
  }
  return "";
}

Verdict Judge(const Timeline& timeline, const Analysis& analysis) {
  return Judgement(timeline, analysis).Run();
}

}  // namespace gpuprobe::tools

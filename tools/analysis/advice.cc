// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/advice.h"

#include <algorithm>

#include "tools/analysis/verdict.h"
#include "tools/attribution/unseen.h"

namespace gpuprobe::tools {
namespace {

const ApiSymbol* ExampleOf(const Timeline& timeline, const SiteTotal& site) {
  if (site.example_call < 0) return nullptr;
  const int32_t symbol = timeline.calls[static_cast<size_t>(site.example_call)].symbol;
  return symbol < 0 ? nullptr : &timeline.symbols[static_cast<size_t>(symbol)];
}

// A line may make several calls (the first convolution allocates, frees and launches), and the
// first of them is the example: the one that the site's detail names has most of its time.
const ApiSymbol* SymbolOf(const Timeline& timeline, const SiteTotal& site) {
  const std::string named = site.detail.substr(0, site.detail.find_first_of(", "));
  for (const ApiSymbol& symbol : timeline.symbols) {
    if (!named.empty() && symbol.name == named) return &symbol;
  }
  return ExampleOf(timeline, site);
}

// The line that helpers were busy in (or blocked in); nullptr: not seen.
const Meanwhile::Site* SiteOf(const Meanwhile& helpers, bool on_cpu) {
  for (const Meanwhile::Site& site : helpers.sites) {
    if (site.on_cpu == on_cpu) return &site;
  }
  return nullptr;
}

bool IsImported(const Timeline& timeline) {
  return std::any_of(timeline.processes.begin(), timeline.processes.end(),
                     [](const Process& p) { return p.source != SourceKind::kGpuprobe; });
}

std::string CpusText(uint32_t count) {
  return count == 1 ? "1 CPU" : std::to_string(count) + " CPUs";
}

bool IsWrite(const SiteTotal& site) {
  for (const char* word : {"fsync", "write", "save", "serialization", "dump"}) {
    if (Mentions(site, word)) return true;
  }
  return false;
}

}  // namespace

std::string ApiOf(const Timeline& timeline, const SiteTotal& site) {
  const ApiSymbol* symbol = SymbolOf(timeline, site);
  return symbol == nullptr ? "" : symbol->name;
}

const Meanwhile* Helpers(const CauseTotal* cause) {
  if (cause == nullptr) return nullptr;
  const Meanwhile* most = nullptr;
  for (const Meanwhile& group : cause->meanwhile) {
    if (group.thread_count > 0 && (most == nullptr || group.thread_count > most->thread_count)) {
      most = &group;
    }
  }
  return most;
}

bool AreStarved(const Meanwhile& helpers) { return helpers.runnable >= kStarvedShare; }

std::string AdviceForInput(const CauseTotal* cause) {
  const Meanwhile* helpers = Helpers(cause);
  if (helpers == nullptr) return "";
  const auto count = static_cast<uint32_t>(helpers->thread_count);
  if (helpers->on_cpu + helpers->runnable < kBusyShare) {
    const Meanwhile::Site* site = SiteOf(*helpers, false);
    if (site != nullptr && site->file_lock) {
      return "the helpers waited in " + site->where +
             " for the lock of a file: hold it for less time, or give each a file of its own";
    }
    return "the helpers were blocked themselves" + (site == nullptr ? "" : " in " + site->where) +
           ": more of them, prefetching, or faster storage behind it";
  }
  const Meanwhile::Site* site = SiteOf(*helpers, true);
  const std::string cheaper = site == nullptr ? "" : "make " + site->where + " cheaper";
  if (helpers->allowed_cpus > count) {
    return "raise num_workers (" + std::to_string(count) + " of " +
           CpusText(helpers->allowed_cpus) + " used)" + (cheaper.empty() ? "" : " or " + cheaper);
  }
  if (helpers->allowed_cpus > 0) {
    const std::string all =
        "all of the " + CpusText(helpers->allowed_cpus) + " that they may use are taken: ";
    return all + (cheaper.empty() ? "the work itself has to get cheaper" : cheaper);
  }
  return cheaper;
}

std::string AdviceForStarved(const Timeline& timeline, const CauseTotal* cause,
                             const Meanwhile* helpers) {
  if (helpers != nullptr && helpers->allowed_cpus > 0) {
    const auto count = static_cast<uint32_t>(helpers->thread_count);
    if (helpers->allowed_cpus < count) {
      return std::to_string(count) + " workers share " + CpusText(helpers->allowed_cpus) +
             ": remove the affinity (taskset, cpuset, container limit) or use fewer workers";
    }
    return "they may use " + CpusText(helpers->allowed_cpus) +
           ": other work takes those; give the job its own";
  }
  if (helpers != nullptr || cause == nullptr) return "";
  uint32_t allowed = 0;
  for (const Process& process : timeline.processes) {
    if (!process.sampled_only) allowed = std::max(allowed, process.allowed_cpus);
  }
  if (allowed == 0) return "give the feeding thread a CPU: fewer threads, or more CPUs for the job";
  return "the job may use " + CpusText(allowed) +
         ": run fewer threads on them, allow more, or move other work off the machine";
}

std::string AdviceForHost(const SiteTotal& site) {
  if (Mentions(site, "torch/utils/data")) {
    return "the main thread loads the data itself: DataLoader(num_workers > 0) moves it into "
           "workers";
  }
  if (Mentions(site, "_single_tensor")) {
    return "the optimiser updates one tensor at a time: foreach=True or fused=True";
  }
  if (IsWrite(site)) return "write in the background, or less often" + AtCode(site);
  if (!IsCode(site.where)) return "";
  return "make " + site.where + " cheaper, or move it off the thread that feeds the GPU";
}

std::string AdviceForUnreadPython(const std::string& why) {
  if (why.starts_with("its memory")) {
    return "let the process read its own memory (process_vm_readv, which a seccomp filter may "
           "forbid): the report then names the line";
  }
  return "record it with CPython 3.9 to 3.15, not free-threaded: the report then names the line";
}

std::string AdviceForUnsampled(const Timeline& timeline) {
  if (!timeline.samples.empty()) {
    return "find out what the thread does meanwhile (`probe-report gaps` lists the longest)";
  }
  return IsImported(timeline)
             ? "find out what the thread does meanwhile: record the run with probe-run, whose "
               "report "
               "names the line"
             : "find out what the thread does meanwhile: record with the host sampler on "
               "(GPUPROBE_SAMPLE_HZ=100), whose report names the line";
}

std::string AdviceForUnknown(const Timeline& timeline, const SiteTotal& site) {
  if (site.where == kNobodyRecorded) {
    return "report on the files of one run at a time, or on a part of the time (--from, --to)";
  }
  if (site.where == kProcessStopped) {
    return "find out who stopped it: a debugger, job control, or a freezer of the container or the "
           "scheduler";
  }
  return IsImported(timeline) ? "record the run with probe-run: this file lacks what would tell "
                                "(`probe-report info`)"
                              : "";
}

std::string AdviceForGil(const CauseTotal* cause) {
  const Meanwhile* holder = Helpers(cause);
  if (holder == nullptr || holder->sites.empty()) return "";
  return "move " + holder->sites.front().where + " (" + holder->who +
         ") into a process of its own: it held the interpreter lock";
}

// Half of the time in one call as long as this is no habit of the loop.
constexpr int64_t kOneLongCallNs = 100'000'000;

std::string AdviceForSync(const Timeline& timeline, const SiteTotal& site) {
  const std::string api = ApiOf(timeline, site);
  const ApiSymbol* example = ExampleOf(timeline, site);
  const bool is_it = example != nullptr && example->name == api;
  const int64_t bytes = is_it ? BytesReadBefore(timeline, site.example_call) : -1;
  if (bytes >= 0 && bytes <= kReadBackBytes) {
    return "read the result" + AtCode(site) + " every N steps, or keep it on the GPU (" +
           CountText(static_cast<uint64_t>(bytes), "byte") + " read back before each wait)";
  }
  if (api == "cudaDeviceSynchronize" || api == "cuCtxSynchronize") {
    return "drop the synchronisation" + AtCode(site) + ", or wait for an event of the step before";
  }
  if (api.empty()) return "";
  return "call " + api + " less often" + AtCode(site) +
         ": keep results on the GPU, read them every N steps, or wait for an event of the step "
         "before";
}

std::string AdviceForBlockingApi(const Timeline& timeline, const SiteTotal& site) {
  if (Mentions(site, "empty_cache")) {
    return "remove empty_cache()" + AtCode(site) +
           ": it hands the memory back that the next step takes again";
  }
  const ApiSymbol* api = SymbolOf(timeline, site);
  if (api == nullptr) return "";
  const std::string call = api->name + AtCode(site);
  if (site.longest_ns >= kOneLongCallNs && site.longest_ns * 2 > site.total_ns) {
    return "the longest of it took " + DurationText(site.longest_ns) + AtCode(site) +
           ", once: a first use (context, libraries, modules); let a warm-up step make it before "
           "the loop, and measure without it";
  }
  switch (api->call_class) {
    case CallClass::kAlloc:
    case CallClass::kFree:
      return "keep device memory instead of calling " + call +
             " in the loop: a caching allocator, or buffers allocated once";
    case CallClass::kHostMemory:
      return "allocate and register host memory once, not in the loop (" + call + ")";
    case CallClass::kGraph:
      return "build graphs once and update them, instead of " + call + " in the loop";
    case CallClass::kModule:
      return "load modules before the loop (" + call + ")";
    case CallClass::kContext:
      return "create and destroy once, not in the loop (" + call + ")";
    case CallClass::kLaunch:
      return "find what holds launches up for a millisecond and more: too few CPU cores for the "
             "threads, a lock of the driver's, kernels loaded lazily";
    default:
      return "";
  }
}

std::string AdviceForPageableCopy(const SiteTotal& site) {
  if (Mentions(site, "DtoH")) {
    return "reading results back" + AtCode(site) +
           " is a wait: keep them on the GPU, read them less often, or copy to pinned memory and "
           "wait later";
  }
  return "use pinned memory and asynchronous copies" + AtCode(site) +
         " (pin_memory=True and non_blocking=True in PyTorch)";
}

std::string AdviceForStall(const StepGrowth& growth) {
  SiteTotal site;
  site.where = growth.where;
  const std::string place = IsCode(growth.where) ? growth.where : "";
  if (IsWrite(site)) {
    return "write in the background (" + place + " on a copy, in another thread), or less often";
  }
  if (place.empty()) return "";
  return "do what " + place + " does less often, or beside the loop";
}

}  // namespace gpuprobe::tools

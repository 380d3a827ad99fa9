// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/meanwhile.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "tools/timeline/interval_set.h"

namespace gpuprobe::tools {
namespace {

// What one thread, or several alike, did. Times in ns of (threads x time).
struct Doing {
  int64_t looked_ns = 0, cpu_ns = 0, runnable_ns = 0;
  uint64_t samples = 0;
  struct Line {
    int64_t ns = 0;
    int64_t awake_ns = 0;  // by looks that found it running or in line for a CPU
    int64_t lock_ns = 0;   // ... that found it waiting for the lock of a file
    void Add(const Line& other) {
      ns += other.ns;
      awake_ns += other.awake_ns;
      lock_ns += other.lock_ns;
    }
  };
  std::map<int32_t, Line> lines;  // by stack node of the site

  void Add(const Doing& other) {
    looked_ns += other.looked_ns;
    cpu_ns += other.cpu_ns;
    runnable_ns += other.runnable_ns;
    samples += other.samples;
    for (const auto& [node, line] : other.lines) lines[node].Add(line);
  }
  double Busy() const {
    return looked_ns == 0
               ? 0
               : static_cast<double>(cpu_ns + runnable_ns) / static_cast<double>(looked_ns);
  }
};

int64_t Share(int64_t part, int64_t of, int64_t whole) {
  return static_cast<int64_t>(static_cast<__int128>(part) * of / whole);
}

// `overlap_ns` of the sample's interval counts.
void AddSample(const HostSample& sample, int64_t overlap_ns, int32_t site, bool file_lock,
               Doing* doing) {
  if (overlap_ns <= 0 || sample.interval_ns <= 0) return;
  const int64_t cpu_ns = std::clamp<int64_t>(sample.cpu_ns, 0, sample.interval_ns);
  const int64_t runnable_ns =
      std::clamp<int64_t>(sample.runnable_ns, 0, sample.interval_ns - cpu_ns);
  doing->looked_ns += overlap_ns;
  doing->cpu_ns += Share(cpu_ns, overlap_ns, sample.interval_ns);
  doing->runnable_ns += Share(runnable_ns, overlap_ns, sample.interval_ns);
  ++doing->samples;
  if (site < 0) return;
  Doing::Line& line = doing->lines[site];
  line.ns += overlap_ns;
  if (sample.state == HostState::kRunning || sample.state == HostState::kUnknown)
    line.awake_ns += overlap_ns;
  if (file_lock) line.lock_ns += overlap_ns;
}

class Observer {
 public:
  Observer(const Timeline& timeline, const HostEvidence& evidence, const Places& places)
      : timeline_(timeline), evidence_(evidence), places_(places) {
    first_.assign(timeline.threads.size() + 1, 0);
    for (const HostSample& sample : timeline.samples) {
      if (sample.thread >= 0) ++first_[sample.thread + 1];
    }
    for (size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
    // Samples are sorted by thread; those of none come first.
    const size_t none = timeline.samples.size() - first_.back();
    for (size_t& first : first_) first += none;
  }

  // The workers of `process` during `when`, and its own busy threads during `own`.
  std::vector<Meanwhile> Helpers(int32_t process, const std::vector<bool>& waiting,
                                 const IntervalSet& when, const IntervalSet& own,
                                 const Window& bounds) const {
    std::vector<Meanwhile> result;
    Meanwhile workers = Workers(process, when, bounds);
    if (workers.thread_count > 0) result.push_back(std::move(workers));
    std::vector<std::pair<int32_t, Doing>> threads;
    for (size_t t = 0; t < timeline_.threads.size(); ++t) {
      if (timeline_.threads[t].process != process || waiting[t]) continue;
      Doing doing = Of(static_cast<int32_t>(t), own, bounds);
      if (doing.Busy() >= kBusyThreadShare)
        threads.emplace_back(static_cast<int32_t>(t), std::move(doing));
    }
    std::stable_sort(threads.begin(), threads.end(), [](const auto& a, const auto& b) {
      return a.second.cpu_ns + a.second.runnable_ns > b.second.cpu_ns + b.second.runnable_ns;
    });
    if (threads.size() > kMostHelpers) threads.resize(kMostHelpers);
    for (const auto& [thread, doing] : threads) {
      result.push_back(Describe(places_.ThreadText(thread), 1, doing));
      result.back().allowed_cpus = timeline_.processes[process].allowed_cpus;
    }
    return result;
  }

  // Who held the GIL, by the samples that waited for it and for how long each stands.
  std::vector<Meanwhile> Holders(const std::vector<GilWait>& waits) const {
    struct Held {
      Doing doing;
      int64_t ns = 0;
    };
    std::map<int32_t, Held> holders;  // by thread
    for (const auto& [sample, ns] : waits) {
      const HostSample& wait = timeline_.samples[sample];
      const int32_t holder = HolderOf(wait);
      if (holder < 0) continue;
      Held& held = holders[holder];
      held.ns += ns;
      const int32_t look = evidence_.samples.NearestPoint(holder, wait.time_ns);
      if (look < 0) continue;
      const HostSample& s = timeline_.samples[look];
      const int32_t site = evidence_.sites.SiteOf(s.stack);
      if (s.interval_ns > 0) {
        AddSample(s, ns, site, false,
                  &held.doing);  // its shares, for the time that it was waited for
      } else {
        ++held.doing.samples;
        if (site >= 0) held.doing.lines[site].ns += ns;
      }
    }
    std::vector<std::pair<int32_t, Held>> order(holders.begin(), holders.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
    if (order.size() > kMostHolders) order.resize(kMostHolders);
    std::vector<Meanwhile> result;
    for (const auto& [thread, held] : order) {
      result.push_back(Describe(places_.ThreadText(thread), 1, held.doing));
    }
    return result;
  }

 private:
  std::span<const HostSample> SamplesOf(int32_t thread) const {
    return std::span(timeline_.samples)
        .subspan(first_[thread], first_[thread + 1] - first_[thread]);
  }

  Doing Of(int32_t thread, const IntervalSet& when, const Window& bounds) const {
    Doing doing;
    const auto samples = SamplesOf(thread);
    auto at = std::partition_point(samples.begin(), samples.end(), [&](const HostSample& s) {
      return s.time_ns <= bounds.start_ns;
    });
    for (; at != samples.end(); ++at) {
      // Intervals do not overlap: from here on they begin later still.
      if (at->time_ns - at->interval_ns >= bounds.end_ns) break;
      const auto index = static_cast<int32_t>(&*at - timeline_.samples.data());
      AddSample(*at, when.Overlap(at->time_ns - at->interval_ns, at->time_ns),
                evidence_.sites.SiteOf(at->stack),
                evidence_.judge.WaitOf(index) == WaitKind::kFileLock, &doing);
    }
    return doing;
  }

  // The main thread of each process below `process`, and their other threads as far as they work.
  Meanwhile Workers(int32_t process, const IntervalSet& when, const Window& bounds) const {
    std::vector<bool> below(timeline_.processes.size(), false);
    for (size_t p = 0; p < below.size(); ++p) {
      below[p] = timeline_.processes[p].sampled_only &&
                 IsBelow(timeline_, static_cast<int32_t>(p), process);
    }
    Doing all;
    int32_t threads = 0;
    std::vector<bool> seen(timeline_.processes.size(), false);
    uint32_t cpus = 0;
    for (size_t t = 0; t < timeline_.threads.size(); ++t) {
      const Thread& thread = timeline_.threads[t];
      if (thread.process < 0 || !below[thread.process]) continue;
      const Doing doing = Of(static_cast<int32_t>(t), when, bounds);
      const Process& worker = timeline_.processes[thread.process];
      const bool main = thread.main || thread.tid == worker.pid;
      if (doing.looked_ns == 0 || (!main && doing.Busy() < kBusyThreadShare)) continue;
      all.Add(doing);
      ++threads;
      seen[thread.process] = true;
      cpus = std::max(cpus, worker.allowed_cpus);
    }
    const auto count = std::count(seen.begin(), seen.end(), true);
    const std::string who = std::to_string(count) + (count == 1 ? " worker" : " workers") +
                            (count == 1 ? " (child of " : " (children of ") +
                            std::to_string(timeline_.processes[process].pid) + ")";
    Meanwhile workers = Describe(who, threads, all);
    workers.allowed_cpus = cpus;
    return workers;
  }

  int32_t HolderOf(const HostSample& wait) const {
    if (wait.gil_holder >= 0) return wait.gil_holder;
    // The thread of the process that was seen holding it nearest to the time.
    const int32_t process = timeline_.threads[wait.thread].process;
    int32_t holder = -1;
    int64_t distance = kSampleReachNs;
    for (size_t t = 0; t < timeline_.threads.size(); ++t) {
      if (timeline_.threads[t].process != process || static_cast<int32_t>(t) == wait.thread)
        continue;
      const int32_t look = evidence_.samples.NearestPoint(static_cast<int32_t>(t), wait.time_ns);
      if (look < 0 || (timeline_.samples[look].flags & kSampleHoldsGil) == 0) continue;
      const int64_t away_ns = std::abs(timeline_.samples[look].time_ns - wait.time_ns);
      if (away_ns >= distance) continue;
      distance = away_ns;
      holder = static_cast<int32_t>(t);
    }
    return holder;
  }

  Meanwhile Describe(std::string who, int32_t threads, const Doing& doing) const {
    Meanwhile result;
    result.who = std::move(who);
    result.thread_count = threads;
    result.samples = doing.samples;
    if (doing.looked_ns > 0) {
      const double looked = static_cast<double>(doing.looked_ns);
      result.on_cpu = static_cast<double>(doing.cpu_ns) / looked;
      result.runnable = static_cast<double>(doing.runnable_ns) / looked;
    }
    std::map<std::string, Doing::Line> by_text;  // nodes of one line on different stacks
    int64_t all_ns = doing.looked_ns;
    int64_t lines_ns = 0;
    for (const auto& [node, line] : doing.lines) {
      by_text[evidence_.sites.TextOf(node)].Add(line);
      lines_ns += line.ns;
    }
    all_ns = std::max(all_ns, lines_ns);
    for (const auto& [where, line] : by_text) {
      result.sites.push_back({where, static_cast<double>(line.ns) / static_cast<double>(all_ns),
                              line.awake_ns * 2 >= line.ns, line.lock_ns * 2 >= line.ns});
    }
    std::stable_sort(result.sites.begin(), result.sites.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    if (result.sites.size() > kMostSites) result.sites.resize(kMostSites);
    return result;
  }

  const Timeline& timeline_;
  const HostEvidence& evidence_;
  const Places& places_;
  std::vector<size_t> first_;  // by thread, in Timeline::samples
};

}  // namespace

void AddMeanwhile(const Timeline& timeline, const HostEvidence& evidence, const Places& places,
                  const std::vector<GilWait>& gil_waits, DeviceReport* report) {
  if (timeline.samples.empty()) return;
  struct Times {
    IntervalSet when;
    IntervalSet own;            // without waits that no thread of the process ends
    std::vector<bool> waiting;  // by thread
    Window bounds;
  };
  std::map<std::pair<Cause, int32_t>, Times> times;  // by process
  for (const GapPart& part : report->parts) {
    if (part.sample < 0 || part.thread < 0) continue;
    if (part.cause != Cause::kInputWait && part.cause != Cause::kCpuStarved) continue;
    Times& of = times[{part.cause, timeline.threads[part.thread].process}];
    if (of.waiting.empty()) {
      of.waiting.resize(timeline.threads.size(), false);
      of.bounds.start_ns = part.begin_ns;
    }
    of.when.Add(part.begin_ns, part.end_ns);
    if (part.cause != Cause::kInputWait || !evidence.judge.AwaitsProcess(part.sample))
      of.own.Add(part.begin_ns, part.end_ns);
    of.bounds.end_ns = part.end_ns;
    of.waiting[part.thread] = true;
  }
  const Observer observer(timeline, evidence, places);
  for (CauseTotal& cause : report->causes) {
    if (cause.cause == Cause::kGilWait) cause.meanwhile = observer.Holders(gil_waits);
    for (const auto& [key, of] : times) {
      if (key.first != cause.cause || key.second < 0) continue;
      for (Meanwhile& m : observer.Helpers(key.second, of.waiting, of.when, of.own, of.bounds))
        cause.meanwhile.push_back(std::move(m));
    }
  }
}

std::vector<Meanwhile> HelpersDuring(const Timeline& timeline, const HostEvidence& evidence,
                                     const Places& places, int32_t process, int32_t except,
                                     const Window& window) {
  if (timeline.samples.empty() || process < 0) return {};
  IntervalSet when;
  when.Add(window.start_ns, window.end_ns);
  std::vector<bool> waiting(timeline.threads.size(), false);
  if (except >= 0) waiting[except] = true;
  return Observer(timeline, evidence, places).Helpers(process, waiting, when, when, window);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/samples/load_samples.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"
#include "tools/load/samples/late_waits.h"
#include "tools/load/samples/unread_python.h"

namespace gpuprobe::tools {
namespace {

// A look that stands for less than this says as much as those that were folded into it: a sample
// speaks for a second around it (kSampleReachNs).
constexpr int64_t kFoldedReachNs = 500'000'000;

bool IsBlocked(const HostSample& sample) {
  return sample.state == HostState::kBlocked || sample.state == HostState::kBlockedIo;
}

// Did the thread stay where it was?
bool IsAlike(const HostSample& a, const HostSample& b) {
  return IsBlocked(a) && a.state == b.state && a.stack == b.stack && a.syscall == b.syscall &&
         a.wait_target == b.wait_target && a.gil_holder == b.gil_holder &&
         ((a.flags ^ b.flags) & ~kSampleUnchanged) == 0 &&
         a.interval_ns + b.interval_ns <= kFoldedReachNs;
}

// Pieces follow each other within a tick or two of the sampler; less is no interruption.
constexpr int64_t kAdjacentNs = 25'000'000;

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
}

HostState StateOf(uint32_t state) {
  const bool known = state <= static_cast<uint32_t>(HostState::kStopped);
  return known ? static_cast<HostState>(state) : HostState::kUnknown;
}

// Appends a period, or lengthens the last one.
void AddPeriod(const SampledPeriod& period, std::vector<SampledPeriod>* periods) {
  if (!periods->empty() && periods->back().process == period.process &&
      period.begin_ns >= periods->back().begin_ns &&
      period.begin_ns - kAdjacentNs <= periods->back().end_ns) {
    periods->back().end_ns = std::max(periods->back().end_ns, period.end_ns);
  } else {
    periods->push_back(period);
  }
}

void SortPeriods(std::vector<SampledPeriod>* periods) {
  std::stable_sort(
      periods->begin(), periods->end(),
      [](const SampledPeriod& a, const SampledPeriod& b) { return a.begin_ns < b.begin_ns; });
}

bool Inside(const std::vector<SampledPeriod>& sorted, int64_t time_ns) {
  const auto after = std::upper_bound(
      sorted.begin(), sorted.end(), time_ns,
      [](int64_t time, const SampledPeriod& period) { return time < period.begin_ns; });
  return after != sorted.begin() && time_ns <= std::prev(after)->end_ns;
}

// Sorted and without overlap.
std::vector<SampledPeriod> Union(std::vector<SampledPeriod> periods) {
  SortPeriods(&periods);
  std::vector<SampledPeriod> merged;
  for (const SampledPeriod& period : periods) AddPeriod(period, &merged);
  return merged;
}

}  // namespace

int32_t SampleLoader::InternString(const std::string& text) {
  const auto [at, added] =
      strings_.try_emplace(text, static_cast<int32_t>(run_->timeline.strings.size()));
  if (added) run_->timeline.strings.push_back(text);
  return at->second;
}

void SampleLoader::Intern(const HostSamples& piece) {
  Timeline& timeline = run_->timeline;
  ids_ = {};
  for (const std::string& text : piece.strings()) ids_.strings.push_back(InternString(text));
  const auto string = [this](uint32_t id) { return id == 0 ? -1 : ids_.strings[id - 1]; };
  std::vector<int32_t> locations;
  for (const auto& l : tables_.locations) {
    const CodeLocation location = {string(l.function), string(l.file),
                                   static_cast<int32_t>(std::min<uint32_t>(l.line, INT32_MAX)),
                                   l.offset, l.native};
    const auto [at, added] =
        locations_.try_emplace({location.function, location.file, l.line, l.offset, l.native},
                               static_cast<int32_t>(timeline.locations.size()));
    if (added) timeline.locations.push_back(location);
    locations.push_back(at->second);
  }
  for (const auto& n : tables_.nodes) {
    const StackNode node = {n.parent == 0 ? -1 : ids_.nodes[n.parent - 1],
                            n.location == 0 ? -1 : locations[n.location - 1]};
    const auto [at, added] = nodes_.try_emplace({node.parent, node.location},
                                                static_cast<int32_t>(timeline.stacks.size()));
    if (added) timeline.stacks.push_back(node);
    ids_.nodes.push_back(at->second);
  }
}

void SampleLoader::LoadModules(const HostSamples& piece) {
  for (const auto& module : piece.modules()) {
    if (module.file() == 0 || module.file() > ids_.strings.size() || module.build_id().empty()) {
      continue;
    }
    const int32_t file = ids_.strings[module.file() - 1];
    if (modules_.emplace(file, module.build_id()).second) {
      run_->timeline.modules.push_back({file, module.build_id()});
    }
  }
}

size_t SampleLoader::LookedOf(int32_t recorder, uint32_t pid, uint64_t start_ticks) {
  const auto [at, added] = known_.try_emplace({recorder, pid, start_ticks}, looked_.size());
  if (added) {
    Looked looked;
    looked.recorder = recorder;
    looked.pid = pid;
    looked.start_ticks = start_ticks;
    looked_.push_back(std::move(looked));
  }
  current_[{recorder, pid}] = at->second;
  return at->second;
}

// Samples of a process that no SampledProcess has described.
size_t SampleLoader::LookedOf(int32_t recorder, uint32_t pid) {
  const auto at = current_.find({recorder, pid});
  return at != current_.end() ? at->second : LookedOf(recorder, pid, 0);
}

void SampleLoader::LoadProcess(const SampledProcess& info, int32_t recorder) {
  Looked& looked = looked_[LookedOf(recorder, info.pid(), info.start_ticks())];
  looked.parent_pid = info.parent_pid();
  looked.name = info.name();
  looked.command_line = info.command_line();
  if (!info.python_version().empty()) looked.python_version = info.python_version();
  if (info.allowed_cpus() != 0) looked.allowed_cpus = info.allowed_cpus();
  looked.ended |= info.ended();
  for (const std::string& reason : info.unreadable()) {
    auto& all = looked.unreadable;
    if (std::find(all.begin(), all.end(), reason) == all.end()) all.push_back(reason);
  }
}

size_t SampleLoader::ThreadOf(size_t looked, uint32_t tid) {
  const auto [at, added] = thread_of_.try_emplace({looked, tid}, threads_.size());
  if (added) threads_.push_back({looked, tid});
  return at->second;
}

void SampleLoader::LoadThread(const ThreadSamples& thread, const HostSamples& piece,
                              int32_t recorder) {
  proto::Decode(thread, piece, tables_, &columns_);
  const size_t looked = LookedOf(recorder, thread.pid());
  const size_t index = ThreadOf(looked, thread.tid());
  threads_[index].main |= thread.main();
  if (!thread.name().empty()) threads_[index].name = thread.name();
  Span& span = spans_[looked];
  const auto string = [this](uint32_t id) { return id == 0 ? -1 : ids_.strings[id - 1]; };
  for (size_t i = 0; i < columns_.count; ++i) {
    HostSample sample = {};
    sample.time_ns = columns_.time_ns[i];
    sample.interval_ns = columns_.interval_ns[i];
    sample.cpu_ns = columns_.cpu_ns[i];
    sample.runnable_ns = columns_.runnable_ns[i];
    // Nothing of these is negative, so that the difference cannot overflow below.
    if (sample.time_ns < 0 ||
        !budget_->Believable(sample.time_ns - sample.interval_ns, sample.time_ns) ||
        !budget_->Believable(0, sample.cpu_ns) || !budget_->Believable(0, sample.runnable_ns)) {
      ++impossible_;
      continue;
    }
    sample.thread = static_cast<int32_t>(index);
    sample.stack = columns_.stack[i] == 0 ? -1 : ids_.nodes[columns_.stack[i] - 1];
    sample.syscall = columns_.syscall[i];
    sample.wait_target = string(columns_.wait_target[i]);
    if (columns_.gil_holder[i] != 0) {
      sample.gil_holder = static_cast<int32_t>(ThreadOf(looked, columns_.gil_holder[i]));
    }
    sample.state = StateOf(columns_.state[i]);
    sample.flags = static_cast<uint8_t>(columns_.flags[i]);
    samples_.push_back(sample);
    span.begin_ns = std::min(span.begin_ns, sample.time_ns - sample.interval_ns);
    span.end_ns = std::max(span.end_ns, sample.time_ns);
  }
}

void SampleLoader::LoadPeriod(const HostSamples& piece, const std::vector<size_t>& looked) {
  const int64_t begin_ns = TimeBudget::Bounded(piece.begin_ns());
  const int64_t end_ns = TimeBudget::Bounded(piece.end_ns());
  if (begin_ns >= end_ns) return;
  for (size_t index : looked) {
    Looked& process = looked_[index];
    SampledPeriod period = {begin_ns, end_ns, -1};
    // A child may have been born or have died within the piece.
    const auto span = spans_.find(index);
    if (span != spans_.end() && span->second.begin_ns <= span->second.end_ns) {
      if (process.periods.empty()) {
        period.begin_ns = std::max(begin_ns, std::min(span->second.begin_ns, end_ns));
      }
      if (process.ended) period.end_ns = std::min(end_ns, span->second.end_ns);
    }
    if (period.begin_ns < period.end_ns) AddPeriod(period, &process.periods);
  }
}

void SampleLoader::Load(const HostSamples& piece, int32_t recorder) {
  SamplerFacts& facts = run_->captures[static_cast<size_t>(recorder)].sampler;
  facts.known = true;
  facts.cpu_ns = static_cast<int64_t>(std::min<uint64_t>(piece.sampler_cpu_ns(), INT64_MAX));
  facts.looks = piece.looks();
  facts.ticks_missed = piece.ticks_missed();
  facts.samples_dropped = piece.samples_dropped();
  facts.stacks_unreadable = piece.stacks_unreadable();
  proto::Decode(piece, &tables_);
  Intern(piece);
  LoadModules(piece);
  spans_.clear();
  for (const SampledProcess& info : piece.processes()) LoadProcess(info, recorder);
  for (const ThreadSamples& thread : piece.threads()) LoadThread(thread, piece, recorder);
  if (most_samples_ > 0 && samples_.size() > most_samples_) FoldSamples();
  std::set<size_t> looked;
  for (const SampledProcess& info : piece.processes()) {
    looked.insert(LookedOf(recorder, info.pid(), info.start_ticks()));
  }
  for (const auto& [index, span] : spans_) looked.insert(index);
  LoadPeriod(piece, {looked.begin(), looked.end()});
}

// `may_fold(earlier, later)`: of looks of one thread that follow each other without a hole.
template <typename MayFold>
void SampleLoader::FoldIf(MayFold may_fold) {
  std::vector<size_t> last(threads_.size(), SIZE_MAX);  // of each thread, in what is kept
  size_t kept = 0;
  for (const HostSample& sample : samples_) {
    size_t& of_thread = last[static_cast<size_t>(sample.thread)];
    if (of_thread != SIZE_MAX) {
      HostSample& earlier = samples_[of_thread];
      const bool follows = sample.time_ns >= earlier.time_ns && sample.interval_ns > 0 &&
                           sample.time_ns - sample.interval_ns - earlier.time_ns <= kAdjacentNs;
      const bool exact = ((sample.flags | earlier.flags) & kSampleExact) != 0;
      if (follows && !exact && may_fold(earlier, sample)) {
        HostSample folded = sample;
        folded.interval_ns += earlier.interval_ns;
        folded.cpu_ns += earlier.cpu_ns;
        folded.runnable_ns += earlier.runnable_ns;
        earlier = folded;
        continue;
      }
    }
    of_thread = kept;
    samples_[kept++] = sample;
  }
  samples_.resize(kept);
}

void SampleLoader::FoldSamples() {
  size_t before = samples_.size();
  FoldIf(IsAlike);
  folded_alike_ += before - samples_.size();
  for (bool less = true; less && samples_.size() > most_samples_ / 2;) {
    before = samples_.size();
    std::vector<bool> odd(threads_.size(), false);
    FoldIf([&](const HostSample& earlier, const HostSample&) {
      odd[static_cast<size_t>(earlier.thread)].flip();
      return odd[static_cast<size_t>(earlier.thread)];
    });
    folded_others_ += before - samples_.size();
    less = samples_.size() < before;
  }
}

void SampleLoader::Shift(const std::vector<int64_t>& shifts) {
  for (HostSample& sample : samples_) {
    const Looked& looked = looked_[threads_[static_cast<size_t>(sample.thread)].looked];
    sample.time_ns += shifts[static_cast<size_t>(looked.recorder)];
  }
  for (Looked& looked : looked_) {
    for (SampledPeriod& period : looked.periods) {
      period.begin_ns += shifts[static_cast<size_t>(looked.recorder)];
      period.end_ns += shifts[static_cast<size_t>(looked.recorder)];
    }
  }
}

void SampleLoader::Describe(const Looked& looked, Process* process) const {
  if (process->python_version.empty()) process->python_version = looked.python_version;
  if (process->allowed_cpus == 0) process->allowed_cpus = looked.allowed_cpus;
  for (const std::string& reason : looked.unreadable) {
    auto& all = process->unsampled;
    if (std::find(all.begin(), all.end(), reason) == all.end()) all.push_back(reason);
  }
}

void SampleLoader::DecideProcesses() {
  Timeline& timeline = run_->timeline;
  using Identity = std::tuple<std::string, uint32_t, uint64_t>;  // boot, pid, start
  std::map<Identity, int32_t> process_of;
  for (size_t p = 0; p < timeline.processes.size(); ++p) {
    const ProcessCapture& capture = run_->captures[p];
    if (capture.start_ticks == 0) continue;
    process_of.try_emplace({capture.boot_id, timeline.processes[p].pid, capture.start_ticks},
                           static_cast<int32_t>(p));
  }
  for (Looked& looked : looked_) {
    const auto recorder = static_cast<size_t>(looked.recorder);
    const std::string boot_id = run_->captures[recorder].boot_id;
    const uint64_t own_start = run_->captures[recorder].start_ticks;
    const Identity identity = {boot_id, looked.pid, looked.start_ticks};
    const bool itself =
        looked.pid == timeline.processes[recorder].pid &&
        (looked.start_ticks == own_start || looked.start_ticks == 0 || own_start == 0);
    const auto known = process_of.find(identity);
    if (itself) {
      looked.process = looked.recorder;
    } else if (looked.start_ticks != 0 && known != process_of.end()) {
      looked.process = known->second;
    } else {
      Process child;
      child.pid = looked.pid;
      child.host = timeline.processes[recorder].host;
      child.executable = looked.name;
      child.command_line = looked.command_line;
      child.rank = -1;
      child.files = timeline.processes[recorder].files;
      child.sampled_only = true;
      child.ended = looked.ended;
      ProcessCapture capture;
      capture.boot_id = boot_id;
      capture.parent_pid = looked.parent_pid;
      capture.start_ticks = looked.start_ticks;
      timeline.processes.push_back(std::move(child));
      run_->captures.push_back(std::move(capture));
      looked.process = Last(timeline.processes);
      if (looked.start_ticks != 0) process_of[identity] = looked.process;
    }
    Describe(looked, &timeline.processes[static_cast<size_t>(looked.process)]);
  }
}

// A parent is looked for by its pid: among what the same sampler saw, then among the traced
// processes of the same boot. A sampler looks at descendants only, so whoever has no parent here
// descends from the recorder by ways that were not looked at.
void SampleLoader::DecideParents() {
  Timeline& timeline = run_->timeline;
  for (size_t p = 0; p < timeline.processes.size(); ++p) {
    Process& process = timeline.processes[p];
    const ProcessCapture& capture = run_->captures[p];
    if (process.sampled_only || capture.parent_pid == 0) continue;
    for (size_t q = 0; q < timeline.processes.size() && !timeline.processes[q].sampled_only; ++q) {
      const bool parent = q != p && run_->captures[q].boot_id == capture.boot_id &&
                          timeline.processes[q].pid == capture.parent_pid;
      if (parent) process.parent = static_cast<int32_t>(q);
    }
  }
  for (const Looked& looked : looked_) {
    Process& process = timeline.processes[static_cast<size_t>(looked.process)];
    if (process.parent >= 0 || looked.process == looked.recorder) continue;
    const auto parent = current_.find({looked.recorder, looked.parent_pid});
    process.parent = parent == current_.end() ? looked.recorder : looked_[parent->second].process;
    if (process.parent == looked.process) process.parent = looked.recorder;
  }
}

// Pids are reused, and files may claim anything: nobody is his own ancestor.
void SampleLoader::BreakParentCycles() {
  std::vector<Process>& processes = run_->timeline.processes;
  std::vector<size_t> visit(processes.size(), 0);  // the walk that came by; 0: none
  for (size_t p = 0; p < processes.size(); ++p) {
    for (size_t at = p; visit[at] == 0;) {
      visit[at] = p + 1;
      int32_t& parent = processes[at].parent;
      if (parent >= 0 && visit[static_cast<size_t>(parent)] == p + 1) parent = -1;
      if (parent < 0) break;
      at = static_cast<size_t>(parent);
    }
  }
}

void SampleLoader::DecideThreads() {
  Timeline& timeline = run_->timeline;
  std::map<std::pair<int32_t, uint32_t>, int32_t> thread_of;
  for (size_t t = 0; t < timeline.threads.size(); ++t) {
    thread_of[{timeline.threads[t].process, timeline.threads[t].tid}] = static_cast<int32_t>(t);
  }
  for (LookedThread& looked : threads_) {
    const int32_t process = looked_[looked.looked].process;
    const auto [at, added] =
        thread_of.try_emplace({process, looked.tid}, static_cast<int32_t>(timeline.threads.size()));
    if (added) {
      const bool main = looked.tid == timeline.processes[static_cast<size_t>(process)].pid;
      timeline.threads.push_back({process, looked.tid, "", main});
    }
    Thread& thread = timeline.threads[static_cast<size_t>(at->second)];
    if (thread.name.empty()) thread.name = looked.name;
    thread.main |= looked.main;
    looked.thread = at->second;
  }
}

// 0 is the nearest.
int SampleLoader::Nearness(const Looked& looked) const {
  if (looked.process == looked.recorder) return 0;
  const Process& process = run_->timeline.processes[static_cast<size_t>(looked.process)];
  return process.parent == looked.recorder ? 1 : 2;
}

void SampleLoader::DropDuplicates() {
  std::map<int32_t, std::vector<size_t>> views;  // process -> looked_
  for (size_t i = 0; i < looked_.size(); ++i) views[looked_[i].process].push_back(i);
  std::vector<std::vector<SampledPeriod>> better(looked_.size());  // when a nearer one looked
  bool any = false;
  for (auto& [process, of_process] : views) {
    if (of_process.size() < 2) continue;
    std::stable_sort(of_process.begin(), of_process.end(), [this](size_t a, size_t b) {
      return Nearness(looked_[a]) < Nearness(looked_[b]);
    });
    std::vector<SampledPeriod> seen;
    for (size_t index : of_process) {
      // What the same sampler saw before the process had a description is its own view, too.
      if (looked_[index].recorder != looked_[of_process.front()].recorder) {
        better[index] = seen;
        any = true;
      }
      seen.insert(seen.end(), looked_[index].periods.begin(), looked_[index].periods.end());
      seen = Union(std::move(seen));
    }
  }
  if (!any) return;
  const auto drop = [&](const HostSample& sample) {
    const size_t looked = threads_[static_cast<size_t>(sample.thread)].looked;
    return Inside(better[looked], sample.time_ns);
  };
  duplicates_ = std::erase_if(samples_, drop);
}

void SampleLoader::AddPeriods() {
  Timeline& timeline = run_->timeline;
  std::map<int32_t, std::vector<SampledPeriod>> of_process;
  for (const Looked& looked : looked_) {
    for (SampledPeriod period : looked.periods) {
      period.process = looked.process;
      of_process[looked.process].push_back(period);
    }
  }
  for (auto& [index, periods] : of_process) {
    const std::vector<SampledPeriod> merged = Union(std::move(periods));
    Process& process = timeline.processes[static_cast<size_t>(index)];
    if (process.sampled_only) {
      process.capture_begin_ns = merged.front().begin_ns;
      process.capture_end_ns = merged.back().end_ns;
    }
    timeline.sampled.insert(timeline.sampled.end(), merged.begin(), merged.end());
  }
  SortPeriods(&timeline.sampled);
}

// By thread, and then by time: pieces hold the samples of each thread in order of time, so that
// putting the threads apart is nearly all there is to do.
void SampleLoader::SortSamples() {
  std::vector<size_t> begin(run_->timeline.threads.size() + 1, 0);
  for (const HostSample& sample : samples_) ++begin[static_cast<size_t>(sample.thread) + 1];
  for (size_t t = 1; t < begin.size(); ++t) begin[t] += begin[t - 1];
  std::vector<HostSample>& sorted = run_->timeline.samples;
  sorted.resize(samples_.size());
  std::vector<size_t> next(begin.begin(), begin.end() - 1);
  for (const HostSample& sample : samples_) {
    sorted[next[static_cast<size_t>(sample.thread)]++] = sample;
  }
  samples_ = {};
  const auto by_time = [](const HostSample& a, const HostSample& b) {
    return a.time_ns < b.time_ns;
  };
  for (size_t t = 0; t + 1 < begin.size(); ++t) {
    const auto first = sorted.begin() + static_cast<std::ptrdiff_t>(begin[t]);
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(begin[t + 1]);
    if (!std::is_sorted(first, last, by_time)) std::stable_sort(first, last, by_time);
  }
}

void SampleLoader::Finish(const std::vector<int64_t>& shifts) {
  Shift(shifts);
  DecideProcesses();
  DecideParents();
  BreakParentCycles();
  DecideThreads();
  DropDuplicates();
  AddPeriods();
  const auto final = [this](int32_t thread) {
    return thread < 0 ? -1 : threads_[static_cast<size_t>(thread)].thread;
  };
  for (HostSample& sample : samples_) {
    const Looked& looked = looked_[threads_[static_cast<size_t>(sample.thread)].looked];
    ++run_->captures[static_cast<size_t>(looked.recorder)].sampler.samples;
    sample.thread = final(sample.thread);
    sample.gil_holder = final(sample.gil_holder);
  }
  SortSamples();
  SpreadLateWaits(&run_->timeline.samples);
  for (std::string& notice : FindUnreadPython(&run_->timeline)) {
    run_->notices.push_back(std::move(notice));
  }
  if (folded_alike_ + folded_others_ > 0) {
    run_->notices.push_back(absl::StrCat(
        "host samples: ", FormatPlural(folded_alike_, "look"),
        " at threads that stayed where they were",
        folded_others_ == 0 ? ""
                            : absl::StrCat(", and ", FormatPlural(folded_others_, "other"),
                                           " of more than a reader"
                                           " can hold,"),
        " were folded into the next look at the thread: times are whole, counts of samples are "
        "not"));
  }
  if (impossible_ > 0) {
    run_->notices.push_back(
        absl::StrCat(FormatPlural(impossible_, "host sample"), " with impossible times: left out"));
  }
  if (duplicates_ > 0) {
    run_->notices.push_back(absl::StrCat(FormatPlural(duplicates_, "host sample"),
                                         " of processes at which two samplers looked at once: "
                                         "read once"));
  }
}

}  // namespace gpuprobe::tools

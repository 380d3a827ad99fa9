// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host samples of all files of a run -> Timeline.
//
// Who is who is decided when the last file has been read: a process that a sampler looked at is the
// one that wrote a trace of its own if host boot, pid and start time agree; otherwise it becomes a
// process of the Timeline that is only sampled. Where several samplers looked at one process, the
// nearest one counts (its own, then its parent's, then whichever), and the others fill the time
// when that one did not look.
#ifndef GPUPROBE_TOOLS_LOAD_SAMPLES_LOAD_SAMPLES_H_
#define GPUPROBE_TOOLS_LOAD_SAMPLES_LOAD_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/sample_columns.h"
#include "tools/load/records/time_budget.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

class SampleLoader {
 public:
  // Both outlive the loader.
  SampleLoader(LoadedRun* run, TimeBudget* budget) : run_(run), budget_(budget) {}
  SampleLoader(const SampleLoader&) = delete;
  SampleLoader& operator=(const SampleLoader&) = delete;

  // A piece of the trace of the process with that index, whose ProcessInfo has been read if there
  // is one.
  void Load(const HostSamples& piece, int32_t recorder);

  // From now on there are at most `samples`, 0: any number. Where there would be more, looks of one
  // thread are folded into the next one of it, until half as many are left: first those at which
  // the thread was blocked in the same place as before, as far as the next is half of
  // kSampleReachNs away at most, which loses nothing; then every other one, again and again. A look
  // stands for the time of those that were folded into it: sums stay what they are.
  void KeepAtMost(size_t samples) { most_samples_ = samples; }

  // After the last file and once the times of other records are shifted: appends samples, periods,
  // threads and processes to the Timeline. `shifts`: what to add to the times of each recorder.
  void Finish(const std::vector<int64_t>& shifts);

 private:
  // A process that a sampler looked at.
  struct Looked {
    int32_t recorder;
    uint32_t pid = 0, parent_pid = 0;
    uint64_t start_ticks = 0;  // 0: not told
    std::string name, command_line, python_version;
    std::vector<std::string> unreadable;
    uint32_t allowed_cpus = 0;
    bool ended = false;
    std::vector<SampledPeriod> periods;  // process: not set
    int32_t process = -1;                // index in Timeline::processes, once decided
  };
  struct LookedThread {
    size_t looked;
    uint32_t tid;
    std::string name;
    bool main = false;
    int32_t thread = -1;  // index in Timeline::threads, once decided
  };
  struct PieceIds {
    std::vector<int32_t> strings, nodes;  // id - 1 -> index in the Timeline
  };
  struct Span {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  };

  size_t LookedOf(int32_t recorder, uint32_t pid);
  size_t LookedOf(int32_t recorder, uint32_t pid, uint64_t start_ticks);
  void LoadProcess(const SampledProcess& info, int32_t recorder);
  void LoadThread(const ThreadSamples& thread, const HostSamples& piece, int32_t recorder);
  void LoadPeriod(const HostSamples& piece, const std::vector<size_t>& looked);
  void Intern(const HostSamples& piece);
  void LoadModules(const HostSamples& piece);
  int32_t InternString(const std::string& text);
  size_t ThreadOf(size_t looked, uint32_t tid);

  void FoldSamples();
  template <typename MayFold>
  void FoldIf(MayFold may_fold);
  void Shift(const std::vector<int64_t>& shifts);
  void DecideProcesses();
  void DecideParents();
  void BreakParentCycles();
  void DecideThreads();
  void DropDuplicates();
  int Nearness(const Looked& looked) const;
  void SortSamples();
  void AddPeriods();
  void Describe(const Looked& looked, Process* process) const;

  LoadedRun* run_;
  TimeBudget* budget_;
  std::vector<Looked> looked_;
  std::vector<LookedThread> threads_;
  // HostSample::thread and ::gil_holder are indices of threads_ until Finish.
  std::vector<HostSample> samples_;
  // recorder, pid -> index in looked_ of the one that has it now; and with start_ticks of all.
  std::map<std::pair<int32_t, uint32_t>, size_t> current_;
  std::map<std::tuple<int32_t, uint32_t, uint64_t>, size_t> known_;
  std::map<std::pair<size_t, uint32_t>, size_t> thread_of_;  // looked, tid
  absl::flat_hash_map<std::string, int32_t> strings_;
  absl::flat_hash_map<std::tuple<int32_t, int32_t, uint32_t, uint64_t, bool>, int32_t> locations_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> nodes_;
  std::set<std::pair<int32_t, std::string>> modules_;  // file, build id
  // Reused from piece to piece.
  proto::SampleTables tables_;
  proto::SampleColumns columns_;
  PieceIds ids_;
  std::map<size_t, Span> spans_;  // of the samples in the piece, by looked
  uint64_t impossible_ = 0, duplicates_ = 0;
  size_t most_samples_ = 0;
  uint64_t folded_alike_ = 0, folded_others_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_SAMPLES_LOAD_SAMPLES_H_

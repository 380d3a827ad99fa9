// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace files -> Timeline. One run is a set of files of one or many processes: gpuprobe's own, or
// those of PyTorch's profiler, or exports of Nsight Systems; told apart by content, never mixed
// (the same work would count twice).
//
// What it decides, so that the analyses need not:
//  - Every file is one process image. Devices are the same if their UUID is the same, in whatever
//  process.
//  - Driver calls beneath a runtime call (same process, thread, correlation) are left out.
//  - Files of one boot are on one clock: the trace clock is CLOCK_MONOTONIC plus a constant of the
//  file.
//    Where the constants differ by kSameClockNs or more the wall clock was stepped between the
//    sessions, and the difference is the shift; less is only the error of reading the constant,
//    while the record times themselves are the wall clock's in both files. Files of different boots
//    stay as they are, and LoadedRun::aligned becomes false.
//  - Processes that a host sampler looked at and that have no trace of their own follow after all
//  that
//    have one; their ProcessCapture says only who they are (load_samples.h).
//  - What is missing (damage, loss, other clients) becomes Timeline::blinds and ::losses.
// Nothing is dropped silently: an input that cannot be used is in LoadedRun::unusable.
#ifndef GPUPROBE_TOOLS_LOAD_TRACE_LOADER_H_
#define GPUPROBE_TOOLS_LOAD_TRACE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/files/input_files.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

inline constexpr int64_t kSameClockNs = 1'000'000;

struct CaptureSetting {
  std::string name, value;
  bool is_default;
};
struct CaptureOutcome {
  std::string name;
  int32_t result;  // CUptiResult, 0: success
};

// Pairs of clock readings of one file. Offsets are differences to those of the first pair.
struct ClockFacts {
  uint64_t pairs = 0;
  int64_t first_trace_ns = 0, last_trace_ns = 0;
  int64_t trace_minus_monotonic_ns = 0;  // of the first pair; constant by definition
  int64_t monotonic_wobble_ns = 0;       // largest departure from it: 0 in a healthy file
  int64_t realtime_drift_ns = 0;         // realtime - trace: last pair against the first
  int64_t realtime_step_ns = 0;          // the same, largest between neighbours (a clock step)
  int64_t cupti_drift_ns = 0;            // cupti - realtime: largest departure from the first pair
  bool cupti_read = false;
  uint32_t uncertainty_ns = 0;  // largest bracket
  int64_t shift_ns = 0;         // what the loader added to this file's times
};

// The last running totals that the file holds.
struct CostFacts {
  bool known = false;
  int64_t drain_cpu_ns = 0, flush_ns = 0, start_ns = 0;
  uint64_t records = 0, cupti_bytes = 0, written_bytes = 0, buffers_completed = 0, memory_bytes = 0;
  uint64_t flush_calls = 0;
  uint32_t buffers_outstanding = 0, buffers_peak = 0;
};

// What the host sampler of one process says of itself: the last running totals that the file holds.
struct SamplerFacts {
  bool known = false;
  int64_t cpu_ns = 0;
  uint64_t looks = 0, ticks_missed = 0, samples_dropped = 0, stacks_unreadable = 0;
  uint64_t samples = 0;  // in the Timeline, of all processes that it looked at
};

// Totals of the process besides those in Process; 0: not known.
struct UsageFacts {
  int64_t peak_rss_bytes = 0;
  uint64_t voluntary_switches = 0, involuntary_switches = 0;
};

// How the records of one process came about; parallel to Timeline::processes.
struct ProcessCapture {
  std::string boot_id;
  uint32_t parent_pid = 0;
  uint64_t start_ticks = 0;  // 0: not known
  int32_t local_rank = -1, world_size = 0;
  std::string gpuprobe_version, door, cupti_path, off_reason, end_reason;
  uint32_t cupti_version = 0;
  int32_t driver_version = 0;  // CUDA's, of imported files: 13000
  std::string driver_release;  // NVIDIA's: "580.95.05"; empty: not read
  bool graph_node_level = false, latency_timestamps = false;
  bool graph_level_given_up = false;  // graphs as a whole first, node by node later
  std::vector<CaptureSetting> settings;
  std::vector<CaptureOutcome> kinds, attributes;
  std::vector<std::string> warnings;
  ClockFacts clock;
  CostFacts cost;
  SamplerFacts sampler;
  UsageFacts usage;
  // Imported files: the tool and its versions, and what such a file, or this one, cannot tell.
  std::string recorder;
  std::vector<std::string> absent;
  // GPUPROBE_CAPTURE=off: it lacks nothing, how long it took is what was asked for.
  bool told_not_to_record() const;
};

// A stretch of an input file that could not be used, in words.
struct FileDamage {
  int32_t input;     // index in Timeline::inputs
  std::string kind;  // "torn_tail", "corrupt", "missing", "foreign_data", "no_end"
  uint64_t offset = 0, bytes = 0, frames = 0;
  int64_t begin_ns = 0, end_ns = 0;  // 0: open on that side
  std::string detail;
};

// Of a run that was read in windows (windowed_run.h): its Timeline holds only the records that
// reports name, and this is what else they ask.
struct CountedRecords {
  uint64_t launches = 0;  // launch calls that succeeded
  bool any_kernel = false;
};

struct LoadedRun {
  std::string name;  // what the user named, without the folders above it
  Timeline timeline;
  std::vector<ProcessCapture> captures;
  std::vector<FileDamage> damage;
  std::vector<Unusable> unusable;
  std::vector<std::string> notices;  // sentences for the user; no effect on completeness
  bool aligned = true;               // one clock for all processes
  uint64_t folded_driver_calls = 0;
  std::optional<CountedRecords> counted;
  size_t unclosed_empty = 0;  // empty captures whose end nobody has written
  // False if anything is damaged, lost, unclosed or could not be read, or gpuprobe turned itself
  // off. Empty captures (no record, no damage: a process that was killed before its first, or that
  // found no room to write) do not count.
  bool complete() const;
  // The same, but a process that was told to record nothing (GPUPROBE_CAPTURE) lacks nothing.
  bool complete_as_asked() const;

 private:
  bool CompleteBut(bool (*excused)(const ProcessCapture&)) const;
};

// Fails if not one input can be read (the message then has a line for each of them), or if the
// inputs are not of one run.
// kAsRecorded leaves calls and GPU work as they stand (no folding, no links): for `dump`.
enum class Linking : uint8_t { kLinked, kAsRecorded };
absl::StatusOr<LoadedRun> LoadRun(const InputFiles& files, Linking linking = Linking::kLinked);

class FileLoader;

// The same without the records: gpuprobe's own traces only (Unimplemented for others).
struct LoadedOutline {
  LoadedOutline();
  LoadedOutline(LoadedOutline&&);
  ~LoadedOutline();
  std::unique_ptr<LoadedRun> run;
  std::unique_ptr<FileLoader> loader;  // for the second pass; refers to `run`
  std::vector<int64_t> shifts;         // by process: what is added to its records' times
};
// `most_samples`: SampleLoader::KeepAtMost().
inline constexpr size_t kMostHostSamples = 2'000'000;  // 72 bytes each, twice that while sorted
absl::StatusOr<LoadedOutline> LoadOutline(const InputFiles& files,
                                          size_t most_samples = kMostHostSamples);
// How many records a timeline holds.
struct RecordSizes {
  explicit RecordSizes(const Timeline& timeline);
  size_t ops, calls, syncs, overheads, untimed;
};
// Adds the shifts to the times of the records that have come since `before`.
void ShiftRecords(const std::vector<int64_t>& shifts, const RecordSizes& before, Timeline* records);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_TRACE_LOADER_H_

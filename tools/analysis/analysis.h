// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The analyses: Timeline in, plain structs out. They neither read files nor print. Definitions are
// those of ATTRIBUTION.md; all times int64 ns on the timeline's clock, intervals half-open.
#ifndef GPUPROBE_TOOLS_ANALYSIS_ANALYSIS_H_
#define GPUPROBE_TOOLS_ANALYSIS_ANALYSIS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

enum class Cause : uint8_t {
  kSynchronisation,
  kBlockingApi,
  kLaunchBound,
  kPageableCopy,
  kDependency,
  kLaunchLatency,
  kProfiler,
  kOtherProcess,
  kStart,
  kEnd,
  kHost,  // outside CUDA, and no sample tells what the thread did
  kUnknown,
  // What the host sampler makes of kHost. New causes go to the end: tables are indexed by them.
  kInputWait,    // blocked on data: queue, pipe, poll, data-loader frames
  kRequestWait,  // blocked on work from outside the job: nobody in it was busy
  kHostPython,   // ran Python
  kHostNative,   // ran native code, or was blocked in it (file writes, locks, sleeps)
  kGilWait,      // blocked on Python's interpreter lock
  kCpuStarved,   // ready to run, waiting for a CPU
};
inline constexpr int kCauseCount = 18;
const char* CauseKey(Cause c);    // "synchronisation", "blocking_api", ...: JSON
const char* CauseLabel(Cause c);  // "launch-bound", ...: text

struct Window {
  int64_t start_ns = 0, end_ns = 0;
  int64_t span() const { return end_ns - start_ns; }
};

struct Options {
  int64_t min_gap_ns = 10'000;            // only decides what is listed and counted in `gaps`
  std::optional<int32_t> device;          // index in Timeline::devices
  std::optional<uint32_t> pid;            // look at this process alone: others become other_process
  std::optional<int64_t> from_ns, to_ns;  // user's window [from, to), absolute trace time
  int top = 10;
};

// One part of a gap with one cause. Parts of a gap are disjoint, in order, and add up to it. There
// may be tens of millions: no string, no heap of its own.
struct GapPart {
  int64_t begin_ns, end_ns;
  int32_t call = -1;      // evidence: the call on the submitting (or blocking) thread
  int32_t overhead = -1;  // evidence: index in Timeline::overheads
  int32_t thread = -1;    // the thread whose doing this was
  int32_t where = -1;     // index in Analysis::places: what a person reads
  int32_t sample = -1;    // evidence: index in Timeline::samples, the first of those it stands on
  Cause cause;
};

struct Gap {
  int64_t begin_ns, end_ns;  // clipped to the window
  int32_t previous_op = -1;  // index in Timeline::ops: the one that ended last before the gap
  int32_t next_op = -1;      //   and the one that ended it; -1: the device had none before / after
  uint32_t first_part = 0, part_count = 0;  // in DeviceReport::parts
  int64_t length_ns() const { return end_ns - begin_ns; }
};

// `count` is the number of gaps, `longest_ns` the most that one gap lost to it.
struct SiteTotal {
  std::string where;  // "train.py:27 in main" where a call site is known
  int64_t total_ns = 0;
  uint64_t count = 0;
  int64_t longest_ns = 0;
  int32_t example_call = -1;  // index in Timeline::calls: evidence of the first of these parts
  std::string detail;  // what it stood in there: "queue.get, blocked in a pipe read"; may be empty
  uint64_t samples = 0;  // host samples that name it; 0: the calls alone
  // Of total_ns: what it stood in `detail`, which of several is the one with most.
  int64_t detail_ns = 0;
};

// What other threads and processes did while a cause lasted: the workers behind an input wait, the
// holder of the GIL. Shares are of (threads x time); blocked = 1 - on_cpu - runnable.
struct Meanwhile {
  std::string who;  // "4 workers (children of 411)", "thread 415 decoder"
  int32_t thread_count = 0;
  double on_cpu = 0, runnable = 0;
  uint64_t samples = 0;       // that this stands on
  uint32_t allowed_cpus = 0;  // CPUs that all of them may use together; 0: not known
  struct Site {
    std::string where;  // "dataset.py:31 in decode"
    double share;       // of their samples
    bool on_cpu;        // mostly running there or ready to, else mostly blocked
  };
  std::vector<Site> sites;  // by share, descending; at most 5
};

struct CauseTotal {
  Cause cause;
  int64_t total_ns = 0;
  uint64_t count = 0;
  int64_t longest_ns = 0;
  std::vector<SiteTotal> sites;           // by total, descending; add up to total_ns
  std::vector<Meanwhile> meanwhile = {};  // evidence; empty: nothing known
  uint64_t samples = 0;                   // host samples that it stands on; 0: CUDA records alone
};

struct KernelStats {
  uint64_t count = 0, zero_length = 0;
  int64_t sum_ns = 0, union_ns = 0;
};
struct MoveStats {
  uint64_t count = 0, bytes = 0;
  int64_t sum_ns = 0, union_ns = 0;
};

struct DeviceReport {
  int32_t device = -1;  // index in Timeline::devices
  Window window;
  KernelStats kernels;
  MoveStats copies, sets, graphs;
  uint64_t untimed = 0, untimed_missing = 0, untimed_unfinished = 0, untimed_invalid = 0;
  int64_t busy_ns = 0, idle_ns = 0;
  // With idle_ns they add up to the span.
  int64_t compute_ns = 0, communication_ns = 0, copy_ns = 0;
  std::vector<Gap> gaps;       // all of them, in order of time; their lengths add up to idle_ns
  std::vector<GapPart> parts;  // of all gaps, in order of time
  std::span<const GapPart> PartsOf(const Gap& gap) const {
    return std::span(parts).subspan(gap.first_part, gap.part_count);
  }
  uint64_t all_gaps = 0;     // also those of a long run that are not kept (windowed_analysis.h)
  uint64_t listed_gaps = 0;  // of at least min_gap_ns
  int64_t listed_gaps_ns = 0;
  std::vector<CauseTotal> causes;  // sorted by total, descending; add up to idle_ns exactly
  uint64_t ops_with_submission = 0, ops = 0;
  // Operations that start before their submitting call does (the clocks' disagreement): set to 0.
  uint64_t ops_before_submission = 0;
  int64_t largest_skew_ns = 0;
};

// One row of `waits`: blocking calls of one kind from one place.
struct WaitRow {
  std::string api, where;
  uint64_t count = 0;
  int64_t total_ns = 0;        // blocked
  int64_t device_busy_ns = 0;  // of total: the device waited for was busy (harmless)
  int64_t device_idle_ns = 0;  // of total: it was idle
  // Device idle after the wait, until the thread's next submission reached it; after its last
  // submission: 0.
  int64_t idle_after_ns = 0;
  int64_t longest_ns = 0;
  std::string detail = {};  // where `where` is a line: the rest, "DtoH, pageable"; may be empty
};

// One iteration of the program's loop on one device: [begin_ns, end_ns).
struct Step {
  int64_t begin_ns, end_ns;
  uint64_t ops = 0;                                // that begin in it, on all streams
  int64_t busy_ns = 0, idle_ns = 0;                // add up to the duration
  std::array<int64_t, kCauseCount> cause_ns = {};  // add up to idle_ns
  bool slow = false;
  // Of a long run not all steps are listed: how many this one stands for, itself included.
  uint32_t stands_for = 1;
  uint64_t index = 0;  // from the first step of the run
  int64_t duration_ns() const { return end_ns - begin_ns; }
};

// What made slow steps longer than the others: how much more of it a slow step had, on average.
struct StepGrowth {
  std::optional<Cause> cause;  // none: the GPU was busy for longer
  int64_t extra_ns = 0;        // a slow step, above the median of the others
  std::string where;           // the place with most of that cause's time in slow steps
};

// What the steps of a device were told by.
enum class StepSource : uint8_t {
  kPattern,       // what repeats (steps.h)
  kProfilerStep,  // PyTorch's ProfilerStep#N annotations
  kNvtx,          // NVTX ranges of one name
  kAnnotation,    // torch's record_function, of one name
};

// The steps of one device, by markers or by what repeats (steps.h). Without a repeating pattern
// `steps` is empty and `why_none` says so; else they follow each other without a hole, but for
// those that are not listed.
struct DeviceSteps {
  int32_t device = -1;  // index in Timeline::devices
  // All of them, in order of time; of a long run with more than kMostListedSteps (step_list.h) the
  // slow ones and every N-th of the others: medians and percentiles are of these.
  std::vector<Step> steps;
  uint64_t count = 0;              // of all
  Step all = {0, 0, 0, 0, 0, {}};  // all together: from the first to the end of the last, and sums
  std::string why_none;            // "no repeating pattern in 40 operations"; empty with steps
  StepSource source = StepSource::kPattern;
  std::string marker;  // name of the ranges: "train_step", "step #"; empty: kPattern
  // 0..1: of what lives throughout, the share that steps have equally often; with markers: of the
  // device's time, the share that was submitted in them.
  double confidence = 0;
  int32_t first_op = -1;     // index in Timeline::ops: what the first step begins with, as all do
  uint64_t typical_ops = 0;  // median of a step
  int64_t median_ns = 0, p90_ns = 0, p99_ns = 0, min_ns = 0, max_ns = 0;  // durations
  uint64_t slow_steps = 0;         // longer than kSlowStep medians
  uint64_t slow_period = 0;        // they come every this many steps; 0: no such rule
  std::vector<StepGrowth> growth;  // of slow steps, largest first
  Window window() const { return {all.begin_ns, all.end_ns}; }
};

struct Verdict {
  std::string kind;       // DESIGN's words: gpu_bound, synchronisation, launch_bound, host, ...
  std::string headline;   // one sentence with the numbers
  std::string where;      // the place to look at: "train.py:27 in main"; empty: no single one
  std::string evidence;   // what happened there, with numbers; names the place again
  std::string meanwhile;  // what others did in the meantime; empty: nothing known
  std::string action;     // what to do; empty: nothing to advise
  // span / (span - time of that cause); gpu_bound: of all idle time; busy_but_empty: what full
  // kernels could save; periodic_stall: of the stalls; warmup: of the idle time in it; cpu_starved
  // of those who make the data: of that waiting, and of its own.
  double upper_bound_speedup = 1.0;
  std::string bound_if = "without it";  // what would have to be for that speed-up
  std::string runner_up;                // second finding, one line; empty: none
  std::optional<Cause> runner_up_cause;
  double runner_up_share = 0;  // of the time, 0..1
  std::string runner_up_where;
  std::optional<Window> steady;  // the part that the verdict speaks of; none: the whole window
  std::string left_out;          // what is outside of it, one line; empty with the whole window
  // It says what ranks waited for each other, by how long their collectives took: estimated.
  bool estimates_ranks = false;
};

// What ranks waited for each other in the collectives that they share (rank_waits.h).
struct RankWaits {
  struct Rank {
    int32_t device;             // index in Timeline::devices
    int64_t waited_ns = 0;      // in collectives, until the last rank entered
    int64_t caused_ns = 0;      // waited by others for this one
    uint64_t entered_last = 0;  // collectives
  };
  uint64_t collectives = 0;  // that all ranks share
  int64_t exposed_ns = 0;    // of all waiting, what was communication: nothing ran beside it
  std::vector<Rank> ranks;   // parallel to Analysis::devices
  const Rank& Latest() const {
    return *std::max_element(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
      return a.caused_ns < b.caused_ns;
    });
  }
};

struct Analysis {
  std::vector<DeviceReport> devices;
  std::vector<WaitRow> waits;      // by total blocked, descending
  std::vector<DeviceSteps> steps;  // parallel to `devices`
  std::optional<RankWaits> ranks;  // nullopt: one rank, or collectives that cannot be matched
  Verdict verdict;
  int64_t blind_ns = 0;             // union over the windows
  std::vector<std::string> places;  // GapPart::where: "cudaStreamSynchronize (thread 4711 python)"
  // Empty, or what does not add up: a defect of the analysis, the figures must not be shown (exit
  // code 1).
  std::string internal_error;
};

// Everything at once; deterministic, no I/O, O(n log n). Timeline must satisfy the orderings of
// timeline.h, its indices must be valid or -1, and start <= end everywhere. Devices without any GPU
// operation in the scope of `options` get no report unless asked for by name.
Analysis Analyse(const Timeline& timeline, const Options& options);

// Collective communication (NCCL, RCCL, NVSHMEM, the custom all-reduces of vLLM and TensorRT-LLM)?
// By the recorded (mangled or plain) name. Analyse() applies it itself, whatever GpuOp::op_class
// says.
bool IsCommunicationKernel(std::string_view name);

// What Analyse() promises of one device, checked: parts fill their gap without hole or overlap,
// gaps and causes add up to the idle time, busy + idle and the breakdown to the window. Empty, or
// what is wrong.
std::string CheckSums(const DeviceReport& report);
// The same where gaps and parts stand in another report than sums and causes.
std::string CheckSums(const DeviceReport& report, const DeviceReport& gaps);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ANALYSIS_ANALYSIS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Whole reports from hand-made structs against files in tests/testdata/golden. To accept a change:
// GPUPROBE_UPDATE_GOLDEN=1 report_golden_test, then look at the difference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tools/load/samples/unread_python.h"
#include "tools/report/report.h"
#include "tools/report/report_gaps.h"
#include "tools/report/report_parts.h"
#include "tools/steps/step_figures.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kT = 1'798'000'000'000'000'000;
constexpr int64_t kMs = 1'000'000;

// One process, one GPU, 100 ms: two kernels, a copy, a memset, and why the rest was idle.
LoadedRun MakeRun() {
  LoadedRun run;
  run.name = "gpuprobe-20261130T104530-411";
  Timeline& t = run.timeline;
  t.inputs.push_back({"run/node1-411.gpuprobe", 12'345, 0, 40, 2'800, 0, 0, true, ""});
  Process process;
  process.pid = 411;
  process.host = "node1";
  process.executable = "/usr/bin/python3.11";
  process.command_line = "python train.py --batch 32";
  process.rank = 0;
  process.files = {0};
  process.has_runtime_api = process.has_sync_records = true;
  process.capture_begin_ns = kT - 5 * kMs;
  process.capture_end_ns = kT + 110 * kMs;
  process.ended = true;
  t.processes.push_back(process);
  t.devices.push_back(
      {"GPU-6d1ea0b2-0000-1111-2222-333344445555", "NVIDIA H200", 0, uint64_t{141} << 30, 132});
  t.streams.push_back({0, 0, 1, 7, true});
  t.threads.push_back({0, 411, "python", true});
  t.names = {"_ZN2at6native13reduce_kernelILi512EfEEvPT0_", "ampere_sgemm_128x64_tn"};
  t.shapes.push_back({{8, 1, 1}, {128, 1, 1}, {0, 0, 0}, 0, 0, 32, 0});
  t.copy_shapes.push_back({1, 1, 3, 0, false});
  t.symbols = {{"cudaLaunchKernel", CallClass::kLaunch, false},
               {"cudaStreamSynchronize", CallClass::kSync, false},
               {"cudaMemcpyAsync", CallClass::kCopy, false}};
  const auto op = [&t](OpKind kind, int64_t start_ms, int64_t end_ms, int32_t name, int32_t shape,
                       uint64_t bytes) {
    GpuOp o = {};
    o.kind = kind;
    o.op_class = kind == OpKind::kKernel ? OpClass::kCompute : OpClass::kCopy;
    o.start_ns = kT + start_ms * kMs;
    o.end_ns = kT + end_ms * kMs;
    o.name = name;
    o.shape = shape;
    o.bytes = bytes;
    o.correlation = static_cast<uint32_t>(t.ops.size() + 1);
    t.ops.push_back(o);
  };
  op(OpKind::kKernel, 0, 2, 0, 0, 0);
  op(OpKind::kCopy, 10, 11, -1, 0, 12'000'000);
  op(OpKind::kKernel, 20, 21, 1, 0, 0);
  op(OpKind::kSet, 21, 22, -1, -1, 4096);
  op(OpKind::kKernel, 99, 100, 0, 0, 0);
  t.calls = {{kT - kMs, kT - kMs + 5'000, 1, 0, 0, 0, 0},
             {kT + 9 * kMs, kT + 9 * kMs + 40'000, 2, 0, 0, 2, 0},
             {kT + 22 * kMs, kT + 30 * kMs, 9, 0, 0, 1, 0},
             {kT + 98 * kMs, kT + 98 * kMs + 4'000, 5, 0, 0, 0, 700}};
  ProcessCapture capture;
  capture.boot_id = "0b5e";
  capture.gpuprobe_version = "0.1.0";
  capture.door = "preload";
  capture.cupti_path = "/usr/local/cuda/lib64/libcupti.so.13";
  capture.cupti_version = 130001;
  capture.driver_version = 13000;
  capture.settings = {{"GPUPROBE_FLUSH_MS", "500", true}, {"GPUPROBE_GRAPHS", "node", false}};
  capture.kinds = {{"CONCURRENT_KERNEL", 0}, {"RUNTIME", 0}, {"MEMORY_POOL", 1}};
  capture.end_reason = "exit";
  capture.graph_node_level = true;
  capture.clock.pairs = 3;
  capture.clock.first_trace_ns = kT;
  capture.clock.last_trace_ns = kT + 100 * kMs;
  capture.clock.realtime_drift_ns = 1'200;
  capture.clock.cupti_read = true;
  capture.clock.uncertainty_ns = 80;
  capture.cost = {true, 115'000, 40'000, 900'000, 2'800, 300'000, 12'000, 3, 64u << 20, 2, 0, 2};
  run.captures.push_back(std::move(capture));
  return run;
}

Analysis MakeAnalysis() {
  Analysis a;
  a.places = {"train.py:27 next(loader)", "cudaStreamSynchronize (thread 411 python)", ""};
  DeviceReport d;
  d.device = 0;
  d.window = {kT, kT + 100 * kMs};
  d.kernels = {3, 0, 4 * kMs, 4 * kMs};
  d.copies = {1, 12'000'000, kMs, kMs};
  d.sets = {1, 4096, kMs, kMs};
  d.busy_ns = 6 * kMs;
  d.idle_ns = 94 * kMs;
  d.compute_ns = 4 * kMs;
  d.copy_ns = 2 * kMs;
  d.gaps = {{kT + 2 * kMs, kT + 10 * kMs, 0, 1, 0, 1},
            {kT + 11 * kMs, kT + 20 * kMs, 1, 2, 1, 1},
            {kT + 22 * kMs, kT + 99 * kMs, 3, 4, 2, 2}};
  const auto part = [&d](int64_t begin_ms, int64_t end_ms, Cause cause, int32_t where) {
    GapPart p = {kT + begin_ms * kMs, kT + end_ms * kMs};
    p.cause = cause;
    p.where = where;
    d.parts.push_back(p);
  };
  part(2, 10, Cause::kHost, 0);
  part(11, 20, Cause::kUnknown, -1);
  part(22, 30, Cause::kSynchronisation, 1);
  part(30, 99, Cause::kHost, 0);
  d.all_gaps = d.gaps.size();
  d.listed_gaps = 3;
  d.listed_gaps_ns = 94 * kMs;
  d.causes = {
      {Cause::kHost, 77 * kMs, 2, 69 * kMs, {{a.places[0], 77 * kMs, 2, 69 * kMs, -1}}},
      {Cause::kUnknown, 9 * kMs, 1, 9 * kMs, {}},
      {Cause::kSynchronisation, 8 * kMs, 1, 8 * kMs, {{a.places[1], 8 * kMs, 1, 8 * kMs, 2}}}};
  d.ops = 5;
  d.ops_with_submission = 3;
  a.devices.push_back(std::move(d));
  a.waits = {
      {"cudaStreamSynchronize", "thread 411 python", 1, 8 * kMs, 0, 8 * kMs, 69 * kMs, 8 * kMs}};
  DeviceSteps& steps = a.steps.emplace_back();
  steps.device = 0;
  steps.first_op = 0;
  steps.confidence = 0.95;
  steps.typical_ops = 1;
  for (const auto& [begin_ms, end_ms, host_ms] :
       {std::array{0, 20, 10}, std::array{20, 40, 11}, std::array{40, 99, 50}}) {
    Step& step = steps.steps.emplace_back();
    step.begin_ns = kT + begin_ms * kMs;
    step.end_ns = kT + end_ms * kMs;
    step.ops = 1;
    step.idle_ns = (host_ms + 8) * kMs;
    step.busy_ns = step.duration_ns() - step.idle_ns;
    step.cause_ns[static_cast<size_t>(Cause::kHost)] = host_ms * kMs;
    step.cause_ns[static_cast<size_t>(Cause::kSynchronisation)] = 8 * kMs;
    step.slow = end_ms == 99;
    step.index = steps.count;
    CountStep(step, &steps);
  }
  steps.median_ns = steps.min_ns = 20 * kMs;
  steps.p90_ns = steps.p99_ns = steps.max_ns = 59 * kMs;
  steps.slow_steps = 1;
  steps.growth = {{Cause::kHost, 39 * kMs, a.places[0]}};
  a.verdict.kind = "host";
  a.verdict.where = a.places[0];
  a.verdict.meanwhile = "meanwhile 4 workers (children of 411) were 98 % of that time on a CPU";
  a.verdict.runner_up_cause = Cause::kSynchronisation;
  a.verdict.runner_up_share = 0.08;
  a.verdict.runner_up_where = "cudaStreamSynchronize";
  a.verdict.headline =
      "Host-bound: the GPU was idle 94 % of 100 ms; for 82 % of the idle time the submitting "
      "thread was "
      "outside CUDA.";
  a.verdict.evidence = "train.py:27 next(loader): 77.0 ms in 2 gaps, the longest 69.0 ms";
  a.verdict.action = "raise num_workers (4 of 16 cores used) or decode smaller images";
  a.verdict.upper_bound_speedup = 4.347;
  a.verdict.runner_up = "next is synchronisation, 8.5 % of the idle time";
  return a;
}

std::string GoldenPath(const std::string& name) {
  return std::string(GPUPROBE_SOURCE_DIR) + "/tests/testdata/golden/" + name;
}

void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::string path = GoldenPath(name);
  if (std::getenv("GPUPROBE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.good()) << path << " is missing";
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(actual, expected) << path;
}

class GoldenTest : public ::testing::Test {
 protected:
  std::string Render(ReportKind kind, Format format) {
    return RenderReport(kind, format, {run_, analysis_, options_, top_});
  }
  LoadedRun run_ = MakeRun();
  Analysis analysis_ = MakeAnalysis();
  Options options_;
  std::optional<int> top_;
};

constexpr ReportKind kAllReports[] = {ReportKind::kSummary, ReportKind::kGaps,   ReportKind::kWaits,
                                      ReportKind::kKernels, ReportKind::kCopies, ReportKind::kApi,
                                      ReportKind::kSteps,   ReportKind::kInfo};

TEST_F(GoldenTest, EveryReportInEveryFormat) {
  for (ReportKind kind : kAllReports) {
    const std::string name = std::string("report_") + ReportName(kind);
    ExpectGolden(name + ".txt", Render(kind, Format::kText));
    ExpectGolden(name + ".json", Render(kind, Format::kJson));
    ExpectGolden(name + ".csv", Render(kind, Format::kCsv));
  }
}

// The same run with a sampler: the long gap was a wait for a loader whose worker decoded.
class SampledGoldenTest : public GoldenTest {
 protected:
  SampledGoldenTest() {
    Timeline& t = run_.timeline;
    t.strings = {"/job/train.py", "main",         "/usr/lib/python3.11/queue.py",
                 "Queue.get",     "/job/data.py", "decode",
                 "pipe"};
    t.locations = {{1, 0, 27, 0, false}, {3, 2, 171, 0, false}, {5, 4, 12, 0, false}};
    t.stacks = {{-1, 0}, {0, 1}, {-1, 2}};
    Process worker;
    worker.pid = 500;
    worker.rank = -1;
    worker.parent = 0;
    worker.sampled_only = true;
    worker.allowed_cpus = 16;
    t.processes.push_back(worker);
    run_.captures.push_back({});
    t.threads.push_back({1, 500, "pt_data_worker", true});
    t.sampled = {{kT, kT + 110 * kMs, 0}, {kT, kT + 110 * kMs, 1}};
    for (int32_t thread : {0, 1}) {
      for (int64_t at = 35; at < 100; at += 10) {
        HostSample sample{};
        sample.time_ns = kT + at * kMs;
        sample.interval_ns = 10 * kMs;
        sample.thread = thread;
        sample.state = thread == 0 ? HostState::kBlocked : HostState::kRunning;
        sample.cpu_ns = thread == 0 ? 0 : 10 * kMs;
        sample.stack = thread == 0 ? 1 : 2;
        sample.syscall = thread == 0 ? 7 : -1;
        sample.wait_target = thread == 0 ? 6 : -1;
        t.samples.push_back(sample);
      }
    }
    for (GpuOp& op : t.ops) {
      op.submission = op.correlation == 1   ? 0
                      : op.correlation == 2 ? 1
                      : op.correlation == 5 ? 3
                                            : -1;
    }
    analysis_ = Analyse(t, options_);
  }
};

TEST_F(SampledGoldenTest, SummaryAndGapsShowLinesAndWorkers) {
  EXPECT_EQ(analysis_.internal_error, "");
  ExpectGolden("sampled_summary.json", Render(ReportKind::kSummary, Format::kJson));
  ExpectGolden("sampled_gaps.txt", Render(ReportKind::kGaps, Format::kText));
}

// The interpreter of the feeding process is newer than the sampler.
TEST_F(SampledGoldenTest, SummarySaysThatLinesOfPythonWereNotRead) {
  Timeline& t = run_.timeline;
  t.processes[0].python_version = "3.16.0";
  t.processes[0].unsampled = {"Python: this Python version is not known"};
  t.strings.push_back("/usr/bin/python3.16");
  CodeLocation interpreter;
  interpreter.file = static_cast<int32_t>(t.strings.size()) - 1;
  interpreter.offset = 0x44ca63;
  interpreter.native = true;
  t.locations.push_back(interpreter);
  t.stacks.push_back({-1, static_cast<int32_t>(t.locations.size()) - 1});
  std::erase_if(t.samples, [](const HostSample& sample) { return sample.thread != 0; });
  for (HostSample& sample : t.samples) {
    sample.state = HostState::kRunning;
    sample.cpu_ns = 10 * kMs;
    sample.stack = static_cast<int32_t>(t.stacks.size()) - 1;
    sample.syscall = sample.wait_target = -1;
  }
  run_.notices = FindUnreadPython(&t);
  analysis_ = Analyse(t, options_);
  ExpectGolden("unread_python_summary.txt", Render(ReportKind::kSummary, Format::kText));
  ExpectGolden("unread_python_summary.json", Render(ReportKind::kSummary, Format::kJson));
}

TEST_F(SampledGoldenTest, OneGapIsWalkedFromEndToEnd) {
  for (const auto& [format, name] :
       {std::pair{Format::kText, "sampled_gap.txt"}, std::pair{Format::kJson, "sampled_gap.json"},
        std::pair{Format::kCsv, "sampled_gap.csv"}}) {
    ReportInput input{run_, analysis_, options_, top_};
    input.explain = GapChoice{1, {}};
    ExpectGolden(name, RenderReport(ReportKind::kGap, format, input));
  }
}

TEST_F(SampledGoldenTest, AGapIsFoundByATimeInIt) {
  ReportInput input{run_, analysis_, options_, top_};
  input.explain = GapChoice{1, kT + 15 * kMs};
  EXPECT_EQ(FindGap(input)->gap->begin_ns, kT + 11 * kMs);
  input.explain = GapChoice{1, kT + kMs};
  EXPECT_FALSE(FindGap(input).ok());
}

TEST_F(GoldenTest, APartialRunSaysWhatIsMissingOnTop) {
  run_.timeline.inputs[0].complete = false;
  run_.timeline.inputs[0].damaged_bytes = 2'048;
  run_.timeline.inputs[0].problem =
      "2.00 KiB at offset 8192 are damaged; not closed: killed, still running, or no room left to "
      "write";
  run_.damage = {{0, "corrupt", 8'192, 2'048, 1, kT + 40 * kMs, kT + 50 * kMs, "checksum"},
                 {0, "no_end", 12'345, 0, 0, kT + 110 * kMs, 0, ""}};
  run_.timeline.processes[0].ended = false;
  run_.timeline.losses = {{0, 1, 1'500, kT + 60 * kMs, kT + 61 * kMs, 0}, {0, 7, 12, 0, 0, 28}};
  run_.timeline.blinds = {
      {kT + 40 * kMs, kT + 50 * kMs, 0, Blind::Why::kDamage, "run/node1-411.gpuprobe"},
      {kT + 70 * kMs, kT + 90 * kMs, 0, Blind::Why::kOtherClient, "libkineto.so, cuptiSubscribe"}};
  run_.unusable = {{"notes.txt", "notes.txt: no gpuprobe trace: at offset 0 stands \"hello\""}};
  run_.notices = {"run/b.gpuprobe is named twice: read once"};
  analysis_.blind_ns = 31 * kMs;
  ExpectGolden("partial_summary.txt", Render(ReportKind::kSummary, Format::kText));
  ExpectGolden("partial_info.txt", Render(ReportKind::kInfo, Format::kText));
  ExpectGolden("partial_summary.json", Render(ReportKind::kSummary, Format::kJson));
}

TEST_F(GoldenTest, RecordsThatCuptiDroppedForWantOfABufferAreOneLoss) {
  run_.timeline.losses = {{0, 1, 1'500, kT, kT, 0}, {0, 2, 12, kT, kT, 0}};
  EXPECT_EQ(Completeness({run_, analysis_, options_, top_}),
            "PARTIAL: 1,500 records lost: dropped by CUPTI, no free buffer for CUPTI 12 times "
            "(memory cap)");
  run_.timeline.losses.erase(run_.timeline.losses.begin());
  EXPECT_EQ(Completeness({run_, analysis_, options_, top_}),
            "PARTIAL: no free buffer for CUPTI 12 times (memory cap)");
}

TEST_F(GoldenTest, WideTablesKeepToTheirColumns) {
  run_.timeline.names[1] = std::string(300, 'k');
  analysis_.places[0] = std::string(300, 'x');
  for (ReportKind kind :
       {ReportKind::kGaps, ReportKind::kKernels, ReportKind::kWaits, ReportKind::kSteps}) {
    const std::string text = Render(kind, Format::kText);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 120u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST_F(GoldenTest, LaunchesWithoutKernelsAreNeverReportedAsIdle) {
  std::erase_if(run_.timeline.ops, [](const GpuOp& op) { return op.kind == OpKind::kKernel; });
  run_.captures[0].kinds[0].result = 35;
  ExpectGolden("no_kernels_summary.txt", Render(ReportKind::kSummary, Format::kText));
  ExpectGolden("no_kernels_summary.json", Render(ReportKind::kSummary, Format::kJson));
  for (ReportKind kind : {ReportKind::kSummary, ReportKind::kGaps}) {
    EXPECT_THAT(Render(kind, Format::kText), HasSubstr("PARTIAL: no kernel"));
    const std::string text = Render(kind, Format::kText);
    EXPECT_THAT(text, HasSubstr("Kernel records unavailable"));
    EXPECT_THAT(text, HasSubstr("NVreg_RestrictProfilingToAdminUsers"));
    EXPECT_THAT(text, Not(HasSubstr("idle because")));
    EXPECT_THAT(text, Not(HasSubstr("94.0 ms")));
    EXPECT_THAT(Render(kind, Format::kJson), Not(HasSubstr("94000000")));
    EXPECT_THAT(Render(kind, Format::kCsv), Not(HasSubstr("94000000")));
  }
}

TEST_F(GoldenTest, ARunWithoutGpuWorkStillRenders) {
  run_.timeline.ops.clear();
  run_.timeline.calls.clear();
  analysis_ = {};
  analysis_.verdict.kind = "no_gpu_work";
  analysis_.verdict.headline = "No GPU work was recorded.";
  ExpectGolden("no_work_summary.txt", Render(ReportKind::kSummary, Format::kText));
  for (ReportKind kind : kAllReports) {
    EXPECT_FALSE(Render(kind, Format::kText).empty());
    EXPECT_FALSE(Render(kind, Format::kJson).empty());
  }
}

TEST_F(GoldenTest, TopLimitsTheRowsAndSaysSo) {
  top_ = 1;
  const std::string text = Render(ReportKind::kGaps, Format::kText);
  EXPECT_THAT(text, HasSubstr("... 2 more"));
  EXPECT_THAT(text, HasSubstr("77.0 ms"));
  EXPECT_THAT(text, Not(HasSubstr("9.00 ms  unknown")));
  top_ = 0;
  EXPECT_THAT(Render(ReportKind::kGaps, Format::kText), Not(HasSubstr("more")));
}

TEST_F(GoldenTest, TheFirstScreenStaysWithinItsColumns) {
  analysis_.devices[0].causes[0].sites[0].where = std::string(300, 'x');
  analysis_.waits[0].where = std::string(300, 'y');
  const std::string text = Render(ReportKind::kSummary, Format::kText);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 120u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST_F(GoldenTest, NamesCannotBreakAnyFormat) {
  // Line breaks, an escape sequence, bytes that are no UTF-8, U+202E and U+009B.
  const std::string evil = "k\"\\,\n\x1b[2J\xff\xc3(\xe2\x80\xae)\xc2\x9b\u200b";
  run_.timeline.names[1] = evil;
  run_.name = run_.timeline.inputs[0].path = run_.timeline.processes[0].command_line = evil;
  analysis_.places[0] = analysis_.waits[0].where = evil;
  for (ReportKind kind : kAllReports) {
    for (Format format : {Format::kText, Format::kJson, Format::kCsv}) {
      const std::string out = Render(kind, format);
      EXPECT_EQ(out.find('\xff'), out.npos) << ReportName(kind);
      EXPECT_TRUE(out.find('\x1b') == out.npos) << ReportName(kind);
      EXPECT_EQ(out.find("\xe2\x80\xae"), out.npos) << ReportName(kind);
      EXPECT_EQ(out.find("\xc2\x9b"), out.npos) << ReportName(kind);
      EXPECT_EQ(out.find("\xe2\x80\x8b"), out.npos) << ReportName(kind);
    }
  }
}

}  // namespace
}  // namespace gpuprobe::tools

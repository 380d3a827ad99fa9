// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host samples of trace files: what the loader makes of them, whatever a file holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "proto/gpuprobe.pb.h"
#include "tests/tools/samples_fixture.h"
#include "tools/analysis/analysis.h"
#include "tools/load/trace_loader.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SamplesTest, ASampleKeepsAllThatWasSeen) {
  TraceMaker trace;
  PieceMaker piece(kT);
  const uint32_t stack =
      piece.Stack({"/usr/lib/libc.so.6+0x10a", "queue.py:171 Queue.get", "train.py:27 <module>"});
  proto::SampleRecord sample = At(kT + 20 * kMs, stack, 2);
  sample.runnable_ns = 3000;
  sample.cpu_ns = 2000;
  sample.flags = 2 | 16;
  sample.syscall = 202;
  sample.wait_target = piece.Text("futex");
  sample.gil_holder = 4712;
  piece.Sample(kPid, kPid, sample);
  piece.NameThread(kPid, kPid, "python", true);
  piece.Sample(kPid, 4712, At(kT + 20 * kMs));
  piece.NameThread(kPid, 4712, "loader");
  trace.Piece(piece.Seal(kT + 250 * kMs, {7 * kMs, 25, 1, 2, 3}));
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.samples.size(), 2u);
  const HostSample& first = t.samples[0];
  EXPECT_EQ(first.time_ns, kT + 20 * kMs);
  EXPECT_EQ(first.interval_ns, 10 * kMs);
  EXPECT_EQ(first.cpu_ns, 2000);
  EXPECT_EQ(first.runnable_ns, 3000);
  EXPECT_EQ(first.state, HostState::kBlocked);
  EXPECT_EQ(first.flags, kSampleWaitsForGil | kSampleStackCut);
  EXPECT_EQ(first.syscall, 202);
  EXPECT_EQ(t.strings[static_cast<size_t>(first.wait_target)], "futex");
  EXPECT_EQ(t.threads[static_cast<size_t>(first.gil_holder)].tid, 4712u);
  EXPECT_EQ(first.gil_holder, t.samples[1].thread);
  EXPECT_THAT(
      StackText(t, first.stack),
      ElementsAre("/usr/lib/libc.so.6+266", "queue.py:171 Queue.get", "train.py:27 <module>"));
  EXPECT_EQ(t.samples[1].stack, -1);
  EXPECT_EQ(t.samples[1].syscall, -1);
  EXPECT_EQ(t.samples[1].wait_target, -1);
  EXPECT_EQ(t.samples[1].gil_holder, -1);
  EXPECT_EQ(t.threads[static_cast<size_t>(t.samples[1].thread)].name, "loader");
  const SamplerFacts& facts = run.captures[0].sampler;
  EXPECT_TRUE(facts.known);
  EXPECT_EQ(facts.cpu_ns, 7 * kMs);
  EXPECT_EQ(facts.looks, 25u);
  EXPECT_EQ(facts.ticks_missed, 1u);
  EXPECT_EQ(facts.samples_dropped, 2u);
  EXPECT_EQ(facts.stacks_unreadable, 3u);
  EXPECT_EQ(facts.samples, 2u);
  EXPECT_TRUE(run.complete());
}

TEST_F(SamplesTest, SampledThreadsAreThoseOfTheCalls) {
  TraceMaker trace;
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 100, kT + 200, 1, 4712);
  trace.Piece(OnePiece(kT, kPid, 4712, kT + 20 * kMs));
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.calls.size(), 1u);
  ASSERT_EQ(run.timeline.samples.size(), 1u);
  EXPECT_EQ(run.timeline.calls[0].thread, run.timeline.samples[0].thread);
  EXPECT_EQ(run.timeline.processes.size(), 1u);
}

// One process, and one sample of it: what the report says of its lines of Python.
class UnreadPythonTest : public SamplesTest {
 protected:
  LoadedRun Run(std::string_view version, std::string_view reason, std::string_view frame,
                std::string_view of_child = "") {
    TraceMaker trace({.executable = executable_, .start_ticks = 900});
    PieceMaker piece(kT);
    piece.Process({.pid = kPid,
                   .python_version = version,
                   .unreadable = &reason,
                   .unreadable_count = reason.empty() ? size_t{0} : size_t{1},
                   .start_ticks = 900});
    piece.Sample(kPid, kPid, At(kT + 10 * kMs, piece.Stack({frame})));
    for (const uint32_t child : {5000, 5001}) {
      if (of_child.empty()) break;
      piece.Process({.pid = child,
                     .parent_pid = kPid,
                     .python_version = "3.14.10",
                     .unreadable = &of_child,
                     .unreadable_count = 1,
                     .start_ticks = 950});
      piece.Sample(child, child, At(kT + 10 * kMs));
    }
    trace.Piece(piece.Seal(kT + 250 * kMs));
    LoadedRun run = LoadOne(&trace);
    // There is no GPU work in it, which is told, too.
    std::erase_if(run.notices, [](const std::string& notice) {
      return notice.find("a file without a record") != std::string::npos;
    });
    return run;
  }
  std::vector<std::string> Notices(std::string_view version, std::string_view reason,
                                   std::string_view frame, std::string_view of_child = "") {
    return Run(version, reason, frame, of_child).notices;
  }
  std::string executable_ = "/opt/loop";
};

TEST_F(UnreadPythonTest, IsANoticeThatSaysWhy) {
  constexpr std::string_view kInterpreter = "/usr/bin/python3.16+0x44ca63";
  const LoadedRun run = Run("3.16.0", "Python: this Python version is not known", kInterpreter);
  EXPECT_EQ(run.timeline.processes[0].python_unread, "this Python version (3.16.0) is not known");
  EXPECT_THAT(run.notices,
              ElementsAre("no lines of Python: this Python version (3.16.0) is not known"));
  EXPECT_TRUE(run.complete());
  EXPECT_THAT(Notices("3.14.10", "Python: a free-threaded Python is not supported", kInterpreter),
              ElementsAre("no lines of Python: a free-threaded Python (3.14.10) is not supported"));
  EXPECT_THAT(Notices("3.8", "Python: Python before 3.9 is not supported", kInterpreter),
              ElementsAre("no lines of Python: Python before 3.9 is not supported"));
  EXPECT_THAT(Notices("", "memory: Operation not permitted", kInterpreter),
              ElementsAre("no lines of Python: its memory cannot be read (Operation not "
                          "permitted)"));
  EXPECT_THAT(Notices("", "memory: Operation not permitted", "/usr/lib/libpython3.11.so.1.0+0x1"),
              testing::SizeIs(1));
  executable_ = "/opt/venv/bin/python3";
  EXPECT_THAT(Notices("", "memory: Operation not permitted", "/opt/libloop.so+0x1a2b"),
              testing::SizeIs(1));
}

TEST_F(UnreadPythonTest, IsNoneWhereLinesShowOrNoPythonDoes) {
  EXPECT_THAT(Notices("3.12.1", "", "train.py:27 main"), testing::IsEmpty());
  // Not at first, perhaps.
  EXPECT_THAT(Notices("3.12.1", "Python: the offsets that this Python publishes cannot be",
                      "train.py:27 main"),
              testing::IsEmpty());
  EXPECT_THAT(Notices("", "memory: Operation not permitted", "/opt/libloop.so+0x1a2b"),
              testing::IsEmpty());
  EXPECT_THAT(Notices("", "threads: EMFILE: the limit of open files left none for some looks",
                      "/usr/bin/python3.16+0x1"),
              testing::IsEmpty());
}

TEST_F(UnreadPythonTest, OfSomeProcessesIsNamedByThem) {
  const LoadedRun run =
      Run("3.12.1", "", "train.py:27 main", "Python: a free-threaded Python is not supported");
  EXPECT_EQ(run.timeline.processes[0].python_unread, "");
  EXPECT_THAT(run.notices, ElementsAre("no lines of Python of pid 5000, 5001: a free-threaded "
                                       "Python (3.14.10) is not supported"));
}

TEST_F(SamplesTest, ChildrenBecomeProcessesThatAreOnlySampled) {
  TraceMaker trace({.start_ticks = 900});
  PieceMaker piece(kT);
  const std::string_view reason = "its memory may not be read";
  piece.Process({.pid = kPid,
                 .parent_pid = 1,
                 .python_version = "3.11.7",
                 .start_ticks = 900,
                 .allowed_cpus = 16});
  piece.Process({.pid = 5000,
                 .parent_pid = kPid,
                 .name = "pt_data_worker",
                 .command_line = "python train.py",
                 .python_version = "3.11.7",
                 .unreadable = &reason,
                 .unreadable_count = 1,
                 .start_ticks = 950,
                 .allowed_cpus = 4,
                 .ended = true});
  piece.Process({.pid = 5001, .parent_pid = 5000, .name = "ffmpeg", .start_ticks = 960});
  piece.Sample(5000, 5000, At(kT + 100 * kMs));
  piece.Sample(5000, 5000, At(kT + 110 * kMs));
  piece.Sample(kPid, kPid, At(kT + 20 * kMs));
  trace.Piece(piece.Seal(kT + 250 * kMs));
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.processes.size(), 3u);
  ASSERT_EQ(run.captures.size(), 3u);
  EXPECT_FALSE(t.processes[0].sampled_only);
  EXPECT_EQ(t.processes[0].python_version, "3.11.7");
  EXPECT_EQ(t.processes[0].allowed_cpus, 16u);
  EXPECT_EQ(t.processes[0].parent, -1);
  const Process& worker = t.processes[1];
  EXPECT_TRUE(worker.sampled_only);
  EXPECT_EQ(worker.pid, 5000u);
  EXPECT_EQ(worker.parent, 0);
  EXPECT_EQ(worker.host, "node1");
  EXPECT_EQ(worker.executable, "pt_data_worker");
  EXPECT_EQ(worker.command_line, "python train.py");
  EXPECT_EQ(worker.python_version, "3.11.7");
  EXPECT_EQ(worker.allowed_cpus, 4u);
  EXPECT_EQ(worker.rank, -1);
  EXPECT_TRUE(worker.ended);
  EXPECT_THAT(worker.unsampled, ElementsAre("its memory may not be read"));
  EXPECT_FALSE(worker.has_runtime_api);
  EXPECT_EQ(t.processes[2].parent, 1);
  EXPECT_EQ(TracedProcesses(t), 1u);
  EXPECT_EQ(ProcessOf(t, t.samples[1]).pid, 5000u);
  // Born and dead within the piece: looked at from 90 ms (10 ms before the first sample) to 110 ms.
  ASSERT_EQ(t.sampled.size(), 3u);
  const auto period = std::find_if(t.sampled.begin(), t.sampled.end(),
                                   [](const SampledPeriod& p) { return p.process == 1; });
  ASSERT_NE(period, t.sampled.end());
  EXPECT_EQ(period->begin_ns, kT + 90 * kMs);
  EXPECT_EQ(period->end_ns, kT + 110 * kMs);
  EXPECT_TRUE(run.complete());
  EXPECT_TRUE(run.aligned);
}

TEST_F(SamplesTest, AChildWithATraceOfItsOwnIsThatProcess) {
  TraceMaker parent({.start_ticks = 900});
  parent.Piece(OnePiece(kT, 5000, 5000, kT + 20 * kMs, 950, kPid));
  TraceMaker child({.pid = 5000, .file_id = 2, .parent_pid = kPid, .start_ticks = 950});
  child.Kernel("k", kT + 100, kT + 200, 1);
  for (const bool parent_first : {true, false}) {
    const std::string a = folder_.Path(parent_first ? "a.gpuprobe" : "d.gpuprobe");
    const std::string b = folder_.Path(parent_first ? "b.gpuprobe" : "c.gpuprobe");
    if (parent_first) {
      parent.Finish();
      child.Finish();
    }
    parent.Save(a);
    child.Save(b);
    const LoadedRun run = Load({std::min(a, b), std::max(a, b)});
    const Timeline& t = run.timeline;
    ASSERT_EQ(t.processes.size(), 2u);
    ASSERT_EQ(t.samples.size(), 1u);
    const Process& sampled = ProcessOf(t, t.samples[0]);
    EXPECT_EQ(sampled.pid, 5000u);
    EXPECT_FALSE(sampled.sampled_only);
    ASSERT_GE(sampled.parent, 0);
    EXPECT_EQ(t.processes[static_cast<size_t>(sampled.parent)].pid, kPid);
  }
}

TEST_F(SamplesTest, APidThatIsUsedAgainIsAnotherProcess) {
  TraceMaker trace({.start_ticks = 900});
  trace.Piece(OnePiece(kT, 5000, 5000, kT + 20 * kMs, 950, kPid));
  trace.CloseFrame();
  trace.Piece(OnePiece(kT + 250 * kMs, 5000, 5000, kT + 300 * kMs, 999, kPid));
  trace.CloseFrame();
  // No description in this piece: it is the one that has the pid now.
  PieceMaker piece(kT + 500 * kMs);
  piece.Sample(5000, 5000, At(kT + 520 * kMs));
  trace.Piece(piece.Seal(kT + 750 * kMs));
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.processes.size(), 3u);
  ASSERT_EQ(t.samples.size(), 3u);
  EXPECT_NE(t.samples[0].thread, t.samples[1].thread);
  EXPECT_EQ(t.samples[1].thread, t.samples[2].thread);
}

TEST_F(SamplesTest, SamplesAreSortedByThreadAndTimeOverPiecesAndFrames) {
  TraceMaker trace;
  for (int i = 3; i >= 0; --i) {
    PieceMaker piece(kT + i * 250 * kMs);
    piece.Sample(kPid, 4712, At(kT + (i * 250 + 30) * kMs));
    piece.Sample(kPid, kPid, At(kT + (i * 250 + 20) * kMs));
    piece.Sample(kPid, kPid, At(kT + (i * 250 + 10) * kMs));
    trace.Piece(piece.Seal(kT + (i + 1) * 250 * kMs));
    if (i == 2) trace.CloseFrame();
  }
  const LoadedRun run = LoadOne(&trace);
  const std::vector<HostSample>& samples = run.timeline.samples;
  ASSERT_EQ(samples.size(), 12u);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_LE(samples[i - 1].thread, samples[i].thread);
    if (samples[i - 1].thread == samples[i].thread) {
      EXPECT_LT(samples[i - 1].time_ns, samples[i].time_ns);
    }
  }
  ASSERT_EQ(run.timeline.sampled.size(), 1u);
  EXPECT_EQ(run.timeline.sampled[0].end_ns, kT + 1000 * kMs);
}

TEST_F(SamplesTest, TextsLocationsAndStacksAreSharedOverPiecesAndFiles) {
  std::vector<std::string> paths;
  for (uint32_t file = 0; file < 2; ++file) {
    TraceMaker trace({.pid = kPid + file, .file_id = 1 + file});
    for (int i = 0; i < 2; ++i) {
      PieceMaker piece(kT + i * 250 * kMs);
      // In another order, so that the ids of the pieces differ.
      if (i == 1) piece.Stack({"z.py:1 z"});
      const uint32_t stack = piece.Stack({"a.py:1 f", "a.py:2 g"});
      piece.Sample(kPid + file, kPid + file, At(kT + (i * 250 + 20) * kMs, stack));
      trace.Piece(piece.Seal(kT + (i + 1) * 250 * kMs));
    }
    paths.push_back(Save(&trace, std::to_string(file) + ".gpuprobe"));
  }
  const LoadedRun run = Load(paths);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.samples.size(), 4u);
  for (const HostSample& sample : t.samples) EXPECT_EQ(sample.stack, t.samples[0].stack);
  EXPECT_EQ(t.stacks.size(), 3u);
  EXPECT_EQ(t.locations.size(), 3u);
  EXPECT_EQ(t.strings.size(), 5u);
  for (size_t i = 0; i < t.stacks.size(); ++i) {
    EXPECT_LT(t.stacks[i].parent, static_cast<int32_t>(i));
  }
}

TEST_F(SamplesTest, APauseOfTheSamplerDividesThePeriod) {
  TraceMaker trace;
  for (int64_t begin_ms : {0, 251, 1000}) {
    trace.Piece(OnePiece(kT + begin_ms * kMs, kPid, kPid, kT + (begin_ms + 20) * kMs));
  }
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.sampled.size(), 2u);
  EXPECT_EQ(run.timeline.sampled[0].begin_ns, kT + 10 * kMs);
  EXPECT_EQ(run.timeline.sampled[0].end_ns, kT + 501 * kMs);
  EXPECT_EQ(run.timeline.sampled[1].begin_ns, kT + 1000 * kMs);
}

TEST_F(SamplesTest, WhereTwoSamplersLookTheNearestCounts) {
  TraceMaker parent({.start_ticks = 900});
  PieceMaker seen(kT);
  seen.Process({.pid = 5000, .parent_pid = kPid, .start_ticks = 950});
  for (int i = 1; i < 20; ++i) seen.Sample(5000, 5000, At(kT + i * 10 * kMs));
  parent.Piece(seen.Seal(kT + 200 * kMs));
  TraceMaker child({.pid = 5000, .file_id = 2, .parent_pid = kPid, .start_ticks = 950});
  PieceMaker own(kT + 100 * kMs);
  own.Process({.pid = 5000, .parent_pid = kPid, .start_ticks = 950});
  for (int i = 11; i < 20; ++i) own.Sample(5000, 5000, At(kT + i * 10 * kMs + 3000));
  child.Piece(own.Seal(kT + 200 * kMs));
  const LoadedRun run = Load({Save(&parent, "a.gpuprobe"), Save(&child, "b.gpuprobe")});
  const Timeline& t = run.timeline;
  // Until the child's own sampler started, at 100 ms, the parent's saw it.
  ASSERT_EQ(t.samples.size(), 19u);
  for (size_t i = 0; i < t.samples.size(); ++i) {
    EXPECT_EQ(t.samples[i].time_ns,
              kT + (static_cast<int64_t>(i) + 1) * 10 * kMs + (i < 10 ? 0 : 3000));
  }
  EXPECT_EQ(t.sampled.size(), 1u);
  EXPECT_THAT(run.notices,
              Contains(HasSubstr("9 host samples of processes at which two samplers")));
}

TEST_F(SamplesTest, AStepOfTheWallClockShiftsTheSamplesOfThatRecorder) {
  TraceMaker before({.boot_id = "b", .start_ticks = 900});
  before.Piece(OnePiece(kT, kPid, kPid, kT + 20 * kMs, 900));
  const int64_t step = 5'000'000'000;
  TraceMaker after({.pid = 4800,
                    .boot_id = "b",
                    .begin_ns = kT + step,
                    .trace_minus_monotonic_ns = 900'000'000'000 + step,
                    .file_id = 2});
  PieceMaker piece(kT + step);
  piece.Process({.pid = 5000, .parent_pid = 4800, .start_ticks = 950});
  piece.Sample(5000, 5000, At(kT + step + 20 * kMs));
  after.Piece(piece.Seal(kT + step + 250 * kMs));
  const LoadedRun run = Load({Save(&before, "a.gpuprobe"), Save(&after, "b.gpuprobe")});
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.samples.size(), 2u);
  EXPECT_EQ(t.samples[0].time_ns, kT + 20 * kMs);
  EXPECT_EQ(t.samples[1].time_ns, kT + 20 * kMs);
  for (const SampledPeriod& period : t.sampled) EXPECT_EQ(period.begin_ns, kT + 10 * kMs);
}

TEST_F(SamplesTest, ImpossibleTimesAreLeftOutAndCounted) {
  TraceMaker trace;
  PieceMaker piece(kT);
  piece.Sample(kPid, kPid, At(-5 * kMs));
  piece.Sample(kPid, kPid, At(INT64_MAX - kMs));
  proto::SampleRecord sample = At(kT + 20 * kMs);
  sample.interval_ns = 2 * kT;  // before 1970
  piece.Sample(kPid, kPid, sample);
  sample = At(kT + 30 * kMs);
  sample.cpu_ns = uint64_t{1} << 62;
  piece.Sample(kPid, kPid, sample);
  piece.Sample(kPid, kPid, At(kT + 40 * kMs));
  trace.Piece(piece.Seal(kT + 250 * kMs));
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.samples.size(), 1u);
  EXPECT_EQ(run.timeline.samples[0].time_ns, kT + 40 * kMs);
  EXPECT_THAT(run.notices, Contains(HasSubstr("4 host samples with impossible times")));
}

TEST_F(SamplesTest, NobodyIsHisOwnAncestor) {
  TraceMaker trace({.start_ticks = 900});
  PieceMaker piece(kT);
  piece.Process({.pid = 5000, .parent_pid = 5001, .start_ticks = 1});
  piece.Process({.pid = 5001, .parent_pid = 5002, .start_ticks = 2});
  piece.Process({.pid = 5002, .parent_pid = 5000, .start_ticks = 3});
  piece.Process({.pid = 5003, .parent_pid = 5003, .start_ticks = 4});
  piece.Process({.pid = 5004, .parent_pid = 77, .start_ticks = 5});
  trace.Piece(piece.Seal(kT + 250 * kMs));
  const LoadedRun run = LoadOne(&trace);
  const std::vector<Process>& processes = run.timeline.processes;
  ASSERT_EQ(processes.size(), 6u);
  for (size_t p = 0; p < processes.size(); ++p) {
    int32_t at = static_cast<int32_t>(p);
    for (size_t steps = 0; at >= 0; ++steps) {
      ASSERT_LT(steps, processes.size());
      at = processes[static_cast<size_t>(at)].parent;
    }
  }
  EXPECT_EQ(processes[4].parent, 0);  // not itself: the recorder
  EXPECT_EQ(processes[5].parent, 0);
}

TEST_F(SamplesTest, BuildIdsOfModulesAreKeptOnce) {
  TraceMaker trace;
  for (const char* id : {"one", "one", "two"}) {
    PieceMaker piece(kT);
    piece.Text("other");
    piece.Module("/lib/libc.so.6", id);
    trace.Piece(piece.Seal(kT + 250 * kMs));
  }
  const Timeline t = LoadOne(&trace).timeline;
  ASSERT_EQ(t.modules.size(), 2u);
  EXPECT_EQ(t.strings[static_cast<size_t>(t.modules[0].file)], "/lib/libc.so.6");
  EXPECT_EQ(t.modules[0].file, t.modules[1].file);
  EXPECT_EQ(t.modules[0].build_id, "one");
  EXPECT_EQ(t.modules[1].build_id, "two");
}

TEST_F(SamplesTest, TheLastUsageCounts) {
  TraceMaker trace;
  trace.Usage({5, 4, 3, 2});
  trace.CloseFrame();
  trace.Usage({50, 40, 30, -20});
  const LoadedRun run = LoadOne(&trace);
  const Process& process = run.timeline.processes[0];
  EXPECT_EQ(process.wall_ns, 50);
  EXPECT_EQ(process.user_cpu_ns, 40);
  EXPECT_EQ(process.system_cpu_ns, 30);
  EXPECT_EQ(process.children_cpu_ns, 0);
}

template <class Column>
void Fill(std::mt19937_64* random, Column* column) {
  for (uint64_t n = (*random)() % 12; n > 0; --n) {
    const uint64_t value = (*random)() % 3 ? (*random)() % 6 : (*random)() >> (*random)() % 64;
    column->Add(static_cast<typename Column::value_type>(value));
  }
}

std::string WildPiece(std::mt19937_64* random) {
  const auto below = [random](uint64_t n) { return (*random)() % n; };
  const auto wild = [&] { return (*random)() >> below(64); };
  HostSamples piece;
  piece.set_base_ns(below(3) ? kT : static_cast<int64_t>(wild()));
  piece.set_begin_ns(below(3) ? kT : static_cast<int64_t>(wild()));
  piece.set_end_ns(below(3) ? kT + 250 * kMs : static_cast<int64_t>(wild()));
  piece.set_unit_ns(below(3) ? 1000 : static_cast<uint32_t>(wild()));
  piece.set_sampler_cpu_ns(wild());
  piece.set_looks(wild());
  for (uint64_t n = below(4); n > 0; --n) piece.add_strings(std::string(below(3), 's'));
  Fill(random, piece.mutable_location_function_delta());
  Fill(random, piece.mutable_location_file_delta());
  Fill(random, piece.mutable_location_line());
  Fill(random, piece.mutable_location_offset());
  Fill(random, piece.mutable_location_kind());
  Fill(random, piece.mutable_node_parent_distance());
  Fill(random, piece.mutable_node_location_delta());
  for (uint64_t n = below(4); n > 0; --n) {
    ThreadSamples& thread = *piece.add_threads();
    thread.set_pid(static_cast<uint32_t>(below(4)));
    thread.set_tid(static_cast<uint32_t>(below(4)));
    thread.set_main(below(2) == 0);
    Fill(random, thread.mutable_time_delta());
    Fill(random, thread.mutable_interval_excess());
    Fill(random, thread.mutable_cpu());
    Fill(random, thread.mutable_runnable());
    Fill(random, thread.mutable_state());
    Fill(random, thread.mutable_stack());
    Fill(random, thread.mutable_syscall_plus1());
    Fill(random, thread.mutable_wait_target());
    Fill(random, thread.mutable_flags());
    Fill(random, thread.mutable_gil_holder());
  }
  for (uint64_t n = below(4); n > 0; --n) {
    SampledProcess& process = *piece.add_processes();
    process.set_pid(static_cast<uint32_t>(below(4)));
    process.set_parent_pid(static_cast<uint32_t>(below(4)));
    process.set_start_ticks(below(3));
    process.set_ended(below(2) == 0);
  }
  return piece.SerializeAsString();
}

TEST_F(SamplesTest, WhateverAPieceHoldsTheTimelineIsSound) {
  std::mt19937_64 random(5);
  uint64_t kept = 0;
  for (int round = 0; round < 20; ++round) {
    TraceMaker first({.pid = 1, .start_ticks = 1}),
        second({.pid = 2, .file_id = 2, .start_ticks = 1});
    for (TraceMaker* trace : {&first, &second}) {
      for (int i = 0; i < 4; ++i) trace->Piece(WildPiece(&random));
    }
    const LoadedRun run = Load({Save(&first, "a.gpuprobe"), Save(&second, "b.gpuprobe")});
    const Timeline& t = run.timeline;
    ASSERT_EQ(run.captures.size(), t.processes.size());
    const auto in = [](int32_t id, const auto& items) {
      return id >= -1 && id < static_cast<int32_t>(items.size());
    };
    for (const CodeLocation& location : t.locations) {
      ASSERT_TRUE(in(location.function, t.strings) && in(location.file, t.strings));
    }
    for (size_t i = 0; i < t.stacks.size(); ++i) {
      ASSERT_LT(t.stacks[i].parent, static_cast<int32_t>(i));
      ASSERT_TRUE(in(t.stacks[i].location, t.locations));
    }
    for (const Thread& thread : t.threads) {
      ASSERT_TRUE(thread.process >= 0 && in(thread.process, t.processes));
    }
    for (size_t i = 0; i < t.samples.size(); ++i) {
      const HostSample& sample = t.samples[i];
      ASSERT_TRUE(sample.thread >= 0 && in(sample.thread, t.threads));
      ASSERT_TRUE(in(sample.stack, t.stacks) && in(sample.wait_target, t.strings) &&
                  in(sample.gil_holder, t.threads) && sample.syscall >= -1);
      ASSERT_LE(sample.state, HostState::kStopped);
      ASSERT_TRUE(sample.interval_ns >= 0 && sample.cpu_ns >= 0 && sample.runnable_ns >= 0);
      ASSERT_GE(sample.time_ns, sample.interval_ns);
      if (i > 0) {
        ASSERT_LE(std::pair(t.samples[i - 1].thread, t.samples[i - 1].time_ns),
                  std::pair(sample.thread, sample.time_ns));
      }
    }
    kept += t.samples.size();
    for (size_t i = 0; i < t.sampled.size(); ++i) {
      ASSERT_LT(t.sampled[i].begin_ns, t.sampled[i].end_ns);
      ASSERT_TRUE(t.sampled[i].process >= 0 && in(t.sampled[i].process, t.processes));
      if (i > 0) {
        ASSERT_LE(t.sampled[i - 1].begin_ns, t.sampled[i].begin_ns);
      }
    }
    for (const Process& process : t.processes) {
      ASSERT_TRUE(in(process.parent, t.processes));
    }
    const Analysis analysis = Analyse(t, {});
    for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
      EXPECT_NE(RenderReport(ReportKind::kInfo, format, {run, analysis, {}, std::nullopt}), "");
    }
  }
  EXPECT_GT(kept, 100u);
}

}  // namespace
}  // namespace gpuprobe::tools

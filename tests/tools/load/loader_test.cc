// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace files, written by the shipped writer, as the loader makes a Timeline of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/tools/load/loader_fixture.h"
#include "tests/tools/trace_maker.h"
#include "tools/load/loss_causes.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LoaderTest, KernelsCopiesSetsAndGraphsBecomeOpsInOrderOfTime) {
  TraceMaker trace;
  trace.Device(0, 0xab, "NVIDIA H200");
  trace.Copy(1, 1, 3, 4096, kT + 500, kT + 600, 2);
  trace.Kernel("_Z3addPf", kT + 100, kT + 200, 1);
  trace.Graph(5, kT + 900, kT + 950, 4);
  trace.Set(64, kT + 700, kT + 710, 3);
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.ops.size(), 4u);
  EXPECT_EQ(t.ops[0].kind, OpKind::kKernel);
  EXPECT_EQ(t.ops[0].start_ns, kT + 100);
  EXPECT_EQ(t.ops[0].end_ns, kT + 200);
  EXPECT_EQ(t.names[static_cast<size_t>(t.ops[0].name)], "_Z3addPf");
  EXPECT_EQ(t.shapes[static_cast<size_t>(t.ops[0].shape)].block[0], 128u);
  EXPECT_EQ(t.ops[1].kind, OpKind::kCopy);
  EXPECT_EQ(t.ops[1].bytes, 4096u);
  EXPECT_EQ(t.copy_shapes[static_cast<size_t>(t.ops[1].shape)].src_kind, 1);
  EXPECT_EQ(t.ops[2].kind, OpKind::kSet);
  EXPECT_EQ(t.ops[2].bytes, 64u);
  EXPECT_EQ(t.ops[3].kind, OpKind::kGraph);
  EXPECT_EQ(t.ops[3].graph_id, 5u);
  ASSERT_EQ(t.devices.size(), 1u);
  EXPECT_EQ(t.devices[0].uuid, "GPU-abababab-abab-abab-abab-abababababab");
  EXPECT_EQ(t.devices[0].name, "NVIDIA H200");
  ASSERT_EQ(t.processes.size(), 1u);
  EXPECT_EQ(t.processes[0].pid, 4711u);
  EXPECT_EQ(t.processes[0].command_line, "python train.py");
  EXPECT_TRUE(t.processes[0].ended);
  EXPECT_TRUE(t.processes[0].has_runtime_api);
  EXPECT_FALSE(t.processes[0].has_driver_api);
  EXPECT_TRUE(run.complete());
}

TEST_F(LoaderTest, TheTwoEndsOfAnNvtxRangeMeetAcrossFrames) {
  TraceMaker trace;
  trace.Marker(2, 1, kT + 100, 4711, "step 1");
  trace.Marker(2, 2, kT + 110, 4711, "sum", "NCCL");
  trace.Marker(2, 3, kT + 120, 4711, "never ended");
  trace.Marker(1, 4, kT + 125, 4711, "a mark");
  trace.CloseFrame();
  trace.Marker(4, 2, kT + 130, 4712);
  trace.Marker(4, 1, kT + 190, 4711);
  trace.Marker(4, 5, kT + 300, 4712);  // another thread's buffer came before
  trace.Marker(4, 77, kT + 310, 4712);
  trace.CloseFrame();
  trace.Marker(2, 5, kT + 200, 4711, "step 2");
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.markers.size(), 3u);
  EXPECT_EQ(t.markers[0].begin_ns, kT + 100);
  EXPECT_EQ(t.markers[0].end_ns, kT + 190);
  EXPECT_EQ(t.markers[1].end_ns, kT + 130);
  EXPECT_EQ(t.threads[static_cast<size_t>(t.markers[1].thread)].tid, 4711u);
  EXPECT_EQ(t.markers[2].begin_ns, kT + 200);
  EXPECT_EQ(t.markers[2].end_ns, kT + 300);
  EXPECT_EQ(t.markers[2].name, t.markers[0].name);
  EXPECT_NE(t.markers[2].numbers, t.markers[0].numbers);
  EXPECT_EQ(t.marker_names[static_cast<size_t>(t.markers[0].name)].folded, "step #");
  EXPECT_EQ(t.marker_names[static_cast<size_t>(t.markers[1].name)].domain, "NCCL");
  EXPECT_TRUE(t.names.empty());
  EXPECT_TRUE(run.complete());
}

TEST_F(LoaderTest, OpsOfManyStreamsAndFramesComeSorted) {
  TraceMaker trace;
  std::vector<int64_t> expected;
  for (int frame = 0; frame < 7; ++frame) {
    for (int i = 0; i < 300; ++i) {
      // Frames overlap by a third, streams interleave, and one stream is written backwards.
      const int64_t start = kT + frame * 20'000 + (i % 3 == 2 ? 300 - i : i) * 100 + i % 7;
      trace.Kernel("k", start, start + 10, static_cast<uint32_t>(i), 0,
                   static_cast<uint32_t>(7 + i % 3));
      expected.push_back(start);
    }
    trace.CloseFrame();
  }
  const LoadedRun run = LoadOne(&trace);
  std::sort(expected.begin(), expected.end());
  std::vector<int64_t> starts;
  for (const GpuOp& op : run.timeline.ops) starts.push_back(op.start_ns);
  EXPECT_EQ(starts, expected);
}

TEST_F(LoaderTest, AnOperationIsLinkedToTheCallThatSubmittedIt) {
  TraceMaker trace;
  trace.Call("cudaStreamSynchronize", MadeClass::kSync, kT + 300, kT + 900, 12);
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 100, kT + 110, 11);
  trace.Kernel("k", kT + 200, kT + 800, 11);
  trace.Kernel("not seen", kT + 1000, kT + 1100, 99);
  trace.Sync(3, kT + 310, kT + 890, 12);
  const LoadedRun run = LoadOne(&trace);
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.ops.size(), 2u);
  ASSERT_EQ(t.calls.size(), 2u);
  ASSERT_EQ(t.ops[0].submission, 0);
  EXPECT_EQ(t.symbols[static_cast<size_t>(t.calls[0].symbol)].name, "cudaLaunchKernel");
  EXPECT_EQ(t.symbols[static_cast<size_t>(t.calls[0].symbol)].call_class, CallClass::kLaunch);
  EXPECT_EQ(t.ops[1].submission, -1);
  ASSERT_EQ(t.syncs.size(), 1u);
  EXPECT_EQ(t.syncs[0].call, 1);
}

TEST_F(LoaderTest, DriverCallsBeneathARuntimeCallAreFolded) {
  TraceMaker trace;
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 100, kT + 200, 1, 4711);
  trace.Call("cuLaunchKernel", MadeClass::kLaunch, kT + 110, kT + 190, 1, 4711, ApiDomain::kDriver);
  // Launched through the driver alone (cuBLAS, Triton), and the same id on another thread: they
  // stay.
  trace.Call("cuLaunchKernelEx", MadeClass::kLaunch, kT + 300, kT + 310, 2, 4711,
             ApiDomain::kDriver);
  trace.Call("cuMemAlloc", MadeClass::kAlloc, kT + 120, kT + 130, 1, 5000, ApiDomain::kDriver);
  trace.Kernel("k", kT + 400, kT + 500, 2);
  const LoadedRun run = LoadOne(&trace);
  std::vector<std::string> names;
  for (const HostCall& call : run.timeline.calls) {
    names.push_back(run.timeline.symbols[static_cast<size_t>(call.symbol)].name);
  }
  EXPECT_THAT(names, ElementsAre("cudaLaunchKernel", "cuMemAlloc", "cuLaunchKernelEx"));
  EXPECT_EQ(run.folded_driver_calls, 1u);
  EXPECT_EQ(run.timeline.ops[0].submission, 2);
}

TEST_F(LoaderTest, ADeviceDescribedAfterItsFirstWorkIsOneDevice) {
  // Work of other threads can reach the trace before the buffer in which CUPTI describes the
  // device.
  TraceMaker first({.pid = 1, .file_id = 1}), second({.pid = 2, .file_id = 2});
  first.Device(0, 0xab, "NVIDIA H200");
  first.Kernel("k", kT + 100, kT + 200, 1);
  second.Kernel("k", kT + 300, kT + 400, 1);
  second.CloseFrame();
  second.Device(0, 0xab, "NVIDIA H200");
  second.Kernel("k", kT + 500, kT + 600, 2);
  first.Finish();
  second.Finish();
  const LoadedRun run = Load({Save(first, "first.gpuprobe"), Save(second, "second.gpuprobe")});
  ASSERT_EQ(run.timeline.devices.size(), 1u);
  EXPECT_EQ(run.timeline.devices[0].name, "NVIDIA H200");
  for (const GpuOp& op : run.timeline.ops) EXPECT_EQ(op.device, 0);
  EXPECT_EQ(run.timeline.streams.size(), 2u) << "one a process";
  for (const Stream& stream : run.timeline.streams) EXPECT_EQ(stream.device, 0);
}

TEST_F(LoaderTest, ADeviceDescribedLateGetsItsName) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.CloseFrame();
  trace.Device(0, 0xab, "NVIDIA H200");
  trace.Kernel("k", kT + 300, kT + 400, 2);
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.devices.size(), 1u);
  EXPECT_EQ(run.timeline.devices[0].name, "NVIDIA H200");
}

TEST_F(LoaderTest, AmongCallsOfOneIdTheOneThatSubmitsWins) {
  TraceMaker trace;
  trace.Call("cuModuleGetFunction", MadeClass::kOther, kT + 100, kT + 105, 1, 4711,
             ApiDomain::kDriver);
  trace.Call("cuLaunchKernel", MadeClass::kLaunch, kT + 110, kT + 120, 1, 4711, ApiDomain::kDriver);
  trace.Kernel("k", kT + 200, kT + 300, 1);
  const LoadedRun run = LoadOne(&trace);
  EXPECT_EQ(run.timeline.ops[0].submission, 1);
}

TEST_F(LoaderTest, GraphNodesShareOneLaunch) {
  TraceMaker trace;
  trace.Call("cudaGraphLaunch", MadeClass::kLaunch, kT + 100, kT + 120, 1);
  for (int i = 0; i < 50; ++i) trace.Kernel("node", kT + 200 + i * 10, kT + 205 + i * 10, 1);
  const LoadedRun run = LoadOne(&trace);
  EXPECT_EQ(std::count_if(run.timeline.ops.begin(), run.timeline.ops.end(),
                          [](const GpuOp& op) { return op.submission == 0; }),
            50);
}

TEST_F(LoaderTest, DevicesOfSeveralProcessesAreMergedByUuid) {
  MadeProcess first, second;
  second.pid = 4712;
  second.file_id = 2;
  TraceMaker a(first), b(second);
  // The same GPU is device 0 of one process and device 1 of the other (CUDA_VISIBLE_DEVICES).
  a.Device(0, 0x11, "NVIDIA H200");
  a.Kernel("k", kT + 1, kT + 2, 1, 0);
  b.Device(1, 0x11, "NVIDIA H200");
  b.Device(0, 0x22, "NVIDIA H200");
  b.Kernel("k", kT + 3, kT + 4, 1, 1);
  b.Kernel("k", kT + 5, kT + 6, 2, 0);
  a.Finish();
  b.Finish();
  const LoadedRun run = Load({Save(a, "a.gpuprobe"), Save(b, "b.gpuprobe")});
  ASSERT_EQ(run.timeline.devices.size(), 2u);
  ASSERT_EQ(run.timeline.ops.size(), 3u);
  EXPECT_EQ(run.timeline.ops[0].device, run.timeline.ops[1].device);
  EXPECT_NE(run.timeline.ops[0].device, run.timeline.ops[2].device);
  EXPECT_NE(run.timeline.ops[0].stream, run.timeline.ops[1].stream)
      << "streams belong to a process";
  EXPECT_EQ(run.timeline.names.size(), 1u + run.timeline.symbols.size());
}

TEST_F(LoaderTest, CorrelationsOfDifferentProcessesAreNotMixedUp) {
  MadeProcess first, second;
  second.pid = 4712;
  second.file_id = 2;
  TraceMaker a(first), b(second);
  a.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 10, kT + 11, 1);
  b.Kernel("k", kT + 20, kT + 30, 1);
  a.Finish();
  b.Finish();
  const LoadedRun run = Load({Save(a, "a.gpuprobe"), Save(b, "b.gpuprobe")});
  EXPECT_EQ(run.timeline.ops[0].submission, -1);
}

TEST_F(LoaderTest, AStepOfTheWallClockBetweenProcessesIsTakenOut) {
  MadeProcess first, second;
  second.pid = 4712;
  second.file_id = 2;
  second.trace_minus_monotonic_ns += 11'560'000'000;  // stepped by 11.56 s before it started
  second.begin_ns += 11'560'000'000;
  TraceMaker a(first), b(second);
  a.Kernel("k", kT + 100, kT + 200, 1);
  b.Kernel("k", kT + 11'560'000'000 + 100, kT + 11'560'000'000 + 200, 1);
  a.Finish();
  b.Finish();
  const LoadedRun run = Load({Save(a, "a.gpuprobe"), Save(b, "b.gpuprobe")});
  EXPECT_TRUE(run.aligned);
  EXPECT_EQ(run.timeline.ops[0].start_ns, run.timeline.ops[1].start_ns);
  EXPECT_EQ(run.captures[1].clock.shift_ns, -11'560'000'000);
  EXPECT_EQ(run.timeline.processes[0].capture_end_ns, run.timeline.processes[1].capture_end_ns);
}

TEST_F(LoaderTest, ReadingErrorsOfTheClocksShiftNothing) {
  MadeProcess first, second;
  second.file_id = 2;
  second.trace_minus_monotonic_ns += kSameClockNs - 1;
  TraceMaker a(first), b(second);
  a.Kernel("k", kT + 100, kT + 200, 1);
  b.Kernel("k", kT + 100, kT + 200, 1);
  a.Finish();
  b.Finish();
  const LoadedRun run = Load({Save(a, "a.gpuprobe"), Save(b, "b.gpuprobe")});
  EXPECT_EQ(run.timeline.ops[1].start_ns, kT + 100);
  EXPECT_EQ(run.captures[1].clock.shift_ns, 0);
}

TEST_F(LoaderTest, FilesOfTwoHostsAreNotAlignedAndSaySo) {
  MadeProcess first, second;
  second.file_id = 2;
  second.boot_id = "boot-b";
  second.host = "node2";
  second.trace_minus_monotonic_ns += 11'560'000'000;
  TraceMaker a(first), b(second);
  a.Kernel("k", kT + 100, kT + 200, 1);
  b.Kernel("k", kT + 100, kT + 200, 1);
  a.Finish();
  b.Finish();
  const LoadedRun run = Load({Save(a, "a.gpuprobe"), Save(b, "b.gpuprobe")});
  EXPECT_FALSE(run.aligned);
  EXPECT_EQ(run.timeline.ops[1].start_ns, kT + 100);
  ASSERT_EQ(run.notices.size(), 1u);
  EXPECT_THAT(run.notices[0], HasSubstr("not aligned"));
}

TEST_F(LoaderTest, RecordsWithoutTimesAreCountedAndNotUsed) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.Kernel("k", 0, 0, 2, 0, 7, Timing::kMissing);
  trace.Kernel("k", kT + 300, 0, 3, 0, 7, Timing::kUnfinished);
  trace.Kernel("k", 5, 3, 4, 0, 7, Timing::kInvalid);
  const LoadedRun run = LoadOne(&trace);
  EXPECT_EQ(run.timeline.ops.size(), 1u);
  std::vector<int> timings;
  for (const UntimedOp& op : run.timeline.untimed) timings.push_back(op.timing);
  EXPECT_THAT(timings, ::testing::UnorderedElementsAre(1, 2, 3));
}

// Of a clock that stepped, or of damage: years of a run of microseconds.
TEST_F(LoaderTest, RecordsOutsideOfTheProcesssLifeAreCountedAndNotUsed) {
  constexpr int64_t kYearNs = 365ll * 86'400 * 1'000'000'000;
  constexpr int64_t kNow = 1'700'000'000'000'000'000;
  MadeProcess process;
  process.begin_ns = kNow;
  TraceMaker trace(process);
  trace.Kernel("k", kNow + 100, kNow + 200, 1);
  trace.HoldClock();
  trace.Kernel("k", kNow + 10 * kYearNs, kNow + 10 * kYearNs + 100, 2);
  trace.Kernel("k", 100, 200, 3);
  trace.Kernel("k", kNow + 250, kNow + 10 * kYearNs, 4);
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kNow + kYearNs, kNow + kYearNs + 10, 5);
  trace.Kernel("k", kNow + 300, kNow + 400, 6);
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_EQ(run.timeline.ops[1].end_ns, kNow + 400);
  EXPECT_EQ(run.timeline.untimed.size(), 3u);
  EXPECT_TRUE(run.timeline.calls.empty());
  EXPECT_THAT(run.notices, ElementsAre(HasSubstr("1 host record with impossible times")));
  EXPECT_LT(run.timeline.processes[0].capture_end_ns, kNow + kYearNs);
  EXPECT_GT(run.timeline.processes[0].capture_begin_ns, 200);
}

TEST_F(LoaderTest, AKernelInAnotherClockDomainIsFlaggedNotUsed) {
  TraceMaker trace;
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 100, kT + 110, 1);
  trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 200, kT + 210, 2);
  trace.Kernel("k", kT + 99, kT + 150, 1);  // clock conversion error: kept
  trace.Kernel("k", kT - 100'000'000'000, kT - 99'999'999'000, 2);
  const LoadedRun run = LoadOne(&trace);
  ASSERT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_EQ(run.timeline.ops[0].correlation, 1u);
  ASSERT_EQ(run.timeline.untimed.size(), 1u);
  EXPECT_EQ(run.timeline.untimed[0].timing, 3);
  ASSERT_EQ(run.notices.size(), 1u);
  EXPECT_THAT(run.notices[0], HasSubstr("1 GPU record"));
}

TEST_F(LoaderTest, DurationsThatWouldOverflowInSumsAreNotUsed) {
  TraceMaker trace;
  for (uint32_t i = 0; i < 5; ++i) {
    trace.Kernel("k", 100, int64_t{1} << 61, i);
    trace.Call("cudaLaunchKernel", MadeClass::kLaunch, 100, int64_t{1} << 61, 100 + i);
  }
  const LoadedRun run = LoadOne(&trace);
  int64_t sum = 0;
  for (const GpuOp& op : run.timeline.ops) {
    ASSERT_FALSE(__builtin_add_overflow(sum, op.end_ns - op.start_ns, &sum));
  }
  EXPECT_EQ(run.timeline.ops.size() + run.timeline.untimed.size(), 5u);
  EXPECT_GT(run.timeline.untimed.size(), 0u);
}

TEST_F(LoaderTest, OverheadKindsAreTheProfilersOrTheApplications) {
  TraceMaker trace;
  const std::vector<uint32_t> kinds = {1,       1 << 16, 2 << 16, 3 << 16, 4 << 16,
                                       5 << 16, 6 << 16, 7 << 16, 8 << 16};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const int64_t start = kT + static_cast<int64_t>(i) * 10;
    trace.Overhead(kinds[i], start, start + 5, i == 0 ? 4711 : 0);
  }
  const LoadedRun run = LoadOne(&trace);
  std::vector<bool> profiler;
  for (const OverheadOp& op : run.timeline.overheads) profiler.push_back(op.profiler);
  EXPECT_THAT(profiler, ElementsAre(false, true, true, true, false, false, false, true, true));
  EXPECT_GE(run.timeline.overheads[0].thread, 0);
  EXPECT_TRUE(run.timeline.threads[static_cast<size_t>(run.timeline.overheads[0].thread)].main);
}

TEST_F(LoaderTest, LossesAndBlindPeriodsAreKeptWithTheirTimes) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.Loss(LossCause::kCuptiDropped, 120, kT + 300, kT + 400);
  trace.Loss(LossCause::kNameTableFull, 3, kT + 300, kT + 400);
  trace.Blind(kT + 500, 0, "libkineto.so", "cuptiSubscribe");
  trace.CloseFrame();
  trace.Blind(kT + 500, kT + 900, "libkineto.so", "cuptiSubscribe");
  const LoadedRun run = LoadOne(&trace);
  EXPECT_FALSE(run.complete());
  ASSERT_EQ(run.timeline.losses.size(), 2u);
  ASSERT_EQ(run.timeline.blinds.size(), 2u)
      << "names replaced hide nothing; one period is one period";
  EXPECT_EQ(run.timeline.blinds[0].why, Blind::Why::kLoss);
  EXPECT_EQ(run.timeline.blinds[0].begin_ns, kT + 300);
  EXPECT_EQ(run.timeline.blinds[1].why, Blind::Why::kOtherClient);
  EXPECT_EQ(run.timeline.blinds[1].begin_ns, kT + 500);
  EXPECT_EQ(run.timeline.blinds[1].end_ns, kT + 900);
  EXPECT_THAT(run.timeline.blinds[1].who, HasSubstr("libkineto.so"));
}

TEST_F(LoaderTest, BuffersThatCuptiKeptAreALossSinceAFlushLastBroughtRecords) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.CloseFrame();
  trace.CloseFrame();  // a frame that holds no record
  trace.Kernel("k", kT + 800, kT + 900, 2);
  trace.Finish(2);
  const LoadedRun run = Load({Save(trace, "kept.gpuprobe")});
  EXPECT_FALSE(run.complete());
  ASSERT_EQ(run.timeline.losses.size(), 1u);
  EXPECT_EQ(run.timeline.losses[0].cause, kLossNotReturned);
  EXPECT_EQ(run.timeline.losses[0].count, 2u);
  ASSERT_EQ(run.timeline.blinds.size(), 1u);
  const Blind& blind = run.timeline.blinds[0];
  EXPECT_EQ(blind.why, Blind::Why::kLoss);
  EXPECT_GE(blind.begin_ns, kT + 200);
  EXPECT_LT(blind.begin_ns, kT + 800);
  EXPECT_EQ(blind.end_ns, run.timeline.processes[0].capture_end_ns);
}

TEST_F(LoaderTest, ACaptureThatIsEmptyBecauseCuptiKeptItIsNotCalledEmpty) {
  TraceMaker trace;
  trace.CloseFrame();
  trace.Finish(1);
  const LoadedRun run = Load({Save(trace, "kept.gpuprobe")});
  EXPECT_FALSE(run.complete());
  EXPECT_TRUE(run.notices.empty());
}

TEST_F(LoaderTest, ADamagedFrameCostsItsRecordsAndIsBlindMeanwhile) {
  TraceMaker trace;
  for (int frame = 0; frame < 3; ++frame) {
    const int64_t start = kT + frame * 1'000'000;
    trace.Kernel("k", start, start + 100, static_cast<uint32_t>(frame));
    trace.CloseFrame();
  }
  trace.Finish();
  std::string bytes = trace.bytes();
  bytes[trace.frames()[1] + 30] ^= 0x40;
  std::ofstream(folder_.Path("d.gpuprobe"), std::ios::binary) << bytes;
  const LoadedRun run = Load({folder_.Path("d.gpuprobe")});
  EXPECT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_FALSE(run.complete());
  EXPECT_EQ(run.timeline.inputs[0].damaged_bytes, trace.frames()[2] - trace.frames()[1]);
  EXPECT_THAT(run.timeline.inputs[0].problem, HasSubstr("damaged"));
  ASSERT_EQ(run.timeline.blinds.size(), 1u);
  EXPECT_EQ(run.timeline.blinds[0].why, Blind::Why::kDamage);
  EXPECT_LT(run.timeline.blinds[0].begin_ns, kT + 1'000'100);
  EXPECT_GT(run.timeline.blinds[0].end_ns, kT + 1'000'000);
}

TEST_F(LoaderTest, AFileWithoutEndIsIncomplete) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.CloseFrame();
  const LoadedRun run = Load({Save(trace, "killed.gpuprobe")});
  EXPECT_FALSE(run.complete());
  EXPECT_FALSE(run.timeline.processes[0].ended);
  EXPECT_THAT(run.timeline.inputs[0].problem, HasSubstr("not closed"));
}

TEST_F(LoaderTest, EmptyCapturesAreCompleteWithANotice) {
  std::ofstream(folder_.Path("zero.gpuprobe")) << "";
  TraceMaker heartbeat;
  heartbeat.CloseFrame();
  const LoadedRun run =
      Load({folder_.Path("zero.gpuprobe"), Save(heartbeat, "heartbeat.gpuprobe")});
  EXPECT_TRUE(run.complete());
  ASSERT_EQ(run.notices.size(), 1u);
  EXPECT_THAT(run.notices[0], HasSubstr("2 empty captures"));
}

TEST_F(LoaderTest, ClockFactsTellDriftAndUncertainty) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 2'000'000'000, 1);
  trace.CloseFrame();
  trace.Kernel("k", kT + 3'000'000'000, kT + 4'000'000'000, 2);
  const LoadedRun run = LoadOne(&trace);
  const ClockFacts& clock = run.captures[0].clock;
  EXPECT_EQ(clock.pairs, 2u);
  EXPECT_EQ(clock.trace_minus_monotonic_ns, 900'000'000'000);
  EXPECT_EQ(clock.last_trace_ns - clock.first_trace_ns, 2'000'000'000);
  EXPECT_EQ(clock.uncertainty_ns, 60u);
  EXPECT_EQ(clock.monotonic_wobble_ns, 0);
  EXPECT_TRUE(clock.cupti_read);
  EXPECT_TRUE(run.captures[0].cost.known);
  EXPECT_EQ(run.captures[0].settings.size(), 2u);
}

TEST_F(LoaderTest, TurningItselfOffMakesTheCaptureIncomplete) {
  MadeProcess process;
  process.off_reason = "cuptiActivityEnable failed";
  TraceMaker trace(process);
  const LoadedRun run = LoadOne(&trace);
  EXPECT_FALSE(run.complete());
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host samples of trace files: what `info` and `dump` show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/tools/samples_fixture.h"
#include "tools/analysis/analysis.h"
#include "tools/dump/report_dump.h"
#include "tools/format/syscall_names.h"
#include "tools/load/trace_loader.h"
#include "tools/report/output.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;

class ShownSamplesTest : public SamplesTest {
 protected:
  std::string Trace() {
    TraceMaker trace({.start_ticks = 900});
    trace.Device(0, 0xab, "NVIDIA H200");
    trace.Kernel("k", kT + 100, kT + 200, 1);
    trace.Usage({4'000 * kMs, 3'000 * kMs, 500 * kMs, 20 * kMs});
    PieceMaker piece(kT);
    const std::string_view reason = "memory of pid 5001: Operation not permitted";
    piece.Process({.pid = kPid, .python_version = "3.11.7", .start_ticks = 900});
    piece.Process({.pid = 5000,
                   .parent_pid = kPid,
                   .name = "pt_data_worker",
                   .command_line = "python train.py",
                   .python_version = "3.11.7",
                   .start_ticks = 950,
                   .allowed_cpus = 4});
    piece.Process({.pid = 5001,
                   .parent_pid = kPid,
                   .name = "sudo",
                   .unreadable = &reason,
                   .unreadable_count = 1,
                   .start_ticks = 951});
    for (int i = 1; i <= 24; ++i) {
      proto::SampleRecord wait =
          At(kT + i * 10 * kMs,
             piece.Stack({"queue.py:171 Queue.get", "a.py:1 a", "a.py:2 b", "a.py:3 c", "a.py:4 d",
                          "a.py:5 e", "a.py:6 f", "a.py:7 g", "a.py:8 h", "train.py:27 <module>"}),
             2);
      wait.syscall = 202;
      wait.wait_target = piece.Text("futex");
      wait.flags = 2;
      piece.Sample(kPid, kPid, wait);
      piece.Sample(5000, 5000, At(kT + i * 10 * kMs, piece.Stack({"/lib/libjpeg.so.8+0xbeef"})));
    }
    trace.Piece(piece.Seal(kT + 240 * kMs, {2 * kMs, 24, 1, 3, 5}));
    return Save(&trace, "one.gpuprobe");
  }
  std::string Info(Format format) {
    const LoadedRun run = Load({Trace()});
    const Analysis analysis = Analyse(run.timeline, {});
    return RenderReport(ReportKind::kInfo, format, {run, analysis, {}, std::nullopt});
  }
  std::string Dump(Format format) {
    const InputFiles files = FindInputFiles({Trace()});
    absl::StatusOr<Output> output = Output::Open(folder_.Path("out"), files.paths);
    EXPECT_TRUE(output.ok());
    EXPECT_TRUE(WriteDump(files, {format, std::nullopt, std::nullopt}, &*output).value_or(false));
    EXPECT_TRUE(output->Close().ok());
    std::ifstream file(folder_.Path("out"), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(ShownSamplesTest, InfoTellsHowMuchWasLookedAtAndWhatWasNot) {
  // Lines are broken anywhere.
  std::string text;
  for (const char c : Info(Format::kText)) {
    if ((c == ' ' || c == '\n') && !text.empty() && text.back() == ' ') continue;
    text.push_back(c == '\n' ? ' ' : c);
  }
  EXPECT_THAT(text, HasSubstr("1 process and 2 children"));
  EXPECT_THAT(text,
              HasSubstr("24 looks in 240 ms (100.0 a second), 1 tick missed; 48 samples of "
                        "1 thread and 2 children, 3 dropped; 5 stacks unreadable; 2.00 ms CPU "
                        "(0.8 % of a core)"));
  EXPECT_THAT(text, HasSubstr("Python 3.11.7 (2 processes)"));
  EXPECT_THAT(text, HasSubstr("memory of pid 5001: Operation not permitted (pid 5001)"));
  EXPECT_THAT(text, HasSubstr("3.00 s user and 500 ms system CPU in 4.00 s"));
  EXPECT_THAT(text, HasSubstr("CHILDREN"));
  EXPECT_THAT(text, HasSubstr("5000 4711 3.11.7 1 24 240 ms 100 % 0.0 % 4 pt_data_worker"));
  EXPECT_THAT(Info(Format::kCsv), HasSubstr("process,4711,sampler_looks,24"));
}

TEST_F(ShownSamplesTest, InfoJsonHasTheSamplerAndEachProcessThatWasLookedAt) {
  const std::string json = Info(Format::kJson);
  EXPECT_THAT(
      json,
      HasSubstr(R"("sampler":{"cpu_ns":2000000,"looks":24,"sampled_ns":240000000,)"
                R"("samples":48,"threads":1,"children":2,"ticks_missed":1,)"
                R"("samples_dropped":3,"stacks_unreadable":5},"usage":{"wall_ns":4000000000,)"));
  EXPECT_THAT(json, HasSubstr(R"("sampled_processes":[)"));
  EXPECT_THAT(json, HasSubstr(R"({"pid":5000,"parent_pid":4711,"host":"node1","traced":false,)"
                              R"("executable":"pt_data_worker","command_line":"python train.py",)"
                              R"("ended":false,"python_version":"3.11.7","allowed_cpus":4,)"
                              R"("threads":1,"samples":24,"sampled_ns":240000000,)"
                              R"("observed_ns":240000000,"cpu_ns":240000000,"runnable_ns":0,)"
                              R"("unsampled":[]})"));
  EXPECT_THAT(json, HasSubstr(R"("unsampled":["memory of pid 5001: Operation not permitted"])"));
}

TEST_F(ShownSamplesTest, DumpHasALineASample) {
  const std::string text = Dump(Format::kText);
  EXPECT_THAT(
      text,
      HasSubstr("sample 1000000000000 +10000000 pid=4711 thread=4711 state=\"blocked\" cpu_ns=0 "
                "runnable_ns=0 syscall=\"futex\" target=\"futex\" flags=\"waits_for_gil\" "
                "stack=\"queue.py:171 Queue.get < a.py:1 a < a.py:2 b < a.py:3 c < a.py:4 d < "
                "a.py:5 e < a.py:6 f < a.py:7 g < ... 2 more\"\n"));
  EXPECT_THAT(text, HasSubstr("pid=5000 thread=5000 state=\"running\" cpu_ns=10000000 "
                              "runnable_ns=0 stack=\"/lib/libjpeg.so.8+0xbeef\"\n"));
  EXPECT_THAT(text, HasSubstr("sampled_process pid=5001 parent_pid=4711 start_ticks=951 "
                              "unreadable=\"memory of pid 5001: Operation not permitted\" sudo\n"));
  EXPECT_THAT(text, HasSubstr("usage wall_ns=4000000000"));
  const std::string json = Dump(Format::kJson);
  EXPECT_THAT(json,
              HasSubstr(R"("stack":["queue.py:171 Queue.get","a.py:1 a","a.py:2 b","a.py:3 c",)"
                        R"("a.py:4 d","a.py:5 e","a.py:6 f","a.py:7 g","a.py:8 h",)"
                        R"("train.py:27 <module>"])"));
  EXPECT_THAT(Dump(Format::kCsv), HasSubstr("queue.py:171 Queue.get"));
}

TEST(SyscallNameTest, NamesAreTheKernels) {
  EXPECT_EQ(SyscallName(-1), "");
  EXPECT_EQ(SyscallName(0), "read");
  EXPECT_EQ(SyscallName(999), "syscall 999");
  EXPECT_EQ(SyscallName(39), "syscall 39");  // getpid cannot block
#ifdef __x86_64__
  EXPECT_EQ(SyscallName(SYS_futex), "futex");
  EXPECT_EQ(SyscallName(SYS_epoll_wait), "epoll_wait");
  EXPECT_EQ(SyscallName(SYS_clock_nanosleep), "clock_nanosleep");
  EXPECT_EQ(SyscallName(SYS_ioctl), "ioctl");
  EXPECT_EQ(SyscallName(SYS_io_uring_enter), "io_uring_enter");
#endif
}

}  // namespace
}  // namespace gpuprobe::tools

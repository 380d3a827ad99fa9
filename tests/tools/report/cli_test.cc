// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The built probe-report as its users meet it: subcommands and options, exit codes, streams.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/report/cli_run.h"
#include "tests/tools/trace_maker.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CliTest, ACompleteTraceGivesZeroAndAVerdict) {
  const Result r = Report({Write("a.gpuprobe", GoodTrace())});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, StartsWith("gpuprobe: run a.gpuprobe, 1 process, 1 GPU (NVIDIA H200), "));
  EXPECT_THAT(r.out, HasSubstr("complete, nothing lost"));
  EXPECT_THAT(r.out, HasSubstr("\nVERDICT "));
  EXPECT_THAT(r.out, HasSubstr("all of the idle time"));
  EXPECT_THAT(r.err, IsEmpty());
}

TEST_F(CliTest, EverySubcommandAndFormatWorks) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  for (const char* report :
       {"summary", "gaps", "waits", "kernels", "copies", "api", "steps", "hot", "info", "dump"}) {
    for (const char* format : {"text", "json", "csv"}) {
      const Result r = Report({report, "--format", format, path});
      EXPECT_EQ(r.exit_code, 0) << report << " " << format << ": " << r.err;
      EXPECT_THAT(r.out, Not(IsEmpty())) << report << " " << format;
      if (std::string(format) == "json") {
        EXPECT_THAT(r.out, HasSubstr(std::string("\"schema\":\"gpuprobe.") + report + "/1\""));
      }
    }
  }
}

TEST_F(CliTest, DiffTakesTwoRunsAndItsConditionsDecideTheExitCode) {
  const std::string a = Write("a.gpuprobe", GoodTrace()), torn = Write("b.gpuprobe", GoodTrace());
  for (const char* format : {"text", "json", "csv"}) {
    const Result r = Report({"diff", "--format", format, a, torn});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("idle"));
  }
  EXPECT_EQ(Report({"diff", a, torn, "--fail-if", "idle>+5%"}).exit_code, 0);
  const Result holds = Report({"diff", a, torn, "--fail-if", "kernels>=1", "--fail-if", "lost>0"});
  EXPECT_EQ(holds.exit_code, 4) << holds.err;
  EXPECT_THAT(holds.out, HasSubstr("FAIL  kernels>=1"));
  EXPECT_THAT(holds.out, HasSubstr("pass  lost>0"));
  const Result where = Report({"diff", a, torn, "--device", "5"});
  EXPECT_EQ(where.exit_code, 1);
  EXPECT_THAT(where.err, HasSubstr(a + ": no device 5 in this run"));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"diff", a},
                                             {"diff", a, torn, a},
                                             {"diff", a, torn, "--fail-if", "idel>+5%"},
                                             {"diff", a, torn, "--fail-if", "idle"},
                                             {"summary", a, "--fail-if", "idle>+5%"},
                                             {"diff", a, folder_.Path("missing")}}) {
    const Result r = Report(wrong);
    EXPECT_EQ(r.exit_code, 1) << wrong.size();
    EXPECT_THAT(r.err, StartsWith("probe-report: "));
    EXPECT_THAT(r.out, IsEmpty());
  }
  const Result partial =
      Report({"diff", a, Write("torn.gpuprobe", GoodTrace().substr(0, GoodTrace().size() / 2))});
  EXPECT_EQ(partial.exit_code, 3) << partial.err;
}

TEST_F(CliTest, DumpShowsEveryRecordInFileOrder) {
  TraceMaker trace;
  trace.Device(0, 0xab, "NVIDIA H200");
  trace.Kernel("_Z3addPf", kT + 100, kT + 200, 1);
  trace.Copy(1, 1, 3, 4096, kT + 300, kT + 400, 2);
  trace.Set(64, kT + 500, kT + 510, 3);
  trace.Graph(5, kT + 600, kT + 700, 4);
  trace.Call("cudaMalloc", MadeClass::kAlloc, kT + 10, kT + 20, 5, 4711, ApiDomain::kRuntime, 2);
  trace.Sync(3, kT + 800, kT + 900, 6);
  trace.CudaEvent(3, 7);
  trace.Overhead(1 << 16, kT + 950, kT + 960);
  trace.Loss(LossCause::kCuptiDropped, 9, kT, kT + 5);
  trace.Blind(kT + 1, kT + 2, "libkineto.so", "cuptiSubscribe");
  trace.CloseFrame();
  trace.Kernel("late", kT + 2'000, kT + 2'100, 8);
  trace.Finish();
  const std::string path = Write("all.gpuprobe", trace.bytes());
  const Result r = Report({"dump", path});
  EXPECT_EQ(r.exit_code, 3) << "records were lost";
  EXPECT_THAT(
      r.out,
      HasSubstr(
          "\nkernel 1000000000100 +100 device=0 context=1 stream=7 correlation=1 grid=\"8x1x1\""));
  EXPECT_THAT(
      r.out,
      HasSubstr("\ncall 1000000000010 +10 thread=4711 correlation=5 result=2 domain=\"runtime\""));
  EXPECT_LT(r.out.find("_Z3addPf"), r.out.find(" late\n"));
  for (const char* kind : {"file ", "frame ", "process ", "capture ", "thread ", "device ",
                           "context ", "kernel ", "copy ", "set ", "graph ", "call ", "sync ",
                           "cuda_event ", "overhead ", "loss ", "blind ", "cost ", "end "}) {
    EXPECT_TRUE(r.out.starts_with(kind) || r.out.find(std::string("\n") + kind) != r.out.npos)
        << kind;
  }
  const Result first = Report({"dump", "--top", "3", path});
  EXPECT_EQ(std::count(first.out.begin(), first.out.end(), '\n'), 3);
  EXPECT_EQ(Report({"dump", "--process", "99", path}).out.find("kernel"), std::string::npos);
  EXPECT_EQ(Report({"dump", "--device", "0", path}).exit_code, 1);
}

TEST_F(CliTest, KernelsNamesAGraphThatWasRecordedAsAWhole) {
  TraceMaker trace;
  trace.Graph(5, kT + 600, kT + 700, 4);
  trace.Finish();
  const Result r = Report({"kernels", Write("graph.gpuprobe", trace.bytes())});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("  CUDA graph 5\n"));
}

TEST_F(CliTest, WindowsDevicesAndProcessesNarrowTheReport) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const Result part = Report({"kernels", "--format", "csv", "--from", "0s", "--to", "1ms", path});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr(",20,20000,"));
  const Result absolute = Report({"kernels", "--format", "csv", "--from", "@1000029000000", path});
  EXPECT_THAT(absolute.out, HasSubstr(",20,20000,"));
  EXPECT_EQ(Report({"--device", "0", "--process", "4711", path}).exit_code, 0);
  const Result device = Report({"--device", "5", path});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_THAT(device.err, HasSubstr("no device 5 in this run; it has: 0 NVIDIA H200"));
  const Result process = Report({"--process", "5", path});
  EXPECT_EQ(process.exit_code, 1);
  EXPECT_THAT(process.err, HasSubstr("it has: 4711"));
  EXPECT_EQ(Report({"--from", "2s", "--to", "1s", path}).exit_code, 1);
}

TEST_F(CliTest, AWindowBeyondTheRunIsCutToItWithANotice) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const Result r =
      Report({"--format", "json", "--from", "@0", "--to", "@9223372036854775807", path});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"start\":1000000000000,"));
  EXPECT_THAT(r.out, HasSubstr("--from lies before the run: read from its begin, -0.000005s"));
  EXPECT_THAT(r.out, HasSubstr("--to lies behind the run: read to its end, 0.0"));
  EXPECT_THAT(Report({"--to", "100s", path}).out, HasSubstr("! --to lies behind the run"));
  EXPECT_THAT(Report({"--from", "0s", "--to", "5ms", path}).out, Not(HasSubstr("  ! ")));
}

// Times of `info` from before the first GPU operation are taken, others have no meaning.
TEST_F(CliTest, ATimeBeforeTheRunIsWrongUsageThatNamesTheOption) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  EXPECT_EQ(Report({"--from", "-0.000005s", path}).exit_code, 0);
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--from", "-1s"},
                                                        {"--from", "@-5"},
                                                        {"--to", "-1s"},
                                                        {"--to", "@-5"},
                                                        {"--explain", "-1s"},
                                                        {"--explain", "@-5"}}) {
    const Result r = Report({"gaps", option, value, path});
    EXPECT_EQ(r.exit_code, 1) << option << value;
    EXPECT_THAT(r.out, IsEmpty());
    EXPECT_THAT(r.err, HasSubstr(option));
  }
  EXPECT_THAT(Report({"diff", path, path, "--from", "-1s"}).err,
              HasSubstr(path + ": --from lies before the run; the run was recorded"));
}

TEST_F(CliTest, AWindowThatLeavesNothingIsAnErrorThatNamesTheRun) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  for (const std::vector<std::string>& window :
       std::vector<std::vector<std::string>>{{"--from", "2000000h", "--to", "2000001h"},
                                             {"--from", "30s"},
                                             {"--to", "-1s"},
                                             {"--from", "2ms", "--to", "2ms"}}) {
    std::vector<std::string> arguments = window;
    arguments.push_back(path);
    const Result r = Report(arguments);
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_THAT(r.out, IsEmpty());
    EXPECT_THAT(r.err, HasSubstr("the run was recorded from -0.000005s to 0.0"));
    EXPECT_THAT(r.err, HasSubstr("@1000000005000"));
  }
}

// The begin in the first row of `gaps`, behind the number and the GPU.
std::string FirstBegin(const std::string& gaps) {
  std::istringstream lines(gaps);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, gpu, begin;
    if (words >> number >> gpu >> begin && number == "1") return begin;
  }
  return "";
}

TEST_F(CliTest, TheTimesOfOneReportMeanTheSameInTheOthers) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const std::string from = "7.3ms", to = "12ms";
  const Result list = Report({"gaps", "--top", "1", "--from", from, "--to", to, path});
  const std::string begin = FirstBegin(list.out);
  // Between two frames; counted from the run's first operation, not from the cut.
  EXPECT_EQ(begin, "0.007780s") << list.out;
  const std::vector<std::vector<std::string>> ways = {
      {"gaps", "--explain", begin, path},
      {"gaps", "--explain", begin, "--from", from, "--to", to, path},
      {"gaps", "--explain", "1", "--from", from, "--to", to, path}};
  for (const std::vector<std::string>& way : ways) {
    const Result r = Report(way);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr(" idle for 220 us, from 0.007780s to 0.008000s"));
  }
  EXPECT_THAT(Report({"gaps", "--explain", "7.9ms", "--to", "7.95ms", path}).out,
              HasSubstr("(cut by --to)"));
}

TEST_F(CliTest, AGapThatIsNotThereIsNamed) {
  const std::string trace = Write("a.gpuprobe", GoodTrace());
  const Result first =
      Report({"gaps", "--explain", "1", "--min-gap", "0ns", "--format=json", trace});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("gpuprobe.gap/1"));
  const Result none = Report({"gaps", "--explain", "1000000", trace});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, HasSubstr("no gap number 1000000"));
  EXPECT_THAT(Report({"gaps", "--explain", "9000s", trace}).err, HasSubstr("no GPU was idle"));
}

TEST_F(CliTest, ATextReportKeepsToColumnsAndNothingElseDoes) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const auto widest = [](const std::string& text) {
    size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  const std::string wide = Report({path}).out, json = Report({path, "--format", "json"}).out,
                    csv = Report({"kernels", path, "--format", "csv"}).out;
  EXPECT_GT(widest(wide), 80u);
  setenv("COLUMNS", "80", 1);
  for (const char* report : {"summary", "gaps", "waits", "kernels", "copies", "api", "info"}) {
    EXPECT_LE(widest(Report({report, path}).out), 80u) << report;
  }
  EXPECT_EQ(Report({path, "--format", "json"}).out, json);
  EXPECT_EQ(Report({"kernels", path, "--format", "csv"}).out, csv);
  const std::string file = folder_.Path("report.txt");
  EXPECT_EQ(Report({path, "--output", file}).exit_code, 0);
  EXPECT_EQ(ReadAll(file), wide);
  for (const char* none : {"", "0", "-5", "wide", "500"}) {
    setenv("COLUMNS", none, 1);
    EXPECT_EQ(Report({path}).out, wide) << none;
  }
}

TEST_F(CliTest, WrongUsageIsOneWithAHint) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {}, {"--nonsense", "x"}, {"--top"}, {"--format", "xml", "x"}}) {
    const Result r = Report(arguments);
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_THAT(r.err, HasSubstr("--help"));
    EXPECT_THAT(r.out, IsEmpty());
  }
  EXPECT_EQ(Report({"--help"}).exit_code, 0);
  EXPECT_THAT(Report({"--version"}).out, StartsWith("probe-report "));
}

TEST_F(CliTest, OutputGoesToAFileAndNeverOverATrace) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const std::string target = folder_.Path("report.json");
  const Result r = Report({"--format", "json", "--output", target, path});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, IsEmpty());
  EXPECT_THAT(ReadAll(target), StartsWith("{"));
  std::filesystem::create_hard_link(path, folder_.Path("link"));
  for (const std::string& same : {path, folder_.Path("link")}) {
    for (const char* report : {"summary", "dump"}) {
      const Result over = Report({report, "--output", same, path});
      EXPECT_EQ(over.exit_code, 1);
      EXPECT_THAT(over.err, HasSubstr("overwrite"));
    }
  }
  EXPECT_EQ(ReadAll(path), GoodTrace());
  const Result nowhere = Report({"--output", folder_.Path("no/such/folder"), path});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr(folder_.Path("no/such/folder")));
}

TEST_F(CliTest, AFullDiskIsReported) {
  const Result r = Report({"--output", "/dev/full", Write("a.gpuprobe", GoodTrace())});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_THAT(r.err, HasSubstr("/dev/full: No space left"));
}

TEST_F(CliTest, AClosedPipeEndsQuietlyAndNotBySignal) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  for (const char* report : {"summary", "dump"}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    const Result r = Report({report, path}, ends[1]);
    close(ends[1]);
    EXPECT_EQ(r.exit_code, 1) << report;
    EXPECT_EQ(r.err, "") << "whoever pipes into head has seen enough";
  }
}

TEST_F(CliTest, AFolderOfManyProcessesIsOneRun) {
  std::filesystem::create_directory(folder_.Path("run"));
  for (uint32_t p = 0; p < 4; ++p) {
    MadeProcess process;
    process.pid = 100 + p;
    process.file_id = 10 + p;
    TraceMaker trace(process);
    trace.Device(0, static_cast<uint8_t>(p % 2 + 1), "NVIDIA H200");
    trace.Kernel("k", kT + p * 1'000, kT + p * 1'000 + 500, 1);
    trace.Finish();
    Write("run/" + std::to_string(p) + ".gpuprobe", trace.bytes());
  }
  const Result r = Report({folder_.Path("run")});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, StartsWith("gpuprobe: run run, 4 processes, 2 GPUs (2x NVIDIA H200)"));
}

TEST_F(CliTest, ARunMayHaveMoreFilesThanAProcessMayOpen) {
  std::filesystem::create_directory(folder_.Path("run"));
  constexpr rlim_t kDescriptors = 20;
  for (rlim_t i = 0; i < 3 * kDescriptors; ++i) {
    MadeProcess process;
    process.file_id = 1 + i;
    TraceMaker trace(process);
    trace.Kernel("k", kT, kT + 500, 1);
    trace.Finish();
    Write("run/" + std::to_string(i) + ".gpuprobe", trace.bytes());
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {kDescriptors, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Result summary = Report({folder_.Path("run")});
  const Result dump = Report({"dump", folder_.Path("run")});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_EQ(dump.exit_code, 0) << dump.err;
}

}  // namespace
}  // namespace gpuprobe::tools

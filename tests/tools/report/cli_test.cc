// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The built probe-report as its users meet it: exit codes, streams, and every kind of bad input.
// Each run has a deadline, so that a hang is a failure and not a stuck test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tests/tools/trace_maker.h"

extern char** environ;

namespace gpuprobe::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kT = 1'000'000'000'000;
constexpr auto kDeadline = std::chrono::seconds(60);  // sanitizer builds on a busy machine

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int exit_code = -1;  // -signal if it was killed; -999: it hung
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  CliTest() { unsetenv("COLUMNS"); }

  // `stdout_fd`: -1: collected in Result::out.
  Result Report(const std::vector<std::string>& arguments, int stdout_fd = -1) {
    const std::string out = folder_.Path("stdout"), err = folder_.Path("stderr");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (stdout_fd < 0) {
      posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    } else {
      posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
    }
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<std::string> words = {PROBE_REPORT_PATH};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    Result result;
    result.exit_code = Wait(pid);
    result.out = stdout_fd < 0 ? ReadAll(out) : "";
    result.err = ReadAll(err);
    return result;
  }

  static int Wait(pid_t pid) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return -999;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.Path(name), std::ios::binary) << bytes;
    return folder_.Path(name);
  }

  // 30 frames of 20 kernels each, closed in order.
  static const std::string& GoodTrace() {
    static const std::string bytes = [] {
      TraceMaker trace;
      trace.Device(0, 0xab, "NVIDIA H200");
      uint32_t correlation = 1;
      for (int frame = 0; frame < 30; ++frame) {
        for (int i = 0; i < 20; ++i) {
          const int64_t start = kT + frame * 1'000'000 + i * 40'000;
          trace.Call("cudaLaunchKernel", MadeClass::kLaunch, start, start + 4'000, correlation);
          trace.Kernel("_Z3addPf", start + 5'000, start + 25'000, correlation++);
        }
        trace.CloseFrame();
      }
      trace.Finish();
      return trace.bytes();
    }();
    return bytes;
  }

  TempFolder folder_;
};

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

constexpr char kReadInWindows[] = "read in windows, not held at once";

TEST_F(CliTest, ARunIsReadInWindowsIfAskedForAndSaysSo) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  for (const char* report :
       {"summary", "gaps", "waits", "kernels", "copies", "api", "steps", "hot", "info"}) {
    const Result whole = Report({report, "--windows", "never", "--format", "csv", path});
    const Result windows = Report({report, "--windows=always", "--format", "csv", path});
    EXPECT_EQ(windows.exit_code, 0) << report << ": " << windows.err;
    EXPECT_EQ(windows.out, whole.out) << report;
  }
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"gaps", "--explain", "1", path}, {"diff", path, path}}) {
    std::vector<std::string> never = words, always = words;
    never.insert(never.end(), {"--format", "csv", "--windows=never"});
    always.insert(always.end(), {"--format", "csv", "--windows=always"});
    const Result windows = Report(always);
    EXPECT_EQ(windows.exit_code, 0) << words[0] << ": " << windows.err;
    EXPECT_EQ(windows.out, Report(never).out) << words[0];
  }
  EXPECT_THAT(Report({path}).out, Not(HasSubstr(kReadInWindows)));
  EXPECT_THAT(Report({"--windows", "never", path}).out, Not(HasSubstr(kReadInWindows)));
  const Result summary = Report({"--windows", "always", path});
  EXPECT_THAT(summary.out, HasSubstr(kReadInWindows));
  EXPECT_THAT(summary.out, HasSubstr("\nVERDICT "));
  const std::string other = Write("trace.json", R"({"traceEvents": []})");
  const Result r = Report({other, "--windows=always"});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_THAT(r.err, HasSubstr("gpuprobe's own traces"));
}

// What takes 64 MiB and more is read so; here nearly all of it is a skippable zstd frame of zeros
// that no disk holds.
TEST_F(CliTest, ALargeRunIsReadInWindowsUnlessItIsForbidden) {
  constexpr uint32_t kSkippedBytes = 65u << 20;
  const uint32_t header[] = {0x184d2a50, kSkippedBytes};
  const std::string path =
      Write("a.gpuprobe",
            GoodTrace() + std::string(reinterpret_cast<const char*>(header), sizeof(header)));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + kSkippedBytes);
  const Result r = Report({path});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(kReadInWindows));
  EXPECT_THAT(r.out, HasSubstr("complete, nothing lost"));
  EXPECT_THAT(Report({"--windows", "never", path}).out, Not(HasSubstr(kReadInWindows)));
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

// Of the gaps of a run that is read in windows the longest thousand of each GPU are kept.
TEST_F(CliTest, WhatWindowsDoNotKeepOfTheGapsIsNotPromised) {
  TraceMaker trace;
  trace.Device(0, 0xab, "NVIDIA H200");
  for (uint32_t i = 1; i <= 1'202; ++i) {
    trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + i * 40'000, kT + i * 40'000 + 4'000, i);
    trace.Kernel("_Z3addPf", kT + i * 40'000 + 5'000, kT + i * 40'000 + 25'000, i);
  }
  trace.CloseFrame();
  trace.Finish();
  const std::string path = Write("a.gpuprobe", trace.bytes());
  EXPECT_THAT(Report({"gaps", "--top", "1", path}).out,
              HasSubstr("... 1,200 more (--top 0 lists all)\n"));
  const Result windows = Report({"gaps", "--top", "1", "--windows", "always", path});
  EXPECT_THAT(windows.out, HasSubstr("... 1,200 more (--top 0 lists the longest 1,000: the run "
                                     "was read in windows)\n"));
  EXPECT_EQ(Report({"gaps", "--explain", "1001", path}).exit_code, 0);
  const Result unknown = Report({"gaps", "--explain", "1001", "--windows", "always", path});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("gap number 1001 of 1201: read in windows, the longest 1000 "
                                     "are kept; ask by a time, or with --windows never"));
  const Result none = Report({"gaps", "--explain", "1202", "--windows", "always", path});
  EXPECT_THAT(none.err, HasSubstr("no gap number 1202: there are 1201 of"));
}

// The second GPU's gaps are shorter than those of the first one that are not kept.
TEST_F(CliTest, NumbersOfGapsAreThoseOfTheRunAtOnceAlsoInWindows) {
  TraceMaker trace;
  trace.Device(0, 0xab, "NVIDIA H200");
  trace.Device(1, 0xac, "NVIDIA H200");
  for (uint32_t i = 1; i <= 1'100; ++i) {
    trace.Kernel("_Z3addPf", kT + i * 40'000, kT + i * 40'000 + 20'000, 2 * i, 0);
    trace.Kernel("_Z3addPf", kT + i * 40'000, kT + i * 40'000 + 25'000 - i, 2 * i + 1, 1);
  }
  trace.CloseFrame();
  trace.Finish();
  const std::string path = Write("a.gpuprobe", trace.bytes());
  const Result windows = Report({"gaps", "--top", "0", "--windows", "always", path});
  EXPECT_THAT(windows.out, HasSubstr("... 1,198 more, none longer: not kept of a run"));
  for (const char* number : {"1", "1000"}) {
    const Result held = Report({"gaps", "--explain", number, path});
    const Result same = Report({"gaps", "--explain", number, "--windows", "always", path});
    EXPECT_EQ(same.exit_code, 0);
    const auto story = [](const std::string& out) { return out.substr(out.find("\nGPU ")); };
    EXPECT_EQ(story(same.out), story(held.out));
  }
  EXPECT_EQ(Report({"gaps", "--explain", "1001", path}).exit_code, 0);
  const Result unknown = Report({"gaps", "--explain", "1001", "--windows", "always", path});
  EXPECT_THAT(unknown.err, HasSubstr("gap number 1001 of 2198: read in windows, the longest 1000"));
}

TEST_F(CliTest, AnEmptyFileIsAnEmptyCaptureByItsNameAlone) {
  EXPECT_EQ(Report({Write("a.gpuprobe", "")}).exit_code, 0);
  for (const char* windows : {"auto", "always"}) {
    const Result r = Report({Write("trace.json", ""), "--windows", windows});
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_THAT(r.err, HasSubstr("trace.json: an empty file, no trace"));
  }
}

// Two GPUs that run collectives, back to back; into each second one the second enters so much
// later.
std::string TwoRanks(int64_t late_ns) {
  TraceMaker trace;
  trace.Device(0, 0xab, "NVIDIA H200");
  trace.Device(1, 0xac, "NVIDIA H200");
  int64_t begin_ns = kT;
  for (uint32_t i = 0; i < 200; ++i) {
    const int64_t last_ns = begin_ns + 500'000 + i % 2 * late_ns, end_ns = last_ns + 10'000;
    for (uint32_t device : {0u, 1u}) {
      const int64_t enter_ns = device == 1 ? last_ns : begin_ns + 500'000;
      const int64_t call_ns = begin_ns - 9'000 + device * 4'000;
      const uint32_t correlation = 1 + 4 * i + 2 * device;
      trace.Call("cudaLaunchKernel", MadeClass::kLaunch, call_ns, call_ns + 1'000, correlation);
      trace.Call("cudaLaunchKernel", MadeClass::kLaunch, call_ns + 2'000, call_ns + 3'000,
                 correlation + 1);
      trace.Kernel("gemm", begin_ns, enter_ns, correlation, device);
      trace.Kernel("ncclDevKernel_AllReduce", enter_ns, end_ns, correlation + 1, device);
    }
    begin_ns = end_ns + 1'000;
  }
  trace.CloseFrame();
  trace.Finish();
  return trace.bytes();
}

TEST_F(CliTest, WhatWindowsEstimateOfRanksIsSaidWhereAReportShowsItAlone) {
  const std::string waiting = Write("a.gpuprobe", TwoRanks(300'000)),
                    computing = Write("b.gpuprobe", TwoRanks(0));
  const auto in_windows = [this](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--windows", "always"});
    return Report(arguments).out;
  };
  const std::string notice = "what ranks waited for each other is estimated";
  EXPECT_THAT(in_windows({waiting}), HasSubstr("Waiting for other ranks: for"));
  EXPECT_THAT(in_windows({waiting}), HasSubstr(notice));
  EXPECT_THAT(in_windows({"diff", waiting, computing}), HasSubstr(notice));
  for (const char* report : {"gaps", "waits", "kernels", "copies", "api", "steps", "hot", "info"}) {
    EXPECT_THAT(in_windows({report, waiting}), Not(HasSubstr(notice))) << report;
  }
  EXPECT_THAT(in_windows({computing}), Not(HasSubstr(notice)));
  EXPECT_THAT(Report({waiting}).out, Not(HasSubstr(notice)));
}

TEST_F(CliTest, WindowsOfForeignFilesGiveTheAdviceThatReadingAtOnceGives) {
  const std::string trace = Write("a.gpuprobe", GoodTrace());
  const std::string json = Write("k.json", "{\"traceEvents\": []}");
  for (const std::vector<std::string>& paths : std::vector<std::vector<std::string>>{
           {Write("a.nsys-rep", "\x1f\x8bpacked")},
           {Write("b.nsys-rep", std::string("\xff\xfet\0e\0", 6))},
           {Write("c.jsonl", "{\"a\": 1}\n{\"b\": 2}\n")},
           {Write("d.json", "{\"a\": 1}")},
           {trace, json}}) {
    std::vector<std::string> arguments = paths;
    const Result at_once = Report(arguments);
    arguments.insert(arguments.end(), {"--windows", "always"});
    const Result windows = Report(arguments);
    EXPECT_EQ(at_once.exit_code, 1);
    EXPECT_EQ(windows.exit_code, 1);
    EXPECT_EQ(windows.err, at_once.err);
  }
  // What can be read, but not so.
  EXPECT_THAT(Report({json, "--windows", "always"}).err,
              HasSubstr("only gpuprobe's own traces are read in windows (--windows auto reads"));
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

TEST_F(CliTest, FilesThatAreNoTraceAreNamed) {
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  for (const std::string& path :
       {Write("text.txt", "hello world\n"), Write("image.png", png), Write("short", "x"),
        Write("noise", std::string(100'000, '\x5a'))}) {
    const Result r = Report({path});
    EXPECT_EQ(r.exit_code, 1) << path;
    EXPECT_THAT(r.err, HasSubstr(path));
    EXPECT_THAT(r.err, HasSubstr("offset 0"));
    EXPECT_THAT(r.out, IsEmpty());
  }
}

TEST_F(CliTest, WhatOtherProfilersWriteIsNamedWithAWayToReadIt) {
  const std::string binary(4096, '\x5a');
  EXPECT_THAT(Report({Write("a.nsys-rep", binary)}).err,
              HasSubstr("nsys export --type sqlite a.nsys-rep, and give a.sqlite"));
  EXPECT_THAT(Report({Write("b.qdrep", binary)}).err,
              HasSubstr("nsys export --type sqlite b.qdrep"));
  EXPECT_THAT(Report({Write("c.ncu-rep", binary)}).err, HasSubstr("Nsight Compute"));
  const Result json = Report({Write("d.json", "{\"a\": 1}")});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.err, HasSubstr("export_chrome_trace"));
  std::filesystem::create_directory(folder_.Path("reports"));
  Write("reports/e.nsys-rep", binary);
  const Result folder = Report({folder_.Path("reports")});
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_THAT(folder.err, HasSubstr("it holds e.nsys-rep"));
  EXPECT_THAT(folder.err, HasSubstr("nsys export --type sqlite"));
}

TEST_F(CliTest, PathsThatCannotBeReadAreNamed) {
  const std::string missing = folder_.Path("missing");
  EXPECT_THAT(Report({missing}).err, HasSubstr(missing + ": No such file"));
  std::filesystem::create_directory(folder_.Path("empty"));
  EXPECT_THAT(Report({folder_.Path("empty")}).err, HasSubstr("no *.gpuprobe file"));
  EXPECT_EQ(Report({folder_.Path("empty")}).exit_code, 1);
  const std::string locked = Write("locked.gpuprobe", GoodTrace());
  chmod(locked.c_str(), 0);
  if (geteuid() != 0) {
    const Result r = Report({locked});
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_THAT(r.err, HasSubstr("ermission"));
  }
}

TEST_F(CliTest, SpecialFilesAreRefusedWithoutHanging) {
  const std::string fifo = folder_.Path("fifo.gpuprobe");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string socket_path = folder_.Path("s");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const std::string& path :
       {fifo, socket_path, std::string("/dev/zero"), std::string("/dev/null")}) {
    const Result r = Report({path});
    EXPECT_EQ(r.exit_code, 1) << path;
    EXPECT_THAT(r.err, HasSubstr(path));
  }
  close(fd);
}

TEST_F(CliTest, AnEmptyFileIsAnEmptyCapture) {
  const Result r = Report({Write("zero.gpuprobe", "")});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("1 empty capture"));
}

// Killed at once, or no room to write: what it would have held is not known.
TEST_F(CliTest, AnEmptyCaptureThatWasNotClosedIsNotCalledComplete) {
  TraceMaker heartbeat, ended;
  heartbeat.CloseFrame();
  ended.Finish();
  const std::string zero = Write("zero.gpuprobe", ""),
                    open = Write("open.gpuprobe", heartbeat.bytes());
  for (const std::string& path : {zero, open}) {
    for (const char* windows : {"never", "always"}) {
      const Result r = Report({path, "--windows", windows});
      EXPECT_EQ(r.exit_code, 0) << r.err;
      EXPECT_THAT(r.out, HasSubstr("1 of 1 file not closed and"));
      EXPECT_THAT(r.out, Not(HasSubstr("complete")));
    }
  }
  EXPECT_THAT(Report({zero, Write("good.gpuprobe", GoodTrace())}).out,
              HasSubstr("1 of 2 files not closed and"));
  EXPECT_THAT(Report({Write("ended.gpuprobe", ended.bytes())}).out,
              HasSubstr("complete, nothing lost"));
}

TEST_F(CliTest, ATornFileIsPartialAndSaysWhatIsMissing) {
  const std::string path = Write("torn.gpuprobe", GoodTrace().substr(0, GoodTrace().size() - 40));
  const Result r = Report({path});
  EXPECT_EQ(r.exit_code, 3) << r.err;
  EXPECT_THAT(r.out, HasSubstr("PARTIAL"));
  EXPECT_THAT(r.out, HasSubstr(path + ": "));
  EXPECT_THAT(r.out, HasSubstr("at offset "));
  EXPECT_THAT(r.out, HasSubstr("VERDICT"));
  EXPECT_THAT(Report({"--format", "json", path}).out, HasSubstr("\"partial\":true"));
  EXPECT_EQ(Report({"dump", path}).exit_code, 3);
}

TEST_F(CliTest, WhatWasLostMakesEveryReportPartial) {
  TraceMaker lost, kept, replaced;
  for (TraceMaker* trace : {&lost, &kept, &replaced}) trace->Kernel("k", kT + 100, kT + 200, 1);
  lost.Loss(LossCause::kCuptiDropped, 120, kT + 300, kT + 400);
  lost.Finish();
  kept.Finish(/*buffers_outstanding=*/1);
  replaced.Loss(LossCause::kNameTableFull, 3, kT + 300, kT + 400);
  replaced.Finish();
  for (const char* report : {"summary", "gaps", "kernels", "info", "dump"}) {
    EXPECT_EQ(Report({report, Write("lost.gpuprobe", lost.bytes())}).exit_code, 3) << report;
    EXPECT_EQ(Report({report, Write("kept.gpuprobe", kept.bytes())}).exit_code, 3) << report;
    EXPECT_EQ(Report({report, Write("replaced.gpuprobe", replaced.bytes())}).exit_code, 0)
        << report << ": names replaced hide no record";
  }
}

TEST_F(CliTest, OneBadFileAmongGoodOnesIsPartial) {
  const std::string good = Write("a.gpuprobe", GoodTrace());
  const std::string bad = Write("notes.txt", "hello world\n");
  const Result r = Report({good, bad});
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_THAT(r.out, HasSubstr("VERDICT"));
  EXPECT_THAT(r.err, HasSubstr(bad));
  EXPECT_EQ(Report({"dump", good, bad}).exit_code, 3);
}

TEST_F(CliTest, TheSameFileTwiceIsReadOnce) {
  const std::string path = Write("a.gpuprobe", GoodTrace());
  const Result r = Report({"kernels", "--format", "csv", path, path});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.out, HasSubstr(",600,20000,"));
}

TEST_F(CliTest, DamageAnywhereNeitherCrashesNorHangs) {
  std::mt19937 random(20261130);
  const std::string& good = GoodTrace();
  for (int round = 0; round < 60; ++round) {
    std::string bytes = good;
    const size_t at = random() % bytes.size();
    switch (round % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.replace(at, std::min<size_t>(200, bytes.size() - at), 200, '\0');
        break;
      case 3:
        bytes.erase(at, random() % 2'000);
        break;
    }
    const Result r = Report(
        {round % 2 == 0 ? "summary" : "info", "--format", "json", Write("d.gpuprobe", bytes)});
    EXPECT_THAT(r.exit_code, AnyOf(0, 1, 3)) << "round " << round << ": " << r.err;
    EXPECT_TRUE(r.exit_code != 0 || bytes == good || bytes.empty()) << "round " << round;
  }
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

TEST_F(CliTest, LaunchesWithoutKernelsArePartialAndShowNoIdleTime) {
  MadeProcess process;
  process.kernel_kind_result = 35;
  TraceMaker trace(process);
  for (uint32_t i = 1; i <= 50; ++i) {
    trace.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + i * 1'000, kT + i * 1'000 + 500, i);
  }
  trace.Finish();
  const Result r = Report({Write("blank.gpuprobe", trace.bytes())});
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_THAT(r.out, HasSubstr("Kernel records unavailable: 50 launch calls recorded"));
  EXPECT_THAT(r.out, HasSubstr("error 35"));
  EXPECT_THAT(r.out, Not(HasSubstr("idle because")));
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

TEST_F(CliTest, DumpOfATraceThatLostRecordsIsPartial) {
  TraceMaker lost, missing;
  lost.Kernel("k", kT, kT + 500, 1);
  lost.Loss(LossCause::kCuptiDropped, 5, kT, kT + 1'000);
  lost.Finish();
  missing.Kernel("k", kT, kT + 500, 1);
  missing.Finish(/*buffers_outstanding=*/2);
  EXPECT_EQ(Report({"dump", Write("lost.gpuprobe", lost.bytes())}).exit_code, 3);
  EXPECT_EQ(Report({"dump", Write("missing.gpuprobe", missing.bytes())}).exit_code, 3);
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

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The built probe-report on runs that are read in windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/report/cli_run.h"
#include "tests/tools/trace_maker.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace gpuprobe::tools

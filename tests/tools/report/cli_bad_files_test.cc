// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The built probe-report on every kind of bad input: exit codes, and what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "tests/tools/report/cli_run.h"
#include "tests/tools/trace_maker.h"

namespace gpuprobe::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CliTest, AnEmptyFileIsAnEmptyCaptureByItsNameAlone) {
  EXPECT_EQ(Report({Write("a.gpuprobe", "")}).exit_code, 0);
  for (const char* windows : {"auto", "always"}) {
    const Result r = Report({Write("trace.json", ""), "--windows", windows});
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_THAT(r.err, HasSubstr("trace.json: an empty file, no trace"));
  }
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

}  // namespace
}  // namespace gpuprobe::tools

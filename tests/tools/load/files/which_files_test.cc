// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which files make a run: folders, the same trace twice, files that cannot be read, traces of
// several runs in one folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/tools/load/loader_fixture.h"
#include "tests/tools/trace_maker.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMinuteNs = 60'000'000'000;

TEST_F(LoaderTest, AFolderIsOneRunOneLevelDeep) {
  std::filesystem::create_directories(folder_.Path("run/node1/deeper"));
  MadeProcess process;
  for (const char* name :
       {"run/a.gpuprobe", "run/node1/b.gpuprobe", "run/node1/deeper/c.gpuprobe", "run/notes.txt"}) {
    process.file_id++;
    TraceMaker trace(process);
    trace.Kernel("k", kT + 1, kT + 2, 1);
    trace.Finish();
    Save(trace, name);
  }
  const LoadedRun run = Load({folder_.Path("run") + "/"});
  EXPECT_EQ(run.name, "run");
  std::vector<std::string> names;
  for (const InputFile& file : run.timeline.inputs) {
    names.push_back(std::filesystem::path(file.path).filename().string());
  }
  EXPECT_THAT(names, ElementsAre("a.gpuprobe", "b.gpuprobe"));
}

TEST_F(LoaderTest, TheSameTraceIsReadOnceUnderWhateverName) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.Finish();
  const std::string path = Save(trace, "a.gpuprobe");
  const std::string copy = Save(trace, "copy.gpuprobe");
  std::filesystem::create_symlink(path, folder_.Path("link.gpuprobe"));
  const LoadedRun run = Load({path, path, folder_.Path("link.gpuprobe"), copy});
  EXPECT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_EQ(run.timeline.processes.size(), 1u);
  EXPECT_EQ(run.notices.size(), 3u);
  EXPECT_TRUE(run.complete());
}

TEST_F(LoaderTest, TwoTracesInOneFileAreTwoProcesses) {
  MadeProcess first, second;
  second.pid = 4712;
  second.file_id = 2;
  TraceMaker a(first), b(second);
  a.Call("cudaLaunchKernel", MadeClass::kLaunch, kT + 10, kT + 11, 1);
  b.Kernel("k", kT + 20, kT + 30, 1);
  a.Finish();
  b.Finish();
  std::ofstream(folder_.Path("both.gpuprobe"), std::ios::binary) << a.bytes() << b.bytes();
  const LoadedRun run = Load({folder_.Path("both.gpuprobe")});
  ASSERT_EQ(run.timeline.processes.size(), 2u);
  EXPECT_EQ(run.timeline.processes[1].pid, 4712u);
  EXPECT_EQ(run.timeline.ops[0].submission, -1);
  EXPECT_TRUE(run.complete());
}

TEST_F(LoaderTest, WhatCannotBeReadIsListedBesideWhatCan) {
  TraceMaker trace;
  trace.Kernel("k", kT + 100, kT + 200, 1);
  trace.Finish();
  std::ofstream(folder_.Path("notes.txt")) << "not a trace\n";
  const LoadedRun run =
      Load({Save(trace, "a.gpuprobe"), folder_.Path("missing"), folder_.Path("notes.txt")});
  EXPECT_EQ(run.timeline.ops.size(), 1u);
  ASSERT_EQ(run.unusable.size(), 2u);
  EXPECT_THAT(run.unusable[0].message, HasSubstr("missing: No such file"));
  EXPECT_THAT(run.unusable[1].message, HasSubstr("offset 0"));
  EXPECT_FALSE(run.complete());
}

TEST_F(LoaderTest, NothingReadableIsAnError) {
  std::filesystem::create_directory(folder_.Path("empty"));
  const absl::StatusOr<LoadedRun> run =
      LoadRun(FindInputFiles({folder_.Path("empty"), folder_.Path("missing")}));
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("no *.gpuprobe file"));
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("missing: No such file"));
}

class SeveralRunsTest : public LoaderTest {
 protected:
  // A process that lives from `begin_ns` for a second.
  std::string Process(uint32_t pid, uint32_t parent, int64_t begin_ns, const std::string& program,
                      const std::string& boot = "boot-a") {
    MadeProcess process;
    process.pid = pid;
    process.parent_pid = parent;
    process.begin_ns = begin_ns;
    process.boot_id = boot;
    process.file_id = pid;
    process.command_line = {"python", program};
    TraceMaker trace(process);
    trace.Kernel("work", begin_ns + 100, begin_ns + 1'000'000'000, 1);
    trace.Finish();
    return Save(trace, std::to_string(pid) + ".gpuprobe");
  }
  std::string Notices(const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& notice : Load(paths).notices) text += notice + "\n";
    return text;
  }
};

TEST_F(SeveralRunsTest, DifferentRunsInOneFolderAreSaid) {
  EXPECT_THAT(Notices({Process(100, 10, kT, "a.py"), Process(200, 20, kT + kMinuteNs, "b.py")}),
              HasSubstr("different runs"));
}

TEST_F(SeveralRunsTest, TheSameCommandAgainIsSaid) {
  EXPECT_THAT(Notices({Process(100, 10, kT, "a.py"), Process(200, 10, kT + kMinuteNs, "a.py")}),
              HasSubstr("the same command ran twice: process 200 began"));
}

TEST_F(SeveralRunsTest, StagesOfAScriptAreOneRun) {
  EXPECT_EQ(Notices({Process(100, 10, kT, "a.py"), Process(200, 10, kT + kMinuteNs, "b.py")}), "");
}

TEST_F(SeveralRunsTest, ProcessesThatLiveTogetherAreOneRun) {
  EXPECT_EQ(Notices({Process(100, 10, kT, "a.py"), Process(200, 20, kT + 500'000'000, "b.py")}),
            "");
}

}  // namespace
}  // namespace gpuprobe::tools

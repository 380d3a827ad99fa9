// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/run_size.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tools/temp_folder.h"

namespace gpuprobe::tools {
namespace {

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

TEST(RunSizeTest, LargeFilesAreForWindowsWhateverMemoryThereIs) {
  EXPECT_FALSE(IsForWindows(64 * kMiB, 512 * kGiB));
  EXPECT_TRUE(IsForWindows(64 * kMiB + 1, 512 * kGiB));
  EXPECT_FALSE(IsForWindows(64 * kMiB, 0));  // not known
  EXPECT_TRUE(IsForWindows(65 * kMiB, 0));
}

TEST(RunSizeTest, ARunThatWouldFillHalfOfTheMemoryIsForWindows) {
  const uint64_t bytes = 10 * kMiB;
  EXPECT_GT(WholeRunBytes(bytes), 40 * bytes);
  EXPECT_FALSE(IsForWindows(bytes, 2 * WholeRunBytes(bytes)));
  EXPECT_TRUE(IsForWindows(bytes, 2 * WholeRunBytes(bytes) - 2));
}

TEST(RunSizeTest, OnlyTracesOfGpuprobeCount) {
  TempFolder folder;
  std::ofstream(folder.Path("a.gpuprobe")) << std::string(1000, '\0');
  std::ofstream(folder.Path("b.gpuprobe")) << std::string(500, '\0');
  std::ofstream(folder.Path("trace.json")) << R"({"traceEvents": []})" << std::string(5000, ' ');
  InputFiles files;
  for (const char* name : {"a.gpuprobe", "b.gpuprobe", "trace.json", "gone.gpuprobe"})
    files.paths.push_back(folder.Path(name));
  EXPECT_EQ(TraceBytes(files), 1500u);
}

class AvailableMemory : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.Path(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t Bytes() const { return AvailableMemoryBytes(folder_.Path("")); }

  TempFolder folder_;
};

TEST_F(AvailableMemory, IsWhatTheKernelSays) {
  EXPECT_EQ(Bytes(), 0u);  // nothing to read
  Write("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 100 kB\nMemAvailable:    3000 kB\n");
  EXPECT_EQ(Bytes(), 3000u * 1024);
  Write("proc/self/cgroup", "1:cpu:/x\n0::/\n");
  EXPECT_EQ(Bytes(), 3000u * 1024);
}

TEST_F(AvailableMemory, IsNoMoreThanAnyGroupAboveTheProcessMayUse) {
  Write("proc/meminfo", "MemAvailable:    3000 kB\n");
  Write("proc/self/cgroup", "0::/job/task\n");
  Write("sys/fs/cgroup/job/task/memory.max", "max\n");
  EXPECT_EQ(Bytes(), 3000u * 1024);
  Write("sys/fs/cgroup/job/memory.max", "1000000\n");
  Write("sys/fs/cgroup/job/memory.current", "400000\n");
  EXPECT_EQ(Bytes(), 600'000u);
  Write("sys/fs/cgroup/job/memory.stat", "anon 200000\ninactive_file 150000\nactive_file 50000\n");
  EXPECT_EQ(Bytes(), 750'000u);
  Write("sys/fs/cgroup/job/memory.current", "2000000\n");
  EXPECT_EQ(Bytes(), 1u);  // full is not "not known"
}

TEST_F(AvailableMemory, OfThisMachineIsKnown) { EXPECT_GT(AvailableMemoryBytes(), kMiB); }

}  // namespace
}  // namespace gpuprobe::tools

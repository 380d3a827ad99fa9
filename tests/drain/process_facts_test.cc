// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process/process_facts.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace gpuprobe::inject {
namespace {

TEST(GpusAtMostTest, DeviceNodesAndTheVisibleOnesAreCountedUpToTwo) {
  const std::string prefix = testing::TempDir() + "gpus-at-most-nvidia";
  const auto add = [&prefix](int number) { std::ofstream(prefix + std::to_string(number)); };
  EXPECT_EQ(GpusAtMost(nullptr, prefix.c_str()), 0) << "not a machine with such nodes: not known";
  EXPECT_EQ(GpusAtMost("0", prefix.c_str()), 0);
  add(5);  // a container's only one may have any number
  EXPECT_EQ(GpusAtMost(nullptr, prefix.c_str()), 1);
  EXPECT_EQ(GpusAtMost("0,1", prefix.c_str()), 1);
  add(0);
  add(7);
  EXPECT_EQ(GpusAtMost(nullptr, prefix.c_str()), 2);
  EXPECT_EQ(GpusAtMost("", prefix.c_str()), 2);
  EXPECT_EQ(GpusAtMost("3", prefix.c_str()), 1);
  EXPECT_EQ(GpusAtMost("GPU-1f2e", prefix.c_str()), 1);
  EXPECT_EQ(GpusAtMost("3,4", prefix.c_str()), 2);
  for (const int number : {0, 5, 7}) std::remove((prefix + std::to_string(number)).c_str());
}

std::string DriverRelease(const char* text) {
  char out[32] = "before";
  const bool found = FindDriverRelease(text, out, sizeof out);
  EXPECT_EQ(found, out[0] != '\0');
  return out;
}

TEST(DriverReleaseTest, IsTheNumberOfEitherKindOfModule) {
  EXPECT_EQ(DriverRelease("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 "
                          "19:39:15 UTC 2024\nGCC version:  gcc version 12.3.0 (Ubuntu)\n"),
            "535.183.01");
  EXPECT_EQ(DriverRelease("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  "
                          "Release Build  (root@host)  Tue Sep 23\n"),
            "580.95.05");
  EXPECT_EQ(DriverRelease("NVRM version: 580.95"), "580.95");
}

TEST(DriverReleaseTest, NothingIsTakenForIt) {
  EXPECT_EQ(DriverRelease(""), "");
  EXPECT_EQ(DriverRelease("GCC version:  gcc version 12.3.0"), "");
  EXPECT_EQ(DriverRelease("NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version: 12.3.0"),
            "");
  EXPECT_EQ(DriverRelease("NVRM version: module 12 of 3.x 4.5-beta"), "");
  EXPECT_EQ(DriverRelease("NVRM version: 1.23456789012345678901234567890123456789"), "");
}

}  // namespace
}  // namespace gpuprobe::inject

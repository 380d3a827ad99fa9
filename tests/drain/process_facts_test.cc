// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process_facts.h"

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

}  // namespace
}  // namespace gpuprobe::inject

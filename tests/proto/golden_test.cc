// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Traces of earlier versions, as they were written, must be read as they were read then. The files
// in tests/testdata are never written again; a version that changes the format adds files of its
// own (proto_make_samples writes them).
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/proto/trace_dump.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, ReadsAsItDidWhenItWasWritten) {
  const std::string path = std::string(GPUPROBE_TESTDATA "/") + GetParam();
  const ReadResult read = ReadPath(path + ".gpuprobe");
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_TRUE(read.damage.empty());
  EXPECT_TRUE(read.ended);
  EXPECT_EQ(read.counts.unknown_fields + read.counts.unknown_packets, 0u);
  EXPECT_EQ(DumpTrace(read), ReadText(path + ".expected.txt"));
}

INSTANTIATE_TEST_SUITE_P(AllVersions, GoldenTest,
                         testing::Values("format_v1", "format_v1_samples"));

}  // namespace
}  // namespace gpuprobe::proto

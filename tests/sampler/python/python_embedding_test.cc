// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Interpreters that are no python executable: linked into a program, shared and static.
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sampler/python/python_child.h"

namespace gpuprobe::sampler {
namespace {

class EmbeddedPython : public testing::TestWithParam<const char*> {};

TEST_P(EmbeddedPython, IsFoundAndRead) {
  ChildProcess child({GetParam()});
  if (child.Line() != "ready") GTEST_SKIP() << "the interpreter does not find its library";
  usleep(50'000);
  AttachedReader attached;
  ASSERT_EQ(attached.Attach(child.pid()), PythonStatus::kReady) << attached.reader().reason();
  ASSERT_TRUE(attached.reader().BeginLook());
  PythonStack stack;
  ASSERT_EQ(attached.reader().ReadStack(child.pid(), &attached.table(), &stack),
            PythonReader::Read::kOk);
  const std::vector<TextFrame> expected = {
      {"inner", "<string>", 4}, {"outer", "<string>", 6}, {"<module>", "<string>", 7}};
  EXPECT_EQ(attached.Frames(stack), expected);
  EXPECT_TRUE(stack.in_c_function);
  EXPECT_TRUE(attached.reader().gil().known);
  EXPECT_FALSE(attached.reader().gil().locked);
}

INSTANTIATE_TEST_SUITE_P(, EmbeddedPython, testing::Values(GPUPROBE_EMBEDDING_HOSTS),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           std::string name = tested.param;
                           name = name.substr(name.rfind('/') + 1);
                           return name;
                         });

}  // namespace
}  // namespace gpuprobe::sampler

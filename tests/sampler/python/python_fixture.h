// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A test of each interpreter that this machine has: a script that runs, and looks at it.
#ifndef GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_FIXTURE_H_
#define GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_FIXTURE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sampler/python/python_child.h"

namespace gpuprobe::sampler {

using Read = PythonReader::Read;

class LivePython : public testing::TestWithParam<Interpreter> {
 protected:
  // Starts a script, and waits for its line "ready".
  void Start(std::string_view script, const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> command = {GetParam().path, folder_.Write("script.py", script)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    child_ = std::make_unique<ChildProcess>(command);
    ASSERT_EQ(child_->Line(), "ready");
    ASSERT_EQ(attached_.Attach(child_->pid()), PythonStatus::kReady) << attached_.reader().reason();
  }
  Read Look(pid_t tid) {
    if (!attached_.reader().BeginLook()) return Read::kTorn;
    return attached_.reader().ReadStack(tid, &attached_.table(), &stack_);
  }
  std::vector<TextFrame> Frames() const { return attached_.Frames(stack_); }
  bool AtLeast(int minor) const { return GetParam().minor >= minor; }

  ScriptFolder folder_;
  std::unique_ptr<ChildProcess> child_;
  AttachedReader attached_;
  PythonStack stack_;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_TESTS_SAMPLER_PYTHON_PYTHON_FIXTURE_H_

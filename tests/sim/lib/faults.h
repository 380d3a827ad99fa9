// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// GPUSIM_FAULT="target:what[:args][;...]". Targets are functions (any cuptiX, cuX or cudaX) or one
// of "buffers", "records", "names", "callbacks"; README.md lists what each understands. Parsed once
// per library; a specification that cannot be understood is a violation, so that no test passes
// because its fault was misspelt. Any thread.
#ifndef GPUPROBE_TESTS_SIM_LIB_FAULTS_H_
#define GPUPROBE_TESTS_SIM_LIB_FAULTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpuprobe::sim {

struct Fault {
  std::string target, what;
  std::vector<std::string> args;
  std::atomic<int64_t> calls{0};  // matching calls so far

  int64_t Arg(size_t i, int64_t otherwise) const;
};

class Faults {
 public:
  static const Faults& Get();  // process lifetime

  // The fault for a non-function target, e.g. Find("records", "zero"); nullptr: none.
  const Fault* Find(std::string_view target, std::string_view what) const;

  // To be called once per call of a function. `argument`: its kind, attribute or cbid, if it has
  // one. Sleeps and hangs here; returns the code to fail with, 0: go on, or one of these two.
  static constexpr int kSilent = -1;  // report success, do nothing
  static constexpr int kNull = -2;    // report success, hand out a null handle
  int OnCall(std::string_view function, int64_t argument) const;

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  Faults();
  void Parse(std::string_view item);
  std::vector<std::unique_ptr<Fault>> faults_;
  std::vector<std::string> errors_;
};

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_FAULTS_H_

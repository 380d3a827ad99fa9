// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace files, written by the shipped writer, as the loader makes a Timeline of them.
#ifndef GPUPROBE_TESTS_TOOLS_LOAD_LOADER_FIXTURE_H_
#define GPUPROBE_TESTS_TOOLS_LOAD_LOADER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tests/tools/trace_maker.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

inline constexpr int64_t kT = 1'000'000'000'000;  // MadeProcess::begin_ns

class LoaderTest : public ::testing::Test {
 protected:
  LoadedRun Load(const std::vector<std::string>& paths) {
    absl::StatusOr<LoadedRun> run = LoadRun(FindInputFiles(paths));
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : LoadedRun();
  }
  std::string Save(const TraceMaker& trace, const std::string& name) {
    trace.Save(folder_.Path(name));
    return folder_.Path(name);
  }
  LoadedRun LoadOne(TraceMaker* trace) {
    trace->Finish();
    return Load({Save(*trace, "one.gpuprobe")});
  }
  TempFolder folder_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_LOAD_LOADER_FIXTURE_H_

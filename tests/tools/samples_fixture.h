// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host samples of trace files, written by the shipped encoder.
#ifndef GPUPROBE_TESTS_TOOLS_SAMPLES_FIXTURE_H_
#define GPUPROBE_TESTS_TOOLS_SAMPLES_FIXTURE_H_

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
inline constexpr int64_t kMs = 1'000'000;
inline constexpr uint32_t kPid = 4711;

class SamplesTest : public ::testing::Test {
 protected:
  LoadedRun Load(const std::vector<std::string>& paths) {
    absl::StatusOr<LoadedRun> run = LoadRun(FindInputFiles(paths));
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : LoadedRun();
  }
  std::string Save(TraceMaker* trace, const std::string& name) {
    trace->Finish();
    trace->Save(folder_.Path(name));
    return folder_.Path(name);
  }
  LoadedRun LoadOne(TraceMaker* trace) { return Load({Save(trace, "one.gpuprobe")}); }

  TempFolder folder_;
};

inline proto::SampleRecord At(int64_t time_ns, uint32_t stack = 0, uint32_t state = 1) {
  proto::SampleRecord sample = {};
  sample.time_ns = time_ns;
  sample.interval_ns = 10 * kMs;
  sample.cpu_ns = state == 1 ? 10 * kMs : 0;
  sample.state = state;
  sample.stack = stack;
  return sample;
}

inline std::string FrameText(const Timeline& t, int32_t node) {
  const CodeLocation& l =
      t.locations[static_cast<size_t>(t.stacks[static_cast<size_t>(node)].location)];
  const std::string file = t.strings[static_cast<size_t>(l.file)];
  if (l.native) return file + "+" + std::to_string(l.offset);
  return file + ":" + std::to_string(l.line) + " " + t.strings[static_cast<size_t>(l.function)];
}

inline std::vector<std::string> StackText(const Timeline& t, int32_t node) {
  std::vector<std::string> frames;
  for (; node >= 0; node = t.stacks[static_cast<size_t>(node)].parent) {
    frames.push_back(FrameText(t, node));
  }
  return frames;
}

inline const Process& ProcessOf(const Timeline& t, const HostSample& sample) {
  return t.processes[static_cast<size_t>(t.threads[static_cast<size_t>(sample.thread)].process)];
}

inline std::string OnePiece(int64_t begin_ns, uint32_t pid, uint32_t tid, int64_t sample_ns,
                            uint64_t start_ticks = 0, uint32_t parent_pid = 1) {
  PieceMaker piece(begin_ns);
  piece.Process(
      {.pid = pid, .parent_pid = parent_pid, .name = "python", .start_ticks = start_ticks});
  piece.Sample(pid, tid, At(sample_ns));
  return piece.Seal(begin_ns + 250 * kMs);
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_SAMPLES_FIXTURE_H_

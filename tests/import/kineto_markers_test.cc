// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Annotations of trace events as markers of steps.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/import/kineto_files.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

std::string Annotation(const std::string& name, int64_t ts, int64_t dur,
                       const std::string& category = "user_annotation",
                       const std::string& lane = R"("pid": 411, "tid": 411)") {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name + R"(", )" + lane +
         ", \"ts\": " + std::to_string(ts) + ", \"dur\": " + std::to_string(dur) + "}";
}

// Three steps of two kernels; the device is 1000 us behind.
std::vector<std::string> Rows(bool calls) {
  std::vector<std::string> rows;
  for (int step = 0; step < 3; ++step) {
    for (int k = 0; k < 2; ++k) {
      const int at = 100 * step + 10 * k, id = 1 + 2 * step + k;
      if (calls) rows.push_back(Call("cudaLaunchKernel", std::to_string(at), "5", id));
      rows.push_back(
          Kernel("kernel" + std::to_string(id), std::to_string(1000 + 5 * at), "40", id));
    }
  }
  return rows;
}

TEST_F(KinetoTest, ProfilerStepsMarkTheSteps) {
  std::vector<std::string> rows = Rows(true);
  for (int step = 0; step < 3; ++step) {
    rows.push_back(Annotation("ProfilerStep#" + std::to_string(7 + step), 100 * step, 90));
    rows.push_back(Annotation("Optimizer.step#SGD.step", 100 * step + 10, 50));
  }
  const LoadedRun run = Load(Document(rows));
  ASSERT_EQ(run.timeline.markers.size(), 6u);
  EXPECT_EQ(run.timeline.marker_names[0].folded, "ProfilerStep##");
  EXPECT_EQ(run.timeline.threads[static_cast<size_t>(run.timeline.markers[0].thread)].tid, 411u);
  const DeviceSteps steps = Analyse(run.timeline, {}).steps.at(0);
  EXPECT_EQ(steps.source, StepSource::kProfilerStep);
  ASSERT_EQ(steps.steps.size(), 3u);
  EXPECT_EQ(steps.steps[1].begin_ns, 1'500'000);
  EXPECT_EQ(steps.steps[2].end_ns, 2'090'000);
}

TEST_F(KinetoTest, AnotherAnnotationMarksThemToo) {
  std::vector<std::string> rows = Rows(true);
  for (int step = 0; step < 3; ++step) rows.push_back(Annotation("train_step", 100 * step, 90));
  const DeviceSteps steps = Analyse(Load(Document(rows)).timeline, {}).steps.at(0);
  EXPECT_EQ(steps.source, StepSource::kAnnotation);
  EXPECT_EQ(steps.marker, "train_step");
}

TEST_F(KinetoTest, AnnotationsOnTheDeviceServeWithoutHostCalls) {
  std::vector<std::string> rows = Rows(false);
  for (int step = 0; step < 3; ++step) {
    rows.push_back(Annotation("ProfilerStep#" + std::to_string(step), 1000 + 500 * step, 95,
                              "gpu_user_annotation", R"("pid": 0, "tid": 7)"));
    // Of a device without work: of no use.
    rows.push_back(Annotation("ProfilerStep#" + std::to_string(step), 1000 + 500 * step, 95,
                              "gpu_user_annotation", R"("pid": 5, "tid": 7)"));
  }
  const LoadedRun run = Load(Document(rows));
  EXPECT_EQ(run.timeline.devices.size(), 1u);
  EXPECT_EQ(run.timeline.markers.size(), 3u);
  const DeviceSteps steps = Analyse(run.timeline, {}).steps.at(0);
  EXPECT_EQ(steps.source, StepSource::kProfilerStep);
  ASSERT_EQ(steps.steps.size(), 3u);
  EXPECT_EQ(steps.steps[2].begin_ns, 2'000'000);
}

TEST_F(KinetoTest, OperatorsRangesAreNotKept) {
  std::vector<std::string> rows = Rows(true);
  rows.push_back(Annotation("nccl::all_reduce", 0, 10));
  rows.push_back(Annotation("step \\u00e9 \\\"1\\\"", 0, 10));
  const LoadedRun run = Load(Document(rows));
  ASSERT_EQ(run.timeline.markers.size(), 1u);
  EXPECT_EQ(run.timeline.marker_names[0].first, "step \u00e9 \"1\"");
}

TEST_F(KinetoTest, MarkersOfALaterDocumentMoveWithItsBase) {
  std::vector<std::string> rows = Rows(true);
  rows.push_back(Annotation("step", 0, 10));
  const std::string first = Document(
      rows,
      R"("distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": 1000000000)");
  const std::string second = Document(
      rows,
      R"("distributedInfo": {"rank": 1, "world_size": 2}, "baseTimeNanoseconds": 3000000000)");
  const LoadedRun run = Load(first + second);
  ASSERT_EQ(run.timeline.markers.size(), 2u);
  EXPECT_EQ(run.timeline.markers[0].begin_ns, 0);
  EXPECT_EQ(run.timeline.markers[1].begin_ns, 2'000'000'000);
}

}  // namespace
}  // namespace gpuprobe::tools

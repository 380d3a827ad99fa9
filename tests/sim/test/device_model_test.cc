// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/device_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/lib/settings.h"

namespace gpuprobe::sim {
namespace {

class DeviceModelTest : public testing::Test {
 protected:
  DeviceModelTest() : model_(2), context_(model_.CreateContext(model_.device(0), true)) {
    Settings::Get().Set("launch_latency_ns", kLatency);
    Settings::Get().Set("grain_ns", 1);
    Settings::Get().Set("stream_overlap_ns", 0);
  }
  Interval Kernel(Stream* stream, int64_t submitted, int64_t duration) {
    return model_.Submit(stream, Engine::kCompute, true, submitted, duration);
  }

  static constexpr int64_t kLatency = 100;
  DeviceModel model_;
  Context* context_;
};

TEST_F(DeviceModelTest, IdleStreamStartsWorkAfterTheLatency) {
  const Interval when = Kernel(model_.CreateStream(context_, false, 0), 1000, 50);
  EXPECT_EQ(when.start_ns, 1100);
  EXPECT_EQ(when.end_ns, 1150);
}

TEST_F(DeviceModelTest, ZeroLengthWorkIsAllowedAndNegativeIsTreatedAsZero) {
  Stream* stream = model_.CreateStream(context_, false, 0);
  EXPECT_EQ(Kernel(stream, 0, 0).end_ns, kLatency);
  EXPECT_EQ(Kernel(stream, 0, -5).end_ns, kLatency);
}

TEST_F(DeviceModelTest, EventWithoutARecordDoesNotHoldAStream) {
  Stream* stream = model_.CreateStream(context_, false, 0);
  model_.WaitEvent(stream, model_.CreateEvent(true));
  EXPECT_EQ(Kernel(stream, 1000, 1).start_ns, 1100);
}

TEST_F(DeviceModelTest, EventKeepsTheTimeOfItsRecordWhenWorkFollows) {
  Stream* stream = model_.CreateStream(context_, false, 0);
  const Interval first = Kernel(stream, 0, 500);
  Event* event = model_.CreateEvent(true);
  model_.RecordEvent(event, stream, 10);
  Kernel(stream, 20, 500);
  EXPECT_EQ(model_.Snapshot(event).time_ns, first.end_ns);
}

TEST_F(DeviceModelTest, EventOnAnIdleStreamIsReachedAtOnce) {
  Event* event = model_.CreateEvent(true);
  model_.RecordEvent(event, model_.CreateStream(context_, false, 0), 777);
  EXPECT_EQ(model_.Snapshot(event).time_ns, 777);
}

TEST_F(DeviceModelTest, DestroyedStreamsStillCountForTheContext) {
  Stream* stream = model_.CreateStream(context_, false, 0);
  const Interval when = Kernel(stream, 0, 5000);
  model_.DestroyStream(stream);
  EXPECT_EQ(model_.ContextEnd(context_), when.end_ns);
}

TEST_F(DeviceModelTest, DevicesDoNotShareEngines) {
  Context* other = model_.CreateContext(model_.device(1), true);
  const Interval a =
      model_.Submit(model_.CreateStream(context_, false, 0), Engine::kHtoD, false, 0, 1000);
  const Interval b =
      model_.Submit(model_.CreateStream(other, false, 0), Engine::kHtoD, false, 0, 1000);
  EXPECT_EQ(a.start_ns, b.start_ns);
}

// Against the definition, on random work: an engine never does two things at once, a stream keeps
// its order, nothing starts before it may, and no copy waits while its engine has a hole that fits.
TEST_F(DeviceModelTest, RandomWorkObeysEveryRule) {
  std::mt19937 random(20240229);
  std::vector<Stream*> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(model_.CreateStream(context_, false, 0));
  std::vector<Interval> engine_work;
  std::vector<int64_t> tail(streams.size(), 0);
  int64_t now = 0;
  for (int i = 0; i < 400; ++i) {
    now += static_cast<int64_t>(random() % 300);
    const size_t s = random() % streams.size();
    const bool copy = random() % 2 == 0;
    const int64_t duration = 1 + static_cast<int64_t>(random() % 1000);
    const int64_t ready = std::max(now + kLatency, tail[s]);
    const Interval when =
        model_.Submit(streams[s], copy ? Engine::kHtoD : Engine::kCompute, !copy, now, duration);
    ASSERT_EQ(when.end_ns - when.start_ns, duration);
    if (!copy) {
      ASSERT_EQ(when.start_ns, ready);
    } else {
      const auto free_at = [&](int64_t start) {
        return std::none_of(engine_work.begin(), engine_work.end(), [&](const Interval& w) {
          return w.start_ns < start + duration && start < w.end_ns;
        });
      };
      ASSERT_TRUE(free_at(when.start_ns));
      int64_t earliest = ready;  // the first hole: either at once or at the end of something
      if (!free_at(earliest)) {
        earliest = INT64_MAX;
        for (const Interval& w : engine_work) {
          if (w.end_ns >= ready && free_at(w.end_ns)) earliest = std::min(earliest, w.end_ns);
        }
      }
      ASSERT_EQ(when.start_ns, earliest);
      engine_work.push_back(when);
    }
    tail[s] = when.end_ns;
  }
}

TEST(SettingsTest, VersionSuffixesAreStripped) {
  EXPECT_EQ(WithoutVersion("cuMemAlloc_v2"), "cuMemAlloc");
  EXPECT_EQ(WithoutVersion("cuCtxCreate_v4"), "cuCtxCreate");
  EXPECT_EQ(WithoutVersion("cuMemsetD8"), "cuMemsetD8");
  EXPECT_EQ(WithoutVersion("cudaMalloc_v3020"), "cudaMalloc");
  EXPECT_EQ(WithoutVersion("v2"), "v2");
  EXPECT_EQ(WithoutVersion(""), "");
}

TEST(SettingsTest, UnknownSettingsAreRefusedAndKernelsFallBackToTheDefault) {
  Settings& settings = Settings::Get();
  EXPECT_FALSE(settings.Set("no_such_setting", 1));
  EXPECT_EQ(settings.Find("no_such_setting"), -1);
  settings.Set("kernel_ns", 4321);
  settings.DefineKernel("a=b", 7);
  EXPECT_EQ(settings.KernelNs("a=b"), 7);
  EXPECT_EQ(settings.KernelNs("other"), 4321);
}

}  // namespace
}  // namespace gpuprobe::sim

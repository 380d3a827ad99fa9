// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Against a real libcupti, named by GPUPROBE_TEST_CUPTI (a wheel of NVIDIA's will do). Up to 13.1
// it answers what is asked here without a driver; from 13.2 a driver must be loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cupti/cupti_api.h"
#include "cupti/record_decode_inl.h"
#include "cupti/record_layout.h"
#include "tests/cupti/keeping_sink.h"
#include "tests/cupti/recording.h"

namespace gpuprobe::cupti {
namespace {

class RealCupti : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = getenv("GPUPROBE_TEST_CUPTI");
    if (path == nullptr) GTEST_SKIP() << "GPUPROBE_TEST_CUPTI names no libcupti";
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    char why[256];
    ASSERT_TRUE(FillCuptiApi(&api_, handle, why, sizeof(why))) << why;
  }
  CuptiApi api_;
};

TEST_F(RealCupti, UsesTheSizesThatWeKnowForItsVersion) {
  RecordLayout known, measured;
  ASSERT_TRUE(KnownLayout(api_.version, &known));
  measured = known;
  ASSERT_GT(MeasureRecordSizes(&api_, &measured), 30u);
  if (std::string(measured.name).rfind("CUPTI 12.0", 0) == 0) {
    ASSERT_TRUE(KnownLayout(19, &known));  // answers 18 like 11.8
  }
  for (uint32_t kind = 1; kind < kKindLimit; ++kind) {
    if (MinimumRecordSize(kind) == 0) continue;
    EXPECT_EQ(measured.size_bytes[kind], known.size_bytes[kind]) << "kind " << kind;
  }
}

TEST_F(RealCupti, WalksTheRecordingsAsWeDo) {
  const std::string folder = RecordingsFolder();
  if (folder.empty()) GTEST_SKIP() << "no recordings";
  if (api_.version / 100 != 1300) GTEST_SKIP() << "the recordings are of CUPTI 13.0";
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(&api_, api_.version));
  KeepingSink sink;
  DecodeStats stats = {};
  for (const char* name : {"resnet_dataloader", "gpt_train"}) {
    auto buffers = ReadRecording(folder + "/" + name + ".cuptibuf.gz");
    ASSERT_FALSE(buffers.empty());
    for (auto& buffer : buffers) {
      decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
      EXPECT_FALSE(decoder.uses_cupti_walk());
    }
  }
  EXPECT_EQ(stats.records, 74212u + 151097u);
  EXPECT_EQ(stats.undecodable_bytes, 0u);
}

}  // namespace
}  // namespace gpuprobe::cupti

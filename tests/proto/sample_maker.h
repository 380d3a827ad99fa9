// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A SampleEncoder with memory, and what it seals as bytes and as the message.
#ifndef GPUPROBE_TESTS_PROTO_SAMPLE_MAKER_H_
#define GPUPROBE_TESTS_PROTO_SAMPLE_MAKER_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/gpuprobe.pb.h"
#include "proto/sample_encoder.h"

namespace gpuprobe::proto {

class SampleMaker {
 public:
  explicit SampleMaker(int64_t base_ns) {
    memory_ = std::aligned_alloc(64, SampleEncoder::kMemoryBytes);
    std::memset(memory_, 0, SampleEncoder::kMemoryBytes);
    encoder.Init(memory_);
    encoder.Begin(base_ns);
  }
  ~SampleMaker() { std::free(memory_); }
  SampleMaker(const SampleMaker&) = delete;
  SampleMaker& operator=(const SampleMaker&) = delete;

  uint32_t Location(uint32_t caller_id, std::string_view function, std::string_view file,
                    uint32_t line, uint64_t offset = 0, uint32_t kind = 0) {
    const uint32_t known = encoder.FindLocation(caller_id);
    if (known != 0) return known;
    const uint32_t function_id = encoder.InternText(function);
    return encoder.AddLocation(caller_id, function_id, encoder.InternText(file), line, offset,
                               kind);
  }

  std::string SealBytes(int64_t end_ns, const SamplerTotals& totals = {}) {
    std::vector<uint8_t> out(SampleEncoder::kMaxSealedBytes);
    const size_t size = encoder.Seal(end_ns, totals, out.data(), out.size());
    EXPECT_NE(size, 0u);
    return std::string(reinterpret_cast<const char*>(out.data()), size);
  }
  size_t SealedBytes(int64_t end_ns) { return SealBytes(end_ns).size(); }
  HostSamples Seal(int64_t end_ns, const SamplerTotals& totals = {}) {
    HostSamples piece;
    EXPECT_TRUE(piece.ParseFromString(SealBytes(end_ns, totals)));
    return piece;
  }

  SampleEncoder encoder;

 private:
  void* memory_;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_SAMPLE_MAKER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What shows only in a whole buffer: calls that belong together, which sizes apply, damage.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cupti/api_calls.h"
#include "cupti/record_decode.h"
#include "cupti/record_decode_inl.h"
#include "proto/frame_dictionary.h"
#include "tests/cupti/keeping_sink.h"
#include "tests/cupti/made_records.h"
#include "tests/cupti/size_walk.h"

namespace gpuprobe::cupti {
namespace {

// ---- API calls ----

TEST(ApiRecords, FieldsAreDecoded) {
  auto call = Driver(kCuLaunchKernel, 1, 5, 42, 1234);
  call.returnValue = 700;
  Buffer buffer;
  buffer.Add(call);
  const Decoded decoded = Decode(buffer, kCuda130);
  ASSERT_EQ(decoded.sink.calls.size(), 1u);
  const ApiRecord& c = decoded.sink.calls[0];
  EXPECT_EQ(c.domain, ApiDomain::kDriver);
  EXPECT_EQ(c.cbid, kCuLaunchKernel);
  EXPECT_EQ(c.start_ns, static_cast<int64_t>(kStart) + 1);
  EXPECT_EQ(c.end_ns, static_cast<int64_t>(kStart) + 5);
  EXPECT_EQ(c.process, 99u);
  EXPECT_EQ(c.thread, 1234u);
  EXPECT_EQ(c.correlation, 42u);
  EXPECT_EQ(c.result, 700);
}

TEST(ApiRecords, DriverLaunchUnderRuntimeLaunchCountsOnceInEitherOrder) {
  for (const bool driver_first : {true, false}) {
    Buffer buffer;
    const auto inner = Driver(kCuLaunchKernel, 2, 8, 42);
    const auto outer = Runtime(kCudaLaunchKernel, 1, 9, 42);
    if (driver_first) buffer.Add(inner).Add(outer);
    if (!driver_first) buffer.Add(outer).Add(inner);
    const Decoded decoded = Decode(buffer, kCuda130);
    ASSERT_EQ(decoded.sink.calls.size(), 1u);
    EXPECT_EQ(decoded.sink.calls[0].domain, ApiDomain::kRuntime);
    EXPECT_EQ(decoded.stats.folded_driver_calls, 1u);
    EXPECT_EQ(decoded.stats.records, 1u);
  }
}

TEST(ApiRecords, DirectDriverLaunchStays) {
  Buffer buffer;
  buffer.Add(Runtime(kCudaLaunchKernel, 1, 9, 41))
      .Add(Driver(kCuLaunchKernel, 10, 14, 42))
      .Add(Runtime(kCudaLaunchKernel, 15, 19, 43));
  const Decoded decoded = Decode(buffer, kCuda130);
  EXPECT_EQ(decoded.sink.calls.size(), 3u);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 0u);
}

TEST(ApiRecords, ModuleLoadUnderALaunchIsKeptBesideIt) {
  Buffer buffer;
  buffer.Add(Driver(kCuModuleLoadData, 2, 500, 42))
      .Add(Driver(kCuLaunchKernel, 501, 510, 42))
      .Add(Runtime(kCudaLaunchKernel, 1, 511, 42));
  const Decoded decoded = Decode(buffer, kCuda130);
  ASSERT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.calls[0].cbid, kCuModuleLoadData);
  EXPECT_EQ(decoded.sink.calls[1].domain, ApiDomain::kRuntime);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 1u);
}

TEST(ApiRecords, SameCorrelationOnAnotherThreadOrOutsideTheCallIsNotFolded) {
  Buffer buffer;
  buffer.Add(Driver(kCuLaunchKernel, 2, 8, 42, 7)).Add(Runtime(kCudaLaunchKernel, 1, 9, 42, 8));
  EXPECT_EQ(Decode(buffer, kCuda130).sink.calls.size(), 2u);
  Buffer apart;  // a correlation id used again, 2^32 calls later
  apart.Add(Driver(kCuLaunchKernel, 2, 8, 42)).Add(Runtime(kCudaLaunchKernel, 100, 109, 42));
  EXPECT_EQ(Decode(apart, kCuda130).sink.calls.size(), 2u);
}

TEST(ApiRecords, FoldingSeesThroughOtherThreadsAndGpuRecords) {
  auto kernel = MakeKernel<CUpti_ActivityKernel8>();
  Buffer buffer;
  buffer.Add(Driver(kCuLaunchKernel, 2, 8, 42, 7))
      .Add(kernel)
      .Add(Driver(kCuLaunchKernel, 3, 9, 43, 8))
      .Add(kernel)
      .Add(Runtime(kCudaLaunchKernel, 1, 10, 42, 7))
      .Add(Runtime(kCudaLaunchKernel, 1, 10, 43, 8));
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.kernels.size(), 2u);
  EXPECT_EQ(decoded.stats.folded_driver_calls, 2u);
}

TEST(ApiRecords, PairAtTheSeamOfTwoBuffersIsKeptWhole) {
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  KeepingSink sink;
  DecodeStats stats = {};
  Buffer first, second;
  first.Add(Driver(kCuLaunchKernel, 2, 8, 42));
  second.Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  decoder.Decode(first.data(), first.size(), &sink, &stats);
  decoder.Decode(second.data(), second.size(), &sink, &stats);
  EXPECT_EQ(sink.calls.size(), 2u);
}

TEST(ApiRecords, CallsWithoutTimesAreCountedAndNotHandedOver) {
  auto call = Runtime(kCudaLaunchKernel, 1, 9, 42);
  call.start = call.end = 0;
  Buffer buffer;
  buffer.Add(call);
  const Decoded decoded = Decode(buffer, kCuda130);
  EXPECT_EQ(decoded.sink.total(), 0u);
  EXPECT_EQ(decoded.stats.timing_missing, 1u);
  EXPECT_EQ(decoded.stats.records, 0u);
}

TEST(ApiRecords, ChatterIsLeftOutOnlyOnRequestAndUnknownCallsStay) {
  Buffer buffer;
  buffer.Add(Runtime(kCudaGetDevice, 1, 2, 1))
      .Add(Runtime(kCudaLaunchKernel, 3, 4, 2))
      .Add(Runtime(60000, 5, 6, 3));
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  EXPECT_EQ(Decode(buffer, kCuda130, &decoder).sink.calls.size(), 3u);
  decoder.RecordedCallsOnly(true);
  const Decoded decoded = Decode(buffer, kCuda130, &decoder);
  ASSERT_EQ(decoded.sink.calls.size(), 2u);
  EXPECT_EQ(decoded.sink.calls[1].cbid, 60000u);
  EXPECT_EQ(decoded.stats.chatter_calls, 1u);
}

TEST(ApiRecords, EveryCallOfTheTableIsLeftOutAsTheTableSays) {
  for (const ApiDomain domain : {ApiDomain::kRuntime, ApiDomain::kDriver}) {
    size_t count = 0;
    const ApiCall* calls = ApiCalls(domain, &count);
    for (size_t i = 0; i < count; ++i) {
      Buffer buffer;
      buffer.Add(domain == ApiDomain::kRuntime ? Runtime(calls[i].cbid, 1, 2, 1)
                                               : Driver(calls[i].cbid, 1, 2, 1));
      BufferDecoder decoder;
      ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
      decoder.RecordedCallsOnly(true);
      const Decoded decoded = Decode(buffer, kCuda130, &decoder);
      EXPECT_EQ(decoded.sink.calls.size(), calls[i].recorded ? 1u : 0u) << calls[i].name;
      decoder.RecordedCallsOnly(false);
      EXPECT_EQ(Decode(buffer, kCuda130, &decoder).sink.calls.size(), 1u) << calls[i].name;
    }
  }
}

TEST(ApiRecords, DriverCallUnderARuntimeCallThatIsLeftOutStays) {
  Buffer buffer;
  buffer.Add(Driver(kCuPrimaryRetain, 2, 800, 42)).Add(Runtime(kCudaSetDevice, 1, 801, 42));
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
  decoder.RecordedCallsOnly(true);
  const Decoded decoded = Decode(buffer, kCuda130, &decoder);
  ASSERT_EQ(decoded.sink.calls.size(), 1u);
  EXPECT_EQ(decoded.sink.calls[0].cbid, kCuPrimaryRetain);
}

// ---- Sinks that know the common record ----

// Takes what it is told to, and keeps it as if it had been decoded.
struct KnowingSink : KeepingSink {
  bool takes = true;
  std::vector<uint64_t> kernel_words;  // what TakeKnownKernel saw
  std::vector<uint32_t> offered;       // correlation ids
  bool TakeKnownCall(const ApiRecord& r) {
    offered.push_back(r.correlation);
    if (takes) calls.push_back(r);
    return takes;
  }
  bool TakeKnownKernel(const KernelInBuffer& k) {
    offered.push_back(k.correlation());
    kernel_words = Words(k);
    return takes;
  }
  template <class Kernel>
  static std::vector<uint64_t> Words(const Kernel& k) {
    std::vector<uint64_t> words = {static_cast<uint64_t>(k.start_ns()),
                                   static_cast<uint64_t>(k.end_ns()),
                                   k.device(),
                                   k.context(),
                                   k.stream(),
                                   k.correlation(),
                                   k.how(),
                                   k.plain()};
    for (size_t i = 0; i < 8; ++i) words.push_back(k.shape_word(i));
    return words;
  }
};

TEST(KnowingSinks, WhatIsTakenCountsAndComesNoSecondTime) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel10>())
      .Add(Runtime(kCudaLaunchKernel, 1, 9, 42))
      .Add(Driver(kCuLaunchKernel, 2, 8, 42))  // counts with the call that was taken
      .Add(Driver(kCuLaunchKernel, 20, 28, 43))
      .Add(Runtime(kCudaGetDevice, 30, 31, 44));
  for (const bool takes : {true, false}) {
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(nullptr, kCuda130));
    decoder.RecordedCallsOnly(true);
    KnowingSink sink;
    sink.takes = takes;
    DecodeStats stats = {};
    decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
    EXPECT_EQ(sink.offered, (std::vector<uint32_t>{4000000000u, 42}));  // no chatter, no driver
    EXPECT_EQ(sink.kernels.size(), takes ? 0u : 1u);
    EXPECT_EQ(sink.calls.size(), 2u);
    EXPECT_EQ(stats.records, 3u);
    EXPECT_EQ(stats.folded_driver_calls, 1u);
    EXPECT_EQ(stats.chatter_calls, 1u);
  }
}

template <class Kernel>
void ExpectTheSameFields(uint32_t version, bool plain) {
  Kernel made = MakeKernel<Kernel>();
  made.clusterX = 2;
  made.clusterZ = 3;
  if (plain) {
    made.graphId = 0;
    made.graphNodeId = 0;
    made.queued = INT64_MAX;  // not a time
    made.submitted = 0;
  }
  Buffer buffer;
  buffer.Add(made);
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, version));
  KnowingSink sink;
  sink.takes = false;
  DecodeStats stats = {};
  decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
  ASSERT_EQ(sink.kernels.size(), 1u);
  EXPECT_EQ(sink.kernel_words, KnowingSink::Words(proto::KernelFields{sink.kernels[0]}));
  EXPECT_EQ(sink.kernel_words[7], plain ? 1u : 0u);
}

TEST(KnowingSinks, AKernelWhereItStandsHasTheFieldsOfTheDecodedOne) {
  for (const bool plain : {true, false}) {
    ExpectTheSameFields<CUpti_ActivityKernel8>(kCuda118, plain);
    ExpectTheSameFields<CUpti_ActivityKernel9>(kCuda128, plain);
    ExpectTheSameFields<CUpti_ActivityKernel10>(kCuda130, plain);
  }
}

// ---- Which sizes apply ----

class WalkedBoth : public ::testing::Test {
 protected:
  void SetUp() override {
    api_.ActivityGetNextRecord = &SizeWalk;
    SetSizes(kCuda118);
  }
  static void SetSizes(uint32_t version) {
    RecordLayout layout;
    ASSERT_TRUE(KnownLayout(version, &layout));
    memcpy(g_walk_sizes, layout.size_bytes, sizeof(g_walk_sizes));
    g_walk_calls = 0;
  }
  static void SetSize(Kind kind, uint16_t bytes) {
    g_walk_sizes[static_cast<uint32_t>(kind)] = bytes;
  }

  CuptiApi api_;
  BufferDecoder decoder_;
};

TEST_F(WalkedBoth, AgreementKeepsOurOwnWalkAndVerifiesFourBuffersOnly) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  for (int i = 0; i < 4; ++i) {
    g_walk_calls = 0;
    EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
    EXPECT_GT(g_walk_calls, 0u);
  }
  g_walk_calls = 0;
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_EQ(g_walk_calls, 0u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
  EXPECT_STREQ(decoder_.layout_name(), "CUPTI 11.8 (kernel 200 bytes)");
}

TEST_F(WalkedBoth, Version18WithLongerKernelsIsCuda120) {
  SetSize(Kind::kConcurrentKernel, 208);
  SetSize(Kind::kKernel, 208);
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  EXPECT_STREQ(decoder_.layout_name(), "CUPTI 12.0 or 12.1 (kernel 208 bytes)");
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 208);
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 208);
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
}

TEST_F(WalkedBoth, FutureVersionIsDecodedByTheSizesThatTheLibraryTells) {
  SetSize(Kind::kConcurrentKernel, 320);
  SetSize(Kind::kRuntime, 64);
  ASSERT_TRUE(decoder_.Init(&api_, 150000));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 320)
      .Add(Runtime(kCudaLaunchKernel, 1, 9, 42), 64)
      .Add(MakeKernel<CUpti_ActivityKernel8>(), 320);
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  ExpectKernelFields(decoded.sink.kernels[1]);
  EXPECT_EQ(decoded.sink.calls.size(), 1u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
}

TEST_F(WalkedBoth, DisagreementFallsBackToCuptisWalkForGood) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  SetSize(Kind::kConcurrentKernel, 232);  // after Init: not what the library said at first
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>(), 232)
      .Add(MakeKernel<CUpti_ActivityKernel8>(), 232);
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
  ASSERT_EQ(decoded.sink.kernels.size(), 2u);
  ExpectKernelFields(decoded.sink.kernels[1]);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
  Buffer agreeing;
  agreeing.Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  EXPECT_EQ(Decode(agreeing, 0, &decoder_).sink.calls.size(), 1u);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
}

TEST_F(WalkedBoth, UnknownKindInALaterBufferFallsBackAndIsCounted) {
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer plain;
  plain.Add(MakeKernel<CUpti_ActivityKernel8>());
  for (int i = 0; i < 4; ++i) Decode(plain, 0, &decoder_);
  g_walk_sizes[77] = 48;
  struct {
    uint32_t kind;
    uint8_t rest[44];
  } strange = {77, {}};
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>())
      .Add(strange)
      .Add(MakeKernel<CUpti_ActivityKernel8>());
  const Decoded decoded = Decode(buffer, 0, &decoder_);
  EXPECT_TRUE(decoder_.uses_cupti_walk());
  EXPECT_EQ(decoded.sink.kernels.size(), 2u);
  EXPECT_EQ(decoded.stats.unknown_kind, 1u);
  EXPECT_EQ(decoded.stats.last_unknown_kind, 77u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 0u);
}

TEST_F(WalkedBoth, LibraryThatAnswersNothingIsNoWitness) {
  api_.ActivityGetNextRecord = [](uint8_t*, size_t, void**) -> Result {
    return CUPTI_ERROR_NOT_INITIALIZED;
  };
  ASSERT_TRUE(decoder_.Init(&api_, kCuda118));
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  EXPECT_EQ(Decode(buffer, 0, &decoder_).sink.kernels.size(), 2u);
  EXPECT_FALSE(decoder_.uses_cupti_walk());
}

TEST(RecordLayout, VersionsOlderThan117AreRefused) {
  BufferDecoder decoder;
  EXPECT_FALSE(decoder.Init(nullptr, 16));
  EXPECT_FALSE(decoder.Init(nullptr, 0));
}

// ---- Damage ----

TEST(RecordDecode, UnknownKindWithoutCuptiEndsTheBufferAndCountsTheRest) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).AddBytes(64, 0x4d);
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.kernels.size(), 1u);
  EXPECT_EQ(decoded.stats.undecodable_bytes, 64u);
}

TEST(RecordDecode, KindsThatWeDoNotStoreAreSkippedAndCounted) {
  CUpti_ActivityExternalCorrelation external;
  memset(&external, 0, sizeof(external));
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  Buffer buffer;
  buffer.Add(external).Add(MakeCall(CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API, 1, 1, 2, 3));
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>());
  const Decoded decoded = Decode(buffer, kCuda118);
  EXPECT_EQ(decoded.sink.total(), 1u);
  EXPECT_EQ(decoded.stats.unknown_kind, 2u);
  EXPECT_EQ(decoded.stats.records, 1u);
}

TEST(RecordDecode, CutRecordIsCountedAsUndecodable) {
  Buffer whole;
  whole.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(Runtime(kCudaLaunchKernel, 1, 9, 42));
  for (size_t length = 0; length <= whole.size(); ++length) {
    std::vector<uint8_t> cut(whole.data(), whole.data() + length);  // exact: ASan sees an overrun
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(nullptr, kCuda118));
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(cut.data(), cut.size(), &sink, &stats);
    const size_t kernels = length >= 200 ? 1 : 0, calls = length >= 240 ? 1 : 0;
    EXPECT_EQ(sink.kernels.size(), kernels) << length;
    EXPECT_EQ(sink.calls.size(), calls) << length;
    EXPECT_EQ(stats.undecodable_bytes, length - 200 * kernels - 40 * calls) << length;
  }
}

// Bytes are changed at random; whatever comes out, no byte outside is read (ASan) and every byte is
// accounted for by a record or as undecodable.
TEST_F(WalkedBoth, RandomDamageNeverReadsOutside) {
  std::mt19937 random(20260905);
  Buffer good;
  for (int i = 0; i < 8; ++i) {
    good.Add(MakeKernel<CUpti_ActivityKernel8>())
        .Add(Driver(kCuLaunchKernel, 2, 8, 42 + i))
        .Add(Runtime(kCudaLaunchKernel, 1, 9, 42 + i))
        .Add(MakeCopy<CUpti_ActivityMemcpy5>())
        .Add(MakeOverhead(CUPTI_ACTIVITY_OBJECT_THREAD))
        .Add(MakeSync<CUpti_ActivitySynchronization>());
  }
  for (int round = 0; round < 20000; ++round) {
    SetSizes(kCuda118);
    const bool with_cupti = round % 2 == 0;
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(with_cupti ? &api_ : nullptr, round % 3 == 0 ? kCuda130 : kCuda118));
    if (round % 5 == 0) SetSize(Kind::kConcurrentKernel, static_cast<uint16_t>(random() % 400));
    const size_t length = random() % (good.size() + 1);
    std::vector<uint8_t> bytes(good.data(), good.data() + length);
    for (uint32_t changes = random() % 6; changes > 0 && length > 0; --changes) {
      bytes[random() % length] = static_cast<uint8_t>(random() % 64);
    }
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(bytes.data(), bytes.size(), &sink, &stats);
    ASSERT_LE(stats.undecodable_bytes, length);
    ASSERT_EQ(stats.records, sink.total());
    if (sink.total() == 0 && stats.unknown_kind == 0 && stats.folded_driver_calls == 0 &&
        stats.timing_missing + stats.timing_unfinished + stats.timing_invalid == 0) {
      ASSERT_EQ(stats.undecodable_bytes, length);
    }
  }
}

// CUPTI's answers are not trusted either.
TEST(RecordDecode, NonsenseFromGetNextRecordEndsTheWalk) {
  Buffer buffer;
  buffer.Add(MakeKernel<CUpti_ActivityKernel8>()).Add(MakeKernel<CUpti_ActivityKernel8>());
  static uint8_t* inside;
  inside = buffer.data();
  CuptiApi api;
  for (int variant = 0; variant < 4; ++variant) {
    static int s_variant;
    s_variant = variant;
    static int s_calls;
    s_calls = 0;
    api.ActivityGetNextRecord = [](uint8_t*, size_t, void** record) -> Result {
      ++s_calls;
      switch (s_variant) {
        case 0:
          *record = inside;
          break;  // never moves on
        case 1:
          *record = inside + 100000;
          break;  // outside
        case 2:
          *record = inside - 8;
          break;  // before
        default:
          *record = s_calls % 2 ? inside + 8 : inside;  // backwards
      }
      return kSuccess;
    };
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(&api, kCuda118));
    KeepingSink sink;
    DecodeStats stats = {};
    decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
    EXPECT_LE(sink.total(), 2u);
  }
}

}  // namespace
}  // namespace gpuprobe::cupti

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a frame tells besides records: names, dictionaries, facts about devices, contexts and
// threads.
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/trace_writer.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_facts.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

TEST(TraceWriterTest, MarkersKeepTheirNamesAndThreads) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* step = harness.Name("step 1");
  const char* domain = harness.Name("NCCL");
  harness.writer.OnMarker({kTestStartNs + 5, 7, 2, 11, step, nullptr});
  harness.writer.OnMarker({kTestStartNs + 9, 8, 2, 12, harness.Name("sum"), domain});
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.OnMarker({kTestStartNs + 20, 8, 4, 12, nullptr, domain});
  harness.writer.OnMarker({kTestStartNs + 15, 7, 4, 11, nullptr, nullptr});
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  ASSERT_EQ(read.frames.size(), 2u);
  const auto row = [](int64_t after_ns, uint32_t id, int flags, int thread, const char* names) {
    const int64_t ns = kTestStartNs + after_ns;
    return Text(ns, ns, id) + Text(flags, thread) + names;
  };
  EXPECT_EQ(read.log.at("marker"),
            (std::vector<std::string>{row(5, 7, 2, 11, "step 1 -"), row(9, 8, 2, 12, "sum NCCL"),
                                      row(20, 8, 4, 12, "- NCCL"), row(15, 7, 4, 11, "- -")}));
  EXPECT_EQ(read.headers[0].first_ns(), kTestStartNs + 5);
  EXPECT_EQ(read.headers[1].last_ns(), kTestStartNs + 20);
  EXPECT_EQ(read.counts.unknown_fields, 0u);
}

TEST(TraceWriterTest, MarkerNamesWithoutEndAreCutAndNothingIsLost) {
  WriterHarness harness(SmallOptions(256));
  ASSERT_TRUE(harness.Init());
  constexpr uint32_t kCount = 12'000;
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string name = "request " + std::to_string(i) + std::string(i % 700, 'x');
    harness.writer.OnMarker(
        {kTestStartNs + i, i, 2, UINT32_MAX, harness.Name(name), harness.Name("domain")});
  }
  harness.writer.OnMarker({kTestStartNs, UINT32_MAX, 255, 0, nullptr, nullptr});
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(read.log.at("marker").size(), kCount + 1);
  for (const Trace& trace : read.frames) {
    EXPECT_TRUE(LossesOf(trace).empty());
    for (const Packet& packet : trace.packet()) {
      for (const std::string& name : packet.dictionary().marker_names()) {
        EXPECT_LE(name.size(), kMaxMarkerNameBytes);
      }
    }
  }
}

TEST(TraceWriterTest, AMarkersNameThatCannotBeReadIsSaid) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* gone = harness.Name("gone");
  harness.unreadable.insert(gone);
  harness.writer.OnMarker({kTestStartNs, 1, 2, 1, gone, nullptr});
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_NE(read.log.at("marker")[0].find("could not be read"), std::string::npos);
  EXPECT_EQ(harness.writer.stats().names_replaced, 1u);
  EXPECT_EQ(LossesOf(read.frames[0]).size(), 1u);
}

TEST(TraceWriterTest, DictionaryIdsAreDenseAndInFirstUseOrder) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* a = harness.Name("a");
  const char* b = harness.Name("b");
  const char* same_as_a = harness.Name("a");
  for (const char* name : {b, a, b, same_as_a}) harness.writer.OnKernel(SomeKernel(name));
  ASSERT_TRUE(harness.writer.CloseFrame());
  harness.writer.OnKernel(SomeKernel(a));
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const Dictionary first = DictionaryOf(read.frames[0]);
  ASSERT_EQ(first.names_size(), 2);
  EXPECT_EQ(first.names(0), "b");
  EXPECT_EQ(first.names(1), "a");
  EXPECT_EQ(first.shapes(0).name(), 1u);
  const Dictionary second = DictionaryOf(read.frames[1]);
  ASSERT_EQ(second.names_size(), 1);
  EXPECT_EQ(second.names(0), "a");
  EXPECT_EQ(second.shapes_size(), 1);
}

TEST(TraceWriterTest, ReadsANameOncePerBuffer) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  std::string text = "first";
  const char* pointer = text.c_str();
  for (int i = 0; i < 10; ++i) harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 1);
  text.replace(0, text.size(),
               "other");  // same memory: the module was unloaded, the pointer reused
  ASSERT_EQ(pointer, text.c_str());
  harness.writer.OnKernel(SomeKernel(pointer));
  harness.writer.BeginBuffer();
  for (int i = 0; i < 10; ++i) harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 2);
  harness.writer.BeginBuffer();
  harness.writer.OnKernel(SomeKernel(pointer));
  EXPECT_EQ(harness.names_read, 3);
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  const std::vector<std::string>& rows = read.log.begin()->second;
  ASSERT_EQ(rows.size(), 22u);
  int first = 0, other = 0;
  for (const std::string& row : rows) {
    first += row.find("'first'") != std::string::npos;
    other += row.find("'other'") != std::string::npos;
  }
  EXPECT_EQ(first, 11);
  EXPECT_EQ(other, 11);
  EXPECT_EQ(DictionaryOf(read.frames[0]).names_size(), 2);
}

TEST(TraceWriterTest, MoreNamesThanAFrameHoldsLoseNothing) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  constexpr int kNames = 30000;
  for (int i = 0; i < kNames; ++i) {
    harness.writer.OnKernel(
        SomeKernel(harness.Name("kernel_" + std::to_string(i) + std::string(100, 'x'))));
  }
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const ReadResult read = ReadBytes(harness.File());
  std::set<std::string> names;
  for (const Trace& trace : read.frames) {
    const Dictionary dictionary = DictionaryOf(trace);
    names.insert(dictionary.names().begin(), dictionary.names().end());
    EXPECT_TRUE(LossesOf(trace).empty());
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNames));
  EXPECT_EQ(read.records(), static_cast<uint64_t>(kNames));
  EXPECT_EQ(harness.writer.stats().names_replaced, 0u);
}

TEST(TraceWriterTest, NamesOfAnyLengthAndBytesAreStored) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const std::string longest(kMaxNameBytes - 1, 'l');
  const std::string cut_at_a_character = std::string(kMaxNameBytes - 1, 'c') + "\xe2\x82\xac";
  for (const std::string& name : {std::string(), longest, cut_at_a_character,
                                  std::string("bad\xff\x01 name"), std::string(1 << 20, 'm')}) {
    harness.writer.OnKernel(SomeKernel(harness.Name(name)));
  }
  harness.writer.OnKernel(SomeKernel(nullptr));
  for (int i = 0; i < 30; ++i)
    harness.writer.OnKernel(SomeKernel(harness.Name(longest + std::to_string(i))));
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_TRUE(read.damage.size() == 1 && read.Count(Damage::Kind::kNoEnd) == 1);
  const Dictionary dictionary = DictionaryOf(read.frames[0]);
  ASSERT_GE(dictionary.names_size(), 5);
  EXPECT_EQ(dictionary.names(0), "");
  EXPECT_EQ(dictionary.names(1), longest);
  EXPECT_EQ(dictionary.names(2), std::string(kMaxNameBytes - 1, 'c'));
  EXPECT_EQ(dictionary.names(3), "bad?\x01 name");
  EXPECT_EQ(dictionary.names(4).size(), kMaxNameBytes);
  EXPECT_EQ(read.records(), 36u);
}

TEST(TraceWriterTest, UnreadableNamesAreReplacedAndCounted) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  const char* gone = harness.Name("gone");
  harness.unreadable.insert(gone);
  for (int i = 0; i < 3; ++i) harness.writer.OnKernel(SomeKernel(gone, kTestStartNs + i));
  harness.writer.OnKernel(SomeKernel(harness.Name("fine")));
  ASSERT_TRUE(harness.writer.CloseFrame());
  EXPECT_EQ(harness.writer.stats().names_replaced, 3u);
  const ReadResult read = ReadBytes(harness.File());
  const std::vector<Loss> losses = LossesOf(read.frames[0]);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].cause(), static_cast<uint32_t>(LossCause::kNameTableFull));
  EXPECT_EQ(losses[0].count(), 3u);
  EXPECT_EQ(losses[0].begin_ns(), kTestStartNs);
  EXPECT_EQ(losses[0].end_ns(), kTestStartNs + 1002);
  EXPECT_EQ(DictionaryOf(read.frames[0]).names(0), "(name could not be read)");
}

TEST(TraceWriterTest, FactsAreRepeatedInTheFramesThatUseThem) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  for (uint32_t device : {0u, 1u}) {
    DeviceRecord d = {};
    d.device = device;
    d.uuid[0] = static_cast<uint8_t>(1 + device);
    d.name = harness.Name("GPU " + std::to_string(device));
    d.sm_count = 132;
    d.memory_bytes = 1ull << 37;
    d.mig = device == 1;
    harness.writer.OnDevice(d);
    harness.writer.OnContext({1 + device, device, 7});
    harness.writer.OnStream({1 + device, 13, 2, 1});
    harness.writer.OnStream({1 + device, 14, 2, 1});
  }
  EXPECT_TRUE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());  // 0: all are news
  EXPECT_FALSE(harness.writer.HasData());
  ASSERT_TRUE(harness.writer.CloseFrame());  // 1: nothing used
  KernelRecord r = SomeKernel(harness.Name("k"));
  r.device = 1;
  r.context = 2;
  r.stream = 14;
  harness.writer.OnKernel(r);
  ASSERT_TRUE(harness.writer.CloseFrame());  // 2: one stream of device 1
  SyncRecord sync = {kTestStartNs, kTestStartNs + 5, 3, 1, 13, kInvalidId, 4, 0, 0};
  harness.writer.OnSync(sync);
  ASSERT_TRUE(harness.writer.CloseFrame());  // 3: through the context of a synchronisation
  const ReadResult read = ReadBytes(harness.File());
  const Dictionary all = DictionaryOf(read.frames[0]);
  ASSERT_EQ(all.devices_size(), 2);
  EXPECT_EQ(all.contexts_size(), 2);
  EXPECT_EQ(all.streams_size(), 4);
  EXPECT_EQ(all.devices(1).name(), "GPU 1");
  EXPECT_EQ(all.devices(1).uuid(), std::string("\x02", 1) + std::string(15, '\0'));
  EXPECT_EQ(all.devices(1).memory_bytes(), 1ull << 37);
  EXPECT_TRUE(all.devices(1).mig());
  EXPECT_EQ(CountPackets(read.frames[1], [](const Packet& p) { return p.has_dictionary(); }), 0);
  const Dictionary used = DictionaryOf(read.frames[2]);
  ASSERT_EQ(used.devices_size(), 1);
  EXPECT_EQ(used.devices(0).device(), 1u);
  ASSERT_EQ(used.contexts_size(), 1);
  EXPECT_EQ(used.contexts(0).null_stream(), 7u);
  ASSERT_EQ(used.streams_size(), 1);
  EXPECT_EQ(used.streams(0).stream(), 14u);
  const Dictionary by_sync = DictionaryOf(read.frames[3]);
  ASSERT_EQ(by_sync.devices_size(), 1);
  EXPECT_EQ(by_sync.devices(0).device(), 0u);
  ASSERT_EQ(by_sync.streams_size(), 1);
  EXPECT_EQ(by_sync.streams(0).stream(), 13u);
}

TEST(TraceWriterTest, LatestFactsSurviveMoreStreamsThanTheTableHolds) {
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  for (uint32_t i = 0; i < 5000; ++i) harness.writer.OnStream({1, i, 0, 1});
  ASSERT_TRUE(harness.writer.CloseFrame());
  KernelRecord r = SomeKernel(harness.Name("k"));
  r.stream = 4999;
  harness.writer.OnKernel(r);
  ASSERT_TRUE(harness.writer.CloseFrame());
  const ReadResult read = ReadBytes(harness.File());
  EXPECT_EQ(DictionaryOf(read.frames[1]).streams_size(), 1);
}

}  // namespace
}  // namespace gpuprobe::proto

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Buffers recorded on an H200 (CUPTI 13.0), against values computed independently (expected.json).
#include <cupti.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cupti/api_calls.h"
#include "cupti/record_decode_inl.h"
#include "tests/cupti/json.h"
#include "tests/cupti/keeping_sink.h"
#include "tests/cupti/recording.h"
#include "tests/cupti/size_walk.h"

namespace gpuprobe::cupti {
namespace {

constexpr uint32_t kRecordedVersion = 130001;

struct Interval {
  int64_t start, end;
};

int64_t UnionLength(std::vector<Interval> intervals, std::vector<int64_t>* gaps = nullptr) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  int64_t length = 0, covered_to = intervals.empty() ? 0 : intervals[0].start;
  for (const Interval& i : intervals) {
    if (i.start > covered_to && gaps != nullptr) gaps->push_back(i.start - covered_to);
    length += std::max<int64_t>(0, i.end - std::max(i.start, covered_to));
    covered_to = std::max(covered_to, i.end);
  }
  return length;
}

void ExpectGaps(const Json& expected, const std::vector<int64_t>& gaps, int64_t at_least) {
  int64_t count = 0, total = 0;
  for (const int64_t gap : gaps) {
    if (gap < at_least) continue;
    ++count;
    total += gap;
  }
  EXPECT_EQ(count, expected["count"].number);
  EXPECT_EQ(total, expected["total_ns"].number);
}

// "3 STREAM_SYNCHRONIZE": {count, total_ns}
void ExpectByNumber(const Json& expected,
                    const std::map<uint32_t, std::pair<int64_t, int64_t>>& got) {
  EXPECT_EQ(expected.members.size(), got.size());
  for (const auto& [name, values] : expected.members) {
    const uint32_t number = static_cast<uint32_t>(std::stoul(name));
    ASSERT_TRUE(got.count(number)) << name;
    EXPECT_EQ(got.at(number).first, values["count"].number) << name;
    EXPECT_EQ(got.at(number).second, values["total_ns"].number) << name;
  }
}

class Recordings : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = RecordingsFolder();
    if (folder.empty()) GTEST_SKIP() << "no recordings: GPUPROBE_TEST_SHARED/cupti-recordings";
    std::ifstream file(folder + "/expected.json");
    std::stringstream text;
    text << file.rdbuf();
    expected_ = JsonParser(text.str()).Parse()["files"][GetParam()];
    buffers_ = ReadRecording(folder + "/" + GetParam());
    ASSERT_FALSE(buffers_.empty());
    names_ = ReadNames(folder + "/" + expected_["names_file"].text);
  }

  void DecodeAll(BufferDecoder* decoder) {
    for (std::vector<uint8_t>& buffer : buffers_) {
      decoder->Decode(buffer.data(), buffer.size(), &sink_, &stats_);
    }
  }
  void DecodeAll() {
    BufferDecoder decoder;
    ASSERT_TRUE(decoder.Init(nullptr, kRecordedVersion));
    DecodeAll(&decoder);
  }

  Json expected_;
  std::vector<std::vector<uint8_t>> buffers_;
  std::map<uint64_t, std::string> names_;
  KeepingSink sink_;
  DecodeStats stats_ = {};
};

TEST_P(Recordings, EveryRecordOfEveryBufferIsDecoded) {
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kRecordedVersion));
  const auto& expected_buffers = expected_["buffers"].items;
  ASSERT_EQ(buffers_.size(), expected_buffers.size());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    EXPECT_EQ(static_cast<int64_t>(buffers_[i].size()), expected_buffers[i]["bytes"].number);
    KeepingSink sink;
    decoder.Decode(buffers_[i].data(), buffers_[i].size(), &sink, &stats_);
    const std::map<std::string, size_t> counts = {
        {"MEMCPY", sink.copies.size()},      {"MEMSET", sink.sets.size()},
        {"RUNTIME", sink.calls.size()},      {"DEVICE", sink.devices.size()},
        {"CONTEXT", sink.contexts.size()},   {"CONCURRENT_KERNEL", sink.kernels.size()},
        {"OVERHEAD", sink.overheads.size()}, {"CUDA_EVENT", sink.events.size()},
        {"STREAM", sink.streams.size()},     {"SYNCHRONIZATION", sink.syncs.size()},
        {"GRAPH_TRACE", sink.graphs.size()}};
    for (const auto& [kind, count] : counts) {
      const auto& records = expected_buffers[i]["records"].members;
      const int64_t expected = records.count(kind) ? records.at(kind).number : 0;
      EXPECT_EQ(static_cast<int64_t>(count), expected) << kind << " in buffer " << i;
    }
  }
  EXPECT_EQ(static_cast<int64_t>(stats_.records), expected_["records"].number);
  EXPECT_EQ(stats_.unknown_kind, 0u);
  EXPECT_EQ(stats_.undecodable_bytes, 0u);
  EXPECT_EQ(stats_.timing_missing + stats_.timing_unfinished + stats_.timing_invalid, 0u);
}

TEST_P(Recordings, BothWalksGiveTheSame) {
  RecordLayout layout;
  ASSERT_TRUE(KnownLayout(kRecordedVersion, &layout));
  memcpy(g_walk_sizes, layout.size_bytes, sizeof(g_walk_sizes));
  CuptiApi api;
  api.ActivityGetNextRecord = &SizeWalk;
  BufferDecoder agreeing;
  ASSERT_TRUE(agreeing.Init(&api, kRecordedVersion));
  DecodeAll(&agreeing);
  EXPECT_FALSE(agreeing.uses_cupti_walk());
  EXPECT_EQ(static_cast<int64_t>(stats_.records), expected_["records"].number);

  // The library names other sizes at Init than it walks by: kernels of 13.1 in a 13.0 recording.
  const uint32_t kernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  g_walk_sizes[kernel] = 224;
  BufferDecoder misled;
  ASSERT_TRUE(misled.Init(&api, kRecordedVersion));
  g_walk_sizes[kernel] = layout.size_bytes[kernel];
  stats_ = {};
  sink_ = {};
  DecodeAll(&misled);
  EXPECT_TRUE(misled.uses_cupti_walk());
  EXPECT_EQ(static_cast<int64_t>(stats_.records), expected_["records"].number);
  EXPECT_EQ(stats_.undecodable_bytes, 0u);
}

TEST_P(Recordings, GpuWorkAddsUp) {
  DecodeAll();
  const Json& expected = expected_["devices"]["0"];
  EXPECT_EQ(expected_["devices"].members.size(), 1u);
  std::vector<Interval> kernels, work;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Interval>> by_stream;
  std::map<std::string, std::pair<int64_t, int64_t>> by_name;
  int64_t zero_length = 0, sum_ns = 0, unresolved = 0;
  for (const KernelRecord& k : sink_.kernels) {
    EXPECT_EQ(k.device, 0u);
    kernels.push_back({k.start_ns, k.end_ns});
    by_stream[{k.context, k.stream}].push_back(kernels.back());
    sum_ns += k.end_ns - k.start_ns;
    zero_length += k.end_ns == k.start_ns;
    const auto name = names_.find(reinterpret_cast<uint64_t>(k.name));
    unresolved += name == names_.end();
    if (name == names_.end()) continue;
    ++by_name[name->second].first;
    by_name[name->second].second += k.end_ns - k.start_ns;
  }
  work = kernels;
  for (const CopyRecord& c : sink_.copies) work.push_back({c.start_ns, c.end_ns});
  for (const SetRecord& s : sink_.sets) work.push_back({s.start_ns, s.end_ns});
  int64_t overlaps = 0;
  for (auto& [stream, intervals] : by_stream) {
    std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
      return std::pair(a.start, a.end) < std::pair(b.start, b.end);
    });
    for (size_t i = 1; i < intervals.size(); ++i) {
      overlaps += intervals[i].start < intervals[i - 1].end;
    }
  }
  int64_t first = INT64_MAX, last = 0;
  for (const Interval& i : work) {
    first = std::min(first, i.start);
    last = std::max(last, i.end);
  }
  std::vector<int64_t> gaps;
  const int64_t busy_ns = UnionLength(work, &gaps);
  EXPECT_EQ(static_cast<int64_t>(sink_.kernels.size()), expected["kernel_count"].number);
  EXPECT_EQ(zero_length, expected["kernel_zero_length"].number);
  EXPECT_EQ(static_cast<int64_t>(sink_.copies.size()), expected["copy_count"].number);
  EXPECT_EQ(static_cast<int64_t>(sink_.sets.size()), expected["set_count"].number);
  EXPECT_EQ(static_cast<int64_t>(by_stream.size()), expected["kernel_streams"].number);
  EXPECT_EQ(overlaps, expected["kernel_same_stream_overlaps"].number);
  EXPECT_EQ(first, expected["first_start_ns"].number);
  EXPECT_EQ(last, expected["last_end_ns"].number);
  EXPECT_EQ(last - first, expected["span_ns"].number);
  EXPECT_EQ(sum_ns, expected["kernel_sum_ns"].number);
  EXPECT_EQ(UnionLength(kernels), expected["kernel_union_ns"].number);
  EXPECT_EQ(busy_ns, expected["busy_union_ns"].number);
  EXPECT_EQ(last - first - busy_ns, expected["idle_ns"].number);
  ExpectGaps(expected["gaps"]["1ms"], gaps, 1'000'000);
  ExpectGaps(expected["gaps"]["10us"], gaps, 10'000);
  ExpectGaps(expected["gaps"]["1us"], gaps, 1'000);
  EXPECT_EQ(unresolved, expected_["unresolved_kernel_names"].number);
  EXPECT_EQ(static_cast<int64_t>(by_name.size()), expected["kernel_names"].number);
  for (const Json& top : expected["top_kernels"].items) {
    EXPECT_EQ(by_name[top["name"].text].first, top["count"].number);
    EXPECT_EQ(by_name[top["name"].text].second, top["total_ns"].number);
  }
}

TEST_P(Recordings, ApiCallsAddUp) {
  DecodeAll();
  std::set<uint32_t> runtime_correlations, processes, threads;
  std::map<uint32_t, std::pair<int64_t, int64_t>> by_cbid;
  int64_t failed = 0;
  for (const ApiRecord& call : sink_.calls) {
    ASSERT_EQ(call.domain, ApiDomain::kRuntime);
    runtime_correlations.insert(call.correlation);
    processes.insert(call.process);
    threads.insert(call.thread);
    ++by_cbid[call.cbid].first;
    by_cbid[call.cbid].second += call.end_ns - call.start_ns;
    failed += call.result != 0;
  }
  const auto launched = [&runtime_correlations](const auto& records) {
    return std::count_if(records.begin(), records.end(), [&runtime_correlations](const auto& r) {
      return runtime_correlations.count(r.correlation) != 0;
    });
  };
  EXPECT_EQ(static_cast<int64_t>(sink_.calls.size()), expected_["runtime_api_records"].number);
  EXPECT_EQ(static_cast<int64_t>(by_cbid.size()), expected_["runtime_api_distinct"].number);
  EXPECT_EQ(failed, expected_["runtime_api_nonzero_return"].number);
  EXPECT_EQ(static_cast<int64_t>(processes.size()), expected_["processes"].number);
  EXPECT_EQ(static_cast<int64_t>(threads.size()), expected_["api_threads"].number);
  EXPECT_EQ(launched(sink_.kernels), expected_["kernels_with_runtime_record"].number);
  EXPECT_EQ(static_cast<int64_t>(sink_.kernels.size()) - launched(sink_.kernels),
            expected_["kernels_without_runtime_record"].number);
  EXPECT_EQ(launched(sink_.copies) + launched(sink_.sets),
            expected_["copies_sets_with_runtime_record"].number);
  for (const Json& top : expected_["runtime_api_top10"].items) {
    const uint32_t cbid = static_cast<uint32_t>(top["cbid"].number);
    EXPECT_EQ(by_cbid[cbid].first, top["count"].number);
    EXPECT_EQ(by_cbid[cbid].second, top["total_ns"].number);
    const ApiCall* known = FindApiCall(ApiDomain::kRuntime, cbid);
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(top["name"].text.rfind(std::string(known->name) + "_v", 0), 0u) << known->name;
  }
  std::map<std::string, std::pair<int64_t, int64_t>> synchronizing;
  for (const auto& [cbid, values] : by_cbid) {
    const ApiCall* known = FindApiCall(ApiDomain::kRuntime, cbid);
    ASSERT_NE(known, nullptr) << cbid;
    if (known->api_class != ApiClass::kSync) continue;
    synchronizing[known->name] = values;
  }
  EXPECT_EQ(synchronizing.size(), expected_["runtime_api_synchronize"].members.size());
  for (const auto& [name, values] : expected_["runtime_api_synchronize"].members) {
    const auto& got = synchronizing[name.substr(0, name.find("_v"))];
    EXPECT_EQ(got.first, values["count"].number) << name;
    EXPECT_EQ(got.second, values["total_ns"].number) << name;
  }
}

TEST_P(Recordings, SynchronizationsAndOverheadsAddUp) {
  DecodeAll();
  std::map<uint32_t, std::pair<int64_t, int64_t>> syncs, overheads;
  for (const SyncRecord& s : sink_.syncs) {
    ++syncs[s.type].first;
    syncs[s.type].second += s.end_ns - s.start_ns;
  }
  for (const OverheadRecord& o : sink_.overheads) {
    ++overheads[o.kind].first;
    overheads[o.kind].second += o.end_ns - o.start_ns;
  }
  ExpectByNumber(expected_["sync_by_type"], syncs);
  ExpectByNumber(expected_["overhead_by_kind"], overheads);
}

TEST_P(Recordings, DevicesAreNamed) {
  DecodeAll();
  std::set<std::string> names;
  for (const DeviceRecord& d : sink_.devices) {
    names.insert(names_[reinterpret_cast<uint64_t>(d.name)]);
    EXPECT_EQ(d.compute_major, 9u);
    EXPECT_EQ(d.compute_minor, 0u);
    EXPECT_EQ(d.sm_count, 132u);
    EXPECT_GT(d.memory_bytes, 100ull << 30);
    EXPECT_FALSE(d.mig);
  }
  ASSERT_EQ(names.size(), expected_["device_names"].items.size());
  EXPECT_EQ(*names.begin(), expected_["device_names"].items[0].text);
}

// In a PyTorch step most runtime calls are chatter, and no call that submits or blocks is.
TEST_P(Recordings, TheCallFilterRemovesMostCallsAndKeepsEveryLaunch) {
  BufferDecoder decoder;
  ASSERT_TRUE(decoder.Init(nullptr, kRecordedVersion));
  decoder.RecordedCallsOnly(true);
  DecodeAll(&decoder);
  EXPECT_EQ(static_cast<int64_t>(stats_.chatter_calls + sink_.calls.size()),
            expected_["runtime_api_records"].number);
  EXPECT_GT(stats_.chatter_calls, 3 * sink_.calls.size());
  std::set<uint32_t> correlations;
  for (const ApiRecord& call : sink_.calls) correlations.insert(call.correlation);
  int64_t launched = 0;
  for (const KernelRecord& k : sink_.kernels) launched += correlations.count(k.correlation);
  EXPECT_EQ(launched, expected_["kernels_with_runtime_record"].number);
}

INSTANTIATE_TEST_SUITE_P(All, Recordings,
                         ::testing::Values("resnet_dataloader.cuptibuf.gz",
                                           "gpt_train.cuptibuf.gz"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace gpuprobe::cupti

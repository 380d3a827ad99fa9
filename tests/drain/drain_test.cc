// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The session and its drain thread in processes of their own (drain_host), read back through
// TraceReader: every record exactly once, in order, whatever happens meanwhile. The same under
// ThreadSanitizer and AddressSanitizer, which cannot be loaded with libgpuprobe.so: a report of
// theirs changes the exit status of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "proto/columns.h"
#include "proto/trace_reader.h"
#include "ringbuf/records.h"
#include "tests/tools/temp_folder.h"

namespace gpuprobe::drain_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kProducers = 4;
constexpr int64_t kHourNs = 3'600'000'000'000;

// Correlations of each producer, in the order of the trace.
using Slots = std::array<std::vector<uint32_t>, kProducers>;

struct TraceContent {
  Slots kernels, calls;
  int64_t first_kernel_ns = INT64_MAX, last_kernel_ns = INT64_MIN;
  size_t untimed_kernels = 0;
  std::map<LossCause, uint64_t> losses;
  std::vector<BlindPeriod> blinds;
  std::vector<CaptureInfo> captures;
  std::vector<ProcessUsage> usages;
  size_t host_samples = 0;  // pieces
  std::set<std::string> kernel_names, call_names;
  std::string end_reason;
  bool ended = false;
  std::vector<proto::Damage> damage;
};

// A batch is one stream's or one thread's, and so one producer's.
void Append(const proto::BatchColumns& columns, Slots* slots) {
  if (columns.correlation.empty()) return;
  std::vector<uint32_t>& slot = slots->at(columns.correlation.front() >> 24);
  slot.insert(slot.end(), columns.correlation.begin(), columns.correlation.end());
}

void AddKernels(const KernelBatch& batch, const FrameHeader& header, TraceContent* content) {
  proto::KernelColumns columns;
  Decode(batch, header, &columns);
  if (columns.timing != proto::RecordTiming::kValid) content->untimed_kernels += columns.count;
  Append(columns, &content->kernels);
  for (const int64_t start : columns.start_ns) {
    content->first_kernel_ns = std::min(content->first_kernel_ns, start);
    content->last_kernel_ns = std::max(content->last_kernel_ns, start);
  }
}

void AddCalls(const ApiBatch& batch, const FrameHeader& header, TraceContent* content) {
  proto::ApiColumns columns;
  Decode(batch, header, &columns);
  Append(columns, &content->calls);
}

void AddNames(const Dictionary& dictionary, TraceContent* content) {
  for (const LaunchShape& shape : dictionary.shapes()) {
    content->kernel_names.insert(dictionary.names().at(static_cast<int>(shape.name()) - 1));
  }
  for (const ApiSymbol& symbol : dictionary.api_symbols()) {
    content->call_names.insert(dictionary.names().at(static_cast<int>(symbol.name()) - 1));
  }
}

void AddPacket(const Packet& packet, const FrameHeader& header, TraceContent* content) {
  if (packet.has_kernels()) AddKernels(packet.kernels(), header, content);
  if (packet.has_api()) AddCalls(packet.api(), header, content);
  if (packet.has_dictionary()) AddNames(packet.dictionary(), content);
  if (packet.has_loss()) {
    content->losses[static_cast<LossCause>(packet.loss().cause())] += packet.loss().count();
  }
  if (packet.has_blind()) content->blinds.push_back(packet.blind());
  if (packet.has_capture()) content->captures.push_back(packet.capture());
  if (packet.has_usage()) content->usages.push_back(packet.usage());
  if (packet.has_host_samples()) ++content->host_samples;
  if (packet.has_end()) content->end_reason = packet.end().reason();
}

TraceContent ReadTrace(const std::string& path) {
  TraceContent content;
  auto reader = proto::TraceReader::Open(path);
  if (!reader.ok()) {
    ADD_FAILURE() << reader.status();
    return content;
  }
  proto::Frame frame;
  while ((*reader)->Next(&frame)) {
    for (const Packet& packet : frame.trace.packet()) AddPacket(packet, frame.header(), &content);
  }
  content.ended = (*reader)->ended();
  content.damage = (*reader)->damage();
  return content;
}

std::vector<uint32_t> Launches(uint32_t slot, uint32_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), (slot << 24) + 1);
  return all;
}

// One run of drain_host, and what it left behind.
class HostRun {
 public:
  // `settings`: "NAME=VALUE ...". `directory_is_a_file`: the directory of the run cannot be made.
  explicit HostRun(const std::string& scenario, const std::string& settings = "",
                   bool directory_is_a_file = false) {
    if (directory_is_a_file) std::ofstream(directory()) << "no directory";
    const std::string others_file = folder_.Path("others");
    RunHost("env GPUPROBE_OUT='" + directory() + "' GPUPROBE_TEST_OTHER='" + others_file +
            "' GPUPROBE_FLUSH_MS=20 GPUPROBE_BUFFER_KB=16 " + settings + " " + GPUPROBE_DRAIN_HOST +
            " " + scenario);
    std::ifstream in(others_file);
    for (uint32_t correlation; in >> correlation;) others[correlation >> 24].push_back(correlation);
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(directory(), none)) {
      files.push_back(entry.path());
    }
    if (files.size() == 1) trace = ReadTrace(files[0]);
  }

  std::string directory() const { return folder_.Path("run"); }
  uint64_t Value(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) ADD_FAILURE() << "the host printed no " << name;
    return found == values_.end() ? 0 : found->second;
  }
  uint32_t Taken(uint32_t slot) const {
    return static_cast<uint32_t>(Value("taken" + std::to_string(slot)));
  }

  int exit_status = -1;  // of a sanitizer's report, too
  Slots others;          // what the other client was given
  std::vector<std::string> files;
  TraceContent trace;

 private:
  void RunHost(const std::string& command) {
    FILE* const host = popen(command.c_str(), "r");
    ASSERT_NE(host, nullptr);
    char name[64];
    unsigned long long value;
    while (std::fscanf(host, "%63s %llu", name, &value) == 2) values_[name] = value;
    const int status = pclose(host);
    ASSERT_TRUE(WIFEXITED(status)) << command;
    exit_status = WEXITSTATUS(status);
    ASSERT_EQ(values_.count("off"), 1u) << "the host did not come to its end: " << command;
    EXPECT_EQ(values_["forbidden_calls"], 0u) << command;
  }

  tools::TempFolder folder_;
  std::map<std::string, uint64_t> values_;
};

// Each kernel has its call, in the same order.
void ExpectACallForEachKernel(const TraceContent& trace) {
  EXPECT_EQ(trace.kernels, trace.calls);
  EXPECT_EQ(trace.kernel_names, std::set<std::string>{"_Z5blurrPfi"});
  EXPECT_EQ(trace.call_names, std::set<std::string>{"cudaLaunchKernel"});
}

// Each producer's launches are in the trace, each once, in the order in which they were made.
void ExpectAllThatWasTaken(const HostRun& run) {
  for (uint32_t slot = 0; slot < kProducers; ++slot) {
    EXPECT_EQ(run.trace.kernels.at(slot), Launches(slot, run.Taken(slot))) << "slot " << slot;
  }
  ExpectACallForEachKernel(run.trace);
}

void ExpectOff(const HostRun& run, const std::string& reason) {
  EXPECT_EQ(run.exit_status, 5);
  EXPECT_EQ(run.files.size(), 1u);
  ASSERT_EQ(run.trace.captures.size(), 1u);
  EXPECT_THAT(run.trace.captures[0].off_reason(), HasSubstr(reason));
  EXPECT_TRUE(run.trace.ended);
  EXPECT_EQ(run.trace.end_reason, "off");
  EXPECT_TRUE(run.trace.kernels[0].empty());
  EXPECT_EQ(run.Value("kinds_enabled"), 0u);
  EXPECT_EQ(run.Value("off"), 1u);
}

TEST(Drain, EveryRecordOfFourThreadsArrivesOnceAndInOrder) {
  const HostRun run("steady");
  EXPECT_EQ(run.exit_status, 0);
  EXPECT_EQ(run.Taken(0), 10'000u);
  ExpectAllThatWasTaken(run);
  EXPECT_EQ(run.Value("registrations"), 1u) << "two threads came through the doors";
  EXPECT_EQ(run.Value("finished"), 1u);
  EXPECT_TRUE(run.trace.ended);
  EXPECT_EQ(run.trace.end_reason, "exit");
  EXPECT_EQ(run.trace.captures.size(), 1u);
  EXPECT_TRUE(run.trace.losses.empty());
  EXPECT_TRUE(run.trace.damage.empty());
}

TEST(Drain, WhatHadNoBufferIsCountedAndTheRestArrives) {
  const HostRun run("pool_exhausted", "GPUPROBE_MEMORY_MB=32");
  EXPECT_EQ(run.exit_status, 0);
  EXPECT_GT(run.Taken(0), 500u);
  EXPECT_GE(run.Value("refused"), kProducers);
  ExpectAllThatWasTaken(run);
  const std::map<LossCause, uint64_t> losses = {
      {LossCause::kPoolExhausted, run.Value("refused")},
      {LossCause::kCuptiDropped, run.Value("dropped")},
  };
  EXPECT_EQ(run.trace.losses, losses);
}

class AnotherClient : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { run_ = new HostRun("other_client"); }
  static void TearDownTestSuite() { delete run_; }
  static inline const HostRun* run_ = nullptr;
};

TEST_F(AnotherClient, GetsItsRecordsAndTheTraceAllOthers) {
  EXPECT_EQ(run_->exit_status, 0);
  EXPECT_EQ(run_->Value("foreign_buffers"), 0u) << "buffers of ours that it was given";
  for (uint32_t slot = 0; slot < kProducers; ++slot) {
    const std::vector<uint32_t>& ours = run_->trace.kernels.at(slot);
    std::vector<uint32_t> all = run_->others.at(slot);
    EXPECT_GT(all.size(), 0u);
    EXPECT_TRUE(std::is_sorted(ours.begin(), ours.end()));
    all.insert(all.end(), ours.begin(), ours.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, Launches(slot, run_->Taken(slot))) << "slot " << slot;
  }
  ExpectACallForEachKernel(run_->trace);
  EXPECT_TRUE(run_->trace.losses.empty());
  EXPECT_EQ(run_->trace.untimed_kernels, 0u);
}

TEST_F(AnotherClient, EachOfItsTimesIsABlindPeriod) {
  std::map<int64_t, BlindPeriod> by_begin;
  for (const BlindPeriod& blind : run_->trace.blinds) {
    if (blind.end_ns() != 0) by_begin[blind.begin_ns()] = blind;
  }
  ASSERT_EQ(by_begin.size(), run_->Value("windows"));
  int64_t last_end_ns = 0;
  size_t clock_changes = 0;
  for (const auto& [begin_ns, blind] : by_begin) {
    EXPECT_GT(begin_ns, last_end_ns);
    EXPECT_GT(blind.end_ns(), begin_ns);
    EXPECT_EQ(blind.who(), "libother_profiler.so");
    last_end_ns = blind.end_ns();
    clock_changes += blind.reason() == "cuptiActivityRegisterTimestampCallback";
  }
  EXPECT_EQ(clock_changes, 2u);
  // Between these two the records came in its ticks, which are decades away.
  EXPECT_GT(run_->trace.first_kernel_ns, by_begin.begin()->first - kHourNs);
  EXPECT_LT(run_->trace.last_kernel_ns, last_end_ns + kHourNs);
}

// It came before the first frame was written.
TEST_F(AnotherClient, LeavesTheAnswersOfTheStartInTheTrace) {
  // Told once more after the first window, because of the graphs alone; once in all where the first
  // frame was written after that window.
  ASSERT_GE(run_->trace.captures.size(), 1u);
  ASSERT_LE(run_->trace.captures.size(), 2u);
  EXPECT_TRUE(run_->trace.captures.back().graph_node_level());
  if (run_->trace.captures.size() == 2) {
    EXPECT_FALSE(run_->trace.captures[0].graph_node_level());
  }
  for (const CaptureInfo& capture : run_->trace.captures) {
    EXPECT_EQ(capture.kinds_size(), 13);
    std::set<std::string> attributes;
    for (const auto& outcome : capture.attributes()) attributes.insert(outcome.name());
    EXPECT_EQ(attributes.count("SUBSCRIBE_PROBE"), 1u);
  }
}

TEST(Drain, NothingIsCalledAfterAnotherClientEndedCupti) {
  const HostRun run("finalized");
  EXPECT_EQ(run.exit_status, 0);
  ExpectAllThatWasTaken(run);
  EXPECT_EQ(run.Value("registrations"), 1u);
  ASSERT_FALSE(run.trace.blinds.empty());
  EXPECT_EQ(run.trace.blinds.back().reason(), "cuptiFinalize");
  EXPECT_TRUE(run.trace.ended);
}

TEST(Drain, AnExitWhileThreadsLaunchLeavesAClosedTrace) {
  const HostRun run("exit_while_launching");
  EXPECT_EQ(run.exit_status, 7);
  EXPECT_TRUE(run.trace.ended);
  EXPECT_EQ(run.trace.end_reason, "exit");
  for (uint32_t slot = 0; slot < kProducers; ++slot) {
    const std::vector<uint32_t>& ours = run.trace.kernels.at(slot);
    EXPECT_GE(ours.size(), run.Taken(slot)) << "all from before the call of exit";
    EXPECT_EQ(ours, Launches(slot, static_cast<uint32_t>(ours.size())));
  }
  ExpectACallForEachKernel(run.trace);
}

TEST(Drain, AnExitDuringAFlushThatHangsKeepsItsStatusAndWhatWasWritten) {
  const HostRun run("exit_in_hanging_flush");
  EXPECT_EQ(run.exit_status, 7);
  EXPECT_FALSE(run.trace.ended);
  ExpectAllThatWasTaken(run);
}

TEST(Drain, WithoutCuptiItIsOffAndTheTraceSaysSo) {
  ExpectOff(HostRun("missing"), "no libcupti was found");
}

TEST(Drain, UnknownVersionTurnsItOff) {
  const HostRun run("unknown_version");
  ExpectOff(run, "CUPTI version 5");
  EXPECT_EQ(run.Value("registrations"), 0u);
}

TEST(Drain, TakenSubscriberSlotTurnsItOff) {
  const HostRun run("slot_taken");
  ExpectOff(run, "cuptiSubscribe returned 39");
  EXPECT_EQ(run.Value("registrations"), 0u);
}

TEST(Drain, SwitchedOffRecordsOnlyWhatTheProcessUsed) {
  const HostRun run("switched_off", "GPUPROBE_CAPTURE=0");
  EXPECT_EQ(run.exit_status, 5);
  EXPECT_EQ(run.Value("registrations"), 0u);
  ASSERT_EQ(run.trace.captures.size(), 1u);
  EXPECT_EQ(run.trace.captures[0].off_reason(), "GPUPROBE_CAPTURE is off");
  EXPECT_EQ(run.trace.end_reason, "exit");
  ASSERT_GT(run.trace.usages.size(), 0u);
  const ProcessUsage& usage = run.trace.usages.back();
  EXPECT_GT(usage.wall_ns(), 0);
  EXPECT_GT(usage.user_cpu_ns() + usage.system_cpu_ns(), 0);
  EXPECT_GT(usage.peak_rss_bytes(), 0);
  EXPECT_EQ(run.trace.host_samples, 0u);
}

TEST(Drain, TheHostIsSampledUnlessItIsSwitchedOff) {
  const HostRun sampled("steady");
  EXPECT_GT(sampled.trace.host_samples, 0u);
  EXPECT_GT(sampled.trace.usages.size(), 1u);
  const HostRun not_sampled("steady", "GPUPROBE_SAMPLE_HZ=0");
  EXPECT_EQ(not_sampled.trace.host_samples, 0u);
  EXPECT_GT(not_sampled.trace.usages.size(), 1u);
}

TEST(Drain, FileThatCannotBeWrittenTurnsItOffForGood) {
  for (const char* scenario : {"unwritable", "unwritable_during_start"}) {
    const HostRun run(scenario, "", /*directory_is_a_file=*/true);
    EXPECT_EQ(run.exit_status, 5) << scenario;
    EXPECT_EQ(run.Value("off"), 1u) << scenario;
    EXPECT_EQ(run.Value("kinds_enabled"), 0u) << scenario;
    EXPECT_EQ(run.Value("registrations"), 1u) << scenario;
    EXPECT_EQ(run.Taken(0), 0u) << scenario;
  }
}

}  // namespace
}  // namespace gpuprobe::drain_test

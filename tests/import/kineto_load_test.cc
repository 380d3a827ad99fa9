// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What becomes of healthy trace events: rows of every kind and spelling, packings, several files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/import/kineto_files.h"
#include "tests/tools/trace_maker.h"

namespace gpuprobe::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(KinetoTest, KernelGetsNameShapeLaneAndTheCallThatSubmittedIt) {
  const LoadedRun run =
      Load(Document({Kernel("add", "20", "5.125", 9), Call("cudaLaunchKernel", "10.5", "3", 9)}));
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.ops.size(), 1u);
  ASSERT_EQ(t.calls.size(), 1u);
  EXPECT_EQ(t.ops[0].kind, OpKind::kKernel);
  EXPECT_EQ(t.ops[0].start_ns, 20'000);
  EXPECT_EQ(t.ops[0].end_ns, 25'125);
  EXPECT_EQ(t.ops[0].submission, 0);
  EXPECT_EQ(t.names[0], "add");
  const LaunchShape& shape = t.shapes[static_cast<size_t>(t.ops[0].shape)];
  EXPECT_THAT(shape.grid, ElementsAre(2, 3, 4));
  EXPECT_THAT(shape.block, ElementsAre(128, 1, 1));
  EXPECT_EQ(shape.registers_per_thread, 40u);
  EXPECT_EQ(shape.dynamic_shared_bytes, 400u);
  EXPECT_EQ(t.streams[0].stream, 7u);
  EXPECT_EQ(t.streams[0].context, 1u);
  EXPECT_EQ(t.calls[0].start_ns, 10'500);
  EXPECT_EQ(t.symbols[0].name, "cudaLaunchKernel");
  EXPECT_EQ(t.symbols[0].call_class, CallClass::kLaunch);
  EXPECT_EQ(t.processes[0].source, SourceKind::kKineto);
  EXPECT_EQ(t.processes[0].pid, 411u);
  EXPECT_TRUE(t.processes[0].has_runtime_api);
  EXPECT_FALSE(t.processes[0].has_sync_records);
  EXPECT_TRUE(run.complete());
}

TEST_F(KinetoTest, EveryGenerationOfCategoriesGivesTheSame) {
  const auto rows = [](const char* kernel, const char* copy, const char* set, const char* call) {
    const std::string at = R"(, "pid": 0, "tid": 7, "dur": 1, "args": {"device": 0, "stream": 7})";
    return Document(
        {std::string(R"({"ph": "X", "name": "k", "ts": 1, "cat": ")") + kernel + "\"" + at + "}",
         std::string(
             R"json({"ph": "X", "name": "Memcpy HtoD (Pageable -> Device)", "ts": 3, "cat": ")json") +
             copy + "\"" + at + "}",
         std::string(R"json({"ph": "X", "name": "Memset (Device)", "ts": 5, "cat": ")json") + set +
             "\"" + at + "}",
         Call("cudaLaunchKernel", "0", "1", 1, call)});
  };
  for (const std::string& text : {rows("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"),
                                  rows("Kernel", "Memcpy", "Memset", "Runtime"),
                                  rows("KERNEL", "GPU_MEMCPY", "gpu_Memset", "cuda_driver")}) {
    const LoadedRun run = Load(text);
    ASSERT_EQ(run.timeline.ops.size(), 3u) << text;
    EXPECT_EQ(run.timeline.ops[0].kind, OpKind::kKernel);
    EXPECT_EQ(run.timeline.ops[1].kind, OpKind::kCopy);
    EXPECT_EQ(run.timeline.ops[2].kind, OpKind::kSet);
    EXPECT_EQ(run.timeline.calls.size(), 1u);
    EXPECT_TRUE(run.notices.empty());
  }
}

TEST_F(KinetoTest, CopySaysDirectionMemoryAndBytes) {
  const LoadedRun run = Load(Document(
      {R"json({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "ts": 1,
               "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 3, "bytes": 4096,
               "memory bandwidth (GB/s)": inf}})json"}));
  ASSERT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_EQ(run.timeline.ops[0].bytes, 4096u);
  const CopyShape& shape = run.timeline.copy_shapes[0];
  EXPECT_EQ(shape.copy_kind, 2);
  EXPECT_EQ(shape.src_kind, 3);
  EXPECT_EQ(shape.dst_kind, 1);
  EXPECT_TRUE(run.complete());
}

TEST_F(KinetoTest, CollectivesAreCommunication) {
  const LoadedRun run = Load(
      Document({Kernel("ncclDevKernel_AllReduce_Sum", "1", "2", 1),
                Kernel("ncclKernel_AllReduce_RING", "4", "2", 2), Kernel("gemm", "8", "2", 3)}));
  ASSERT_EQ(run.timeline.ops.size(), 3u);
  EXPECT_EQ(run.timeline.ops[0].op_class, OpClass::kCommunication);
  EXPECT_EQ(run.timeline.ops[1].op_class, OpClass::kCommunication);
  EXPECT_EQ(run.timeline.ops[2].op_class, OpClass::kCompute);
}

TEST_F(KinetoTest, TimesOfSixteenDigitsAreExact) {
  const LoadedRun run = Load(Document({Kernel("a", "1712195503123456.789", "0.125", 1),
                                       Kernel("b", "\"1712195503123457.001\"", "\"2.5\"", 2)}));
  ASSERT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_EQ(run.timeline.ops[0].start_ns, 1712195503123456789);
  EXPECT_EQ(run.timeline.ops[0].end_ns, 1712195503123456914);
  EXPECT_EQ(run.timeline.ops[1].start_ns, 1712195503123457001);
  EXPECT_EQ(run.timeline.ops[1].end_ns, 1712195503123459501);
}

TEST_F(KinetoTest, SynchronisationRowsAreWaitsNeverGpuWork) {
  const auto row = [](const char* kind, const char* ts, const char* stream, int correlation) {
    return std::string(R"({"ph": "X", "cat": "cuda_sync", "name": ")") + kind +
           R"(", "pid": 0, "tid": 7, "ts": )" + ts + R"(, "dur": 4, "args": {"cuda_sync_kind": ")" +
           kind + R"(", "stream": )" + stream + R"(, "correlation": )" +
           std::to_string(correlation) +
           R"(, "device": 0, "context": 1, "wait_on_stream": 20, "wait_on_cuda_event_id": 5,)" +
           R"( "wait_on_cuda_event_record_corr_id": 2}})";
  };
  const LoadedRun run = Load(
      Document({Kernel("a", "1", "2", 1), row("Stream Sync", "10", "7", 3),
                row("Stream Wait Event", "20", "7", 4), row("Event Sync", "30", "-1", 5),
                row("Context Sync", "40", "-1", 6), Call("cudaStreamSynchronize", "9", "5", 3)}));
  const Timeline& t = run.timeline;
  EXPECT_EQ(t.ops.size(), 1u);
  ASSERT_EQ(t.syncs.size(), 4u);
  EXPECT_EQ(t.syncs[0].type, 3);
  EXPECT_EQ(t.syncs[0].call, 0);
  EXPECT_EQ(t.syncs[0].stream, t.ops[0].stream);
  EXPECT_EQ(t.syncs[1].type, 2);
  EXPECT_EQ(t.syncs[2].type, 1);
  EXPECT_EQ(t.syncs[2].stream, -1);
  EXPECT_EQ(t.syncs[3].type, 4);
  EXPECT_TRUE(t.processes[0].has_sync_records);
  ASSERT_FALSE(t.events.empty());
  EXPECT_EQ(t.events[0].event, 5u);
  EXPECT_EQ(t.events[0].correlation, 2u);
  EXPECT_EQ(t.streams[static_cast<size_t>(t.events[0].stream)].stream, 20u);
}

TEST_F(KinetoTest, DriverCallBeneathARuntimeCallIsFolded) {
  const LoadedRun run = Load(
      Document({Kernel("a", "9", "2", 1), Call("cudaLaunchKernel", "1", "5", 1),
                Call("cuLaunchKernel", "2", "3", 1, "cuda_driver"),
                Call("cuLaunchKernel", "12", "3", 2, "cuda_driver"), Kernel("b", "19", "2", 2)}));
  ASSERT_EQ(run.timeline.calls.size(), 2u);
  EXPECT_EQ(run.folded_driver_calls, 1u);
  EXPECT_EQ(run.timeline.ops[1].submission, 1);
}

TEST_F(KinetoTest, WithoutCorrelationNothingIsLinked) {
  const LoadedRun run = Load(Document(
      {R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 1, "args": {"device": 0}})",
       R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
           "ts": 1, "dur": 1})"}));
  ASSERT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_EQ(run.timeline.ops[0].submission, -1);
}

TEST_F(KinetoTest, MetadataNamesThreadsProcessRankAndDevices) {
  const LoadedRun run = Load(Document(
      {Kernel("a", "9", "2", 1), Call("cudaLaunchKernel", "1", "5", 1),
       R"({"ph": "M", "name": "process_name", "pid": 411, "tid": 0, "args": {"name": "python3"}})",
       R"json({"ph": "M", "name": "thread_name", "pid": 411, "tid": 411,
               "args": {"name": "thread 411 (pt_main_thread)"}})json"},
      R"("deviceProperties": [{"id": 1, "name": "other"}, {"id": 0, "name": "NVIDIA H200",
          "totalGlobalMem": 150123, "numSms": 132}],
         "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8})"));
  const Timeline& t = run.timeline;
  EXPECT_EQ(t.processes[0].executable, "python3");
  EXPECT_EQ(t.processes[0].rank, 3);
  EXPECT_EQ(run.captures[0].world_size, 8);
  ASSERT_EQ(t.threads.size(), 1u);
  EXPECT_EQ(t.threads[0].name, "pt_main_thread");
  EXPECT_TRUE(t.threads[0].main);
  ASSERT_EQ(t.devices.size(), 1u);
  EXPECT_EQ(t.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(t.devices[0].memory_bytes, 150123u);
  EXPECT_EQ(t.devices[0].sm_count, 132u);
}

TEST_F(KinetoTest, TextualPidsAndQuotedNumbersCount) {
  const LoadedRun run = Load(Document(
      {R"({"ph": "X", "cat": "kernel", "name": "k", "pid": "GPU 2", "tid": "stream 15", "ts": "5",
           "dur": "1", "args": {"device": "2", "stream": "15", "correlation": "7"}})",
       R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": "1087077",
           "tid": "1087089", "ts": "1.5", "dur": "2", "args": {"correlation": "7"}})",
       R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaFree", "pid": "1087077", "tid": -1,
           "ts": 9, "dur": 2, "args": {"Comms Id": 18446744073709551616}})",
       R"json({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
               "tid": "PyTorch Profiler", "ts": 0, "dur": 1000000})json"}));
  const Timeline& t = run.timeline;
  ASSERT_EQ(t.ops.size(), 1u);
  EXPECT_EQ(t.devices[0].ordinal, 2);
  EXPECT_EQ(t.streams[0].stream, 15u);
  EXPECT_EQ(t.ops[0].submission, 0);
  EXPECT_EQ(t.processes[0].pid, 1087077u);
  EXPECT_EQ(t.threads[0].tid, 1087089u);
  EXPECT_EQ(t.threads[1].tid, 0u);
  EXPECT_THAT(t.threads[1].name, HasSubstr("not told"));
  EXPECT_LT(t.processes[0].capture_end_ns, 1'000'000);
}

TEST_F(KinetoTest, BeginsAndEndsArePaired) {
  const auto row = [](char phase, const char* name, const char* ts) {
    return std::string(R"({"ph": ")") + phase + R"(", "cat": "kernel", "name": ")" + name +
           R"(", "pid": 0, "tid": 7, "ts": )" + ts + R"(, "args": {"device": 0, "stream": 7}})";
  };
  const LoadedRun run = Load(Document(
      {row('B', "outer", "1"), row('B', "inner", "2"),
       R"({"ph": "E", "pid": 0, "tid": 7, "ts": 3})", R"({"ph": "E", "pid": 0, "tid": 7, "ts": 9})",
       R"({"ph": "E", "pid": 0, "tid": 8, "ts": 9})", row('B', "unclosed", "20")}));
  ASSERT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_EQ(run.timeline.ops[0].start_ns, 1'000);
  EXPECT_EQ(run.timeline.ops[0].end_ns, 9'000);
  EXPECT_EQ(run.timeline.ops[1].end_ns, 3'000);
  ASSERT_EQ(run.timeline.untimed.size(), 1u);
  EXPECT_EQ(run.timeline.untimed[0].timing, 2);
  EXPECT_EQ(run.timeline.untimed[0].start_ns, 20'000);
  EXPECT_THAT(run.notices, testing::Contains(HasSubstr("1 end without a begin")));
}

TEST_F(KinetoTest, OtherPhasesAreNoRecords) {
  const LoadedRun run = Load(Document(
      {Kernel("k", "1", "1", 1), R"({"ph": "C", "name": "memory", "pid": 1, "ts": 1, "args": {}})",
       R"({"ph": "s", "id": 1, "cat": "ac2g", "ts": 1})", R"({"ph": "i", "name": "x", "ts": 1})",
       R"({"ph": "b", "cat": "kernel", "id": 5, "ts": 1})", "{}"}));
  EXPECT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_TRUE(run.notices.empty());
  EXPECT_TRUE(run.complete());
}

TEST_F(KinetoTest, UnknownCategoriesAreNamedWithTheirCounts) {
  const LoadedRun run =
      Load(Document({R"({"ph": "X", "cat": "mtia_ccp_events", "name": "k", "ts": 1, "dur": 1})",
                     R"({"ph": "X", "cat": "mtia_ccp_events", "name": "k", "ts": 2, "dur": 1})"}));
  EXPECT_THAT(run.notices, testing::Contains(HasSubstr("mtia_ccp_events (2)")));
  EXPECT_THAT(run.notices, testing::Contains(HasSubstr("no GPU work")));
  EXPECT_TRUE(run.complete());
}

TEST_F(KinetoTest, FilesWithoutEventsAreComplete) {
  for (const std::string text :
       {"[]", R"({"traceEvents": []})", R"({"schemaVersion": 1, "traceEvents": []})", "[{}]",
        R"([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}])"}) {
    const LoadedRun run = Load(text);
    EXPECT_TRUE(run.timeline.ops.empty());
    EXPECT_TRUE(run.complete()) << text;
  }
}

TEST_F(KinetoTest, AnEmptyObjectIsNoTrace) {
  for (const std::string& text : {std::string("{}"), std::string(" { }\n"), Gzip("{}")}) {
    const auto run = TryPaths({Save(text, "a.json")});
    ASSERT_FALSE(run.ok()) << text;
    EXPECT_THAT(run.status().message(), HasSubstr("a.json: JSON, but no trace that can be read: it "
                                                  "has no \"traceEvents\""));
  }
}

TEST_F(KinetoTest, ArraysNestedObjectsCommasAndByteOrderMarks) {
  const std::string k = Kernel("k", "1", "1", 1);
  for (const std::string& text :
       {"[" + k + "]", "[" + k, "[" + k + ",", "[{}\n," + k + "\n," + k + "\n]",
        R"({"traceEvents": {"traceEvents": [)" + k + "]}}", "\xef\xbb\xbf" + Document({k}),
        " \n\n [" + k + ",]", Document({k}) + "\n\n",
        R"({"a": {"b": [1, "]"]}, "traceEvents":[)" + k +
            R"(], "traceName": "x]y", "INFO": ["[a=1]"]})"}) {
    const LoadedRun run = Load(text);
    EXPECT_GE(run.timeline.ops.size(), 1u) << text;
    EXPECT_TRUE(run.complete()) << text;
  }
}

TEST_F(KinetoTest, ContentNotNameDecidesTheFormat) {
  const std::string text = Document({Kernel("k", "1", "1", 1)});
  const std::pair<std::string, std::string> files[] = {{text, "plain.gz"},
                                                       {Gzip(text), "zipped.json"},
                                                       {Zstd(text), "packed.gpuprobe"},
                                                       {Gzip(text), "noextension"},
                                                       {text, "text.sqlite"}};
  for (const auto& [content, name] : files) {
    const auto run = TryPaths({Save(content, name)});
    ASSERT_TRUE(run.ok()) << name << ": " << run.status();
    EXPECT_EQ(run->timeline.ops.size(), 1u) << name;
    EXPECT_TRUE(run->complete()) << name;
  }
}

TEST_F(KinetoTest, GzipMembersBehindEachOther) {
  const std::string text = Document({Kernel("k", "1", "1", 1), Kernel("l", "5", "1", 2)});
  const LoadedRun run =
      Load(Gzip(text.substr(0, 60)) + Gzip(text.substr(60)) + std::string(512, '\0'));
  EXPECT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_EQ(run.timeline.processes.size(), 1u);
  EXPECT_TRUE(run.complete());
}

TEST_F(KinetoTest, DocumentsBehindEachOtherAreProcesses) {
  const auto rank = [](int r) {
    return Document({Kernel("k", "1", "1", 1)},
                    R"("distributedInfo": {"world_size": 2, "rank": )" + std::to_string(r) + "}");
  };
  const LoadedRun run = Load(Gzip(rank(0)) + Gzip(rank(1)));
  ASSERT_EQ(run.timeline.processes.size(), 2u);
  EXPECT_EQ(run.timeline.processes[1].rank, 1);
  EXPECT_NE(run.timeline.ops[0].device, run.timeline.ops[1].device);
}

class RanksTest : public KinetoTest {
 protected:
  std::string Rank(int rank, int world_size, const std::string& ts, int64_t base_ns = 0) {
    return Save(Document({Kernel("k", ts, "1", 1), Call("cudaLaunchKernel", ts, "1", 1)},
                         R"("baseTimeNanoseconds": )" + std::to_string(base_ns) +
                             R"(, "distributedInfo": {"rank": )" + std::to_string(rank) +
                             R"(, "world_size": )" + std::to_string(world_size) + "}"),
                "rank" + std::to_string(++files_) + ".json");
  }
  int files_ = 0;
};

TEST_F(RanksTest, RanksOfOneJobLoadTogether) {
  const auto run = TryPaths({Rank(0, 2, "5"), Rank(1, 2, "7")});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->timeline.processes.size(), 2u);
  EXPECT_EQ(run->timeline.devices.size(), 2u);
  EXPECT_EQ(run->timeline.ops[0].submission, 0);
  EXPECT_EQ(run->timeline.ops[1].submission, 1);
  EXPECT_TRUE(run->complete());
}

TEST_F(RanksTest, BaseTimesBringFilesOntoOneClock) {
  const auto run = TryPaths(
      {Rank(0, 2, "5", 1'700'000'000'000'000'000), Rank(1, 2, "2", 1'700'000'000'000'010'000)});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->timeline.ops[0].start_ns, 5'000);
  EXPECT_EQ(run->timeline.ops[1].start_ns, 12'000);
  EXPECT_EQ(run->captures[1].clock.shift_ns, 10'000);
}

TEST_F(RanksTest, FilesOfDifferentJobsAreRefused) {
  EXPECT_THAT(std::string(TryPaths({Rank(0, 2, "5"), Rank(1, 4, "5")}).status().message()),
              HasSubstr("2 ranks"));
  EXPECT_THAT(std::string(TryPaths({Rank(1, 2, "5"), Rank(1, 2, "5")}).status().message()),
              HasSubstr("both rank 1"));
  const std::string a = Save(Document({Kernel("k", "1", "1", 1)}), "a.json");
  const std::string b = Save(Document({Kernel("k", "9000000", "1", 1)}), "b.json");
  EXPECT_THAT(std::string(TryPaths({a, b}).status().message()), HasSubstr("between them"));
}

TEST_F(RanksTest, AGpuprobeRunBesideATraceIsRefused) {
  TraceMaker trace;
  trace.Kernel("_Z3addPf", 1'000'000'000'100, 1'000'000'000'200, 1);
  trace.Finish();
  trace.Save(folder_.Path("own.gpuprobe"));
  const auto run = TryPaths({folder_.Path("own.gpuprobe"), Rank(0, 1, "5")});
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("count twice"));
}

TEST_F(RanksTest, AFolderOfRanksIsARun) {
  Rank(0, 2, "5");
  Rank(1, 2, "5");
  const auto run = TryPaths({folder_.Path("")});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->timeline.processes.size(), 2u);
}

TEST_F(KinetoTest, CallsGetTheStackThatTheyWereMadeFrom) {
  const auto span = [](const char* category, const char* name, const char* ts, const char* dur) {
    return std::string(R"({"ph": "X", "cat": ")") + category + R"(", "name": ")" + name +
           R"(", "pid": 411, "tid": 411, "ts": )" + ts + ", \"dur\": " + dur + "}";
  };
  const LoadedRun run = Load(Document(
      {Call("cudaLaunchKernel", "130", "5", 1), Kernel("k", "140", "5", 1),
       Call("cudaStreamSynchronize", "520", "50", 2), span("cpu_op", "aten::add", "120", "20"),
       span("python_function", "train.py(10): main", "100", "1000"),
       span("python_function", "torch/nn/modules/module.py(5): forward", "110", "40"),
       span("python_function", "<built-in method item of Tensor object at 0x7f00aa>", "500", "80"),
       span("user_annotation", "ProfilerStep#7", "90", "2000")}));
  const Timeline& t = run.timeline;
  const auto stack_of = [&t](int32_t node) {
    std::vector<std::string> names;
    for (; node >= 0; node = t.stacks[static_cast<size_t>(node)].parent) {
      const CodeLocation& at =
          t.locations[static_cast<size_t>(t.stacks[static_cast<size_t>(node)].location)];
      names.push_back(t.strings[static_cast<size_t>(at.function)]);
    }
    return names;
  };
  ASSERT_EQ(t.calls.size(), 2u);
  EXPECT_THAT(stack_of(t.calls[0].site), ElementsAre("aten::add", "forward", "main"));
  EXPECT_THAT(stack_of(t.calls[1].site),
              ElementsAre("<built-in method item of Tensor object>", "main"));
  const CodeLocation& outermost = t.locations[static_cast<size_t>(
      t.stacks[static_cast<size_t>(t.stacks[static_cast<size_t>(t.calls[1].site)].parent)]
          .location)];
  EXPECT_EQ(t.strings[static_cast<size_t>(outermost.file)], "train.py");
  EXPECT_EQ(outermost.line, 10);
  // Samples: what the thread was in, without a hole and without overlap, each as long as it lasted.
  int64_t end_ns = 100'000;
  for (const HostSample& sample : t.samples) {
    EXPECT_EQ(sample.time_ns - sample.interval_ns, end_ns);
    EXPECT_TRUE(sample.flags & kSampleExact);
    end_ns = sample.time_ns;
  }
  EXPECT_EQ(end_ns, 1'100'000);
  ASSERT_EQ(t.sampled.size(), 1u);
  EXPECT_EQ(t.sampled[0].begin_ns, 100'000);
  EXPECT_EQ(t.sampled[0].end_ns, 1'100'000);
}

TEST_F(KinetoTest, WithoutPythonRowsThereAreSitesButNoSamples) {
  const LoadedRun run = Load(Document(
      {Call("cudaLaunchKernel", "130", "5", 1), Kernel("k", "140", "5", 1),
       R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 411, "tid": 411, "ts": 120,
           "dur": 20})"}));
  EXPECT_GE(run.timeline.calls[0].site, 0);
  EXPECT_TRUE(run.timeline.samples.empty());
  EXPECT_TRUE(run.timeline.sampled.empty());
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace files read in windows give the reports of the run held at once.
#include "tools/windowed/windowed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tests/tools/trace_maker.h"
#include "tools/report/report.h"
#include "tools/windowed/records_around.h"
#include "tools/windowed/window_reader.h"

namespace gpuprobe::tools {
namespace {

constexpr int64_t kBegin = 1'000'000'000'000;

// A training loop of one process: launches on two threads and three streams, copies, waits, events,
// graphs whose nodes share a correlation, records lost. Frames are closed every `frame_records`;
// the second thread's calls reach the trace one frame late, and one call lasts a third of the run.
class Job {
 public:
  Job(uint32_t seed, uint32_t pid, size_t frame_records)
      : random_(seed), frame_records_(frame_records), maker_(ProcessOf(pid)), pid_(pid) {
    maker_.Device(0, 7, "NVIDIA H200");
    if (seed % 2 == 1) maker_.Device(1, 9, "NVIDIA H200");
    devices_ = seed % 2 == 1 ? 2 : 1;
  }

  void Run(int steps) {
    const int64_t end_ns = host_ns_ + steps * 2'000'000;
    for (int step = 0; step < steps; ++step) {
      for (int i = Int(5, 40); i > 0; --i) Launch();
      if (Int(0, 3) == 0) Copy();
      if (Int(0, 9) == 0) Graph();
      if (Int(0, 4) == 0) Event();
      if (Int(0, 2) > 0) Wait();
      if (Int(0, 19) == 0) maker_.Loss(LossCause::kCuptiDropped, 5, host_ns_, host_ns_ + 50'000);
      if (Int(0, 14) == 0)
        maker_.Overhead(Int(1, 7) << 16, host_ns_, host_ns_ + 20'000, Int(0, 1) ? pid_ : 0);
      if (Int(0, 9) == 0) Untimed();
      host_ns_ += Int(0, 3) == 0 ? Int(200'000, 3'000'000) : Int(1'000, 60'000);
    }
    maker_.Call("cudaDeviceSynchronize", MadeClass::kSync, kBegin + (end_ns - kBegin) / 3,
                kBegin + (end_ns - kBegin) * 2 / 3, ++correlation_, pid_ + 2);
    FlushLate();
    maker_.Finish();
  }

  void Save(const std::string& path) const { maker_.Save(path); }
  size_t frames() const { return maker_.frames().size(); }

 private:
  struct LateCall {
    std::string name;
    MadeClass api_class;
    int64_t begin_ns, end_ns;
    uint32_t correlation;
  };

  static MadeProcess ProcessOf(uint32_t pid) {
    MadeProcess process;
    process.pid = pid;
    process.file_id = pid;
    process.begin_ns = kBegin;
    return process;
  }
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  uint32_t Device() { return static_cast<uint32_t>(Int(0, devices_ - 1)); }

  uint32_t Call(const std::string& name, MadeClass api_class, int64_t length_ns) {
    const uint32_t correlation = ++correlation_;
    if (Int(0, 4) == 0) {
      late_.push_back({name, api_class, host_ns_, host_ns_ + length_ns, correlation});
    } else {
      maker_.Call(name, api_class, host_ns_, host_ns_ + length_ns, correlation, pid_);
    }
    host_ns_ += length_ns;
    if (++records_ % frame_records_ == 0) {
      // Those of two frames ago.
      maker_.CloseFrame();
      FlushLate();
    }
    return correlation;
  }

  void FlushLate() {
    for (const LateCall& call : late_) {
      maker_.Call(call.name, call.api_class, call.begin_ns, call.end_ns, call.correlation,
                  pid_ + 1);
    }
    late_.clear();
  }

  // On the stream, in order.
  int64_t Start(uint32_t device, uint32_t stream) {
    int64_t& until_ns = busy_until_ns_[device * 8 + stream];
    until_ns = std::max(until_ns + 1'000, host_ns_ + 5'000);
    return until_ns;
  }
  void End(uint32_t device, uint32_t stream, int64_t end_ns) {
    busy_until_ns_[device * 8 + stream] = end_ns;
    all_until_ns_ = std::max(all_until_ns_, end_ns);
  }

  void Launch() {
    const uint32_t device = Device(), stream = static_cast<uint32_t>(Int(0, 2));
    const uint32_t correlation = Call("cudaLaunchKernel", MadeClass::kLaunch,
                                      Int(0, 60) == 0 ? 1'500'000 : 32 * Int(60, 190));
    const int64_t begin_ns = Start(device, stream);
    const int64_t end_ns = begin_ns + (Int(0, 30) == 0 ? 0 : 64 * Int(20, 600));
    maker_.Kernel(Int(0, 9) == 0 ? "ncclDevKernel_AllReduce" : "gemm" + std::to_string(Int(0, 5)),
                  begin_ns, end_ns, correlation, device, 7 + stream);
    End(device, stream, end_ns);
    host_ns_ += Int(0, 4'000);
  }

  void Copy() {
    const bool pageable = Int(0, 1) == 1;
    const uint32_t correlation =
        Call(pageable ? "cudaMemcpy" : "cudaMemcpyAsync",
             pageable ? MadeClass::kCopyBlocking : MadeClass::kCopy, Int(3'000, 90'000));
    const int64_t begin_ns = Start(0, 0);
    const int64_t end_ns = begin_ns + Int(2'000, 90'000);
    maker_.Copy(static_cast<uint8_t>(Int(1, 2)), pageable ? 1 : 2, 3, 4096, begin_ns, end_ns,
                correlation);
    End(0, 0, end_ns);
  }

  void Graph() {
    const uint32_t correlation = Call("cudaGraphLaunch", MadeClass::kLaunch, 9'000);
    for (int i = Int(1, 4); i > 0; --i) {
      const int64_t begin_ns = Start(0, 0);
      maker_.Graph(3, begin_ns, begin_ns + 12'000, correlation);
      End(0, 0, begin_ns + 12'000);
    }
  }

  void Event() {
    const uint32_t record = Call("cudaEventRecord", MadeClass::kOther, 1'000);
    maker_.CudaEvent(static_cast<uint32_t>(Int(1, 3)), record, 7);
    const uint32_t wait = Call("cudaStreamWaitEvent", MadeClass::kOther, 1'000);
    maker_.Sync(2, host_ns_ - 1'000, host_ns_, wait, 8);
  }

  void Wait() {
    const int64_t length_ns = std::max<int64_t>(2'000, all_until_ns_ - host_ns_ + 3'000);
    const uint32_t correlation = Call("cudaStreamSynchronize", MadeClass::kSync, length_ns);
    maker_.Sync(3, host_ns_ - length_ns, host_ns_, correlation, 7);
  }

  void Untimed() {
    const uint32_t correlation = Call("cudaLaunchKernel", MadeClass::kLaunch, 4'000);
    maker_.Kernel("gemm0", 0, 0, correlation, 0, 7, Timing::kMissing);
  }

  std::mt19937 random_;
  const size_t frame_records_;
  TraceMaker maker_;
  const uint32_t pid_;
  int devices_ = 1;
  int64_t host_ns_ = kBegin + 1'000'000, all_until_ns_ = 0;
  uint32_t correlation_ = 0;
  size_t records_ = 0;
  std::map<uint32_t, int64_t> busy_until_ns_;
  std::vector<LateCall> late_;
};

// Everything that the reports print but what is known to differ: windowed_analysis.h.
std::string Reports(const LoadedRun& run, Analysis analysis, const Options& options,
                    const WindowedRun* windowed) {
  analysis.verdict = Verdict();
  // Of equals, the one that was met first comes first.
  for (DeviceReport& device : analysis.devices) {
    for (CauseTotal& cause : device.causes) {
      std::sort(cause.sites.begin(), cause.sites.end(), [](const auto& a, const auto& b) {
        return std::tie(b.total_ns, a.where) < std::tie(a.total_ns, b.where);
      });
    }
  }
  ReportInput input = {run, analysis, options, 0};
  if (windowed != nullptr) {
    input.tables = &windowed->tables;
    input.hot = &windowed->hot;
  }
  std::string all;
  for (const ReportKind kind : {ReportKind::kSummary, ReportKind::kGaps, ReportKind::kWaits,
                                ReportKind::kKernels, ReportKind::kCopies, ReportKind::kApi,
                                ReportKind::kSteps, ReportKind::kHot, ReportKind::kInfo}) {
    for (const Format format : {Format::kText, Format::kJson, Format::kCsv}) {
      all += RenderReport(kind, format, input);
    }
  }
  return all;
}

// The reports are long: only what differs is worth reading.
void ExpectSameLines(const std::string& expected, const std::string& found) {
  std::istringstream a(expected), b(found);
  std::string line_a, line_b;
  for (int number = 1, wrong = 0; wrong < 5; ++number) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a));
    const bool more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return;
    EXPECT_EQ(line_b, line_a) << "line " << number;
    wrong += line_a != line_b || more_a != more_b;
  }
}

void ExpectSameReports(const std::vector<std::string>& paths, const Options& options,
                       const WindowedOptions& windowed_options) {
  const auto whole = LoadRun(FindInputFiles(paths));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string expected = Reports(*whole, Analyse(whole->timeline, options), options, nullptr);

  // By one thread, by two that share the work of a window, and window over window.
  for (const size_t cpus : {1, 2, 8}) {
    SCOPED_TRACE(testing::Message() << cpus << " CPUs");
    WindowedOptions windows = windowed_options;
    windows.limits.cpus = cpus;
    windows.with_tables = windows.with_hot = true;
    windows.choose = [&](const Timeline&) { return options; };
    auto found = LoadInWindows(FindInputFiles(paths), windows);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->analysis.internal_error, "");
    EXPECT_EQ(std::erase(found->run.notices, kWindowsNotice), 1u);
    ExpectSameLines(expected, Reports(found->run, found->analysis, found->options, &*found));
    EXPECT_EQ(found->analysis.verdict.kind, Analyse(whole->timeline, options).verdict.kind);
    EXPECT_EQ(found->run.complete(), whole->complete());
    EXPECT_EQ(found->run.folded_driver_calls, whole->folded_driver_calls);
  }
}

WindowedOptions Windows(size_t records) {
  WindowedOptions options;
  options.records = records;
  options.limits.look_ahead = SIZE_MAX;
  return options;
}

TEST(LoadInWindows, GivesTheReportsOfTheRunHeldAtOnce) {
  for (uint32_t seed = 0; seed < 12 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    TempFolder folder;
    Job job(seed, 411, 60);
    job.Run(150);
    ASSERT_GT(job.frames(), 10u);
    job.Save(folder.Path("a.gpuprobe"));
    ExpectSameReports({folder.Path("a.gpuprobe")}, {}, Windows(1'000));
  }
}

TEST(LoadInWindows, LaysFilesOfSeveralProcessesSideBySide) {
  for (uint32_t seed = 20; seed < 28 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    TempFolder folder;
    for (const uint32_t pid : {411u, 512u}) {
      Job job(seed + pid, pid, 50);
      job.Run(pid == 411 ? 120 : 60);
      job.Save(folder.Path(std::to_string(pid) + ".gpuprobe"));
    }
    ExpectSameReports({folder.Path("")}, {}, Windows(800));
    Options one;
    one.pid = 512;
    ExpectSameReports({folder.Path("")}, one, Windows(800));
    Options part;
    part.from_ns = kBegin + 40'000'000;
    part.to_ns = kBegin + 90'000'000;
    part.device = 0;
    ExpectSameReports({folder.Path("")}, part, Windows(800));
  }
}

TEST(LoadInWindows, ReadsADamagedFileAsFarAsItIsGood) {
  TempFolder folder;
  Job job(3, 411, 60);
  job.Run(150);
  const std::string path = folder.Path("a.gpuprobe");
  job.Save(path);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
  bytes.resize(bytes.size() - 100);
  std::ofstream(path, std::ios::binary) << bytes;
  ExpectSameReports({path}, {}, Windows(1'000));
}

TEST(LoadInWindows, ReadsTracesOfTheRepository) {
  for (const char* name : {"format_v1.gpuprobe", "format_v1_samples.gpuprobe"}) {
    SCOPED_TRACE(name);
    ExpectSameReports({std::string(GPUPROBE_SOURCE_DIR) + "/tests/testdata/" + name}, {},
                      Windows(1'000));
  }
}

TEST(LoadInWindows, FoldsHostSamplesOfWhichThereAreTooMany) {
  const std::string path =
      std::string(GPUPROBE_SOURCE_DIR) + "/tests/testdata/format_v1_samples.gpuprobe";
  const auto whole = LoadRun(FindInputFiles({path}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  WindowedOptions windows = Windows(1'000);
  windows.most_samples = whole->timeline.samples.size() / 4;
  const auto found = LoadInWindows(FindInputFiles({path}), windows);
  ASSERT_TRUE(found.ok()) << found.status();
  const auto sums = [](const Timeline& timeline) {
    std::map<int32_t, std::vector<int64_t>> by_thread;
    for (const HostSample& sample : timeline.samples) {
      std::vector<int64_t>& sum = by_thread[sample.thread];
      sum.resize(4);
      sum[0] += sample.interval_ns;
      sum[1] += sample.cpu_ns;
      sum[2] += sample.runnable_ns;
      sum[3] = sample.time_ns;
    }
    return by_thread;
  };
  EXPECT_LE(found->run.timeline.samples.size(), windows.most_samples);
  EXPECT_EQ(sums(found->run.timeline), sums(whole->timeline));
  const auto& notices = found->run.notices;
  EXPECT_TRUE(std::any_of(notices.begin(), notices.end(), [](const std::string& notice) {
    return notice.starts_with("host samples: ");
  }));
}

TEST(LoadInWindows, KeepsTheLongestGaps) {
  TempFolder folder;
  Job job(2, 411, 60);
  job.Run(150);
  const std::string path = folder.Path("a.gpuprobe");
  job.Save(path);
  WindowedOptions windows = Windows(1'000);
  windows.limits.kept_gaps = 5;
  const auto found = LoadInWindows(FindInputFiles({path}), windows);
  ASSERT_TRUE(found.ok()) << found.status();
  const auto whole = LoadRun(FindInputFiles({path}));
  const Analysis expected = Analyse(whole->timeline, {});
  std::vector<int64_t> lengths;
  for (const Gap& gap : expected.devices[0].gaps) lengths.push_back(gap.length_ns());
  std::sort(lengths.rbegin(), lengths.rend());
  std::vector<int64_t> kept;
  for (const Gap& gap : found->analysis.devices[0].gaps) kept.push_back(gap.length_ns());
  std::sort(kept.rbegin(), kept.rend());
  EXPECT_EQ(kept, std::vector<int64_t>(lengths.begin(), lengths.begin() + 5));
  EXPECT_EQ(found->analysis.devices[0].all_gaps, lengths.size());
}

TEST(LoadAround, HasWhatExplainsAGapAsTheWholeRunHas) {
  for (uint32_t seed = 40; seed < 46 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    TempFolder folder;
    Job job(seed, 411, 60);
    job.Run(150);
    const std::string path = folder.Path("a.gpuprobe");
    job.Save(path);
    const auto whole = LoadRun(FindInputFiles({path}));
    const Analysis expected = Analyse(whole->timeline, {});
    const std::vector<Gap>& gaps = expected.devices[0].gaps;
    const Gap& gap = gaps[gaps.size() / 2];
    AroundOptions options;
    options.context = 800;
    const auto around = LoadAround(FindInputFiles({path}), {gap.begin_ns, gap.end_ns}, options);
    ASSERT_TRUE(around.ok()) << around.status();
    EXPECT_LT(around->timeline.ops.size(), whole->timeline.ops.size());
    const Analysis here = Analyse(around->timeline, {});
    const auto explain = [&](const LoadedRun& run, const Analysis& analysis) {
      ReportInput input = {run, analysis, {}, 0};
      input.explain = GapChoice{1, gap.begin_ns};
      std::string csv = RenderReport(ReportKind::kGap, Format::kCsv, input);
      const std::string text = RenderReport(ReportKind::kGap, Format::kText, input);
      return csv + text.substr(text.find("  before"));
    };
    EXPECT_EQ(explain(*around, here), explain(*whole, expected));
  }
}

TEST(LoadAround, RefusesMoreThanItMayHold) {
  TempFolder folder;
  Job job(2, 411, 60);
  job.Run(50);
  const std::string path = folder.Path("a.gpuprobe");
  job.Save(path);
  AroundOptions options;
  options.most = 100;
  EXPECT_TRUE(absl::IsResourceExhausted(
      LoadAround(FindInputFiles({path}), {kBegin, kBegin + 1'000'000'000}, options).status()));
}

// Frames of 50 calls, then frames of launches; with `late` the last one has a call that waited all
// the time.
void SaveCallsBeforeOperations(const std::string& path, int calls, bool late) {
  TraceMaker trace;
  trace.Device(0, 7, "NVIDIA H200");
  int64_t now_ns = kBegin;
  uint32_t correlation = 0;
  for (int i = 0; i < calls; ++i) {
    trace.Call("cudaMalloc", MadeClass::kAlloc, now_ns, now_ns + 1'000, ++correlation);
    now_ns += 2'000;
    if (i % 50 == 49) trace.CloseFrame();
  }
  for (int i = 0; i < 500; ++i) {
    trace.Call("cudaLaunchKernel", MadeClass::kLaunch, now_ns, now_ns + 5'000, ++correlation);
    trace.Kernel("_Z3addPf", now_ns + 6'000, now_ns + 20'000, correlation);
    now_ns += 30'000;
    if (i % 50 == 49) trace.CloseFrame();
  }
  if (late)
    trace.Call("cudaDeviceSynchronize", MadeClass::kSync, kBegin, now_ns, ++correlation, 4712);
  trace.Finish();
  trace.Save(path);
}

TEST(WindowReader, HasTheFirstOperationInItsFirstWindow) {
  TempFolder folder;
  const std::string path = folder.Path("a.gpuprobe");
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    SaveCallsBeforeOperations(path, 300, late);
    auto outline = LoadOutline(FindInputFiles({path}));
    ASSERT_TRUE(outline.ok()) << outline.status();
    WindowReader reader(&*outline, 100, 0);
    RecordWindow window;
    reader.Next(&window);
    ASSERT_FALSE(window.records.ops.empty());
    EXPECT_EQ(window.records.ops.front().start_ns, kBegin + 300 * 2'000 + 6'000);
    EXPECT_EQ(window.records.ops.size(), late ? 500u : 50u);
  }
}

TEST(WindowReader, HandsOutCallsWhereNoOperationComesForLong) {
  TempFolder folder;
  const std::string path = folder.Path("a.gpuprobe");
  SaveCallsBeforeOperations(path, 6'000, false);
  auto outline = LoadOutline(FindInputFiles({path}));
  ASSERT_TRUE(outline.ok()) << outline.status();
  WindowReader reader(&*outline, 100, 0);
  RecordWindow window;
  EXPECT_TRUE(reader.Next(&window));
  EXPECT_EQ(window.records.calls.size(), 400u);
  size_t ops = 0;
  for (bool more = true; more; ops += window.records.ops.size()) more = reader.Next(&window);
  EXPECT_EQ(ops, 500u);
}

// From when on --from and --to count.
TEST(LoadInWindows, ChoosesByTheFirstOperationOfTheRun) {
  TempFolder folder;
  const std::string path = folder.Path("a.gpuprobe");
  SaveCallsBeforeOperations(path, 300, true);
  WindowedOptions windows = Windows(100);
  std::vector<int64_t> first_ns;
  windows.choose = [&](const Timeline& timeline) -> absl::StatusOr<Options> {
    for (const GpuOp& op : timeline.ops) first_ns.push_back(op.start_ns);
    return Options();
  };
  const auto found = LoadInWindows(FindInputFiles({path}), windows);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(first_ns.empty());
  EXPECT_EQ(first_ns.front(), kBegin + 300 * 2'000 + 6'000);
}

TEST(LoadInWindows, SaysThatItGaveWaitsUp) {
  TempFolder folder;
  const std::string path = folder.Path("a.gpuprobe");
  TraceMaker trace;
  trace.Device(0, 7, "NVIDIA H200");
  int64_t now_ns = kBegin;
  uint32_t correlation = 0;
  const auto launch = [&] {
    trace.Call("cudaLaunchKernel", MadeClass::kLaunch, now_ns, now_ns + 5'000, ++correlation);
    trace.Kernel("_Z3addPf", now_ns + 6'000, now_ns + 20'000, correlation);
    now_ns += 30'000;
  };
  launch();
  // More than are kept for a thread that may submit again.
  for (int i = 0; i < 6'000; ++i) {
    trace.Call("cudaDeviceSynchronize", MadeClass::kSync, now_ns, now_ns + 1'000, ++correlation);
    now_ns += 2'000;
    if (i % 500 == 499) trace.CloseFrame();
  }
  launch();
  trace.Finish();
  trace.Save(path);
  const auto found = LoadInWindows(FindInputFiles({path}), Windows(500));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->run.notices, testing::Contains(testing::HasSubstr("waits of threads that")));
}

TEST(LoadInWindows, SaysWhatIsNoTraceOfItsOwn) {
  TempFolder folder;
  const std::string path = folder.Path("trace.json");
  std::ofstream(path) << R"({"traceEvents": []})";
  EXPECT_TRUE(absl::IsUnimplemented(LoadInWindows(FindInputFiles({path}), {}).status()));
}

}  // namespace
}  // namespace gpuprobe::tools

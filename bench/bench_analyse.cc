// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What do the analyses cost for each GPU operation, in time and in memory, beyond the timeline
// itself? The worst case: launch-bound, a gap before every kernel, one launch call a kernel and a
// synchronisation every thousand.
//
// Then the same with host samples, one for ten operations: what do
// lines of code cost on top?
//
//   bench_analyse [million operations, default 1 | --smoke]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string_view>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {
namespace {

Timeline LaunchBound(size_t operations) {
  Timeline t;
  Process process;
  process.pid = 1;
  process.has_runtime_api = true;
  t.processes.push_back(process);
  t.devices.push_back({"GPU-0", "H200", 0, 0, 132});
  t.streams.push_back({0, 0, 1, 7, false});
  t.threads.push_back({0, 11, "python", true});
  t.names.push_back("gemm");
  t.symbols.push_back({"cudaLaunchKernel", CallClass::kLaunch, false});
  t.symbols.push_back({"cudaStreamSynchronize", CallClass::kSync, false});
  t.ops.reserve(operations);
  t.calls.reserve(operations + operations / 1000 + 1);
  std::mt19937_64 random(1);
  int64_t at = 0;
  for (size_t i = 0; i < operations; ++i) {
    at += 10'000 + static_cast<int64_t>(random() % 4'000);
    const auto correlation = static_cast<uint32_t>(i + 1);
    t.calls.push_back({at, at + 5'000, correlation, 0, 0, 0, 0});
    GpuOp op{};
    op.start_ns = at + 4'000;
    op.end_ns = op.start_ns + 2'000 + static_cast<int64_t>(random() % 6'000);
    op.correlation = correlation;
    op.shape = -1;
    op.submission = static_cast<int32_t>(t.calls.size()) - 1;
    t.ops.push_back(op);
    if (i % 1000 == 999) {
      t.calls.push_back({at + 6'000, at + 13'000, correlation, 0, 0, 1, 0});
      at += 13'000;
    }
  }
  return t;
}

// `count` looks at the submitting thread, at 50 lines of code in turn, spread over the timeline.
void AddSamples(size_t count, Timeline* t) {
  t->strings = {"/job/train.py", "step"};
  constexpr int32_t kLines = 50;
  for (int32_t line = 0; line < kLines; ++line) {
    CodeLocation location;
    location.function = 1;
    location.file = 0;
    location.line = line + 1;
    t->locations.push_back(location);
    t->stacks.push_back({-1, line});
  }
  const int64_t end_ns = t->ops.back().end_ns;
  t->sampled.push_back({0, end_ns, 0});
  const int64_t interval_ns = end_ns / static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    HostSample sample{};
    sample.time_ns = static_cast<int64_t>(i + 1) * interval_ns;
    sample.interval_ns = sample.cpu_ns = interval_ns;
    sample.stack = static_cast<int32_t>(i % kLines);
    sample.state = HostState::kRunning;
    t->samples.push_back(sample);
  }
}

double PeakMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

double CpuSeconds(const Timeline& timeline) {
  const std::clock_t start = std::clock();
  const Analysis analysis = Analyse(timeline, {});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return analysis.internal_error.empty() ? seconds : -1;
}

int Main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::string_view(argv[1]) == "--smoke";
  const double millions = smoke ? 0.02 : argc > 1 ? std::atof(argv[1]) : 1.0;
  const auto operations = static_cast<size_t>(millions * 1e6);
  Timeline timeline = LaunchBound(operations);
  const double before_mib = PeakMib();
  // CPU time: the wall clock of a shared machine measures its neighbours.
  const std::clock_t start = std::clock();
  const Analysis analysis = Analyse(timeline, {});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const DeviceReport& report = analysis.devices.at(0);
  const double n = static_cast<double>(operations);
  std::printf("%.1f M operations, %zu gaps, %zu parts: %.1f ns an operation, %.2f s of CPU\n",
              millions, report.gaps.size(), report.parts.size(), seconds * 1e9 / n, seconds);
  std::printf("timeline %.0f MiB, analyses +%.0f MiB at their peak: %.0f bytes an operation\n",
              before_mib, PeakMib() - before_mib, (PeakMib() - before_mib) * 1048576 / n);
  const size_t samples = operations / 10;
  AddSamples(samples, &timeline);
  const double sampled_seconds = CpuSeconds(timeline);
  std::printf("with %zu samples: %.1f ns an operation, %.2f times as long\n", samples,
              sampled_seconds * 1e9 / n, sampled_seconds / seconds);
  return analysis.internal_error.empty() && sampled_seconds >= 0 ? 0 : 1;
}

}  // namespace
}  // namespace gpuprobe::tools

int main(int argc, char** argv) { return gpuprobe::tools::Main(argc, argv); }

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One question: how fast, and in how much memory, are trace events of PyTorch's profiler read?
//
//   bench_import [--smoke] [--bytes N] [--read-only] [TRACE]
//
// Without TRACE a synthetic one is written first: for each kernel an operator with its shapes, a
// launch, and the two halves of a flow, in Kineto's layout. First the rows alone (nothing kept),
// then the whole way into a Timeline; the peak after each is the process's, so the second holds the
// first. --read-only leaves the second out. --smoke: small, to see that it runs. Prints one line of
// JSON with the machine beside the figures. For a comparison with a general reader:
//   python3 -c 'import json,resource; json.load(open("TRACE"));
//               print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)'
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/bench_util.h"
#include "tools/import/kineto/event_reader.h"
#include "tools/import/source_format.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

constexpr uint64_t kDefaultBytes = 256 << 20, kSmokeBytes = 1 << 20;

std::string Microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
  return text;
}

// The rows of one kernel.
std::string RowsOf(uint64_t i, int64_t host_ns, int64_t start_ns, int64_t duration_ns) {
  const std::string id = std::to_string(i + 1);
  const std::string host = R"("pid": 4711, "tid": 4711,)";
  const std::string name =
      i % 200 == 0 ? "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                   : "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<"
                     "c10::Half>, at::detail::Array<char*, " +
                         std::to_string(i % 200) +
                         "> >(int, at::native::FillFunctor<c10::Half>, "
                         "at::detail::Array<char*, 1>)";
  std::string rows = R"(  {
    "ph": "X", "cat": "cpu_op", "name": "aten::op_)" +
                     std::to_string(i % 37) + "\", " + host +
                     "\n    \"ts\": " + Microseconds(host_ns) +
                     ", \"dur\": 9.000,\n    \"args\": {\n      " + R"("External id": )" + id +
                     R"(,"Record function id": 0, "Concrete Inputs": ["", "", "1"], )"
                     R"("Input type": ["float", "float", "Scalar"], "Input Strides": )"
                     R"([[131072, 256, 1], [131072, 256, 1], []], "Input Dims": )"
                     R"([[64, 512, 256], [64, 512, 256], []], "Ev Idx": )" +
                     id + "\n    }\n  },\n";
  rows += R"(  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", )" +
          host + "\n    \"ts\": " + Microseconds(host_ns + 2000) +
          ", \"dur\": 3.217,\n    \"args\": {\n      \"External id\": " + id +
          ", \"cbid\": 211, \"correlation\": " + id + "\n    }\n  },\n";
  rows += R"(  {
    "ph": "s", "id": )" +
          id + ", " + host + " \"ts\": " + Microseconds(host_ns + 2000) +
          ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n";
  rows += R"(  {
    "ph": "X", "cat": "kernel", "name": ")" +
          name + R"(", "pid": 0, "tid": 7,
    "ts": )" +
          Microseconds(start_ns) + ", \"dur\": " + Microseconds(duration_ns) +
          R"(,
    "args": {
      "External id": )" +
          id + R"(,
      "queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": )" +
          id + R"(,
      "registers per thread": 40, "shared memory": 400,
      "blocks per SM": 4.740741,
      "warps per SM": 75.851852,
      "grid": [)" +
          std::to_string(1 + i % 30) + R"(, 1, 1],
      "block": [512, 1, 1],
      "est. achieved occupancy %": 100
    }
  },
)";
  rows += R"(  {
    "ph": "f", "id": )" +
          id + R"(, "pid": 0, "tid": 7, "ts": )" + Microseconds(start_ns) +
          ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  },\n";
  return rows;
}

bool WriteSynthetic(const std::string& path, uint64_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file << "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"rank\": 0, \"world_size\": 1},\n"
          "  \"baseTimeNanoseconds\": 1711964646000000000,\n  \"traceEvents\": [\n";
  int64_t host_ns = 4'458'676'981'028'000, gpu_ns = 0;
  uint64_t written = 0;
  for (uint64_t i = 0; written < bytes; ++i) {
    gpu_ns = std::max(gpu_ns + 1'024, host_ns + 6'016);
    const auto duration_ns = static_cast<int64_t>(2'016 + i * 2654435761u % 97 * 32);
    const std::string rows = RowsOf(i, host_ns, gpu_ns, duration_ns);
    file << rows;
    written += rows.size();
    gpu_ns += duration_ns;
    host_ns += 10'500;
  }
  file << "  {}\n  ],\n  \"traceName\": \"trace.json\"\n}\n";
  return file.good();
}

uint64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

struct Cost {
  double seconds, cpu_seconds;
  uint64_t peak_bytes;
};

template <typename Work>
Cost Measure(Work work) {
  const int64_t start_ns = bench::NowNs(), cpu_ns = bench::CpuNs();
  work();
  return {static_cast<double>(bench::NowNs() - start_ns) / 1e9,
          static_cast<double>(bench::CpuNs() - cpu_ns) / 1e9, PeakBytes()};
}

int Run(const std::string& path, bool read_only) {
  const Source source = DetectSourceOfFile(path);
  uint64_t rows = 0, events = 0, text_bytes = 0;
  bool ok = false;
  const Cost read = Measure([&] {
    auto reader = EventReader::Open(path, source.packing);
    ok = reader.ok();
    if (!ok) return;
    for (auto item = (*reader)->Next(); item != EventReader::Item::kEnd; item = (*reader)->Next()) {
      rows += item == EventReader::Item::kRow;
    }
    events = (*reader)->counts().elements;
    text_bytes = (*reader)->counts().text_bytes;
  });
  Cost load = {};
  size_t records = 0;
  if (ok && !read_only) {
    load = Measure([&] {
      const auto run = LoadRun(FindInputFiles({path}));
      ok = run.ok();
      if (ok) records = run->timeline.ops.size() + run->timeline.calls.size();
    });
  }
  if (!ok) {
    std::fprintf(stderr, "bench_import: cannot read %s\n", path.c_str());
    return 1;
  }
  const auto count = static_cast<double>(events);
  bench::PrintMachine();
  std::printf(
      "{\"text_bytes\":%" PRIu64 ",\"events\":%" PRIu64 ",\"rows\":%" PRIu64
      ",\"read_s\":%.3f,\"read_cpu_s\":%.3f,\"read_events_per_s\":%.0f,"
      "\"read_events_per_cpu_s\":%.0f,\"read_peak_bytes\":%" PRIu64
      ",\"load_s\":%.3f,\"load_cpu_s\":%.3f,\"load_events_per_s\":%.0f,\"load_peak_bytes\":%" PRIu64
      ",\"records\":%zu}\n",
      text_bytes, events, rows, read.seconds, read.cpu_seconds, count / read.seconds,
      count / read.cpu_seconds, read.peak_bytes, load.seconds, load.cpu_seconds,
      load.seconds > 0 ? count / load.seconds : 0, load.peak_bytes, records);
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  uint64_t bytes = kDefaultBytes;
  bool read_only = false;
  std::string trace;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--smoke") {
      bytes = kSmokeBytes;
    } else if (arguments[i] == "--bytes" && i + 1 < arguments.size()) {
      bytes = std::strtoull(arguments[++i].c_str(), nullptr, 10);
    } else if (arguments[i] == "--read-only") {
      read_only = true;
    } else {
      trace = arguments[i];
    }
  }
  if (!trace.empty()) return Run(trace, read_only);
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/bench_import-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || close(fd) != 0 || !WriteSynthetic(path, bytes)) {
    std::fprintf(stderr, "bench_import: cannot write %s\n", path.c_str());
    return 1;
  }
  const int status = Run(path, read_only);
  unlink(path.c_str());
  return status;
}

}  // namespace
}  // namespace gpuprobe::tools

int main(int argc, char** argv) {
  return gpuprobe::tools::Main(std::vector<std::string>(argv + 1, argv + argc));
}

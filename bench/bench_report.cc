// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One question: how long does probe-report take from a trace file to the figures, and how much
// memory?
//
//   bench_report [--smoke] [--windows] [--cpus N] [--records N] [--keep FILE] [TRACE]
//
// --windows: as probe-report reads a long run, window by window, up to the summary's text, in a
// fresh process, with the CPU time of each of its threads: the largest is what the wall time cannot
// be below; else the whole run at once. --cpus: reads as on so many, with --windows; as many as the
// process may use. --keep: the synthetic trace stays, in FILE.
// Without TRACE a synthetic one is written first: a launch-bound training loop, as many calls as
// kernels, on four streams (one of them communication), a copy and a synchronisation every 1,000
// kernels. --smoke: small, to see that it runs. Prints one line of JSON with the machine beside the
// figures.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "proto/trace_writer.h"
#include "ringbuf/records.h"
#include "tools/analysis/analysis.h"
#include "tools/load/trace_loader.h"
#include "tools/report/report.h"
#include "tools/windowed/windowed_run.h"

namespace gpuprobe::tools {
namespace {

constexpr uint64_t kDefaultRecords = 4'000'000, kSmokeRecords = 20'000;
constexpr int64_t kStartNs = 1'798'000'000'000'000'000;

struct Sink {
  std::ofstream file;
  int64_t now_ns = kStartNs;
};

proto::WriterHooks HooksInto(Sink* sink) {
  proto::WriterHooks hooks;
  hooks.user = sink;
  hooks.write_frame = [](void* user, const uint8_t* data, size_t size) {
    auto& file = static_cast<Sink*>(user)->file;
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return file.good();
  };
  hooks.read_clocks = [](void* user) {
    const int64_t now = static_cast<Sink*>(user)->now_ns;
    return proto::ClockReading{now, now - 1'000'000, now, now, 50};
  };
  hooks.read_name = [](void*, const char* name, char* out, size_t capacity) {
    const size_t size = std::min(std::strlen(name), capacity);
    std::memcpy(out, name, size);
    return static_cast<int64_t>(size);
  };
  hooks.api_name = [](void*, ApiDomain, uint32_t cbid, uint32_t* api_class) {
    *api_class = cbid == 1 ? 1 : cbid == 2 ? 2 : 4;  // launch, copy, synchronise
    return cbid == 1 ? "cudaLaunchKernel" : cbid == 2 ? "cudaMemcpyAsync" : "cudaStreamSynchronize";
  };
  return hooks;
}

void Call(uint32_t cbid, int64_t start_ns, int64_t end_ns, uint32_t correlation,
          proto::TraceWriter* writer) {
  writer->OnApi({start_ns, end_ns, ApiDomain::kRuntime, cbid, 411, 411, correlation, 0});
}

// xorshift64: what makes a trace as hard to compress as a real one, at a nanosecond a number.
class Jitter {
 public:
  int64_t Below(uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int64_t>((state_ >> 32) * limit >> 32);
  }

 private:
  uint64_t state_ = 88172645463325252u;
};

// About `records` records; deterministic.
bool WriteSynthetic(const std::string& path, uint64_t records) {
  Sink sink;
  sink.file.open(path, std::ios::binary);
  proto::WriterOptions options;
  options.file_id = 1;
  void* memory = std::aligned_alloc(4096, options.memory_bytes);
  std::memset(memory, 0, options.memory_bytes);
  proto::TraceWriter writer;
  if (!writer.Init(options, HooksInto(&sink), memory)) return false;
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i)
    names.push_back("_ZN2at6native13reduce_kernelILi" + std::to_string(i) + "EfEEvPT0_");
  names[0] = "ncclDevKernel_AllReduce_Sum_f16_RING_LL";
  DeviceRecord device = {};
  device.uuid[0] = 1;
  device.name = "synthetic GPU";
  writer.OnDevice(device);
  writer.OnContext({1, 0, 7});
  uint32_t correlation = 0;
  Jitter jitter;
  int64_t host_ns = kStartNs, gpu_ns = kStartNs;
  for (uint64_t i = 0; i * 2 < records; ++i) {
    ++correlation;
    Call(1, host_ns, host_ns + 2'800 + jitter.Below(800), correlation, &writer);
    KernelRecord kernel = {};
    gpu_ns = std::max(gpu_ns + 992 + 32 * jitter.Below(4), (host_ns + 6'016) / 32 * 32);
    kernel.start_ns = gpu_ns;
    kernel.end_ns = gpu_ns +=
        2'016 + static_cast<int64_t>(i * 7919 % 199) * 16 / 32 * 32 + 32 * jitter.Below(8);
    kernel.context = 1;
    kernel.stream = 7 + static_cast<uint32_t>(i % 4);
    kernel.correlation = correlation;
    kernel.name = names[i * 7919 % names.size()].c_str();
    kernel.grid_x = static_cast<uint32_t>(1 + i % 30);
    kernel.grid_y = kernel.grid_z = kernel.block_y = kernel.block_z = 1;
    kernel.block_x = 256;
    writer.OnKernel(kernel);
    host_ns += 4'000 + jitter.Below(1'000);
    if (i % 1'000 == 999) {
      Call(3, host_ns, gpu_ns + 2'000, ++correlation, &writer);
      host_ns = std::max(host_ns, gpu_ns + 2'000) + 300'000;
    }
    sink.now_ns = std::max(host_ns, gpu_ns);
  }
  const bool written = writer.Finish("exit", 0);
  std::free(memory);
  return written && sink.file.good();
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int MeasureHeld(const std::string& path) {
  auto start = std::chrono::steady_clock::now();
  const auto run = LoadRun(FindInputFiles({path}));
  const double load_s = SecondsSince(start);
  if (!run.ok()) {
    std::fprintf(stderr, "bench_report: %s\n", std::string(run.status().message()).c_str());
    return 1;
  }
  const uint64_t load_peak = PeakBytes();
  start = std::chrono::steady_clock::now();
  const Analysis analysis = Analyse(run->timeline, Options());
  const double analyse_s = SecondsSince(start);
  uint64_t records = 0, bytes = 0;
  for (const InputFile& file : run->timeline.inputs) {
    records += file.records;
    bytes += file.bytes;
  }
  const double count = static_cast<double>(records);
  std::printf(
      "{\"records\":%llu,\"file_bytes\":%llu,\"load_s\":%.3f,\"load_records_per_s\":%.0f,\"analyse_"
      "s\":%.3f,"
      "\"load_peak_bytes\":%llu,\"peak_bytes\":%llu,\"peak_bytes_per_record\":%.1f,\"gaps\":%zu,"
      "\"cpu\":\"%s\","
      "\"threads\":%u}\n",
      static_cast<unsigned long long>(records), static_cast<unsigned long long>(bytes), load_s,
      count / load_s, analyse_s, static_cast<unsigned long long>(load_peak),
      static_cast<unsigned long long>(PeakBytes()), static_cast<double>(PeakBytes()) / count,
      analysis.devices.empty() ? 0 : analysis.devices[0].gaps.size(), CpuModel().c_str(),
      std::thread::hardware_concurrency());
  return 0;
}

double CpuSeconds(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The CPU time of each thread of this process, by looking every few milliseconds: a thread's last
// look is as exact as that.
class ThreadClocks {
 public:
  ThreadClocks() : thread_([this] { Run(); }) {}
  // "main 2.500, records 1.100": those that took a hundredth of a second.
  std::string Stop() {
    stop_ = true;
    thread_.join();
    std::string text;
    for (const auto& [tid, seen] : threads_) {
      if (seen.cpu_s < 0.01) continue;
      char item[64];
      std::snprintf(item, sizeof item, "%s\"%s\":%.3f", text.empty() ? "" : ",",
                    NameOf(tid, seen.name).c_str(), seen.cpu_s);
      text += item;
    }
    return text;
  }

 private:
  struct Seen {
    std::string name;
    double cpu_s;
  };
  void Run() {
    while (!stop_) {
      Look();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Look();
  }
  void Look() {
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
      const int tid = std::atoi(task.path().filename().c_str());
      std::string name;
      double cpu_ns = 0;
      std::getline(std::ifstream(task.path() / "comm"), name);
      std::ifstream(task.path() / "schedstat") >> cpu_ns;
      if (name.empty() || tid == gettid()) continue;
      threads_[tid] = {tid == getpid() ? "main" : name, cpu_ns / 1e9};
    }
  }
  // Several threads may have one name.
  std::string NameOf(int tid, const std::string& name) const {
    for (const auto& [other, seen] : threads_) {
      if (other < tid && seen.name == name && seen.cpu_s >= 0.01)
        return name + "-" + std::to_string(tid);
    }
    return name;
  }

  std::map<int, Seen> threads_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // after what it uses
};

int SummariseInWindows(const std::string& path, size_t cpus) {
  ThreadClocks clocks;
  WindowedOptions options;
  options.limits.cpus = cpus;
  const auto run = LoadInWindows(FindInputFiles({path}), options);
  if (!run.ok() || !run->analysis.internal_error.empty()) {
    std::fprintf(stderr, "bench_report: %s\n",
                 run.ok() ? run->analysis.internal_error.c_str()
                          : std::string(run.status().message()).c_str());
    return 1;
  }
  std::fputs(SummaryText({run->run, run->analysis, run->options, {}}).c_str(), stderr);
  uint64_t records = 0, bytes = 0;
  for (const InputFile& file : run->run.timeline.inputs) {
    records += file.records;
    bytes += file.bytes;
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("\"thread_cpu_s\":{%s},", clocks.Stop().c_str());
  std::printf("\"records\":%llu,\"file_bytes\":%llu,\"cpu_s\":%.3f,\"peak_bytes\":%llu,",
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(bytes),
              CpuSeconds(usage), static_cast<unsigned long long>(PeakBytes()));
  return 0;
}

// In a process of its own: the writer's memory is none of the reader's.
int MeasureWindows(const std::string& path, size_t cpus) {
  const auto start = std::chrono::steady_clock::now();
  std::printf("{");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "bench_report", "--cpus", std::to_string(cpus).c_str(),
          "--windows-child", path.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  std::printf("\"wall_s\":%.3f,\"cpu\":\"%s\",\"threads\":%u}\n", SecondsSince(start),
              CpuModel().c_str(), std::thread::hardware_concurrency());
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  uint64_t records = kDefaultRecords;
  std::string trace, keep;
  size_t cpus = 0;
  bool windows = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--smoke") {
      records = kSmokeRecords;
    } else if (arguments[i] == "--records" && i + 1 < arguments.size()) {
      records = std::strtoull(arguments[++i].c_str(), nullptr, 10);
    } else if (arguments[i] == "--windows") {
      windows = true;
    } else if (arguments[i] == "--cpus" && i + 1 < arguments.size()) {
      cpus = std::strtoull(arguments[++i].c_str(), nullptr, 10);
    } else if (arguments[i] == "--windows-child" && i + 1 < arguments.size()) {
      return SummariseInWindows(arguments[i + 1], cpus);
    } else if (arguments[i] == "--keep" && i + 1 < arguments.size()) {
      keep = arguments[++i];
    } else {
      trace = arguments[i];
    }
  }
  const auto measure = [&](const std::string& path) {
    return windows ? MeasureWindows(path, cpus) : MeasureHeld(path);
  };
  if (!trace.empty()) return measure(trace);
  if (!keep.empty()) {
    if (WriteSynthetic(keep, records)) return measure(keep);
    std::fprintf(stderr, "bench_report: cannot write %s\n", keep.c_str());
    return 1;
  }
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/bench_report-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || close(fd) != 0 || !WriteSynthetic(path, records)) {
    std::fprintf(stderr, "bench_report: cannot write %s\n", path.c_str());
    return 1;
  }
  // The writer runs in this process too; its memory (20 MiB) is returned before the reading starts.
  const int status = measure(path);
  unlink(path.c_str());
  return status;
}

}  // namespace
}  // namespace gpuprobe::tools

int main(int argc, char** argv) {
  return gpuprobe::tools::Main(std::vector<std::string>(argv + 1, argv + argc));
}

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What one CUDA call costs the host, in blocks, so that one process gives many figures:
//
//   micro launch THREADS BLOCKS OPS   empty kernels, OPS a block and thread, drained between blocks
//   micro sync 1 BLOCKS OPS           launch and cudaStreamSynchronize, each time
//   micro copy 1 BLOCKS OPS           4 KiB cudaMemcpyAsync from pinned memory
//   micro graph 1 BLOCKS OPS          replays of a graph of 20 kernels
//
// Prints "ns_per_op a b c ..." (one figure a block: wall time of the slowest thread / OPS, the time
// of draining not counted), "rss_kib N", "cpu_s N"; "instructions_per_op a b c ..." of the only
// thread, user mode, where the machine counts them; "yardstick_us a b c ...": the time of a fixed
// piece of work beside each block, by which the machine's own ups and downs can be told apart.
//
//   micro MODE 1 BLOCKS OPS NAME=KINDS ...            goes through the variants BLOCKS times
//   micro MODE 1 BLOCKS OPS --phases NAME=KINDS ...   BLOCKS times the first, then the second, ...
//
// KINDS as gpuprobe_floor_set of floor_client.cc takes them ("-": no call; with "anew" in it stream
// and graph are made once more after it), whose library must be loaded (CUDA_INJECTION64_PATH,
// GPUPROBE_FLOOR_KINDS=later). Then a line a variant: "variant NAME a b c ...", "instructions NAME
// ..." and "yardstick_us NAME ...".
//
//   micro MODE THREADS --serve FOLDER OPS            does blocks when it is told to (members.py)
//
// Reads "block OPS COUNT" from the FIFO FOLDER/go and answers each with a line of JSON on
// FOLDER/done (stepper.py says what is in it, of which this leaves out what is Python's); leaves at
// the end of the input or at any other line.
//
// Without nvcc it compiles for the simulated GPU of tests/sim, whose kernels have names alone.
#ifndef __CUDACC__
#include <cuda_runtime_api.h>

#include "tests/sim/gpusim.h"
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

#ifdef __CUDACC__
__global__ void Empty() {}

void LaunchEmpty(cudaStream_t stream) { Empty<<<1, 1, 0, stream>>>(); }
#else
void LaunchEmpty(cudaStream_t stream) {
  static const void* const empty = gpusim_kernel("Empty");
  cudaLaunchKernel(empty, dim3{1, 1, 1}, dim3{1, 1, 1}, nullptr, 0, stream);
}
#endif

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "micro: %s: error %d\n", what, static_cast<int>(error));
  std::exit(1);
}

struct Lane {
  cudaStream_t stream;
  void *host, *device;
  cudaGraphExec_t graph;
};

constexpr size_t kCopyBytes = 4096;
constexpr int kGraphKernels = 20;
// The launch queue holds 1,024 operations, and a graph of 20 kernels keeps the device busy for
// longer than its launch takes: longer bursts would measure the device.
constexpr int kBurst = 512, kGraphBurst = 32;

Lane MakeLane(const std::string& mode) {
  Lane lane = {};
  Check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "stream");
  if (mode == "copy") {
    Check(cudaMallocHost(&lane.host, kCopyBytes), "host memory");
    Check(cudaMalloc(&lane.device, kCopyBytes), "device memory");
  }
  if (mode == "graph") {
    cudaGraph_t graph;
    Check(cudaStreamBeginCapture(lane.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kGraphKernels; ++i) LaunchEmpty(lane.stream);
    Check(cudaStreamEndCapture(lane.stream, &graph), "capture");
    Check(cudaGraphInstantiate(&lane.graph, graph, 0), "instantiate");
  }
  return lane;
}

// Seconds of submitting `ops` operations.
double Submit(const std::string& mode, const Lane& lane, int ops) {
  double seconds = 0;
  const int longest = mode == "graph" ? kGraphBurst : kBurst;
  for (int done = 0; done < ops;) {
    const int burst = std::min(longest, ops - done);
    const auto begin = Clock::now();
    if (mode == "launch") {
      for (int i = 0; i < burst; ++i) LaunchEmpty(lane.stream);
    } else if (mode == "sync") {
      for (int i = 0; i < burst; ++i) {
        LaunchEmpty(lane.stream);
        cudaStreamSynchronize(lane.stream);
      }
    } else if (mode == "copy") {
      for (int i = 0; i < burst; ++i) {
        cudaMemcpyAsync(lane.device, lane.host, kCopyBytes, cudaMemcpyHostToDevice, lane.stream);
      }
    } else {
      for (int i = 0; i < burst; ++i) cudaGraphLaunch(lane.graph, lane.stream);
    }
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    Check(cudaStreamSynchronize(lane.stream), mode.c_str());
    done += burst;
  }
  return seconds;
}

// User-mode instructions of the calling thread; 0 throughout where they cannot be counted.
class Instructions {
 public:
  Instructions() {
    perf_event_attr wanted = {};
    wanted.size = sizeof(wanted);
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.exclude_kernel = wanted.exclude_hv = 1;
    counter_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0));
  }
  ~Instructions() {
    if (counter_ >= 0) close(counter_);
  }
  uint64_t now() const {
    uint64_t count = 0;
    return counter_ >= 0 && read(counter_, &count, sizeof(count)) == sizeof(count) ? count : 0;
  }

 private:
  int counter_;
};

struct Block {
  double ns_per_op, instructions_per_op, yardstick_us;
};

// How long a fixed piece of work takes at this moment, full of branches and first-level cache hits
// like a launch: a virtual machine's core is a third slower while its neighbour computes.
double YardstickUs() {
  static std::vector<uint32_t> numbers(4096);
  uint32_t state = 1;
  for (uint32_t& number : numbers) number = state = state * 1664525 + 1013904223;
  const auto begin = Clock::now();
  std::sort(numbers.begin(), numbers.end());
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

Block Measure(const std::string& mode, const Lane& lane, int ops, const Instructions& counter) {
  const double yardstick_us = YardstickUs();
  const uint64_t before = counter.now();
  const double seconds = Submit(mode, lane, ops);
  const double instructions = static_cast<double>(counter.now() - before) / ops;
  return {seconds * 1e9 / ops, instructions, (yardstick_us + YardstickUs()) / 2};
}

struct Variant {
  std::string name, kinds;
  std::vector<Block> blocks;
};

std::vector<Variant> Variants(int count, char** texts) {
  std::vector<Variant> variants;
  for (int i = 0; i < count; ++i) {
    const std::string text = texts[i];
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "micro: %s: no NAME=KINDS\n", texts[i]);
      std::exit(2);
    }
    variants.push_back({text.substr(0, equals), text.substr(equals + 1), {}});
  }
  return variants;
}

void Switch(const Variant& variant) {
  if (variant.kinds == "-") return;
  // The driver has opened it, privately: the same file once more gives the same library.
  static void* const floor = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_LAZY | RTLD_NOLOAD);
  static const auto set = reinterpret_cast<int (*)(const char*)>(
      floor == nullptr ? nullptr : dlsym(floor, "gpuprobe_floor_set"));
  if (set == nullptr || set(variant.kinds.c_str()) != 0) {
    std::fprintf(stderr, "micro: %s: not set\n", variant.name.c_str());
    std::exit(1);
  }
}

// CPU time of each thread of the process until now: CUPTI and the driver have some of their own.
void PrintThreads() {
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* task = tasks == nullptr ? nullptr : readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    const std::string base = std::string("/proc/self/task/") + task->d_name;
    char name[32] = "?";
    double run_ns = 0, wait_ns = 0;
    long long switches = 0;
    if (FILE* file = std::fopen((base + "/comm").c_str(), "r")) {
      if (std::fscanf(file, "%31s", name) != 1) name[0] = '?';
      std::fclose(file);
    }
    if (FILE* file = std::fopen((base + "/schedstat").c_str(), "r")) {
      if (std::fscanf(file, "%lf %lf %lld", &run_ns, &wait_ns, &switches) != 3) switches = -1;
      std::fclose(file);
    }
    std::printf("thread %s %s cpu_s %.3f waited_s %.3f turns %lld\n", task->d_name, name,
                run_ns / 1e9, wait_ns / 1e9, switches);
  }
  if (tasks != nullptr) closedir(tasks);
}

void Print(const std::vector<Variant>& variants) {
  for (const Variant& variant : variants) {
    std::printf("variant %s", variant.name.c_str());
    for (const Block& block : variant.blocks) std::printf(" %.0f", block.ns_per_op);
    std::printf("\ninstructions %s", variant.name.c_str());
    for (const Block& block : variant.blocks) std::printf(" %.0f", block.instructions_per_op);
    std::printf("\nyardstick_us %s", variant.name.c_str());
    for (const Block& block : variant.blocks) std::printf(" %.1f", block.yardstick_us);
    std::printf("\n");
  }
}

// Seconds of the slowest thread.
double SubmitOnAll(const std::string& mode, const std::vector<Lane>& lanes, int ops) {
  if (lanes.size() == 1) return Submit(mode, lanes[0], ops);
  std::vector<double> seconds(lanes.size());
  std::vector<std::thread> workers;
  for (size_t t = 0; t < lanes.size(); ++t) {
    workers.emplace_back([&, t] { seconds[t] = Submit(mode, lanes[t], ops); });
  }
  for (std::thread& worker : workers) worker.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

long RssKib() {
  long size = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

double MonotonicSeconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void PrintNumbers(FILE* to, const char* name, const std::vector<double>& numbers) {
  std::fprintf(to, "\"%s\": [", name);
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::fprintf(to, "%s%.1f", i == 0 ? "" : ", ", numbers[i]);
  }
  std::fprintf(to, "], ");
}

int Serve(const std::string& mode, const std::vector<Lane>& lanes, const std::string& folder,
          long long done_ops) {
  FILE* const go = std::fopen((folder + "/go").c_str(), "r");
  FILE* const done = std::fopen((folder + "/done").c_str(), "w");
  if (go == nullptr || done == nullptr) return 1;
  std::fprintf(done, "{\"pid\": %d}\n", static_cast<int>(getpid()));
  std::fflush(done);
  int ops = 0, count = 0;
  while (std::fscanf(go, " block %d %d", &ops, &count) == 2) {
    std::vector<double> figures, yardsticks;
    const int warm_up = ops / 4 + 1;
    SubmitOnAll(mode, lanes, warm_up);
    for (int i = 0; i < count; ++i) {
      const double before_us = YardstickUs();
      figures.push_back(SubmitOnAll(mode, lanes, ops) * 1e9 / ops);
      yardsticks.push_back((before_us + YardstickUs()) / 2);
    }
    done_ops +=
        static_cast<long long>(lanes.size()) * (warm_up + static_cast<long long>(count) * ops);
    std::fprintf(done, "{");
    PrintNumbers(done, "figures", figures);
    PrintNumbers(done, "yardsticks", yardsticks);
    std::fprintf(done, "\"ops\": %lld, \"cpu_s\": %.6f, \"rss_kib\": %ld}\n", done_ops,
                 CpuSeconds(), RssKib());
    std::fflush(done);
  }
  std::fprintf(done, "{\"ops\": %lld, \"end_at\": %.6f}\n", done_ops, MonotonicSeconds());
  std::fclose(done);
  std::fclose(go);
  return 0;
}

int GoThrough(const std::string& mode, Lane lane, int blocks, int ops, bool phases,
              std::vector<Variant> variants) {
  const Instructions counter;
  const size_t turns = variants.size() * blocks;
  for (size_t turn = 0; turn < turns; ++turn) {
    Variant& variant = variants[phases ? turn / blocks : turn % variants.size()];
    if (!phases || turn % blocks == 0) {
      if (variant.kinds == "finalize") PrintThreads();  // CUPTI's own end there
      Switch(variant);
      if (variant.kinds.find("anew") != std::string::npos) lane = MakeLane(mode);
      Submit(mode, lane, ops / 4 + 1);
    }
    variant.blocks.push_back(Measure(mode, lane, ops, counter));
  }
  PrintThreads();
  Print(variants);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(
        stderr,
        "usage: micro launch|sync|copy|graph THREADS BLOCKS OPS [[--phases] NAME=KINDS ...]\n"
        "       micro launch|sync|copy|graph THREADS --serve FOLDER OPS\n");
    return 2;
  }
  const std::string mode = argv[1];
  const bool serve = std::strcmp(argv[3], "--serve") == 0;
  const int threads = std::atoi(argv[2]), blocks = serve ? 0 : std::atoi(argv[3]);
  const int ops = std::atoi(argv[serve && argc > 5 ? 5 : 4]);
  Check(cudaFree(nullptr), "start");
  std::vector<Lane> lanes;
  for (int t = 0; t < threads; ++t) lanes.push_back(MakeLane(mode));
  for (const Lane& lane : lanes) Submit(mode, lane, ops / 4 + 1);  // first use of everything
  if (serve) {
    return Serve(mode, lanes, argv[4], static_cast<long long>(threads) * (ops / 4 + 1));
  }
  if (argc > 5) {
    const bool phases = std::strcmp(argv[5], "--phases") == 0;
    return GoThrough(mode, lanes[0], blocks, ops, phases,
                     Variants(argc - 5 - phases, argv + 5 + phases));
  }
  std::printf("ns_per_op");
  const Instructions counter;
  std::vector<Block> measured;
  for (int b = 0; b < blocks; ++b) {
    if (threads == 1) {
      measured.push_back(Measure(mode, lanes[0], ops, counter));
    } else {
      const double yardstick_us = YardstickUs();
      const double ns_per_op = SubmitOnAll(mode, lanes, ops) * 1e9 / ops;
      measured.push_back({ns_per_op, 0, (yardstick_us + YardstickUs()) / 2});
    }
    std::printf(" %.0f", measured.back().ns_per_op);
  }
  std::printf("\ninstructions_per_op");
  for (const Block& block : measured) std::printf(" %.0f", block.instructions_per_op);
  std::printf("\nyardstick_us");
  for (const Block& block : measured) std::printf(" %.1f", block.yardstick_us);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("\nrss_kib %ld\ncpu_s %.3f\n", usage.ru_maxrss, CpuSeconds());
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does the host sampler cost, and which part of it? Processes of 100 threads at 100 Hz: a
// native one, two of whose threads call CUDA (asleep, waking up a thousand times a second, or
// spinning); one with 16 child processes; and a Python one that is asleep, that launches small
// work without pause from 20 frames deep, or that waits for input and then launches. Each with more
// and more of what the sampler looks at. Counts do not depend on the machine, times do: above them
// stands what a bare timer of 100 Hz takes there, and below each the median tick, split into waking
// up, system calls (how many of each kind, and what one takes on average) and the rest. The first
// two seconds are left out: finding the interpreter and reading the maps happens once.
//
// Runs from any folder that has this program and libbench_host_sampler_measure.so.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_util.h"
#include "bench/host_sampler_measure.h"

namespace gpuprobe::bench {
namespace {

enum class Cuda : uint8_t { kAsleep, kWaking, kSpinning };

std::atomic<bool> g_end{false};

// Arguments: the library with MeasureSampler, seconds, the host's name: what the main thread does.
constexpr char kPythonHost[] = R"py(
import ctypes, math, queue, sys, threading, time
lib, seconds, what = ctypes.CDLL(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
lib.MeasureSampler.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_int]
def launch(data):
    x = 0
    for i in range(5):
        x += math.comb(120 + i, 60) & 1
        data.sort()
    return x
for i in range(18):
    exec(f"def layer{i}(data):\n    a = {'launch' if i == 0 else f'layer{i - 1}'}(data)\n    return a + math.comb(80, 40) % 2")
for _ in range(98):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def measure():
    tids = (ctypes.c_uint32 * 1)(threading.main_thread().native_id)
    for sampled in range(4):
        lib.MeasureSampler(what.encode(), sampled, seconds, tids, 1)
watch = threading.Thread(target=measure)
watch.start()
data = list(range(200))
while watch.is_alive():
    if what == "python, asleep":
        time.sleep(0.5)
    if what == "python, waits":
        time.sleep(0.3)
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            layer17(data)
    if what == "python, launching":
        layer17(data)
)py";

void IdleThread() {
  while (!g_end.load()) usleep(500'000);
}

void CudaThread(std::atomic<uint32_t>* tid, Cuda what) {
  tid->store(static_cast<uint32_t>(syscall(SYS_gettid)));
  while (!g_end.load(std::memory_order_relaxed)) {
    if (what == Cuda::kAsleep) usleep(500'000);
    if (what == Cuda::kWaking) usleep(1000);
  }
}

std::vector<pid_t> StartChildren(int count) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) usleep(2000);
    }
    children.push_back(pid);
  }
  return children;
}

// What any thread pays that wakes up a hundred times a second, whatever it does then.
void MeasureBareTimer(double seconds) {
  timespec next, used = {};
  std::vector<float> each_us;
  const int wakes = static_cast<int>(seconds * 100);
  std::thread([&] {
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int i = 0; i < wakes; ++i) {
      next.tv_nsec += 10'000'000;
      if (next.tv_nsec >= 1'000'000'000) {
        next.tv_nsec -= 1'000'000'000;
        ++next.tv_sec;
      }
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
      const timespec before = used;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      each_us.push_back(static_cast<float>((used.tv_sec - before.tv_sec) * 1'000'000'000 +
                                           used.tv_nsec - before.tv_nsec) /
                        1e3f);
    }
  }).join();
  const double cpu_us =
      static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
  std::printf("%-22s %-17s %6.1f %7.1f %8.1f %7.3f\n", "a bare timer", "", 100.0, 1.0,
              cpu_us / wakes, cpu_us / seconds / 1e4);
  std::nth_element(each_us.begin(), each_us.begin() + wakes / 2, each_us.end());
  std::printf("    median %5.1f us\n",
              static_cast<double>(each_us[static_cast<size_t>(wakes / 2)]));
}

void MeasureNative(const char* name, Cuda what, int child_count, double seconds) {
  const std::vector<pid_t> children = StartChildren(child_count);
  g_end.store(false);
  std::atomic<uint32_t> tids[2] = {};
  std::vector<std::thread> threads;
  for (auto& tid : tids) threads.emplace_back(CudaThread, &tid, what);
  for (int i = 0; i < 98; ++i) threads.emplace_back(IdleThread);
  uint32_t known[2];
  for (int i = 0; i < 2; ++i) {
    while ((known[i] = tids[i].load()) == 0) usleep(1000);
  }
  // Not on the main thread, which is looked at.
  std::thread([&] {
    if (child_count == 0) {
      MeasureSampler(name, kBenchThreads, seconds, known, 2);
      MeasureSampler(name, kBenchNative, seconds, known, 2);
    }
    MeasureSampler(name, kBenchAll, seconds, known, 2);
  }).join();
  g_end.store(true);
  for (std::thread& t : threads) t.join();
  for (const pid_t pid : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

void MeasurePython(const char* what, double seconds) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&MeasureSampler), &self) == 0) return;
  const std::string time = std::to_string(seconds);
  const pid_t pid = fork();
  if (pid == 0) {
    execlp("python3", "python3", "-c", kPythonHost, self.dli_fname, time.c_str(), what, nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) std::printf("%s: no python3 on the PATH, or it failed\n", what);
}

}  // namespace
}  // namespace gpuprobe::bench

int main(int argc, char** argv) {
  using namespace gpuprobe::bench;  // NOLINT: a benchmark's main
  double seconds = 3;
  const std::string only = argc > 2 ? argv[2] : "";  // hosts whose names have this in them
  const auto wanted = [&only](const char* name) {
    return std::string(name).find(only) != std::string::npos;
  };
  if (argc > 1) seconds = std::strcmp(argv[1], "--smoke") == 0 ? 0.1 : std::atof(argv[1]);
  PrintMachine();
  std::printf("%-22s %-17s %6s %7s %8s %7s %9s %8s\n", "host", "looked at", "ticks", "calls",
              "us CPU", "% of a", "unchanged", "bytes");
  std::printf("%-22s %-17s %6s %7s %8s %7s %9s %8s\n", "", "", "a sec.", "a tick", "a tick", "core",
              "% of looks", "a sec.");
  MeasureBareTimer(seconds);
  constexpr struct {
    const char* name;
    Cuda what;
    int children;
  } kNative[] = {{"native, asleep", Cuda::kAsleep, 0},
                 {"native, waking", Cuda::kWaking, 0},
                 {"native, spinning", Cuda::kSpinning, 0},
                 {"native, 16 children", Cuda::kWaking, 16}};
  for (const auto& host : kNative) {
    if (wanted(host.name)) MeasureNative(host.name, host.what, host.children, seconds);
  }
  std::fflush(stdout);
  for (const char* what : {"python, asleep", "python, waits", "python, launching"}) {
    if (wanted(what)) MeasurePython(what, seconds);
  }
  return 0;
}

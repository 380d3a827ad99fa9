// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What every benchmark here needs: the machine's name in front of the numbers, and numbers from
// interleaved rounds. Contenders take turns within a round, so that a slow phase of the machine
// hits all of them; the best round is the cost, the median tells how noisy the machine was.
#ifndef GPUPROBE_BENCH_BENCH_UTIL_H_
#define GPUPROBE_BENCH_BENCH_UTIL_H_

#include <sched.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace gpuprobe::bench {

inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// Processor time of all threads of this process.
inline int64_t CpuNs() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// Processors that this process may use.
inline int Cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

inline void PrintMachine() {
  std::string model = "unknown CPU", line;
  std::ifstream cpuinfo("/proc/cpuinfo");
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  utsname kernel = {};
  uname(&kernel);
  std::printf("machine: %s, %d cores, Linux %s, load %.2f at start, compiler %s\n", model.c_str(),
              Cores(), kernel.release, load, __VERSION__);
}

// Keeps the compiler from dropping a computation or moving it across.
template <typename T>
inline void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

struct Contender {
  std::string name;
  std::function<double()> round;  // one round: ns per operation
  std::vector<double> results = {};

  double best() const { return *std::min_element(results.begin(), results.end()); }
  double median() const {
    std::vector<double> sorted = results;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// Runs `rounds` interleaved rounds and prints a line for each contender, with ratios to the first.
inline void Compare(const char* title, std::vector<Contender>& contenders, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    for (Contender& contender : contenders) contender.results.push_back(contender.round());
  }
  std::printf("\n%-58s %9s %9s %9s\n", title, "best ns", "median", "ratio");
  for (const Contender& contender : contenders) {
    std::printf("  %-56s %9.2f %9.2f %8.2fx\n", contender.name.c_str(), contender.best(),
                contender.median(), contender.best() / contenders.front().best());
  }
}

}  // namespace gpuprobe::bench

#endif  // GPUPROBE_BENCH_BENCH_UTIL_H_

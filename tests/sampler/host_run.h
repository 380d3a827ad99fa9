// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A HostSampler on the test's own process: started, read back through libprotobuf while it runs,
// and stopped.
#ifndef GPUPROBE_TESTS_SAMPLER_HOST_RUN_H_
#define GPUPROBE_TESTS_SAMPLER_HOST_RUN_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/gpuprobe.pb.h"
#include "proto/sample_columns.h"
#include "sampler/host_sampler.h"

namespace gpuprobe::sampler {

inline uint32_t Tid() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

struct SeenSample {
  int64_t time_ns;
  uint64_t interval_ns, cpu_ns, runnable_ns;
  uint32_t state, flags;
  int32_t syscall;  // -1: none
  std::string target;
  std::vector<std::string> stack;  // innermost first: "file" and, of Python, "file:line function"
};

struct SeenThread {
  std::string name;
  bool main = false;
  std::vector<SeenSample> samples;

  uint64_t Sum(uint64_t SeenSample::*field) const {
    uint64_t sum = 0;
    for (const SeenSample& s : samples) sum += s.*field;
    return sum;
  }
  template <typename Predicate>
  size_t Count(Predicate predicate) const {
    size_t n = 0;
    for (const SeenSample& s : samples) n += predicate(s) ? 1 : 0;
    return n;
  }
};

class HostRun {
 public:
  explicit HostRun(SamplerOptions options = {}) {
    options.seal_period_ms = 50;
    bytes_ = HostSampler::MemoryBytes(options);
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_TRUE(sampler_.Init(options, memory_));
    thread_ = std::thread([this] { sampler_.Run(); });
  }
  ~HostRun() {
    Stop();
    munmap(memory_, bytes_);
  }

  HostSampler& sampler() { return sampler_; }
  size_t memory_bytes() const { return bytes_; }

  void Stop() {
    if (!thread_.joinable()) return;
    sampler_.Stop();
    thread_.join();
    EXPECT_TRUE(sampler_.stopped());
    Collect();
  }

  // Takes what is sealed.
  void Collect() {
    const uint8_t* data;
    size_t bytes;
    while (sampler_.TakeSealed(&data, &bytes)) {
      HostSamples message;
      ASSERT_TRUE(message.ParseFromArray(data, static_cast<int>(bytes)));
      sampler_.Release();
      Unpack(message);
      last_ = message;
      ++pieces_;
    }
  }

  // Until `condition` holds over what was collected. False: it never came.
  template <typename Condition>
  bool Until(Condition condition) {
    for (int i = 0; i < 3000; ++i) {
      Collect();
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool UntilSamples(uint32_t tid, size_t count) {
    return Until([&] { return thread(tid).samples.size() >= count; });
  }

  SeenThread& thread(uint32_t tid) { return threads_[{static_cast<uint32_t>(getpid()), tid}]; }
  SeenThread& thread(uint32_t pid, uint32_t tid) { return threads_[{pid, tid}]; }
  bool Knows(uint32_t tid) const {
    return threads_.count({static_cast<uint32_t>(getpid()), tid}) != 0;
  }
  // Of every process its facts as they were last written.
  const std::map<uint32_t, gpuprobe::SampledProcess>& processes() const { return processes_; }
  bool KnowsProcess(uint32_t pid) const { return processes_.count(pid) != 0; }
  const HostSamples& last() const { return last_; }
  // Of every module named in a piece: its build ids. A module has one in every piece that has a
  // location in it, once, or in none.
  const std::map<std::string, std::set<std::string>>& modules() const { return modules_; }
  size_t pieces() const { return pieces_; }

 private:
  static std::vector<std::string> Stack(const HostSamples& m, const proto::SampleTables& tables,
                                        uint32_t node) {
    const auto text = [&m](uint32_t id) {
      return id == 0 ? std::string() : m.strings(static_cast<int>(id - 1));
    };
    std::vector<std::string> stack;
    for (; node != 0; node = tables.nodes[node - 1].parent) {
      const auto& location = tables.locations[tables.nodes[node - 1].location - 1];
      std::string frame = text(location.file);
      if (!location.native) {
        frame += ":" + std::to_string(location.line) + " " + text(location.function);
      }
      stack.push_back(frame);
    }
    return stack;
  }

  void UnpackModules(const HostSamples& m, const proto::SampleTables& tables) {
    std::map<uint32_t, std::set<std::string>> ids;
    for (const auto& module : m.modules()) {
      const std::string& path = m.strings(static_cast<int>(module.file() - 1));
      EXPECT_TRUE(ids[module.file()].insert(module.build_id()).second) << path;
      modules_[path].insert(module.build_id());
    }
    for (const auto& location : tables.locations) {
      if (!location.native) continue;
      const std::string& path = m.strings(static_cast<int>(location.file - 1));
      EXPECT_EQ(ids.count(location.file), modules_.count(path)) << path;
    }
  }

  void Unpack(const HostSamples& m) {
    for (const auto& p : m.processes()) processes_[p.pid()] = p;
    proto::SampleTables tables;
    proto::Decode(m, &tables);
    EXPECT_EQ(tables.clipped + tables.invalid_ids, 0u);
    UnpackModules(m, tables);
    for (const ThreadSamples& t : m.threads()) {
      SeenThread& seen = threads_[{t.pid(), t.tid()}];
      seen.name = t.name();
      seen.main = t.main();
      proto::SampleColumns c;
      proto::Decode(t, m, tables, &c);
      EXPECT_EQ(c.clipped + c.invalid_ids + c.invalid_times, 0u);
      for (size_t i = 0; i < c.count; ++i) {
        seen.samples.push_back(
            {c.time_ns[i], static_cast<uint64_t>(c.interval_ns[i]),
             static_cast<uint64_t>(c.cpu_ns[i]), static_cast<uint64_t>(c.runnable_ns[i]),
             c.state[i], c.flags[i], c.syscall[i],
             c.wait_target[i] == 0 ? "" : m.strings(static_cast<int>(c.wait_target[i] - 1)),
             Stack(m, tables, c.stack[i])});
      }
    }
  }

  HostSampler sampler_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  std::thread thread_;
  std::map<std::pair<uint32_t, uint32_t>, SeenThread> threads_;
  std::map<uint32_t, gpuprobe::SampledProcess> processes_;
  std::map<std::string, std::set<std::string>> modules_;
  HostSamples last_;
  size_t pieces_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_TESTS_SAMPLER_HOST_RUN_H_

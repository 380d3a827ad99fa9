// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Threads of this process whose doings are known.
#ifndef GPUPROBE_TESTS_SAMPLER_PLANTED_THREAD_H_
#define GPUPROBE_TESTS_SAMPLER_PLANTED_THREAD_H_

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "sampler/look/thread_look.h"
#include "tests/sampler/host_run.h"

namespace gpuprobe::sampler {

// A thread that does `body` until the test lets it go.
class Planted {
 public:
  explicit Planted(std::function<void(std::atomic<bool>*)> body, const char* name = "planted") {
    thread_ = std::thread([this, body, name] {
      pthread_setname_np(pthread_self(), name);
      tid_.store(Tid());
      body(&end_);
    });
    while (tid_.load() == 0) std::this_thread::yield();
  }
  ~Planted() { End(); }
  void End() {
    end_.store(true);
    if (wake_) wake_();
    if (thread_.joinable()) thread_.join();
  }
  void WakeBy(std::function<void()> wake) { wake_ = std::move(wake); }
  uint32_t tid() const { return tid_.load(); }

 private:
  std::atomic<uint32_t> tid_{0};
  std::atomic<bool> end_{false};
  std::function<void()> wake_;
  std::thread thread_;
};

inline void Spin(std::atomic<bool>* end) {
  while (!end->load(std::memory_order_relaxed)) {
  }
}

inline void Sleep(std::atomic<bool>* end) {
  while (!end->load()) usleep(200'000);
}

inline bool Unchanged(const SeenSample& s) { return (s.flags & kSampleUnchanged) != 0; }

struct Ends {
  int fds[2] = {-1, -1};
  ~Ends() {
    close(fds[0]);
    close(fds[1]);
  }
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_TESTS_SAMPLER_PLANTED_THREAD_H_

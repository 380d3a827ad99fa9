// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One thread beside the caller's, for pieces of work of some milliseconds that do not depend on
// each other.
#ifndef GPUPROBE_TOOLS_WINDOWED_SIDE_THREAD_H_
#define GPUPROBE_TOOLS_WINDOWED_SIDE_THREAD_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>

namespace gpuprobe::tools {

// How many CPUs this process may use: those of its affinity mask, not those of the machine.
size_t UsableCpus();

// Used by one thread.
class SideThread {
 public:
  // `wanted` false, or no thread to be had: the work is done by who waits for it. `name`: of the
  // thread, for `top` and `perf`; 15 characters at most.
  explicit SideThread(bool wanted, const char* name = "beside");
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Begins `work`; what was begun before has been waited for.
  void Begin(std::function<void()> work);
  // Returns when it is done; does it here if nobody has taken it up yet.
  void Wait();

 private:
  enum class State { kIdle, kWaiting, kRunning, kEnd };
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::function<void()> work_;
  std::thread thread_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_SIDE_THREAD_H_

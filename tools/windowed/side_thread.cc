// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/side_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gpuprobe::tools {

size_t UsableCpus() {
  cpu_set_t cpus;
  // Fails on a machine with more CPUs than it holds: 1,024.
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
    return std::max<size_t>(std::thread::hardware_concurrency(), 1);
  return static_cast<size_t>(std::max(CPU_COUNT(&cpus), 1));
}

SideThread::SideThread(bool wanted, const char* name) {
  if (!wanted) return;
  try {
    thread_ = std::thread(&SideThread::Run, this);
    pthread_setname_np(thread_.native_handle(), name);
  } catch (const std::system_error&) {
    // No thread to be had.
  }
}

SideThread::~SideThread() {
  Wait();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnd;
  }
  changed_.notify_all();
  thread_.join();
}

void SideThread::Begin(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    state_ = State::kWaiting;
  }
  if (thread_.joinable()) changed_.notify_all();
}

void SideThread::Wait() {
  std::unique_lock lock(mutex_);
  if (state_ == State::kWaiting) {
    state_ = State::kIdle;
    lock.unlock();
    return work_();
  }
  changed_.wait(lock, [this] { return state_ == State::kIdle; });
}

void SideThread::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return state_ == State::kWaiting || state_ == State::kEnd; });
    if (state_ == State::kEnd) return;
    state_ = State::kRunning;
    lock.unlock();
    work_();
    lock.lock();
    state_ = State::kIdle;
    changed_.notify_all();
  }
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/frame_prefetcher.h"

#include <pthread.h>

#include <system_error>

namespace gpuprobe::tools {
namespace {

// Of compressed trace: less than a millisecond of work, and starting a thread is a tenth of it.
constexpr uint64_t kWorthAThreadBytes = 32u << 10;

}  // namespace

FramePrefetcher::FramePrefetcher(proto::TraceReader* reader) : reader_(reader) {
  if (reader->file_bytes() < kWorthAThreadBytes) return;
  try {
    thread_ = std::thread(&FramePrefetcher::ReadAll, this);
    pthread_setname_np(thread_.native_handle(), "frames");
  } catch (const std::system_error&) {
    // No thread to be had.
  }
}

FramePrefetcher::~FramePrefetcher() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FramePrefetcher::ReadAll() {
  for (size_t i = 0;; ++i) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || i < released_ + frames_.size(); });
      if (stop_) return;
    }
    const bool good = reader_->Next(&frames_[i % frames_.size()]);
    {
      const std::lock_guard lock(mutex_);
      if (good) {
        ++read_;
      } else {
        ended_ = true;
      }
    }
    changed_.notify_all();
    if (!good) return;
  }
}

proto::Frame* FramePrefetcher::Next() {
  if (!thread_.joinable()) return reader_->Next(&frames_[0]) ? &frames_[0] : nullptr;
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return taken_ < read_ || ended_; });
  if (taken_ == read_) return nullptr;
  return &frames_[taken_++ % frames_.size()];
}

}  // namespace gpuprobe::tools

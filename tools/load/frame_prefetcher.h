// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads a trace one frame ahead, on a thread of its own: decompressing and parsing takes about as
// long as what is done with a frame. At most two frames are in memory.
#ifndef GPUPROBE_TOOLS_LOAD_FRAME_PREFETCHER_H_
#define GPUPROBE_TOOLS_LOAD_FRAME_PREFETCHER_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "proto/trace_reader.h"

namespace gpuprobe::tools {

// Used by one thread. The reader is the prefetcher's until Next has returned nullptr or the
// prefetcher is gone; it must outlive it.
class FramePrefetcher {
 public:
  // Small files, and where no thread can be had: frames are read when they are asked for.
  explicit FramePrefetcher(proto::TraceReader* reader);
  ~FramePrefetcher();
  FramePrefetcher(const FramePrefetcher&) = delete;
  FramePrefetcher& operator=(const FramePrefetcher&) = delete;

  // The next frame, valid until the next call; nullptr at the end.
  proto::Frame* Next();

 private:
  void ReadAll();

  proto::TraceReader* reader_;
  std::array<proto::Frame, 2> frames_;  // frame i of the file is in i % 2
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; the frames themselves belong to the side that these numbers say.
  size_t read_ = 0;      // frames that have been read
  size_t released_ = 0;  // frames whose place may be used again
  bool ended_ = false;   // nothing more will be read
  bool stop_ = false;    // nobody wants more

  size_t taken_ = 0;  // frames that Next has returned
  std::thread thread_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_FRAME_PREFETCHER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The readers of Python stacks: one for this process, the others lent to children in turn, because
// each takes a megabyte and there may be more children than readers.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_WATCHED_READER_POOL_H_
#define GPUPROBE_SAMPLER_WATCHED_READER_POOL_H_

#include <cstddef>
#include <cstdint>

#include "sampler/look/sampled_process.h"
#include "sampler/python/python_reader.h"
#include "sampler/watched/children.h"

namespace gpuprobe::sampler {

class ReaderPool {
 public:
  constexpr ReaderPool() = default;
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  static constexpr size_t kMaxReaders = 32;
  // Each needs PythonReader::MemoryBytes(), zeroed, owned by the caller, kept for ever. The first
  // is `self`'s for good.
  void Add(void* memory, SampledProcess* self);

  // A free reader, or that of a child that sleeps or has had its turn. False: none.
  bool Lend(ChildProcess* child, int64_t now_ns);
  void TakeBack(SampledProcess* process);

 private:
  PythonReader readers_[kMaxReaders];
  SampledProcess* lent_to_[kMaxReaders] = {};
  int64_t lent_ns_[kMaxReaders] = {};
  size_t count_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_WATCHED_READER_POOL_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/watched/reader_pool.h"

namespace gpuprobe::sampler {
namespace {

// A reader goes to another child after this time, or when its own has slept for this long: finding
// the interpreter anew takes about a millisecond.
constexpr int64_t kTurnNs = 3'000'000'000, kIdleNs = 500'000'000;

}  // namespace

void ReaderPool::Add(void* memory, SampledProcess* self) {
  PythonReader& reader = readers_[count_];
  reader.Init(memory);
  if (count_++ != 0) return;
  self->python = &reader;
  lent_to_[0] = self;
}

bool ReaderPool::Lend(ChildProcess* child, int64_t now_ns) {
  size_t best = 0;
  for (size_t i = 1; i < count_; ++i) {
    if (lent_to_[i] == nullptr) {
      best = i;
      break;
    }
    const ChildProcess* owner = Children::OwnerOf(lent_to_[i]);
    if (now_ns - owner->last_change_ns > kIdleNs || now_ns - lent_ns_[i] > kTurnNs) best = i;
  }
  if (best == 0) return false;
  if (lent_to_[best] != nullptr) TakeBack(lent_to_[best]);
  lent_to_[best] = &child->process;
  lent_ns_[best] = now_ns;
  child->process.python = &readers_[best];
  child->process.next_attach_ns = now_ns;
  return true;
}

void ReaderPool::TakeBack(SampledProcess* process) {
  for (size_t i = 0; i < count_; ++i) {
    if (lent_to_[i] == process) lent_to_[i] = nullptr;
  }
  process->python = nullptr;
  process->next_attach_ns = 0;
}

}  // namespace gpuprobe::sampler

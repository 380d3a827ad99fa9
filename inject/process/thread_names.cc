// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process/thread_names.h"

#include <cstdio>
#include <cstring>

#include "inject/process/process_facts.h"

namespace gpuprobe::inject {
namespace {

// Field numbers of gpuprobe.proto.
constexpr uint32_t kPacketThread = 22;
constexpr uint32_t kThreadTid = 1, kThreadName = 2, kThreadMain = 3;

}  // namespace

void ThreadNames::Add(uint32_t tid) {
  last_ = tid;
  if (tid == 0) return;
  size_t i = (tid * 2654435761u) & (kCapacity - 1);
  while (entries_[i].tid != 0) {
    if (entries_[i].tid == tid) return;
    i = (i + 1) & (kCapacity - 1);
  }
  if (used_ >= kCapacity / 4 * 3) return;
  Entry& entry = entries_[i];
  entry.tid = tid;
  ++used_;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
  const size_t n = ReadSmallFile(path, entry.name, sizeof entry.name);
  if (n > 0 && entry.name[n - 1] == '\n') entry.name[n - 1] = '\0';
}

void ThreadNames::Write(bool all, uint32_t pid, proto::PacketBuilder* out) {
  for (Entry& entry : entries_) {
    if (entry.tid == 0 || (entry.written && !all)) continue;
    out->BeginPacket(kPacketThread);
    out->AddUint(kThreadTid, entry.tid);
    out->AddString(kThreadName, entry.name);
    out->AddUint(kThreadMain, entry.tid == pid ? 1 : 0);
    out->EndPacket();
    entry.written = true;
  }
}

}  // namespace gpuprobe::inject

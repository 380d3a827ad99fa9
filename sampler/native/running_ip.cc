// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/native/running_ip.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

// One page of control words, one of data: room for some forty readings.
constexpr size_t kPageBytes = 4096;
constexpr size_t kRingBytes = 2 * kPageBytes;
// The kernel puts markers such as PERF_CONTEXT_USER among the addresses.
constexpr uint64_t kFirstMarker = static_cast<uint64_t>(-4095);

// Copies out of the ring, which wraps.
void CopyOut(const uint8_t* data, uint64_t from, void* out, size_t size) {
  uint8_t* to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < size; ++i) to[i] = data[(from + i) % kPageBytes];
}

}  // namespace

int RunningIp::FreeSlot() const {
  int slot = 0;
  while (slot < kMaxThreads && slots_[slot].ring != nullptr) ++slot;
  return slot;
}

bool RunningIp::full() const { return FreeSlot() == kMaxThreads; }

int RunningIp::Open(uint32_t tid) {
  if (forbidden_ != 0) return -1;
  // A filter may answer a call that it does not know by killing the process, and service managers'
  // and containers' filters do not let this one through anyway.
  constexpr int kFilterMode = 2;
  if (prctl(PR_GET_SECCOMP) == kFilterMode) {
    forbidden_ = EPERM;
    return -1;
  }
  const int slot = FreeSlot();
  if (slot == kMaxThreads) return -1;
  struct perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.sample_period = period_ns_;
  attributes.sample_type = PERF_SAMPLE_CALLCHAIN;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.exclude_callchain_kernel = 1;
  attributes.sample_max_stack = kMaxAddresses;
  attributes.watermark = 1;  // and never reached: nobody waits
  attributes.wakeup_watermark = kPageBytes;
  const long fd = syscall(SYS_perf_event_open, &attributes, tid, /*cpu=*/-1, /*group=*/-1,
                          PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) {
    if (errno != ESRCH) forbidden_ = errno;
    return -1;
  }
  void* ring = RawMap(kRingBytes, static_cast<int>(fd));
  if (ring == MAP_FAILED) {
    forbidden_ = errno;  // RLIMIT_MEMLOCK: it holds for every further one
    RawClose(static_cast<int>(fd));
    return -1;
  }
  slots_[slot] = {ring, static_cast<int>(fd)};
  return slot;
}

void RunningIp::Close(int slot) {
  if (slot < 0 || slots_[slot].ring == nullptr) return;
  munmap(slots_[slot].ring, kRingBytes);
  RawClose(slots_[slot].fd);
  slots_[slot] = {};
}

bool RunningIp::Read(int slot, Chain* out) {
  auto* control = static_cast<struct perf_event_mmap_page*>(slots_[slot].ring);
  const uint8_t* data = static_cast<const uint8_t*>(slots_[slot].ring) + kPageBytes;
  // acquire: partner is the kernel's store after it has written the record.
  const uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = control->data_tail;  // ours
  uint64_t last = head;
  struct perf_event_header header;
  while (head - tail >= sizeof header) {
    CopyOut(data, tail, &header, sizeof header);
    if (header.size < sizeof header) break;
    if (header.type == PERF_RECORD_SAMPLE) last = tail;
    tail += header.size;
  }
  out->count = 0;
  if (last != head) {
    uint64_t count, address;
    CopyOut(data, last, &header, sizeof header);
    CopyOut(data, last + sizeof header, &count, sizeof count);
    const uint64_t most = (header.size - sizeof header - sizeof count) / sizeof address;
    for (uint64_t i = 0; i < count && i < most && out->count < kMaxAddresses; ++i) {
      CopyOut(data, last + sizeof header + (1 + i) * sizeof address, &address, sizeof address);
      if (address < kFirstMarker) out->addresses[out->count++] = address;
    }
  }
  // release: partner is the kernel, which writes over what has been read.
  __atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
  return out->count != 0;
}

}  // namespace gpuprobe::sampler

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/system/private_descriptors.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

#include "sampler/system/proc_files.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
constexpr unsigned kCloseRangeUnshare = 1u << 1;

// Closes what one look into the directory shows; false: there was nothing to close.
bool CloseListed() {
  char entries[4096];
  int64_t offset = 0;
  bool any = false;
  for (;;) {
    const size_t bytes =
        ReadProcDirectory("/proc/thread-self/fd", &offset, entries, sizeof entries);
    if (bytes == 0) return any;
    // The directory's own descriptor is listed, too, and closed by now: RawClose() says so.
    ForEachNumber(entries, bytes, [&](uint32_t fd) { any |= RawClose(static_cast<int>(fd)) == 0; });
  }
}

}  // namespace

bool TakePrivateDescriptors() {
  // One call, from Linux 5.9 on: the new table never holds a reference to anything of the host.
  // Container runtimes whose filter forbids unshare() let it pass.
  if (syscall(SYS_close_range, 0u, UINT_MAX, kCloseRangeUnshare) == 0) return true;
  if (syscall(SYS_unshare, CLONE_FILES) != 0) return false;
  if (syscall(SYS_close_range, 0u, UINT_MAX, 0u) == 0) return true;
  while (CloseListed()) {
  }
  return true;
}

}  // namespace gpuprobe::sampler

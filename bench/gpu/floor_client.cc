// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The floor that gpuprobe is measured against: a CUPTI client that asks for exactly the same
// activity kinds and call filters (the same ActivitySource), recycles its buffers and looks at
// nothing. No thread, no file. Used as CUDA_INJECTION64_PATH=libgpuprobe_floor.so.
//
// GPUPROBE_FLOOR_KINDS: "all" (default, what gpuprobe records by default) or "gpu" (kernels,
// copies, sets and synchronisation, no host calls).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>

#include "cupti/activity_source.h"
#include "cupti/cupti_api.h"

namespace {

// Same buffer size as gpuprobe's default, so that requests come equally often.
size_t buffer_bytes = 128 << 10;
constexpr size_t kPoolBytes = 256 << 20;

gpuprobe::cupti::CuptiApi api;
gpuprobe::cupti::ActivitySource source;
uint8_t* buffers;
std::atomic<uint32_t> next_buffer{0};

// Round robin without asking whether a buffer has come back: 256 MiB are more than CUPTI ever
// holds, and what is in them is of no interest.
void Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  // relaxed: only the number matters.
  const size_t count = kPoolBytes / buffer_bytes;
  *buffer = buffers + next_buffer.fetch_add(1, std::memory_order_relaxed) % count * buffer_bytes;
  *size = buffer_bytes;
  *max_records = 0;
}

void Completed(void*, uint32_t, uint8_t*, size_t, size_t) {}

void SetAttributes(const char* text) {
  while (text != nullptr && *text != 0) {
    char* end;
    const int32_t id = static_cast<int32_t>(strtol(text, &end, 0));
    if (*end != '=') return;
    // Every attribute is a size_t or a uint8_t; little-endian, so that one variable serves both.
    size_t value = strtoull(end + 1, &end, 0);
    size_t size = sizeof(value);
    int32_t result = api.ActivitySetAttribute(id, &size, &value);
    if (result != 0) {
      size = 1;
      result = api.ActivitySetAttribute(id, &size, &value);
    }
    if (result != 0) fprintf(stderr, "floor: attribute %d: result %d\n", id, result);
    text = *end == ',' ? end + 1 : nullptr;
  }
}

void EnableKinds(const char* text) {
  while (text != nullptr && *text != 0) {
    char* end;
    const int32_t kind = static_cast<int32_t>(strtol(text, &end, 0));
    const int32_t result = api.ActivityEnable(kind);
    if (result != 0) fprintf(stderr, "floor: kind %d: result %d\n", kind, result);
    text = *end == ',' ? end + 1 : nullptr;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static std::atomic<bool> started{false};
  // relaxed: who comes first does the work, the driver serialises cuInit.
  if (started.exchange(true, std::memory_order_relaxed)) return 1;
  const char* size_text = getenv("GPUPROBE_FLOOR_BUFFER_KB");
  if (size_text != nullptr) buffer_bytes = strtoull(size_text, nullptr, 10) << 10;
  void* memory =
      mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  buffers = static_cast<uint8_t*>(memory);
  char why[300];
  if (!gpuprobe::cupti::LoadCupti(&api, "", why, sizeof why)) return 1;
  SetAttributes(getenv("GPUPROBE_FLOOR_ATTRIBUTES"));
  gpuprobe::cupti::ActivityOptions options;
  options.zeroed_buffers = false;  // buffers are used again as they are
  options.all_api_calls = getenv("GPUPROBE_FLOOR_UNFILTERED") != nullptr;
  const char* kinds = getenv("GPUPROBE_FLOOR_KINDS");
  if (kinds != nullptr && kinds[0] >= '0' && kinds[0] <= '9') {
    if (api.ActivityRegisterCallbacks(&Requested, &Completed) == 0) EnableKinds(kinds);
    return 1;
  }
  if (kinds != nullptr && strcmp(kinds, "gpu") == 0) {
    options.runtime_api = options.driver_api = options.overhead = false;
  }
  static_cast<void>(source.Start(&api, options, &Requested, &Completed, why, sizeof why));
  return 1;
}

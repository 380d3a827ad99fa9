// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The floor that gpuprobe is measured against: a CUPTI client that asks for exactly the same
// activity kinds and call filters (the same ActivitySource), recycles its buffers and looks at
// nothing. No thread, no file. Used as CUDA_INJECTION64_PATH=libgpuprobe_floor.so.
//
// GPUPROBE_FLOOR_KINDS: "all" (default, what gpuprobe records by default), "gpu" (kernels, copies,
// sets and synchronisation, no host calls), "later" (nothing until gpuprobe_floor_set is called),
// or numbers of CUpti_ActivityKind.
//
// One process can go through many sets of kinds, so that what is compared lies milliseconds apart:
// gpuprobe_floor_set("1,2,10,5,4 filter") switches the kinds, with "filter" without the calls that
// gpuprobe leaves out, with "buffer=KIB" to buffers of that size from then on, with
// "attribute=ID=VALUE,..." to such CUPTI attributes; "" switches all off; "subscribe" also takes
// the subscriber slot and gives it back, "context" also disables the kinds for the current context
// (two ways in which CUPTI might be moved to let go); "finalize" lets CUPTI go (cuptiFinalize;
// nothing can be switched on after it). 0: done. Call it while no other thread is inside CUDA.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>

#include "cupti/activity_source.h"
#include "cupti/api_calls.h"
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

constexpr int32_t kDriverKind = 4, kRuntimeKind = 5, kMaxKind = 128;
bool on[kMaxKind];

int32_t EnableKinds(const char* text) {
  int32_t worst = 0;
  while (text != nullptr && *text >= '0' && *text <= '9') {
    char* end;
    const int32_t kind = static_cast<int32_t>(strtol(text, &end, 0));
    const int32_t result = api.ActivityEnable(kind);
    if (result != 0) fprintf(stderr, "floor: kind %d: result %d\n", kind, result);
    if (result == 0 && kind < kMaxKind) on[kind] = true;
    if (result != 0) worst = result;
    text = *end == ',' ? end + 1 : nullptr;
  }
  return worst;
}

// Enabling a kind switches all its calls on: so after it, each time.
void LeaveOutChatter(gpuprobe::ApiDomain domain, int32_t kind,
                     gpuprobe::cupti::Result (*enable)(uint32_t, uint8_t)) {
  if (!on[kind] || enable == nullptr) return;
  size_t count = 0;
  const gpuprobe::cupti::ApiCall* calls = gpuprobe::cupti::ApiCalls(domain, &count);
  for (size_t i = 0; i < count; ++i) {
    if (!calls[i].recorded) enable(calls[i].cbid, 0);
  }
}

// Only for the figures of a process that is about to end: threads inside CUPTI meanwhile crash.
int32_t Finalize() {
  const auto finalize = reinterpret_cast<int32_t (*)()>(dlsym(api.handle, "cuptiFinalize"));
  return finalize == nullptr ? -1 : finalize();
}

void TakeAndLeaveSlot() {
  void* subscriber = nullptr;
  const auto callback = +[](void*, int, uint32_t, const void*) {};
  int32_t result = api.Subscribe(&subscriber, reinterpret_cast<void*>(callback), nullptr);
  if (result == 0) result = api.Unsubscribe(subscriber);
  if (result != 0) fprintf(stderr, "floor: subscriber slot: result %d\n", result);
}

void DisableForContext() {
  void* context = nullptr;
  const auto current =
      reinterpret_cast<int32_t (*)(void**)>(dlsym(RTLD_DEFAULT, "cuCtxGetCurrent"));
  const auto disable = reinterpret_cast<int32_t (*)(void*, int32_t)>(
      dlsym(api.handle, "cuptiActivityDisableContext"));
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto get = current != nullptr || driver == nullptr
                       ? current
                       : reinterpret_cast<int32_t (*)(void**)>(dlsym(driver, "cuCtxGetCurrent"));
  if (get == nullptr || disable == nullptr || get(&context) != 0) return;
  for (const int32_t kind : {1, 2, 10, 22, 51}) {
    const int32_t result = disable(context, kind);
    if (result != 0) fprintf(stderr, "floor: kind %d of the context: result %d\n", kind, result);
  }
}

// A clock that costs as little as a clock can; it takes the place of CUPTI's own.
uint64_t TimeStampCounter() { return __builtin_ia32_rdtsc(); }

void UseTimeStampCounter() {
  const auto set = reinterpret_cast<int32_t (*)(uint64_t(*)())>(
      dlsym(api.handle, "cuptiActivityRegisterTimestampCallback"));
  const int32_t result = set == nullptr ? -1 : set(&TimeStampCounter);
  if (result != 0) fprintf(stderr, "floor: timestamp callback: result %d\n", result);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int gpuprobe_floor_set(const char* kinds) {
  static bool registered = false;
  if (api.handle == nullptr) return -1;
  if (strcmp(kinds, "finalize") == 0) return Finalize();
  if (*kinds == '+') return EnableKinds(kinds + 1);
  for (int32_t kind = 0; kind < kMaxKind; ++kind) {
    if (!on[kind]) continue;
    api.ActivityDisable(kind);
    on[kind] = false;
  }
  static_cast<void>(api.ActivityFlushAll(1));
  if (strcmp(kinds, "subscribe") == 0) TakeAndLeaveSlot();
  if (strcmp(kinds, "context") == 0) DisableForContext();
  if (*kinds < '0' || *kinds > '9') return 0;
  if (const char* kib = strstr(kinds, "buffer="))
    buffer_bytes = strtoull(kib + 7, nullptr, 10) << 10;
  if (const char* attributes = strstr(kinds, "attribute=")) SetAttributes(attributes + 10);
  if (!registered && api.ActivityRegisterCallbacks(&Requested, &Completed) != 0) return -1;
  registered = true;
  const int32_t result = EnableKinds(kinds);
  if (strstr(kinds, "filter") != nullptr) {
    LeaveOutChatter(gpuprobe::ApiDomain::kRuntime, kRuntimeKind, api.ActivityEnableRuntimeApi);
    LeaveOutChatter(gpuprobe::ApiDomain::kDriver, kDriverKind, api.ActivityEnableDriverApi);
  }
  return result;
}

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
  if (getenv("GPUPROBE_FLOOR_TSC") != nullptr) UseTimeStampCounter();
  gpuprobe::cupti::ActivityOptions options;
  options.zeroed_buffers = false;  // buffers are used again as they are
  options.all_api_calls = getenv("GPUPROBE_FLOOR_UNFILTERED") != nullptr;
  const char* kinds = getenv("GPUPROBE_FLOOR_KINDS");
  if (kinds != nullptr && strcmp(kinds, "later") == 0) return 1;
  if (kinds != nullptr && kinds[0] >= '0' && kinds[0] <= '9') {
    gpuprobe_floor_set(kinds);
    return 1;
  }
  if (kinds != nullptr && strcmp(kinds, "gpu") == 0) {
    options.runtime_api = options.driver_api = options.overhead = false;
  }
  static_cast<void>(source.Start(&api, options, &Requested, &Completed, why, sizeof why));
  return 1;
}

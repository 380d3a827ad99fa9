// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/contract/hosts/client.h"

#include <cupti.h>
#include <time.h>

#include <cstdlib>
#include <mutex>
#include <set>

namespace gpuprobe::contract {
namespace {

constexpr size_t kBufferBytes = 4 << 20;

// The kinds that Kineto enables, in its order.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_OVERHEAD,
};

std::mutex g_mutex;
std::set<uint8_t*>& HandedOut() {
  static auto* set = new std::set<uint8_t*>;  // process lifetime: buffers come back at exit
  return *set;
}
ClientCounts g_counts = {};
CUpti_SubscriberHandle g_subscriber = nullptr;

void Must(CUptiResult result) {
  if (result != CUPTI_SUCCESS) ++g_counts.failures;
}

void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
  const std::lock_guard<std::mutex> lock(g_mutex);
  HandedOut().insert(*buffer);
}

void Take(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      ++g_counts.kernels;
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      if (kernel->end == 0) ++g_counts.unfinished;
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      ++g_counts.runtime;
      break;
    case CUPTI_ACTIVITY_KIND_DRIVER:
      ++g_counts.driver;
      break;
    default:
      ++g_counts.others;
      break;
  }
}

void CUPTIAPI OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (HandedOut().erase(buffer) == 0) {
    ++g_counts.unknown_buffers;
    return;
  }
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) Take(record);
  free(buffer);
}

void CUPTIAPI OnCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// A clock of its own, as Kineto has it: not CUPTI's, and far away from it.
uint64_t CUPTIAPI OwnClock() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec) +
         5'000'000'000u;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void ContractClientBegin() {
  g_counts = {};
  if (g_subscriber == nullptr) Must(cuptiSubscribe(&g_subscriber, &OnCallback, nullptr));
  Must(cuptiActivityRegisterTimestampCallback(&OwnClock));
  Must(cuptiActivityRegisterCallbacks(&OnRequest, &OnComplete));
  for (CUpti_ActivityKind kind : kKinds) Must(cuptiActivityEnable(kind));
}

extern "C" __attribute__((visibility("default"))) ClientCounts ContractClientEnd() {
  for (CUpti_ActivityKind kind : kKinds) Must(cuptiActivityDisable(kind));
  Must(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  size_t size = sizeof(uint8_t);
  uint8_t off = 0;
  cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &off);
  const std::lock_guard<std::mutex> lock(g_mutex);
  return g_counts;
}

extern "C" __attribute__((visibility("default"))) void ContractClientFinalize() {
  Must(cuptiFinalize());
}

}  // namespace gpuprobe::contract

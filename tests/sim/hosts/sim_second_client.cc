// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// An application with a CUPTI client of its own, linked to libcupti: it makes the calls that
// torch.profiler makes, in the same order, one window after another, and tells what it got. Whoever
// else uses CUPTI in this process must leave its numbers as they are.
//
//   sim_second_client [--windows 3] [--kernels 200] [--between 50] [--ticks] [--no-subscribe]
//
// --between: launches outside the windows; --ticks: records in a clock of the application's own
// (about 2.1 ticks a nanosecond) instead of nanoseconds; --no-subscribe: the activity API alone.
// Prints
// {"subscribe":RESULT,"windows":[{"launched":..,"kernels":..,"other_kernels":..,"unfinished":..,
// "out_of_window":..,"unknown_buffers":..}]}: other_kernels are records of launches outside the
// window. Exit code 0: every window got exactly its kernels; 1: not.
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <time.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/gpusim.h"

namespace {

constexpr size_t kBufferBytes = 4 << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_OVERHEAD};

struct Kernel {
  std::string name;
  uint64_t start, end;
};

struct Client {
  std::mutex mu;
  std::set<uint8_t*> lent;
  std::vector<Kernel> kernels;
  long unknown_buffers = 0;
};

Client& Get() {
  static Client* client = new Client;  // buffers arrive after static destruction too
  return *client;
}

void Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
  std::lock_guard<std::mutex> lock(Get().mu);
  Get().lent.insert(*buffer);
}

void Completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Client& client = Get();
  std::lock_guard<std::mutex> lock(client.mu);
  if (client.lent.erase(buffer) == 0) {  // not ours: torch.profiler drops such a buffer
    ++client.unknown_buffers;
    return;
  }
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    client.kernels.push_back(
        {kernel->name != nullptr ? kernel->name : "", kernel->start, kernel->end});
  }
  free(buffer);
}

void OnCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

uint64_t Ticks() {
  return static_cast<uint64_t>(gpusim_now() - 1'500'000'000'000'000'000) * 21 / 10;
}

void Launch(const char* name, long count) {
  const void* kernel = gpusim_kernel(name);
  for (long i = 0; i < count; ++i) cudaLaunchKernel(kernel, dim3(1), dim3(32), nullptr, 0, nullptr);
  cudaDeviceSynchronize();
}

struct Options {
  long windows = 3, kernels = 200, between = 50;
  bool ticks = false, subscribe = true;
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    long* value = arg == "--windows"   ? &options->windows
                  : arg == "--kernels" ? &options->kernels
                  : arg == "--between" ? &options->between
                                       : nullptr;
    if (value != nullptr && i + 1 < argc) {
      *value = strtol(argv[++i], nullptr, 10);
    } else if (arg == "--ticks") {
      options->ticks = true;
    } else if (arg == "--no-subscribe") {
      options->subscribe = false;
    } else {
      return false;
    }
  }
  return true;
}

uint64_t Now(const Options& options) {
  return options.ticks ? Ticks() : static_cast<uint64_t>(gpusim_now());
}

// One profiler window; true if it got exactly its own kernels, all with sane times.
bool Window(const Options& options, long index) {
  Client& client = Get();
  {
    std::lock_guard<std::mutex> lock(client.mu);
    client.kernels.clear();
    client.unknown_buffers = 0;
  }
  if (options.ticks) cuptiActivityRegisterTimestampCallback(Ticks);
  cuptiActivityRegisterCallbacks(Requested, Completed);
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityEnable(kind);
  char name[48];
  snprintf(name, sizeof name, "window_%ld_kernel", index);
  const uint64_t begin = Now(options);
  Launch(name, options.kernels);
  const uint64_t end = Now(options);
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  uint8_t on = 1;
  size_t size = sizeof on;
  cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &on);

  std::lock_guard<std::mutex> lock(client.mu);
  long own = 0, other = 0, unfinished = 0, outside = 0;
  const uint64_t slack = (end - begin) / 100 + 1000;  // the conversion of times is a fit
  for (const Kernel& kernel : client.kernels) {
    if (kernel.name != name) {
      ++other;
      continue;
    }
    ++own;
    if (kernel.end == 0) {
      ++unfinished;
    } else if (kernel.start + slack < begin || kernel.end > end + slack ||
               kernel.end < kernel.start) {
      ++outside;
    }
  }
  printf(
      "%s{\"launched\":%ld,\"kernels\":%ld,\"other_kernels\":%ld,\"unfinished\":%ld,\"out_of_"
      "window\":%ld,"
      "\"unknown_buffers\":%ld}",
      index == 0 ? "" : ",", options.kernels, own, other, unfinished, outside,
      client.unknown_buffers);
  return own == options.kernels && unfinished == 0 && outside == 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    fprintf(stderr, "sim_second_client: unknown option; see the head of sim_second_client.cc\n");
    return 2;
  }
  Launch("before_all_windows", options.between);
  CUpti_SubscriberHandle subscriber = nullptr;
  const int subscribed = options.subscribe ? cuptiSubscribe(&subscriber, OnCallback, nullptr) : 0;
  printf("{\"subscribe\":%d,\"windows\":[", subscribed);
  bool good = subscribed == 0;
  for (long i = 0; i < options.windows; ++i) {
    good = Window(options, i) && good;
    Launch("between_windows", options.between);
  }
  printf("]}\n");
  return good ? 0 : 1;
}

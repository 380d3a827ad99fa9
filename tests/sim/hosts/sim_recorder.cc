// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A naive CUPTI client: preloaded (its constructor points CUDA_INJECTION64_PATH at itself) or
// opened by the driver, it enables activity kinds and writes every completed buffer as it comes to
// a recording (SIM_RECORDER_OUT.cuptibuf: u64 size, bytes; SIM_RECORDER_OUT.names: hexadecimal
// pointer, TAB, string). It makes the recordings in tests/testdata, on a real GPU as well, and
// proves the simulated GPU in tests. Nothing here is careful about the host: it writes and
// allocates inside CUPTI's callbacks.
//
//   SIM_RECORDER_OUT       stem of the output files; nothing happens without it
//   SIM_RECORDER_KINDS     activity kinds, default 10,1,2,22,38,5,4,8,9,17,36,37
//   SIM_RECORDER_OFF       runtime call ids to switch off again, default none
//   SIM_RECORDER_BYTES     size of a buffer, default 1048576
//   SIM_RECORDER_BUFFERS   how many buffers are handed out in all before requests are refused,
//   default 0: any SIM_RECORDER_ZEROED    1: promise zeroed buffers SIM_RECORDER_SYSTEM_THREADS  1:
//   Linux thread ids in API records SIM_RECORDER_LATENCY   1: latency timestamps SIM_RECORDER_FLUSH
//   at exit: forced (default), plain, none SIM_RECORDER_CALLBACKS 1: also subscribe to all driver
//   and runtime callbacks and count them SIM_RECORDER_LIBRARY   libcupti to open, default
//   libcupti.so.13
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Recorder {
  std::mutex mu;
  int fd = -1;
  size_t buffer_bytes = 1 << 20;
  long buffers_left = -1;  // -1: any number
  std::map<const void*, std::string> names;
  std::atomic<long> enters{0}, exits{0};
  CUptiResult (*flush)(uint32_t) = nullptr;
  CUptiResult (*next)(uint8_t*, size_t, CUpti_Activity**) = nullptr;
};

Recorder& Get() {
  static Recorder* recorder = new Recorder;  // buffers arrive after static destruction too
  return *recorder;
}

const char* Option(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

bool IsOn(const char* name) { return strcmp(Option(name, "0"), "1") == 0; }

template <class Fn>
void ForEachNumber(const char* list, Fn fn) {
  for (const char* at = list; *at != '\0';) {
    char* end;
    const unsigned long value = strtoul(at, &end, 10);
    if (end == at) return;
    fn(static_cast<uint32_t>(value));
    at = *end == ',' ? end + 1 : end;
  }
}

void WriteAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(fd, at, bytes);
    if (n <= 0) return;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

void Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  Recorder& r = Get();
  std::lock_guard<std::mutex> lock(r.mu);
  *max_records = 0;
  *size = r.buffer_bytes;
  *buffer = nullptr;
  if (r.buffers_left == 0) return;
  if (r.buffers_left > 0) --r.buffers_left;
  *buffer = static_cast<uint8_t*>(calloc(1, r.buffer_bytes));
}

// Pointers are good only now: names are looked up before the buffer goes to the file.
void CollectNames(uint8_t* buffer, size_t valid) {
  Recorder& r = Get();
  CUpti_Activity* record = nullptr;
  while (r.next(buffer, valid, &record) == CUPTI_SUCCESS) {
    const char* name = nullptr;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      name = reinterpret_cast<CUpti_ActivityKernel10*>(record)->name;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_DEVICE) {
      name = reinterpret_cast<CUpti_ActivityDevice5*>(record)->name;
    }
    if (name != nullptr) r.names.emplace(name, name);
  }
}

void Completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Recorder& r = Get();
  std::lock_guard<std::mutex> lock(r.mu);
  CollectNames(buffer, valid);
  const uint64_t bytes = valid;
  WriteAll(r.fd, &bytes, sizeof bytes);
  WriteAll(r.fd, buffer, valid);
  free(buffer);
}

void OnCallback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  (call->callbackSite == CUPTI_API_ENTER ? Get().enters : Get().exits).fetch_add(1);
}

void WriteNames() {
  Recorder& r = Get();
  FILE* out = fopen((std::string(getenv("SIM_RECORDER_OUT")) + ".names").c_str(), "we");
  if (out == nullptr) return;
  for (const auto& [pointer, name] : r.names) {
    fprintf(out, "%llx\t%s\n",
            static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer)), name.c_str());
  }
  fclose(out);
}

void AtExit() {
  Recorder& r = Get();
  const std::string how = Option("SIM_RECORDER_FLUSH", "forced");
  if (how == "forced") r.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (how == "plain") r.flush(0);
  std::lock_guard<std::mutex> lock(r.mu);
  WriteNames();
}

template <class Fn>
bool Resolve(void* library, Fn& fn, const char* name) {
  fn = reinterpret_cast<Fn>(dlsym(library, name));
  return fn != nullptr;
}

bool Start(void* library) {
  Recorder& r = Get();
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivitySetAttribute) set_attribute;
  if (!Resolve(library, enable, "cuptiActivityEnable") ||
      !Resolve(library, r.flush, "cuptiActivityFlushAll") ||
      !Resolve(library, r.next, "cuptiActivityGetNextRecord") ||
      !Resolve(library, register_callbacks, "cuptiActivityRegisterCallbacks") ||
      !Resolve(library, set_attribute, "cuptiActivitySetAttribute")) {
    return false;
  }
  if (IsOn("SIM_RECORDER_ZEROED")) {
    uint8_t on = 1;
    size_t size = sizeof on;
    set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &on);
  }
  decltype(&cuptiSetThreadIdType) set_thread_ids;
  if (IsOn("SIM_RECORDER_SYSTEM_THREADS") &&
      Resolve(library, set_thread_ids, "cuptiSetThreadIdType")) {
    set_thread_ids(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  }
  decltype(&cuptiActivityEnableLatencyTimestamps) latency;
  if (IsOn("SIM_RECORDER_LATENCY") &&
      Resolve(library, latency, "cuptiActivityEnableLatencyTimestamps")) {
    latency(1);
  }
  if (register_callbacks(Requested, Completed) != CUPTI_SUCCESS) return false;
  ForEachNumber(Option("SIM_RECORDER_KINDS", "10,1,2,22,38,5,4,8,9,17,36,37"),
                [&](uint32_t kind) { enable(static_cast<CUpti_ActivityKind>(kind)); });
  decltype(&cuptiActivityEnableRuntimeApi) filter;
  if (Resolve(library, filter, "cuptiActivityEnableRuntimeApi")) {
    ForEachNumber(Option("SIM_RECORDER_OFF", ""), [&](uint32_t cbid) { filter(cbid, 0); });
  }
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiEnableAllDomains) enable_domains;
  CUpti_SubscriberHandle subscriber;
  if (IsOn("SIM_RECORDER_CALLBACKS") && Resolve(library, subscribe, "cuptiSubscribe") &&
      Resolve(library, enable_domains, "cuptiEnableAllDomains") &&
      subscribe(&subscriber, OnCallback, nullptr) == CUPTI_SUCCESS) {
    enable_domains(1, subscriber);
  }
  return true;
}

__attribute__((constructor)) void OnLoad() {
  Dl_info self;
  if (getenv("SIM_RECORDER_OUT") == nullptr) return;
  if (dladdr(reinterpret_cast<void*>(&OnLoad), &self) == 0) return;
  setenv("CUDA_INJECTION64_PATH", self.dli_fname, 0);
}

}  // namespace

EXPORT long sim_recorder_enters() { return Get().enters; }
EXPORT long sim_recorder_exits() { return Get().exits; }

EXPORT int InitializeInjection() {
  const char* stem = getenv("SIM_RECORDER_OUT");
  if (stem == nullptr || Get().fd >= 0) return 1;
  void* library = dlopen(Option("SIM_RECORDER_LIBRARY", "libcupti.so.13"), RTLD_NOW);
  if (library == nullptr) return 1;
  Recorder& r = Get();
  r.fd = open((std::string(stem) + ".cuptibuf").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
              0644);
  r.buffer_bytes = strtoul(Option("SIM_RECORDER_BYTES", "1048576"), nullptr, 10);
  const long buffers = strtol(Option("SIM_RECORDER_BUFFERS", "0"), nullptr, 10);
  r.buffers_left = buffers == 0 ? -1 : buffers;
  if (r.fd >= 0 && Start(library)) atexit(AtExit);
  return 1;
}

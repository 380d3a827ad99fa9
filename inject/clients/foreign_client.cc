// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/clients/foreign_client.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "inject/clients/import_patch.h"
#include "inject/session.h"

#define GPUPROBE_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuprobe::inject {
namespace {

// CUPTI_ERROR_NOT_INITIALIZED: what a caller can make sense of when there is no libcupti at all.
constexpr int kCuptiNotInitialized = 15;
constexpr uint32_t kKindWords = 4;  // activity kinds below 256; 13.0 has 60

// The kinds that the other client has enabled, by its own account.
class ForeignKinds {
 public:
  constexpr ForeignKinds() = default;
  void Set(int kind, bool on) {
    if (kind < 0 || kind >= static_cast<int>(kKindWords * 64)) return;
    const uint64_t bit = uint64_t{1} << (kind % 64);
    // relaxed: a client that enables and disables the same kind from two threads at once is not
    // ordered by CUPTI either.
    if (on) {
      words_[kind / 64].fetch_or(bit, std::memory_order_relaxed);
    } else {
      words_[kind / 64].fetch_and(~bit, std::memory_order_relaxed);
    }
  }
  uint32_t Count() const {
    uint32_t count = 0;
    for (const auto& word : words_) {
      count += static_cast<uint32_t>(__builtin_popcountll(word.load(std::memory_order_relaxed)));
    }
    return count;
  }
  void Clear() {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> words_[kKindWords] = {};
};

constinit ForeignKinds g_kinds;

const void* OwnBase() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&OwnBase), &info) != 0 ? info.dli_fbase : nullptr;
}

bool IsOurs(void* symbol) {
  Dl_info info;
  return dladdr(symbol, &info) != 0 && info.dli_fbase == OwnBase();
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// File name of the object that holds `address`.
void CallerName(const void* address, char* out, size_t size) {
  Dl_info info;
  const bool known =
      dladdr(address, &info) != 0 && info.dli_fname != nullptr && info.dli_fname[0] != '\0';
  std::snprintf(out, size, "%s", known ? BaseName(info.dli_fname) : "the program");
}

int FindLoadedCupti(struct dl_phdr_info* info, size_t, void* found) {
  if (std::strncmp(BaseName(info->dlpi_name), "libcupti.so", 11) != 0) return 0;
  *static_cast<const char**>(found) = info->dlpi_name;  // owned by the loader
  return 1;
}

void* Lookup(void* handle, const char* name) {
  void* symbol = dlsym(handle, name);
  return symbol != nullptr && !IsOurs(symbol) ? symbol : nullptr;
}

constexpr int kPerThreadBuffers = 9;  // CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, a byte

template <typename Fn>
Fn Next(const char* name, const void* caller) {
  return reinterpret_cast<Fn>(NextCuptiFunction(name, caller));
}

// Whether the attribute, one byte, has that value already.
bool KeepsAttribute(int attribute, const size_t* size, const void* value, const void* caller) {
  const auto get = Next<int (*)(int, size_t*, void*)>("cuptiActivityGetAttribute", caller);
  if (get == nullptr || size == nullptr || value == nullptr || *size != 1) return false;
  uint8_t now = 0;
  size_t now_size = sizeof now;
  return get(attribute, &now_size, &now) == 0 && now == *static_cast<const uint8_t*>(value);
}

// A call of the other client that takes hold of the activity API.
void BeforeTaking(TakingCall call, const void* caller) {
  Session& session = TheSession();
  if (!session.Mine()) return;
  char who[64];
  CallerName(caller, who, sizeof who);
  session.NoteForeignCall(g_kinds.Count());
  session.StepAside(who, call);
}

// A call after which the other client may be done.
void AfterLetting(bool done) {
  Session& session = TheSession();
  if (!session.Mine()) return;
  session.NoteForeignCall(g_kinds.Count());
  if (done && g_kinds.Count() == 0) session.ComeBack();
}

void GiveUpBeforeFinalize(const void* caller) {
  Session& session = TheSession();
  if (!session.Mine()) return;
  char who[64];
  CallerName(caller, who, sizeof who);
  session.GiveUpCupti(who);
}

}  // namespace

void* NextCuptiFunction(const char* name, const void* return_address) {
  Dl_info caller;
  if (dladdr(return_address, &caller) != 0 && caller.dli_fname != nullptr) {
    // A handle of the caller searches the caller and what it was linked with.
    if (void* handle = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      void* symbol = Lookup(handle, name);
      dlclose(handle);
      if (symbol != nullptr) return symbol;
    }
  }
  if (void* symbol = dlsym(RTLD_NEXT, name)) {
    if (!IsOurs(symbol)) return symbol;
  }
  const char* path = nullptr;
  dl_iterate_phdr(&FindLoadedCupti, &path);
  if (path == nullptr) return nullptr;
  void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* symbol = Lookup(handle, name);
  dlclose(handle);
  return symbol;
}

}  // namespace gpuprobe::inject

// The exported functions. Types as wide as CUPTI's: enumerations and CUptiResult are int, handles
// void*.
using gpuprobe::inject::AfterLetting;
using gpuprobe::inject::BeforeTaking;
using gpuprobe::inject::g_kinds;
using gpuprobe::inject::GiveUpBeforeFinalize;
using gpuprobe::inject::kCuptiNotInitialized;
using gpuprobe::inject::KeepsAttribute;
using gpuprobe::inject::kPerThreadBuffers;
using gpuprobe::inject::Next;
using gpuprobe::inject::TakingCall;
using gpuprobe::inject::TheSession;

GPUPROBE_EXPORT int cuptiActivityRegisterCallbacks(void* requested, void* completed) {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)(void*, void*)>("cuptiActivityRegisterCallbacks", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  BeforeTaking(TakingCall::kRegisterCallbacks, caller);
  return next(requested, completed);
}

GPUPROBE_EXPORT int cuptiActivityRegisterTimestampCallback(gpuprobe::cupti::TimestampFn callback) {
  const void* caller = __builtin_return_address(0);
  const auto next =
      Next<int (*)(gpuprobe::cupti::TimestampFn)>("cuptiActivityRegisterTimestampCallback", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  BeforeTaking(TakingCall::kRegisterTimestampCallback, caller);
  const int result = next(callback);
  if (result == 0) TheSession().ForeignClock(callback);
  return result;
}

GPUPROBE_EXPORT int cuptiActivityEnable(int kind) {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)(int)>("cuptiActivityEnable", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  BeforeTaking(TakingCall::kEnable, caller);
  const int result = next(kind);
  if (result == 0) g_kinds.Set(kind, true);
  return result;
}

GPUPROBE_EXPORT int cuptiActivityEnableAndDump(int kind) {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)(int)>("cuptiActivityEnableAndDump", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  BeforeTaking(TakingCall::kEnableAndDump, caller);
  const int result = next(kind);
  if (result == 0) g_kinds.Set(kind, true);
  return result;
}

GPUPROBE_EXPORT int cuptiActivityEnableContext(void* context, int kind) {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)(void*, int)>("cuptiActivityEnableContext", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  BeforeTaking(TakingCall::kEnableContext, caller);
  const int result = next(context, kind);
  if (result == 0) g_kinds.Set(kind, true);
  return result;
}

GPUPROBE_EXPORT int cuptiActivityDisable(int kind) {
  const auto next = Next<int (*)(int)>("cuptiActivityDisable", __builtin_return_address(0));
  if (next == nullptr) return kCuptiNotInitialized;
  const int result = next(kind);
  g_kinds.Set(kind, false);
  AfterLetting(/*done=*/false);  // its flush is still to come
  return result;
}

GPUPROBE_EXPORT int cuptiActivityDisableContext(void* context, int kind) {
  const auto next =
      Next<int (*)(void*, int)>("cuptiActivityDisableContext", __builtin_return_address(0));
  if (next == nullptr) return kCuptiNotInitialized;
  const int result = next(context, kind);
  g_kinds.Set(kind, false);
  AfterLetting(/*done=*/false);
  return result;
}

// Switching between buffers per thread and per context while kinds are enabled is undefined
// (cupti_activity.h), and torch.profiler does it after its last flush of a window, when we are back
// already.
GPUPROBE_EXPORT int cuptiActivitySetAttribute(int attribute, size_t* size, void* value) {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)(int, size_t*, void*)>("cuptiActivitySetAttribute", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  if (attribute != kPerThreadBuffers || KeepsAttribute(attribute, size, value, caller)) {
    return next(attribute, size, value);
  }
  BeforeTaking(TakingCall::kSetAttribute, caller);
  const int result = next(attribute, size, value);
  AfterLetting(/*done=*/true);
  return result;
}

GPUPROBE_EXPORT int cuptiActivityFlushAll(uint32_t flag) {
  const auto next = Next<int (*)(uint32_t)>("cuptiActivityFlushAll", __builtin_return_address(0));
  if (next == nullptr) return kCuptiNotInitialized;
  const int result = next(flag);
  AfterLetting(/*done=*/true);
  return result;
}

GPUPROBE_EXPORT int cuptiFinalize() {
  const void* caller = __builtin_return_address(0);
  const auto next = Next<int (*)()>("cuptiFinalize", caller);
  if (next == nullptr) return kCuptiNotInitialized;
  GiveUpBeforeFinalize(caller);
  g_kinds.Clear();
  return next();
}

namespace gpuprobe::inject {

int InterceptLoadedClients() {
  static constinit ImportPatcher patcher;
  // clang-format off
#define ENTRY(function) {#function, reinterpret_cast<void*>(&function)}
  // clang-format on
  const ImportPatch patches[] = {
      ENTRY(cuptiActivityRegisterCallbacks),
      ENTRY(cuptiActivityRegisterTimestampCallback),
      ENTRY(cuptiActivityEnable),
      ENTRY(cuptiActivityEnableAndDump),
      ENTRY(cuptiActivityEnableContext),
      ENTRY(cuptiActivityDisable),
      ENTRY(cuptiActivityDisableContext),
      ENTRY(cuptiActivitySetAttribute),
      ENTRY(cuptiActivityFlushAll),
      ENTRY(cuptiFinalize),
  };
#undef ENTRY
  return patcher.PatchNewObjects(patches, static_cast<int>(sizeof patches / sizeof patches[0]));
}

}  // namespace gpuprobe::inject

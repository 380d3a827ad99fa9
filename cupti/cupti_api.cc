// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/cupti_api.h"

#include <cupti.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace gpuprobe::cupti {
namespace {

static_assert(kSuccess == CUPTI_SUCCESS);
static_assert(sizeof(CUptiResult) == sizeof(Result));

// ---- Text without allocation ----

// Appends to what is already in a caller's `why`; cuts silently at its end.
class Message {
 public:
  Message(char* text, size_t size) : text_(text), size_(size) {
    if (size_ > 0) text_[0] = '\0';
  }
  __attribute__((format(printf, 2, 3))) void Add(const char* format, ...) {
    if (size_ == 0) return;
    const size_t used = strlen(text_);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text_ + used, size_ - used, format, arguments);
    va_end(arguments);
  }
  bool empty() const { return size_ == 0 || text_[0] == '\0'; }

 private:
  char* text_;
  size_t size_;
};

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// The first number in `text` at or after a '.', e.g. 13 in "libcupti.so.13"; 0: none.
int NumberAfterDot(const char* text) {
  for (const char* at = strchr(text, '.'); at != nullptr; at = strchr(at + 1, '.')) {
    int number = 0;
    for (const char* digit = at + 1; *digit >= '0' && *digit <= '9' && number < 100000; ++digit) {
      number = number * 10 + (*digit - '0');
    }
    if (number > 0) return number;
  }
  return 0;
}

// ---- What is loaded in this process ----

constexpr size_t kPathSize = sizeof(CuptiApi::path);
constexpr size_t kMaxLoaded = 6;

struct LoadedLibraries {
  char cupti[kMaxLoaded][kPathSize];
  size_t cupti_count;
  char cudart[kMaxLoaded][kPathSize];
  size_t cudart_count;
  char driver[kPathSize];
};

void Keep(char (&paths)[kMaxLoaded][kPathSize], size_t* count, const char* path) {
  const size_t length = strlen(path);
  if (*count == kMaxLoaded || length >= kPathSize) return;
  memcpy(paths[(*count)++], path, length + 1);
}

bool StartsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Called under the loader's lock: only copies the names.
int NoteLibrary(dl_phdr_info* info, size_t, void* data) {
  LoadedLibraries* loaded = static_cast<LoadedLibraries*>(data);
  const char* path = info->dlpi_name;
  if (path == nullptr) return 0;
  const char* name = BaseName(path);
  if (StartsWith(name, "libcupti.so")) {
    Keep(loaded->cupti, &loaded->cupti_count, path);
  } else if (StartsWith(name, "libcudart.so")) {
    Keep(loaded->cudart, &loaded->cudart_count, path);
  } else if (StartsWith(name, "libcuda.so") && strlen(path) < kPathSize) {
    memcpy(loaded->driver, path, strlen(path) + 1);
  }
  return 0;
}

// Major CUDA version that the loaded driver serves, told by the branch in its file name
// (libcuda.so.580.159.04); 0: the name does not tell. No CUDA function is called.
int DriverCudaMajor(const char* driver_path) {
  char resolved[PATH_MAX];
  if (realpath(driver_path, resolved) == nullptr) return 0;
  const int branch = NumberAfterDot(BaseName(resolved));
  // NVIDIA's table of minimum driver branches: 13.x needs 580, 12.x 525, 11.x 450.
  if (branch >= 580) return 13;
  if (branch >= 525) return 12;
  if (branch >= 450) return 11;
  return 0;
}

// Major version of an opened libcupti, from its SONAME: files of a toolkit are named by year
// (libcupti.so.2025.3.1), their SONAME is libcupti.so.13. 0: not told.
int SonameMajor(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_ld == nullptr)
    return 0;
  const char* strings = nullptr;
  size_t soname_offset = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) soname_offset = entry->d_un.d_val;
  }
  if (strings == nullptr || soname_offset == 0) return NumberAfterDot(BaseName(map->l_name));
  return NumberAfterDot(strings + soname_offset);
}

// ---- Symbols ----

// Base address of the object that this code is linked into. libgpuprobe.so exports functions with
// CUPTI names; taking one of those for CUPTI's would be an endless recursion.
const void* OwnBase() {
  Dl_info info;
  return dladdr(reinterpret_cast<const void*>(&OwnBase), &info) != 0 ? info.dli_fbase : nullptr;
}

void* FindSymbol(void* handle, const char* name, const void* own_base) {
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) return nullptr;
  Dl_info info;
  if (dladdr(symbol, &info) != 0 && info.dli_fbase == own_base) return nullptr;
  return symbol;
}

enum class Need { kRequired, kOptional };

class SymbolTable {
 public:
  SymbolTable(void* handle, const void* own_base) : handle_(handle), own_base_(own_base) {}

  template <class Function>
  void Take(Function* slot, const char* name, Need need) {
    *slot = reinterpret_cast<Function>(FindSymbol(handle_, name, own_base_));
    if (*slot == nullptr && need == Need::kRequired && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* handle_;
  const void* own_base_;
  const char* missing_ = nullptr;
};

void TakeSymbols(CuptiApi* api, SymbolTable* symbols) {
  symbols->Take(&api->GetVersion, "cuptiGetVersion", Need::kRequired);
  symbols->Take(&api->ActivityRegisterCallbacks, "cuptiActivityRegisterCallbacks", Need::kRequired);
  symbols->Take(&api->ActivityEnable, "cuptiActivityEnable", Need::kRequired);
  symbols->Take(&api->ActivityDisable, "cuptiActivityDisable", Need::kRequired);
  symbols->Take(&api->ActivityFlushAll, "cuptiActivityFlushAll", Need::kRequired);
  symbols->Take(&api->ActivityGetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords",
                Need::kRequired);
  symbols->Take(&api->Subscribe, "cuptiSubscribe", Need::kRequired);
  symbols->Take(&api->Unsubscribe, "cuptiUnsubscribe", Need::kRequired);
  symbols->Take(&api->GetTimestamp, "cuptiGetTimestamp", Need::kOptional);
  symbols->Take(&api->GetResultString, "cuptiGetResultString", Need::kOptional);
  symbols->Take(&api->ActivityGetNextRecord, "cuptiActivityGetNextRecord", Need::kOptional);
  symbols->Take(&api->ActivitySetAttribute, "cuptiActivitySetAttribute", Need::kOptional);
  symbols->Take(&api->ActivityGetAttribute, "cuptiActivityGetAttribute", Need::kOptional);
  symbols->Take(&api->ActivityEnableRuntimeApi, "cuptiActivityEnableRuntimeApi", Need::kOptional);
  symbols->Take(&api->ActivityEnableDriverApi, "cuptiActivityEnableDriverApi", Need::kOptional);
  symbols->Take(&api->ActivityEnableLatencyTimestamps, "cuptiActivityEnableLatencyTimestamps",
                Need::kOptional);
  symbols->Take(&api->ActivityEnableHwTrace, "cuptiActivityEnableHWTrace", Need::kOptional);
  symbols->Take(&api->SetThreadIdType, "cuptiSetThreadIdType", Need::kOptional);
  symbols->Take(&api->InitializeInjectionNvtx2, "InitializeInjectionNvtx2", Need::kOptional);
  symbols->Take(&api->GetThreadIdType, "cuptiGetThreadIdType", Need::kOptional);
}

void TakePath(CuptiApi* api, void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr)
    return;
  snprintf(api->path, sizeof(api->path), "%s", map->l_name);
}

// ---- The search ----

class Search {
 public:
  Search(CuptiApi* api, Message* rejected) : api_(api), rejected_(rejected) {
    dl_iterate_phdr(&NoteLibrary, &loaded_);
    if (driver_loaded()) driver_major_ = DriverCudaMajor(loaded_.driver);
  }

  bool driver_loaded() const { return loaded_.driver[0] != '\0'; }
  const char* reason() const { return reason_; }

  bool AlreadyLoaded();
  bool Preferred(const char* path);
  bool BesideRuntime();
  bool ByLoader();
  bool InToolkits();

 private:
  int FitOfLoaded(const char* path, void* handle) const;
  bool TryPath(const char* path);
  bool TryEachVersion(const char* directory, size_t directory_length, const char* below);
  bool TryHandle(void* handle, const char* path);
  void Reject(const char* path, const char* problem) {
    rejected_->Add("%s%s: %s", rejected_->empty() ? "" : "; ", path, problem);
  }

  CuptiApi* api_;
  Message* rejected_;
  LoadedLibraries loaded_ = {};
  int driver_major_ = 0;
  const char* reason_ = "";
};

// Newest first: a newer libcupti serves an older driver of the same major version.
constexpr const char* kSonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"};

bool Search::TryHandle(void* handle, const char* path) {
  const int major = SonameMajor(handle);
  if (driver_major_ != 0 && major > driver_major_ && major < 100) {
    Reject(path, "needs a newer driver");
    return false;
  }
  char problem[160];
  if (!FillCuptiApi(api_, handle, problem, sizeof(problem))) {
    Reject(path, problem);
    return false;
  }
  return true;
}

bool Search::TryPath(const char* path) {
  void* handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* problem = dlerror();
    Reject(path, problem == nullptr ? "dlopen failed" : problem);
    return false;
  }
  return TryHandle(handle, path);
}

bool SameDirectory(const char* path, const char* other) {
  const size_t length = static_cast<size_t>(BaseName(path) - path);
  return length > 0 && length == static_cast<size_t>(BaseName(other) - other) &&
         strncmp(path, other, length) == 0;
}

// How well a loaded copy goes with the rest of the process; the highest wins. Beside the CUDA
// runtime is where frameworks keep the copy that they use themselves (torch: nvidia/cu13/lib); a
// tool's private copy (triton/backends/nvidia/lib/cupti) lies elsewhere.
int Search::FitOfLoaded(const char* path, void* handle) const {
  const int major = SonameMajor(handle);
  int fit = major < 100 ? major : 0;
  for (size_t i = 0; i < loaded_.cudart_count; ++i) {
    if (NumberAfterDot(BaseName(loaded_.cudart[i])) == major) fit |= 1 << 10;
    if (SameDirectory(path, loaded_.cudart[i])) fit |= 1 << 11;
  }
  return fit;
}

bool Search::AlreadyLoaded() {
  void* handles[kMaxLoaded] = {};
  int fits[kMaxLoaded];
  for (size_t i = 0; i < loaded_.cupti_count; ++i) {
    handles[i] = dlopen(loaded_.cupti[i], RTLD_NOLOAD | RTLD_LAZY);
    fits[i] = handles[i] == nullptr ? -1 : FitOfLoaded(loaded_.cupti[i], handles[i]);
  }
  // Best first; a copy is called into only when every better one was no use, because the first call
  // makes a CUPTI attach itself to the driver.
  for (size_t tried = 0; tried < loaded_.cupti_count; ++tried) {
    size_t best = 0;
    for (size_t i = 1; i < loaded_.cupti_count; ++i) {
      if (fits[i] > fits[best]) best = i;
    }
    if (fits[best] < 0) return false;
    reason_ = loaded_.cupti_count == 1 ? "already loaded"
              : (fits[best] & (1 << 11)) != 0
                  ? "already loaded; of several copies the one beside libcudart"
              : (fits[best] & (1 << 10)) != 0
                  ? "already loaded; of several copies the one of libcudart's version"
                  : "already loaded; of several copies the newest";
    if (TryHandle(handles[best], loaded_.cupti[best])) return true;
    fits[best] = -1;
  }
  return false;
}

bool Search::Preferred(const char* path) {
  if (path == nullptr || path[0] == '\0') return false;
  reason_ = "named by GPUPROBE_CUPTI_PATH";
  return TryPath(path);
}

bool Search::TryEachVersion(const char* directory, size_t directory_length, const char* below) {
  for (const char* soname : kSonames) {
    char path[kPathSize];
    const int length = snprintf(path, sizeof(path), "%.*s%s%s", static_cast<int>(directory_length),
                                directory, below, soname);
    if (length < 0 || static_cast<size_t>(length) >= sizeof(path) || access(path, R_OK) != 0)
      continue;
    if (TryPath(path)) return true;
  }
  return false;
}

bool Search::BesideRuntime() {
  // In the same folder (nvidia/cu13/lib); in a sibling package (nvidia/cuda_runtime/lib and
  // nvidia/cuda_cupti/lib); in a toolkit.
  constexpr const char* kBelow[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
  reason_ = "beside the loaded libcudart";
  for (size_t i = 0; i < loaded_.cudart_count; ++i) {
    const char* path = loaded_.cudart[i];
    const size_t directory_length = static_cast<size_t>(BaseName(path) - path);
    if (directory_length == 0) continue;
    for (const char* below : kBelow) {
      if (TryEachVersion(path, directory_length, below)) return true;
    }
  }
  return false;
}

bool Search::ByLoader() {
  reason_ = "found by the dynamic loader";
  for (const char* soname : kSonames) {
    if (TryPath(soname)) return true;
  }
  return false;
}

bool Search::InToolkits() {
  constexpr const char* kBelow[] = {"/extras/CUPTI/lib64/", "/targets/x86_64-linux/lib/",
                                    "/lib64/"};
  // Newest first. The unversioned link is what the administrator chose.
  constexpr int kNewestMajor = 13, kOldestMajor = 11, kNewestMinor = 9;
  reason_ = "in a toolkit below /usr/local";
  const auto try_toolkit = [this, &kBelow](const char* toolkit) {
    for (const char* below : kBelow) {
      if (TryEachVersion(toolkit, strlen(toolkit), below)) return true;
    }
    return false;
  };
  if (try_toolkit("/usr/local/cuda")) return true;
  for (int major = kNewestMajor; major >= kOldestMajor; --major) {
    for (int minor = kNewestMinor; minor >= 0; --minor) {
      char toolkit[40];
      snprintf(toolkit, sizeof(toolkit), "/usr/local/cuda-%d.%d", major, minor);
      if (access(toolkit, X_OK) == 0 && try_toolkit(toolkit)) return true;
    }
  }
  return false;
}

}  // namespace

bool FillCuptiApi(CuptiApi* api, void* handle, char* why, size_t why_size) {
  Message message(why, why_size);
  *api = CuptiApi{};
  SymbolTable symbols(handle, OwnBase());
  TakeSymbols(api, &symbols);
  if (symbols.missing() != nullptr) {
    message.Add("lacks %s (a stub?)", symbols.missing());
    *api = CuptiApi{};
    return false;
  }
  uint32_t version = 0;
  const Result result = api->GetVersion(&version);
  if (result != kSuccess || version == 0) {
    message.Add("cuptiGetVersion failed: %s", ResultName(result));
    *api = CuptiApi{};
    return false;
  }
  api->version = version;
  api->handle = handle;
  TakePath(api, handle);
  return true;
}

bool LoadCupti(CuptiApi* api, const char* preferred_path, char* why, size_t why_size) {
  char rejected_text[1024];
  Message rejected(rejected_text, sizeof(rejected_text));
  Message message(why, why_size);
  // 11 KiB of paths, on the thread that calls cuInit, whose stack may be small. Called once, and by
  // tests one after the other.
  alignas(Search) static unsigned char room[sizeof(Search)];
  static_assert(std::is_trivially_destructible_v<Search>);
  Search& search = *new (room) Search(api, &rejected);
  if (!search.driver_loaded()) {
    // Without the driver newer copies answer "unknown error", and cuptiGetVersion of 13.2 calls
    // itself until the stack is full (seen with 13.2.75 and 13.2.86).
    message.Add("no CUDA driver is loaded, CUPTI was not looked for");
    return false;
  }
  if (search.AlreadyLoaded() || search.Preferred(preferred_path) || search.BesideRuntime() ||
      search.ByLoader() || search.InToolkits()) {
    message.Add("%s", search.reason());
    if (!rejected.empty()) message.Add(" (not used: %s)", rejected_text);
    return true;
  }
  message.Add("no usable libcupti was found (%s)", rejected_text);
  return false;
}

const char* ResultName(Result result) {
#define NAME(value) \
  case value:       \
    return #value
  switch (result) {
    NAME(CUPTI_SUCCESS);
    NAME(CUPTI_ERROR_INVALID_PARAMETER);
    NAME(CUPTI_ERROR_INVALID_DEVICE);
    NAME(CUPTI_ERROR_INVALID_CONTEXT);
    NAME(CUPTI_ERROR_INVALID_OPERATION);
    NAME(CUPTI_ERROR_OUT_OF_MEMORY);
    NAME(CUPTI_ERROR_HARDWARE);
    NAME(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
    NAME(CUPTI_ERROR_API_NOT_IMPLEMENTED);
    NAME(CUPTI_ERROR_MAX_LIMIT_REACHED);
    NAME(CUPTI_ERROR_NOT_READY);
    NAME(CUPTI_ERROR_NOT_COMPATIBLE);
    NAME(CUPTI_ERROR_NOT_INITIALIZED);
    NAME(CUPTI_ERROR_QUEUE_EMPTY);
    NAME(CUPTI_ERROR_INVALID_HANDLE);
    NAME(CUPTI_ERROR_INVALID_STREAM);
    NAME(CUPTI_ERROR_INVALID_KIND);
    NAME(CUPTI_ERROR_DISABLED);
    NAME(CUPTI_ERROR_INVALID_MODULE);
    NAME(CUPTI_ERROR_HARDWARE_BUSY);
    NAME(CUPTI_ERROR_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE);
    NAME(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
    NAME(CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED);
    NAME(CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
    NAME(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
    NAME(CUPTI_ERROR_UNKNOWN);
    case kNoSuchFunction:
      return "function missing in this libcupti";
    default:
      return "CUPTI error of unknown number";
  }
#undef NAME
}

}  // namespace gpuprobe::cupti

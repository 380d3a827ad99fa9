// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/config.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "inject/process/environment.h"

extern "C" char** environ;

namespace gpuprobe::inject {
namespace {

#define AT(member) offsetof(Config, member)
constexpr Setting kSettings[] = {
    {"GPUPROBE_CAPTURE", SettingType::kBool, AT(capture), 1, 0, 1,
     "record the GPU and the host; off: only how long the process took"},
    {"GPUPROBE_OUT", SettingType::kText, AT(out), 0, 0, 0,
     "directory of the run; default: gpuprobe-<date>T<time>-<pid> in the working directory"},
    {"GPUPROBE_CHILDREN", SettingType::kBool, AT(children), 1, 0, 1,
     "off: child processes do not inherit the preload and are not recorded"},
    {"GPUPROBE_KERNELS", SettingType::kBool, AT(kernels), 1, 0, 1,
     "GPU work: kernels, copies, sets, graphs"},
    {"GPUPROBE_RUNTIME_API", SettingType::kBool, AT(runtime_api), 1, 0, 1,
     "runtime API calls that submit, block, allocate, load or synchronise"},
    {"GPUPROBE_DRIVER_API", SettingType::kBool, AT(driver_api), 1, 0, 1,
     "driver API calls of the same sort (cuBLAS and cuDNN launch through them)"},
    {"GPUPROBE_ALL_API", SettingType::kBool, AT(all_api), 0, 0, 1,
     "every API call, chatter such as cudaGetDevice too"},
    {"GPUPROBE_SYNC", SettingType::kBool, AT(sync), 1, 0, 1, "synchronisation records"},
    {"GPUPROBE_OVERHEAD", SettingType::kBool, AT(overhead), 1, 0, 1, "CUPTI's overhead records"},
    {"GPUPROBE_NVTX", SettingType::kBool, AT(nvtx), 0, 0, 1,
     "NVTX ranges of the application (`steps` uses them); costs two CUPTI records a range"},
    {"GPUPROBE_GRAPH_NODES", SettingType::kBool, AT(graph_nodes), 0, 0, 1,
     "CUDA graphs node by node instead of as a whole (slows graph replay)"},
    {"GPUPROBE_LATENCY_TIMESTAMPS", SettingType::kBool, AT(latency_timestamps), 0, 0, 1,
     "queued and submitted times of each kernel"},
    {"GPUPROBE_HW_TRACE", SettingType::kBool, AT(hw_trace), 0, 0, 1,
     "kernels timed by the GPU's own event system (Blackwell and later, CUPTI 12.8; not tried "
     "there "
     "by us; elsewhere refused, which `info` shows)"},
    {"GPUPROBE_SAMPLE_HZ", SettingType::kInteger, AT(sample_hz), 100, 0, 1000,
     "looks a second at what the host's threads do; 0: none"},
    {"GPUPROBE_SAMPLE_PYTHON", SettingType::kBool, AT(sample_python), 1, 0, 1,
     "Python stacks of the threads that are looked at"},
    {"GPUPROBE_SAMPLE_NATIVE", SettingType::kBool, AT(sample_native), 1, 0, 1,
     "where in native code they are"},
    {"GPUPROBE_SAMPLE_CHILDREN", SettingType::kBool, AT(sample_children), 1, 0, 1,
     "child processes that do not record themselves, such as data-loader workers"},
    {"GPUPROBE_FLUSH_MS", SettingType::kInteger, AT(flush_ms), 500, 20, 60000,
     "flush period: the most that a kill can lose, in milliseconds"},
    {"GPUPROBE_MEMORY_MB", SettingType::kInteger, AT(memory_mb), 64, 32, 16384,
     "memory cap in the host process, in MiB; records beyond it are dropped and counted"},
    {"GPUPROBE_BUFFER_KB", SettingType::kInteger, AT(buffer_kb), 128, 16, 16384,
     "size of one activity buffer, in KiB (one per launching thread is in use)"},
    {"GPUPROBE_MAX_TRACE_MB", SettingType::kInteger, AT(max_trace_mb), 8192, 1, 1 << 24,
     "size limit of one trace file, in MiB; records beyond it are dropped and counted"},
    {"GPUPROBE_CUPTI_PATH", SettingType::kText, AT(cupti_path), 0, 0, 0,
     "libcupti to use if the process has not loaded one"},
    {"GPUPROBE_VERBOSE", SettingType::kBool, AT(verbose), 0, 0, 1,
     "one line on stderr at the end, also where stderr is not a terminal"},
};
#undef AT
constexpr size_t kSettingCount = sizeof kSettings / sizeof kSettings[0];

// Set by our own programs and by the constructor, no settings of the capture.
constexpr const char* kOtherNames[] = {"GPUPROBE_BUILD_DIR", "GPUPROBE_LIB", "GPUPROBE_ONLY_PID"};

size_t TextCapacity(const Setting& s) {
  return s.offset == offsetof(Config, out) ? sizeof(Config::out) : sizeof(Config::cupti_path);
}

void* Member(Config* config, const Setting& s) {
  return reinterpret_cast<char*>(config) + s.offset;
}
const void* Member(const Config& config, const Setting& s) {
  return reinterpret_cast<const char*>(&config) + s.offset;
}

// Plain decimal; no strtoll, whose locale and errno are the host's.
bool ParseInteger(const char* text, int64_t* out) {
  int64_t value = 0;
  if (*text == '\0') return false;
  for (const char* p = text; *p != '\0'; ++p) {
    if (*p < '0' || *p > '9' || value > 100'000'000'000) return false;
    value = value * 10 + (*p - '0');
  }
  *out = value;
  return true;
}

void Apply(const Setting& s, const char* text, Config* config, Warnings* warnings) {
  switch (s.type) {
    case SettingType::kBool: {
      bool value;
      if (ParseBool(text, &value)) {
        *static_cast<bool*>(Member(config, s)) = value;
      } else {
        warnings->Add("%s=%.40s ignored: not a switch (1/0, on/off)", s.name, text);
      }
      break;
    }
    case SettingType::kInteger: {
      int64_t value;
      if (ParseInteger(text, &value) && value >= s.min_value && value <= s.max_value) {
        *static_cast<int64_t*>(Member(config, s)) = value;
      } else {
        warnings->Add("%s=%.40s ignored: not a number from %lld to %lld", s.name, text,
                      static_cast<long long>(s.min_value), static_cast<long long>(s.max_value));
      }
      break;
    }
    case SettingType::kText: {
      const size_t length = std::strlen(text);
      if (length < TextCapacity(s)) {
        std::memcpy(Member(config, s), text, length + 1);
      } else {
        warnings->Add("%s ignored: longer than %zu bytes", s.name, TextCapacity(s) - 1);
      }
      break;
    }
  }
}

bool IsKnown(const char* entry, size_t name_length) {
  for (const Setting& s : kSettings) {
    if (std::strlen(s.name) == name_length && std::memcmp(s.name, entry, name_length) == 0)
      return true;
  }
  for (const char* other : kOtherNames) {
    if (std::strlen(other) == name_length && std::memcmp(other, entry, name_length) == 0)
      return true;
  }
  return false;
}

void WarnAboutUnknown(Warnings* warnings) {
  constexpr char kPrefix[] = "GPUPROBE_";
  constexpr char kTestPrefix[] = "GPUPROBE_TEST_";  // the test suite's own
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    if (std::strncmp(*e, kPrefix, sizeof kPrefix - 1) != 0) continue;
    if (std::strncmp(*e, kTestPrefix, sizeof kTestPrefix - 1) == 0) continue;
    const char* equals = std::strchr(*e, '=');
    if (equals == nullptr) continue;
    const size_t length = static_cast<size_t>(equals - *e);
    if (!IsKnown(*e, length)) {
      warnings->Add("%.*s ignored: no such setting", static_cast<int>(length > 60 ? 60 : length),
                    *e);
    }
  }
}

}  // namespace

bool ParseBool(const char* text, bool* out) {
  for (const char* yes : {"1", "on", "true", "yes"}) {
    if (std::strcmp(text, yes) == 0) return *out = true, true;
  }
  for (const char* no : {"0", "off", "false", "no"}) {
    if (std::strcmp(text, no) == 0) return *out = false, true;
  }
  return false;
}

const Setting* Settings(size_t* count) {
  *count = kSettingCount;
  return kSettings;
}

void Warnings::Add(const char* format, ...) {
  constexpr size_t kCapacity = sizeof text / sizeof text[0];
  if (count == kCapacity) {
    std::snprintf(text[kCapacity - 1], sizeof text[0], "... and more");
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text[count++], sizeof text[0], format, arguments);
  va_end(arguments);
}

void LoadConfig(Config* config, Warnings* warnings) {
  std::memset(config, 0, sizeof *config);
  for (const Setting& s : kSettings) {
    if (s.type == SettingType::kBool) *static_cast<bool*>(Member(config, s)) = s.default_value != 0;
    if (s.type == SettingType::kInteger)
      *static_cast<int64_t*>(Member(config, s)) = s.default_value;
    if (const char* text = GetEnv(s.name)) Apply(s, text, config, warnings);
  }
  WarnAboutUnknown(warnings);
}

void FormatSetting(const Config& config, const Setting& s, char* out, size_t size) {
  switch (s.type) {
    case SettingType::kBool:
      std::snprintf(out, size, "%d", *static_cast<const bool*>(Member(config, s)) ? 1 : 0);
      break;
    case SettingType::kInteger:
      std::snprintf(out, size, "%lld",
                    static_cast<long long>(*static_cast<const int64_t*>(Member(config, s))));
      break;
    case SettingType::kText:
      std::snprintf(out, size, "%s", static_cast<const char*>(Member(config, s)));
      break;
  }
}

bool IsDefault(const Config& config, const Setting& s) {
  switch (s.type) {
    case SettingType::kBool:
      return *static_cast<const bool*>(Member(config, s)) == (s.default_value != 0);
    case SettingType::kInteger:
      return *static_cast<const int64_t*>(Member(config, s)) == s.default_value;
    case SettingType::kText:
      return *static_cast<const char*>(Member(config, s)) == '\0';
  }
  return false;
}

}  // namespace gpuprobe::inject

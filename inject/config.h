// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// All settings, from environment variables GPUPROBE_*, in one table: name, type, default, range,
// help. Parsing, the record of what was in force (CaptureInfo), the check for unknown variables and
// the README's table all come from it. Unknown or malformed values are reported once, in the trace,
// and ignored.
#ifndef GPUPROBE_INJECT_CONFIG_H_
#define GPUPROBE_INJECT_CONFIG_H_

#include <climits>
#include <cstddef>
#include <cstdint>

namespace gpuprobe::inject {

struct Config {
  bool capture;   // GPUPROBE_CAPTURE
  bool children;  // GPUPROBE_CHILDREN: children keep the preload
  int64_t sample_hz;
  bool sample_python;
  bool sample_native;
  bool sample_children;
  int64_t flush_ms;
  int64_t memory_mb;
  int64_t buffer_kb;
  int64_t max_trace_mb;
  bool kernels;
  bool runtime_api;
  bool driver_api;
  bool all_api;
  bool sync;
  bool overhead;
  bool nvtx;
  bool graph_nodes;
  bool latency_timestamps;
  bool hw_trace;
  bool verbose;
  char out[PATH_MAX];  // GPUPROBE_OUT: directory of the run; empty: see doors.cc
  char cupti_path[512];
};

enum class SettingType : uint8_t { kBool, kInteger, kText };

struct Setting {
  const char* name;
  SettingType type;
  size_t offset;  // in Config
  int64_t default_value, min_value, max_value;
  const char* help;
};

const Setting* Settings(size_t* count);

// Collects one-line messages about what was wrong; fixed size, drops what does not fit (and says
// so).
struct Warnings {
  char text[8][200];
  size_t count = 0;
  void Add(const char* format, ...) __attribute__((format(printf, 2, 3)));
};

// "1", "on", "true", "yes" and their opposites. False: none of these, *out unchanged.
bool ParseBool(const char* text, bool* out);

// Defaults, then the environment. Never fails.
void LoadConfig(Config* config, Warnings* warnings);

// The value of a setting as text, for the record.
void FormatSetting(const Config& config, const Setting& setting, char* out, size_t size);
bool IsDefault(const Config& config, const Setting& setting);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_CONFIG_H_

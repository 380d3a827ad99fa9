// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/settings.h"

#include <cstdlib>

#include "tests/sim/lib/clock.h"

namespace gpuprobe::sim {
namespace {

struct Row {
  const char* key;
  int64_t initial;
};

// In the order of enum Setting. The figures are of the size seen on an H200 with PCIe 5.
constexpr Row kRows[] = {
    {"device_count", 1},
    {"launch_latency_ns", 2000},
    {"kernel_ns", 10'000},
    {"copy_base_ns", 1000},
    {"htod_bytes_per_us", 25'000},
    {"dtoh_bytes_per_us", 25'000},
    {"dtod_bytes_per_us", 1'500'000},
    {"peer_bytes_per_us", 200'000},
    {"set_bytes_per_us", 1'500'000},
    {"staging_bytes_per_us", 8'000},
    {"free_syncs", 1},
    {"alloc_syncs", 0},
    {"grain_ns", 1},
    {"graph_node_gap_ns", 0},
    {"host_function_ns", 0},
    {"stream_overlap_ns", 0},
    {"copy_data_limit_bytes", 1 << 20},
    {"device_memory_bytes", int64_t{80} << 30},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == static_cast<size_t>(Setting::kCount));

// Host costs on the virtual clock: a call takes some time, or launch-bound scripts would not exist.
constexpr int64_t kVirtualRuntimeNs = 200;
constexpr int64_t kVirtualDriverNs = 500;
constexpr Row kVirtualCosts[] = {
    {"cuLaunchKernel", 2500},
    {"cuLaunchKernelEx", 2500},
    {"cuGraphLaunch", 5000},
    {"cuMemAlloc", 20'000},
    {"cuMemFree", 10'000},
    {"cuMemAllocHost", 50'000},
    {"cuMemHostAlloc", 50'000},
    {"cuMemHostRegister", 50'000},
    {"cuModuleLoadData", 100'000},
    {"cuInit", 1'000'000},
    {"cuDevicePrimaryCtxRetain", 1'000'000},
    {"cuGraphInstantiateWithFlags", 50'000},
    {"cudaGetDevice", 50},
    {"cudaSetDevice", 50},
    {"cudaGetLastError", 50},
    {"cudaPeekAtLastError", 50},
    {"cudaStreamIsCapturing", 50},
};

template <class Fn>
void ForEachPair(const char* text, Fn fn) {
  if (text == nullptr) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t equals = item.rfind('=');  // kernel names may contain '='
    if (equals == std::string_view::npos) continue;
    fn(item.substr(0, equals), strtoll(std::string(item.substr(equals + 1)).c_str(), nullptr, 10));
  }
}

}  // namespace

std::string_view WithoutVersion(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  if (end == name.size() || end < 2 || name[end - 1] != 'v' || name[end - 2] != '_') return name;
  return name.substr(0, end - 2);
}

Settings& Settings::Get() {
  static Settings* settings = new Settings;  // process lifetime
  return *settings;
}

Settings::Settings() {
  for (size_t i = 0; i < static_cast<size_t>(Setting::kCount); ++i) values_[i] = kRows[i].initial;
  if (Clock::Get().is_virtual()) {
    for (const Row& row : kVirtualCosts) costs_[row.key] = row.initial;
    any_cost_ = true;
  }
  ForEachPair(getenv("GPUSIM_SET"), [this](std::string_view k, int64_t v) { Set(k, v); });
  ForEachPair(getenv("GPUSIM_KERNELS"),
              [this](std::string_view k, int64_t v) { DefineKernel(k, v); });
  ForEachPair(getenv("GPUSIM_COSTS"), [this](std::string_view k, int64_t v) { SetCost(k, v); });
}

bool Settings::Set(std::string_view key, int64_t value) {
  for (size_t i = 0; i < static_cast<size_t>(Setting::kCount); ++i) {
    if (key != kRows[i].key) continue;
    values_[i].store(value, std::memory_order_relaxed);
    return true;
  }
  return false;
}

int64_t Settings::Find(std::string_view key) const {
  for (size_t i = 0; i < static_cast<size_t>(Setting::kCount); ++i) {
    if (key == kRows[i].key) return values_[i].load(std::memory_order_relaxed);
  }
  return -1;
}

void Settings::DefineKernel(std::string_view name, int64_t duration_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  kernels_[std::string(name)] = duration_ns;
  any_kernel_ = true;
}

int64_t Settings::KernelNs(const char* name) const {
  if (any_kernel_ && name != nullptr) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = kernels_.find(name);
    if (it != kernels_.end()) return it->second;
  }
  return (*this)[Setting::kKernelNs];
}

void Settings::SetCost(std::string_view api_name, int64_t ns) {
  std::lock_guard<std::mutex> lock(mu_);
  costs_[std::string(WithoutVersion(api_name))] = ns;
  any_cost_ = true;
}

int64_t Settings::CostNs(const char* api_name) const {
  if (!any_cost_) return 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = costs_.find(std::string(WithoutVersion(api_name)));
    if (it != costs_.end()) return it->second;
  }
  if (!Clock::Get().is_virtual()) return 0;
  return std::string_view(api_name).starts_with("cuda") ? kVirtualRuntimeNs : kVirtualDriverNs;
}

}  // namespace gpuprobe::sim

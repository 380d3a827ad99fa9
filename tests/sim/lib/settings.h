// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a script can set: numbers by name (one table, printed in README.md), durations of kernels by
// name, host costs of API calls by name. Initial values from GPUSIM_SET, GPUSIM_KERNELS and
// GPUSIM_COSTS
// ("name=number,name=number"). Any thread.
#ifndef GPUPROBE_TESTS_SIM_LIB_SETTINGS_H_
#define GPUPROBE_TESTS_SIM_LIB_SETTINGS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gpuprobe::sim {

enum class Setting : uint32_t {
  kDeviceCount,
  kLaunchLatencyNs,
  kKernelNs,
  kCopyBaseNs,
  kHtoDBytesPerUs,
  kDtoHBytesPerUs,
  kDtoDBytesPerUs,
  kPeerBytesPerUs,
  kSetBytesPerUs,
  kStagingBytesPerUs,
  kFreeSyncs,
  kAllocSyncs,
  kGrainNs,
  kGraphNodeGapNs,
  kHostFunctionNs,
  kStreamOverlapNs,
  kCopyDataLimitBytes,
  kDeviceMemoryBytes,
  kCount,
};

class Settings {
 public:
  static Settings& Get();  // process lifetime

  int64_t operator[](Setting s) const {
    return values_[static_cast<uint32_t>(s)].load(
        std::memory_order_relaxed);  // independent numbers
  }
  bool Set(std::string_view key, int64_t value);
  int64_t Find(std::string_view key) const;  // -1: no such key

  void DefineKernel(std::string_view name, int64_t duration_ns);
  int64_t KernelNs(const char* name) const;  // the default duration where not defined

  void SetCost(std::string_view api_name, int64_t ns);
  // Name with or without version suffix. Unscripted calls cost nothing on the real clock (the code
  // that runs is their cost) and a default on the virtual one.
  int64_t CostNs(const char* api_name) const;

 private:
  Settings();
  std::atomic<int64_t> values_[static_cast<uint32_t>(Setting::kCount)];
  mutable std::mutex mu_;
  std::unordered_map<std::string, int64_t> kernels_, costs_;  // guarded by mu_
  std::atomic<bool> any_kernel_{false}, any_cost_{false};
};

// "cuMemAlloc_v2" -> "cuMemAlloc"
std::string_view WithoutVersion(std::string_view api_name);

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_SETTINGS_H_

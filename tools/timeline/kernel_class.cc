// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which kernels are collective communication. Only names exist to tell by, mangled or not, so the
// table looks for substrings that occur in no kernel that computes.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

// In lower case.
constexpr std::array kCommunicationMarks = {
    // NCCL and RCCL: ncclDevKernel_AllReduce_Sum_bf16_RING_LL, ncclKernel_Broadcast_RING
    // (before 2.19),
    // ncclSymDevKernel_*, ncclDevKernel_Generic. All begin or contain "nccl"; "rccl" for older
    // ROCm.
    std::string_view("nccl"), std::string_view("rccl"),
    std::string_view("msccl"),  // MSCCL and MSCCL++
    // NVSHMEM's own collectives and the put/get/barrier kernels built on it.
    std::string_view("nvshmem"),
    // vLLM's and SGLang's custom all-reduce: vllm::cross_device_reduce_1stage / _2stage.
    std::string_view("cross_device_reduce"),
    // TensorRT-LLM and FlashInfer: oneShotAllReduceKernel, twoShotAllReduceKernel,
    // allreduce_fusion_kernel;
    // PyTorch symmetric memory: one_shot_all_reduce_kernel, multimem_all_reduce_kernel.
    std::string_view("allreduce"), std::string_view("all_reduce"),
    // The same families' other collectives. Not "broadcast" or "reduce" alone: elementwise and
    // reduction
    // kernels carry those.
    std::string_view("allgather"), std::string_view("all_gather"),
    std::string_view("reducescatter"), std::string_view("reduce_scatter"),
    std::string_view("alltoall"), std::string_view("all_to_all"),
    std::string_view(
        "deep_ep"),  // DeepEP's dispatch and combine: the all-to-all of expert parallelism
};

}  // namespace

bool IsCommunicationKernel(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(kCommunicationMarks.begin(), kCommunicationMarks.end(),
                     [&](std::string_view mark) { return lower.find(mark) != std::string::npos; });
}

}  // namespace gpuprobe::tools

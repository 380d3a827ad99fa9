// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Shared by the files of the libcudart stand-in: lazy initialisation and error state.
#ifndef GPUPROBE_TESTS_SIM_LIB_RUNTIME_CORE_H_
#define GPUPROBE_TESTS_SIM_LIB_RUNTIME_CORE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace gpuprobe::sim {

// cuInit on the first call of the process (which opens the injection door in the middle of a
// runtime call, as with the real runtime); no context.
cudaError_t EnsureDriver();
// Also the primary context of the calling thread's device, made current.
cudaError_t EnsureContext();
// Driver result to runtime error; remembers it for cudaGetLastError.
cudaError_t Remember(CUresult result);
cudaError_t Remember(cudaError_t error);

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_RUNTIME_CORE_H_

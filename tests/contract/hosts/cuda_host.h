// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the CUDA programs of these tests share: the driver API, found with dlopen as frameworks do,
// one context and one kernel. Works on the simulated GPU and on a real one.
#ifndef GPUPROBE_TESTS_CONTRACT_HOSTS_CUDA_HOST_H_
#define GPUPROBE_TESTS_CONTRACT_HOSTS_CUDA_HOST_H_

#include <cuda.h>

#include <cstdint>

namespace gpuprobe::contract {

// The functions of libcuda that the hosts call. Process lifetime; nothing is closed.
struct Cuda {
  CUresult (*Init)(unsigned);
  CUresult (*DeviceGet)(CUdevice*, int);
  CUresult (*PrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*CtxSetCurrent)(CUcontext);
  CUresult (*CtxSynchronize)();
  CUresult (*StreamCreate)(CUstream*, unsigned);
  CUresult (*StreamSynchronize)(CUstream);
  CUresult (*ModuleLoadData)(CUmodule*, const void*);
  CUresult (*ModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*LaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, CUstream, void**, void**);
  CUresult (*LaunchHostFunc)(CUstream, CUhostFn, void*);
  CUresult (*MemAlloc)(CUdeviceptr*, size_t);
  CUresult (*MemFree)(CUdeviceptr);
  CUresult (*StreamBeginCapture)(CUstream, CUstreamCaptureMode);
  CUresult (*StreamEndCapture)(CUstream, CUgraph*);
  CUresult (*GraphInstantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*GraphLaunch)(CUgraphExec, CUstream);
};

// A device with a context and a kernel that does nothing.
class Gpu {
 public:
  // Ends the process with status 99 and a line on stderr where there is no CUDA.
  void Open();
  // Any thread; the first call of a thread makes the context current there.
  void Launch(CUstream stream = nullptr);
  void Launches(int64_t count, CUstream stream = nullptr) {
    for (int64_t i = 0; i < count; ++i) Launch(stream);
  }
  CUstream NewStream();
  // A graph of `kernels` kernels, captured on `stream`.
  CUgraphExec NewGraph(CUstream stream, int64_t kernels);
  void Replays(CUgraphExec graph, int64_t count, CUstream stream);
  void Synchronize(CUstream stream = nullptr);
  const Cuda& cuda() const { return cuda_; }
  void MakeCurrent();

 private:
  Cuda cuda_ = {};
  CUcontext context_ = nullptr;
  CUfunction kernel_ = nullptr;
};

// CLOCK_MONOTONIC.
int64_t NowNs();
void SleepMs(int64_t ms);

}  // namespace gpuprobe::contract

#endif  // GPUPROBE_TESTS_CONTRACT_HOSTS_CUDA_HOST_H_

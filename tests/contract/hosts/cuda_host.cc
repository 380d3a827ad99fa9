// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/contract/hosts/cuda_host.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace gpuprobe::contract {
namespace {

constexpr char kNothing[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";
constexpr int kNoCuda = 99;

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", call, static_cast<int>(result));
  _exit(kNoCuda);
}

template <class Function>
void Find(void* library, Function* function, const char* name) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return;
  fprintf(stderr, "libcuda lacks %s\n", name);
  _exit(kNoCuda);
}

}  // namespace

void Gpu::Open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(kNoCuda);
  }
  Find(library, &cuda_.Init, "cuInit");
  Find(library, &cuda_.DeviceGet, "cuDeviceGet");
  Find(library, &cuda_.PrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  Find(library, &cuda_.CtxSetCurrent, "cuCtxSetCurrent");
  Find(library, &cuda_.CtxSynchronize, "cuCtxSynchronize");
  Find(library, &cuda_.StreamCreate, "cuStreamCreate");
  Find(library, &cuda_.StreamSynchronize, "cuStreamSynchronize");
  Find(library, &cuda_.ModuleLoadData, "cuModuleLoadData");
  Find(library, &cuda_.ModuleGetFunction, "cuModuleGetFunction");
  Find(library, &cuda_.LaunchKernel, "cuLaunchKernel");
  Find(library, &cuda_.LaunchHostFunc, "cuLaunchHostFunc");
  Find(library, &cuda_.MemAlloc, "cuMemAlloc_v2");
  Find(library, &cuda_.MemFree, "cuMemFree_v2");
  Find(library, &cuda_.StreamBeginCapture, "cuStreamBeginCapture_v2");
  Find(library, &cuda_.StreamEndCapture, "cuStreamEndCapture");
  Find(library, &cuda_.GraphInstantiate, "cuGraphInstantiateWithFlags");
  Find(library, &cuda_.GraphLaunch, "cuGraphLaunch");
  CUdevice device;
  CUmodule module;
  Check(cuda_.Init(0), "cuInit");
  Check(cuda_.DeviceGet(&device, 0), "cuDeviceGet");
  Check(cuda_.PrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  MakeCurrent();
  Check(cuda_.ModuleLoadData(&module, kNothing), "cuModuleLoadData");
  Check(cuda_.ModuleGetFunction(&kernel_, module, "nothing"), "cuModuleGetFunction");
}

void Gpu::MakeCurrent() {
  static thread_local bool current = false;
  if (current) return;
  Check(cuda_.CtxSetCurrent(context_), "cuCtxSetCurrent");
  current = true;
}

void Gpu::Launch(CUstream stream) {
  MakeCurrent();
  Check(cuda_.LaunchKernel(kernel_, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr),
        "cuLaunchKernel");
}

CUgraphExec Gpu::NewGraph(CUstream stream, int64_t kernels) {
  CUgraph graph;
  CUgraphExec executable;
  MakeCurrent();
  Check(cuda_.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
  Launches(kernels, stream);
  Check(cuda_.StreamEndCapture(stream, &graph), "cuStreamEndCapture");
  Check(cuda_.GraphInstantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
  return executable;
}

void Gpu::Replays(CUgraphExec graph, int64_t count, CUstream stream) {
  for (int64_t i = 0; i < count; ++i) Check(cuda_.GraphLaunch(graph, stream), "cuGraphLaunch");
  Synchronize(stream);
}

CUstream Gpu::NewStream() {
  CUstream stream;
  MakeCurrent();
  Check(cuda_.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

void Gpu::Synchronize(CUstream stream) {
  MakeCurrent();
  Check(stream == nullptr ? cuda_.CtxSynchronize() : cuda_.StreamSynchronize(stream),
        "synchronise");
}

int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void SleepMs(int64_t ms) {
  timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  while (nanosleep(&left, &left) != 0) {
  }
}

}  // namespace gpuprobe::contract

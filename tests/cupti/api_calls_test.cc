// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/api_calls.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace gpuprobe::cupti {
namespace {

const ApiCall* ByName(ApiDomain domain, const std::string& name) {
  size_t count = 0;
  const ApiCall* calls = ApiCalls(domain, &count);
  const ApiCall* found = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (name == calls[i].name) found = &calls[i];
  }
  return found;
}

TEST(ApiCalls, AscendUniquelyAndAreFoundByCbid) {
  for (const ApiDomain domain : {ApiDomain::kRuntime, ApiDomain::kDriver}) {
    size_t count = 0;
    const ApiCall* calls = ApiCalls(domain, &count);
    ASSERT_GT(count, 500u);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) {
        EXPECT_LT(calls[i - 1].cbid, calls[i].cbid);
      }
      EXPECT_EQ(FindApiCall(domain, calls[i].cbid), &calls[i]);
      EXPECT_EQ(std::string(calls[i].name).find("_v"), std::string::npos) << calls[i].name;
    }
    EXPECT_EQ(FindApiCall(domain, 0), nullptr);
    EXPECT_EQ(FindApiCall(domain, calls[count - 1].cbid + 1), nullptr);
    EXPECT_EQ(FindApiCall(domain, UINT32_MAX), nullptr);
  }
}

TEST(ApiCalls, NumbersAreThoseOfTheHeaders) {
  struct {
    ApiDomain domain;
    uint32_t cbid;
    const char* name;
  } const cases[] = {
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel"},
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
       "cudaLaunchKernelExC"},
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000,
       "cudaMemcpyAsync_ptsz"},
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemset_ptds_v7000, "cudaMemset_ptds"},
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
       "cudaDeviceSynchronize"},
      {ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch"},
      {ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
      {ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, "cuMemcpyHtoD"},
      {ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz,
       "cuMemcpyDtoHAsync_ptsz"},
      {ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize"},
      {ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, "cuCtxGetCurrent"},
  };
  for (const auto& c : cases) {
    const ApiCall* call = FindApiCall(c.domain, c.cbid);
    ASSERT_NE(call, nullptr) << c.name;
    EXPECT_STREQ(call->name, c.name);
  }
}

TEST(ApiCalls, WhatSubmitsBlocksAllocatesOrLoadsIsRecordedWithItsClass) {
  struct {
    ApiDomain domain;
    ApiClass api_class;
    const char* name;
  } const cases[] = {
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaLaunchKernel"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaLaunchKernel_ptsz"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaLaunchKernelExC"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaLaunchCooperativeKernel"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaLaunchCooperativeKernelMultiDevice"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "cudaGraphLaunch"},
      {ApiDomain::kRuntime, ApiClass::kLaunch, "__cudaLaunchKernel"},
      {ApiDomain::kDriver, ApiClass::kLaunch, "cuLaunchKernel"},
      {ApiDomain::kDriver, ApiClass::kLaunch, "cuLaunchKernelEx"},
      {ApiDomain::kDriver, ApiClass::kLaunch, "cuLaunchCooperativeKernel"},
      {ApiDomain::kDriver, ApiClass::kLaunch, "cuGraphLaunch_ptsz"},
      {ApiDomain::kRuntime, ApiClass::kHostFunc, "cudaLaunchHostFunc"},
      {ApiDomain::kDriver, ApiClass::kHostFunc, "cuStreamAddCallback"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemcpyAsync"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemcpy2DToArrayAsync"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemcpyPeerAsync"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemcpyBatchAsync"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemsetAsync"},
      {ApiDomain::kRuntime, ApiClass::kCopy, "cudaMemPrefetchAsync"},
      {ApiDomain::kDriver, ApiClass::kCopy, "cuMemcpyHtoDAsync"},
      {ApiDomain::kDriver, ApiClass::kCopy, "cuMemsetD32Async"},
      {ApiDomain::kRuntime, ApiClass::kCopyBlocking, "cudaMemcpy"},
      {ApiDomain::kRuntime, ApiClass::kCopyBlocking, "cudaMemcpyToSymbol"},
      {ApiDomain::kRuntime, ApiClass::kCopyBlocking, "cudaMemset"},
      {ApiDomain::kDriver, ApiClass::kCopyBlocking, "cuMemcpyDtoH"},
      {ApiDomain::kDriver, ApiClass::kCopyBlocking, "cuMemsetD8"},
      {ApiDomain::kRuntime, ApiClass::kSync, "cudaDeviceSynchronize"},
      {ApiDomain::kRuntime, ApiClass::kSync, "cudaStreamSynchronize_ptsz"},
      {ApiDomain::kRuntime, ApiClass::kSync, "cudaEventSynchronize"},
      {ApiDomain::kDriver, ApiClass::kSync, "cuCtxSynchronize"},
      {ApiDomain::kRuntime, ApiClass::kStreamWait, "cudaStreamWaitEvent"},
      {ApiDomain::kDriver, ApiClass::kStreamWait, "cuStreamWaitValue32"},
      {ApiDomain::kRuntime, ApiClass::kEventRecord, "cudaEventRecord"},
      {ApiDomain::kRuntime, ApiClass::kEventRecord, "cudaEventRecordWithFlags"},
      {ApiDomain::kRuntime, ApiClass::kAlloc, "cudaMalloc"},
      {ApiDomain::kRuntime, ApiClass::kAlloc, "cudaMallocAsync"},
      {ApiDomain::kRuntime, ApiClass::kAlloc, "cudaMallocManaged"},
      {ApiDomain::kDriver, ApiClass::kAlloc, "cuMemAlloc"},
      {ApiDomain::kDriver, ApiClass::kAlloc, "cuMemCreate"},
      {ApiDomain::kRuntime, ApiClass::kFree, "cudaFree"},
      {ApiDomain::kRuntime, ApiClass::kFree, "cudaFreeAsync"},
      {ApiDomain::kRuntime, ApiClass::kFree, "cudaFreeHost"},
      {ApiDomain::kDriver, ApiClass::kFree, "cuMemFree"},
      {ApiDomain::kRuntime, ApiClass::kHostMemory, "cudaHostAlloc"},
      {ApiDomain::kRuntime, ApiClass::kHostMemory, "cudaMallocHost"},
      {ApiDomain::kRuntime, ApiClass::kHostMemory, "cudaHostRegister"},
      {ApiDomain::kDriver, ApiClass::kHostMemory, "cuMemHostUnregister"},
      {ApiDomain::kDriver, ApiClass::kModule, "cuModuleLoadData"},
      {ApiDomain::kDriver, ApiClass::kModule, "cuModuleGetFunction"},
      {ApiDomain::kDriver, ApiClass::kModule, "cuLibraryLoadData"},
      {ApiDomain::kDriver, ApiClass::kModule, "cuLinkComplete"},
      {ApiDomain::kRuntime, ApiClass::kModule, "cudaGetFuncBySymbol"},
      {ApiDomain::kRuntime, ApiClass::kGraph, "cudaGraphInstantiate"},
      {ApiDomain::kRuntime, ApiClass::kGraph, "cudaGraphExecUpdate"},
      {ApiDomain::kRuntime, ApiClass::kGraph, "cudaStreamEndCapture"},
      {ApiDomain::kRuntime, ApiClass::kContext, "cudaDeviceReset"},
      {ApiDomain::kRuntime, ApiClass::kContext, "cudaStreamCreateWithFlags"},
      {ApiDomain::kRuntime, ApiClass::kContext, "cudaEventDestroy"},
      {ApiDomain::kDriver, ApiClass::kContext, "cuDevicePrimaryCtxRetain"},
  };
  for (const auto& c : cases) {
    const ApiCall* call = ByName(c.domain, c.name);
    ASSERT_NE(call, nullptr) << c.name;
    EXPECT_EQ(call->api_class, c.api_class) << c.name;
    EXPECT_TRUE(call->recorded) << c.name;
  }
}

TEST(ApiCalls, ChatterIsNotRecorded) {
  for (const char* name :
       {"cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError",
        "cudaGetErrorString", "cudaStreamIsCapturing", "cudaStreamGetCaptureInfo",
        "cudaStreamQuery", "cudaEventQuery", "cudaDeviceGetAttribute", "cudaPointerGetAttributes",
        "cudaGetDeviceCount", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "cudaEventElapsedTime", "__cudaPushCallConfiguration", "__cudaPopCallConfiguration",
        "cudaGraphAddKernelNode", "cudaThreadExchangeStreamCaptureMode"}) {
    const ApiCall* call = ByName(ApiDomain::kRuntime, name);
    ASSERT_NE(call, nullptr) << name;
    EXPECT_FALSE(call->recorded) << name;
  }
  for (const char* name : {"cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent",
                           "cuCtxPopCurrent", "cuGetProcAddress", "cuKernelGetAttribute",
                           "cuDevicePrimaryCtxGetState", "cuDeviceGetAttribute", "cuStreamQuery",
                           "cuEventQuery", "cuFuncGetAttribute", "cuPointerGetAttributes"}) {
    const ApiCall* call = ByName(ApiDomain::kDriver, name);
    ASSERT_NE(call, nullptr) << name;
    EXPECT_FALSE(call->recorded) << name;
  }
}

// Both spellings of a call must agree, or a per-thread-stream build would look different.
TEST(ApiCalls, PerThreadStreamVariantsAreTreatedLikeTheOriginal) {
  for (const ApiDomain domain : {ApiDomain::kRuntime, ApiDomain::kDriver}) {
    size_t count = 0, compared = 0;
    const ApiCall* calls = ApiCalls(domain, &count);
    for (size_t i = 0; i < count; ++i) {
      const std::string name = calls[i].name;
      const size_t suffix = name.find("_pt");
      if (suffix == std::string::npos) continue;
      const ApiCall* original = ByName(domain, name.substr(0, suffix));
      ASSERT_NE(original, nullptr) << name;
      EXPECT_EQ(original->api_class, calls[i].api_class) << name;
      EXPECT_EQ(original->recorded, calls[i].recorded) << name;
      ++compared;
    }
    EXPECT_GT(compared, 20u);
  }
}

TEST(ApiCalls, ClassesHaveTheNumbersOfTheSchema) {
  std::ifstream file(GPUPROBE_SOURCE_DIR "/proto/gpuprobe.proto");
  std::stringstream text;
  text << file.rdbuf();
  const std::string schema = text.str();
  const size_t begin = schema.find("enum ApiClass {");
  ASSERT_NE(begin, std::string::npos);
  const std::string body = schema.substr(begin, schema.find('}', begin) - begin);
  std::map<std::string, int> in_schema;
  const std::regex line("(API_[A-Z_]+) = ([0-9]+);");
  for (auto it = std::sregex_iterator(body.begin(), body.end(), line); it != std::sregex_iterator();
       ++it) {
    in_schema[(*it)[1]] = std::stoi((*it)[2]);
  }
  const std::map<std::string, ApiClass> ours = {
      {"API_OTHER", ApiClass::kOther},
      {"API_LAUNCH", ApiClass::kLaunch},
      {"API_COPY", ApiClass::kCopy},
      {"API_COPY_BLOCKING", ApiClass::kCopyBlocking},
      {"API_SYNC", ApiClass::kSync},
      {"API_STREAM_WAIT", ApiClass::kStreamWait},
      {"API_EVENT_RECORD", ApiClass::kEventRecord},
      {"API_ALLOC", ApiClass::kAlloc},
      {"API_FREE", ApiClass::kFree},
      {"API_MODULE", ApiClass::kModule},
      {"API_GRAPH", ApiClass::kGraph},
      {"API_HOST_MEMORY", ApiClass::kHostMemory},
      {"API_CONTEXT", ApiClass::kContext},
      {"API_HOST_FUNC", ApiClass::kHostFunc},
  };
  ASSERT_EQ(in_schema.size(), ours.size());
  for (const auto& [name, api_class] : ours) {
    ASSERT_TRUE(in_schema.count(name)) << name;
    EXPECT_EQ(in_schema[name], static_cast<int>(api_class)) << name;
  }
}

}  // namespace
}  // namespace gpuprobe::cupti

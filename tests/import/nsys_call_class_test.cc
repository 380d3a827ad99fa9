// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Names of calls against the table by which gpuprobe's own library knows them.
#include <gtest/gtest.h>

#include <string>

#include "cupti/api_calls.h"
#include "tools/import/call_class.h"

namespace gpuprobe::tools {
namespace {

TEST(CallClassOfName, AgreesWithTheTableByNumber) {
  for (const ApiDomain domain : {ApiDomain::kRuntime, ApiDomain::kDriver}) {
    size_t count = 0;
    const cupti::ApiCall* calls = cupti::ApiCalls(domain, &count);
    ASSERT_GT(count, 400u);
    for (size_t i = 0; i < count; ++i) {
      const auto wanted =
          calls[i].recorded ? static_cast<CallClass>(calls[i].api_class) : CallClass::kOther;
      EXPECT_EQ(CallClassOfName(calls[i].name), wanted) << calls[i].name;
      EXPECT_EQ(CallClassOfName(std::string(calls[i].name) + "_v12040"), wanted) << calls[i].name;
    }
  }
}

TEST(CallClassOfName, TakesNamesAsOtherToolsWriteThem) {
  EXPECT_EQ(CallClassOfName("cudaLaunchKernel_v7000"), CallClass::kLaunch);
  EXPECT_EQ(CallClassOfName("cudaLaunchKernel_ptsz_v7000"), CallClass::kLaunch);
  EXPECT_EQ(CallClassOfName("cudaLaunchKernelExC_v11060"), CallClass::kLaunch);
  EXPECT_EQ(CallClassOfName("cuMemcpyHtoDAsync_v2"), CallClass::kCopy);
  EXPECT_EQ(CallClassOfName("cuMemcpyDtoH_v2"), CallClass::kCopyBlocking);
  EXPECT_EQ(CallClassOfName("cu64Malloc"), CallClass::kAlloc);
  EXPECT_EQ(CallClassOfName("hipLaunchKernel"), CallClass::kLaunch);
}

TEST(CallClassOfName, SaysNothingOfWhatIsNoCudaCall) {
  for (const char* name : {"", "_", "__", "_v", "cu", "cuda", "hip", "Synchronize", "write",
                           "_v2_v3", "cudaInvented_v99999", "custom_kernel"}) {
    EXPECT_EQ(CallClassOfName(name), CallClass::kOther) << name;
  }
}

TEST(WithoutVersion, TakesVersionsOnly) {
  EXPECT_EQ(WithoutVersion("cudaStreamGetCaptureInfo_v2_v11030"), "cudaStreamGetCaptureInfo");
  EXPECT_EQ(WithoutVersion("cudaMemcpy_ptds_v7000"), "cudaMemcpy_ptds");
  EXPECT_EQ(WithoutVersion("cudaLaunchKernel_v7000_ptsz"), "cudaLaunchKernel_ptsz");
  EXPECT_EQ(WithoutVersion("cuGraphInstantiate_v"), "cuGraphInstantiate_v");
  EXPECT_EQ(WithoutVersion("my_value_v2x"), "my_value_v2x");
  EXPECT_EQ(WithoutVersion(""), "");
}

}  // namespace
}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "cupti/api_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace gpuprobe::cupti {
namespace {

#include "cupti/api_calls_table.inc"

constexpr uint16_t kNotInTable = 0xffff;

// Position in the table by cbid: the decoder looks up every API record.
template <size_t kLimit, size_t kCount>
constexpr std::array<uint16_t, kLimit> IndexByCbid(const ApiCall (&calls)[kCount]) {
  std::array<uint16_t, kLimit> index{};
  for (uint16_t& slot : index) slot = kNotInTable;
  for (size_t i = 0; i < kCount; ++i) index[calls[i].cbid] = static_cast<uint16_t>(i);
  return index;
}

constexpr auto kRuntimeIndex =
    IndexByCbid<kRuntimeCalls[std::size(kRuntimeCalls) - 1].cbid + 1>(kRuntimeCalls);
constexpr auto kDriverIndex =
    IndexByCbid<kDriverCalls[std::size(kDriverCalls) - 1].cbid + 1>(kDriverCalls);

template <size_t kLimit>
const ApiCall* Find(const ApiCall* calls, const std::array<uint16_t, kLimit>& index,
                    uint32_t cbid) {
  if (cbid >= kLimit || index[cbid] == kNotInTable) return nullptr;
  return &calls[index[cbid]];
}

}  // namespace

const ApiCall* ApiCalls(ApiDomain domain, size_t* count) {
  if (domain == ApiDomain::kRuntime) {
    *count = std::size(kRuntimeCalls);
    return kRuntimeCalls;
  }
  *count = std::size(kDriverCalls);
  return kDriverCalls;
}

const ApiCall* FindApiCall(ApiDomain domain, uint32_t cbid) {
  return domain == ApiDomain::kRuntime ? Find(kRuntimeCalls, kRuntimeIndex, cbid)
                                       : Find(kDriverCalls, kDriverIndex, cbid);
}

}  // namespace gpuprobe::cupti

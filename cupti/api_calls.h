// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which runtime and driver API calls are recorded, their names and what they do. The numbers
// (cbids) are append-only across CUDA versions, so one table serves all; it is generated once from
// NVIDIA's headers (facts: number, name) and classified by gen_api_calls.py. Calls that are not
// recorded are chatter (cudaGetDevice, cudaGetLastError ...: 80 % of all calls in a PyTorch step)
// and are switched off at the source. Calls newer than the table stay on.
#ifndef GPUPROBE_CUPTI_API_CALLS_H_
#define GPUPROBE_CUPTI_API_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "ringbuf/records.h"

namespace gpuprobe::cupti {

// Same numbers as ApiClass in proto/gpuprobe.proto (a test compares them).
enum class ApiClass : uint8_t {
  kOther = 0,
  kLaunch = 1,
  kCopy = 2,
  kCopyBlocking = 3,
  kSync = 4,
  kStreamWait = 5,
  kEventRecord = 6,
  kAlloc = 7,
  kFree = 8,
  kModule = 9,
  kGraph = 10,
  kHostMemory = 11,
  kContext = 12,
  kHostFunc = 13,
};

struct ApiCall {
  uint32_t cbid;
  ApiClass api_class;
  bool recorded;     // false: known, but chatter
  const char* name;  // without version suffix; per-thread-stream variants keep _ptsz/_ptds
};

// All known calls of a domain, ascending by cbid.
const ApiCall* ApiCalls(ApiDomain domain, size_t* count);
// nullptr: unknown (newer CUDA); such calls are recorded as kOther with the name CUPTI gives, or
// "runtime#123".
const ApiCall* FindApiCall(ApiDomain domain, uint32_t cbid);

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_API_CALLS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A stand-in for cuptiActivityGetNextRecord: walks a buffer by a table of sizes, with the results
// that CUPTI's documentation names. Precondition: one decoder at a time (the table is global, as
// the real function takes none).
#ifndef GPUPROBE_TESTS_CUPTI_SIZE_WALK_H_
#define GPUPROBE_TESTS_CUPTI_SIZE_WALK_H_

#include <cupti.h>

#include <cstdint>
#include <cstring>

#include "cupti/cupti_api.h"
#include "cupti/record_layout.h"

namespace gpuprobe::cupti {

inline uint16_t g_walk_sizes[kKindLimit] = {};
inline uint64_t g_walk_calls = 0;

inline Result SizeWalk(uint8_t* buffer, size_t valid_bytes, void** record) {
  ++g_walk_calls;
  if (buffer == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto size_at = [](const uint8_t* at) -> size_t {
    uint32_t kind;
    memcpy(&kind, at, sizeof(kind));
    return kind < kKindLimit ? g_walk_sizes[kind] : 0;
  };
  uint8_t* next = buffer;
  if (*record != nullptr) {
    uint8_t* const current = static_cast<uint8_t*>(*record);
    next = current + size_at(current);
  }
  const uint8_t* const end = buffer + valid_bytes;
  if (next + kRecordAlignment_bytes > end) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  const size_t left = static_cast<size_t>(end - next);
  const size_t size = size_at(next);
  if (size == 0 || size > left) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_TESTS_CUPTI_SIZE_WALK_H_

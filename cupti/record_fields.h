// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reading single fields of a CUPTI record, and what its times are worth. The caller has checked
// that the bytes are there; nothing is assumed about alignment or contents.
#ifndef GPUPROBE_CUPTI_RECORD_FIELDS_H_
#define GPUPROBE_CUPTI_RECORD_FIELDS_H_

#include <cstdint>
#include <cstring>

#include "ringbuf/records.h"

namespace gpuprobe::cupti {

template <class T>
inline T Load(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}
inline uint8_t LoadU8(const uint8_t* at) { return *at; }
inline uint16_t LoadU16(const uint8_t* at) { return Load<uint16_t>(at); }
inline uint32_t LoadU32(const uint8_t* at) { return Load<uint32_t>(at); }
inline uint64_t LoadU64(const uint8_t* at) { return Load<uint64_t>(at); }
inline int64_t LoadI64(const uint8_t* at) { return Load<int64_t>(at); }

// A field that younger versions append: `fallback` where the record is too short for it.
template <class T>
inline T LoadIfPresent(const uint8_t* record, size_t size, size_t at, T fallback) {
  return size >= at + sizeof(T) ? Load<T>(record + at) : fallback;
}

// No clock that CUPTI can carry passes this (2^62 ns: the year 2116 as CLOCK_REALTIME, 30 years of
// TSC ticks at 5 GHz); the sentinels seen in public (INT64_MIN, INT64_MAX, UINT64_MAX) all do.
inline constexpr uint64_t kLatestPlausibleTime = uint64_t{1} << 62;

inline Timing ClassifyTiming(uint64_t start, uint64_t end) {
  if (start != 0 && start <= end && end < kLatestPlausibleTime) [[likely]] {
    return Timing::kValid;
  }
  if (start == 0 && end == 0) return Timing::kMissing;
  if (start >= kLatestPlausibleTime || end >= kLatestPlausibleTime) return Timing::kInvalid;
  if (start == 0) return Timing::kInvalid;
  if (end == 0) return Timing::kUnfinished;
  return Timing::kInvalid;  // ends before it starts
}

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_RECORD_FIELDS_H_

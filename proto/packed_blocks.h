// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Sixteen values of a column at a time, with SSE2, which every x86-64 has. Most columns are small
// numbers: where all sixteen take one byte they are packed together instead of being asked one by
// one how long they are.
#ifndef GPUPROBE_PROTO_PACKED_BLOCKS_H_
#define GPUPROBE_PROTO_PACKED_BLOCKS_H_

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "proto/wire.h"

namespace gpuprobe::proto {

inline constexpr size_t kPackedValues = 16;

// 32-bit values, the first in the lowest bits of a. No array and no loops: at -O2 they would go
// through memory.
struct Sixteen {
  __m128i a, b, c, d;
};

inline Sixteen LoadSixteen(const void* from) {
  const auto* at = static_cast<const __m128i*>(from);
  return {_mm_loadu_si128(at), _mm_loadu_si128(at + 1), _mm_loadu_si128(at + 2),
          _mm_loadu_si128(at + 3)};
}

inline Sixteen WidenSixteen(const uint16_t* from) {
  const auto* at = reinterpret_cast<const __m128i*>(from);
  const __m128i zero = _mm_setzero_si128();
  const __m128i low = _mm_loadu_si128(at), high = _mm_loadu_si128(at + 1);
  return {_mm_unpacklo_epi16(low, zero), _mm_unpackhi_epi16(low, zero),
          _mm_unpacklo_epi16(high, zero), _mm_unpackhi_epi16(high, zero)};
}

inline Sixteen Difference(const Sixteen& x, const Sixteen& y) {
  return {_mm_sub_epi32(x.a, y.a), _mm_sub_epi32(x.b, y.b), _mm_sub_epi32(x.c, y.c),
          _mm_sub_epi32(x.d, y.d)};
}

inline __m128i ZigZag(__m128i x) {
  return _mm_xor_si128(_mm_slli_epi32(x, 1), _mm_srai_epi32(x, 31));
}
inline Sixteen ZigZag(const Sixteen& x) {
  return {ZigZag(x.a), ZigZag(x.b), ZigZag(x.c), ZigZag(x.d)};
}

template <int kBits>
inline Sixteen ShiftRightSigned(const Sixteen& x) {
  return {_mm_srai_epi32(x.a, kBits), _mm_srai_epi32(x.b, kBits), _mm_srai_epi32(x.c, kBits),
          _mm_srai_epi32(x.d, kBits)};
}

inline __m128i AnyBits(const Sixteen& x) {
  return _mm_or_si128(_mm_or_si128(x.a, x.b), _mm_or_si128(x.c, x.d));
}

inline bool IsZero(__m128i x) {
  return _mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_setzero_si128())) == 0xffff;
}

// Values of 8 bits.
inline void StoreBytes(const Sixteen& x, uint8_t* out) {
  const __m128i low = _mm_packs_epi32(x.a, x.b), high = _mm_packs_epi32(x.c, x.d);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(low, high));
}

inline void StoreLowBytes(const Sixteen& x, uint8_t* out) {
  const __m128i mask = _mm_set1_epi32(0xff);
  StoreBytes({_mm_and_si128(x.a, mask), _mm_and_si128(x.b, mask), _mm_and_si128(x.c, mask),
              _mm_and_si128(x.d, mask)},
             out);
}

// Sixteen varints; `any` collects the bits of all values. Writes up to kMaxVarintBytes too far.
inline uint8_t* PutVarints(uint8_t* out, const Sixteen& x, __m128i* any) {
  const __m128i bits = AnyBits(x);
  *any = _mm_or_si128(*any, bits);
  if (IsZero(_mm_srli_epi32(bits, 7))) {
    StoreBytes(x, out);
    return out + kPackedValues;
  }
  alignas(16) uint32_t values[kPackedValues];
  auto* at = reinterpret_cast<__m128i*>(values);
  _mm_store_si128(at, x.a);
  _mm_store_si128(at + 1, x.b);
  _mm_store_si128(at + 2, x.c);
  _mm_store_si128(at + 3, x.d);
  for (const uint32_t value : values) out = PutMixedVarint(out, value);
  return out;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_PACKED_BLOCKS_H_

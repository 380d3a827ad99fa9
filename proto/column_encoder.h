// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Staged records -> packets with packed columns (the *Batch messages of gpuprobe.proto).
//
// The size of what a record becomes is bounded before it is staged (the k...MaxBytes constants), so
// that encoding into a buffer that held the bound cannot run out of room and no record is lost
// there.
#ifndef GPUPROBE_PROTO_COLUMN_ENCODER_H_
#define GPUPROBE_PROTO_COLUMN_ENCODER_H_

#include <cstddef>
#include <cstdint>

#include "proto/staging.h"
#include "proto/wire.h"

namespace gpuprobe::proto {

// Most bytes that one record can add to its batch: times 2 x 10, correlation 5 (33 bits zigzag),
// 16-bit ids 3, 32-bit values 5, 64-bit values 10, and a zero byte in each optional column that a
// neighbour needs.
inline constexpr size_t kTimesMaxBytes = 20;
inline constexpr size_t kKernelMaxBytes = kTimesMaxBytes + 5 + 3 + 4;
inline constexpr size_t kKernelGraphMaxBytes = 5 + 10;
inline constexpr size_t kKernelLatencyMaxBytes = 10 + 10;
inline constexpr size_t kApiMaxBytes = kTimesMaxBytes + 5 + 3;
inline constexpr size_t kFailedMaxBytes = 5 + 5;  // index and result
inline constexpr size_t kCopyMaxBytes = kTimesMaxBytes + 5 + 3 + 10 + 5 + 10;
inline constexpr size_t kSetMaxBytes = kTimesMaxBytes + 5 + 2 + 10 + 5 + 2 + 5 + 10;
inline constexpr size_t kGraphMaxBytes = kTimesMaxBytes + 5 + 5;
inline constexpr size_t kSyncMaxBytes = kTimesMaxBytes + 2 + 5 + 5 + 5 + 5 + 10 + 5;
inline constexpr size_t kCudaEventMaxBytes = 5 + 5 + 5 + 5 + 10;
inline constexpr size_t kOverheadMaxBytes = kTimesMaxBytes + 5 + 2 + 5 + 5 + 5 + 5 + 5;
inline constexpr size_t kMarkerMaxBytes = 10 + 1 + 5 + 3 + 3 + 5;
// Tags, lengths and scalar fields of one batch: 14 columns of 2 + 4, 5 scalars of 2 + 5, the packet
// 2 x 5; and the overrun that PutVarint asks for, in each column that is written beside others.
inline constexpr size_t kBatchMaxBytes = 14 * 6 + 5 * 7 + 10 + 4 * kMaxVarintBytes;

class ColumnEncoder {
 public:
  void Take(Arena* arena, uint32_t max_records);

  // Appends the batches of everything staged; uses its `order` and `next`. `out` must have room for
  // the bounds above: columns are written without further checks.
  void Encode(Staging* staging, int64_t base_ns, WireWriter* out);

 private:
  struct TimeFields;
  struct HotFields;
  struct Batch;
  template <class T>
  void Times(const Batch& batch, const T* items, const TimeFields& fields);
  // Both return the flags that any of the records has.
  template <class T>
  uint16_t HotColumns(const Batch& batch, const T* items, const HotFields& fields);
  struct HotCursor;
  template <class T, class Index>
  static void PutRecords(uint32_t from, uint32_t to, const T* items, Index index,
                         HotCursor* cursor);
  template <class T, class Index>
  static bool PutBlock(uint32_t from, const T* items, Index index, HotCursor* cursor);
  template <class T, class Index>
  uint16_t SplitColumns(uint32_t count, const T* items, const HotFields& fields, Index index);
  void Kernels(const Staging& staging, const Batch& batch);
  void Api(const Staging& staging, const Batch& batch);
  void Copies(const Staging& staging, const Batch& batch);
  void Sets(const Staging& staging, const Batch& batch);
  void Graphs(const Staging& staging, const Batch& batch);
  void Syncs(const Staging& staging);
  void CudaEvents(const Staging& staging);
  void Overheads(const Staging& staging);
  void Markers(const Staging& staging);
  template <class T>
  void Lanes(Staging* staging, LaneClass lane_class, const StagedArray<T>& items,
             void (ColumnEncoder::*encode)(const Staging&, const Batch&));

  WireWriter* out_ = nullptr;
  int64_t base_ns_ = 0;
  uint8_t* start_low_ = nullptr;     // [max_records]
  uint8_t* duration_low_ = nullptr;  // [max_records]
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_COLUMN_ENCODER_H_

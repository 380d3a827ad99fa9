// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The batches that make up nearly all of a trace, kernels and host calls, straight from the bytes
// of a frame into columns: libprotobuf takes twice the time to make messages that are then turned
// into the same columns. Offline side.
//
// Only what looks as the writer makes it: every field once, columns packed, complete and of the
// length that `count` says. All else, good or bad, is left to libprotobuf and Decode (columns.h),
// so that there is one judge of what is valid; what is taken comes out as Decode would make it.
#ifndef GPUPROBE_PROTO_FRAME_BATCHES_H_
#define GPUPROBE_PROTO_FRAME_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "proto/columns.h"

namespace gpuprobe::proto {

// Columns that keep their memory from frame to frame.
template <typename Columns>
class ColumnPool {
 public:
  // Stays where it is until Reset.
  Columns* Next() {
    if (used_ == items_.size()) items_.emplace_back();
    return &items_[used_++];
  }
  // The last Next is taken back.
  void Return() { --used_; }
  void Reset() {
    used_ = 0;
    size_t room = 0;
    for (const Columns& columns : items_) room += columns.start_ns.capacity();
    if (room > kMostKeptRecords) items_.clear();
  }

 private:
  // Some 50 bytes each. Real frames stay below; files made to use memory do not make us keep it.
  static constexpr size_t kMostKeptRecords = size_t{1} << 21;
  std::deque<Columns> items_;
  size_t used_ = 0;
};

// The batches of one frame that were taken. May be moved: the columns stay where they are.
class FrameBatches {
 public:
  struct Batch {
    int packet;              // index in Trace.packet
    KernelColumns* kernels;  // one of these, the other is nullptr
    ApiColumns* api;
  };

  void Clear();
  // Tries a packet (its bytes without tag and length). False: not taken.
  bool Take(std::string_view packet, int index, const FrameHeader& header);

  const std::vector<Batch>& batches() const { return batches_; }  // ascending packets
  // Users may reorder the columns and take records out of them.

 private:
  bool Keep(int index, KernelColumns* kernels, ApiColumns* api, size_t count);

  std::vector<Batch> batches_;
  size_t records_ = 0;
  ColumnPool<KernelColumns> kernels_;
  ColumnPool<ApiColumns> api_;
};

// What Take does. False: not taken, and `out` holds anything.
bool DecodeUsual(std::string_view kernel_batch, int64_t base_ns, KernelColumns* out);
bool DecodeUsual(std::string_view api_batch, int64_t base_ns, ApiColumns* out);

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_BATCHES_H_

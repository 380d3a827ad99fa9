// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Orders and thins out decoded columns.
#ifndef GPUPROBE_TOOLS_RECORD_ORDER_H_
#define GPUPROBE_TOOLS_RECORD_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "proto/columns.h"

namespace gpuprobe::tools {

// Whether the records come in order of (start, end), as those of a GPU stream do.
bool InOrder(const proto::BatchColumns& columns);

// Sorts `records`, ascending indices of records, by (start, end). Stable; fast where few are out of
// place: nested calls are recorded from the inside out.
void SortByTime(const proto::BatchColumns& columns, std::vector<uint32_t>* records);

// Keeps the records with those indices, in that order.
void Select(const std::vector<uint32_t>& records, proto::KernelColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::CopyColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::SetColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::GraphColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::ApiColumns* columns);

// Columns that keep their memory from frame to frame.
template <typename Columns>
class ColumnPool {
 public:
  // Stays where it is until Reset.
  Columns* Next() {
    if (used_ == items_.size()) items_.emplace_back();
    return &items_[used_++];
  }
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

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_RECORD_ORDER_H_

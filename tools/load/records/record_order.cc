// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/records/record_order.h"

#include <algorithm>
#include <utility>

namespace gpuprobe::tools {
namespace {

template <typename T>
void SelectFrom(const std::vector<uint32_t>& records, std::vector<T>* column) {
  std::vector<T> selected(records.size());
  for (size_t i = 0; i < records.size(); ++i) selected[i] = (*column)[records[i]];
  column->swap(selected);
}

void SelectTimes(const std::vector<uint32_t>& records, proto::BatchColumns* columns) {
  SelectFrom(records, &columns->start_ns);
  SelectFrom(records, &columns->end_ns);
  SelectFrom(records, &columns->correlation);
  columns->count = records.size();
}

void SelectGpu(const std::vector<uint32_t>& records, proto::GpuColumns* columns) {
  SelectTimes(records, columns);
  SelectFrom(records, &columns->graph_id);
}

}  // namespace

bool SplitInOrder(const proto::BatchColumns& columns, std::vector<size_t>* ends) {
  constexpr size_t kFewPieces = 8;
  const int64_t* start = columns.start_ns.data();
  const int64_t* end = columns.end_ns.data();
  ends->clear();
  for (size_t i = 1; i < columns.count; ++i) {
    if (start[i] > start[i - 1] || (start[i] == start[i - 1] && end[i] >= end[i - 1])) continue;
    if (ends->size() + 1 == kFewPieces) return false;
    ends->push_back(i);
  }
  ends->push_back(columns.count);
  return true;
}

void SortByTime(const proto::BatchColumns& columns, std::vector<uint32_t>* records) {
  const auto before = [&columns](uint32_t a, uint32_t b) {
    return std::pair(columns.start_ns[a], columns.end_ns[a]) <
           std::pair(columns.start_ns[b], columns.end_ns[b]);
  };
  // By insertion, unless that turns out to be much work.
  constexpr size_t kMovesPerRecord = 8;
  size_t moves_left = kMovesPerRecord * records->size();
  for (size_t i = 1; i < records->size(); ++i) {
    const uint32_t record = (*records)[i];
    size_t at = i;
    for (; at > 0 && moves_left > 0 && before(record, (*records)[at - 1]); --at, --moves_left) {
      (*records)[at] = (*records)[at - 1];
    }
    (*records)[at] = record;
    if (moves_left == 0) {
      // What was moved so far may stand before its equals: the index tells who was first.
      return std::sort(records->begin(), records->end(), [&before](uint32_t a, uint32_t b) {
        return before(a, b) || (!before(b, a) && a < b);
      });
    }
  }
}

void Select(const std::vector<uint32_t>& records, proto::KernelColumns* columns) {
  SelectGpu(records, columns);
  SelectFrom(records, &columns->shape);
  SelectFrom(records, &columns->graph_node_id);
  SelectFrom(records, &columns->queued_before_ns);
  SelectFrom(records, &columns->submitted_before_ns);
}

void Select(const std::vector<uint32_t>& records, proto::CopyColumns* columns) {
  SelectGpu(records, columns);
  SelectFrom(records, &columns->shape);
  SelectFrom(records, &columns->bytes);
  SelectFrom(records, &columns->graph_node_id);
}

void Select(const std::vector<uint32_t>& records, proto::SetColumns* columns) {
  SelectGpu(records, columns);
  SelectFrom(records, &columns->memory_kind);
  SelectFrom(records, &columns->value);
  SelectFrom(records, &columns->flags);
  SelectFrom(records, &columns->bytes);
  SelectFrom(records, &columns->graph_node_id);
}

void Select(const std::vector<uint32_t>& records, proto::GraphColumns* columns) {
  SelectGpu(records, columns);
}

void Select(const std::vector<uint32_t>& records, proto::ApiColumns* columns) {
  SelectTimes(records, columns);
  SelectFrom(records, &columns->symbol);
  SelectFrom(records, &columns->result);
}

}  // namespace gpuprobe::tools

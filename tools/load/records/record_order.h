// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Orders and thins out decoded columns.
#ifndef GPUPROBE_TOOLS_LOAD_RECORDS_RECORD_ORDER_H_
#define GPUPROBE_TOOLS_LOAD_RECORDS_RECORD_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/columns.h"

namespace gpuprobe::tools {

// Cuts the records into pieces in order of (start, end), as few as can be; `ends`: where each piece
// ends. False if there are more than a few. A GPU stream or a host thread is in order as a rule,
// and in two or three pieces where CUPTI handed out its buffers in another order than they were
// filled.
bool SplitInOrder(const proto::BatchColumns& columns, std::vector<size_t>* ends);

// Sorts `records`, ascending indices of records, by (start, end). Stable; fast where few are out of
// place: nested calls are recorded from the inside out.
void SortByTime(const proto::BatchColumns& columns, std::vector<uint32_t>* records);

// Keeps the records with those indices, in that order.
void Select(const std::vector<uint32_t>& records, proto::KernelColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::CopyColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::SetColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::GraphColumns* columns);
void Select(const std::vector<uint32_t>& records, proto::ApiColumns* columns);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_RECORDS_RECORD_ORDER_H_

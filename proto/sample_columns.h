// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host samples as plain arrays: what columns.h is for batches. Offline side.
//
// A HostSamples message may hold anything. Here every array of a table has the same length, every
// id is in range (0 where it was not), the parent of a node stands before it, and no duration is
// negative; what had to be changed for that is counted.
#ifndef GPUPROBE_PROTO_SAMPLE_COLUMNS_H_
#define GPUPROBE_PROTO_SAMPLE_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/gpuprobe.pb.h"

namespace gpuprobe::proto {

// Ids count from 1, 0 is "none"; id i is element i - 1.
struct SampleTables {
  struct Location {
    uint32_t function, file;  // ids of HostSamples.strings
    uint32_t line;
    uint64_t offset;
    bool native;
  };
  struct Node {
    uint32_t parent;    // id, smaller than the node's own
    uint32_t location;  // id
  };
  size_t strings = 0;
  std::vector<Location> locations;
  std::vector<Node> nodes;
  uint64_t clipped = 0;      // elements beyond the table's length, or beyond kMaxBatchRecords
  uint64_t invalid_ids = 0;  // out of range, now 0
};

// Samples of one thread, in the order of the message (of time, if the writer is ours). Every array
// has `count` elements.
struct SampleColumns {
  size_t count = 0;
  uint64_t clipped = 0;
  uint64_t invalid_ids = 0;
  uint64_t invalid_times = 0;    // durations that were negative or overflowed, now 0
  std::vector<int64_t> time_ns;  // any value: whether it can be true is for the caller to judge
  std::vector<int64_t> interval_ns, cpu_ns, runnable_ns;
  std::vector<uint32_t> state, flags;
  std::vector<uint32_t> stack, wait_target;  // ids
  std::vector<int32_t> syscall;              // -1: none
  std::vector<uint32_t> gil_holder;          // tid
};

// Results are overwritten and keep their memory.
void Decode(const HostSamples& piece, SampleTables* out);
// `tables`: of the same piece.
void Decode(const ThreadSamples& thread, const HostSamples& piece, const SampleTables& tables,
            SampleColumns* out);

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_SAMPLE_COLUMNS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where the compressor's blocks should end: at the borders of large columns. Left to itself zstd
// cuts every 128 KiB, and a block has one table of symbols: bytes of noise, small numbers and ids
// in one block spoil each other's.
#ifndef GPUPROBE_PROTO_BLOCK_PLAN_H_
#define GPUPROBE_PROTO_BLOCK_PLAN_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::proto {

// From this size on a table of its own saves more than the block costs (recorded PyTorch runs: 7 to
// 11 % of the file; the same from 1,024 bytes on, a quarter less from 16,384 on).
inline constexpr size_t kOwnBlockBytes = 4096;

// Walks a frame's content, a piece of a Trace message: fields of the messages in its packets that
// have kOwnBlockBytes and more stand alone, what lies between them stands together.
class BlockPlan {
 public:
  BlockPlan(const uint8_t* data, size_t size) : begin_(data), end_(data + size), at_(data) {}

  // Where the next block ends, as a distance from `data`: ascending, `size` at last. Content that
  // is no such message ends in one block.
  size_t Next();

 private:
  bool Varint(uint64_t* value);
  bool StepToField(uint64_t* bytes);

  const uint8_t* begin_;
  const uint8_t* end_;
  const uint8_t* at_;
  const uint8_t* message_end_ =
      nullptr;          // of the packet's message that at_ is in; nullptr: in none
  size_t last_ = 0;     // the end told last
  size_t pending_ = 0;  // end of a large field whose beginning was told last; 0: none
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_BLOCK_PLAN_H_

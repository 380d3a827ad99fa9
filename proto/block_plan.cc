// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/block_plan.h"

#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

// What is no longer goes with the large field behind it: its tag, a few scalar fields.
constexpr size_t kShortBytes = 64;

}  // namespace

bool BlockPlan::Varint(uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; shift < 64 && at_ < end_; shift += 7) {
    const uint8_t byte = *at_++;
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Goes to the body of the next length-delimited field of a packet's message and says how long it
// is, over whatever lies before. False: there is none.
bool BlockPlan::StepToField(uint64_t* bytes) {
  while (at_ < end_) {
    uint64_t tag, value;
    if (message_end_ == nullptr) {  // Trace.packet, Packet.data
      uint64_t packet_bytes;
      if (!Varint(&tag) || !Varint(&packet_bytes) || !Varint(&tag) || !Varint(&value)) return false;
      if (value > static_cast<uint64_t>(end_ - at_)) return false;
      message_end_ = at_ + value;
    }
    if (at_ >= message_end_) {
      message_end_ = nullptr;
      continue;
    }
    if (!Varint(&tag)) return false;
    switch (tag & 7) {
      case kWireVarint:
        if (!Varint(&value)) return false;
        break;
      case kWireFixed64:
        if (end_ - at_ < 8) return false;
        at_ += 8;
        break;
      case kWireLengthDelimited:
        if (!Varint(bytes) || *bytes > static_cast<uint64_t>(end_ - at_)) return false;
        return true;
      default:
        return false;
    }
  }
  return false;
}

size_t BlockPlan::Next() {
  size_t end = pending_;
  pending_ = 0;
  uint64_t bytes;
  while (end == 0 && StepToField(&bytes)) {
    const size_t begin = static_cast<size_t>(at_ - begin_);
    at_ += bytes;
    if (bytes < kOwnBlockBytes) continue;
    end = begin + bytes;
    if (begin - last_ > kShortBytes) {
      pending_ = end;
      end = begin;
    }
  }
  if (end == 0) end = static_cast<size_t>(end_ - begin_);
  last_ = end;
  return end;
}

}  // namespace gpuprobe::proto

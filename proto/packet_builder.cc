// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/packet_builder.h"

#include <cstring>

#include "proto/utf8.h"

namespace gpuprobe::proto {
namespace {

constexpr uint32_t kTracePacket = 1;
constexpr int kPacketDepth = 2;  // a packet is two messages: Trace.packet and the field of Packet
constexpr size_t kExpectedPacketBytes = 200;   // two bytes of length
constexpr size_t kExpectedMessageBytes = 100;  // one

}  // namespace

void PacketBuilder::BeginPacket(uint32_t packet_field) {
  if (in_packet()) Abandon();
  too_deep_ = false;
  Open(kTracePacket, kExpectedPacketBytes);
  Open(packet_field, kExpectedPacketBytes);
}

void PacketBuilder::EndPacket() {
  if (!in_packet()) return;
  if (depth_ != kPacketDepth || out_.overflowed() || too_deep_) {
    Abandon();
    return;
  }
  Close();
  Close();
  if (out_.overflowed()) {  // a length that grew past the end
    depth_ = kPacketDepth;
    Abandon();
  }
}

void PacketBuilder::Abandon() {
  if (!in_packet()) return;
  out_.CutTo(open_[0].start);
  depth_ = 0;
  ++packets_left_out_;
}

void PacketBuilder::BeginMessage(uint32_t field) {
  if (in_packet()) Open(field, kExpectedMessageBytes);
}

void PacketBuilder::EndMessage() {
  if (depth_ > kPacketDepth) Close();
}

void PacketBuilder::Open(uint32_t field, size_t expected_bytes) {
  if (depth_ < kMaxDepth) {
    open_[depth_] = out_.Open(field, expected_bytes);
  } else {
    too_deep_ = true;
  }
  ++depth_;
}

void PacketBuilder::Close() {
  --depth_;
  if (depth_ < kMaxDepth) out_.Close(open_[depth_]);
}

void PacketBuilder::AddUint(uint32_t field, uint64_t value) {
  if (in_packet()) out_.Uint(field, value);
}

void PacketBuilder::AddInt(uint32_t field, int64_t value) {
  if (in_packet()) out_.Int(field, value);
}

void PacketBuilder::AddString(uint32_t field, const char* text) {
  AddString(field, text, text == nullptr ? 0 : std::strlen(text));
}

void PacketBuilder::AddString(uint32_t field, const char* text, size_t size) {
  if (!in_packet()) return;
  out_.Bytes(field, text, size);
  if (!out_.overflowed()) ReplaceInvalidUtf8(reinterpret_cast<char*>(out_.end()) - size, size);
}

void PacketBuilder::AddBytes(uint32_t field, const void* data, size_t size) {
  if (in_packet()) out_.Bytes(field, data, size);
}

bool PacketBuilder::AddSerializedPacket(uint32_t packet_field, const void* message, size_t bytes) {
  if (in_packet()) Abandon();
  const size_t start = out_.size();
  const WireWriter::Mark packet = out_.Open(kTracePacket, bytes + kMaxVarintBytes);
  out_.Bytes(packet_field, message, bytes);
  out_.Close(packet);
  if (!out_.overflowed()) return true;
  out_.CutTo(start);
  ++packets_left_out_;
  return false;
}

}  // namespace gpuprobe::proto

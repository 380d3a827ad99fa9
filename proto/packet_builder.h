// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Builds the session's own packets (ProcessInfo, CaptureInfo, Cost, HostSamples ...) into the frame
// that is being closed; handed to WriterHooks::add_packets. Field numbers are those of
// gpuprobe.proto. Writes into fixed memory: what does not fit is left out and counted, never half
// written.
#ifndef GPUPROBE_PROTO_PACKET_BUILDER_H_
#define GPUPROBE_PROTO_PACKET_BUILDER_H_

#include <cstddef>
#include <cstdint>

#include "proto/wire.h"

namespace gpuprobe::proto {

class PacketBuilder {
 public:
  PacketBuilder(const PacketBuilder&) = delete;
  PacketBuilder& operator=(const PacketBuilder&) = delete;

  // One packet: BeginPacket(field number in Packet), fields, EndPacket. Messages may nest (4 deep).
  // A packet that does not fit, nests too deeply or is never ended is left out as a whole.
  void BeginPacket(uint32_t packet_field);
  void EndPacket();
  void BeginMessage(uint32_t field);
  void EndMessage();
  void AddUint(uint32_t field, uint64_t value);  // uint32, uint64, bool, enum; 0 is left out
  void AddInt(uint32_t field, int64_t value);    // int32, int64 (not sint); 0 is left out
  void AddString(uint32_t field,
                 const char* text);  // up to NUL (nullptr: empty); invalid UTF-8 becomes '?'
  void AddString(uint32_t field, const char* text, size_t size);
  void AddBytes(uint32_t field, const void* data, size_t size);
  // A whole packet whose message is serialised already; not between BeginPacket and EndPacket.
  // False: left out (and counted); a later frame, or a larger one, may have room for it.
  bool AddSerializedPacket(uint32_t packet_field, const void* message, size_t bytes);
  bool overflowed() const { return packets_left_out_ != 0; }
  uint32_t packets_left_out() const { return packets_left_out_; }

 private:
  friend class TraceWriter;
  static constexpr int kMaxDepth = 6;  // Trace.packet, Packet.data and 4 messages

  PacketBuilder(uint8_t* out, size_t capacity) : out_(out, capacity) {}
  void Open(uint32_t field, size_t expected_bytes);
  void Close();
  bool in_packet() const { return depth_ > 0; }
  // Drops a packet that was begun and not ended.
  void Abandon();
  size_t size() const { return out_.size(); }

  WireWriter out_;
  WireWriter::Mark open_[kMaxDepth] = {};
  int depth_ = 0;  // also counts what is nested too deeply to be written
  bool too_deep_ = false;
  uint32_t packets_left_out_ = 0;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_PACKET_BUILDER_H_

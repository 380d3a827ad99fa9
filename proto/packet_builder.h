// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Builds the session's own packets (ProcessInfo, CaptureInfo, Cost, ThreadInfo) into the frame that is
// being closed; handed to WriterHooks::add_packets. Field numbers are those of gpuprobe.proto.
// Writes into fixed memory: what does not fit is left out and counted, never half written.
#ifndef GPUPROBE_PROTO_PACKET_BUILDER_H_
#define GPUPROBE_PROTO_PACKET_BUILDER_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::proto {

class PacketBuilder {
 public:
  PacketBuilder(const PacketBuilder&) = delete;
  PacketBuilder& operator=(const PacketBuilder&) = delete;

  // One packet: BeginPacket(field number in Packet), fields, EndPacket. Messages may nest (4 deep).
  void BeginPacket(uint32_t packet_field);
  void EndPacket();
  void BeginMessage(uint32_t field);
  void EndMessage();
  void AddUint(uint32_t field, uint64_t value);   // uint32, uint64, bool, enum; 0 is left out
  void AddInt(uint32_t field, int64_t value);     // int32, int64 (not sint); 0 is left out
  void AddString(uint32_t field, const char* text);                // up to NUL; invalid UTF-8 becomes '?'
  void AddString(uint32_t field, const char* text, size_t size);
  void AddBytes(uint32_t field, const void* data, size_t size);
  bool overflowed() const { return overflowed_; }

 private:
  friend class TraceWriter;
  PacketBuilder(uint8_t* out, size_t capacity) : out_(out), capacity_(capacity) {}
  uint8_t* out_;
  size_t capacity_;
  size_t size_ = 0;
  bool overflowed_ = false;
  // The implementer adds what it needs here.
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_PACKET_BUILDER_H_

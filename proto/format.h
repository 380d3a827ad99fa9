// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Constants that the writer and the reader share. FORMAT.md is the document, gpuprobe.proto the
// schema.
#ifndef GPUPROBE_PROTO_FORMAT_H_
#define GPUPROBE_PROTO_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::proto {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kZstdMagic = 0xFD2FB528u;  // little-endian in the file: 28 B5 2F FD
inline constexpr uint32_t kZstdSkippableMagic = 0x184D2A50u;  // low 4 bits are free
// No frame may decompress to more: bounds the reader's memory against hostile files. A packed
// column of one-byte varints grows eightfold when it is parsed, so 16 MiB is at most 128 MiB of
// columns. The writer stays far below (a full frame is 1-4 MiB).
inline constexpr size_t kMaxFrameBytes = 16u << 20;
// No frame may hold more packets and dictionary entries together (libprotobuf needs some 100 bytes
// for a message that takes 2 bytes in the file).
inline constexpr size_t kMaxFrameMessages = 1u << 18;
// Nor may a batch have more records; the writer's default is 65,536.
inline constexpr size_t kMaxBatchRecords = 1u << 20;
inline constexpr size_t kMaxNameBytes = 64u << 10;  // longer names are cut
// Of NVTX ranges: an application may make up a new one each time.
inline constexpr size_t kMaxMarkerNameBytes = 256;
// Low bits of a time that stand in a bytes column of their own (gpuprobe.proto, "Split times").
inline constexpr uint32_t kTimeShift = 8;
inline constexpr char kFileSuffix[] = ".gpuprobe";

// Field numbers of Packet.data that the writer uses itself.
enum PacketField : uint32_t {
  kPacketKernels = 1,
  kPacketApi = 2,
  kPacketCopies = 3,
  kPacketSets = 4,
  kPacketSyncs = 5,
  kPacketGraphs = 6,
  kPacketOverheads = 7,
  kPacketCudaEvents = 8,
  kPacketDictionary = 9,
  kPacketFrameHeader = 10,
  kPacketMarkers = 11,
  kPacketLoss = 18,
  kPacketBlind = 19,
  kPacketEnd = 21,
  kPacketHostSamples = 23,
  kPacketUsage = 24,
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FORMAT_H_

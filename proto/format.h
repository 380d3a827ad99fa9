// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Constants that the writer and the reader share. FORMAT.md is the document, gpuprobe.proto the schema.
#ifndef GPUPROBE_PROTO_FORMAT_H_
#define GPUPROBE_PROTO_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::proto {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kZstdMagic = 0xFD2FB528u;            // little-endian in the file: 28 B5 2F FD
inline constexpr uint32_t kZstdSkippableMagic = 0x184D2A50u;   // low 4 bits are free
// No frame may decompress to more: bounds the reader's memory against hostile files.
inline constexpr size_t kMaxFrameBytes = 64u << 20;
inline constexpr char kFileSuffix[] = ".gpuprobe";

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FORMAT_H_

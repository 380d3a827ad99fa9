// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// From the bytes of a frame to a Trace message that is safe to hold. Offline side.
#ifndef GPUPROBE_PROTO_FRAME_VALIDATION_H_
#define GPUPROBE_PROTO_FRAME_VALIDATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/frame_batches.h"
#include "proto/gpuprobe.pb.h"

namespace gpuprobe::proto {

// Whether `data` (a frame, or the beginning of one) starts with a FrameHeader packet.
bool BeginsLikeFrame(std::string_view data);

// `data` without the columns of its batches: lanes, counts and all other packets, in a hundredth of
// the bytes. What is no valid protobuf comes out as it is, for ParseFrame to refuse.
std::string WithoutColumns(std::string_view data);

// nullptr, or why the frame is none. A frame with more than kMaxFrameMessages packets and
// dictionary entries is refused before libprotobuf makes objects of them.
// `batches`: nullptr, or where to decode what can be decoded without libprotobuf; these packets are
// then empty in `trace`, in their places.
const char* ParseFrame(std::string_view data, Trace* trace, FrameBatches* batches = nullptr);

// Adds what this version does not know: packets, and fields at any depth. `batches`: of ParseFrame.
void CountUnknown(const Trace& trace, const FrameBatches& batches, uint64_t* packets,
                  uint64_t* fields);

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_VALIDATION_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One zstd frame per call, with content size and checksum, in fixed memory: the context lives in
// the arena, so zstd never allocates.
#ifndef GPUPROBE_PROTO_FRAME_COMPRESSOR_H_
#define GPUPROBE_PROTO_FRAME_COMPRESSOR_H_

#include <cstddef>
#include <cstdint>

#include "proto/arena.h"

struct ZSTD_CCtx_s;

namespace gpuprobe::proto {

class FrameCompressor {
 public:
  // Memory for zstd's context at `level`.
  void TakeContext(Arena* arena, int level);
  // Memory for the output of inputs of up to `max_input_bytes`.
  void TakeOutput(Arena* arena, size_t max_input_bytes);
  // False: zstd does not accept the level or the memory.
  [[nodiscard]] bool Init();

  // Bytes of the frame at output(), 0 on an error that zstd does not document for these arguments.
  size_t Compress(const uint8_t* data, size_t size);
  const uint8_t* output() const { return output_; }

  static size_t OutputBytes(size_t input_bytes);

 private:
  ZSTD_CCtx_s* context_ = nullptr;
  uint8_t* context_memory_ = nullptr;
  size_t context_bytes_ = 0;
  uint8_t* output_ = nullptr;
  size_t output_bytes_ = 0;
  int level_ = 1;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_COMPRESSOR_H_

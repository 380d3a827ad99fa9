// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_compressor.h"

#define ZSTD_STATIC_LINKING_ONLY  // contexts in memory of ours
#include <zstd.h>

namespace gpuprobe::proto {

void FrameCompressor::TakeContext(Arena* arena, int level) {
  level_ = level;
  context_bytes_ = ZSTD_estimateCCtxSize(level);
  context_memory_ = arena->Take<uint8_t>(context_bytes_);
}

void FrameCompressor::TakeOutput(Arena* arena, size_t max_input_bytes) {
  output_bytes_ = OutputBytes(max_input_bytes);
  output_ = arena->Take<uint8_t>(output_bytes_);
}

size_t FrameCompressor::OutputBytes(size_t input_bytes) { return ZSTD_COMPRESSBOUND(input_bytes); }

bool FrameCompressor::Init() {
  context_ = ZSTD_initStaticCCtx(context_memory_, context_bytes_);
  return context_ != nullptr &&
         !ZSTD_isError(ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level_)) &&
         !ZSTD_isError(ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 1)) &&
         !ZSTD_isError(ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1));
}

size_t FrameCompressor::Compress(const uint8_t* data, size_t size) {
  const size_t written = ZSTD_compress2(context_, output_, output_bytes_, data, size);
  return ZSTD_isError(written) ? 0 : written;
}

}  // namespace gpuprobe::proto

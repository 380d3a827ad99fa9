// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_scanner.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_getFrameHeader
#include <zstd.h>

#include "proto/format.h"

namespace gpuprobe::proto {
namespace {

constexpr int kMaxWindowLog = 24;
static_assert(size_t{1} << kMaxWindowLog == kMaxFrameBytes);
// Enough input that a usual frame decompresses in one step.
constexpr size_t kInputBytes = 1u << 20;
constexpr size_t kFirstOutputBytes = 1u << 20;

}  // namespace

FileWindow::FileWindow(int fd, uint64_t file_bytes)
    : fd_(fd), file_bytes_(file_bytes), buffer_(new char[kWindowBytes]) {}

FileWindow::~FileWindow() { close(fd_); }

std::string_view FileWindow::At(uint64_t offset, size_t want) {
  if (offset >= file_bytes_) return {};
  const bool inside = offset >= begin_ && offset < begin_ + size_;
  const size_t at_hand = inside ? static_cast<size_t>(begin_ + size_ - offset) : 0;
  if (at_hand < want && offset + at_hand < file_bytes_) {
    if (at_hand != 0) std::memmove(buffer_.get(), buffer_.get() + (offset - begin_), at_hand);
    begin_ = offset;
    size_ = at_hand;
    while (size_ < kWindowBytes) {
      const uint64_t at = begin_ + size_;
      const size_t room =
          static_cast<size_t>(std::min<uint64_t>(kWindowBytes - size_, file_bytes_ - at));
      if (room == 0) break;
      const ssize_t got = pread(fd_, buffer_.get() + size_, room, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        if (got < 0) read_error_ = errno;
        file_bytes_ = at;  // shrunk, or unreadable from here on
        break;
      }
      size_ += static_cast<size_t>(got);
    }
  }
  if (offset >= begin_ + size_) return {};
  return {buffer_.get() + (offset - begin_), static_cast<size_t>(begin_ + size_ - offset)};
}

FrameScanner::FrameScanner(FileWindow* file) : file_(file), context_(ZSTD_createDCtx()) {
  ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxWindowLog);
}

FrameScanner::~FrameScanner() { ZSTD_freeDCtx(context_); }

// Grows the output buffer, keeping its contents; not initialised, so a frame that claims to be
// large costs address space alone.
bool FrameScanner::Reserve(size_t bytes) {
  if (bytes <= output_bytes_) return true;
  if (bytes > kMaxFrameBytes) return false;
  std::unique_ptr<char[]> larger(new char[bytes]);
  if (output_bytes_ != 0) std::memcpy(larger.get(), output_.get(), output_bytes_);
  output_ = std::move(larger);
  output_bytes_ = bytes;
  return true;
}

FrameScanner::Result FrameScanner::Decompress(uint64_t offset) {
  ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
  const std::string_view head = file_->At(offset, kInputBytes);
  ZSTD_frameHeader header;
  const size_t missing = ZSTD_getFrameHeader(&header, head.data(), head.size());
  if (ZSTD_isError(missing)) return {Status::kCorrupt, 4, {}, ZSTD_getErrorName(missing)};
  if (missing != 0) return {Status::kIncomplete, head.size(), {}, "ends in the frame header"};
  size_t expected = kFirstOutputBytes;
  if (header.frameContentSize != ZSTD_CONTENTSIZE_UNKNOWN) {
    if (header.frameContentSize > kMaxFrameBytes)
      return {Status::kTooLarge, 4, {}, "frame too large"};
    expected = static_cast<size_t>(header.frameContentSize);
  }
  Reserve(std::max(expected, size_t{1}));

  ZSTD_outBuffer out = {output_.get(), output_bytes_, 0};
  uint64_t at = offset;
  for (;;) {
    const std::string_view chunk = file_->At(at, kInputBytes);
    ZSTD_inBuffer in = {chunk.data(), chunk.size(), 0};
    const size_t before = out.pos;
    const size_t result = ZSTD_decompressStream(context_, &out, &in);
    at += in.pos;
    const std::string_view data(output_.get(), out.pos);
    if (ZSTD_isError(result))
      return {Status::kCorrupt, at - offset, data, ZSTD_getErrorName(result)};
    if (result == 0) return {Status::kGood, at - offset, data, ""};
    if (out.pos == out.size) {
      if (!Reserve(std::min(2 * output_bytes_, kMaxFrameBytes)) || out.pos == output_bytes_) {
        return {Status::kTooLarge, at - offset, data, "frame too large"};
      }
      out.dst = output_.get();
      out.size = output_bytes_;
    } else if (in.pos == in.size && at >= file_->file_bytes()) {
      return {Status::kIncomplete, at - offset, data, "ends inside the frame"};
    } else if (in.pos == 0 && out.pos == before) {
      return {Status::kCorrupt, at - offset, data, "no progress"};
    }
  }
}

uint64_t FrameScanner::FindMagic(uint64_t offset, uint64_t limit) {
  static constexpr char kMagic[] = {'\x28', '\xb5', '\x2f', '\xfd'};
  static_assert(kZstdMagic == 0xFD2FB528u);
  while (offset < limit) {
    const std::string_view chunk = file_->At(offset, sizeof(kMagic));
    if (chunk.size() < sizeof(kMagic)) return limit;
    const size_t found = chunk.find(std::string_view(kMagic, sizeof(kMagic)));
    if (found != std::string_view::npos) return std::min(offset + found, limit);
    offset += chunk.size() - (sizeof(kMagic) - 1);
  }
  return limit;
}

uint64_t FrameScanner::SkipZeros(uint64_t offset) {
  while (offset < file_->file_bytes()) {
    const std::string_view chunk = file_->At(offset, 1);
    if (chunk.empty()) break;
    const size_t found = chunk.find_first_not_of('\0');
    if (found != std::string_view::npos) return offset + found;
    offset += chunk.size();
  }
  return file_->file_bytes();
}

}  // namespace gpuprobe::proto

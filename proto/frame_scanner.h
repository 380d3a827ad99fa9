// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Finds and decompresses the zstd frames of a file through a window of fixed size; knows nothing of
// what they hold. Offline side, one thread.
#ifndef GPUPROBE_PROTO_FRAME_SCANNER_H_
#define GPUPROBE_PROTO_FRAME_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct ZSTD_DCtx_s;

namespace gpuprobe::proto {

// Reads a file of known size with pread. A file that has shrunk reads as if it ended there.
class FileWindow {
 public:
  // `fd` is closed with the window.
  FileWindow(int fd, uint64_t file_bytes);
  ~FileWindow();
  FileWindow(const FileWindow&) = delete;
  FileWindow& operator=(const FileWindow&) = delete;

  // Bytes from `offset` on, as many as are at hand but at least `want` unless the file ends before
  // (want <= kWindowBytes / 2). Valid until the next call.
  std::string_view At(uint64_t offset, size_t want);
  uint64_t file_bytes() const { return file_bytes_; }
  int read_error() const { return read_error_; }  // errno of a pread that failed, 0: none

  static constexpr size_t kWindowBytes = 2u << 20;

 private:
  int fd_;
  uint64_t file_bytes_;
  std::unique_ptr<char[]> buffer_;
  uint64_t begin_ = 0;  // file offset of buffer_[0]
  size_t size_ = 0;
  int read_error_ = 0;
};

class FrameScanner {
 public:
  enum class Status {
    kGood,
    kIncomplete,  // the file ends inside it
    kCorrupt,
    kTooLarge,  // decompresses to more than kMaxFrameBytes, or claims to
  };
  struct Result {
    Status status;
    uint64_t bytes;         // compressed: of the frame if good, else up to where it went wrong
    std::string_view data;  // decompressed, as far as it went; valid until the next Decompress
    const char* error;      // why it is not good
  };

  explicit FrameScanner(FileWindow* file);
  ~FrameScanner();
  FrameScanner(const FrameScanner&) = delete;
  FrameScanner& operator=(const FrameScanner&) = delete;

  // The frame at `offset`, where a zstd magic stands.
  Result Decompress(uint64_t offset);
  // Offset of the next zstd magic in [offset, limit), or `limit`.
  uint64_t FindMagic(uint64_t offset, uint64_t limit);
  // Offset of the first byte at or after `offset` that is not zero, or the end of the file.
  uint64_t SkipZeros(uint64_t offset);

 private:
  bool Reserve(size_t bytes);

  FileWindow* file_;
  ZSTD_DCtx_s* context_;
  std::unique_ptr<char[]> output_;
  size_t output_bytes_ = 0;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_SCANNER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/text/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kBlockBytes = 256 << 10;  // stays in the second-level cache between the threads
constexpr size_t kQueuedBlocks = 8;
constexpr size_t kListedProblems = 100;
constexpr int kGzipWindow = 15 + 16;  // zlib: largest window, gzip header wanted

// kBlockBytes of memory, of which `size` are filled.
struct Block {
  std::unique_ptr<char[]> data;
  size_t size = 0;
};

// Blocks from the unpacking thread to the parsing one.
class BlockQueue {
 public:
  // False: the reader has gone.
  bool Push(Block block) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return blocks_.size() < kQueuedBlocks || abandoned_; });
    if (abandoned_) return false;
    blocks_.push_back(std::move(block));
    filled_.notify_one();
    return true;
  }
  // An empty block that was used before, or a new one.
  Block Empty() {
    std::unique_lock lock(mutex_);
    // for_overwrite: zeros would only be written over.
    if (spare_.empty()) return {std::make_unique_for_overwrite<char[]>(kBlockBytes), 0};
    Block block = std::move(spare_.back());
    spare_.pop_back();
    block.size = 0;
    return block;
  }
  // Swaps a used block for the next; false: there is none and will be none.
  bool Pop(Block* block) {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !blocks_.empty() || closed_; });
    if (blocks_.empty()) return false;
    if (block->data != nullptr) spare_.push_back(std::move(*block));
    *block = std::move(blocks_.front());
    blocks_.pop_front();
    room_.notify_one();
    return true;
  }
  void Close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    filled_.notify_one();
  }
  void Abandon() {
    std::unique_lock lock(mutex_);
    abandoned_ = true;
    room_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<Block> blocks_;
  std::vector<Block> spare_;
  bool closed_ = false, abandoned_ = false;
};

// The packed file, in pieces.
class PackedFile {
 public:
  PackedFile(int fd, std::atomic<uint64_t>* consumed)
      : fd_(fd), consumed_(consumed), piece_(kBlockBytes, '\0') {}

  // What is left of the piece; reads the next one where nothing is. Empty: the end.
  std::string_view Rest() {
    if (at_ == size_) {
      const ssize_t got = ReadAt(piece_.data(), piece_.size());
      if (got < 0) error_ = errno;
      at_ = 0;
      size_ = got > 0 ? static_cast<size_t>(got) : 0;
    }
    return std::string_view(piece_).substr(at_, size_ - at_);
  }
  void Take(size_t bytes) { at_ += bytes; }
  // Straight into a block, for files that are not packed.
  size_t Read(char* out, size_t capacity) {
    const ssize_t got = ReadAt(out, capacity);
    if (got < 0) error_ = errno;
    return got > 0 ? static_cast<size_t>(got) : 0;
  }
  uint64_t offset() const { return file_at_ - (size_ - at_); }
  int error() const { return error_; }

 private:
  ssize_t ReadAt(char* out, size_t capacity) {
    ssize_t got;
    do {
      got = read(fd_, out, capacity);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
      file_at_ += static_cast<uint64_t>(got);
      consumed_->store(file_at_, std::memory_order_relaxed);  // a figure for the progress bar
    }
    return got;
  }

  int fd_;
  std::atomic<uint64_t>* consumed_;
  std::string piece_;
  size_t at_ = 0, size_ = 0;
  uint64_t file_at_ = 0;
  int error_ = 0;
};

// Unpacks one stream format piece by piece. After an error it goes on at the next place that looks
// like the beginning of a member (gzip) or frame (zstd).
class Unpacker {
 public:
  enum class Result { kGoOn, kMemberEnd, kError };
  virtual ~Unpacker() = default;
  // Takes from the front of `in` and appends to `out` up to its capacity; `taken`: how much.
  virtual Result Step(std::string_view in, size_t* taken, char* out, size_t capacity,
                      size_t* made) = 0;
  virtual void Restart() = 0;
  virtual std::string_view magic() const = 0;
  virtual const char* member() const = 0;
};

class Gunzip : public Unpacker {
 public:
  Gunzip() { ok_ = inflateInit2(&stream_, kGzipWindow) == Z_OK; }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() override { inflateEnd(&stream_); }

  Result Step(std::string_view in, size_t* taken, char* out, size_t capacity,
              size_t* made) override {
    if (!ok_) return Result::kError;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(capacity);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    *taken = in.size() - stream_.avail_in;
    *made = capacity - stream_.avail_out;
    if (result == Z_STREAM_END) return Result::kMemberEnd;
    return result == Z_OK || result == Z_BUF_ERROR ? Result::kGoOn : Result::kError;
  }
  void Restart() override { inflateReset(&stream_); }
  std::string_view magic() const override { return "\x1f\x8b\x08"; }
  const char* member() const override { return "gzip member"; }

 private:
  z_stream stream_ = {};
  bool ok_ = false;
};

class Unzstd : public Unpacker {
 public:
  Unzstd() : stream_(ZSTD_createDStream()) {}
  Unzstd(const Unzstd&) = delete;
  Unzstd& operator=(const Unzstd&) = delete;
  ~Unzstd() override { ZSTD_freeDStream(stream_); }

  Result Step(std::string_view in, size_t* taken, char* out, size_t capacity,
              size_t* made) override {
    ZSTD_inBuffer from = {in.data(), in.size(), 0};
    ZSTD_outBuffer to = {out, capacity, 0};
    const size_t result =
        stream_ == nullptr ? size_t{0} - 1 : ZSTD_decompressStream(stream_, &to, &from);
    *taken = from.pos;
    *made = to.pos;
    if (ZSTD_isError(result)) return Result::kError;
    return result == 0 ? Result::kMemberEnd : Result::kGoOn;
  }
  void Restart() override { ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only); }
  std::string_view magic() const override { return "\x28\xb5\x2f\xfd"; }
  const char* member() const override { return "zstd frame"; }

 private:
  ZSTD_DStream* stream_;
};

class ThreadedSource : public ByteSource {
 public:
  ThreadedSource(int fd, uint64_t file_bytes, Packing packing)
      : fd_(fd), file_bytes_(file_bytes), packing_(packing), thread_([this] { Run(); }) {}
  ThreadedSource(const ThreadedSource&) = delete;
  ThreadedSource& operator=(const ThreadedSource&) = delete;
  ~ThreadedSource() override {
    queue_.Abandon();
    thread_.join();
    close(fd_);
  }

  size_t Read(char* out, size_t capacity) override {
    if (at_ == block_.size) {
      if (!queue_.Pop(&block_)) return 0;
      at_ = 0;
    }
    const size_t size = std::min(capacity, block_.size - at_);
    std::memcpy(out, block_.data.get() + at_, size);
    at_ += size;
    return size;
  }

  uint64_t file_bytes() const override { return file_bytes_; }
  uint64_t consumed_bytes() const override { return consumed_.load(std::memory_order_relaxed); }
  const std::vector<UnpackProblem>& problems() const override { return problems_; }

 private:
  void Run() {
    PackedFile file(fd_, &consumed_);
    if (packing_ == Packing::kPlain) {
      CopyPlain(&file);
    } else if (packing_ == Packing::kGzip) {
      Gunzip unpacker;
      Unpack(&file, &unpacker);
    } else {
      Unzstd unpacker;
      Unpack(&file, &unpacker);
    }
    if (file.error() != 0) {
      AddProblem({file.offset(), file_bytes_ > file.offset() ? file_bytes_ - file.offset() : 0,
                  true, std::strerror(file.error())});
    }
    queue_.Close();
  }

  void CopyPlain(PackedFile* file) {
    for (;;) {
      Block block = queue_.Empty();
      block.size = file->Read(block.data.get(), kBlockBytes);
      if (block.size == 0 || !queue_.Push(std::move(block))) return;
    }
  }

  void Unpack(PackedFile* file, Unpacker* unpacker) {
    Block block = queue_.Empty();
    const auto flush = [&] {
      if (block.size == 0) return true;
      const bool wanted = queue_.Push(std::move(block));
      block = queue_.Empty();
      return wanted;
    };
    bool inside = false;  // of a member
    for (;;) {
      const std::string_view in = file->Rest();
      size_t taken = 0, made = 0;
      const auto result = unpacker->Step(in, &taken, block.data.get() + block.size,
                                         kBlockBytes - block.size, &made);
      file->Take(taken);
      block.size += made;
      inside |= taken > 0;
      if (block.size == kBlockBytes && !flush()) return;
      if (result == Unpacker::Result::kMemberEnd) {
        unpacker->Restart();
        inside = false;
        SkipPadding(file);
        if (file->Rest().empty()) break;
      } else if (result == Unpacker::Result::kError) {
        unpacker->Restart();
        inside = false;
        const uint64_t offset = file->offset();
        const bool found = FindMember(file, unpacker->magic());
        AddProblem({offset, file->offset() - offset, !found,
                    absl::StrCat("no valid ", unpacker->member(), " at offset ", offset)});
        if (!found) break;
      } else if (in.empty() && made == 0) {
        if (inside) {
          AddProblem({file->offset(), 0, true,
                      absl::StrCat("the file ends inside a ", unpacker->member())});
        }
        break;
      }
    }
    flush();
  }

  // Zeros after a member are padding (tapes, block devices), no damage.
  static void SkipPadding(PackedFile* file) {
    for (;;) {
      const std::string_view rest = file->Rest();
      if (rest.empty()) return;
      const size_t padding = std::min(rest.find_first_not_of('\0'), rest.size());
      file->Take(padding);
      if (padding < rest.size()) return;
    }
  }

  // Moves to the next `magic` that does not stand right here. False: there is none.
  static bool FindMember(PackedFile* file, std::string_view magic) {
    for (;;) {
      const std::string_view rest = file->Rest();
      if (rest.empty()) return false;
      // A magic across two pieces is missed: one member more of a file that is damaged anyway.
      const size_t at = rest.find(magic, 1);
      if (at != std::string_view::npos) {
        file->Take(at);
        return true;
      }
      file->Take(rest.size());
    }
  }

  void AddProblem(UnpackProblem problem) {
    if (problems_.size() < kListedProblems) {
      problems_.push_back(std::move(problem));
    } else {
      problems_.back().bytes += problem.bytes;
      problems_.back().at_end |= problem.at_end;
    }
  }

  int fd_;
  uint64_t file_bytes_;
  Packing packing_;
  std::atomic<uint64_t> consumed_{0};
  std::vector<UnpackProblem> problems_;  // the thread's, until the queue is closed
  BlockQueue queue_;
  Block block_;
  size_t at_ = 0;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path,
                                                             Packing packing) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<ThreadedSource>(fd, static_cast<uint64_t>(info.st_size), packing);
}

}  // namespace gpuprobe::tools

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/trace_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/format.h"
#include "proto/frame_scanner.h"
#include "proto/frame_validation.h"

namespace gpuprobe::proto {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kSkippableHeaderBytes = 8;
constexpr size_t kShownBytes = 16;  // of a file that is no trace, in the message
// How far Open looks for a trace in a file that does not begin with one: more than any frame.
constexpr uint64_t kMaxForeignPrefixBytes = 64u << 20;
// While looking for the next good frame, candidates that turn out bad may cost this much, per byte
// covered and once; then whole candidates are stepped over instead of searched. Honest damage stays
// far below; files made of nested half-frames would otherwise take quadratic time.
constexpr uint64_t kResyncWorkPerByte = 32;
constexpr uint64_t kResyncWorkBytes = 64u << 20;
constexpr size_t kMaxListedDamage = 10000;
// Sequence holes remembered per file_id, so that frames which come late can fill them.
constexpr size_t kMaxHoles = 4096;
constexpr size_t kMaxFileIds = 4096;

uint32_t Little32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

bool IsSkippable(uint32_t magic) { return (magic & 0xfffffff0u) == kZstdSkippableMagic; }

// What a person may recognise in the first bytes of a file that is no trace.
std::string DescribeStart(std::string_view head) {
  static constexpr struct {
    std::string_view start;
    std::string_view name;
  } kKnown[] = {{"\x89PNG", "a PNG image"},
                {"\x1f\x8b", "gzip data"},
                {"\x7f"
                 "ELF",
                 "an ELF object"},
                {"SQLite format 3", "an SQLite database"},
                {"{", "JSON or the like"},
                {"PK\x03\x04", "a zip archive"}};
  for (const auto& known : kKnown) {
    if (head.starts_with(known.start)) return std::string(known.name);
  }
  head = head.substr(0, kShownBytes);
  return absl::StrCat("\"", absl::CHexEscape({head.data(), head.size()}), "\"");
}

class TraceReaderImpl final : public TraceReader {
 public:
  TraceReaderImpl(std::string path, int fd, uint64_t file_bytes, Batches batches)
      : path_(std::move(path)),
        batches_(batches),
        file_(fd, file_bytes),
        scanner_(&file_),
        opened_bytes_(file_bytes) {}

  absl::Status Prime();

  bool Next(Frame* frame) override;
  const std::vector<Damage>& damage() const override { return damage_; }
  const ReaderCounts& counts() const override { return counts_; }
  bool ended() const override;
  const std::string& path() const override { return path_; }
  uint64_t file_bytes() const override { return opened_bytes_; }

 private:
  struct Hole {
    uint64_t end;         // sequence numbers [key, end) are missing
    size_t damage_index;  // its entry in damage_, kNotListed
  };
  // What is known of the frames of one file_id.
  struct Source {
    uint64_t next_sequence = 0;
    std::map<uint64_t, Hole> holes;
    int64_t last_ns = 0;
    bool ended = false;
    bool too_many_holes = false;
  };
  enum class Attempt { kGood, kIncomplete, kCorrupt };
  static constexpr size_t kNotListed = SIZE_MAX;

  // Decompresses and parses the frame at `offset`, where a magic stands.
  Attempt TryFrame(uint64_t offset, Frame* frame);
  bool ReadFrame(Frame* frame);
  // Damaged bytes from `offset` on: finds the next good frame before `limit`, notes the damage.
  bool Resynchronise(uint64_t offset, uint64_t limit, Damage::Kind kind, std::string detail,
                     Frame* frame);
  // Books a good frame. False: a duplicate.
  bool Account(const Frame& frame);
  void AccountHole(Source* source, uint64_t sequence, uint64_t offset, int64_t next_ns);
  bool FillHole(Source* source, uint64_t sequence);
  size_t AddDamage(Damage damage);
  void CloseTimeRanges(int64_t next_ns);
  void FinishDamage();

  std::string path_;
  const Batches batches_;
  FileWindow file_;
  FrameScanner scanner_;
  uint64_t opened_bytes_;
  uint64_t offset_ = 0;
  bool done_ = false;
  bool have_first_ = false;
  Frame first_;                    // read by Prime
  uint64_t attempt_bytes_ = 0;     // of the last TryFrame: compressed and decompressed
  uint64_t attempt_consumed_ = 0;  //   compressed
  bool attempt_is_trace_ =
      false;  //   what came out began like a trace, or it was damaged before that
  std::string attempt_error_;

  std::vector<Damage> damage_;
  size_t open_damage_ = 0;            // entries from here on wait for their end_ns
  size_t bytes_damage_ = kNotListed;  // damaged bytes met since the last good frame
  int64_t last_good_ns_ = 0;
  std::map<uint64_t, Source> sources_;
  ReaderCounts counts_;
};

TraceReaderImpl::Attempt TraceReaderImpl::TryFrame(uint64_t offset, Frame* frame) {
  const FrameScanner::Result result = scanner_.Decompress(offset);
  attempt_bytes_ = result.bytes + result.data.size();
  attempt_consumed_ = result.bytes;
  const bool nothing_came_out =
      result.data.empty() && (result.status == FrameScanner::Status::kIncomplete ||
                              result.status == FrameScanner::Status::kCorrupt);
  attempt_is_trace_ = nothing_came_out || BeginsLikeFrame(result.data);
  attempt_error_ = result.error;
  if (result.status == FrameScanner::Status::kIncomplete) return Attempt::kIncomplete;
  if (result.status != FrameScanner::Status::kGood) return Attempt::kCorrupt;
  const char* error = batches_ == Batches::kNone
                          ? ParseFrame(WithoutColumns(result.data), &frame->trace)
                          : ParseFrame(result.data, &frame->trace,
                                       batches_ == Batches::kColumns ? &frame->batches : nullptr);
  if (error != nullptr) {
    attempt_error_ = error;
    return Attempt::kCorrupt;
  }
  frame->offset = offset;
  frame->bytes = result.bytes;
  return Attempt::kGood;
}

bool TraceReaderImpl::ReadFrame(Frame* frame) {
  while (offset_ < file_.file_bytes()) {
    const std::string_view head = file_.At(offset_, kSkippableHeaderBytes);
    if (head.empty()) break;
    if (head.size() >= kMagicBytes && Little32(head) == kZstdMagic) {
      const Attempt attempt = TryFrame(offset_, frame);
      if (attempt == Attempt::kGood) return true;
      return Resynchronise(
          offset_, sources_.empty() && !attempt_is_trace_ ? kMaxForeignPrefixBytes : UINT64_MAX,
          attempt == Attempt::kIncomplete ? Damage::Kind::kTornTail : Damage::Kind::kCorrupt,
          attempt_error_, frame);
    }
    if (head.size() >= kSkippableHeaderBytes && IsSkippable(Little32(head))) {
      const uint64_t bytes = kSkippableHeaderBytes + uint64_t{Little32(head.substr(4))};
      if (bytes <= file_.file_bytes() - offset_) {
        ++counts_.skippable_frames;
        offset_ += bytes;
        continue;
      }
      return Resynchronise(offset_, UINT64_MAX, Damage::Kind::kTornTail,
                           "ends inside a skippable frame", frame);
    }
    const uint64_t first_non_zero = scanner_.SkipZeros(offset_);
    if (first_non_zero == file_.file_bytes()) {
      return Resynchronise(offset_, 0, Damage::Kind::kTornTail, "zeros", frame);
    }
    static constexpr std::string_view kMagicText = "\x28\xb5\x2f\xfd";
    const std::string_view start = file_.At(offset_, kShownBytes);
    if (start.size() < kMagicBytes && kMagicText.starts_with(start)) {
      return Resynchronise(offset_, 0, Damage::Kind::kTornTail, "ends inside the magic number",
                           frame);
    }
    return Resynchronise(offset_, sources_.empty() ? kMaxForeignPrefixBytes : UINT64_MAX,
                         Damage::Kind::kForeignData, DescribeStart(start), frame);
  }
  return false;
}

bool TraceReaderImpl::Resynchronise(uint64_t offset, uint64_t limit, Damage::Kind kind,
                                    std::string detail, Frame* frame) {
  limit = std::min(limit, file_.file_bytes());
  uint64_t work = 0;
  bool found = false;
  uint64_t at = scanner_.FindMagic(offset + 1, limit);
  while (at < limit) {
    const Attempt attempt = TryFrame(at, frame);
    if (attempt == Attempt::kGood) {
      found = true;
      break;
    }
    work += attempt_bytes_;
    const bool exhausted = work > kResyncWorkBytes + kResyncWorkPerByte * (at - offset);
    at = scanner_.FindMagic(at + (exhausted ? std::max<uint64_t>(attempt_consumed_, 1) : 1), limit);
  }
  const uint64_t end = found ? at : file_.file_bytes();
  if (found && kind == Damage::Kind::kTornTail)
    kind = Damage::Kind::kCorrupt;  // torn, but not the tail
  bytes_damage_ = AddDamage({kind, offset, end - offset, last_good_ns_, 0, 0, std::move(detail)});
  offset_ = end;
  return found;
}

size_t TraceReaderImpl::AddDamage(Damage damage) {
  if (damage_.size() >= kMaxListedDamage) {
    ++counts_.damage_not_listed;
    return kNotListed;
  }
  damage_.push_back(std::move(damage));
  return damage_.size() - 1;
}

void TraceReaderImpl::CloseTimeRanges(int64_t next_ns) {
  for (; open_damage_ < damage_.size(); ++open_damage_) damage_[open_damage_].end_ns = next_ns;
}

void TraceReaderImpl::AccountHole(Source* source, uint64_t sequence, uint64_t offset,
                                  int64_t next_ns) {
  const uint64_t frames = sequence - source->next_sequence;
  size_t index = bytes_damage_;
  if (index != kNotListed && damage_[index].frames == 0) {
    damage_[index].frames = frames;
  } else {
    index = AddDamage({Damage::Kind::kMissing, offset, 0, source->last_ns, next_ns, frames,
                       "hole in the sequence"});
  }
  if (source->holes.size() < kMaxHoles) {
    source->holes[source->next_sequence] = {sequence, index};
  } else {
    source->too_many_holes = true;
  }
}

bool TraceReaderImpl::FillHole(Source* source, uint64_t sequence) {
  auto it = source->holes.upper_bound(sequence);
  if (it == source->holes.begin()) return source->too_many_holes;
  --it;
  const auto [begin, hole] = *it;
  if (sequence >= hole.end) return source->too_many_holes;  // rather a duplicate than a loss
  source->holes.erase(it);
  if (begin < sequence) source->holes[begin] = {sequence, hole.damage_index};
  if (sequence + 1 < hole.end) source->holes[sequence + 1] = hole;
  if (hole.damage_index != kNotListed) --damage_[hole.damage_index].frames;
  return true;
}

bool TraceReaderImpl::Account(const Frame& frame) {
  const FrameHeader& header = frame.header();
  const int64_t first_ns = header.first_ns() != 0 ? header.first_ns() : header.written_ns();
  const int64_t last_ns = header.last_ns() != 0 ? header.last_ns() : header.written_ns();
  // A file with more traces in it than that is none that anybody made: the rest counts as one.
  const bool known = sources_.size() < kMaxFileIds || sources_.count(header.file_id()) != 0;
  Source& source = sources_[known ? header.file_id() : 0];
  const uint64_t sequence = header.sequence();
  CloseTimeRanges(first_ns);
  bool fresh = true;
  if (sequence >= source.next_sequence) {
    if (sequence > source.next_sequence) AccountHole(&source, sequence, frame.offset, first_ns);
    open_damage_ = damage_.size();  // a hole's range is complete already
    source.next_sequence = sequence == UINT64_MAX ? sequence : sequence + 1;
  } else {
    fresh = FillHole(&source, sequence);
  }
  bytes_damage_ = kNotListed;
  if (!fresh) {
    ++counts_.duplicate_frames;
    return false;
  }
  source.last_ns = std::max(source.last_ns, last_ns);
  last_good_ns_ = last_ns;
  ++counts_.frames;
  counts_.packets += static_cast<uint64_t>(frame.trace.packet_size());
  if (header.format_version() > kFormatVersion) ++counts_.newer_frames;
  CountUnknown(frame.trace, frame.batches, &counts_.unknown_packets, &counts_.unknown_fields);
  for (const Packet& packet : frame.trace.packet()) source.ended |= packet.has_end();
  return true;
}

void TraceReaderImpl::FinishDamage() {
  done_ = true;
  const bool torn = !damage_.empty() && damage_.back().kind == Damage::Kind::kTornTail;
  damage_.erase(std::remove_if(damage_.begin(), damage_.end(),
                               [](const Damage& d) {
                                 return d.kind == Damage::Kind::kMissing && d.frames == 0;
                               }),
                damage_.end());
  if (file_.read_error() != 0) {
    AddDamage({Damage::Kind::kCorrupt, file_.file_bytes(), opened_bytes_ - file_.file_bytes(),
               last_good_ns_, 0, 0, absl::StrCat("cannot be read: errno ", file_.read_error())});
  } else if (file_.file_bytes() < opened_bytes_) {
    AddDamage({Damage::Kind::kTornTail, file_.file_bytes(), opened_bytes_ - file_.file_bytes(),
               last_good_ns_, 0, 0, "the file became shorter while it was read"});
  }
  for (const auto& [file_id, source] : sources_) {
    if (source.ended || (torn && sources_.size() == 1)) continue;
    AddDamage({Damage::Kind::kNoEnd, file_.file_bytes(), 0, source.last_ns, 0, 0, "no End packet"});
  }
}

bool TraceReaderImpl::Next(Frame* frame) {
  if (have_first_) {
    have_first_ = false;
    *frame = std::move(first_);
    return true;
  }
  while (!done_) {
    if (!ReadFrame(frame)) {
      FinishDamage();
      return false;
    }
    offset_ = frame->offset + frame->bytes;
    if (Account(*frame)) return true;
  }
  return false;
}

bool TraceReaderImpl::ended() const {
  if (sources_.empty()) return false;
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const auto& s) { return s.second.ended; });
}

// Reads up to the first good frame, to tell a trace from another file.
absl::Status TraceReaderImpl::Prime() {
  have_first_ = Next(&first_);
  if (have_first_ || opened_bytes_ == 0) return absl::OkStatus();
  // No good frame. Damage at the very beginning tells what the file is.
  if (damage_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": no gpuprobe trace: holds no data frame"));
  }
  const Damage& start = damage_.front();
  const std::string_view head = file_.At(start.offset, kShownBytes);
  if (start.kind == Damage::Kind::kForeignData) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": no gpuprobe trace: at offset ",
                                                   start.offset, " stands ", DescribeStart(head)));
  }
  if (head.size() >= kMagicBytes && Little32(head) == kZstdMagic) {
    Frame ignored;
    TryFrame(start.offset, &ignored);
    if (!attempt_is_trace_) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": no gpuprobe trace: at offset ", start.offset,
                       " stands zstd data that does not begin with a FrameHeader"));
    }
  }
  return absl::OkStatus();
}

const char* FileTypeName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": no gpuprobe trace: is ", FileTypeName(mode)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path,
                                                               Batches batches) {
  struct stat info;
  // Looked at before it is opened: opening a device or a FIFO may have effects of its own.
  if (stat(path.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {  // replaced in between
    close(fd);
    return NotRegular(path, info.st_mode);
  }
  auto reader =
      std::make_unique<TraceReaderImpl>(path, fd, static_cast<uint64_t>(info.st_size), batches);
  if (absl::Status status = reader->Prime(); !status.ok()) return status;
  return reader;
}

}  // namespace gpuprobe::proto

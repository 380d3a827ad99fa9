// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads trace files frame by frame, in constant memory, also torn, growing and damaged ones.
// Offline side. Not thread-safe; one reader per file. The file is read with pread, never mapped, so
// that a file that shrinks cannot kill the reader. What the file had when it was opened is what is
// read: to follow a growing file, open it again.
//
// Damage. A frame that does not decompress, fails its checksum, or does not begin with a
// FrameHeader is left out, and so is everything up to the next place where a whole good frame
// stands; reading goes on there. The work of looking for that place is proportional to the bytes
// that it covers; in a file made to provoke more, good frames may be stepped over with the bad.
// Every lost stretch is in damage(): undamaged content is never dropped silently, and damaged
// content never delivered.
//
// Several traces in one file (`cat a b`) are told apart by their file_id; holes are judged for
// each. A frame that was delivered before (same file_id and sequence) is skipped and counted.
#ifndef GPUPROBE_PROTO_TRACE_READER_H_
#define GPUPROBE_PROTO_TRACE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/frame_batches.h"
#include "proto/gpuprobe.pb.h"

namespace gpuprobe::proto {

// A stretch of the file that could not be used.
struct Damage {
  enum class Kind {
    // The last frame is incomplete, or zeros up to the end: the writer was killed, or is still
    // writing, or the machine went down.
    kTornTail,
    kCorrupt,      // checksum, decompression or protobuf error
    kMissing,      // a hole in the sequence numbers that no damaged bytes account for; bytes = 0
    kForeignData,  // bytes that are no zstd frame
    // Healthy, but not closed: killed, or still running; bytes = 0. One for each file_id, but not
    // where a torn tail says so already.
    kNoEnd,
  };
  Kind kind;
  uint64_t offset;  // in the file
  uint64_t bytes;
  // Trace time between the neighbouring good frames; 0: open on that side.
  int64_t begin_ns, end_ns;
  uint64_t frames;  // the hole in the sequence numbers at this place; 0: none, or not known
  std::string detail;
};

struct Frame {
  uint64_t offset, bytes;  // compressed, in the file
  Trace trace;             // packet(0) holds the FrameHeader
  // Opened with Batches::kColumns: what of its batches is decoded already. Those packets are empty
  // in `trace`.
  FrameBatches batches;
  const FrameHeader& header() const { return trace.packet(0).frame_header(); }
};

struct ReaderCounts {
  uint64_t frames = 0, packets = 0, unknown_packets = 0, unknown_fields = 0, skippable_frames = 0;
  uint64_t duplicate_frames = 0;   // skipped
  uint64_t newer_frames = 0;       // delivered, of a format_version above kFormatVersion
  uint64_t damage_not_listed = 0;  // damaged stretches beyond those in damage()
};

class TraceReader {
 public:
  // How the batches of a frame come. kNone: only their lanes and counts, five times as fast; a
  // frame that is damaged only in their columns, and yet has a good checksum, does not show.
  enum class Batches { kMessages, kColumns, kNone };

  // NotFound: no such file. InvalidArgument: exists, but is no gpuprobe trace (message names the
  // file, the offset and what stands there); also FIFOs, sockets, directories and devices, without
  // blocking. PermissionDenied and others: as open(2) says. A file that is empty, all zeros, or
  // whose first frame is damaged opens; a foreign file is searched for a good frame in its first 64
  // MiB only.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path,
                                                           Batches batches = Batches::kMessages);
  virtual ~TraceReader() = default;

  // The next good frame, or false at the end. Damage met on the way is in damage().
  virtual bool Next(Frame* frame) = 0;

  virtual const std::vector<Damage>& damage() const = 0;  // complete once Next returned false
  virtual const ReaderCounts& counts() const = 0;
  virtual bool ended() const = 0;  // an End packet was seen for every file_id (and there is one)
  virtual const std::string& path() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_TRACE_READER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads trace files frame by frame, in constant memory, also torn, growing and damaged ones. Offline side.
// Not thread-safe; one reader per file. The file is read with pread, never mapped, so that a file that
// shrinks cannot kill the reader.
#ifndef GPUPROBE_PROTO_TRACE_READER_H_
#define GPUPROBE_PROTO_TRACE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/gpuprobe.pb.h"

namespace gpuprobe::proto {

// A stretch of the file that could not be used.
struct Damage {
  enum class Kind {
    kTornTail,      // the last frame is incomplete: the writer was killed, or is still writing
    kCorrupt,       // checksum, decompression or protobuf error
    kMissing,       // a hole in the sequence numbers; bytes = 0
    kForeignData,   // bytes that are no zstd frame
    kNoEnd,         // healthy, but not closed: killed, or still running; bytes = 0
  };
  Kind kind;
  uint64_t offset;  // in the file
  uint64_t bytes;
  int64_t begin_ns, end_ns;  // trace time between the neighbouring good frames; 0: open on that side
  uint64_t frames;  // kMissing: how many
  std::string detail;
};

struct Frame {
  uint64_t offset, bytes;    // compressed, in the file
  Trace trace;               // packet(0) holds the FrameHeader
  const FrameHeader& header() const { return trace.packet(0).frame_header(); }
};

struct ReaderCounts {
  uint64_t frames = 0, packets = 0, unknown_packets = 0, unknown_fields = 0, skippable_frames = 0;
};

class TraceReader {
 public:
  // NotFound: no such file. InvalidArgument: exists, but is no gpuprobe trace (message names the file, the
  // offset and what stands there). An empty file opens and has no frames. FIFOs, sockets, directories and
  // devices are refused without blocking.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);
  virtual ~TraceReader() = default;

  // The next good frame, or false at the end. Damage met on the way is in damage().
  virtual bool Next(Frame* frame) = 0;

  virtual const std::vector<Damage>& damage() const = 0;   // complete once Next returned false
  virtual const ReaderCounts& counts() const = 0;
  virtual bool ended() const = 0;      // an End packet was seen
  virtual const std::string& path() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_TRACE_READER_H_

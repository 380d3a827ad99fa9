// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads traces in tests: whole files from memory, and their records as a RecordLog.
#ifndef GPUPROBE_TESTS_PROTO_TRACE_LOG_H_
#define GPUPROBE_TESTS_PROTO_TRACE_LOG_H_

#include <string>
#include <vector>

#include "proto/columns.h"
#include "proto/trace_reader.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {

// A file in the test's temporary directory, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void Append(const std::string& content);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ReadResult {
  absl::Status status;  // of Open
  std::vector<Trace> frames;
  std::vector<FrameHeader> headers;
  std::vector<Damage> damage;
  ReaderCounts counts;
  bool ended = false;
  RecordLog log;

  uint64_t records() const;
  size_t Count(Damage::Kind kind) const;
};

ReadResult ReadPath(const std::string& path);
ReadResult ReadBytes(const std::string& content);

// Adds the records of one frame; every dictionary index must be in range.
void AppendToLog(const Trace& trace, RecordLog* log);

// One zstd frame, as the writer would compress it.
std::string Compress(const std::string& content);
std::string Decompress(const std::string& frame);

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_TRACE_LOG_H_

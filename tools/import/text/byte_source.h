// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The bytes of a text file, unpacked (gzip with one or several members, zstd) on a thread of its
// own, so that unpacking and parsing share the work between two cores. Memory: a few blocks,
// whatever the file's size or compression ratio.
#ifndef GPUPROBE_TOOLS_IMPORT_TEXT_BYTE_SOURCE_H_
#define GPUPROBE_TOOLS_IMPORT_TEXT_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/import/source_format.h"

namespace gpuprobe::tools {

// A stretch of the packed file that could not be unpacked.
struct UnpackProblem {
  uint64_t offset, bytes;  // in the file
  bool at_end;             // the file ends inside a member
  std::string text;
};

class ByteSource {
 public:
  // NotFound, PermissionDenied, ...: as open(2) says; InvalidArgument: no regular file.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path, Packing packing);
  virtual ~ByteSource() = default;

  // Up to `capacity` unpacked bytes; 0: the end. One thread.
  virtual size_t Read(char* out, size_t capacity) = 0;

  virtual uint64_t file_bytes() const = 0;
  virtual uint64_t consumed_bytes() const = 0;  // of the file, so far
  // Complete once Read has returned 0. Beyond a hundred they are added up in the last.
  virtual const std::vector<UnpackProblem>& problems() const = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_TEXT_BYTE_SOURCE_H_

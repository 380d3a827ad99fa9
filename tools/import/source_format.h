// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What kind of trace a file holds, told by its first bytes. Names say nothing: traces are renamed,
// unpacked and packed again.
#ifndef GPUPROBE_TOOLS_IMPORT_SOURCE_FORMAT_H_
#define GPUPROBE_TOOLS_IMPORT_SOURCE_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuprobe::tools {

enum class SourceFormat : uint8_t {
  kOther,     // gpuprobe's own trace (also a damaged or an empty one), or nothing we know
  kJson,      // Chrome trace events, as PyTorch's profiler writes them
  kSqlite,    // Nsight Systems export
  kUtf16,     // text in an encoding that no profiler writes and no importer reads
  kGzipOther  // gzip around something that is neither
};

enum class Packing : uint8_t { kPlain, kGzip, kZstd };

struct Source {
  SourceFormat format = SourceFormat::kOther;
  Packing packing = Packing::kPlain;
};

// Of the first bytes of a file (1 KiB is enough for what profilers write).
Source DetectSource(std::string_view head);

// Reads the head of the file. What cannot be opened or is no regular file is kOther: the reader
// that is tried next says why.
Source DetectSourceOfFile(const std::string& path);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_SOURCE_FORMAT_H_

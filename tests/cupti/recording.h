// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Recorded activity buffers (.cuptibuf.gz): a sequence of (u64 little-endian length, contents).
#ifndef GPUPROBE_TESTS_CUPTI_RECORDING_H_
#define GPUPROBE_TESTS_CUPTI_RECORDING_H_

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace gpuprobe::cupti {

// Folder of the recordings, empty if it is not there.
inline std::string RecordingsFolder() {
  const char* shared = getenv("GPUPROBE_TEST_SHARED");
  const std::string folder = std::string(shared ? shared : "../shared") + "/cupti-recordings";
  return std::filesystem::is_directory(folder) ? folder : std::string();
}

inline std::vector<uint8_t> ReadGzip(const std::string& path) {
  std::vector<uint8_t> content;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return content;
  uint8_t chunk[1 << 16];
  for (int got; (got = gzread(file, chunk, sizeof(chunk))) > 0;) {
    content.insert(content.end(), chunk, chunk + got);
  }
  gzclose(file);
  return content;
}

// Empty if the file is missing or is not of that format.
inline std::vector<std::vector<uint8_t>> ReadRecording(const std::string& path) {
  const std::vector<uint8_t> content = ReadGzip(path);
  std::vector<std::vector<uint8_t>> buffers;
  for (size_t at = 0; at < content.size();) {
    uint64_t length = 0;
    if (content.size() - at < sizeof(length)) return {};
    memcpy(&length, &content[at], sizeof(length));
    at += sizeof(length);
    if (length > content.size() - at) return {};
    buffers.emplace_back(&content[at], &content[at] + length);
    at += length;
  }
  return buffers;
}

// Strings of the recorded process by their address there.
inline std::map<uint64_t, std::string> ReadNames(const std::string& path) {
  std::map<uint64_t, std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) names[std::stoull(line, nullptr, 16)] = line.substr(tab + 1);
  }
  return names;
}

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_TESTS_CUPTI_RECORDING_H_

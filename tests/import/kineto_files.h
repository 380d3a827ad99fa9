// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace events as the importer's tests write them: whole documents of few rows, packed and damaged.
#ifndef GPUPROBE_TESTS_IMPORT_KINETO_FILES_H_
#define GPUPROBE_TESTS_IMPORT_KINETO_FILES_H_

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/tools/temp_folder.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// One kernel and the call that launched it; times in microseconds, as text.
inline std::string Kernel(const std::string& name, const std::string& ts, const std::string& dur,
                          int correlation, const std::string& more = "") {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": 7, "ts": )" +
         ts + ", \"dur\": " + dur + R"(, "args": {"device": 0, "context": 1, "stream": 7, )" +
         R"("correlation": )" + std::to_string(correlation) +
         R"(, "grid": [2, 3, 4], "block": [128, 1, 1], "registers per thread": 40, )" +
         R"("shared memory": 400)" + more + "}}";
}
inline std::string Call(const std::string& name, const std::string& ts, const std::string& dur,
                        int correlation, const std::string& category = "cuda_runtime") {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
         R"(", "pid": 411, "tid": 411, "ts": )" + ts + ", \"dur\": " + dur +
         R"(, "args": {"correlation": )" + std::to_string(correlation) + "}}";
}
inline std::string Document(const std::vector<std::string>& rows, const std::string& members = "") {
  std::string text = "{" + members + (members.empty() ? "" : ", ") + "\"traceEvents\": [\n";
  for (size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "  " : ",\n  ") + rows[i];
  return text + "\n]}\n";
}

inline std::string Gzip(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}
inline std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class KinetoTest : public ::testing::Test {
 protected:
  std::string Save(const std::string& content, const std::string& name = "trace.json") {
    const std::string path = folder_.Path(name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static absl::StatusOr<LoadedRun> TryPaths(const std::vector<std::string>& paths) {
    return LoadRun(FindInputFiles(paths));
  }
  absl::StatusOr<LoadedRun> Try(const std::string& content) { return TryPaths({Save(content)}); }
  LoadedRun Load(const std::string& content) {
    absl::StatusOr<LoadedRun> run = Try(content);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : LoadedRun();
  }
  TempFolder folder_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_IMPORT_KINETO_FILES_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where a report goes: standard output or a file. Buffered; the first error sticks and is returned
// by Close, so a full disk or a reader that has gone is noticed once and in words.
#ifndef GPUPROBE_TOOLS_REPORT_OUTPUT_H_
#define GPUPROBE_TOOLS_REPORT_OUTPUT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpuprobe::tools {

class Output {
 public:
  // Empty path: standard output. A file is created or overwritten, unless it is one of `inputs` (or
  // the same file under another name): a report must not destroy the trace it was made from.
  static absl::StatusOr<Output> Open(const std::string& path,
                                     const std::vector<std::string>& inputs);
  Output(Output&& other) noexcept;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  void Write(std::string_view text);
  bool ok() const { return status_.ok(); }
  absl::Status Close();

 private:
  Output(int fd, std::string name, bool owned) : fd_(fd), name_(std::move(name)), owned_(owned) {}
  void Flush();

  int fd_;
  std::string name_;
  bool owned_;
  std::string pending_;
  absl::Status status_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_REPORT_OUTPUT_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// "reading trace.json 43 %" on standard error: only on a terminal, only where reading takes longer
// than kQuietNs, and gone without a trace afterwards.
#ifndef GPUPROBE_TOOLS_IMPORT_PROGRESS_H_
#define GPUPROBE_TOOLS_IMPORT_PROGRESS_H_

#include <cstdint>
#include <string>

namespace gpuprobe::tools {

class Progress {
 public:
  static constexpr int64_t kQuietNs = 2'000'000'000;
  static constexpr int64_t kPeriodNs = 200'000'000;

  // `path`: what is read; `total`: its bytes.
  Progress(const std::string& path, uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // takes the line away

  // Cheap: looks at the clock every few thousand calls only.
  void Tick(uint64_t done) {
    if (wanted_ && (++calls_ & 0xfff) == 0) Show(done);
  }

 private:
  void Show(uint64_t done);

  std::string name_;
  uint64_t total_;
  bool wanted_, shown_ = false;
  uint64_t calls_ = 0;
  int64_t start_ns_ = 0, last_ns_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_PROGRESS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kNameWidth = 50;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Progress::Progress(const std::string& path, uint64_t total)
    : total_(std::max<uint64_t>(total, 1)), wanted_(isatty(STDERR_FILENO) != 0) {
  if (!wanted_) return;
  name_ = MiddleEllipsis(ToPrintable(path), kNameWidth);
  start_ns_ = NowNs();
}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Show(uint64_t done) {
  const int64_t now_ns = NowNs();
  if (now_ns - start_ns_ < kQuietNs || now_ns - last_ns_ < kPeriodNs) return;
  last_ns_ = now_ns;
  shown_ = true;
  const std::string line =
      absl::StrCat("\rreading ", name_, " ", std::min<uint64_t>(done * 100 / total_, 100), " %");
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace gpuprobe::tools

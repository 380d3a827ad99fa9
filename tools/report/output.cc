// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kBufferBytes = 256u << 10;

bool SameFile(const std::string& a, const std::string& b) {
  struct stat sa = {}, sb = {};
  return stat(a.c_str(), &sa) == 0 && stat(b.c_str(), &sb) == 0 && sa.st_dev == sb.st_dev &&
         sa.st_ino == sb.st_ino;
}

absl::Status Failure(const std::string& name, int error) {
  const std::string text = absl::StrCat("cannot write to ", name, ": ", std::strerror(error));
  return error == EPIPE ? absl::AbortedError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<Output> Output::Open(const std::string& path,
                                    const std::vector<std::string>& inputs) {
  if (path.empty()) return Output(STDOUT_FILENO, "standard output", false);
  for (const std::string& input : inputs) {
    if (SameFile(path, input)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--output ", path, " would overwrite the trace itself"));
    }
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) return Failure(path, errno);
  // O_NONBLOCK was for opening only: a FIFO without a reader fails (ENXIO) instead of waiting for
  // ever.
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  return Output(fd, path, true);
}

Output::Output(Output&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      owned_(other.owned_),
      pending_(std::move(other.pending_)),
      status_(std::move(other.status_)) {}

Output::~Output() {
  if (owned_ && fd_ >= 0) close(fd_);
}

void Output::Write(std::string_view text) {
  if (!status_.ok()) return;
  pending_.append(text);
  if (pending_.size() >= kBufferBytes) Flush();
}

void Output::Flush() {
  size_t done = 0;
  while (done < pending_.size() && status_.ok()) {
    const ssize_t n = write(fd_, pending_.data() + done, pending_.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      status_ = Failure(name_, errno);
    }
  }
  pending_.clear();
}

absl::Status Output::Close() {
  if (status_.ok()) Flush();
  if (owned_ && fd_ >= 0) {
    // A full disk or quota may show only now (NFS).
    if (close(std::exchange(fd_, -1)) != 0 && status_.ok()) status_ = Failure(name_, errno);
  }
  return status_;
}

}  // namespace gpuprobe::tools

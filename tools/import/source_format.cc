// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/source_format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

constexpr size_t kHeadBytes = 64 << 10;  // enough for a whole small zstd block
constexpr size_t kPeekBytes = 1024;      // of decompressed content

// Of JSON text: white space, then an object or an array. Our own frames hold protobuf, whose first
// bytes have control characters among them even where they begin with a line feed (field 1).
bool IsJsonText(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"sv)) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n"sv);
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  constexpr size_t kTextBytes = 32;
  const std::string_view begin = text.substr(0, std::min(text.size(), first + kTextBytes));
  return std::none_of(begin.begin(), begin.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n';
  });
}

bool IsSqlite(std::string_view text) { return text.starts_with("SQLite format 3\0"sv); }

std::string PeekGzip(std::string_view head) {
  std::string out(kPeekBytes, '\0');
  z_stream stream = {};
  constexpr int kGzipWindow = 15 + 16;
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return "";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(head.data()));
  stream.avail_in = static_cast<uInt>(head.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_SYNC_FLUSH);  // a partial result is what is asked for
  out.resize(out.size() - stream.avail_out);
  inflateEnd(&stream);
  return out;
}

std::string PeekZstd(std::string_view head) {
  std::string out(kPeekBytes, '\0');
  ZSTD_DStream* stream = ZSTD_createDStream();
  if (stream == nullptr) return "";
  ZSTD_inBuffer in = {head.data(), head.size(), 0};
  ZSTD_outBuffer to = {out.data(), out.size(), 0};
  while (to.pos < to.size && in.pos < in.size) {
    const size_t before = in.pos + to.pos;
    if (ZSTD_isError(ZSTD_decompressStream(stream, &to, &in)) || in.pos + to.pos == before) break;
  }
  ZSTD_freeDStream(stream);
  out.resize(to.pos);
  return out;
}

SourceFormat FormatOfContent(std::string_view text) {
  if (IsSqlite(text)) return SourceFormat::kSqlite;
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv) ||
      text.starts_with("{\0"sv) || text.starts_with("[\0"sv) || text.starts_with("\0{"sv) ||
      text.starts_with("\0["sv)) {
    return SourceFormat::kUtf16;
  }
  return IsJsonText(text) ? SourceFormat::kJson : SourceFormat::kOther;
}

}  // namespace

Source DetectSource(std::string_view head) {
  if (head.starts_with("\x1f\x8b\x08"sv)) {
    // An empty or damaged member: what follows may still be a trace, and JSON is what is zipped.
    const std::string content = PeekGzip(head);
    const SourceFormat format = content.empty() ? SourceFormat::kJson : FormatOfContent(content);
    const bool readable = format == SourceFormat::kJson || format == SourceFormat::kUtf16;
    return {readable ? format : SourceFormat::kGzipOther, Packing::kGzip};
  }
  if (head.starts_with("\x28\xb5\x2f\xfd"sv)) {
    const SourceFormat format = FormatOfContent(PeekZstd(head));
    if (format == SourceFormat::kJson || format == SourceFormat::kUtf16) {
      return {format, Packing::kZstd};
    }
    return {};
  }
  return {FormatOfContent(head), Packing::kPlain};
}

Source DetectSourceOfFile(const std::string& path) {
  // O_NONBLOCK: a FIFO must not hang us.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  struct stat info = {};
  std::string head;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    head.resize(kHeadBytes);
    const ssize_t size = pread(fd, head.data(), head.size(), 0);
    head.resize(size > 0 ? static_cast<size_t>(size) : 0);
  }
  close(fd);
  return DetectSource(head);
}

}  // namespace gpuprobe::tools

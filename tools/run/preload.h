// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// LD_PRELOAD belongs to everybody: sanitizers, allocators and other tools stand in it, and their
// order matters. ld.so separates entries by ':' and by ' ' and expands '$' (ld.so(8)).
#ifndef GPUPROBE_TOOLS_RUN_PRELOAD_H_
#define GPUPROBE_TOOLS_RUN_PRELOAD_H_

#include <string>
#include <string_view>

namespace gpuprobe::run {

inline constexpr char kLibraryName[] = "libgpuprobe.so";

// `existing` with our library in it. Everything else keeps its bytes and its place. An entry with
// our library's name is replaced where it stands; otherwise ours goes last, so that a sanitizer's
// runtime, which refuses to start when it is not first, stays first.
std::string AddToPreload(std::string_view existing, std::string_view library);

// Whether ld.so would read `path` as one entry, unchanged.
bool FitsInPreload(std::string_view path);

// Another name for a file whose path does not fit: a symbolic link in a private temporary
// directory, both gone with the object. Keep it until the last process that may be started has
// started.
class PreloadAlias {
 public:
  PreloadAlias() = default;
  PreloadAlias(const PreloadAlias&) = delete;
  PreloadAlias& operator=(const PreloadAlias&) = delete;
  ~PreloadAlias() { Remove(); }

  // False with one sentence in `error`.
  [[nodiscard]] bool Create(const std::string& target, std::string* error);
  // Removes it before the destructor does: for a process that ends without running destructors.
  void Remove();
  const std::string& path() const { return path_; }

 private:
  std::string directory_;
  std::string path_;
};

}  // namespace gpuprobe::run

#endif  // GPUPROBE_TOOLS_RUN_PRELOAD_H_

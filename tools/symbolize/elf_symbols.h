// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Function names of an ELF file (64 bit, little endian), by address. Reads any file without harm:
// offsets and sizes are checked against the file's size, and what is read is copied (a file that is
// cut meanwhile gives short reads, not SIGBUS).
#ifndef GPUPROBE_TOOLS_SYMBOLIZE_ELF_SYMBOLS_H_
#define GPUPROBE_TOOLS_SYMBOLIZE_ELF_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gpuprobe::tools {

class ElfSymbols {
 public:
  // Opens regular files only. Fails if it is none, or no ELF file of that kind; one without symbols
  // or build id is fine.
  static absl::StatusOr<ElfSymbols> Open(const std::string& path);
  static absl::StatusOr<ElfSymbols> Read(int fd);

  // Name of the function that holds `address` (as the file counts: a virtual address), as in the
  // file, without its version; empty if none is known to hold it. Valid as long as the object.
  std::string_view Find(uint64_t address) const;
  const std::string& build_id() const { return build_id_; }  // bytes; empty: has none
  int64_t modified_ns() const { return modified_ns_; }       // last change of the file, 1970-based

 private:
  struct Symbol {
    uint64_t address, size;
    uint32_t name;   // in names_
    bool preferred;  // among symbols of one address: a global one
  };
  class Reader;
  void AddSymbols(const Reader& reader, uint64_t offset, uint64_t size, uint64_t names_offset,
                  uint64_t names_size);
  void ReadBuildId(const Reader& reader, uint64_t offset, uint64_t size);
  void SortSymbols();

  std::vector<Symbol> symbols_;  // by address, one for each
  std::string names_;            // string tables, each ended by NUL
  std::string build_id_;
  int64_t modified_ns_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_SYMBOLIZE_ELF_SYMBOLS_H_

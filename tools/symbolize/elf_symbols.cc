// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/symbolize/elf_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kMaxSections = 1u << 16;
// The largest symbol tables seen are some 100 MB; what claims more is no library.
constexpr uint64_t kMaxTableBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxNoteBytes = 64u << 10;
constexpr uint64_t kMaxBuildIdBytes = 64;

uint64_t Aligned4(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

}  // namespace

class ElfSymbols::Reader {
 public:
  Reader(int fd, uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  // False unless all of it is in the file.
  bool ReadAt(uint64_t offset, void* out, uint64_t size) const {
    if (offset > bytes_ || size > bytes_ - offset) return false;
    char* to = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t got = pread(fd_, to, size, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to += got;
      offset += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
    return true;
  }
  // Whole elements of a table; empty if it is not in the file or too large.
  template <class T>
  std::vector<T> Table(uint64_t offset, uint64_t size) const {
    if (size > kMaxTableBytes || offset > bytes_ || size > bytes_ - offset) return {};
    std::vector<T> table(size / sizeof(T));
    if (!ReadAt(offset, table.data(), table.size() * sizeof(T))) return {};
    return table;
  }

 private:
  int fd_;
  uint64_t bytes_;
};

void ElfSymbols::AddSymbols(const Reader& reader, uint64_t offset, uint64_t size,
                            uint64_t names_offset, uint64_t names_size) {
  const std::vector<char> names = reader.Table<char>(names_offset, names_size);
  if (names.empty() || names_.size() + names.size() >= kMaxTableBytes) return;
  const size_t base = names_.size();
  names_.append(names.data(), names.size());
  names_.push_back('\0');
  for (const Elf64_Sym& symbol : reader.Table<Elf64_Sym>(offset, size)) {
    const int type = ELF64_ST_TYPE(symbol.st_info);
    const bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!function || symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size() ||
        names_[base + symbol.st_name] == '\0') {
      continue;
    }
    symbols_.push_back({symbol.st_value, symbol.st_size,
                        static_cast<uint32_t>(base + symbol.st_name),
                        ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL});
  }
}

void ElfSymbols::ReadBuildId(const Reader& reader, uint64_t offset, uint64_t size) {
  const std::vector<char> notes = reader.Table<char>(offset, std::min(size, kMaxNoteBytes));
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const uint64_t name = at + sizeof(note);
    const uint64_t content = name + Aligned4(note.n_namesz);
    if (content + note.n_descsz > notes.size()) return;
    const bool gnu = note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0;
    if (gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= kMaxBuildIdBytes) {
      build_id_.assign(notes.data() + content, note.n_descsz);
      return;
    }
    at = content + Aligned4(note.n_descsz);
  }
}

void ElfSymbols::SortSymbols() {
  const auto key = [](const Symbol& s) { return std::tuple(s.address, !s.preferred, s.name); };
  std::sort(symbols_.begin(), symbols_.end(),
            [&](const Symbol& a, const Symbol& b) { return key(a) < key(b); });
  // Aliases: the first of each address stays, with the largest size that any of them claims.
  size_t kept = 0;
  for (const Symbol& symbol : symbols_) {
    if (kept > 0 && symbols_[kept - 1].address == symbol.address) {
      symbols_[kept - 1].size = std::max(symbols_[kept - 1].size, symbol.size);
    } else {
      symbols_[kept++] = symbol;
    }
  }
  symbols_.resize(kept);
  symbols_.shrink_to_fit();
}

std::string_view ElfSymbols::Find(uint64_t address) const {
  const auto after = std::upper_bound(
      symbols_.begin(), symbols_.end(), address,
      [](uint64_t wanted, const Symbol& symbol) { return wanted < symbol.address; });
  if (after == symbols_.begin()) return {};
  const Symbol& symbol = *std::prev(after);
  // Without a size (hand-written assembly) only the first byte is sure.
  if (address - symbol.address >= std::max<uint64_t>(symbol.size, 1)) return {};
  const std::string_view name = names_.data() + symbol.name;
  return name.substr(0, name.find('@'));
}

absl::StatusOr<ElfSymbols> ElfSymbols::Read(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
    return absl::InvalidArgumentError("no regular file");
  }
  const Reader reader(fd, static_cast<uint64_t>(info.st_size));
  Elf64_Ehdr header;
  if (!reader.ReadAt(0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("no 64-bit little-endian ELF file");
  }
  ElfSymbols symbols;
  symbols.modified_ns_ =
      static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return symbols;
  size_t sections = header.e_shnum;
  Elf64_Shdr first;
  if (sections == 0 && reader.ReadAt(header.e_shoff, &first, sizeof(first))) {
    sections = std::min<uint64_t>(first.sh_size, kMaxSections);  // more than e_shnum can say
  }
  const auto table = reader.Table<Elf64_Shdr>(header.e_shoff, sections * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : table) {
    if (section.sh_type == SHT_NOTE && symbols.build_id_.empty()) {
      symbols.ReadBuildId(reader, section.sh_offset, section.sh_size);
    }
    const bool has_symbols = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
    if (!has_symbols || section.sh_link >= table.size()) continue;
    const Elf64_Shdr& names = table[section.sh_link];
    symbols.AddSymbols(reader, section.sh_offset, section.sh_size, names.sh_offset, names.sh_size);
  }
  symbols.SortSymbols();
  return symbols;
}

absl::StatusOr<ElfSymbols> ElfSymbols::Open(const std::string& path) {
  // O_NONBLOCK: the path comes from a trace and may name a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  absl::StatusOr<ElfSymbols> symbols = Read(fd);
  close(fd);
  return symbols;
}

}  // namespace gpuprobe::tools

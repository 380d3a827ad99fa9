// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_elf.h"

#include <elf.h>
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

constexpr char kRuntimeName[] = "_PyRuntime";
constexpr char kVersionName[] = "Py_Version";
constexpr char kCodeTypeName[] = "PyCode_Type";
constexpr char kRuntimeSection[] = ".PyRuntime";

// Bounds on what a file may claim of itself.
constexpr uint16_t kMaxProgramHeaders = 64;
constexpr uint16_t kMaxSections = 256;
constexpr uint64_t kMaxTableBytes = 256 << 20;
constexpr size_t kMaxDynamicEntries = 128;
constexpr uint32_t kMaxChain = 4096;

bool ReadFile(int fd, uint64_t offset, void* out, size_t size) {
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const ssize_t got = RawPread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool IsOurs(const Elf64_Ehdr& header) {
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_X86_64;
}

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<uint8_t>(*name);
  return hash;
}

struct WantedName {
  const char* name;
  size_t size;      // with the NUL
  uint32_t offset;  // in the string table; 0: not there
};

// Looks for each name, with its NUL, anywhere in the string table: a linker may have made it the
// tail of a longer one.
void FindNames(int fd, const Elf64_Shdr& strings, uint8_t* scratch, size_t scratch_bytes,
               WantedName* names, size_t count) {
  constexpr size_t kOverlap = 16;  // longer than the longest name
  for (uint64_t begin = 0; begin < strings.sh_size; begin += scratch_bytes - kOverlap) {
    const size_t bytes = std::min<uint64_t>(scratch_bytes, strings.sh_size - begin);
    if (!ReadFile(fd, strings.sh_offset + begin, scratch, bytes)) return;
    for (size_t n = 0; n < count; ++n) {
      if (names[n].offset != 0) continue;
      const void* hit = memmem(scratch, bytes, names[n].name, names[n].size);
      if (hit == nullptr) continue;
      names[n].offset = static_cast<uint32_t>(begin + (static_cast<const uint8_t*>(hit) - scratch));
    }
  }
}

bool NameAt(int fd, const Elf64_Shdr& strings, uint32_t offset, const WantedName& wanted) {
  char name[16];
  return offset + wanted.size <= strings.sh_size && wanted.size <= sizeof(name) &&
         ReadFile(fd, strings.sh_offset + offset, name, wanted.size) &&
         memcmp(name, wanted.name, wanted.size) == 0;
}

}  // namespace

bool PythonElf::Open(const ProcessMemory* memory, uint64_t base) {
  memory_ = memory;
  gnu_hash_ = symbols_ = strings_ = 0;
  Elf64_Ehdr header;
  if (!memory->ReadValue(base, &header) || !IsOurs(header) ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxProgramHeaders) {
    return false;
  }
  uint64_t first_page = UINT64_MAX, dynamic = 0;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    if (!memory->ReadValue(base + header.e_phoff + i * sizeof(program), &program)) return false;
    if (program.p_type == PT_LOAD && first_page == UINT64_MAX) {
      first_page = program.p_vaddr - program.p_offset;
    }
    if (program.p_type == PT_DYNAMIC) dynamic = program.p_vaddr;
  }
  if (first_page == UINT64_MAX) return false;
  bias_ = base - first_page;
  for (size_t i = 0; dynamic != 0 && i < kMaxDynamicEntries; ++i) {
    Elf64_Dyn entry;
    if (!memory->ReadValue(bias_ + dynamic + i * sizeof(entry), &entry)) break;
    if (entry.d_tag == DT_NULL) break;
    // The loader has made these absolute, except where it may not write (the vDSO).
    const uint64_t at = entry.d_un.d_ptr < bias_ ? entry.d_un.d_ptr + bias_ : entry.d_un.d_ptr;
    if (entry.d_tag == DT_GNU_HASH) gnu_hash_ = at;
    if (entry.d_tag == DT_SYMTAB) symbols_ = at;
    if (entry.d_tag == DT_STRTAB) strings_ = at;
  }
  return true;
}

uint64_t PythonElf::Lookup(const char* name) const {
  struct {
    uint32_t bucket_count, first_symbol, bloom_count, bloom_shift;
  } table;
  if (gnu_hash_ == 0 || symbols_ == 0 || strings_ == 0 || !memory_->ReadValue(gnu_hash_, &table) ||
      table.bucket_count == 0) {
    return 0;
  }
  const uint32_t hash = GnuHash(name);
  const uint64_t buckets = gnu_hash_ + sizeof(table) + uint64_t{table.bloom_count} * 8;
  const uint64_t chains = buckets + uint64_t{table.bucket_count} * 4;
  uint32_t symbol;
  if (!memory_->ReadValue(buckets + uint64_t{hash % table.bucket_count} * 4, &symbol)) return 0;
  if (symbol < table.first_symbol) return 0;
  for (uint32_t steps = 0; steps < kMaxChain; ++steps, ++symbol) {
    uint32_t entry;
    if (!memory_->ReadValue(chains + uint64_t{symbol - table.first_symbol} * 4, &entry)) return 0;
    if ((entry | 1) == (hash | 1)) {
      Elf64_Sym sym;
      char text[16];
      const size_t size = strlen(name) + 1;
      if (memory_->ReadValue(symbols_ + uint64_t{symbol} * sizeof(sym), &sym) &&
          memory_->Read(strings_ + sym.st_name, text, size) && memcmp(text, name, size) == 0 &&
          sym.st_shndx != SHN_UNDEF) {
        return bias_ + sym.st_value;
      }
    }
    if ((entry & 1) != 0) return 0;
  }
  return 0;
}

void PythonElf::FindInMemory(PythonSymbols* out) const {
  out->runtime = Lookup(kRuntimeName);
  if (out->runtime == 0) return;
  out->version = Lookup(kVersionName);
  out->code_type = Lookup(kCodeTypeName);
}

void PythonElf::FindInFile(int fd, uint8_t* scratch, PythonSymbols* out) const {
  Elf64_Ehdr header;
  if (!ReadFile(fd, 0, &header, sizeof(header)) || !IsOurs(header) ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMaxSections) {
    return;
  }
  const auto section = [&](uint32_t index, Elf64_Shdr* result) {
    return index < header.e_shnum &&
           ReadFile(fd, header.e_shoff + uint64_t{index} * sizeof(*result), result,
                    sizeof(*result));
  };
  Elf64_Shdr names_section;
  const bool has_names = section(header.e_shstrndx, &names_section);
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table;
    if (!section(i, &table)) return;
    const WantedName runtime_section = {kRuntimeSection, sizeof(kRuntimeSection), 0};
    if (out->runtime == 0 && has_names && (table.sh_flags & SHF_ALLOC) != 0 &&
        NameAt(fd, names_section, table.sh_name, runtime_section)) {
      out->runtime = bias_ + table.sh_addr;
    }
    Elf64_Shdr strings;
    if ((table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) ||
        table.sh_entsize != sizeof(Elf64_Sym) || table.sh_size > kMaxTableBytes ||
        !section(table.sh_link, &strings) || strings.sh_size > kMaxTableBytes) {
      continue;
    }
    WantedName names[] = {{kRuntimeName, sizeof(kRuntimeName), 0},
                          {kVersionName, sizeof(kVersionName), 0},
                          {kCodeTypeName, sizeof(kCodeTypeName), 0}};
    uint64_t* const found[] = {&out->runtime, &out->version, &out->code_type};
    FindNames(fd, strings, scratch, kScratchBytes, names, std::size(names));
    if (names[0].offset == 0) continue;
    constexpr size_t kStep = kScratchBytes / sizeof(Elf64_Sym) * sizeof(Elf64_Sym);
    for (uint64_t begin = 0; begin < table.sh_size; begin += kStep) {
      const size_t bytes = std::min<uint64_t>(kStep, table.sh_size - begin);
      if (!ReadFile(fd, table.sh_offset + begin, scratch, bytes)) break;
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= bytes; at += sizeof(Elf64_Sym)) {
        Elf64_Sym sym;
        memcpy(&sym, scratch + at, sizeof(sym));
        if (sym.st_shndx == SHN_UNDEF) continue;
        for (size_t n = 0; n < std::size(names); ++n) {
          if (names[n].offset != 0 && sym.st_name == names[n].offset && *found[n] == 0) {
            *found[n] = bias_ + sym.st_value;
          }
        }
      }
    }
  }
}

}  // namespace gpuprobe::sampler

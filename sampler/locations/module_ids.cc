// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/locations/module_ids.h"

#include <elf.h>

#include <cstring>

namespace gpuprobe::sampler {
namespace {

constexpr size_t kMaxSegments = 64;
constexpr size_t kMaxNoteBytes = 1024;  // of a segment; the id lies among its first notes

uint64_t AlignedTo(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// The notes are the process's memory: any length in them can be anything.
size_t FindBuildId(const uint8_t* notes, size_t size, uint64_t alignment,
                   uint8_t (&out)[kMaxBuildIdBytes]) {
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes + at, sizeof note);
    const uint64_t name = at + sizeof note;
    const uint64_t content = AlignedTo(name + note.n_namesz, alignment);
    if (content + note.n_descsz > size) return 0;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      if (note.n_descsz > kMaxBuildIdBytes) return 0;
      std::memcpy(out, notes + content, note.n_descsz);
      return note.n_descsz;
    }
    at = AlignedTo(content + note.n_descsz, alignment);
  }
  return 0;
}

}  // namespace

size_t ReadBuildId(const ProcessMemory& memory, uint64_t header, uint64_t bias,
                   uint8_t (&out)[kMaxBuildIdBytes]) {
  Elf64_Ehdr elf;
  Elf64_Phdr segments[kMaxSegments];
  if (!memory.ReadValue(header, &elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_phentsize != sizeof segments[0] || elf.e_phnum > kMaxSegments ||
      !memory.Read(header + elf.e_phoff, segments, elf.e_phnum * sizeof segments[0])) {
    return 0;
  }
  for (size_t i = 0; i < elf.e_phnum; ++i) {
    const Elf64_Phdr& segment = segments[i];
    if (segment.p_type != PT_NOTE) continue;
    uint8_t notes[kMaxNoteBytes];
    const size_t wanted = segment.p_filesz < sizeof notes ? segment.p_filesz : sizeof notes;
    const size_t size = memory.ReadUpTo(bias + segment.p_vaddr, notes, wanted);
    // 4 is what linkers write for all but .note.gnu.property, whose segment says 8.
    const uint64_t alignment = segment.p_align == 8 ? 8 : 4;
    if (const size_t found = FindBuildId(notes, size, alignment, out)) return found;
  }
  return 0;
}

void ModuleIds::Add(uint32_t module, const uint8_t* bytes, size_t size) {
  if (module == 0 || size == 0 || size > kMaxBuildIdBytes) return;
  for (const Entry& entry : entries()) {
    if (entry.module == module && entry.size == size &&
        std::memcmp(entry.bytes, bytes, size) == 0) {
      return;
    }
  }
  if (count_ == kMaxEntries) return;
  Entry& entry = entries_[count_++];
  entry.module = module;
  entry.size = static_cast<uint8_t>(size);
  std::memcpy(entry.bytes, bytes, size);
}

}  // namespace gpuprobe::sampler

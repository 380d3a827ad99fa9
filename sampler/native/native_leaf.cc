// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/native/native_leaf.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "sampler/system/proc_files.h"
#include "sampler/system/raw_files.h"

namespace gpuprobe::sampler {
namespace {

constexpr size_t kScannedBytes = 2048;
// Addresses of code that was generated at run time are in no module however often one looks, and a
// look costs a millisecond in a process with thousands of mappings.
constexpr int64_t kReadPauseNs = 5'000'000'000;

bool TakeHexPlain(const char** text, uint64_t* out) {
  const char* p = *text;
  uint64_t value = 0;
  for (;; ++p) {
    const char c = *p;
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  if (p == *text) return false;
  *text = p;
  *out = value;
  return true;
}

// Whether `before`, the 7 bytes in front of a return address, end in a call instruction.
bool EndsInCall(const uint8_t* before) {
  if (before[2] == 0xe8) return true;  // call rel32
  // call r/m64 (ff /2) with 0, 1 and 4 bytes of displacement, with and without a SIB byte.
  for (const int at : {5, 4, 3, 1, 0}) {
    if (before[at] != 0xff || (before[at + 1] >> 3 & 7) != 2) continue;
    const int mod = before[at + 1] >> 6, rm = before[at + 1] & 7;
    int length = 2;
    if (mod == 1) length += 1;
    if (mod == 2 || (mod == 0 && rm == 5)) length += 4;
    if (mod != 3 && rm == 4) length += 1;
    if (at + length == 7) return true;
  }
  return false;
}

uint64_t Mixed(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  return value ^ value >> 32;
}

bool BaseNameBegins(const char* path, const char* begin) {
  const char* slash = std::strrchr(path, '/');
  return std::strncmp(slash != nullptr ? slash + 1 : path, begin, std::strlen(begin)) == 0;
}

}  // namespace

void NativeLeaf::Init(void* memory, uint32_t pid) {
  mappings_ = static_cast<Mapping*>(memory);
  pid_ = pid;
}

NativeLeaf::Kind NativeLeaf::KindOf(const char* path) {
  for (const char* dull : {"libc.so", "libc-2", "ld-linux", "ld-2", "libpthread", "libdl.",
                           "librt.", "ld-musl", "libgpuprobe.so", "[vdso]", "[vsyscall]"}) {
    if (BaseNameBegins(path, dull)) return Kind::kDull;
  }
  for (const char* interpreter : {"libpython", "python"}) {
    if (BaseNameBegins(path, interpreter)) return Kind::kInterpreter;
  }
  return Kind::kOrdinary;
}

// "begin-end rwxp offset dev inode   path"
void NativeLeaf::AddMapping(char* line, LocationTable* table) {
  uint64_t begin, end, offset;
  const char* p = line;
  if (!TakeHexPlain(&p, &begin) || *p++ != '-' || !TakeHexPlain(&p, &end) || *p++ != ' ') return;
  const bool executable = p[2] == 'x';
  p += 5;
  if (!TakeHexPlain(&p, &offset)) return;
  const char* path = std::strpbrk(p, "/[");
  if (path == nullptr) return;
  // A file that was replaced since: its name is still what a reader looks for.
  constexpr char kDeleted[] = " (deleted)";
  char* suffix = std::strstr(line, kDeleted);
  if (suffix != nullptr && suffix[sizeof kDeleted - 1] == '\0') *suffix = '\0';
  if (offset == 0 && std::strlen(path) < sizeof base_path_) {
    base_ = begin;
    std::strcpy(base_path_, path);
  }
  if (!executable || count_ == kMaxMappings) return;
  Mapping& mapping = mappings_[count_];
  mapping = Mapping();
  mapping.begin = begin;
  mapping.end = end;
  mapping.file_offset = offset;
  mapping.kind = KindOf(path);
  mapping.path = table->InternText(path);
  if (std::strcmp(path, base_path_) == 0) mapping.base = base_;
  ++count_;
}

void NativeLeaf::ReadMaps(LocationTable* table) {
  char path[kTaskPathBytes], text[4096];
  ProcPath(pid_, 0, "maps", path);
  ++TheProcCounters().opens;
  const int fd = RawOpen(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  count_ = 0;
  std::memset(sites_, 0, sizeof sites_);
  base_ = 0;
  base_path_[0] = '\0';
  size_t have = 0;
  for (;;) {
    ++TheProcCounters().reads;
    const ssize_t n = RawRead(fd, text + have, sizeof text - 1 - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
    text[have] = '\0';
    char* line = text;
    while (char* end = std::strchr(line, '\n')) {
      *end = '\0';
      AddMapping(line, table);
      line = end + 1;
    }
    have = static_cast<size_t>(text + have - line);
    if (have >= sizeof text - 1) have = 0;  // a line longer than any path
    std::memmove(text, line, have);
  }
  RawClose(fd);
}

const NativeLeaf::Mapping* NativeLeaf::FindMapping(uint64_t address) const {
  size_t low = 0, high = count_;
  while (low < high) {  // the first that ends behind the address
    const size_t middle = (low + high) / 2;
    if (mappings_[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count_ && mappings_[low].begin <= address ? &mappings_[low] : nullptr;
}

NativeLeaf::Mapping* NativeLeaf::MappingOf(uint64_t address, int64_t now_ns, LocationTable* table) {
  const Mapping* found = FindMapping(address);
  if (found == nullptr && now_ns >= next_read_ns_) {
    next_read_ns_ = now_ns + kReadPauseNs;
    ReadMaps(table);
    found = FindMapping(address);
  }
  return const_cast<Mapping*>(found);
}

// By the program headers, which are mapped where offset 0 of the file is.
bool NativeLeaf::FindBias(const ProcessMemory& memory, Mapping* mapping) {
  if (mapping->bias_known) return true;
  Elf64_Ehdr header;
  if (mapping->base == 0 || !memory.ReadValue(mapping->base, &header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return false;
  }
  for (uint32_t i = 0; i < header.e_phnum && i < 64; ++i) {
    Elf64_Phdr segment;
    if (!memory.ReadValue(mapping->base + header.e_phoff + i * sizeof segment, &segment))
      return false;
    if (segment.p_type != PT_LOAD || mapping->file_offset + 4096 <= segment.p_offset ||
        mapping->file_offset >= segment.p_offset + segment.p_filesz) {
      continue;
    }
    if ((segment.p_flags & PF_X) == 0) continue;
    // begin is where the file's byte file_offset is; that byte's own address is known from the
    // segment.
    mapping->bias = mapping->begin - (mapping->file_offset - segment.p_offset + segment.p_vaddr);
    return mapping->bias_known = true;
  }
  return false;
}

LocationId NativeLeaf::LocationOf(const ProcessMemory& memory, Mapping* mapping, uint64_t address,
                                  LocationTable* table) {
  const bool first = !mapping->bias_known;
  if (!FindBias(memory, mapping)) return 0;
  if (first) {
    uint8_t id[kMaxBuildIdBytes];
    const size_t size = ReadBuildId(memory, mapping->base, mapping->bias, id);
    table->modules()->Add(mapping->path, id, size);
  }
  Location location = {};
  location.file = mapping->path;
  location.offset = address - mapping->bias;
  location.kind = LocationKind::kNative;
  return table->Intern(location);
}

size_t NativeLeaf::FromChain(const ProcessMemory& memory, const uint64_t* addresses, size_t count,
                             bool below_python, int64_t now_ns, LocationTable* table,
                             LocationId* out) {
  size_t found = 0;
  for (size_t i = 0; i < count && found < kMaxNativeLeaves; ++i) {
    Mapping* mapping = MappingOf(addresses[i], now_ns, table);
    if (mapping == nullptr) continue;
    if (below_python && mapping->kind == Kind::kInterpreter) break;
    if (i != 0 && mapping->kind != Kind::kOrdinary) continue;
    if (const LocationId id = LocationOf(memory, mapping, addresses[i], table)) out[found++] = id;
  }
  return found;
}

// Whether it is an address that a call returns to.
bool NativeLeaf::FollowsCall(const ProcessMemory& memory, const Mapping& mapping,
                             uint64_t address) {
  uint64_t& site = sites_[Mixed(address) % kKnownSites];
  if ((site & ~kIsReturn) != address) {
    uint8_t before[7];
    if (address - mapping.begin < sizeof before ||
        !memory.Read(address - sizeof before, before, sizeof before)) {
      return false;
    }
    site = EndsInCall(before) ? address | kIsReturn : address;
  }
  return (site & kIsReturn) != 0;
}

size_t NativeLeaf::Search(const ProcessMemory& memory, const uint64_t* words, size_t count,
                          bool below_python, LocationTable* table, LocationId* out) {
  size_t found = 0;
  for (size_t i = 0; i < count && found < kMaxNativeLeaves; ++i) {
    Mapping* mapping = const_cast<Mapping*>(FindMapping(words[i]));
    if (mapping == nullptr || mapping->kind == Kind::kDull) continue;
    if (!FollowsCall(memory, *mapping, words[i])) continue;
    if (mapping->kind == Kind::kInterpreter) {
      if (below_python) break;
      continue;
    }
    if (const LocationId id = LocationOf(memory, mapping, words[i], table)) out[found++] = id;
  }
  return found;
}

void NativeLeaf::Find(const ProcessMemory& memory, uint64_t sp, uint64_t pc, bool below_python,
                      int64_t now_ns, LocationTable* table, Found* found) {
  Mapping* leaf = MappingOf(pc, now_ns, table);
  uint64_t words[kScannedBytes / 8];
  const size_t count = memory.ReadUpTo(sp & ~7ull, words, sizeof words) / 8;
  uint64_t hash = Mixed(pc ^ (below_python ? 1 : 0));
  for (size_t i = 0; i < count; ++i) hash = Mixed(hash ^ words[i]);
  if (hash == found->words_hash && found->count != 0) return;
  found->words_hash = hash;
  found->count = 0;
  if (leaf != nullptr && leaf->kind == Kind::kOrdinary) {
    if (const LocationId id = LocationOf(memory, leaf, pc, table))
      found->leaves[found->count++] = id;
  }
  const size_t own = found->count;
  LocationId callers[kMaxNativeLeaves];
  const size_t more = Search(memory, words, count, below_python, table, callers);
  for (size_t i = 0; i < more && own + i < kMaxNativeLeaves; ++i) {
    found->leaves[found->count++] = callers[i];
  }
}

}  // namespace gpuprobe::sampler

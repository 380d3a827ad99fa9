// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/clients/import_patch.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>

namespace gpuprobe::inject {
namespace {

constexpr uintptr_t kPageBytes = 4096;

struct Walk {
  const ImportPatch* patches;
  int count;
  uintptr_t own_base;
  int changed;
};

using Symbol = ElfW(Sym);
using Relocation = ElfW(Rela);

// What we need of an object's dynamic section.
struct Imports {
  const Symbol* symbols = nullptr;
  const char* strings = nullptr;
  const Relocation* tables[2] = {nullptr, nullptr};  // PLT relocations, others
  size_t bytes[2] = {0, 0};
};

bool ReadDynamic(const struct dl_phdr_info* info, Imports* imports) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  if (dynamic == nullptr) return false;
  // glibc relocates these pointers in place; the vDSO's stay relative, and it imports nothing.
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uintptr_t value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        imports->symbols = reinterpret_cast<const Symbol*>(value);
        break;
      case DT_STRTAB:
        imports->strings = reinterpret_cast<const char*>(value);
        break;
      case DT_JMPREL:
        imports->tables[0] = reinterpret_cast<const Relocation*>(value);
        break;
      case DT_PLTRELSZ:
        imports->bytes[0] = dynamic->d_un.d_val;
        break;
      case DT_RELA:
        imports->tables[1] = reinterpret_cast<const Relocation*>(value);
        break;
      case DT_RELASZ:
        imports->bytes[1] = dynamic->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return imports->symbols != nullptr && imports->strings != nullptr &&
         reinterpret_cast<uintptr_t>(imports->symbols) >= info->dlpi_addr;
}

// The protection of the page, as the program headers and RELRO leave it.
int PageProtection(const struct dl_phdr_info* info, uintptr_t address) {
  int protection = PROT_READ | PROT_WRITE;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_GNU_RELRO && address >= begin && address < begin + p.p_memsz)
      protection = PROT_READ;
  }
  return protection;
}

bool Store(const struct dl_phdr_info* info, uintptr_t slot, void* value) {
  if (slot % sizeof(void*) != 0) return false;
  const int protection = PageProtection(info, slot);
  void* page = reinterpret_cast<void*>(slot & ~(kPageBytes - 1));
  if (protection == PROT_READ && mprotect(page, kPageBytes, PROT_READ | PROT_WRITE) != 0)
    return false;
  // release, without a partner of ours: whoever calls through the slot sees code that was always
  // there.
  __atomic_store_n(reinterpret_cast<void**>(slot), value, __ATOMIC_RELEASE);
  if (protection == PROT_READ) mprotect(page, kPageBytes, PROT_READ);
  return true;
}

void* Replacement(const Walk& walk, const char* name) {
  if (std::strncmp(name, "cupti", 5) != 0) return nullptr;
  for (int i = 0; i < walk.count; ++i) {
    if (std::strcmp(walk.patches[i].name, name) == 0) return walk.patches[i].replacement;
  }
  return nullptr;
}

// Not inside dl_iterate_phdr: dladdr takes the loader's other lock, and a thread in dlopen takes
// the two in the opposite order.
uintptr_t OwnBase() {
  Dl_info own;
  return dladdr(reinterpret_cast<void*>(&OwnBase), &own) != 0
             ? reinterpret_cast<uintptr_t>(own.dli_fbase)
             : 0;
}

bool IsCupti(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return std::strncmp(slash != nullptr ? slash + 1 : path, "libcupti.so", 11) == 0;
}

int PatchObject(struct dl_phdr_info* info, size_t, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  if (info->dlpi_addr == walk.own_base || IsCupti(info->dlpi_name)) return 0;
  Imports imports;
  if (!ReadDynamic(info, &imports)) return 0;
  for (int t = 0; t < 2; ++t) {
    const size_t count = imports.tables[t] == nullptr ? 0 : imports.bytes[t] / sizeof(ElfW(Rela));
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& r = imports.tables[t][i];
      const auto type = ELF64_R_TYPE(r.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const char* name = imports.strings + imports.symbols[ELF64_R_SYM(r.r_info)].st_name;
      void* replacement = Replacement(walk, name);
      if (replacement == nullptr) continue;
      const uintptr_t slot = info->dlpi_addr + r.r_offset;
      if (*reinterpret_cast<void**>(slot) == replacement) continue;
      if (Store(info, slot, replacement)) ++walk.changed;
    }
  }
  return 0;
}

int CountLoaded(struct dl_phdr_info* info, size_t size, void* ever_loaded) {
  if (size >= offsetof(struct dl_phdr_info, dlpi_subs)) {
    *static_cast<unsigned long long*>(ever_loaded) = info->dlpi_adds;
  }
  return 1;  // the first object tells
}

}  // namespace

int ImportPatcher::PatchNewObjects(const ImportPatch* patches, int count) {
  unsigned long long ever_loaded = 0;
  dl_iterate_phdr(&CountLoaded, &ever_loaded);
  if (ever_loaded == objects_ever_loaded_ && ever_loaded != 0) return 0;
  objects_ever_loaded_ = ever_loaded;
  Walk walk = {patches, count, OwnBase(), 0};
  dl_iterate_phdr(&PatchObject, &walk);
  return walk.changed;
}

}  // namespace gpuprobe::inject

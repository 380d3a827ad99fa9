// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/process/environment.h"

#include <sys/mman.h>

#include <cstring>

extern "C" char** environ;

namespace gpuprobe::inject {
namespace {

// Points behind '=' if `entry` is NAME=..., else nullptr.
const char* ValueOf(const char* entry, const char* name, size_t name_length) {
  if (std::strncmp(entry, name, name_length) != 0 || entry[name_length] != '=') return nullptr;
  return entry + name_length + 1;
}

bool IsSeparator(char c) { return c == ':' || c == ' '; }

}  // namespace

const char* GetEnv(const char* name) {
  if (environ == nullptr) return nullptr;
  const size_t length = std::strlen(name);
  for (char** e = environ; *e != nullptr; ++e) {
    if (const char* value = ValueOf(*e, name, length)) return value;
  }
  return nullptr;
}

bool SetEnv(const EnvEntry* entries, size_t count) {
  size_t old_count = 0;
  if (environ != nullptr) {
    while (environ[old_count] != nullptr) ++old_count;
  }
  size_t text_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    text_bytes += std::strlen(entries[i].name) + std::strlen(entries[i].value) + 2;
  }
  const size_t pointer_bytes = (old_count + count + 1) * sizeof(char*);
  void* memory = mmap(nullptr, pointer_bytes + text_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  char** table = static_cast<char**>(memory);
  char* text = static_cast<char*>(memory) + pointer_bytes;
  size_t used = old_count;
  if (old_count != 0) std::memcpy(table, environ, old_count * sizeof(char*));
  for (size_t i = 0; i < count; ++i) {
    const size_t name_length = std::strlen(entries[i].name);
    const size_t value_length = std::strlen(entries[i].value);
    char* line = text;
    std::memcpy(line, entries[i].name, name_length);
    line[name_length] = '=';
    std::memcpy(line + name_length + 1, entries[i].value, value_length + 1);
    text += name_length + value_length + 2;
    size_t slot = used;
    for (size_t k = 0; k < used; ++k) {
      if (ValueOf(table[k], entries[i].name, name_length) != nullptr) slot = k;
    }
    table[slot] = line;
    if (slot == used) ++used;
  }
  table[used] = nullptr;
  environ = table;
  return true;
}

long RemoveFromPreloadList(const char* list, const char* file_name, char* out, size_t out_size) {
  const size_t name_length = std::strlen(file_name);
  size_t length = 0;
  bool removed = false;
  for (const char* p = list; *p != '\0';) {
    const char* begin = p;  // an entry goes with the separators in front of it
    while (IsSeparator(*p)) ++p;
    const char* entry = p;
    while (*p != '\0' && !IsSeparator(*p)) ++p;
    const char* base = p;
    while (base > entry && base[-1] != '/') --base;
    if (static_cast<size_t>(p - base) == name_length &&
        std::memcmp(base, file_name, name_length) == 0) {
      removed = true;
      continue;
    }
    if (removed && length == 0) begin = entry;
    const size_t size = static_cast<size_t>(p - begin);
    if (length + size >= out_size) return -1;
    std::memcpy(out + length, begin, size);
    length += size;
  }
  if (length >= out_size) return -1;
  out[length] = '\0';
  return static_cast<long>(length);
}

}  // namespace gpuprobe::inject

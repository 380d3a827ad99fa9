// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Code locations that the sampler has seen: a line of Python or an address in a module, each once,
// with its texts. Ids stay valid for the life of the table; when it is full new locations get id 0
// ("not known") and are counted. Fixed memory, handed in at Init.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOCATIONS_LOCATION_TABLE_H_
#define GPUPROBE_SAMPLER_LOCATIONS_LOCATION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sampler/locations/module_ids.h"

namespace gpuprobe::sampler {

using TextId = uint32_t;      // 0: no text
using LocationId = uint32_t;  // 0: not known

enum class LocationKind : uint8_t { kPython = 0, kNative = 1 };  // as in proto/gpuprobe.proto

struct Location {
  TextId function;  // Python: qualified name; native: 0
  TextId file;      // Python: file name; native: module path
  uint32_t line;    // Python
  uint64_t offset;  // native: address as the module's ELF file counts it
  LocationKind kind;
};

class LocationTable {
 public:
  constexpr LocationTable() = default;
  LocationTable(const LocationTable&) = delete;
  LocationTable& operator=(const LocationTable&) = delete;

  // `memory` zeroed, owned by the caller, kept for ever. False: too small.
  [[nodiscard]] bool Init(void* memory, size_t bytes);

  TextId InternText(std::string_view text);  // cut at 1 KiB
  LocationId Intern(const Location& location);

  const Location& Get(LocationId id) const;  // id 0: an empty one
  std::string_view Text(TextId id) const;    // id 0: ""
  uint32_t location_count() const;
  uint64_t refused() const;  // texts and locations that found no room

  ModuleIds* modules() { return &modules_; }  // of native locations

 private:
  struct State;
  State* state_ = nullptr;
  ModuleIds modules_;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOCATIONS_LOCATION_TABLE_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A hash map by text that can be asked with a piece of a buffer: names are looked up once a row.
#ifndef GPUPROBE_TOOLS_IMPORT_TEXT_TEXT_MAP_H_
#define GPUPROBE_TOOLS_IMPORT_TEXT_TEXT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace gpuprobe::tools {

// Eight bytes a step: kernel names have hundreds. (abseil's own hash takes no std::string_view
// where abseil was built for C++14, as distributions do.)
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;
    uint64_t hash = text.size() * kOdd;
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; left -= 8, at += 8) hash = Mix(hash, at, 8);
    return left == 0 ? hash : Mix(hash, at, left);
  }

 private:
  static uint64_t Mix(uint64_t hash, const char* at, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, at, size);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
  }
};

template <typename Value>
using TextMap = absl::flat_hash_map<std::string, Value, TextHash, std::equal_to<>>;

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_TEXT_TEXT_MAP_H_

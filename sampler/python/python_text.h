// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads str objects of an interpreter as UTF-8.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_TEXT_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sampler/python/python_layout.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

inline constexpr size_t kMaxPythonTextBytes = 1024;  // as the location table keeps

// What a str object says of itself.
struct PythonTextShape {
  uint64_t length;      // characters
  uint32_t kind;        // bytes a character: 1, 2, 4
  uint32_t data_begin;  // from the object's address
};

// From the first layout.text_header_bytes bytes of the object. False: no str, or one whose
// characters lie elsewhere (an instance of a subclass).
bool ParsePythonText(const PythonLayout& layout, const uint8_t* header, PythonTextShape* out);

// Characters as `kind` bytes each to UTF-8, at most `room` bytes, whole characters; surrogates and
// what is no character become '?'. The bytes written.
size_t EncodeUtf8(const uint8_t* characters, size_t length, uint32_t kind, char* out, size_t room);

// The text of the str object at `address`, cut at kMaxPythonTextBytes.
struct PythonTextBuffer {
  uint8_t characters[kMaxPythonTextBytes * 4];
  char utf8[kMaxPythonTextBytes];
};
bool ReadPythonText(const ProcessMemory& memory, const PythonLayout& layout, uint64_t address,
                    PythonTextBuffer* buffer, std::string_view* out);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_TEXT_H_

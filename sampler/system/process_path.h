// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Names of files below /proc, without snprintf (which may allocate).
#ifndef GPUPROBE_SAMPLER_SYSTEM_PROCESS_PATH_H_
#define GPUPROBE_SAMPLER_SYSTEM_PROCESS_PATH_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuprobe::sampler {

// "/proc/", ten digits, and the longest suffix in use ("/task/" and ten digits).
inline constexpr size_t kProcPathBytes = 64;

// Decimal digits at `to`, no NUL; how many.
inline size_t FormatDecimal(char* to, uint64_t value) {
  char reversed[20];
  size_t count = 0;
  do {
    reversed[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  for (size_t i = 0; i < count; ++i) to[i] = reversed[count - 1 - i];
  return count;
}

// /proc/PID and `suffix` (at most 40 bytes); the length.
inline size_t FormatProcPath(char (&out)[kProcPathBytes], pid_t pid, const char* suffix) {
  memcpy(out, "/proc/", 6);
  size_t length = 6 + FormatDecimal(out + 6, static_cast<uint64_t>(pid));
  size_t suffix_length = strlen(suffix);
  if (suffix_length > kProcPathBytes - 1 - length) suffix_length = kProcPathBytes - 1 - length;
  memcpy(out + length, suffix, suffix_length);
  length += suffix_length;
  out[length] = '\0';
  return length;
}

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_PROCESS_PATH_H_

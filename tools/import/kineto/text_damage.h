// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What is known of rows that could not be read.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_TEXT_DAMAGE_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_TEXT_DAMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuprobe::tools {

// A stretch of the text that could not be read as it stands.
struct TextDamage {
  enum class Kind {
    kTruncated,  // up to the end
    kCorrupt,    // left out
    kRepaired,   // read with a guess at where strings end; nothing left out
    kPacking,    // of the packed file: could not be unpacked
  };
  Kind kind;
  uint64_t offset, bytes;
  std::string detail;
  bool hides_gpu_work = true;  // false: the rows in it were the host's
  // When the rows in it took place, if that can still be read; 0: it cannot.
  int64_t begin_ns = 0, end_ns = 0;
};

// What still can be read of damaged rows: are the GPU's among them, and when were they?
void Describe(std::string_view text, TextDamage* damage);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_TEXT_DAMAGE_H_

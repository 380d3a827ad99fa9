// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Words for what is wrong with a trace file.
#ifndef GPUPROBE_TOOLS_LOAD_DAMAGE_WORDS_H_
#define GPUPROBE_TOOLS_LOAD_DAMAGE_WORDS_H_

#include <string>

#include "proto/trace_reader.h"

namespace gpuprobe::tools {

const char* DamageKey(proto::Damage::Kind kind);      // "torn_tail": JSON
std::string DamageText(const proto::Damage& damage);  // which bytes, and what they are

// Of a file without an End packet. Which of them it was nobody could write down.
inline constexpr char kWhyNotClosed[] = "killed, still running, or no room left to write";

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_DAMAGE_WORDS_H_

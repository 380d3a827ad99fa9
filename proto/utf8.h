// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Protobuf parsers reject a whole message for one invalid byte in a string; kernel names and paths
// may hold any byte.
#ifndef GPUPROBE_PROTO_UTF8_H_
#define GPUPROBE_PROTO_UTF8_H_

#include <cstddef>

namespace gpuprobe::proto {

// Replaces each byte that is not part of well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF) by '?', in place. A sequence cut off by the end is such bytes,
// too.
void ReplaceInvalidUtf8(char* text, size_t size);

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_UTF8_H_

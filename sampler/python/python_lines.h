// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// From an instruction to its source line: the three encodings that CPython 3.9 to 3.15 use. The
// tables may be torn or rubbish: whatever the bytes, the functions end and stay inside `table`.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_LINES_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_LINES_H_

#include <cstdint>
#include <span>

namespace gpuprobe::sampler {

// The line of the instruction at `offset` bytes from the first one in 3.`minor`'s table (co_lnotab
// for 3.9, co_linetable after). A negative offset, before the first instruction, is the first line.
// 0: the table gives no line (artificial instructions have none) or ends before.
uint32_t PythonLine(int minor, std::span<const uint8_t> table, int32_t first_line, int64_t offset);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_LINES_H_

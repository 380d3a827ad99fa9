// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where CPython keeps what the reader needs, per minor version (x86-64, GIL builds). All numbers
// are offsets in bytes. For 3.9 to 3.12 they are constants, taken from the headers of 3.9.18,
// 3.10.13, 3.11.7 and 3.12.1 with offsetof; the public promise is a stable ABI within a minor
// version only for extension modules, so PythonRuntimeFinder checks a found runtime before it is
// believed. From 3.13 on the interpreter publishes most of them (_Py_DebugOffsets).
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_LAYOUT_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace gpuprobe::sampler {

inline constexpr int kMinPythonMinor = 9;
inline constexpr int kMaxPythonMinor = 15;
inline constexpr uint32_t kNoOffset = UINT32_MAX;

// The most that is read of one object, so that buffers have a size. Larger offsets are refused.
inline constexpr uint32_t kMaxThreadStateBytes = 384;
inline constexpr uint32_t kMaxFrameBytes = 128;
inline constexpr uint32_t kMaxCodeBytes = 256;

// The bytes of a published table that are read: 3.15's is the longest known.
inline constexpr size_t kDebugOffsetsBytes = 93 * sizeof(uint64_t);

struct PythonLayout {
  int minor;

  // _PyRuntime.
  uint32_t runtime_finalizing;
  uint32_t runtime_interpreters;  // the head of the list; the main interpreter is the next field
  uint32_t runtime_gil;           // 3.9-3.11: the lock itself; else kNoOffset

  // PyInterpreterState.
  uint32_t interpreter_next;
  uint32_t interpreter_threads;
  uint32_t interpreter_runtime;  // points back to _PyRuntime; kNoOffset: not known
  uint32_t interpreter_gil;      // 3.12+: a pointer to the lock; else kNoOffset

  // struct _gil_runtime_state.
  uint32_t gil_last_holder;
  uint32_t gil_locked;
  uint32_t gil_bytes;

  // PyThreadState.
  uint32_t thread_prev;
  uint32_t thread_next;
  uint32_t thread_interpreter;
  uint32_t thread_pthread;    // pthread_self() of the thread
  uint32_t thread_native_id;  // 3.11+; else kNoOffset
  uint32_t thread_frame;      // the innermost frame, or (3.11, 3.12) a pointer to the _PyCFrame
  uint32_t cframe_frame;      // in _PyCFrame; kNoOffset: there is none
  uint32_t thread_datastack;  // 3.11+: the chunk in which frames lie; else kNoOffset
  uint32_t thread_bytes;      // to the end of the last field above

  // PyFrameObject up to 3.10, _PyInterpreterFrame from 3.11 on.
  uint32_t frame_previous;
  uint32_t frame_code;
  uint32_t frame_instruction;  // up to 3.10: an int, index of the last instruction; else a pointer
  uint32_t frame_owner;        // 3.11+; else kNoOffset
  uint32_t frame_state;        // up to 3.10: a byte that tells whether it is being executed
  uint32_t frame_bytes;

  // PyCodeObject.
  uint32_t code_first_line;
  uint32_t code_file;
  uint32_t code_name;  // co_qualname from 3.11 on
  uint32_t code_line_table;
  uint32_t code_instructions;     // 3.11+: begin in the object; before: pointer to a bytes object
  uint32_t code_first_traceable;  // 3.11+; else kNoOffset
  uint32_t code_version;          // 3.12+: unique for every code object ever made; else kNoOffset
  // While lines are traced: _co_monitoring, in it the list of what was replaced, an entry for each
  // code unit that begins with the opcode. Entries have two bytes in 3.12 and 3.13; from 3.14 on
  // the list begins with a byte that says how many. Before 3.12: kNoOffset.
  uint32_t code_monitoring;
  uint32_t monitoring_lines;
  uint32_t code_bytes;

  // str and bytes.
  uint32_t text_header_bytes;          // sizeof(PyASCIIObject): where ASCII texts begin
  uint32_t text_compact_header_bytes;  // where other texts begin
  uint32_t text_length;
  uint32_t text_state;
  uint32_t bytes_begin;
};

// The constants for 3.`minor`; nullptr unless 9 to 12.
const PythonLayout* FixedPythonLayout(int minor);

// From the table that 3.13 to 3.15 publish at the head of _PyRuntime. `bytes` holds
// kDebugOffsetsBytes. False, with a sentence in `reason`, for a free-threaded build or numbers that
// cannot be.
[[nodiscard]] bool PublishedPythonLayout(const uint8_t* bytes, PythonLayout* out,
                                         const char** reason);

// Does 3.13+'s table begin here? Its PY_VERSION_HEX then, 0 otherwise.
uint32_t PublishedPythonVersion(const uint8_t* bytes);

// Is `opcode`, as it stands in the code of 3.`minor` (specialised and instrumented spellings
// included), one that enters C for an arbitrary time: a call of something that need not be Python,
// entering or leaving `with`, an import, or (3.12+, where the loops over lists, tuples and ranges
// have spellings of their own) the step of a for loop. Calls specialised for Python functions are
// not. Arithmetic, subscripts and attributes are not either, although a C type's may take long:
// they are what interpreted code is made of.
bool IsPythonCallOpcode(int minor, uint8_t opcode);
// Of these: whether it may as well call a Python function, being specialised for nothing.
bool MayCallPython(int minor, uint8_t opcode);

// The opcode that stands for another one while sys.settrace or sys.monitoring listens for lines;
// 0: there is none.
uint8_t LineTracingOpcode(int minor);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_LAYOUT_H_

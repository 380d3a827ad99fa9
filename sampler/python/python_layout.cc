// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_layout.h"

#include <cstring>

namespace gpuprobe::sampler {
namespace {

// interval, last_holder, locked, switch_number, then two condition variables and two mutexes of
// glibc: the same from 3.9 to 3.15 without Py_GIL_DISABLED.
constexpr uint32_t kGilLastHolder = 8;
constexpr uint32_t kGilLocked = 16;
constexpr uint32_t kGilBytes = 208;

constexpr PythonLayout kPython39 = {
    .minor = 9,
    .runtime_finalizing = 16,
    .runtime_interpreters = 32,
    .runtime_gil = 352,
    .interpreter_next = 0,
    .interpreter_threads = 8,
    .interpreter_runtime = 16,
    .interpreter_gil = kNoOffset,
    .gil_last_holder = kGilLastHolder,
    .gil_locked = kGilLocked,
    .gil_bytes = kGilBytes,
    .thread_prev = 0,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_pthread = 176,
    .thread_native_id = kNoOffset,
    .thread_frame = 24,
    .cframe_frame = kNoOffset,
    .thread_datastack = kNoOffset,
    .thread_bytes = 184,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instruction = 104,
    .frame_owner = kNoOffset,
    .frame_state = 116,
    .frame_bytes = 117,
    .code_first_line = 40,
    .code_file = 104,
    .code_name = 112,
    .code_line_table = 120,
    .code_instructions = 48,
    .code_first_traceable = kNoOffset,
    .code_version = kNoOffset,
    .code_monitoring = kNoOffset,
    .monitoring_lines = kNoOffset,
    .code_bytes = 128,
    .text_header_bytes = 48,
    .text_compact_header_bytes = 72,
    .text_length = 16,
    .text_state = 32,
    .bytes_begin = 32,
};

constexpr PythonLayout Python310() {
  PythonLayout layout = kPython39;
  layout.minor = 10;
  layout.frame_instruction = 96;
  layout.frame_state = 108;
  layout.frame_bytes = 109;
  return layout;
}
constexpr PythonLayout kPython310 = Python310();

constexpr PythonLayout kPython311 = {
    .minor = 11,
    .runtime_finalizing = 24,
    .runtime_interpreters = 40,
    .runtime_gil = 360,
    .interpreter_next = 0,
    .interpreter_threads = 16,
    .interpreter_runtime = 40,
    .interpreter_gil = kNoOffset,
    .gil_last_holder = kGilLastHolder,
    .gil_locked = kGilLocked,
    .gil_bytes = kGilBytes,
    .thread_prev = 0,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_pthread = 152,
    .thread_native_id = 160,
    .thread_frame = 56,
    .cframe_frame = 8,
    .thread_datastack = 296,
    .thread_bytes = 304,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_state = kNoOffset,
    .frame_bytes = 72,
    .code_first_line = 72,
    .code_file = 112,
    .code_name = 128,
    .code_line_table = 136,
    .code_instructions = 184,
    .code_first_traceable = 168,
    .code_version = kNoOffset,
    .code_monitoring = kNoOffset,
    .monitoring_lines = kNoOffset,
    .code_bytes = 172,
    .text_header_bytes = 48,
    .text_compact_header_bytes = 72,
    .text_length = 16,
    .text_state = 32,
    .bytes_begin = 32,
};

constexpr PythonLayout kPython312 = {
    .minor = 12,
    .runtime_finalizing = 24,
    .runtime_interpreters = 40,
    .runtime_gil = kNoOffset,
    .interpreter_next = 0,
    .interpreter_threads = 72,
    .interpreter_runtime = 96,
    .interpreter_gil = 384,
    .gil_last_holder = kGilLastHolder,
    .gil_locked = kGilLocked,
    .gil_bytes = kGilBytes,
    .thread_prev = 0,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_pthread = 136,
    .thread_native_id = 144,
    .thread_frame = 56,
    .cframe_frame = 0,
    .thread_datastack = 232,
    .thread_bytes = 240,
    .frame_previous = 8,
    .frame_code = 0,
    .frame_instruction = 56,
    .frame_owner = 70,
    .frame_state = kNoOffset,
    .frame_bytes = 72,
    .code_first_line = 68,
    .code_file = 112,
    .code_name = 128,
    .code_line_table = 136,
    .code_instructions = 192,
    .code_first_traceable = 176,
    .code_version = 92,
    .code_monitoring = 168,
    .monitoring_lines = 40,
    .code_bytes = 180,
    .text_header_bytes = 40,
    .text_compact_header_bytes = 56,
    .text_length = 16,
    .text_state = 32,
    .bytes_begin = 32,
};

// Indices into the published table, in words, where the versions differ; what follows keeps the
// order of the fields within each group.
struct PublishedGroups {
  int interpreter, thread, frame, code, bytes, text;
  int threads_head, ceval_gil;
  int thread_ids;  // thread_id, native_thread_id, datastack_chunk
};
// Not published: fields of structures that only the interpreter sees.
struct UnpublishedOffsets {
  uint32_t monitoring_before_traceable;  // _co_monitoring, counted back from _co_firsttraceable
  uint32_t monitoring_lines;             // in what it points to
};
constexpr UnpublishedOffsets kUnpublished313 = {8, 32};
constexpr UnpublishedOffsets kUnpublished314 = {16, 96};
constexpr UnpublishedOffsets kUnpublished315 = {16, 104};
constexpr PublishedGroups kGroups313 = {.interpreter = 6,
                                        .thread = 19,
                                        .frame = 28,
                                        .code = 34,
                                        .bytes = 64,
                                        .text = 67,
                                        .threads_head = 9,
                                        .ceval_gil = 14,
                                        .thread_ids = 24};
constexpr PublishedGroups kGroups314 = {.interpreter = 6,
                                        .thread = 22,
                                        .frame = 31,
                                        .code = 39,
                                        .bytes = 74,
                                        .text = 77,
                                        .threads_head = 9,
                                        .ceval_gil = 15,
                                        .thread_ids = 27};
// With base_frame and two fields for profilers behind the thread's current_frame.
constexpr PublishedGroups kGroups315 = {.interpreter = 6,
                                        .thread = 22,
                                        .frame = 39,
                                        .code = 47,
                                        .bytes = 86,
                                        .text = 89,
                                        .threads_head = 9,
                                        .ceval_gil = 15,
                                        .thread_ids = 30};

// Nothing that we know is larger: an interpreter state has 200 KB in 3.13.
constexpr uint64_t kMaxPublishedOffset = 1 << 24;

class PublishedWords {
 public:
  explicit PublishedWords(const uint8_t* bytes) : bytes_(bytes) {}
  uint64_t At(int index) const {
    uint64_t value;
    memcpy(&value, bytes_ + index * 8, 8);
    return value;
  }
  // An offset; one that cannot be makes ok() false.
  uint32_t Offset(int index) {
    const uint64_t value = At(index);
    if (value >= kMaxPublishedOffset) ok_ = false;
    return static_cast<uint32_t>(value);
  }
  bool ok() const { return ok_; }

 private:
  const uint8_t* bytes_;
  bool ok_ = true;
};

uint32_t Max(uint32_t a, uint32_t b) { return a > b ? a : b; }

struct OpcodeSet {
  uint64_t bits[4] = {};
  constexpr bool Has(uint8_t opcode) const { return bits[opcode >> 6] >> (opcode & 63) & 1; }
};

template <size_t N>
constexpr OpcodeSet Opcodes(const uint8_t (&list)[N]) {
  OpcodeSet set;
  for (const uint8_t opcode : list) set.bits[opcode >> 6] |= uint64_t{1} << (opcode & 63);
  return set;
}

// IMPORT_NAME, SETUP_WITH, WITH_EXCEPT_START, CALL_FUNCTION, _KW, _EX, CALL_METHOD (3.10 counts its
// opcodes as 3.9 does).
constexpr OpcodeSet kCalls39 = Opcodes({108, 143, 49, 131, 141, 142, 161});
// IMPORT_NAME, BEFORE_WITH, WITH_EXCEPT_START, CALL_FUNCTION_EX, CALL, CALL_ADAPTIVE, and PRECALL's
// spellings for builtins, which do the call themselves; PRECALL, PRECALL_ADAPTIVE,
// PRECALL_BOUND_METHOD and PRECALL_PYFUNC only prepare it.
constexpr OpcodeSet kCalls311 = Opcodes(
    {108, 53, 49, 142, 171, 22, 66, 67, 72, 73, 76, 77, 78, 79, 80, 81, 113, 121, 127, 141});
// IMPORT_NAME, BEFORE_WITH, WITH_EXCEPT_START, FOR_ITER, CALL_FUNCTION_EX, CALL, CALL_BUILTIN_*,
// CALL_METHOD_DESCRIPTOR_*, CALL_NO_KW_*, INSTRUMENTED_CALL, _CALL_FUNCTION_EX, _FOR_ITER.
constexpr OpcodeSet kCalls312 = Opcodes({108, 53, 49, 93, 142, 171, 29, 34, 38,  39,  40, 41,
                                         42,  43, 44, 45, 46,  47,  48, 56, 241, 244, 248});
// IMPORT_NAME, BEFORE_WITH, WITH_EXCEPT_START, FOR_ITER, CALL, CALL_FUNCTION_EX, CALL_KW,
// CALL_BUILTIN_* to CALL_NON_PY_GENERAL, CALL_STR_1, CALL_TUPLE_1, CALL_TYPE_1, INSTRUMENTED_CALL,
// _CALL_KW, _CALL_FUNCTION_EX, _FOR_ITER.
constexpr OpcodeSet kCalls313 =
    Opcodes({75,  2,   44,  72,  53,  54,  57,  165, 166, 167, 168, 169, 170,
             171, 172, 173, 174, 175, 176, 179, 180, 181, 244, 245, 246, 243});
// IMPORT_NAME, WITH_EXCEPT_START, FOR_ITER, CALL, CALL_FUNCTION_EX, CALL_KW, CALL_BUILTIN_* to
// CALL_ISINSTANCE, CALL_KW_NON_PY, CALL_LEN to CALL_NON_PY_GENERAL, CALL_STR_1, CALL_TUPLE_1,
// CALL_TYPE_1, INSTRUMENTED_FOR_ITER, _CALL, _CALL_KW, _CALL_FUNCTION_EX. (`with` uses CALL.)
constexpr OpcodeSet kCalls314 =
    Opcodes({73,  43,  70,  52,  4,   55,  146, 147, 148, 149, 150, 152, 154,
             155, 156, 157, 158, 159, 160, 163, 164, 165, 237, 250, 251, 252});
// IMPORT_NAME, WITH_EXCEPT_START, FOR_ITER, CALL, CALL_FUNCTION_EX, CALL_KW, CALL_BUILTIN_*,
// CALL_EX_NON_PY_GENERAL, CALL_ISINSTANCE, CALL_KW_NON_PY, CALL_LEN to CALL_NON_PY_GENERAL,
// CALL_STR_1, CALL_TUPLE_1, CALL_TYPE_1, INSTRUMENTED_FOR_ITER, _CALL, _CALL_KW, _CALL_FUNCTION_EX.
// (FOR_ITER_VIRTUAL is for types of the interpreter's own, as FOR_ITER_LIST is.)
constexpr OpcodeSet kCalls315 =
    Opcodes({72,  41,  68,  50,  4,   53,  147, 148, 149, 150, 151, 153, 155, 157,
             158, 159, 160, 161, 162, 163, 166, 167, 168, 236, 249, 250, 251});
// Those of them that are specialised for nothing.
constexpr OpcodeSet kAnyCalls311 = Opcodes({108, 53, 49, 142, 171, 22});
constexpr OpcodeSet kAnyCalls312 = Opcodes({108, 53, 49, 93, 142, 171, 241, 244, 248});
constexpr OpcodeSet kAnyCalls313 = Opcodes({75, 2, 44, 72, 53, 54, 57, 244, 245, 246, 243});
constexpr OpcodeSet kAnyCalls314 = Opcodes({73, 43, 70, 52, 4, 55, 237, 250, 251, 252});
constexpr OpcodeSet kAnyCalls315 = Opcodes({72, 41, 68, 50, 4, 53, 236, 249, 250, 251});

}  // namespace

const PythonLayout* FixedPythonLayout(int minor) {
  switch (minor) {
    case 9:
      return &kPython39;
    case 10:
      return &kPython310;
    case 11:
      return &kPython311;
    case 12:
      return &kPython312;
    default:
      return nullptr;
  }
}

uint32_t PublishedPythonVersion(const uint8_t* bytes) {
  if (memcmp(bytes, "xdebugpy", 8) != 0) return 0;
  const uint64_t version = PublishedWords(bytes).At(1);
  return version >> 24 == 3 ? static_cast<uint32_t>(version) : 0;
}

bool PublishedPythonLayout(const uint8_t* bytes, PythonLayout* out, const char** reason) {
  const int minor = PublishedPythonVersion(bytes) >> 16 & 0xFF;
  if (minor < 13 || minor > kMaxPythonMinor) {
    *reason = "this Python version is not known";
    return false;
  }
  PublishedWords words(bytes);
  if (words.At(2) != 0) {
    *reason = "a free-threaded Python is not supported";
    return false;
  }
  const PublishedGroups& groups = minor == 13 ? kGroups313 : minor == 14 ? kGroups314 : kGroups315;
  const UnpublishedOffsets& unpublished = minor == 13   ? kUnpublished313
                                          : minor == 14 ? kUnpublished314
                                                        : kUnpublished315;
  PythonLayout layout = {};
  layout.minor = minor;
  layout.runtime_finalizing = words.Offset(4);
  layout.runtime_interpreters = words.Offset(5);
  layout.runtime_gil = kNoOffset;
  layout.interpreter_next = words.Offset(groups.interpreter + 2);
  layout.interpreter_threads = words.Offset(groups.threads_head);
  layout.interpreter_runtime = kNoOffset;
  layout.interpreter_gil = words.Offset(groups.ceval_gil);
  // The lock's own fields are given relative to the interpreter's built-in lock.
  const uint32_t gil = words.Offset(groups.ceval_gil + 1);
  layout.gil_locked = words.Offset(groups.ceval_gil + 3) - gil;
  layout.gil_last_holder = words.Offset(groups.ceval_gil + 4) - gil;
  layout.gil_bytes = kGilBytes;
  layout.thread_prev = words.Offset(groups.thread + 1);
  layout.thread_next = words.Offset(groups.thread + 2);
  layout.thread_interpreter = words.Offset(groups.thread + 3);
  layout.thread_frame = words.Offset(groups.thread + 4);
  layout.thread_pthread = words.Offset(groups.thread_ids);
  layout.thread_native_id = words.Offset(groups.thread_ids + 1);
  layout.thread_datastack = words.Offset(groups.thread_ids + 2);
  layout.thread_bytes =
      8 + Max(Max(layout.thread_next, layout.thread_interpreter),
              Max(Max(layout.thread_frame, layout.thread_native_id), layout.thread_datastack));
  layout.cframe_frame = kNoOffset;
  layout.frame_previous = words.Offset(groups.frame + 1);
  layout.frame_code = words.Offset(groups.frame + 2);
  layout.frame_instruction = words.Offset(groups.frame + 3);
  layout.frame_owner = words.Offset(groups.frame + 5);
  layout.frame_state = kNoOffset;
  layout.frame_bytes = 8 + Max(Max(layout.frame_previous, layout.frame_code),
                               Max(layout.frame_instruction, layout.frame_owner));
  layout.code_file = words.Offset(groups.code + 1);
  layout.code_name = words.Offset(groups.code + 3);
  layout.code_line_table = words.Offset(groups.code + 4);
  layout.code_first_line = words.Offset(groups.code + 5);
  layout.code_instructions = words.Offset(groups.code + 9);
  // Not published. In 3.11 to 3.15 the instructions come after co_extra and, before it,
  // _co_firsttraceable; co_version is the last of the ints before co_localsplusnames, five ints
  // after co_firstlineno and the two of stack and frame size.
  layout.code_first_traceable = layout.code_instructions - 16;
  layout.code_version = layout.code_first_line + 24;
  layout.code_monitoring = layout.code_first_traceable - unpublished.monitoring_before_traceable;
  layout.monitoring_lines = unpublished.monitoring_lines;
  layout.code_bytes = 8 + Max(Max(layout.code_file, layout.code_name),
                              Max(layout.code_line_table, layout.code_first_traceable));
  layout.bytes_begin = words.Offset(groups.bytes + 2);
  layout.text_state = words.Offset(groups.text + 1);
  layout.text_length = words.Offset(groups.text + 2);
  layout.text_header_bytes = words.Offset(groups.text + 3);
  layout.text_compact_header_bytes = layout.text_header_bytes + 16;  // utf8_length, utf8
  const bool version_fits =
      words.Offset(groups.code + 7) == layout.code_version + 4;  // co_localsplusnames follows it
  if (!version_fits) layout.code_version = kNoOffset;
  if (!words.ok() || layout.gil_locked >= kGilBytes || layout.gil_last_holder >= kGilBytes ||
      layout.thread_bytes > kMaxThreadStateBytes || layout.frame_bytes > kMaxFrameBytes ||
      layout.code_bytes > kMaxCodeBytes || layout.code_first_line + 4 > layout.code_bytes ||
      layout.text_header_bytes > 64 || layout.text_state + 4 > layout.text_header_bytes ||
      layout.text_length + 8 > layout.text_header_bytes || layout.bytes_begin > 64) {
    *reason = "the offsets that this Python publishes cannot be";
    return false;
  }
  *out = layout;
  return true;
}

bool IsPythonCallOpcode(int minor, uint8_t opcode) {
  switch (minor) {
    case 9:
    case 10:
      return kCalls39.Has(opcode);
    case 11:
      return kCalls311.Has(opcode);
    case 12:
      return kCalls312.Has(opcode);
    case 13:
      return kCalls313.Has(opcode);
    case 14:
      return kCalls314.Has(opcode);
    case 15:
      return kCalls315.Has(opcode);
    default:
      return false;
  }
}

bool MayCallPython(int minor, uint8_t opcode) {
  switch (minor) {
    case 11:
      return kAnyCalls311.Has(opcode);
    case 12:
      return kAnyCalls312.Has(opcode);
    case 13:
      return kAnyCalls313.Has(opcode);
    case 14:
      return kAnyCalls314.Has(opcode);
    case 15:
      return kAnyCalls315.Has(opcode);
    default:
      return true;
  }
}

uint8_t LineTracingOpcode(int minor) { return minor >= 15 ? 253 : minor >= 12 ? 254 : 0; }

}  // namespace gpuprobe::sampler

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Reads the Python stacks of a process from outside: CPython 3.9 to 3.15 (x86-64), shared, static
// or embedded. No Python C-API call, no lock, no GIL: memory is read as bytes (ProcessMemory) by
// the layouts of each version, or by the offsets that the interpreter publishes (_Py_DebugOffsets,
// from 3.13 on). The interpreter runs on meanwhile, so every pointer may be stale: all reads are
// checked, all walks bounded, and a stack is accepted only if it is consistent.
//
// Thread: the sampler thread. One PythonReader a process.
#ifndef GPUPROBE_SAMPLER_PYTHON_PYTHON_READER_H_
#define GPUPROBE_SAMPLER_PYTHON_PYTHON_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "sampler/locations/location_table.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

// How deep a stack is read; what lies further out is cut (kStackCut). The innermost frames say what
// the thread does, and 50,000 levels of recursion must not cost more than this.
inline constexpr size_t kMaxStackDepth = 128;

struct PythonRuntime;  // python_runtime.h

enum class PythonStatus : uint8_t {
  kNone,  // no Python in this process (yet: ask again when its maps have grown)
  kReady,
  kUnsupported,  // a version or build that we do not know (free-threaded, 32 bit, older, newer)
  kUnreadable,   // its memory may not be read
  kFinalizing,   // the interpreter is going away
};

struct PythonStack {
  LocationId frames[kMaxStackDepth];  // innermost first
  size_t depth = 0;
  bool cut = false;  // deeper than that
  // The innermost frame stands in a call of something that is no Python (or enters or leaves a
  // `with`, imports, or, from 3.12 on, steps a for loop over a foreign iterator).
  // At an instruction that may as well call Python (up to 3.10 any call, from 3.11 on one with
  // keywords or of ever other functions) only if the thread stands still there from the first
  // reading to the second, half a microsecond later: calls of C that take less than a few
  // microseconds are told too seldom there. One that is stopped while a call of Python is prepared
  // is told as if it were in C.
  bool in_c_function = false;
  // The thread called and returned too fast for the innermost frames to be told: these are the
  // outer ones, and true.
  bool partial = false;
};

// One look at the interpreter's lock. `known` false: this version or build does not tell.
struct GilState {
  bool known = false;
  bool locked = false;
  pid_t holder_tid = 0;                         // 0: nobody, or not known
  uint64_t begin_address = 0, end_address = 0;  // of the lock itself: a futex call on an address in
                                                // here waits for the GIL
};

class PythonReader {
 public:
  constexpr PythonReader() = default;
  PythonReader(const PythonReader&) = delete;
  PythonReader& operator=(const PythonReader&) = delete;

  // Bytes that one reader needs; zeroed, owned by the caller.
  static size_t MemoryBytes();
  void Init(void* memory);

  // Looks for an interpreter in the process (its maps, its ELF files). Expensive (reads
  // /proc/PID/maps): call it at the start, and again as long as the status is kNone and the process
  // has loaded more. `memory` outlives the reader's use.
  PythonStatus Attach(const ProcessMemory* memory);
  // The same where the interpreter is known already; it is believed.
  PythonStatus AttachRuntime(const ProcessMemory* memory, const PythonRuntime& runtime);
  PythonStatus status() const;
  // "3.12.3"; empty unless found.
  const char* version() const;
  // One sentence for kUnsupported and kUnreadable.
  const char* reason() const;

  // Once a tick, before the stacks: the list of interpreter threads and the GIL. False: nothing can
  // be read at this moment.
  bool BeginLook();
  const GilState& gil() const;  // of the main interpreter, as of BeginLook

  enum class Read : uint8_t {
    kOk,
    kNoPython,  // this thread has no Python stack at this moment (or no thread state at all)
    kTorn,      // it changed under us, twice
  };
  // The stack of the thread with that Linux tid. `table` takes the locations; it is the same one
  // every time (another makes the reader forget what it knows of code objects).
  Read ReadStack(pid_t tid, LocationTable* table, PythonStack* out);

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_PYTHON_PYTHON_READER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A process that is looked at: who it is, and the ways into its memory that are open. The recorded
// process itself is one, each of its descendants is another.
//
// Thread: the sampler thread.
#ifndef GPUPROBE_SAMPLER_LOOK_SAMPLED_PROCESS_H_
#define GPUPROBE_SAMPLER_LOOK_SAMPLED_PROCESS_H_

#include <cstddef>
#include <cstdint>

#include "proto/sample_encoder.h"
#include "sampler/python/python_reader.h"
#include "sampler/system/process_memory.h"

namespace gpuprobe::sampler {

struct SampledProcess {
  uint32_t pid = 0;  // 0: nobody
  uint32_t parent_pid = 0;
  uint64_t start_ticks = 0;
  uint32_t allowed_cpus = 0;
  char name[16] = {};
  char command_line[257] = {};

  ProcessMemory memory;
  bool memory_tried = false, memory_open = false;
  PythonReader* python = nullptr;  // lent by the pool; nullptr: no Python, or no reader left
  int64_t next_attach_ns = 0;      // CLOCK_MONOTONIC; INT64_MAX: settled
  int64_t attach_pause_ns = 0;
  char python_version[16] = {};              // stays when the reader goes to another
  bool gil_begun = false, gil_read = false;  // in this tick

  // What could not be looked at, and why.
  static constexpr size_t kMaxNotes = 6;
  char notes[kMaxNotes][120] = {};
  size_t note_count = 0;

  uint32_t described_in = 0;  // the piece that has its facts; 0: none has them as they are now
};

// Reads who it is. False: gone, or a zombie.
bool Describe(uint32_t pid, SampledProcess* out);
// Whether it has another command line than when it was described: it called exec().
bool IsAnotherProgram(const SampledProcess& process);
// Adds a note unless it is there.
void AddNote(SampledProcess* process, const char* what, const char* why);

// Opens its memory at the first call; false: cannot be read (noted).
bool OpenMemory(SampledProcess* process);

// Looks for an interpreter when it is time to, with the reader that it has. True: it has looked
// (expensive). After it `python` may have a status of its own.
bool AttachPython(SampledProcess* process, int64_t now_ns);
bool HasPython(const SampledProcess& process);

// Its interpreter's lock, read once a tick; nullptr: none, or not known.
const GilState* LookAtGil(SampledProcess* process);

// A name for the errors that stand in the way of reading; "errno 5" otherwise.
void ErrorText(int error, char* out, size_t size);

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_LOOK_SAMPLED_PROCESS_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Collects host samples and writes them as one serialised HostSamples message (gpuprobe.proto),
// complete in itself: strings, locations and stacks that it uses are inside. Fixed memory, nothing
// allocated after Init. What does not fit is refused (full() is true from then on): the caller
// seals, begins anew and adds it again. Ids of strings, locations and stacks are those of the
// current piece; ids that are out of range count as 0.
//
// Room: 6,144 samples of 512 threads, 16,383 stack nodes, 4,096 locations and strings, 128
// processes, 256 modules, 192 KiB of text, and no more than what is sure to fit into
// kMaxSealedBytes.
//
// Thread: one (the sampler thread).
#ifndef GPUPROBE_PROTO_SAMPLE_ENCODER_H_
#define GPUPROBE_PROTO_SAMPLE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuprobe::proto {

// One sample; the fields are those of ThreadSamples. Times are written in microseconds, rounded so
// that what is not 0 stays so, and that cpu + runnable <= interval stays true.
struct SampleRecord {
  int64_t time_ns;  // trace clock
  uint64_t interval_ns, cpu_ns, runnable_ns;
  uint32_t state, flags;
  uint32_t stack;  // from InternStack; 0: none
  int32_t syscall = -1;
  uint32_t wait_target;  // from InternText; 0: none
  uint32_t gil_holder;
};

struct SampledProcessFacts {
  uint32_t pid, parent_pid;
  std::string_view name, command_line, python_version;
  const std::string_view* unreadable;
  size_t unreadable_count;
  uint64_t start_ticks;
  uint32_t allowed_cpus;
  bool ended;
};

struct SamplerTotals {
  uint64_t sampler_cpu_ns, looks, ticks_missed, samples_dropped, stacks_unreadable;
};

class SampleEncoder {
 public:
  constexpr SampleEncoder() = default;
  SampleEncoder(const SampleEncoder&) = delete;
  SampleEncoder& operator=(const SampleEncoder&) = delete;

  static constexpr size_t kMemoryBytes = 1u << 20;
  static constexpr size_t kMaxSealedBytes = kMemoryBytes / 2;
  void Init(void* memory);  // zeroed, aligned to 64, owned by the caller

  // Starts a piece; forgets everything of the one before. Before anything else.
  void Begin(int64_t base_ns);
  // 0: no room (or no text). Cut at 1 KiB; bytes that are no UTF-8 become '?'.
  uint32_t InternText(std::string_view text);
  // `caller_id`: id that the caller of this function uses for the location for as long as it lives
  // (LocationId): saves looking at the texts again. `function`, `file` are ids of InternText.
  uint32_t FindLocation(uint32_t caller_id) const;  // 0: not in this piece yet
  uint32_t AddLocation(uint32_t caller_id, uint32_t function, uint32_t file, uint32_t line,
                       uint64_t offset, uint32_t kind);
  // Build id (64 bytes at most) of the module whose path is `file`; once a piece and module.
  // Readers name functions only from a file that has it. False: no room, or no such text.
  bool AddModule(uint32_t file, const void* build_id, size_t size);
  // `locations`: innermost first. 0: no room (or no depth).
  uint32_t InternStack(const uint32_t* locations, size_t depth);

  // False: no room; nothing was added.
  bool AddSample(uint32_t pid, uint32_t tid, const SampleRecord& sample);
  // Name of a thread that has samples in this piece; the first one stays. Cut at 64 bytes.
  void NameThread(uint32_t pid, uint32_t tid, std::string_view name, bool main);
  // What is said of a process again in the same piece replaces what was. Texts are cut: names at 64
  // bytes, the command line at 256, reasons (8 at most) at 160. False: no room; nothing was added.
  bool AddProcess(const SampledProcessFacts& facts);

  bool empty() const;  // no sample and no process
  bool full() const;   // something of this piece was refused
  // Writes the message to `out`; returns its size, 0 if it does not fit (kMaxSealedBytes always
  // do).
  size_t Seal(int64_t end_ns, const SamplerTotals& totals, uint8_t* out, size_t capacity);

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_SAMPLE_ENCODER_H_

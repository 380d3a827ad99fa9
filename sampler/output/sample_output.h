// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Puts samples into the piece that is being written, seals it when its time has come or when it is
// full, and hands it over. What finds no room is counted.
//
// Thread: the sampler thread; the pieces' other end is the drain thread's.
#ifndef GPUPROBE_SAMPLER_OUTPUT_SAMPLE_OUTPUT_H_
#define GPUPROBE_SAMPLER_OUTPUT_SAMPLE_OUTPUT_H_

#include <cstdint>

#include "proto/sample_encoder.h"
#include "sampler/locations/location_table.h"
#include "sampler/look/sampled_process.h"
#include "sampler/look/thread_look.h"
#include "sampler/output/sealed_pieces.h"

namespace gpuprobe::sampler {

class SampleOutput {
 public:
  constexpr SampleOutput() = default;
  SampleOutput(const SampleOutput&) = delete;
  SampleOutput& operator=(const SampleOutput&) = delete;

  static constexpr size_t kMemoryBytes =
      proto::SampleEncoder::kMemoryBytes + SealedPieces::kMemoryBytes;
  void Init(void* memory, LocationTable* locations, int64_t trace_minus_monotonic_ns);

  // All times CLOCK_MONOTONIC.
  void Begin(int64_t now_ns);
  void Add(SampledProcess* process, WatchedThread* thread);
  // The last of a process.
  void AddEnded(const SampledProcess& process, int64_t now_ns);
  // A process of which there will be no samples: why stands in its notes.
  void AddUnsampled(const SampledProcess& process) { AddFacts(process, /*ended=*/false); }
  // Totals but for samples_dropped, which is counted here.
  void Seal(int64_t now_ns, const proto::SamplerTotals& totals);
  bool full() const { return encoder_.full(); }
  bool empty() const { return encoder_.empty(); }
  int64_t begin_ns() const { return begin_ns_; }

  SealedPieces* pieces() { return &pieces_; }

 private:
  bool TryAdd(SampledProcess* process, WatchedThread* thread);
  void EncodeModule(TextId path, uint32_t encoded);
  uint32_t EncodeStack(const WatchedThread& thread);
  bool AddFacts(const SampledProcess& process, bool ended);

  proto::SampleEncoder encoder_;
  SealedPieces pieces_;
  LocationTable* locations_ = nullptr;
  int64_t to_trace_ns_ = 0, begin_ns_ = 0;
  proto::SamplerTotals totals_ = {};    // as of the last Seal
  uint64_t samples_ = 0, dropped_ = 0;  // in this piece; in all
  uint32_t piece_ = 0;
};

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_OUTPUT_SAMPLE_OUTPUT_H_

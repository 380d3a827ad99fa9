// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The inside of TraceWriter: what is staged for the frame being filled, and how it becomes a frame
// (frame_assembly.cc). trace_writer.cc puts records in.
#ifndef GPUPROBE_PROTO_WRITER_STATE_H_
#define GPUPROBE_PROTO_WRITER_STATE_H_

#include <cstddef>
#include <cstdint>

#include "proto/arena.h"
#include "proto/column_encoder.h"
#include "proto/facts.h"
#include "proto/frame_compressor.h"
#include "proto/frame_dictionary.h"
#include "proto/staging.h"
#include "proto/trace_writer.h"
#include "proto/wire.h"

namespace gpuprobe::proto {

inline constexpr size_t kTextBytes = 128;  // who, reason
inline constexpr size_t kMaxBlinds = 32;
inline constexpr size_t kCauses = 32;  // LossCause values that are told apart

struct LossEntry {
  uint64_t count;
  int64_t begin_ns, end_ns, detail;
};

struct BlindEntry {
  int64_t begin_ns, end_ns;
  char who[kTextBytes], reason[kTextBytes];
  bool reported;  // as it is, in an accepted frame
};

struct EndInfo {
  const char* reason;
  uint32_t buffers_outstanding;
};

// Copies text of any length and bytes: cut, NUL-terminated, valid UTF-8. nullptr is empty.
void CopyText(char (&out)[kTextBytes], const char* text);

struct TraceWriter::State {
  WriterOptions options;
  WriterHooks hooks;
  Staging staging;
  FrameDictionary dictionary;
  Facts facts;
  ColumnEncoder encoder;
  FrameCompressor compressor;
  uint8_t* raw = nullptr;  // the uncompressed frame
  size_t raw_bytes = 0;
  size_t batch_limit = 0;  // what the batches of a frame may need at most
  size_t batch_bytes = 0;  // what those staged may need
  ConstantOffset offset = {1, 0, 0};
  uint64_t sequence = 0;
  LossEntry losses[kCauses] = {};
  BlindEntry blinds[kMaxBlinds] = {};
  size_t blind_count = 0;
  WriterStats* stats = nullptr;

  bool Init(const WriterOptions& o, const WriterHooks& h, Arena* arena);

  // Makes sure that one more record fits: closes the frame if `array` is full, if the record might
  // not fit into the frame, or if `resolve` (dictionary ids, lane) finds no room. False: lost,
  // counted.
  template <class T, class Resolve>
  bool Admit(const StagedArray<T>& array, size_t max_bytes, Resolve resolve);
  // What TakeKnown... does not take.
  void Stage(const ApiRecord& r);
  void Stage(const KernelRecord& r);
  // Whether times are in order and on the stretch of the clock that needs no call.
  bool OffsetApplies(int64_t start_ns, int64_t end_ns) const {
    return start_ns >= offset.first_ns && start_ns <= end_ns && end_ns <= offset.last_ns;
  }
  void AskOffset();
  bool FindLane(LaneClass lane_class, Timing timing, uint32_t device, uint32_t context,
                uint32_t stream, int* lane);
  // Puts usable times on the trace clock and into the frame's time range.
  void ConvertGpuTimes(Timing* timing, int64_t* start_ns, int64_t* end_ns);
  void ConvertHostTimes(int64_t* start_ns, int64_t* end_ns);
  int64_t ToTrace(int64_t ns) const {
    return hooks.to_trace_ns == nullptr ? ns : hooks.to_trace_ns(hooks.user, ns);
  }

  bool WriteFrame(const EndInfo* end);
  void AddSessionPackets(WireWriter* out);
  void AddDictionary(WireWriter* out);
  void AddLosses(WireWriter* out);
  void AddBlinds(WireWriter* out);
  void AddEnd(WireWriter* out, const EndInfo& end);
  // Writes the FrameHeader packet so that it ends at raw + kHeaderBytes; returns where it begins.
  uint8_t* PrependHeader(const ClockReading& clock);
  void Loss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns, int64_t detail);
  void ForgetReported();
  void BeginFrame();
};

template <class T, class Resolve>
bool TraceWriter::State::Admit(const StagedArray<T>& array, size_t max_bytes, Resolve resolve) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!array.full() && batch_bytes + max_bytes + kBatchMaxBytes <= batch_limit && resolve()) {
      batch_bytes += max_bytes;
      return true;
    }
    WriteFrame(nullptr);
  }
  Loss(LossCause::kWriterFull, 1, 0, 0, 0);
  return false;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_WRITER_STATE_H_

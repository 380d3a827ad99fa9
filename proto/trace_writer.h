// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Turns normalised records into zstd frames of packed protobuf columns (gpuprobe.proto, FORMAT.md).
// One writer per trace file, used by one thread (the drain thread). It allocates everything at Init
// from the memory that it is given and nothing afterwards; it never throws, locks or writes to a
// file itself: a closed frame is handed to the FrameSink.
//
// The On* functions make it a sink for cupti::BufferDecoder. Records are staged per lane and become
// columns in CloseFrame. When staging or a table of the frame (names, shapes, lanes) is full an On*
// call closes the frame by itself (clock from the clock function), so records are lost only if the
// sink fails, and no table can be filled up for good: ids are local to the frame.
#ifndef GPUPROBE_PROTO_TRACE_WRITER_H_
#define GPUPROBE_PROTO_TRACE_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "ringbuf/records.h"

namespace gpuprobe::proto {

struct ClockReading {  // all ns, see ClockPair in gpuprobe.proto
  int64_t trace_ns, monotonic_ns, realtime_ns, cupti_ns;
  uint32_t uncertainty_ns;
};

// A stretch of record times on which to_trace_ns adds a constant. Both ends belong to it; first_ns
// is above 0 and last_ns + offset_ns does not overflow. last_ns below first_ns: there is none.
struct ConstantOffset {
  int64_t first_ns, last_ns, offset_ns;
};

// Facts that the writer cannot know, provided by its user. Function pointers, because the injected
// side has neither virtual functions that may be destroyed nor std::function.
struct WriterHooks {
  void* user = nullptr;
  // Receives one complete zstd frame. False: not written (the writer counts the loss and goes on).
  bool (*write_frame)(void* user, const uint8_t* data, size_t size) = nullptr;
  ClockReading (*read_clocks)(void* user) = nullptr;
  // Maps a record time on CUPTI's clock to the trace clock. nullptr: identity.
  int64_t (*to_trace_ns)(void* user, int64_t cupti_ns) = nullptr;
  // Spares to_trace_ns two calls a record. Asked in BeginBuffer and after read_clocks, and holds
  // until then. nullptr: nothing is known (all times, offset 0, where to_trace_ns is nullptr).
  ConstantOffset (*constant_offset)(void* user) = nullptr;
  // Copies the NUL-terminated string at a pointer that may dangle; returns its length, or -1 if it
  // cannot be read. At most `capacity` bytes are copied, no NUL is added.
  int64_t (*read_name)(void* user, const char* name, char* out, size_t capacity) = nullptr;
  // Name (without version suffix) and ApiClass (gpuprobe.proto) of a call.
  const char* (*api_name)(void* user, ApiDomain domain, uint32_t cbid,
                          uint32_t* api_class) = nullptr;
  // Appends packets of the session (ProcessInfo, CaptureInfo, Cost, ThreadInfo ...), called once
  // per frame right after the FrameHeader. Packets are added through PacketBuilder
  // (packet_builder.h).
  void (*add_packets)(void* user, class PacketBuilder* out) = nullptr;
};

struct WriterOptions {
  size_t memory_bytes = 20u << 20;     // everything: staging, dictionaries, columns, zstd workspace
  uint32_t max_frame_records = 65536;  // per record class
  int zstd_level = 1;
  uint32_t flush_period_ms = 500;
  uint64_t file_id = 0;
};

struct WriterStats {
  uint64_t frames, records, bytes;  // closed and accepted by the sink
  uint64_t records_lost;            // in frames that the sink refused
  uint64_t names_replaced;          // records whose name could not be read
  uint64_t packets_left_out;        // of add_packets, too large for the frame
};

class TraceWriter {
 public:
  constexpr TraceWriter() = default;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // `memory` of options.memory_bytes, zeroed, page aligned, owned by the caller, kept for ever.
  // False if it is too small for the options, zstd does not know the level, or write_frame is
  // missing. What the tables do not need (12 MiB with the defaults) is split between the
  // uncompressed and the compressed frame.
  [[nodiscard]] bool Init(const WriterOptions& options, const WriterHooks& hooks, void* memory);

  void OnKernel(const KernelRecord& r);
  void OnCopy(const CopyRecord& r);
  void OnSet(const SetRecord& r);
  void OnGraph(const GraphRecord& r);
  void OnApi(const ApiRecord& r);
  void OnSync(const SyncRecord& r);
  void OnCudaEvent(const CudaEventRecord& r);
  void OnOverhead(const OverheadRecord& r);
  void OnMarker(const MarkerRecord& r);
  void OnDevice(const DeviceRecord& r);  // facts: kept for the rest of the file
  void OnContext(const ContextRecord& r);
  void OnStream(const StreamRecord& r);

  // The same for the common record (a plain kernel, a call that succeeded) that has all it needs in
  // this frame already. False: not taken, and nothing has happened; ask On*. Decides by itself
  // whether the times are usable. Defined in trace_writer_inl.h, for the loop that decodes.
  // Kernel: cupti::KernelInBuffer, or KernelFields (frame_dictionary.h) of a record.
  template <class Kernel>
  bool TakeKnownKernel(const Kernel& k);
  bool TakeKnownCall(const ApiRecord& r);

  // Names are read again at the next use of each pointer: call once per activity buffer, because
  // JIT modules come and go and pointers are reused.
  void BeginBuffer();

  // Loss counted since the last frame; merged by cause.
  void AddLoss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns, int64_t detail);
  // A blind period; end_ns 0 while it lasts: it stands in every frame until it is added again, with
  // the same begin_ns and its end. `who`, `reason`: copied, cut at 127 bytes.
  void AddBlind(int64_t begin_ns, int64_t end_ns, const char* who, const char* reason);

  // True if there is anything to write: staged records, losses, blind periods.
  bool HasData() const;
  // Writes what is staged as one frame, also if that is nothing (heartbeat). False if the sink
  // refused: the records are lost and counted as kWriteFailed, or kSizeCap for EFBIG (detail: errno
  // as the sink left it); losses and blind periods are kept for the next frame. The sequence number
  // goes on, so the reader sees a hole.
  bool CloseFrame();
  // Closes the last frame with an End packet. Calls after it do nothing. False as CloseFrame()'s:
  // a second call tries a frame without the records of the first, which says what they were.
  bool Finish(const char* reason, uint32_t buffers_outstanding);

  const WriterStats& stats() const { return stats_; }

 private:
  struct State;  // in the memory given to Init
  State* state_ = nullptr;
  WriterStats stats_ = {};
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_TRACE_WRITER_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Walks an activity buffer and hands normalised records to a sink. Knows the record layouts of CUPTI
// 11.8 to 13.0 as tables of sizes and offsets (record_layout.h): which one applies is decided by the
// version of the libcupti that is loaded, never by the headers we were compiled with.
//
// The walk by our own size table is twice as fast as cuptiActivityGetNextRecord but bakes in sizes; the
// first buffers of a run are therefore walked both ways (Verify) and the decoder falls back to CUPTI's
// own walk, for good, when they disagree or when an unknown kind turns up.
//
// Thread: the drain thread. No allocation. Never reads outside [buffer, buffer + valid_bytes); never
// dereferences a pointer found in a record.
#ifndef GPUPROBE_CUPTI_RECORD_DECODE_H_
#define GPUPROBE_CUPTI_RECORD_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"
#include "ringbuf/records.h"

namespace gpuprobe::cupti {

struct DecodeStats {
  uint64_t records;          // handed to the sink
  uint64_t unknown_kind;     // skipped: of a kind that we do not store
  uint64_t undecodable_bytes;  // rest of a buffer after a record that nothing explains
  uint32_t last_unknown_kind;
  uint64_t timing_missing, timing_unfinished, timing_invalid;
  int64_t first_ns, last_ns;   // range of valid times seen, CUPTI clock; 0, 0: none
};

// Sink: a class with OnKernel(const KernelRecord&), OnCopy, OnSet, OnGraph, OnApi, OnSync, OnCudaEvent,
// OnOverhead, OnDevice, OnContext, OnStream (proto::TraceWriter is one). Explicit callbacks instead of a
// template parameter would cost an indirect call a record; the implementation is a template in
// record_decode_inl.h, included by the one user.
class BufferDecoder {
 public:
  // `api` may be nullptr or lack ActivityGetNextRecord (recordings): then there is no verification and no
  // fallback. `cupti_version` chooses the layout; false if no layout is known for it (too old).
  [[nodiscard]] bool Init(const CuptiApi* api, uint32_t cupti_version);

  template <class Sink>
  void Decode(uint8_t* buffer, size_t valid_bytes, Sink* sink, DecodeStats* stats);

  bool uses_cupti_walk() const { return use_cupti_walk_; }
  // Name of the layout in force, e.g. "CUPTI 13.0 (kernel 216 bytes)".
  const char* layout_name() const;

 private:
  const CuptiApi* api_ = nullptr;
  const struct RecordLayout* layout_ = nullptr;
  bool use_cupti_walk_ = false;
  uint32_t buffers_verified_ = 0;
  // The implementer adds what it needs here.
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_RECORD_DECODE_H_

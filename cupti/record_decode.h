// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Walks an activity buffer and hands normalised records to a sink. Knows the record layouts of
// CUPTI 11.7 to 13.5 as tables of sizes and offsets (record_layout.h): which one applies is decided
// by the libcupti that is loaded (its version, then the record sizes that it uses itself), never by
// the headers we were compiled with.
//
// The walk by our own size table is twice as fast as cuptiActivityGetNextRecord but bakes in sizes;
// the first buffers of a run are therefore walked both ways (Verify) and the decoder falls back to
// CUPTI's own walk, for good, when they disagree or when an unknown kind turns up.
//
// A driver call under a runtime call counts once. CUPTI writes a record for each of the two, with
// the same correlation id and thread. The driver's is left out when the runtime call around it is
// seen nearby and does the same thing (cuMemAlloc under cudaMalloc); it is kept when it tells more
// (cuModuleLoadData under cudaLaunchKernel) or when no such runtime call is in sight. At the seam
// of two buffers a pair can stay whole: a reader that counts calls must fold by (thread,
// correlation) too.
//
// Thread: the drain thread. No allocation. Never reads outside [buffer, buffer + valid_bytes);
// never dereferences a pointer found in a record.
#ifndef GPUPROBE_CUPTI_RECORD_DECODE_H_
#define GPUPROBE_CUPTI_RECORD_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "cupti/cupti_api.h"
#include "cupti/record_layout.h"
#include "ringbuf/records.h"

namespace gpuprobe::cupti {

// Decode adds to the counters; the caller sets them to zero.
struct DecodeStats {
  uint64_t records;            // handed to the sink
  uint64_t unknown_kind;       // skipped: of a kind that we do not store
  uint64_t undecodable_bytes;  // rest of a buffer after a record that nothing explains
  uint32_t last_unknown_kind;
  // Records without usable times. Kernels, copies, sets and graphs go to the sink all the same;
  // API, synchronisation and overhead records say nothing without a time and do not.
  uint64_t untimed_dropped;  // calls, waits, overheads without usable times: not handed to the sink
  uint64_t timing_missing, timing_unfinished, timing_invalid;
  uint64_t folded_driver_calls;  // left out: counted with the runtime call around them
  uint64_t chatter_calls;        // left out by RecordedCallsOnly
};

// Sink: a class with OnKernel(const KernelRecord&), OnCopy, OnSet, OnGraph, OnApi, OnSync,
// OnCudaEvent, OnOverhead, OnDevice, OnContext, OnStream (proto::TraceWriter is one), and OnMarker
// where it wants the ends of NVTX ranges. Explicit
// callbacks instead of a template parameter would cost an indirect call a record; the
// implementation is a template in record_decode_inl.h, included by the one user.
//
// A sink may have bool TakeKnownCall(const ApiRecord&) and bool TakeKnownKernel(const
// KernelInBuffer&). They are asked first, about runtime calls and kernels of our own walk: true
// means taken, false that nothing has happened and On... follows. Nobody has looked at the times
// then: what is not plainly a time has to be refused.
class BufferDecoder {
 public:
  // `api` may be nullptr or lack ActivityGetNextRecord (recordings): then there is no verification
  // and no fallback. `cupti_version` chooses the layout; false if no layout is known for it (too
  // old).
  [[nodiscard]] bool Init(const CuptiApi* api, uint32_t cupti_version);

  // Leaves out the calls that api_calls.h lists as not recorded. They are switched off at the
  // source where CUPTI can (from 12.5) and where no other client has enabled the whole kind;
  // elsewhere they arrive and are dropped here. Off by default.
  void RecordedCallsOnly(bool on);

  template <class Sink>
  void Decode(uint8_t* buffer, size_t valid_bytes, Sink* sink, DecodeStats* stats);

  bool uses_cupti_walk() const { return use_cupti_walk_; }
  // Name of the layout in force, e.g. "CUPTI 13.0 (kernel 216 bytes)".
  const char* layout_name() const { return layout_name_; }

 private:
  // A runtime call that was seen last on some thread.
  struct RecentCall {
    int64_t start_ns, end_ns;
    uint32_t thread, correlation, cbid;
  };
  static constexpr uint32_t kRecentCalls = 16;
  // Calls by number, a bit each. CUDA 13 ends at 867.
  static constexpr uint32_t kChatterWords = 16;
  // Buffers at the start of a run that are walked both ways.
  static constexpr uint32_t kBuffersToVerify = 4;

  bool HasCuptiWalk() const { return api_ != nullptr && api_->ActivityGetNextRecord != nullptr; }
  void Verify(uint8_t* buffer, size_t valid_bytes);
  size_t SizeOfKind(uint32_t kind) const {
    return kind < kKindLimit ? layout_.size_bytes[kind] : 0;
  }

  // Size of the kind's records if the sink may be asked about them first; more than any buffer has
  // if not.
  template <class Sink>
  size_t UsualBytes(Kind kind) const;
  template <class Sink>
  bool TakeUsualCall(const uint8_t* record, Sink* sink);
  template <class Sink>
  bool TakeUsualKernel(const uint8_t* record, size_t size, Sink* sink);
  template <class Sink>
  void DecodeByOwnWalk(uint8_t* buffer, size_t valid_bytes, Sink* sink, DecodeStats* stats);
  template <class Sink>
  void DecodeByCuptiWalk(uint8_t* buffer, size_t valid_bytes, const uint8_t* from, Sink* sink,
                         DecodeStats* stats);
  template <class Sink>
  void DecodeRecord(uint32_t kind, const uint8_t* record, size_t size, const uint8_t* end,
                    Sink* sink, DecodeStats* stats);
  template <class Sink>
  void DecodeApi(ApiDomain domain, const uint8_t* record, size_t size, const uint8_t* end,
                 Sink* sink, DecodeStats* stats);

  bool IsChatter(ApiDomain domain, uint32_t cbid) const {
    return cbid < 64 * kChatterWords &&
           (chatter_[static_cast<size_t>(domain)][cbid / 64] >> (cbid % 64) & 1) != 0;
  }
  void RememberRuntimeCall(const ApiRecord& call) {
    // Thread ids count up: the low bits spread them.
    recent_calls_[call.thread % kRecentCalls] = {call.start_ns, call.end_ns, call.thread,
                                                 call.correlation, call.cbid};
  }
  bool CountsWithRuntimeCall(const ApiRecord& driver, const uint8_t* after,
                             const uint8_t* end) const;
  bool DoesTheSame(const ApiRecord& driver, const RecentCall& runtime) const;

  const CuptiApi* api_ = nullptr;
  RecordLayout layout_;
  bool use_cupti_walk_ = false;
  bool recorded_calls_only_ = false;
  uint64_t chatter_[2][kChatterWords] = {};  // by ApiDomain: what RecordedCallsOnly leaves out
  uint32_t buffers_verified_ = 0;
  RecentCall recent_calls_[kRecentCalls] = {};
  char layout_name_[64] = {};
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_RECORD_DECODE_H_

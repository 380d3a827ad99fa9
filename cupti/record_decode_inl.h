// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Implementation of BufferDecoder::Decode; include it where a sink is known.
#ifndef GPUPROBE_CUPTI_RECORD_DECODE_INL_H_
#define GPUPROBE_CUPTI_RECORD_DECODE_INL_H_

#include <concepts>
#include <cstring>

#include "cupti/api_calls.h"
#include "cupti/record_decode.h"
#include "cupti/record_fields.h"
#include "cupti/record_layout.h"

namespace gpuprobe::cupti {

// The fields of a kernel record where they stand, read when they are asked for: a sink that refuses
// a record after a look at three of them has not paid for the others. Nothing is judged or counted.
struct KernelInBuffer {
  using At = offset::Kernel;
  const uint8_t* r;
  size_t size;  // at least MinimumRecordSize

  int64_t start_ns() const { return LoadI64(r + At::start); }
  int64_t end_ns() const { return LoadI64(r + At::end); }
  uint32_t device() const { return LoadU32(r + At::device); }
  uint32_t context() const { return LoadU32(r + At::context); }
  uint32_t stream() const { return LoadU32(r + At::stream); }
  uint32_t correlation() const { return LoadU32(r + At::correlation); }
  bool plain() const;
  uint16_t how() const {
    const bool device_launched = LoadIfPresent<uint8_t>(r, size, At::device_launched, 0) != 0;
    return static_cast<uint16_t>(LoadU8(r + At::launch_type) | device_launched << 8);
  }
  uint64_t shape_word(size_t i) const;
};

namespace decode_internal {

// How far ahead of the walk memory is asked for: another core has written the buffer, and the
// processor's own read-ahead stops at every page. Past the end it is a hint that comes to nothing.
inline constexpr size_t kPrefetchBytes = 2048;
inline constexpr size_t kCacheLineBytes = 64;

// CUPTI_ERROR_MAX_LIMIT_REACHED: how cuptiActivityGetNextRecord says that a buffer holds no more.
inline constexpr Result kMaxLimitReached = 12;

// Counts a record's timing by cause.
inline void NoteTiming(Timing timing, DecodeStats* stats) {
  switch (timing) {
    case Timing::kValid:
      return;
    case Timing::kMissing:
      ++stats->timing_missing;
      return;
    case Timing::kUnfinished:
      ++stats->timing_unfinished;
      return;
    case Timing::kInvalid:
      ++stats->timing_invalid;
      return;
  }
}

template <class Record>
inline void LoadTimes(const uint8_t* start, const uint8_t* end, Record* record,
                      DecodeStats* stats) {
  record->start_ns = LoadI64(start);
  record->end_ns = LoadI64(end);
  record->timing = ClassifyTiming(LoadU64(start), LoadU64(end));
  NoteTiming(record->timing, stats);
}

// For records that mean nothing without times: false, and counted, if they cannot be used.
inline bool TimesAreValid(const uint8_t* start, const uint8_t* end, DecodeStats* stats) {
  const Timing timing = ClassifyTiming(LoadU64(start), LoadU64(end));
  if (timing == Timing::kValid) [[likely]] {
    return true;
  }
  NoteTiming(timing, stats);
  ++stats->untimed_dropped;
  return false;
}

// Latency timestamps: 0 is CUPTI's "unknown"; sentinels become 0 as well.
inline int64_t LoadLatencyTime(const uint8_t* at) {
  const uint64_t time = LoadU64(at);
  return time >= kLatestPlausibleTime ? 0 : static_cast<int64_t>(time);
}

constexpr uint64_t Pair(uint32_t first, uint32_t second) {
  return first | static_cast<uint64_t>(second) << 32;
}

// Two neighbouring 32-bit fields of a KernelRecord at once.
inline void StoreWord(KernelRecord* kernel, size_t at, uint64_t word) {
  memcpy(reinterpret_cast<char*>(kernel) + at, &word, sizeof(word));
}
static_assert(offsetof(KernelRecord, grid_z) == offsetof(KernelRecord, grid_x) + 8 &&
              offsetof(KernelRecord, block_y) == offsetof(KernelRecord, grid_x) + 16 &&
              offsetof(KernelRecord, cluster_x) == offsetof(KernelRecord, grid_x) + 24 &&
              offsetof(KernelRecord, static_shared_bytes) ==
                  offsetof(KernelRecord, cluster_z) + 4 &&
              offsetof(KernelRecord, shared_executed_bytes) ==
                  offsetof(KernelRecord, dynamic_shared_bytes) + 4 &&
              offsetof(KernelRecord, registers_per_thread) ==
                  offsetof(KernelRecord, local_bytes_per_thread) + 4);

}  // namespace decode_internal

// Neither of a graph nor with latency timestamps.
inline bool KernelInBuffer::plain() const {
  const uint64_t queued = LoadU64(r + At::queued), submitted = LoadU64(r + At::submitted);
  const uint64_t graph = LoadU32(r + At::graph_id) | LoadU64(r + At::graph_node_id);
  if ((graph | queued | submitted) == 0) [[likely]] {
    return true;
  }
  return graph == 0 && decode_internal::LoadLatencyTime(r + At::queued) == 0 &&
         decode_internal::LoadLatencyTime(r + At::submitted) == 0;
}

// As LoadKernel puts the launch configuration together, from `name` on.
[[gnu::always_inline]] inline uint64_t KernelInBuffer::shape_word(size_t i) const {
  const bool clusters = size >= At::cluster_z + sizeof(uint32_t);
  switch (i) {
    case 0:
      return LoadU64(r + At::name);
    case 1:
      return LoadU64(r + At::grid_x);
    case 2:
      return LoadU64(r + At::grid_z);
    case 3:
      return LoadU64(r + At::block_y);
    case 4:
      return clusters ? LoadU64(r + At::cluster_x) : 0;
    case 5:
      return decode_internal::Pair(clusters ? LoadU32(r + At::cluster_z) : 0,
                                   LoadU32(r + At::static_shared));
    case 6:
      return decode_internal::Pair(LoadU32(r + At::dynamic_shared),
                                   LoadU32(r + At::shared_executed));
    default:
      return decode_internal::Pair(LoadU32(r + At::local_per_thread), LoadU16(r + At::registers));
  }
}

namespace decode_internal {

inline KernelRecord LoadKernel(const uint8_t* r, size_t size, DecodeStats* stats) {
  using At = offset::Kernel;
  KernelRecord kernel;
  LoadTimes(r + At::start, r + At::end, &kernel, stats);
  kernel.launch_type = LoadU8(r + At::launch_type);
  kernel.device_launched = LoadIfPresent<uint8_t>(r, size, At::device_launched, 0) != 0;
  kernel.device = LoadU32(r + At::device);
  kernel.context = LoadU32(r + At::context);
  kernel.stream = LoadU32(r + At::stream);
  kernel.correlation = LoadU32(r + At::correlation);
  kernel.graph_id = LoadU32(r + At::graph_id);
  kernel.graph_node_id = LoadU64(r + At::graph_node_id);
  kernel.grid_id = LoadI64(r + At::grid_id);
  kernel.name = Load<const char*>(r + At::name);
  // Whole words: the writer reads this block by words right away, and a load that spans two stores
  // waits until both are through to the cache.
  StoreWord(&kernel, offsetof(KernelRecord, grid_x), LoadU64(r + At::grid_x));
  StoreWord(&kernel, offsetof(KernelRecord, grid_z), LoadU64(r + At::grid_z));
  StoreWord(&kernel, offsetof(KernelRecord, block_y), LoadU64(r + At::block_y));
  const bool clusters = size >= At::cluster_z + sizeof(uint32_t);
  StoreWord(&kernel, offsetof(KernelRecord, cluster_x), clusters ? LoadU64(r + At::cluster_x) : 0);
  StoreWord(&kernel, offsetof(KernelRecord, cluster_z),
            Pair(clusters ? LoadU32(r + At::cluster_z) : 0, LoadU32(r + At::static_shared)));
  StoreWord(&kernel, offsetof(KernelRecord, dynamic_shared_bytes),
            Pair(LoadU32(r + At::dynamic_shared), LoadU32(r + At::shared_executed)));
  StoreWord(&kernel, offsetof(KernelRecord, local_bytes_per_thread),
            Pair(LoadU32(r + At::local_per_thread), LoadU16(r + At::registers)));
  kernel.queued_ns = LoadLatencyTime(r + At::queued);
  kernel.submitted_ns = LoadLatencyTime(r + At::submitted);
  return kernel;
}

inline CopyRecord LoadMemcpy(const uint8_t* r, size_t size, bool tells_device_launch,
                             DecodeStats* stats) {
  using At = offset::Memcpy;
  CopyRecord copy;
  LoadTimes(r + At::start, r + At::end, &copy, stats);
  copy.peer = false;
  copy.device_launched =
      tells_device_launch && LoadIfPresent<uint8_t>(r, size, At::device_launched, 0) != 0;
  copy.copy_kind = LoadU8(r + At::copy_kind);
  copy.src_kind = LoadU8(r + At::src_kind);
  copy.dst_kind = LoadU8(r + At::dst_kind);
  copy.flags = LoadU8(r + At::flags);
  copy.device = LoadU32(r + At::device);
  copy.context = LoadU32(r + At::context);
  copy.stream = LoadU32(r + At::stream);
  copy.correlation = LoadU32(r + At::correlation);
  copy.graph_id = LoadU32(r + At::graph_id);
  copy.graph_node_id = LoadU64(r + At::graph_node_id);
  copy.bytes = LoadU64(r + At::bytes);
  copy.src_device = copy.src_context = copy.dst_device = copy.dst_context = kInvalidId;
  return copy;
}

inline CopyRecord LoadPeerCopy(const uint8_t* r, DecodeStats* stats) {
  using At = offset::MemcpyPtoP;
  CopyRecord copy;
  LoadTimes(r + At::start, r + At::end, &copy, stats);
  copy.peer = true;
  copy.device_launched = false;
  copy.copy_kind = LoadU8(r + At::copy_kind);
  copy.src_kind = LoadU8(r + At::src_kind);
  copy.dst_kind = LoadU8(r + At::dst_kind);
  copy.flags = LoadU8(r + At::flags);
  copy.device = LoadU32(r + At::device);
  copy.context = LoadU32(r + At::context);
  copy.stream = LoadU32(r + At::stream);
  copy.correlation = LoadU32(r + At::correlation);
  copy.graph_id = LoadU32(r + At::graph_id);
  copy.graph_node_id = LoadU64(r + At::graph_node_id);
  copy.bytes = LoadU64(r + At::bytes);
  copy.src_device = LoadU32(r + At::src_device);
  copy.src_context = LoadU32(r + At::src_context);
  copy.dst_device = LoadU32(r + At::dst_device);
  copy.dst_context = LoadU32(r + At::dst_context);
  return copy;
}

inline SetRecord LoadMemset(const uint8_t* r, size_t size, bool tells_device_launch,
                            DecodeStats* stats) {
  using At = offset::Memset;
  SetRecord set;
  LoadTimes(r + At::start, r + At::end, &set, stats);
  set.device_launched =
      tells_device_launch && LoadIfPresent<uint8_t>(r, size, At::device_launched, 0) != 0;
  set.memory_kind = static_cast<uint8_t>(LoadU16(r + At::memory_kind));
  set.flags = static_cast<uint8_t>(LoadU16(r + At::flags));
  set.device = LoadU32(r + At::device);
  set.context = LoadU32(r + At::context);
  set.stream = LoadU32(r + At::stream);
  set.correlation = LoadU32(r + At::correlation);
  set.graph_id = LoadU32(r + At::graph_id);
  set.graph_node_id = LoadU64(r + At::graph_node_id);
  set.bytes = LoadU64(r + At::bytes);
  set.value = LoadU32(r + At::value);
  return set;
}

inline GraphRecord LoadGraph(const uint8_t* r, size_t size, DecodeStats* stats) {
  using At = offset::GraphTrace;
  GraphRecord graph;
  LoadTimes(r + At::start, r + At::end, &graph, stats);
  graph.device = LoadU32(r + At::device);
  graph.context = LoadU32(r + At::context);
  graph.stream = LoadU32(r + At::stream);
  graph.correlation = LoadU32(r + At::correlation);
  graph.graph_id = LoadU32(r + At::graph_id);
  graph.end_device = LoadIfPresent<uint32_t>(r, size, At::end_device, kInvalidId);
  return graph;
}

[[gnu::always_inline]] inline ApiRecord LoadApi(ApiDomain domain, const uint8_t* r) {
  using At = offset::Api;
  ApiRecord call;
  call.start_ns = LoadI64(r + At::start);
  call.end_ns = LoadI64(r + At::end);
  call.domain = domain;
  call.cbid = LoadU32(r + At::cbid);
  call.process = LoadU32(r + At::process);
  call.thread = LoadU32(r + At::thread);
  call.correlation = LoadU32(r + At::correlation);
  call.result = Load<int32_t>(r + At::result);
  return call;
}

inline SyncRecord LoadSync(const uint8_t* r, size_t size) {
  using At = offset::Synchronization;
  SyncRecord sync;
  sync.start_ns = LoadI64(r + At::start);
  sync.end_ns = LoadI64(r + At::end);
  sync.type = static_cast<uint8_t>(LoadU32(r + At::type));
  sync.context = LoadU32(r + At::context);
  sync.stream = LoadU32(r + At::stream);
  sync.event = LoadU32(r + At::event);
  sync.correlation = LoadU32(r + At::correlation);
  sync.event_sync_id = LoadIfPresent<uint64_t>(r, size, At::event_sync_id, 0);
  sync.result = LoadIfPresent<int32_t>(r, size, At::result, 0);
  return sync;
}

inline CudaEventRecord LoadCudaEvent(const uint8_t* r, size_t size) {
  using At = offset::CudaEvent;
  CudaEventRecord event;
  event.context = LoadU32(r + At::context);
  event.stream = LoadU32(r + At::stream);
  event.event = LoadU32(r + At::event);
  event.correlation = LoadU32(r + At::correlation);
  event.event_sync_id = LoadIfPresent<uint64_t>(r, size, At::event_sync_id, 0);
  return event;
}

inline OverheadRecord LoadOverhead(const uint8_t* r, size_t size) {
  using At = offset::Overhead;
  // CUpti_ActivityObjectKind; objectId is a union of {process, thread} and {device, context,
  // stream}.
  constexpr uint32_t kProcess = 1, kThread = 2, kDevice = 3, kContext = 4, kStream = 5;
  OverheadRecord overhead;
  overhead.start_ns = LoadI64(r + At::start);
  overhead.end_ns = LoadI64(r + At::end);
  overhead.kind = LoadU32(r + At::kind);
  const uint32_t object = LoadU32(r + At::object_kind);
  overhead.object_kind = static_cast<uint8_t>(object);
  const uint32_t id[3] = {LoadU32(r + At::object_id), LoadU32(r + At::object_id + 4),
                          LoadU32(r + At::object_id + 8)};
  overhead.process = object == kProcess || object == kThread ? id[0] : 0;
  overhead.thread = object == kThread ? id[1] : 0;
  overhead.device = object >= kDevice && object <= kStream ? id[0] : kInvalidId;
  overhead.context = object == kContext || object == kStream ? id[1] : kInvalidId;
  overhead.stream = object == kStream ? id[2] : kInvalidId;
  overhead.correlation = LoadIfPresent<uint32_t>(r, size, At::correlation, 0);
  return overhead;
}

inline MarkerRecord LoadMarker(const uint8_t* r) {
  using At = offset::Marker;
  constexpr uint32_t kThread = 2;  // CUpti_ActivityObjectKind; objectId is {process, thread}
  MarkerRecord marker;
  marker.time_ns = LoadI64(r + At::time);
  marker.id = LoadU32(r + At::id);
  marker.flags = static_cast<uint8_t>(LoadU32(r + At::flags));
  marker.thread = LoadU32(r + At::object_kind) == kThread ? LoadU32(r + At::object_id + 4) : 0;
  marker.name = Load<const char*>(r + At::name);
  marker.domain = Load<const char*>(r + At::domain);
  return marker;
}

inline DeviceRecord LoadDevice(const uint8_t* r) {
  using At = offset::Device;
  DeviceRecord device;
  device.device = LoadU32(r + At::id);
  device.mig = LoadU8(r + At::mig_enabled) != 0;
  // Two MIG instances of one GPU share its UUID; what identifies them is the instance's own.
  memcpy(device.uuid, r + (device.mig ? At::mig_uuid : At::uuid), sizeof(device.uuid));
  device.name = Load<const char*>(r + At::name);
  device.memory_bytes = LoadU64(r + At::memory_bytes);
  device.sm_count = LoadU32(r + At::sm_count);
  device.compute_major = LoadU32(r + At::compute_major);
  device.compute_minor = LoadU32(r + At::compute_minor);
  device.memory_bandwidth_kb_s = LoadU64(r + At::memory_bandwidth);
  device.core_clock_khz = LoadU32(r + At::core_clock);
  return device;
}

inline ContextRecord LoadContext(const uint8_t* r) {
  using At = offset::Context;
  return {LoadU32(r + At::context), LoadU32(r + At::device), LoadU16(r + At::null_stream)};
}

inline StreamRecord LoadStream(const uint8_t* r) {
  using At = offset::Stream;
  return {LoadU32(r + At::context), LoadU32(r + At::stream), LoadU32(r + At::priority),
          static_cast<uint8_t>(LoadU32(r + At::flag))};
}

// Whether a sink is asked first what it takes without further questions.
template <class Sink>
concept TakesKnown = requires(Sink sink, const KernelInBuffer& kernel, const ApiRecord& call) {
  { sink.TakeKnownKernel(kernel) } -> std::same_as<bool>;
  { sink.TakeKnownCall(call) } -> std::same_as<bool>;
};

}  // namespace decode_internal

template <class Sink>
void BufferDecoder::Decode(uint8_t* buffer, size_t valid_bytes, Sink* sink, DecodeStats* stats) {
  if (buffer == nullptr || valid_bytes == 0) return;
  if (!use_cupti_walk_ && buffers_verified_ < kBuffersToVerify && HasCuptiWalk()) {
    Verify(buffer, valid_bytes);
  }
  if (use_cupti_walk_) {
    DecodeByCuptiWalk(buffer, valid_bytes, buffer, sink, stats);
  } else {
    DecodeByOwnWalk(buffer, valid_bytes, sink, stats);
  }
}

template <class Sink>
void BufferDecoder::DecodeByOwnWalk(uint8_t* buffer, size_t valid_bytes, Sink* sink,
                                    DecodeStats* stats) {
  using decode_internal::kCacheLineBytes;
  using decode_internal::kPrefetchBytes;
  const uint8_t* const end = buffer + valid_bytes;
  uint8_t* record = buffer;
  const size_t usual_call_bytes = UsualBytes<Sink>(Kind::kRuntime);
  const size_t usual_kernel_bytes = UsualBytes<Sink>(Kind::kConcurrentKernel);
  uint64_t taken = 0;
  while (static_cast<size_t>(end - record) >= kRecordAlignment_bytes) {
    const uint32_t kind = LoadU32(record);
    const size_t left = static_cast<size_t>(end - record);
    __builtin_prefetch(record + kPrefetchBytes);
    if (kind == static_cast<uint32_t>(Kind::kRuntime)) {
      if (usual_call_bytes <= left && TakeUsualCall(record, sink)) {
        ++taken;
        record += usual_call_bytes;
        continue;
      }
    } else {
      // All lines of the largest usual record, a kernel's 216 bytes.
      __builtin_prefetch(record + kPrefetchBytes + kCacheLineBytes);
      __builtin_prefetch(record + kPrefetchBytes + 2 * kCacheLineBytes);
      __builtin_prefetch(record + kPrefetchBytes + 3 * kCacheLineBytes);
      if (kind == static_cast<uint32_t>(Kind::kConcurrentKernel) && usual_kernel_bytes <= left &&
          TakeUsualKernel(record, usual_kernel_bytes, sink)) {
        ++taken;
        record += usual_kernel_bytes;
        continue;
      }
    }
    const size_t size = SizeOfKind(kind);
    if (size == 0 || size > left) break;
    DecodeRecord(kind, record, size, end, sink, stats);
    record += size;
  }
  stats->records += taken;
  if (record == end) return;
  const size_t left = static_cast<size_t>(end - record);
  const uint32_t kind = left >= kRecordAlignment_bytes ? LoadU32(record) : 0;
  if (kind != 0 && SizeOfKind(kind) == 0 && HasCuptiWalk()) {
    // A kind that is not in our table: CUPTI knows how long it is.
    use_cupti_walk_ = true;
    DecodeByCuptiWalk(buffer, valid_bytes, record, sink, stats);
    return;
  }
  stats->undecodable_bytes += left;
}

// Decodes what lies at and after `from`. CUPTI walks from the start of the buffer all the same: it
// is never given a record that it did not name itself.
template <class Sink>
void BufferDecoder::DecodeByCuptiWalk(uint8_t* buffer, size_t valid_bytes, const uint8_t* from,
                                      Sink* sink, DecodeStats* stats) {
  const uint8_t* const end = buffer + valid_bytes;
  // The size of a record is the distance to the next one, so decoding runs one record behind.
  const uint8_t* current = nullptr;
  const uint8_t* decoded_to = from;
  void* found = nullptr;
  for (;;) {
    const Result result = api_->ActivityGetNextRecord(buffer, valid_bytes, &found);
    const uint8_t* next = static_cast<const uint8_t*>(found);
    // Whatever CUPTI says: a next record lies behind the current one and inside the buffer.
    const bool more = result == kSuccess && next < end &&
                      next >= (current == nullptr ? buffer : current + kRecordAlignment_bytes) &&
                      static_cast<size_t>(end - next) >= kRecordAlignment_bytes;
    if (current != nullptr && current >= decoded_to) {
      stats->undecodable_bytes += static_cast<size_t>(current - decoded_to);
      decoded_to = current;
      const uint32_t kind = LoadU32(current);
      const size_t room = static_cast<size_t>((more ? next : end) - current);
      // The last record reaches to the end, unless CUPTI stopped for another reason than that.
      const size_t size =
          more || result == decode_internal::kMaxLimitReached ? room : SizeOfKind(kind);
      if (size == 0 || size > room) break;
      DecodeRecord(kind, current, size, end, sink, stats);
      decoded_to = current + size;
    }
    if (!more) break;
    current = next;
  }
  stats->undecodable_bytes += static_cast<size_t>(end - decoded_to);
}

template <class Sink>
size_t BufferDecoder::UsualBytes(Kind kind) const {
  const auto number = static_cast<uint32_t>(kind);
  const size_t size = SizeOfKind(number);
  const bool usual =
      decode_internal::TakesKnown<Sink> && size != 0 && size >= MinimumRecordSize(number);
  return usual ? size : SIZE_MAX;
}

template <class Sink>
[[gnu::always_inline]] inline bool BufferDecoder::TakeUsualCall(const uint8_t* record, Sink* sink) {
  if constexpr (decode_internal::TakesKnown<Sink>) {
    if (IsChatter(ApiDomain::kRuntime, LoadU32(record + offset::Api::cbid)) ||
        !sink->TakeKnownCall(decode_internal::LoadApi(ApiDomain::kRuntime, record))) {
      return false;
    }
    RememberRuntimeCall(decode_internal::LoadApi(ApiDomain::kRuntime, record));
    return true;
  }
  return false;
}

template <class Sink>
[[gnu::always_inline]] inline bool BufferDecoder::TakeUsualKernel(const uint8_t* record,
                                                                  size_t size, Sink* sink) {
  if constexpr (decode_internal::TakesKnown<Sink>) {
    return sink->TakeKnownKernel(KernelInBuffer{record, size});
  }
  return false;
}

template <class Sink>
void BufferDecoder::DecodeApi(ApiDomain domain, const uint8_t* record, size_t size,
                              const uint8_t* end, Sink* sink, DecodeStats* stats) {
  if (!decode_internal::TimesAreValid(record + offset::Api::start, record + offset::Api::end,
                                      stats)) {
    return;
  }
  const ApiRecord call = decode_internal::LoadApi(domain, record);
  if (IsChatter(domain, call.cbid)) {
    ++stats->chatter_calls;
    return;
  }
  if (domain == ApiDomain::kRuntime) {
    RememberRuntimeCall(call);
  } else if (CountsWithRuntimeCall(call, record + size, end)) {
    ++stats->folded_driver_calls;
    return;
  }
  ++stats->records;
  sink->OnApi(call);
}

template <class Sink>
void BufferDecoder::DecodeRecord(uint32_t kind, const uint8_t* record, size_t size,
                                 const uint8_t* end, Sink* sink, DecodeStats* stats) {
  using namespace decode_internal;  // NOLINT: the loaders of this file
  const size_t minimum = MinimumRecordSize(kind);
  if (minimum == 0 || size < minimum) {
    ++stats->unknown_kind;
    stats->last_unknown_kind = kind;
    return;
  }
  switch (static_cast<Kind>(kind)) {
    case Kind::kRuntime:
      DecodeApi(ApiDomain::kRuntime, record, size, end, sink, stats);
      return;
    case Kind::kDriver:
      DecodeApi(ApiDomain::kDriver, record, size, end, sink, stats);
      return;
    case Kind::kConcurrentKernel:
    case Kind::kKernel:
      sink->OnKernel(LoadKernel(record, size, stats));
      break;
    case Kind::kMemcpy:
      sink->OnCopy(LoadMemcpy(record, size, layout_.copies_tell_device_launch, stats));
      break;
    case Kind::kMemcpy2:
      sink->OnCopy(LoadPeerCopy(record, stats));
      break;
    case Kind::kMemset:
      sink->OnSet(LoadMemset(record, size, layout_.copies_tell_device_launch, stats));
      break;
    case Kind::kGraphTrace:
      sink->OnGraph(LoadGraph(record, size, stats));
      break;
    case Kind::kSynchronization:
      if (!TimesAreValid(record + offset::Synchronization::start,
                         record + offset::Synchronization::end, stats)) {
        return;
      }
      sink->OnSync(LoadSync(record, size));
      break;
    case Kind::kOverhead:
      if (!TimesAreValid(record + offset::Overhead::start, record + offset::Overhead::end, stats)) {
        return;
      }
      sink->OnOverhead(LoadOverhead(record, size));
      break;
    case Kind::kCudaEvent:
      sink->OnCudaEvent(LoadCudaEvent(record, size));
      break;
    case Kind::kMarker:
      // One time stands for both ends: CUPTI writes a record for each.
      if (!TimesAreValid(record + offset::Marker::time, record + offset::Marker::time, stats)) {
        return;
      }
      if constexpr (requires { sink->OnMarker(MarkerRecord{}); }) {
        sink->OnMarker(LoadMarker(record));
      }
      break;
    case Kind::kDevice:
      sink->OnDevice(LoadDevice(record));
      break;
    case Kind::kContext:
      sink->OnContext(LoadContext(record));
      break;
    case Kind::kStream:
      sink->OnStream(LoadStream(record));
      break;
    default:
      return;  // not reached: MinimumRecordSize names the kinds above
  }
  ++stats->records;
}

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_CUPTI_RECORD_DECODE_INL_H_

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/trace_writer.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "proto/arena.h"
#include "proto/column_encoder.h"
#include "proto/facts.h"
#include "proto/format.h"
#include "proto/frame_compressor.h"
#include "proto/frame_dictionary.h"
#include "proto/packet_builder.h"
#include "proto/staging.h"
#include "proto/utf8.h"
#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

constexpr uint32_t kTracePacket = 1;
constexpr size_t kExpectedPacketBytes = 100;

// Parts of the uncompressed frame that are not batches, each at its most.
constexpr size_t kHeaderBytes = 192;  // 10 fields of up to 11 bytes, the clock pair 52
constexpr size_t kSessionBytes = 128u << 10;
constexpr size_t kDictionaryBytes = FrameDictionary::kBytes + Facts::kMaxBytes + 16;
constexpr size_t kTextBytes = 128;    // who, reason
constexpr size_t kMaxBlinds = 32;
constexpr size_t kCauses = 32;        // LossCause values that are told apart
constexpr size_t kLossBytes = 64;
constexpr size_t kBlindBytes = 2 * kTextBytes + 40;
constexpr size_t kEndBytes = kTextBytes + 48;
constexpr size_t kLanelessBatches = 3;
constexpr size_t kFixedBytes = kHeaderBytes + kSessionBytes + kDictionaryBytes + kCauses * kLossBytes +
                               kMaxBlinds * kBlindBytes + kEndBytes + kLanelessBatches * kBatchMaxBytes;
// Less would close a frame every few hundred records.
constexpr size_t kMinBatchBytes = 64u << 10;

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

size_t BoundedLength(const char* text) { return text == nullptr ? 0 : strnlen(text, kTextBytes - 1); }

void CopyText(char (&out)[kTextBytes], const char* text) {
  const size_t size = BoundedLength(text);
  if (size != 0) std::memcpy(out, text, size);
  out[size] = '\0';
  ReplaceInvalidUtf8(out, size);
}

void OptionalText(WireWriter* out, uint32_t field, const char* text) {
  const size_t size = BoundedLength(text);
  if (size != 0) out->Bytes(field, text, size);
}

// Times of host records: CUPTI gives no flag for those it could not take.
bool Plausible(int64_t start_ns, int64_t end_ns) { return start_ns > 0 && end_ns >= start_ns; }

}  // namespace

struct TraceWriter::State {
  WriterOptions options;
  WriterHooks hooks;
  Staging staging;
  FrameDictionary dictionary;
  Facts facts;
  ColumnEncoder encoder;
  FrameCompressor compressor;
  uint8_t* raw = nullptr;         // the uncompressed frame
  size_t raw_bytes = 0;
  size_t batch_limit = 0;         // what the batches of a frame may need at most
  size_t batch_bytes = 0;         // what those staged may need
  uint64_t sequence = 0;
  LossEntry losses[kCauses] = {};
  BlindEntry blinds[kMaxBlinds] = {};
  size_t blind_count = 0;
  WriterStats* stats = nullptr;

  bool Init(const WriterOptions& o, const WriterHooks& h, Arena* arena);

  // Makes sure that one more record fits: closes the frame if `array` is full, if the record might not fit
  // into the frame, or if `resolve` (dictionary ids, lane) finds no room. False: lost, counted.
  template <class T, class Resolve>
  bool Admit(const StagedArray<T>& array, size_t max_bytes, Resolve resolve);
  bool FindLane(LaneClass lane_class, Timing timing, uint32_t device, uint32_t context, uint32_t stream,
                int* lane);
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

bool TraceWriter::State::Init(const WriterOptions& o, const WriterHooks& h, Arena* arena) {
  options = o;
  hooks = h;
  staging.Take(arena, o.max_frame_records);
  dictionary.Take(arena, h);
  facts.Take(arena);
  encoder.Take(arena, o.max_frame_records);
  compressor.TakeContext(arena, o.zstd_level);
  // What is left goes to the uncompressed frame and its compressed form, half and half: zstd's bound is
  // 1/256 above the input (plus 64 bytes below 128 KiB, and the alignment of both).
  constexpr size_t kSlack = 1024;
  if (arena->used() + kSlack > o.memory_bytes) return false;
  raw_bytes = (o.memory_bytes - arena->used() - kSlack) / 513 * 256;
  if (raw_bytes > kMaxFrameBytes) raw_bytes = kMaxFrameBytes;
  if (raw_bytes < kFixedBytes + kMinBatchBytes) return false;
  raw = arena->Take<uint8_t>(raw_bytes);
  compressor.TakeOutput(arena, raw_bytes);
  if (!arena->fits()) return false;
  batch_limit = raw_bytes - kFixedBytes;
  return compressor.Init();
}

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

bool TraceWriter::State::FindLane(LaneClass lane_class, Timing timing, uint32_t device, uint32_t context,
                                  uint32_t stream, int* lane) {
  const uint32_t before = staging.lane_count;
  *lane = staging.LaneOf(lane_class, timing, device, context, stream);
  if (*lane < 0) return false;
  if (staging.lane_count != before) {
    batch_bytes += kBatchMaxBytes;
    if (lane_class != LaneClass::kApi) {
      facts.UseDevice(device);
      facts.UseStream(context, stream);
    }
  }
  ++staging.lanes[*lane].count;
  return true;
}

void TraceWriter::State::ConvertGpuTimes(Timing* timing, int64_t* start_ns, int64_t* end_ns) {
  if (*timing == Timing::kValid && *end_ns < *start_ns) *timing = Timing::kInvalid;
  if (*timing == Timing::kValid) {
    *start_ns = ToTrace(*start_ns);
    *end_ns = ToTrace(*end_ns);
    if (*end_ns < *start_ns) *end_ns = *start_ns;  // a fitted clock may round a zero length to -1
  } else if (*timing == Timing::kUnfinished) {
    *start_ns = *end_ns = ToTrace(*start_ns);
  }
}

void TraceWriter::State::ConvertHostTimes(int64_t* start_ns, int64_t* end_ns) {
  if (!Plausible(*start_ns, *end_ns)) {  // kept, as an instant; no guess at the missing time
    *end_ns = *start_ns;
    return;
  }
  *start_ns = ToTrace(*start_ns);
  *end_ns = ToTrace(*end_ns);
  if (*end_ns < *start_ns) *end_ns = *start_ns;
}

void TraceWriter::State::Loss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns,
                              int64_t detail) {
  if (count == 0) return;
  size_t index = static_cast<size_t>(cause);
  if (index >= kCauses) index = 0;  // kNone: a cause that this version has no place for
  LossEntry& loss = losses[index];
  if (loss.count == 0) {
    loss = {count, begin_ns, end_ns, detail};
    return;
  }
  loss.count += count;
  if (begin_ns != 0 && (loss.begin_ns == 0 || begin_ns < loss.begin_ns)) loss.begin_ns = begin_ns;
  if (end_ns > loss.end_ns) loss.end_ns = end_ns;
  if (detail != 0) loss.detail = detail;
}

void TraceWriter::State::AddSessionPackets(WireWriter* out) {
  if (hooks.add_packets == nullptr) return;
  PacketBuilder builder(out->end(), kSessionBytes);
  hooks.add_packets(hooks.user, &builder);
  builder.Abandon();
  stats->packets_left_out += builder.packets_left_out();
  out->Advance(out->end() + builder.size());
}

void TraceWriter::State::AddDictionary(WireWriter* out) {
  const size_t start = out->size();
  const size_t expected = dictionary.encoded().size() + kExpectedPacketBytes;
  const WireWriter::Mark packet = out->Open(kTracePacket, expected);
  const WireWriter::Mark data = out->Open(kPacketDictionary, expected);
  out->Append(dictionary.encoded().data(), dictionary.encoded().size());
  facts.Encode(out);
  const bool empty = out->size() == data.body;
  out->Close(data);
  out->Close(packet);
  if (empty) out->CutTo(start);
}

void TraceWriter::State::AddLosses(WireWriter* out) {
  for (size_t cause = 0; cause < kCauses; ++cause) {
    const LossEntry& loss = losses[cause];
    if (loss.count == 0) continue;
    const WireWriter::Mark packet = out->Open(kTracePacket, kExpectedPacketBytes);
    const WireWriter::Mark data = out->Open(kPacketLoss, kExpectedPacketBytes);
    out->Uint(1, cause);
    out->Uint(2, loss.count);
    out->Int(3, loss.begin_ns);
    out->Int(4, loss.end_ns);
    out->Int(5, loss.detail);
    out->Close(data);
    out->Close(packet);
  }
}

void TraceWriter::State::AddBlinds(WireWriter* out) {
  for (size_t i = 0; i < blind_count; ++i) {
    const WireWriter::Mark packet = out->Open(kTracePacket, kExpectedPacketBytes);
    const WireWriter::Mark data = out->Open(kPacketBlind, kExpectedPacketBytes);
    out->Int(1, blinds[i].begin_ns);
    out->Int(2, blinds[i].end_ns);
    OptionalText(out, 3, blinds[i].who);
    OptionalText(out, 4, blinds[i].reason);
    out->Close(data);
    out->Close(packet);
  }
}

void TraceWriter::State::AddEnd(WireWriter* out, const EndInfo& end) {
  const WireWriter::Mark packet = out->Open(kTracePacket, kExpectedPacketBytes);
  const WireWriter::Mark data = out->Open(kPacketEnd, kExpectedPacketBytes);
  char reason[kTextBytes];
  CopyText(reason, end.reason);
  OptionalText(out, 1, reason);
  out->Uint(2, stats->frames + 1);
  out->Uint(3, stats->records + staging.records());
  out->Uint(4, end.buffers_outstanding);
  out->Close(data);
  out->Close(packet);
}

uint8_t* TraceWriter::State::PrependHeader(const ClockReading& clock) {
  uint8_t bytes[kHeaderBytes];
  WireWriter out(bytes, sizeof(bytes));
  const bool timed = staging.first_ns <= staging.last_ns;
  const WireWriter::Mark packet = out.Open(kTracePacket, kExpectedPacketBytes);
  const WireWriter::Mark data = out.Open(kPacketFrameHeader, kExpectedPacketBytes);
  out.Uint(1, kFormatVersion);
  out.Fixed64(2, options.file_id);
  out.Uint(3, sequence);
  out.Int(4, timed ? staging.first_ns : clock.trace_ns);
  if (timed) {
    out.Int(5, staging.first_ns);
    out.Int(6, staging.last_ns);
  }
  out.Uint(7, staging.records());
  const WireWriter::Mark pair = out.Open(8, kExpectedPacketBytes);
  out.Int(1, clock.trace_ns);
  out.Int(2, clock.monotonic_ns);
  out.Int(3, clock.realtime_ns);
  out.Int(4, clock.cupti_ns);
  out.Uint(5, clock.uncertainty_ns);
  out.Close(pair);
  out.Int(9, clock.trace_ns);
  out.Uint(10, options.flush_period_ms);
  out.Close(data);
  out.Close(packet);
  uint8_t* begin = raw + kHeaderBytes - out.size();
  std::memcpy(begin, out.data(), out.size());
  return begin;
}

// Losses and finished blind periods are in the file now.
void TraceWriter::State::ForgetReported() {
  std::memset(losses, 0, sizeof(losses));
  size_t kept = 0;
  for (size_t i = 0; i < blind_count; ++i) {
    if (blinds[i].end_ns != 0) continue;
    blinds[i].reported = true;  // goes on: told again in every frame, in case it is the last one
    if (kept != i) blinds[kept] = blinds[i];
    ++kept;
  }
  blind_count = kept;
}

void TraceWriter::State::BeginFrame() {
  staging.Clear();
  dictionary.BeginFrame();
  facts.BeginFrame();
  batch_bytes = 0;
}

bool TraceWriter::State::WriteFrame(const EndInfo* end) {
  ClockReading clock = {};
  if (hooks.read_clocks != nullptr) clock = hooks.read_clocks(hooks.user);
  const int64_t base_ns = staging.first_ns <= staging.last_ns ? staging.first_ns : clock.trace_ns;
  WireWriter body(raw + kHeaderBytes, raw_bytes - kHeaderBytes);
  AddSessionPackets(&body);
  AddDictionary(&body);
  encoder.Encode(&staging, base_ns, &body);
  AddLosses(&body);
  AddBlinds(&body);
  if (end != nullptr) AddEnd(&body, *end);
  const uint8_t* begin = PrependHeader(clock);
  // Cannot be otherwise while the bounds in column_encoder.h hold; if they did not, the columns would have
  // run into the compressor's output, which is scratch, and the frame is given up.
  const bool fits = !body.overflowed() && body.size() <= body.capacity();
  const size_t bytes = fits ? compressor.Compress(begin, static_cast<size_t>(body.end() - begin)) : 0;
  errno = 0;  // the sink's reason, if it has one
  const bool written = bytes != 0 && hooks.write_frame(hooks.user, compressor.output(), bytes);
  const int error = errno;
  const uint64_t records = staging.records();
  if (written) {
    ++stats->frames;
    stats->records += records;
    stats->bytes += bytes;
    ForgetReported();
  } else {
    stats->records_lost += records;
    const bool timed = staging.first_ns <= staging.last_ns;
    const LossCause cause = error == EFBIG ? LossCause::kSizeCap : LossCause::kWriteFailed;
    Loss(cause, records, timed ? staging.first_ns : 0, timed ? staging.last_ns : 0, error);
  }
  ++sequence;  // also of a frame that is lost: the hole shows where
  BeginFrame();
  return written;
}

bool TraceWriter::Init(const WriterOptions& options, const WriterHooks& hooks, void* memory) {
  if (memory == nullptr || hooks.write_frame == nullptr || options.max_frame_records == 0) return false;
  Arena arena(memory, options.memory_bytes);
  void* place = arena.Take<State>(1);
  if (place == nullptr) return false;
  State* state = new (place) State();
  state->stats = &stats_;
  if (!state->Init(options, hooks, &arena)) return false;
  state_ = state;
  return true;
}

void TraceWriter::OnKernel(const KernelRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedKernel k = {r.start_ns, r.end_ns, r.correlation, 0, 0};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &k.start_ns, &k.end_ns);
  const bool has_graph = r.graph_id != 0 || r.graph_node_id != 0;
  const bool has_latency = timing == Timing::kValid && (r.queued_ns != 0 || r.submitted_ns != 0);
  const size_t max_bytes = kKernelMaxBytes + (has_graph ? kKernelGraphMaxBytes : 0) +
                           (has_latency ? kKernelLatencyMaxBytes : 0);
  FrameDictionary::ShapeRef shape;
  int lane;
  if (!s.Admit(s.staging.kernels, max_bytes, [&] {
        return s.dictionary.Shape(r, &shape) &&
               s.FindLane(LaneClass::kKernel, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished) s.staging.NoteTimes(k.start_ns, k.end_ns);
  if (shape.name_replaced) {
    ++stats_.names_replaced;
    s.Loss(LossCause::kNameTableFull, 1, k.start_ns, k.end_ns, 0);
  }
  const uint32_t index = s.staging.kernels.size;
  if (has_graph) s.staging.kernel_graphs[index] = {r.graph_node_id, r.graph_id};
  if (has_latency) {
    s.staging.kernel_latencies[index] = {r.queued_ns == 0 ? 0 : r.start_ns - r.queued_ns,
                                         r.submitted_ns == 0 ? 0 : r.start_ns - r.submitted_ns};
  }
  k.shape = shape.id;
  k.lane_and_flags = static_cast<uint16_t>(lane << 2 | (has_graph ? kHasGraph : 0) |
                                           (has_latency ? kHasLatency : 0));
  s.staging.kernels.Push(k);
}

void TraceWriter::OnCopy(const CopyRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedCopy c = {r.start_ns, r.end_ns, r.bytes, r.graph_node_id, r.correlation, r.graph_id, 0, 0};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &c.start_ns, &c.end_ns);
  int lane;
  if (!s.Admit(s.staging.copies, kCopyMaxBytes, [&] {
        return s.dictionary.CopyShape(r, &c.shape) &&
               s.FindLane(LaneClass::kCopy, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished) s.staging.NoteTimes(c.start_ns, c.end_ns);
  if (r.peer) {
    s.facts.UseDevice(r.src_device);
    s.facts.UseDevice(r.dst_device);
  }
  c.lane_index = static_cast<uint16_t>(lane);
  s.staging.copies.Push(c);
}

void TraceWriter::OnSet(const SetRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedSet m = {r.start_ns, r.end_ns, r.bytes, r.graph_node_id, r.correlation,
                 r.graph_id, r.value, 0, r.memory_kind, r.flags};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &m.start_ns, &m.end_ns);
  int lane;
  if (!s.Admit(s.staging.sets, kSetMaxBytes, [&] {
        return s.FindLane(LaneClass::kSet, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished) s.staging.NoteTimes(m.start_ns, m.end_ns);
  m.lane_index = static_cast<uint16_t>(lane);
  s.staging.sets.Push(m);
}

void TraceWriter::OnGraph(const GraphRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedGraph g = {r.start_ns, r.end_ns, r.correlation, r.graph_id, 0};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &g.start_ns, &g.end_ns);
  int lane;
  if (!s.Admit(s.staging.graphs, kGraphMaxBytes, [&] {
        return s.FindLane(LaneClass::kGraph, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished) s.staging.NoteTimes(g.start_ns, g.end_ns);
  g.lane_index = static_cast<uint32_t>(lane);
  s.staging.graphs.Push(g);
}

void TraceWriter::OnApi(const ApiRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedApi a = {r.start_ns, r.end_ns, r.correlation, 0, 0};
  s.ConvertHostTimes(&a.start_ns, &a.end_ns);
  const bool failed = r.result != 0;
  int lane;
  if (!s.Admit(s.staging.api, kApiMaxBytes + (failed ? kFailedMaxBytes : 0), [&] {
        return s.dictionary.ApiSymbol(r.domain, r.cbid, &a.symbol) &&
               s.FindLane(LaneClass::kApi, Timing::kValid, 0, 0, r.thread, &lane);
      })) {
    return;
  }
  if (a.start_ns > 0) s.staging.NoteTimes(a.start_ns, a.end_ns);
  a.lane_and_flags = static_cast<uint16_t>(lane << 2 | failed);
  if (failed) s.staging.api_results[s.staging.api.size] = r.result;
  s.staging.api.Push(a);
}

void TraceWriter::OnSync(const SyncRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  SyncRecord sync = r;
  s.ConvertHostTimes(&sync.start_ns, &sync.end_ns);
  if (!s.Admit(s.staging.syncs, kSyncMaxBytes, [] { return true; })) return;
  if (sync.start_ns > 0) s.staging.NoteTimes(sync.start_ns, sync.end_ns);
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.syncs.Push(sync);
}

void TraceWriter::OnCudaEvent(const CudaEventRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  if (!s.Admit(s.staging.cuda_events, kCudaEventMaxBytes, [] { return true; })) return;
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.cuda_events.Push(r);
}

void TraceWriter::OnOverhead(const OverheadRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  OverheadRecord overhead = r;
  s.ConvertHostTimes(&overhead.start_ns, &overhead.end_ns);
  if (!s.Admit(s.staging.overheads, kOverheadMaxBytes, [] { return true; })) return;
  if (overhead.start_ns > 0) s.staging.NoteTimes(overhead.start_ns, overhead.end_ns);
  s.facts.UseDevice(r.device);
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.overheads.Push(overhead);
}

void TraceWriter::OnDevice(const DeviceRecord& r) {
  if (state_ == nullptr) return;
  char name[Facts::kMaxDeviceNameBytes];
  int64_t size = -1;
  const WriterHooks& hooks = state_->hooks;
  if (r.name != nullptr && hooks.read_name != nullptr) {
    size = hooks.read_name(hooks.user, r.name, name, sizeof(name));
  }
  if (size < 0) size = 0;
  if (size > static_cast<int64_t>(sizeof(name))) size = sizeof(name);
  ReplaceInvalidUtf8(name, static_cast<size_t>(size));
  state_->facts.AddDevice(r, name, static_cast<size_t>(size));
}

void TraceWriter::OnContext(const ContextRecord& r) {
  if (state_ != nullptr) state_->facts.AddContext(r);
}

void TraceWriter::OnStream(const StreamRecord& r) {
  if (state_ != nullptr) state_->facts.AddStream(r);
}

void TraceWriter::BeginBuffer() {
  if (state_ != nullptr) state_->dictionary.BeginBuffer();
}

void TraceWriter::AddLoss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns,
                          int64_t detail) {
  if (state_ != nullptr) state_->Loss(cause, count, begin_ns, end_ns, detail);
}

void TraceWriter::AddBlind(int64_t begin_ns, int64_t end_ns, const char* who, const char* reason) {
  if (state_ == nullptr) return;
  State& s = *state_;
  for (size_t i = 0; i < s.blind_count; ++i) {
    BlindEntry& known = s.blinds[i];
    if (known.begin_ns != begin_ns) continue;
    if (known.end_ns != end_ns) known.reported = false;
    known.end_ns = end_ns;
    return;
  }
  if (s.blind_count == kMaxBlinds) {  // widen the last one: too long a blind time is the safe error
    BlindEntry& last = s.blinds[kMaxBlinds - 1];
    if (begin_ns < last.begin_ns) last.begin_ns = begin_ns;
    last.end_ns = end_ns == 0 || last.end_ns == 0 ? 0 : (end_ns > last.end_ns ? end_ns : last.end_ns);
    last.reported = false;
    return;
  }
  BlindEntry& blind = s.blinds[s.blind_count++];
  blind.begin_ns = begin_ns;
  blind.end_ns = end_ns;
  blind.reported = false;
  CopyText(blind.who, who);
  CopyText(blind.reason, reason);
}

bool TraceWriter::HasData() const {
  if (state_ == nullptr) return false;
  const State& s = *state_;
  if (s.staging.records() != 0 || s.facts.news()) return true;
  for (const LossEntry& loss : s.losses) {
    if (loss.count != 0) return true;
  }
  for (size_t i = 0; i < s.blind_count; ++i) {
    if (!s.blinds[i].reported) return true;
  }
  return false;
}

bool TraceWriter::CloseFrame() { return state_ != nullptr && state_->WriteFrame(nullptr); }

bool TraceWriter::Finish(const char* reason, uint32_t buffers_outstanding) {
  if (state_ == nullptr) return false;
  const EndInfo end = {reason, buffers_outstanding};
  const bool written = state_->WriteFrame(&end);
  state_ = nullptr;  // On* calls that come too late do nothing
  return written;
}

}  // namespace gpuprobe::proto

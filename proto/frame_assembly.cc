// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.

// TraceWriter::State: its memory, its losses, and the making of a frame.
#include <cerrno>
#include <cstring>

#include "proto/format.h"
#include "proto/packet_builder.h"
#include "proto/sample_encoder.h"
#include "proto/utf8.h"
#include "proto/writer_state.h"

namespace gpuprobe::proto {
namespace {

constexpr uint32_t kTracePacket = 1;
constexpr size_t kExpectedPacketBytes = 100;

// Parts of the uncompressed frame that are not batches, each at its most.
constexpr size_t kHeaderBytes = 192;  // 10 fields of up to 11 bytes, the clock pair 52
// The session's packets and a piece of host samples of any size (SampleEncoder::kMaxSealedBytes);
// pieces are rarely a tenth of that, so that those of a frame's time fit together.
constexpr size_t kSessionBytes = (128u << 10) + SampleEncoder::kMaxSealedBytes;
constexpr size_t kDictionaryBytes = FrameDictionary::kBytes + Facts::kMaxBytes + 16;
constexpr size_t kLossBytes = 64;
constexpr size_t kBlindBytes = 2 * kTextBytes + 40;
constexpr size_t kEndBytes = kTextBytes + 48;
constexpr size_t kLanelessBatches = 4;
constexpr size_t kFixedBytes = kHeaderBytes + kSessionBytes + kDictionaryBytes +
                               kCauses * kLossBytes + kMaxBlinds * kBlindBytes + kEndBytes +
                               kLanelessBatches * kBatchMaxBytes;
// Less would close a frame every few hundred records.
constexpr size_t kMinBatchBytes = 64u << 10;

size_t BoundedLength(const char* text) {
  return text == nullptr ? 0 : strnlen(text, kTextBytes - 1);
}

void OptionalText(WireWriter* out, uint32_t field, const char* text) {
  const size_t size = BoundedLength(text);
  if (size != 0) out->Bytes(field, text, size);
}

}  // namespace

void CopyText(char (&out)[kTextBytes], const char* text) {
  const size_t size = BoundedLength(text);
  if (size != 0) std::memcpy(out, text, size);
  out[size] = '\0';
  ReplaceInvalidUtf8(out, size);
}

bool TraceWriter::State::Init(const WriterOptions& o, const WriterHooks& h, Arena* arena) {
  options = o;
  hooks = h;
  staging.Take(arena, o.max_frame_records);
  dictionary.Take(arena, h);
  facts.Take(arena);
  encoder.Take(arena, o.max_frame_records);
  compressor.TakeContext(arena, o.zstd_level);
  // What is left goes to the uncompressed frame and its compressed form, half and half: zstd's
  // bound is 1/256 above the input (plus 64 bytes below 128 KiB, and the alignment of both).
  constexpr size_t kSlack = 1024;
  if (arena->used() + kSlack > o.memory_bytes) return false;
  raw_bytes = (o.memory_bytes - arena->used() - kSlack) / 513 * 256;
  if (raw_bytes > kMaxFrameBytes) raw_bytes = kMaxFrameBytes;
  if (raw_bytes < kFixedBytes + kMinBatchBytes) return false;
  raw = arena->Take<uint8_t>(raw_bytes);
  compressor.TakeOutput(arena, raw_bytes);
  if (!arena->fits()) return false;
  batch_limit = raw_bytes - kFixedBytes;
  AskOffset();
  return compressor.Init();
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
  // Cannot be otherwise while the bounds in column_encoder.h hold; if they did not, the columns
  // would have run into the compressor's output, which is scratch, and the frame is given up.
  const bool fits = !body.overflowed() && body.size() <= body.capacity();
  const size_t bytes =
      fits ? compressor.Compress(begin, static_cast<size_t>(body.end() - begin)) : 0;
  errno = 0;  // the sink's reason, if it has one
  const bool written = bytes != 0 && hooks.write_frame(hooks.user, compressor.output(), bytes);
  const uint64_t records = staging.records();
  if (written) {
    ++stats->frames;
    stats->records += records;
    stats->bytes += bytes;
    ForgetReported();
  } else {
    stats->records_lost += records;
    const bool timed = staging.first_ns <= staging.last_ns;
    const int error = errno;
    // EFBIG: our own size limit, or the process's (RLIMIT_FSIZE).
    Loss(error == EFBIG ? LossCause::kSizeCap : LossCause::kWriteFailed, records,
         timed ? staging.first_ns : 0, timed ? staging.last_ns : 0, error);
  }
  ++sequence;  // also of a frame that is lost: the hole shows where
  BeginFrame();
  AskOffset();
  return written;
}

}  // namespace gpuprobe::proto

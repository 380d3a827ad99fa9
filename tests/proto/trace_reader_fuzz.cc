// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// fuzz_trace_reader: any bytes as a trace file, and any bytes as the content of a frame (checksums
// would keep a fuzzer from ever getting there). Reads all of it, down to the columns.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proto/columns.h"
#include "proto/frame_validation.h"
#include "proto/sample_columns.h"
#include "proto/trace_reader.h"

namespace gpuprobe::proto {
namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

template <class Columns, class Batch>
void DecodeBatch(const Batch& batch, const FrameHeader& header) {
  static Columns columns;
  Decode(batch, header, &columns);
  Check(columns.count <= kMaxBatchRecords && columns.correlation.size() == columns.count);
  for (size_t i = 0; i < columns.start_ns.size(); ++i)
    Check(columns.start_ns[i] <= columns.end_ns[i]);
}

void DecodeSamples(const HostSamples& piece) {
  static SampleTables tables;
  static SampleColumns columns;
  Decode(piece, &tables);
  for (size_t i = 0; i < tables.nodes.size(); ++i) Check(tables.nodes[i].parent <= i);
  for (const ThreadSamples& thread : piece.threads()) {
    Decode(thread, piece, tables, &columns);
    for (size_t i = 0; i < columns.count; ++i) {
      Check(columns.stack[i] <= tables.nodes.size() && columns.wait_target[i] <= tables.strings);
      Check(columns.interval_ns[i] >= 0 && columns.cpu_ns[i] >= 0 && columns.runnable_ns[i] >= 0);
    }
  }
}

void DecodeAll(const Trace& trace) {
  const FrameHeader& header = trace.packet(0).frame_header();
  for (const Packet& packet : trace.packet()) {
    if (packet.has_kernels()) DecodeBatch<KernelColumns>(packet.kernels(), header);
    if (packet.has_api()) DecodeBatch<ApiColumns>(packet.api(), header);
    if (packet.has_copies()) DecodeBatch<CopyColumns>(packet.copies(), header);
    if (packet.has_sets()) DecodeBatch<SetColumns>(packet.sets(), header);
    if (packet.has_graphs()) DecodeBatch<GraphColumns>(packet.graphs(), header);
    if (packet.has_syncs()) DecodeBatch<SyncColumns>(packet.syncs(), header);
    if (packet.has_cuda_events()) DecodeBatch<CudaEventColumns>(packet.cuda_events(), header);
    if (packet.has_overheads()) DecodeBatch<OverheadColumns>(packet.overheads(), header);
    if (packet.has_markers()) DecodeBatch<MarkerColumns>(packet.markers(), header);
    if (packet.has_host_samples()) DecodeSamples(packet.host_samples());
  }
}

void CheckSame(const BatchColumns& a, const BatchColumns& b) {
  Check(a.count == b.count && a.start_ns == b.start_ns && a.end_ns == b.end_ns &&
        a.correlation == b.correlation);
}

// What is decoded without libprotobuf is what libprotobuf makes of it.
void ReadBothWays(std::string_view content, const Trace& trace) {
  static FrameBatches batches;
  Trace rest;
  Check(ParseFrame(content, &rest, &batches) == nullptr);
  Check(rest.packet_size() == trace.packet_size());
  const FrameHeader& header = trace.packet(0).frame_header();
  for (const FrameBatches::Batch& batch : batches.batches()) {
    if (batch.kernels != nullptr) {
      KernelColumns columns;
      Decode(trace.packet(batch.packet).kernels(), header, &columns);
      CheckSame(columns, *batch.kernels);
      Check(columns.shape == batch.kernels->shape);
    } else {
      ApiColumns columns;
      Decode(trace.packet(batch.packet).api(), header, &columns);
      CheckSame(columns, *batch.api);
      Check(columns.symbol == batch.api->symbol && columns.result == batch.api->result);
    }
  }
}

void ReadAsFrame(std::string_view content) {
  Trace trace;
  if (ParseFrame(content, &trace) != nullptr) {
    FrameBatches batches;
    Check(ParseFrame(content, &trace, &batches) != nullptr);
    return;
  }
  uint64_t packets = 0, fields = 0;
  CountUnknown(trace, {}, &packets, &fields);
  DecodeAll(trace);
  ReadBothWays(content, trace);
}

void ReadAsFile(std::string_view content) {
  static const int fd = memfd_create("trace", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Check(ftruncate(fd, 0) == 0);
  Check(pwrite(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  auto reader = TraceReader::Open(path);
  if (!reader.ok()) return;
  Frame frame;
  uint64_t good_bytes = 0, damaged_bytes = 0, frames = 0;
  while ((*reader)->Next(&frame)) {
    DecodeAll(frame.trace);
    good_bytes += frame.bytes;
    ++frames;
  }
  for (const Damage& damage : (*reader)->damage()) damaged_bytes += damage.bytes;
  Check(frames == (*reader)->counts().frames);
  // Every byte is either read, skippable, a duplicate, or reported.
  Check(good_bytes + damaged_bytes <= content.size());
  if ((*reader)->counts().skippable_frames + (*reader)->counts().duplicate_frames == 0) {
    Check(good_bytes + damaged_bytes == content.size());
  }
}

}  // namespace
}  // namespace gpuprobe::proto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) {
    gpuprobe::proto::ReadAsFrame(content);
  } else {
    gpuprobe::proto::ReadAsFile(content);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/proto/trace_log.h"

#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include <fstream>

#include "gtest/gtest.h"
#include "proto/format.h"

namespace gpuprobe::proto {
namespace {

std::string NameOf(const Dictionary& dictionary, uint32_t id) {
  if (id == 0) return Named("");
  EXPECT_LE(id, static_cast<uint32_t>(dictionary.names_size()));
  return id <= static_cast<uint32_t>(dictionary.names_size())
             ? Named(dictionary.names(static_cast<int>(id) - 1))
             : Named("?");
}

template <class Columns>
std::string LaneOf(const char* kind, const Columns& c) {
  return kind + (' ' + Text(c.device, c.context, c.stream, static_cast<uint32_t>(c.timing)));
}

template <class Columns>
std::string TimesOf(const Columns& c, size_t i) {
  return Text(c.start_ns[i], c.end_ns[i], c.correlation[i]);
}

void Append(const KernelBatch& batch, const FrameHeader& header, const Dictionary& dictionary,
            RecordLog* log) {
  KernelColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    ASSERT_LT(c.shape[i], static_cast<uint32_t>(dictionary.shapes_size()));
    const LaunchShape& s = dictionary.shapes(static_cast<int>(c.shape[i]));
    (*log)[LaneOf("kernel", c)].push_back(
        TimesOf(c, i) + NameOf(dictionary, s.name()) +
        Text(s.grid_x(), s.grid_y(), s.grid_z(), s.block_x(), s.block_y(), s.block_z(),
             s.cluster_x(), s.cluster_y(), s.cluster_z(), s.static_shared_bytes(),
             s.dynamic_shared_bytes(), s.shared_executed_bytes(), s.local_bytes_per_thread(),
             s.registers_per_thread(), s.launch_type(), s.device_launched(), c.graph_id[i],
             c.graph_node_id[i], c.queued_before_ns[i], c.submitted_before_ns[i]));
  }
}

void Append(const CopyBatch& batch, const FrameHeader& header, const Dictionary& dictionary,
            RecordLog* log) {
  CopyColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    ASSERT_LT(c.shape[i], static_cast<uint32_t>(dictionary.copy_shapes_size()));
    const CopyShape& s = dictionary.copy_shapes(static_cast<int>(c.shape[i]));
    (*log)[LaneOf("copy", c)].push_back(
        TimesOf(c, i) + Text(s.copy_kind(), s.src_kind(), s.dst_kind(), s.flags(), s.peer(),
                             s.device_launched(), s.src_device_plus1(), s.dst_device_plus1(),
                             c.bytes[i], c.graph_id[i], c.graph_node_id[i]));
  }
}

void Append(const SetBatch& batch, const FrameHeader& header, RecordLog* log) {
  SetColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    (*log)[LaneOf("set", c)].push_back(TimesOf(c, i) + Text(c.memory_kind[i], c.flags[i],
                                                            c.bytes[i], c.value[i], c.graph_id[i],
                                                            c.graph_node_id[i]));
  }
}

void Append(const GraphBatch& batch, const FrameHeader& header, RecordLog* log) {
  GraphColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    (*log)[LaneOf("graph", c)].push_back(TimesOf(c, i) + Text(c.graph_id[i]));
  }
}

void Append(const ApiBatch& batch, const FrameHeader& header, const Dictionary& dictionary,
            RecordLog* log) {
  ApiColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    ASSERT_LT(c.symbol[i], static_cast<uint32_t>(dictionary.api_symbols_size()));
    const ApiSymbol& s = dictionary.api_symbols(static_cast<int>(c.symbol[i]));
    (*log)["api " + Text(c.thread)].push_back(TimesOf(c, i) + NameOf(dictionary, s.name()) +
                                              Text(static_cast<uint32_t>(s.domain()), s.cbid(),
                                                   static_cast<uint32_t>(s.api_class()),
                                                   c.result[i]));
  }
}

void Append(const SyncBatch& batch, const FrameHeader& header, RecordLog* log) {
  SyncColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    (*log)["sync"].push_back(TimesOf(c, i) + Text(c.type[i], c.context_plus1[i], c.stream_plus1[i],
                                                  c.event_plus1[i], c.event_sync_id[i],
                                                  c.result[i]));
  }
}

void Append(const CudaEventBatch& batch, const FrameHeader& header, RecordLog* log) {
  CudaEventColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    (*log)["event"].push_back(
        Text(c.correlation[i], c.context[i], c.stream_plus1[i], c.event[i], c.event_sync_id[i]));
  }
}

void Append(const OverheadBatch& batch, const FrameHeader& header, RecordLog* log) {
  OverheadColumns c;
  Decode(batch, header, &c);
  for (size_t i = 0; i < c.count; ++i) {
    (*log)["overhead"].push_back(TimesOf(c, i) + Text(c.kind[i], c.object_kind[i], c.thread[i],
                                                      c.device_plus1[i], c.context_plus1[i],
                                                      c.stream_plus1[i]));
  }
}

void Append(const MarkerBatch& batch, const FrameHeader& header, const Dictionary& dictionary,
            RecordLog* log) {
  MarkerColumns c;
  Decode(batch, header, &c);
  const auto name = [&dictionary](uint32_t id) {
    return id == 0 ? std::string("-") : dictionary.marker_names(static_cast<int>(id) - 1);
  };
  for (size_t i = 0; i < c.count; ++i) {
    (*log)["marker"].push_back(TimesOf(c, i) + Text(c.flags[i], c.thread[i]) + name(c.name[i]) +
                               ' ' + name(c.domain[i]));
  }
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& content) {
  std::string path = testing::TempDir() + "gpuprobe_XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  path_ = path;
  Append(content);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

void TemporaryFile::Append(const std::string& content) {
  std::ofstream(path_, std::ios::binary | std::ios::app) << content;
}

uint64_t ReadResult::records() const {
  uint64_t sum = 0;
  for (const auto& [lane, rows] : log) sum += rows.size();
  return sum;
}

size_t ReadResult::Count(Damage::Kind kind) const {
  size_t count = 0;
  for (const Damage& d : damage) count += d.kind == kind;
  return count;
}

ReadResult ReadPath(const std::string& path) {
  ReadResult result;
  auto reader = TraceReader::Open(path);
  result.status = reader.status();
  if (!reader.ok()) return result;
  Frame frame;
  while ((*reader)->Next(&frame)) {
    AppendToLog(frame.trace, &result.log);
    result.headers.push_back(frame.header());
    result.frames.push_back(frame.trace);
  }
  result.damage = (*reader)->damage();
  result.counts = (*reader)->counts();
  result.ended = (*reader)->ended();
  return result;
}

ReadResult ReadBytes(const std::string& content) {
  const TemporaryFile file(content);
  return ReadPath(file.path());
}

void AppendToLog(const Trace& trace, RecordLog* log) {
  const FrameHeader& header = trace.packet(0).frame_header();
  Dictionary dictionary;
  for (const Packet& packet : trace.packet()) {
    if (packet.has_dictionary()) dictionary.MergeFrom(packet.dictionary());
    if (packet.has_kernels()) Append(packet.kernels(), header, dictionary, log);
    if (packet.has_copies()) Append(packet.copies(), header, dictionary, log);
    if (packet.has_sets()) Append(packet.sets(), header, log);
    if (packet.has_graphs()) Append(packet.graphs(), header, log);
    if (packet.has_api()) Append(packet.api(), header, dictionary, log);
    if (packet.has_syncs()) Append(packet.syncs(), header, log);
    if (packet.has_cuda_events()) Append(packet.cuda_events(), header, log);
    if (packet.has_overheads()) Append(packet.overheads(), header, log);
    if (packet.has_markers()) Append(packet.markers(), header, dictionary, log);
  }
}

std::string Compress(const std::string& content) {
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const size_t size =
      ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  frame.resize(size);
  return frame;
}

std::string Decompress(const std::string& frame) {
  std::string content(ZSTD_getFrameContentSize(frame.data(), frame.size()), '\0');
  EXPECT_EQ(ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size()),
            content.size());
  return content;
}

}  // namespace gpuprobe::proto

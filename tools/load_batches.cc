// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The half of FileLoader that turns batches into records.
#include <algorithm>

#include "tools/analysis.h"
#include "tools/file_loader.h"

namespace gpuprobe::tools {
namespace {

constexpr uint8_t kTimingInvalid = static_cast<uint8_t>(proto::RecordTiming::kInvalid);

// Kinds of CUpti_ActivityOverheadKind that exist because somebody traces. The others are the
// application's own: compiler (1), module loading (4 << 16), lazy function loading (5 << 16), a
// full command buffer (6 << 16).
bool IsProfilerOverhead(uint32_t kind) {
  if ((kind & 0xffff) != 0) return false;
  switch (kind >> 16) {
    case 1:
    case 2:
    case 3:
    case 7:
    case 8:  // flush, instrumentation, resource, buffer request, UVM init
      return true;
    default:
      return false;
  }
}

// Id of the frame's dictionary -> id of the Timeline; -1 for what the frame does not define.
int32_t Lookup(const std::vector<int32_t>& ids, uint32_t id) {
  return id < ids.size() ? ids[id] : -1;
}

}  // namespace

FileLoader::Lane FileLoader::LaneOf(const proto::GpuColumns& columns, FileState* file) {
  const int32_t device = DeviceOf(columns.device, file);
  if (part_ == Part::kOutline) {
    process_devices_.insert({file->process, device});
    frame_devices_.push_back(device);
  }
  return {device, StreamOf(device, columns.context, columns.stream, file)};
}

int32_t FileLoader::ContextStream(uint32_t context, uint32_t stream_plus1, FileState* file) {
  const auto device = file->context_device.find(context);
  if (stream_plus1 == 0 || device == file->context_device.end()) return -1;
  return StreamOf(DeviceOf(device->second, file), context, stream_plus1 - 1, file);
}

void FileLoader::AddOp(const proto::GpuColumns& columns, size_t i, GpuOp op) {
  op.start_ns = columns.start_ns[i];
  op.end_ns = columns.end_ns[i];
  op.correlation = columns.correlation[i];
  op.graph_id = columns.graph_id[i];
  const bool valid = columns.timing == proto::RecordTiming::kValid;
  if (valid && Believable(op.start_ns, op.end_ns)) {
    run_->timeline.ops.push_back(op);
    return;
  }
  const bool unfinished =
      columns.timing == proto::RecordTiming::kUnfinished && Believable(op.start_ns, op.start_ns);
  run_->timeline.untimed.push_back(
      {op.kind, valid ? kTimingInvalid : static_cast<uint8_t>(columns.timing), op.device, op.stream,
       op.process, op.name, op.correlation, unfinished ? op.start_ns : 0});
}

void FileLoader::LoadKernels(const KernelBatch& batch, const FrameHeader& header, FileState* file) {
  proto::KernelColumns& columns = columns_.kernels;
  proto::Decode(batch, header, &columns);
  const Lane lane = LaneOf(columns, file);
  for (size_t i = 0; i < columns.count; ++i) {
    GpuOp op = {};
    op.kind = OpKind::kKernel;
    op.device = lane.device;
    op.stream = lane.stream;
    op.process = file->process;
    op.name = Lookup(file->ids.shape_names, columns.shape[i]);
    op.shape = Lookup(file->ids.shapes, columns.shape[i]);
    op.graph_node_id = columns.graph_node_id[i];
    const bool communicates = op.name >= 0 && communicates_[static_cast<size_t>(op.name)];
    op.op_class = communicates ? OpClass::kCommunication : OpClass::kCompute;
    AddOp(columns, i, op);
  }
  runs_.ops.push_back(run_->timeline.ops.size());
}

void FileLoader::LoadCopies(const CopyBatch& batch, const FrameHeader& header, FileState* file) {
  proto::CopyColumns& columns = columns_.copies;
  proto::Decode(batch, header, &columns);
  const Lane lane = LaneOf(columns, file);
  for (size_t i = 0; i < columns.count; ++i) {
    GpuOp op = {};
    op.kind = OpKind::kCopy;
    op.op_class = OpClass::kCopy;
    op.device = lane.device;
    op.stream = lane.stream;
    op.process = file->process;
    op.name = -1;
    op.shape = Lookup(file->ids.copy_shapes, columns.shape[i]);
    op.bytes = columns.bytes[i];
    op.graph_node_id = columns.graph_node_id[i];
    AddOp(columns, i, op);
  }
  runs_.ops.push_back(run_->timeline.ops.size());
}

void FileLoader::LoadSets(const SetBatch& batch, const FrameHeader& header, FileState* file) {
  proto::SetColumns& columns = columns_.sets;
  proto::Decode(batch, header, &columns);
  const Lane lane = LaneOf(columns, file);
  for (size_t i = 0; i < columns.count; ++i) {
    GpuOp op = {};
    op.kind = OpKind::kSet;
    op.op_class = OpClass::kCopy;
    op.device = lane.device;
    op.stream = lane.stream;
    op.process = file->process;
    op.name = op.shape = -1;
    op.bytes = columns.bytes[i];
    op.graph_node_id = columns.graph_node_id[i];
    AddOp(columns, i, op);
  }
  runs_.ops.push_back(run_->timeline.ops.size());
}

void FileLoader::LoadGraphs(const GraphBatch& batch, const FrameHeader& header, FileState* file) {
  proto::GraphColumns& columns = columns_.graphs;
  proto::Decode(batch, header, &columns);
  const Lane lane = LaneOf(columns, file);
  for (size_t i = 0; i < columns.count; ++i) {
    GpuOp op = {};
    op.kind = OpKind::kGraph;
    op.op_class = OpClass::kCompute;
    op.device = lane.device;
    op.stream = lane.stream;
    op.process = file->process;
    op.name = op.shape = -1;
    AddOp(columns, i, op);
  }
  runs_.ops.push_back(run_->timeline.ops.size());
}

void FileLoader::LoadApi(const ApiBatch& batch, const FrameHeader& header, FileState* file) {
  proto::ApiColumns& columns = columns_.api;
  proto::Decode(batch, header, &columns);
  const int32_t thread = ThreadOf(columns.thread, file);
  Process& process = run_->timeline.processes[static_cast<size_t>(file->process)];
  for (size_t i = 0; i < columns.count; ++i) {
    const int32_t symbol = Lookup(file->ids.symbols, columns.symbol[i]);
    if (symbol < 0 || !Believable(columns.start_ns[i], columns.end_ns[i])) {
      ++impossible_records_;
      continue;
    }
    run_->timeline.calls.push_back({columns.start_ns[i], columns.end_ns[i], columns.correlation[i],
                                    file->process, thread, symbol, columns.result[i]});
    const bool driver = run_->timeline.symbols[static_cast<size_t>(symbol)].driver;
    (driver ? process.has_driver_api : process.has_runtime_api) = true;
  }
  runs_.calls.push_back(run_->timeline.calls.size());
}

void FileLoader::LoadSyncs(const SyncBatch& batch, const FrameHeader& header, FileState* file) {
  proto::SyncColumns& columns = columns_.syncs;
  proto::Decode(batch, header, &columns);
  run_->timeline.processes[static_cast<size_t>(file->process)].has_sync_records |=
      columns.count > 0 || (part_ == Part::kOutline && batch.count() > 0);
  for (size_t i = 0; i < columns.count; ++i) {
    if (!Believable(columns.start_ns[i], columns.end_ns[i])) {
      ++impossible_records_;
      continue;
    }
    SyncOp sync = {};
    sync.start_ns = columns.start_ns[i];
    sync.end_ns = columns.end_ns[i];
    sync.type = static_cast<uint8_t>(columns.type[i]);
    sync.process = file->process;
    const uint32_t context = columns.context_plus1[i] - 1;
    const auto device = file->context_device.find(context);
    sync.device = device == file->context_device.end() ? -1 : DeviceOf(device->second, file);
    sync.stream = ContextStream(context, columns.stream_plus1[i], file);
    sync.event = columns.event_plus1[i] - 1;
    sync.correlation = columns.correlation[i];
    sync.event_sync_id = columns.event_sync_id[i];
    run_->timeline.syncs.push_back(sync);
  }
}

void FileLoader::LoadEvents(const CudaEventBatch& batch, const FrameHeader& header,
                            FileState* file) {
  proto::CudaEventColumns& columns = columns_.events;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    run_->timeline.events.push_back(
        {file->process, ContextStream(columns.context[i], columns.stream_plus1[i], file),
         columns.event[i], columns.correlation[i], columns.event_sync_id[i]});
  }
}

void FileLoader::LoadOverheads(const OverheadBatch& batch, const FrameHeader& header,
                               FileState* file) {
  proto::OverheadColumns& columns = columns_.overheads;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    if (!Believable(columns.start_ns[i], columns.end_ns[i])) {
      ++impossible_records_;
      continue;
    }
    const int32_t thread = columns.thread[i] == 0 ? -1 : ThreadOf(columns.thread[i], file);
    run_->timeline.overheads.push_back({columns.start_ns[i], columns.end_ns[i], columns.kind[i],
                                        file->process, thread,
                                        IsProfilerOverhead(columns.kind[i])});
  }
}

}  // namespace gpuprobe::tools

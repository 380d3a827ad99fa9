// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The half of FileLoader that turns batches into records.
#include <algorithm>

#include "tools/analysis/analysis.h"
#include "tools/load/file_loader.h"
#include "tools/timeline/huge_vector.h"

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

// Ranges that are open at one time: more are never ended.
constexpr size_t kMostOpenMarkers = size_t{1} << 20;

// Id of the frame's dictionary -> id of the Timeline; -1 for what the frame does not define.
int32_t Lookup(const std::vector<int32_t>& ids, uint32_t id) {
  return id < ids.size() ? ids[id] : -1;
}

}  // namespace

template <typename Batch>
void FileLoader::OpLane::Take(const Batch& columns, size_t first, size_t end) {
  times = {columns.start_ns.data() + first, columns.end_ns.data() + first, end - first};
  correlation = columns.correlation.data() + first;
  if (!columns.OnlyZeros(proto::BatchColumns::kGraphId)) {
    graph_id = columns.graph_id.data() + first;
  }
  if constexpr (requires { columns.graph_node_id; }) {
    if (!columns.OnlyZeros(proto::BatchColumns::kGraphNodeId)) {
      graph_node_id = columns.graph_node_id.data() + first;
    }
  }
  if constexpr (requires { columns.bytes; }) bytes = columns.bytes.data() + first;
  if constexpr (requires { columns.shape; }) shape = columns.shape.data() + first;
}

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

void FileLoader::AddUntimed(const proto::GpuColumns& columns, size_t i, uint8_t timing,
                            const OpLane& lane) {
  const bool unfinished = columns.timing == proto::RecordTiming::kUnfinished &&
                          Believable(columns.start_ns[i], columns.start_ns[i]);
  const int32_t name = lane.shape == nullptr ? lane.common.name : lane.ShapeOf(i).name;
  run_->timeline.untimed.push_back({lane.common.kind, timing, lane.common.device,
                                    lane.common.stream, lane.common.process, name,
                                    columns.correlation[i], unfinished ? columns.start_ns[i] : 0});
}

// Takes out what has no times that can be true, and puts the rest in order.
template <typename Batch>
void FileLoader::AddOps(Batch* columns, const OpLane& lane) {
  if (columns->count == 0) return;  // an outline
  if (columns->timing != proto::RecordTiming::kValid) {
    for (size_t i = 0; i < columns->count; ++i) {
      AddUntimed(*columns, i, static_cast<uint8_t>(columns->timing), lane);
    }
    return;
  }
  const bool all = budget_.AllRecordsBelievable(columns->start_ns.data(), columns->end_ns.data(),
                                                columns->count);
  if (!all || !SplitInOrder(*columns, &piece_ends_)) {
    selected_.clear();
    for (size_t i = 0; i < columns->count; ++i) {
      if (all || Believable(columns->start_ns[i], columns->end_ns[i])) {
        selected_.push_back(static_cast<uint32_t>(i));
      } else {
        AddUntimed(*columns, i, kTimingInvalid, lane);
      }
    }
    SortByTime(*columns, &selected_);
    Select(selected_, columns);
    piece_ends_ = {columns->count};
  }
  size_t first = 0;
  for (const size_t end : piece_ends_) {
    op_lanes_.push_back(lane);
    op_lanes_.back().Take(*columns, first, end);
    first = end;
  }
  pending_records_ += columns->count;
}

FileLoader::OpLane FileLoader::OpLaneOf(const proto::GpuColumns& columns, OpKind kind,
                                        OpClass op_class, FileState* file) {
  OpLane lane;
  const Lane ids = LaneOf(columns, file);
  lane.common.kind = kind;
  lane.common.op_class = op_class;
  lane.common.device = ids.device;
  lane.common.stream = ids.stream;
  lane.common.process = file->process;
  lane.common.name = lane.common.shape = -1;
  return lane;
}

void FileLoader::LoadKernels(proto::KernelColumns* columns, FileState* file) {
  OpLane lane = OpLaneOf(*columns, OpKind::kKernel, OpClass::kCompute, file);
  lane.shapes = &file->ids.shapes;
  lane.shape = columns->shape.data();
  AddOps(columns, lane);
}

void FileLoader::LoadCopies(const CopyBatch& batch, const FrameHeader& header, FileState* file) {
  proto::CopyColumns* columns = columns_.copies.Next();
  proto::Decode(batch, header, columns);
  OpLane lane = OpLaneOf(*columns, OpKind::kCopy, OpClass::kCopy, file);
  lane.shapes = &file->ids.copy_shapes;
  lane.shape = columns->shape.data();
  AddOps(columns, lane);
}

void FileLoader::LoadSets(const SetBatch& batch, const FrameHeader& header, FileState* file) {
  proto::SetColumns* columns = columns_.sets.Next();
  proto::Decode(batch, header, columns);
  AddOps(columns, OpLaneOf(*columns, OpKind::kSet, OpClass::kCopy, file));
}

void FileLoader::LoadGraphs(const GraphBatch& batch, const FrameHeader& header, FileState* file) {
  proto::GraphColumns* columns = columns_.graphs.Next();
  proto::Decode(batch, header, columns);
  AddOps(columns, OpLaneOf(*columns, OpKind::kGraph, OpClass::kCompute, file));
}

void FileLoader::LoadApi(proto::ApiColumns* columns, FileState* file) {
  const int32_t thread = ThreadOf(columns->thread, file);
  if (columns->count == 0) return;  // an outline
  const std::vector<int32_t>& symbols = file->ids.symbols;
  const auto known = [&symbols](uint32_t symbol) { return Lookup(symbols, symbol) >= 0; };
  const bool all_known = std::all_of(columns->symbol.begin(), columns->symbol.end(), known);
  const bool all =
      all_known && budget_.AllRecordsBelievable(columns->start_ns.data(), columns->end_ns.data(),
                                                columns->count);
  if (!all || !SplitInOrder(*columns, &piece_ends_)) {
    selected_.clear();
    for (size_t i = 0; i < columns->count; ++i) {
      if (all ||
          (known(columns->symbol[i]) && Believable(columns->start_ns[i], columns->end_ns[i]))) {
        selected_.push_back(static_cast<uint32_t>(i));
      } else {
        ++impossible_records_;
      }
    }
    SortByTime(*columns, &selected_);
    Select(selected_, columns);
    piece_ends_ = {columns->count};
  }
  size_t first = 0;
  for (const size_t end : piece_ends_) {
    call_lanes_.push_back(
        {{columns->start_ns.data() + first, columns->end_ns.data() + first, end - first},
         columns->correlation.data() + first,
         columns->symbol.data() + first,
         columns->result.data() + first,
         thread});
    first = end;
  }
  pending_records_ += columns->count;
}

void FileLoader::MergeOps() {
  lane_times_.clear();
  size_t count = 0;
  for (const OpLane& lane : op_lanes_) {
    lane_times_.push_back(lane.times);
    count += lane.times.count;
  }
  std::vector<GpuOp>& ops = run_->timeline.ops;
  MakeRoom(count, ExpectedInTheEnd(ops.size() + count), &ops);
  merger_.Merge(lane_times_, [&](size_t which, size_t first, size_t last) {
    const OpLane& lane = op_lanes_[which];
    for (size_t i = first; i < last; ++i) {
      GpuOp& op = ops.emplace_back(lane.common);
      op.start_ns = lane.times.start_ns[i];
      op.end_ns = lane.times.end_ns[i];
      op.correlation = lane.correlation[i];
      if (lane.graph_id != nullptr) op.graph_id = lane.graph_id[i];
      if (lane.graph_node_id != nullptr) op.graph_node_id = lane.graph_node_id[i];
      if (lane.bytes != nullptr) op.bytes = lane.bytes[i];
      if (lane.shape == nullptr) continue;
      const ShapeIds shape = lane.ShapeOf(i);
      op.name = shape.name;
      op.shape = shape.shape;
      op.op_class = shape.op_class;
    }
  });
  runs_.ops.push_back({ops.size(), true});
  op_lanes_.clear();
}

void FileLoader::MergeCalls(const FileState& file) {
  lane_times_.clear();
  size_t count = 0;
  for (const CallLane& lane : call_lanes_) {
    lane_times_.push_back(lane.times);
    count += lane.times.count;
  }
  std::vector<HostCall>& calls = run_->timeline.calls;
  MakeRoom(count, ExpectedInTheEnd(calls.size() + count), &calls);
  used_symbols_.assign(run_->timeline.symbols.size(), 0);
  const int32_t* const symbols = file.ids.symbols.data();  // all ids have been checked
  merger_.Merge(lane_times_, [&, process = file.process](size_t which, size_t first, size_t last) {
    const CallLane& lane = call_lanes_[which];
    for (size_t i = first; i < last; ++i) {
      const int32_t symbol = symbols[lane.symbol[i]];
      used_symbols_[static_cast<size_t>(symbol)] = 1;
      HostCall& call = calls.emplace_back();
      call.start_ns = lane.times.start_ns[i];
      call.end_ns = lane.times.end_ns[i];
      call.correlation = lane.correlation[i];
      call.process = process;
      call.thread = lane.thread;
      call.symbol = symbol;
      call.result = lane.result[i];
    }
  });
  runs_.calls.push_back({calls.size(), true});
  call_lanes_.clear();
  Process& process = run_->timeline.processes[static_cast<size_t>(file.process)];
  for (size_t i = 0; i < used_symbols_.size(); ++i) {
    if (used_symbols_[i] == 0) continue;
    (run_->timeline.symbols[i].driver ? process.has_driver_api : process.has_runtime_api) = true;
  }
}

void FileLoader::MergeLanes(const FileState& file) {
  if (!op_lanes_.empty()) MergeOps();
  if (!call_lanes_.empty()) MergeCalls(file);
  pending_records_ = 0;
  columns_.kernels.Reset();
  columns_.copies.Reset();
  columns_.sets.Reset();
  columns_.graphs.Reset();
  columns_.api.Reset();
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

MarkerNamer::Named FileLoader::NameMarker(uint32_t domain, uint32_t name, FileState* file) {
  FrameIds& ids = file->ids;
  const auto [at, added] = ids.markers.try_emplace({domain, name});
  if (added) {
    const auto text = [&ids](uint32_t id) {
      return id == 0 || id > ids.marker_names.size() ? std::string_view()
                                                     : std::string_view(*ids.marker_names[id - 1]);
    };
    at->second = marker_namer_.Intern(MarkerKind::kNvtx, text(domain), text(name));
  }
  return at->second;
}

// Ranges whose other end never comes (they were open at the end, or it was lost) say nothing.
void FileLoader::LoadMarkers(const MarkerBatch& batch, const FrameHeader& header, FileState* file) {
  proto::MarkerColumns& columns = columns_.markers;
  proto::Decode(batch, header, &columns);
  for (size_t i = 0; i < columns.count; ++i) {
    const int64_t ns = columns.start_ns[i];
    const bool begins = (columns.flags[i] & MARKER_BEGIN) != 0;
    if (!begins && (columns.flags[i] & MARKER_END) == 0) continue;
    if (!Believable(ns, ns)) {
      ++impossible_records_;
      continue;
    }
    const auto known = file->open_markers.find(columns.correlation[i]);
    OpenMarker here = {{ns, ns, file->process, -1, -1, -1, 0}, begins};
    if (begins) {
      const MarkerNamer::Named named = NameMarker(columns.domain[i], columns.name[i], file);
      here.range.name = named.name;
      here.range.numbers = named.numbers;
      if (columns.thread[i] != 0) here.range.thread = ThreadOf(columns.thread[i], file);
    }
    if (known == file->open_markers.end() || known->second.begun == begins) {
      if (file->open_markers.size() < kMostOpenMarkers) {
        file->open_markers[columns.correlation[i]] = here;
      }
      continue;
    }
    MarkerRange range = begins ? here.range : known->second.range;
    range.end_ns = begins ? known->second.range.begin_ns : ns;
    file->open_markers.erase(known);
    if (Believable(range.begin_ns, range.end_ns)) {
      run_->timeline.markers.push_back(range);
    } else {
      ++impossible_records_;
    }
  }
}

}  // namespace gpuprobe::tools
